"""Situations of recovery: what each level forgets and keeps, what is asked meanwhile, and that nothing ends or grows by count."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from nightcrew.core import reducer
from nightcrew.core.effects import (
    CollectWork,
    Effect,
    EmitCompletionMarkerAndTerminate,
    Land,
    MakeCommit,
    PrepareWorkspace,
    RescueWork,
    ResetWorkspace,
    StartTurn,
    SyncBase,
    Timer,
)
from nightcrew.core.events import (
    Asked,
    CancelAsked,
    CompletionMarkerEmitted,
    DevFixAgentUnavailable,
    DevFixCompleted,
    DevFixSkipped,
    DevFixTriggered,
    EffectStarted,
    Entry,
    Event,
    LandingRefused,
    Noted,
    ParkAsked,
    Record,
    RecoveryAttempted,
    RecoverySucceeded,
    ResumeAsked,
    StepFailed,
    TurnEnded,
    WorkspaceReset,
)
from nightcrew.core.ids import Label, SeatKey
from nightcrew.core.roster import AgentRole
from nightcrew.core.settings import Ladder, Pipeline
from nightcrew.core.state import RunState, Trouble, Validating
from nightcrew.core.work import Claim, Class, Failure, PipelinePhase, Purpose
from support.world import Sim, World, bad, good, story

P = PipelinePhase
SOLO = Pipeline(plan=False)


def trouble(sim: Sim) -> Trouble:
    """The trouble the run is in."""
    assert sim.state.trouble is not None
    return sim.state.trouble


def attempts(sim: Sim) -> list[tuple[int, int, P]]:
    """Each recovery: attempt, level, target."""
    return [(a.attempt_count, a.level, a.target_phase) for a in sim.facts(RecoveryAttempted)]


def until(n: int) -> Callable[[Sim], bool]:
    """Stop after that many recoveries."""
    return lambda sim: len(sim.facts(RecoveryAttempted)) >= n


def hopeless(**more: Any) -> Sim:
    """A run whose developer refuses for ever and whose repairs change nothing."""
    told: dict[str, Any] = {"roster": "alpha", "pipeline": SOLO, **more}
    sim = Sim(story(**told))
    sim.fails("alpha", bad(Class.Refused, "I will not"), node="implement")
    sim.fails("alpha", good(), node="dev-fix")
    return sim


def red_gate(**more: Any) -> Sim:
    """A run whose gate is always red."""
    told: dict[str, Any] = {"pipeline": Pipeline(plan=False, gate_fix_rounds=0), **more}
    return Sim(story(**told), World(red={Purpose.Gate: lambda _tree: 1}))


def after(sim: Sim, n: int) -> list[Effect]:
    """The effects started after the n-th recovery (from 1) and before the next."""
    places = [i for i, entry in enumerate(sim.entries) if isinstance(entry.event, RecoveryAttempted)]
    last = places[n] if n < len(places) else len(sim.entries)
    return [e.event.effect for e in sim.entries[places[n - 1] : last] if isinstance(e.event, EffectStarted)]


def fold(state: RunState, *events: Event) -> RunState:
    """The state after those facts."""
    for event in events:
        state = reducer.reduce(state, Entry(state.seq + 1, state.at + 1, event))
    return state


def hurt(phase: P, role: str = "developer", **fields: Any) -> Trouble:
    """A failure in that phase."""
    failure = Failure(phase=phase, role=role, kind="crashed", reason="it crashed")
    return structs.replace(Trouble(failure=failure, failed_phase=phase, furthest=phase), **fields)


def decided(state: RunState) -> list[Event]:
    """The decision that is due."""
    return [wanted.event for wanted in reducer.wanted(state) if isinstance(wanted, Record)]


# ── what a level forgets ──────────────────────────────────────────────────────────────────────────────────────────


def test_level_two_of_planning() -> None:
    """S026: Planning fails four times: at level 2 nothing of what it had prepared is left, and it begins with its workspace."""
    sim = Sim(story(pipeline=Pipeline()))
    sim.says(PrepareWorkspace, lambda effect: StepFailed(key=effect.key, reason="no"), times=4, seat="plan")
    sim.run(until=until(4))
    assert attempts(sim)[-1] == (4, 2, P.Planning)
    assert (sim.state.planned, sim.state.plan, sim.state.calls) == (False, None, {})
    assert sim.run().state.phase is P.Complete


def test_conversations_at_each_level() -> None:
    """S029, S033, S034: level 1 keeps all, level 2 gives up the failed phase's alone and no epoch, level 3 all, in a new epoch."""
    sim = red_gate(fixer="beta", pipeline=Pipeline(plan=False, gate_fix_rounds=1))
    sim.run(until=until(1))
    one = sim.state.seats
    assert one[SeatKey("fix")].reported
    sim.run(until=until(4))
    assert sim.state.recovery_epoch == 0
    assert sim.state.seats[SeatKey("fix")].reported == ""
    assert sim.state.seats[SeatKey("impl-A")] == one[SeatKey("impl-A")]
    sim.run(until=until(7))
    assert (any(seat.reported for seat in sim.state.seats.values()), sim.state.recovery_epoch) == (False, 1)


def test_level_two_forgets_its_own_phase_alone() -> None:
    """S048: the gate's progress is gone; the plan, the candidate and the review are kept."""
    sim = red_gate(pipeline=Pipeline(gate_fix_rounds=0))
    sim.fails("alpha", good(), node="dev-fix")
    sim.run(until=lambda s: s.state.trouble is not None)
    before = sim.state
    sim.run(until=until(4))
    now = sim.state
    assert now.validating == Validating(fresh=True)
    assert (now.plan, now.reviewing, now.preflight) == (before.plan, before.reviewing, before.preflight)
    assert now.candidates.keys() == before.candidates.keys()


def test_level_three_in_the_middle_of_second_chances() -> None:
    """S049: two retries into a call: after level 3 no call is half done, and as many retries are allowed as before."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.fails("alpha", bad(Class.Network), node="implement", times=2)
    sim.run(until=lambda s: any(call.tries == 2 for call in s.state.calls.values()))
    state = structs.replace(sim.state, trouble=hurt(P.Development, attempts=7, level=3), phase=P.AwaitingDevFix)
    state = fold(state, RecoveryAttempted(level=3, attempt_count=7, target_phase=P.Development))
    assert (state.calls, state.crashes) == ({}, {})
    assert state.settings == sim.state.settings


def test_back_in_the_phase_its_own_work_is_due() -> None:
    """S082, S091: at level 2 one reset of the workspace, then the phase's first effect, never another reset."""
    sim = hopeless().run(until=until(4))
    assert attempts(sim)[3] == (4, 2, P.Development)
    sim.run(until=until(5))
    effects = [e for e in after(sim, 4) if e.node != "dev-fix"]
    assert [type(e) for e in effects[:2]] == [ResetWorkspace, StartTurn]
    assert effects[1].node == "implement"
    assert len([e for e in effects if isinstance(e, ResetWorkspace)]) == 1


def test_level_four_is_the_base_for_ever() -> None:
    """S084, S087: the twelfth and the thirtieth attempt begin at the base the run was started on."""
    sim = red_gate().run(until=until(31))
    assert {level for n, level, _ in attempts(sim) if n >= 10} == {4}
    resets = [after(sim, n)[0] for n in (12, 30)]
    assert [(type(e), getattr(e, "start", "")) for e in resets] == [(ResetWorkspace, "c0")] * 2


# ── who failed, and where the way out leads ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("phase", [P.Judging, P.Review, P.FinalValidation, P.CommitMessage, P.Landing])
def test_what_a_phase_needs_is_missing(phase: P) -> None:
    """S062: no winner where one is needed: a failure of that phase, said as what is missing."""
    sim = Sim(story()).run(until=lambda s: bool(s.state.candidates))
    state = structs.replace(sim.state, phase=phase, winner=Label(""), candidates={}, open={})
    state = fold(state, Noted(text="x"))
    assert state.phase is P.AwaitingDevFix
    assert state.trouble is not None
    assert (state.trouble.failed_phase, state.trouble.failure.kind) == (phase, "missing")


def test_the_trigger_names_what_failed() -> None:
    """S079: the message failed and the phase before was another: the trigger names CommitMessage and its role."""
    state = structs.replace(Sim(story()).state, phase=P.AwaitingDevFix, open={})
    state = structs.replace(state, trouble=hurt(P.CommitMessage, "committer"))
    assert decided(state) == [DevFixTriggered(failed_phase=P.CommitMessage, failed_role=AgentRole.Committer)]


def test_without_a_trouble_nothing_is_remembered() -> None:
    """S068, S088: in AwaitingDevFix with nothing known, whatever phase it came from, the way out is Development."""
    sim = Sim(story()).run(until=lambda s: s.state.phase is P.Review)
    state = structs.replace(sim.state, phase=P.AwaitingDevFix, open={})
    assert decided(state) == [RecoveryAttempted(level=1, attempt_count=0, target_phase=P.Development)]


def test_the_developer_repairs_what_others_failed_at() -> None:
    """S106: the reviewers' chain failed: exactly one dev-fix call, to the developer, whoever sits on other chains."""
    sim = Sim(story(roster="alpha beta gamma", developer="gamma", reviewer="beta", committer="alpha", pipeline=SOLO))
    sim.fails("beta", bad(Class.Refused), node="review", times=1)
    sim.run()
    assert sim.asked("dev-fix") == ["gamma"]
    assert sim.state.phase is P.Complete


def test_an_agent_that_cannot_start_is_no_exception() -> None:
    """S073, S105: the only program vanished: each dev-fix is completed without success, no marker, and the pauses grow."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.fails("alpha", bad(Class.ConfigError, "no such program"))
    sim.run(until=until(9))
    assert {fact.success for fact in sim.facts(DevFixCompleted)} == {False}
    assert sim.started(EmitCompletionMarkerAndTerminate) == []
    assert sim.asked("implement") == ["alpha"] * 9
    spans = [timer.span_s for timer in sim.started(Timer)]
    assert spans == sorted(spans)
    assert len(spans) == 6


def test_the_last_agents_timeout_ends_the_walk() -> None:
    """S157: both agents of the chain hit their limits: each was asked once, there is no second cycle, recovery decides."""
    sim = Sim(story(roster="alpha beta", pipeline=SOLO))
    for agent in ("alpha", "beta"):
        sim.fails(agent, bad(Class.Timeout), node="implement")
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.asked("implement") == ["alpha", "beta"]
    assert trouble(sim).failure.exhausted == "developer"


# ── iterations, commits, landings ─────────────────────────────────────────────────────────────────────────────────


def test_what_recovers_in_an_iteration_goes_on_with_the_next() -> None:
    """S102, S126: the second of three iterations fails and recovers: the third is planned next; one marker, at the end."""
    sim = Sim(story(roster="alpha", pipeline=Pipeline(iterations=3)))
    sim.run(until=lambda s: s.state.iteration == 1 and s.state.phase is P.Development)
    sim.fails("alpha", bad(Class.Refused), node="implement", times=1)
    sim.run(until=lambda s: bool(s.facts(RecoverySucceeded)))
    assert sim.started(EmitCompletionMarkerAndTerminate) == []
    sim.run(until=lambda s: s.state.iteration == 2)
    assert sim.state.phase is P.Planning
    sim.run()
    assert [e.is_failure for e in sim.started(EmitCompletionMarkerAndTerminate)] == [False]
    assert len(sim.started(MakeCommit)) == 1


def test_iterations_make_one_commit() -> None:
    """S222: the second iteration works on the first's result, and what lands is one commit of both."""
    sim = Sim(story(pipeline=Pipeline(iterations=2)))
    sim.run(until=lambda s: s.state.iteration == 1)
    (first,) = sim.state.iterations
    sim.run()
    (winner,) = sim.state.candidates.values()
    assert winner.start == "c0"
    assert winner.change.tree != first.change.tree
    assert (len(sim.started(MakeCommit)), len(sim.started(Land))) == (1, 1)


def test_a_push_that_is_refused_again_and_again() -> None:
    """S223: fixed in rounds, then a failure for recovery; nothing is put aside, and it lands once it is taken."""
    sim = Sim(story(land="push", pipeline=Pipeline(plan=False, land_rounds=2)))
    sim.says(Land, lambda e: LandingRefused(key=e.key, why="rejected", detail="no"), times=3)
    sim.run()
    assert len([t for t in sim.started(StartTurn) if t.node == "land"]) == 2
    assert [n for n, *_ in attempts(sim)] == [1]
    assert sim.state.landing is not None
    assert sim.facts(RecoverySucceeded) == [RecoverySucceeded(level=1, total_attempts=1)]


# ── ends ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_end_rescues_and_commits_nothing() -> None:
    """S220, S221: cancelled: each workspace is rescued once, a failing rescue holds nothing up, and no commit is made."""
    sim = Sim(story(pipeline=Pipeline())).run(until=lambda s: s.state.phase is P.Review and len(s.state.workspaces) > 1)
    seats = list(sim.state.workspaces)
    sim.says(RescueWork, lambda e: StepFailed(key=e.key, reason="git failed"), times=1)
    at = len(sim.entries)
    sim.put(CancelAsked())
    sim.run()
    later = [e.event.effect for e in sim.entries[at:] if isinstance(e.event, EffectStarted)]
    assert [e.seat for e in later if isinstance(e, RescueWork)] == seats
    assert {type(e) for e in later} == {RescueWork, EmitCompletionMarkerAndTerminate}
    assert len(sim.facts(CompletionMarkerEmitted)) == 1


NINE: tuple[Event, ...] = (
    DevFixTriggered(failed_phase=P.Review, failed_role=AgentRole.Reviewer),
    DevFixSkipped(reason="disabled"),
    DevFixCompleted(success=True),
    DevFixAgentUnavailable(failed_phase=P.Review, reason="quota"),
    RecoveryAttempted(level=4, attempt_count=100, target_phase=P.Development),
    RecoverySucceeded(level=1, total_attempts=2),
)


@pytest.mark.parametrize("event", NINE, ids=lambda event: type(event).__name__)
def test_what_is_over_stays_over(event: Event) -> None:
    """S232: no fact of the loop brings a finished or cancelled run back, and nothing is wanted of it."""
    for words in ((), (CancelAsked(),)):
        sim = Sim(story())
        sim.put(*words)
        state = fold(sim.run().state, event)
        assert state.phase is sim.state.phase
        assert reducer.wanted(state) == ()


# ── waiting, parking, restarting ──────────────────────────────────────────────────────────────────────────────────


def test_a_quota_for_ever_costs_few_processes() -> None:
    """R28: one agent, a spent quota, a first pause of a minute: at most three processes in 147 seconds; between them only waits."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    asked_at: list[float] = []

    def spent(effect: StartTurn) -> TurnEnded:
        asked_at.append(sim.world.at)
        return TurnEnded(key=effect.key, outcome=bad(Class.Quota, "usage limit"))

    sim.says(StartTurn, spent)
    sim.run(until=until(5))
    assert len([at for at in asked_at if at - asked_at[0] <= 147.0]) <= 3
    assert [type(e) for e in after(sim, 3)] == [StartTurn, CollectWork, Timer]


@pytest.mark.parametrize(("kind", "spans"), [(Class.Billing, [900.0, 1_800.0, 3_600.0]), (Class.Quota, [60.0, 120.0, 240.0])])
def test_how_long_a_spent_agent_is_waited_for(kind: Class, spans: list[float]) -> None:
    """S241: a quota without a reset is asked about after a minute, doubling; missing money on the slow schedule, and a person is told."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.fails("alpha", bad(kind, "spent"), node="implement")
    sim.run(until=until(3))
    assert [timer.span_s for timer in sim.started(Timer)] == spans
    assert bool(sim.state.questions) == (kind is Class.Billing)


def test_a_trouble_goes_through_a_park_and_a_restart() -> None:
    """S137, S139: parked at level 3 and read back from its bytes: count, level, epoch, failed phase and park; resumed, not parked."""
    sim = hopeless().run(until=until(8))
    sim.run(until=lambda s: s.state.phase is P.AwaitingDevFix)
    sim.put(ParkAsked())
    first = sim.entries[0].event
    again = Sim(first, sim.world)  # type: ignore[arg-type]
    again.put(*(entry.event for entry in sim.entries[1:]))
    now = trouble(again)
    told = (now.attempts, now.level, again.state.recovery_epoch, now.failed_phase, again.state.parked)
    assert told == (8, 3, 2, P.Development, True)
    again.put(ResumeAsked())
    assert (again.state.parked, again.state.trouble) == (False, now)


def test_the_same_facts_give_the_same_state() -> None:
    """S207: folded twice, a run with a trouble in it is the same to the byte."""
    sim = red_gate().run(until=until(7))
    states = []
    for _ in range(2):
        state = reducer.begin(sim.entries[0])
        for entry in sim.entries[1:]:
            state = reducer.reduce(state, entry)
        states.append(state)
    assert states[0] == states[1] == sim.state
    assert msgspec.json.encode(states[0]) == msgspec.json.encode(states[1])


# ── nothing grows, nothing hides ──────────────────────────────────────────────────────────────────────────────────


def test_a_hundred_times_the_same() -> None:
    """R06, S103, S229: the same failure a hundred times: asked about once, still told, no end, and the state as small as before."""
    sim = hopeless(ladder=Ladder(dev_fix=False)).run(until=until(50))
    size = len(msgspec.json.encode(sim.state))
    sim.run(until=until(100), limit=5_000)
    assert len(msgspec.json.encode(sim.state)) <= size * 1.05
    assert len(sim.facts(Asked)) == 1
    assert trouble(sim).failure.reason == "I will not"
    assert sim.state.phase is not P.Interrupted


KINDS = st.sampled_from([kind for kind in Class if kind is not Class.Ok])


@given(st.lists(st.one_of(KINDS, st.sampled_from(["continue", "shapeless"])), max_size=15))
def test_second_chances_stay_within_bounds(script: list[Class | str]) -> None:
    """S206: whatever agents answer in whatever order, no call has more retries and no lane more continuations than allowed."""
    sim = Sim(story(roster="alpha beta", pipeline=Pipeline(plan=False, continuations=2)))
    told = iter(script)

    def answer(effect: StartTurn) -> Event:
        word = next(told, None)
        if word is None:
            return sim.world.ordinary(effect)
        claim = Claim("continue") if word == "continue" and effect.reads == "implement" else None
        outcome = bad(word) if isinstance(word, Class) else good(claim, session="s")
        return TurnEnded(key=effect.key, outcome=outcome)

    sim.says(StartTurn, answer)

    def bounded(s: Sim) -> bool:
        pipeline = s.state.settings.pipeline
        for call in s.state.calls.values():
            assert call.tries <= pipeline.retries
            assert call.reasked <= 2
            assert call.cold <= 1
        assert all(lane.turns <= pipeline.continuations + 1 for lane in s.state.lanes.values())
        return s.state.trouble is not None

    sim.run(until=bounded)


def test_a_landing_set_back_begins_with_the_tip() -> None:
    """S082: level 2 of a landing: one reset, then the target's tip is looked at again, then the gate."""
    sim = Sim(story(pipeline=SOLO))
    sim.says(Land, lambda effect: StepFailed(key=effect.key, reason="no route"), times=4)
    sim.fails("alpha", good(), node="dev-fix")
    sim.run()
    effects = after(sim, 4)
    assert [type(e) for e in effects[:2]] == [ResetWorkspace, SyncBase]
    assert len(sim.facts(WorkspaceReset)) == 1
    assert sim.state.phase is P.Complete

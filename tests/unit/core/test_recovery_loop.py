"""The recovery loop as a run lives through it: entry, attempts, levels, pauses, the way back, the end of a trouble."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from nightcrew.core.brief import small
from nightcrew.core.effects import (
    CollectWork,
    DropWorkspaces,
    Effect,
    Land,
    MakeCommit,
    PrepareWorkspace,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    Timer,
)
from nightcrew.core.events import (
    Answered,
    Asked,
    ChainReset,
    CommitRefused,
    DevFixAgentUnavailable,
    DevFixCompleted,
    DevFixSkipped,
    DevFixTriggered,
    EffectStarted,
    Entry,
    HandlerCrashed,
    RecoveryAttempted,
    RecoveryEscalated,
    RecoverySucceeded,
    StepFailed,
    TimerFired,
    TurnEnded,
    WorkCollected,
    WorkspaceLost,
    WorkspaceReset,
)
from nightcrew.core.ids import AgentId, Commit, Tree
from nightcrew.core.settings import Ladder, Pipeline, Verify
from nightcrew.core.state import Trouble
from nightcrew.core.work import Class, Finding, PipelinePhase, Purpose, Reviewed, Severity, Vote
from support.world import GATE, Sim, World, bad, good, story

P = PipelinePhase
CHAIN = (RecoveryEscalated, ChainReset, RecoveryAttempted)


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
    told: dict[str, Any] = {"roster": "alpha", "pipeline": Pipeline(plan=False), **more}
    sim = Sim(story(**told))
    sim.fails("alpha", bad(Class.Refused, "I will not"), node="implement")
    sim.fails("alpha", good(), node="dev-fix")
    return sim


def red_gate(**more: Any) -> Sim:
    """A run whose gate is always red and whose fixers change nothing that helps."""
    told: dict[str, Any] = {"pipeline": Pipeline(plan=False, gate_fix_rounds=0), **more}
    return Sim(story(**told), World(red={Purpose.Gate: lambda _tree: 1}))


def next_effects(sim: Sim, n: int) -> list[Effect]:
    """The effects started after the n-th recovery (from 1)."""
    places = [i for i, entry in enumerate(sim.entries) if isinstance(entry.event, RecoveryAttempted)]
    later = (entry.event for entry in sim.entries[places[n - 1] :])
    return [event.effect for event in later if isinstance(event, EffectStarted)]


# ── entry ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_exhausted_chain_enters_recovery() -> None:
    """S060, R01: the only agent fails: the phase is AwaitingDevFix, the trigger is due, the failed role is kept."""
    sim = hopeless().run(until=lambda s: s.state.trouble is not None)
    assert sim.state.phase is P.AwaitingDevFix
    assert not trouble(sim).triggered
    assert sim.record() == DevFixTriggered(failed_phase=P.Development, failed_role="developer")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "phase"),
    [(PrepareWorkspace, P.Planning), (CollectWork, P.Development), (SyncBase, P.Review), (MakeCommit, P.CommitMessage)],
)
def test_a_failed_step_enters_recovery(kind: type[Effect], phase: P) -> None:
    """S063, S064: a git or file step that fails for good is a terminal failure of its phase."""
    sim = Sim(story())
    sim.says(kind, lambda effect: StepFailed(key=effect.key, reason="no space"), times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert (trouble(sim).failed_phase, trouble(sim).triggered) == (phase, False)
    assert sim.run().state.phase is P.Complete


def test_a_transient_step_is_made_twice_more() -> None:
    """What may pass is tried again at once, at most twice; then it is a failure."""
    sim = Sim(story())
    sim.says(CollectWork, lambda effect: StepFailed(key=effect.key, reason="locked", transient=True), times=2)
    assert sim.run().facts(DevFixTriggered) == []
    sim = Sim(story())
    sim.says(CollectWork, lambda effect: StepFailed(key=effect.key, reason="locked", transient=True), times=3)
    assert len(sim.run().facts(DevFixTriggered)) == 1


def test_our_own_bug_is_not_the_users() -> None:
    """A crashed handler is tried twice more; then the ladder goes on without paying any agent."""
    sim = Sim(story())
    sim.says(CollectWork, lambda effect: HandlerCrashed(key=effect.key, reason="KeyError: 7", traceback=small("…")), times=3)
    sim.run()
    assert sim.facts(DevFixSkipped) == [DevFixSkipped(reason="internal error: CollectWork: KeyError: 7")]
    assert sim.asked("dev-fix") == []
    assert sim.state.phase is P.Complete


def test_a_failure_in_recovery_keeps_the_first() -> None:
    """R12, S066, S067, S077: a dev-fix that fails is an attempt; failed phase, count and level are the first failure's."""
    sim = red_gate()
    sim.says(CollectWork, lambda effect: StepFailed(key=effect.key, reason="broken"), times=1, node="dev-fix")
    sim.run(until=lambda s: bool(s.facts(DevFixCompleted)))
    assert sim.facts(DevFixCompleted)[0].success is False
    assert (trouble(sim).failed_phase, trouble(sim).attempts, trouble(sim).level) == (P.FinalValidation, 1, 1)


def test_a_setup_that_fails_is_repaired_where_it_failed() -> None:
    """A failure before there is any candidate: the dev-fix works in the prepared workspace, and its commit stays below the work."""
    sim = Sim(story(verify=Verify(setup=("make deps",), gate=(GATE,))))
    sim.world.red[Purpose.Setup] = lambda tree: 1 if tree == "tree of c0" else 0
    sim.run()
    assert sim.asked()[0] == "alpha"
    assert sim.facts(RecoverySucceeded) == [RecoverySucceeded(level=1, total_attempts=1)]
    (candidate,) = sim.state.candidates.values()
    assert candidate.start != "c0"
    assert sim.state.landing is not None


# ── order of work ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_order_of_one_attempt() -> None:
    """S078, S081, S104, S110: triggered, one turn of the developer in the workspace that failed, completed, attempted."""
    sim = red_gate().run(until=until(1))
    kinds = (DevFixTriggered, EffectStarted, DevFixCompleted, RecoveryAttempted)
    facts = [f for f in sim.facts(*kinds) if not isinstance(f, EffectStarted) or f.effect.node == "dev-fix"]
    assert [type(f.effect if isinstance(f, EffectStarted) else f) for f in facts] == [
        DevFixTriggered,
        StartTurn,
        CollectWork,
        DevFixCompleted,
        RecoveryAttempted,
    ]
    turn = facts[1].effect
    assert (turn.role, turn.slot) == ("developer", sim.state.slot(sim.state.winning.seat) if sim.state.winning else "")
    assert attempts(sim) == [(1, 1, P.FinalValidation)]


def test_without_dev_fix_the_ladder_goes_on() -> None:
    """S009, R07: switched off, each attempt is skipped and counted, and no agent is asked for it."""
    sim = red_gate(ladder=Ladder(dev_fix=False)).run(until=until(10))
    assert sim.asked("dev-fix") == []
    assert {f.reason for f in sim.facts(DevFixSkipped)} == {"disabled"}
    assert [(n, level) for n, level, _ in attempts(sim)] == [(n, [1, 1, 1, 2, 2, 2, 3, 3, 3, 4][n - 1]) for n in range(1, 11)]


def test_the_agents_belief_decides_nothing() -> None:
    """R24: a repair that says it succeeded and did not is attempt 1; the same failure again is attempt 2."""
    sim = red_gate().run(until=until(2))
    assert [f.success for f in sim.facts(DevFixCompleted)] == [True, True]
    assert [n for n, *_ in attempts(sim)] == [1, 2]


def test_a_repaired_environment_is_enough() -> None:
    """R23: the repair changed no file, the retry of the same gate passes, and the trouble is over at level 1."""
    sim = red_gate()
    sim.fails("alpha", good(session="s"), node="dev-fix", times=1)
    sim.run(until=until(1))
    sim.world.red.clear()
    sim.run()
    assert sim.facts(RecoverySucceeded) == [RecoverySucceeded(level=1, total_attempts=1)]
    gate = next(e for e in next_effects(sim, 1) if isinstance(e, RunCommands))
    assert next_effects(sim, 1)[0] == gate
    assert gate.tree == ""


def test_a_repair_of_the_work_is_reviewed_once() -> None:
    """A repair after the review makes one more review due and uses no round; then e2e, the gate, and the landing."""
    sim = Sim(story(pipeline=Pipeline(plan=False, gate_fix_rounds=0), verify=Verify(gate=(GATE,), e2e=("make e2e",))))
    sim.world.red[Purpose.Gate] = lambda tree: 1 if tree == "tree of c2" else 0
    sim.run()
    after = [e.node for e in next_effects(sim, 1)]
    assert after[:4] == ["workspace", "review", "e2e", "gate"]
    assert sim.state.reviewing.granted == 1
    assert sim.facts(RecoverySucceeded) == [RecoverySucceeded(level=1, total_attempts=1)]


def test_success_ends_the_count() -> None:
    """R14, S054: recovered at attempt 2 says level 1, total 2; a later failure begins at attempt 1 again."""
    sim = red_gate()
    sim.run(until=until(2))
    sim.world.red.clear()
    sim.says(MakeCommit, lambda effect: StepFailed(key=effect.key, reason="broken"), times=1)
    sim.run()
    assert sim.facts(RecoverySucceeded) == [
        RecoverySucceeded(level=1, total_attempts=2),
        RecoverySucceeded(level=1, total_attempts=1),
    ]
    assert [n for n, *_ in attempts(sim)] == [1, 2, 1]


@pytest.mark.parametrize("rounds", [0, 1, 2])
def test_a_refused_commit_is_over_when_the_commit_exists(rounds: int) -> None:
    """S097: a hook that refuses for ever, whether a fixer may try or changes nothing: the gate's being green ends nothing, the level rises."""
    sim = Sim(story(pipeline=Pipeline(plan=False, gate_fix_rounds=rounds)))
    if rounds == 2:
        sim.fails("alpha", good(), node="gate-fix")
    sim.says(MakeCommit, lambda effect: CommitRefused(key=effect.key, output=small("no"), code=1, hook="pre-commit"))
    sim.run(until=until(5))
    assert sim.facts(RecoverySucceeded) == []
    assert [level for _, level, _ in attempts(sim)] == [1, 1, 1, 2, 2]
    sim.world.faults.clear()
    assert sim.run().facts(RecoverySucceeded) == [RecoverySucceeded(level=2, total_attempts=5)]


def test_what_landed_is_not_done_again_to_clear_away() -> None:
    """Workspaces that cannot be given back, after the landing: the run is complete, nobody is asked again; `clean` has them."""
    sim = Sim(story(pipeline=Pipeline(plan=False)))
    sim.says(DropWorkspaces, lambda effect: StepFailed(key=effect.key, reason="a lock is held"))
    sim.run()
    assert sim.state.phase is PipelinePhase.Complete
    assert sim.state.landing is not None
    assert sim.facts(RecoveryAttempted) == []


def test_an_old_repair_on_top_of_a_reset_is_tested_too() -> None:
    """Set back to where the commit was to be made, with the repairs of before on top, the work goes through the gate again."""
    sim = Sim(story(pipeline=Pipeline(plan=False, gate_fix_rounds=0)))
    sim.says(MakeCommit, lambda effect: CommitRefused(key=effect.key, output=small("no"), code=1), times=4)
    sim.run(until=until(3))
    sim.fails("alpha", good(session="s"), node="dev-fix")
    sim.run()
    assert [level for _, level, _ in attempts(sim)] == [1, 1, 1, 2]
    assert [type(e) for e in next_effects(sim, 4)][:3] == [ResetWorkspace, SyncBase, RunCommands]
    assert sim.facts(RecoverySucceeded) == [RecoverySucceeded(level=2, total_attempts=4)]


# ── level 1 ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_level_one_resets_nothing() -> None:
    """R02, S036: three attempts at level 1, each into the failed phase, nothing reset, no pause."""
    sim = red_gate().run(until=until(3))
    assert attempts(sim) == [(n, 1, P.FinalValidation) for n in (1, 2, 3)]
    assert sim.facts(RecoveryEscalated) == []
    assert sim.started(ResetWorkspace, Timer) == []


def test_level_one_keeps_the_review() -> None:
    """R13: back in Review, round, findings and the reviews so far are as before."""
    sim = Sim(story(pipeline=Pipeline(plan=False), fixer="beta"))
    sim.fails("alpha", good(Reviewed(Vote.Reject, (Finding(Severity.Blocker, "wrong"),))), node="review", times=1)
    sim.fails("beta", bad(Class.Refused), node="fix", times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    before = sim.state.reviewing
    sim.run(until=until(1))
    sim.settle()
    assert sim.state.phase is P.Review
    assert sim.state.reviewing == before
    assert [f.id for f in before.open] == ["R1-1-1"]


def test_level_one_grants_one_round() -> None:
    """A budget that ran out gets exactly one more round; one that did not run out gets none."""
    sim = Sim(story(pipeline=Pipeline(plan=False, gate_fix_rounds=2)), World(red={Purpose.Gate: lambda _t: 1}))
    sim.run(until=until(3))
    assert len([t for t in sim.started(StartTurn) if t.node == "gate-fix"]) == 2 + 2
    assert sim.state.validating.granted == 3


def test_an_exhausted_chain_begins_at_its_front() -> None:
    """R22: at level 1 the exhausted chain is reset by a record, and its first entry is asked again."""
    sim = Sim(story(fixer="beta gamma", pipeline=Pipeline(plan=False)), World(red={Purpose.Gate: lambda _t: 1}))
    for agent in ("beta", "gamma"):
        sim.fails(agent, bad(Class.Refused, f"{agent} refuses"), node="gate-fix", times=1)
    sim.run(until=until(1))
    assert sim.facts(ChainReset) == [ChainReset(chain="fixer", handovers_before=1)]
    sim.run(until=lambda s: len(s.asked("gate-fix")) == 3)
    assert sim.asked("gate-fix") == ["beta", "gamma", "beta"]


# ── levels 2 to 4 ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_every_level_at_its_attempt() -> None:
    """S135, R03: levels by attempt, and an escalation exactly at 4, 7 and 10, before its recovery."""
    sim = hopeless().run(until=until(12))
    assert [level for _, level, _ in attempts(sim)] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    raised = [(e.from_level, e.to_level) for e in sim.facts(RecoveryEscalated)]
    assert raised == [(1, 2), (2, 3), (3, 4)]
    facts = sim.facts(DevFixCompleted, *CHAIN)
    places = [n for n, fact in enumerate(facts) if isinstance(fact, RecoveryEscalated)]
    assert [facts[n + 1 :][[type(f) for f in facts[n + 1 :]].index(RecoveryAttempted)].attempt_count for n in places] == [
        4,
        7,
        10,
    ]
    assert {type(facts[n - 1]) for n in places} == {DevFixCompleted}
    assert trouble(sim).attempts == 12


def test_level_two_goes_to_the_start_of_the_phase() -> None:
    """R03, S037, S047: the workspace is reset first, with the repairs on top; the other phases' results are kept."""
    sim = red_gate().run(until=until(4))
    sim.settle()
    (reset,) = (e for e in next_effects(sim, 4)[:1] if isinstance(e, ResetWorkspace))
    made = [f.change.head for f in sim.facts(WorkCollected) if "/dev-fix/" in f.key]
    assert (reset.start, reset.repairs) == ("c2", tuple(dict.fromkeys(made)))
    assert len(made) == 4
    assert (sim.state.phase, sim.state.iteration, sim.state.recovery_epoch) == (P.FinalValidation, 0, 0)
    assert sim.state.validating.rounds == 0
    assert sim.state.winning is not None


def test_level_two_in_development_starts_from_the_base() -> None:
    """Level 2: lanes, candidate and conversation are gone, and the first turn is asked with the full context."""
    sim = hopeless()
    sim.fails("alpha", good(), node="dev-fix")
    sim.run(until=until(4))
    sim.run(until=lambda s: s.asked("implement")[4:] != [])
    reset = next(e for e in next_effects(sim, 4) if isinstance(e, ResetWorkspace))
    assert (reset.start, reset.repairs) == ("c0", ())
    turns = [t for t in sim.started(StartTurn) if t.node == "implement"]
    assert len({t.session for t in turns}) == len(turns)
    assert len(turns[-1].brief.parts) >= len(turns[0].brief.parts)


def test_a_reset_comes_before_all_else() -> None:
    """Nothing of the target phase starts before its workspace is reset, however often the reset fails."""
    sim = red_gate()
    sim.says(ResetWorkspace, lambda effect: StepFailed(key=effect.key, reason="busy", transient=True), times=2)
    sim.run(until=until(4))
    sim.run(until=lambda s: bool(s.facts(WorkspaceReset)))
    assert [type(e) for e in next_effects(sim, 4)][:3] == [ResetWorkspace] * 3


def test_level_two_keeps_the_review_round() -> None:
    """S043, S024: the round that was reached is kept, its answers are not, its budget is whole."""
    sim = Sim(story(pipeline=Pipeline(plan=False, review_rounds=3), fixer="beta"))
    sim.fails("alpha", good(Reviewed(Vote.Reject, (Finding(Severity.Blocker, "wrong"),))), node="review")
    sim.fails("beta", bad(Class.Refused), node="fix")
    sim.run(until=until(4))
    assert (sim.state.phase, sim.state.reviewing.round, sim.state.reviewing.reviews) == (P.Review, 1, {})
    assert sim.state.reviewing.open == ()
    assert {chain.chain for chain in sim.facts(ChainReset)} == {"fixer"}


def test_level_two_of_the_landing_tests_again() -> None:
    """R15: the landing restarts from fetching the tip; the winner is kept."""
    sim = Sim(story(pipeline=Pipeline(plan=False)))
    sim.says(Land, lambda effect: StepFailed(key=effect.key, reason="no route"))
    sim.fails("alpha", good(), node="dev-fix")
    sim.run(until=until(4))
    winner = sim.state.winner
    sim.run(until=lambda s: len(s.facts(RecoveryAttempted)) == 5)
    effects = [type(e) for e in next_effects(sim, 4)]
    assert effects[:2] == [ResetWorkspace, SyncBase]
    assert sim.state.winner == winner


def test_level_three_goes_back_one_iteration() -> None:
    """R04, S038: in iteration 2, attempts 7-9 go back to iteration 1 and begin with planning, in a new epoch."""
    sim = Sim(story(pipeline=Pipeline(iterations=3), roster="alpha"))
    sim.run(until=lambda s: s.state.iteration == 2 and s.state.phase is P.Development)
    began = sim.state.iterations
    sim.fails("alpha", good(), node="dev-fix")
    sim.fails("alpha", bad(Class.Refused, "no"), node="implement")
    sim.run(until=until(7))
    assert (sim.state.iteration, sim.state.phase, sim.state.recovery_epoch) == (1, P.Planning, 1)
    first, *rest = next_effects(sim, 7)
    sim.run(until=lambda s: len(next_effects(s, 7)) > 2)
    assert isinstance(first, ResetWorkspace)
    assert first.start == began[0].change.head
    assert first.branch == "nightcrew/a1b2/e1-A"
    assert [e.node for e in next_effects(sim, 7)][:3] == ["workspace", "workspace", "plan"]
    assert sim.state.candidates == {
        began[0].label: msgspec.structs.replace(began[0], change=sim.state.candidates[began[0].label].change)
    }
    del rest


@pytest.mark.parametrize("attempts", [4, 7])
def test_an_iteration_goes_on_in_the_workspace_there_is(attempts: int) -> None:
    """Set back to what an iteration began with, the work goes on in the slot its seat has now, not in one lost since."""
    sim = Sim(story(pipeline=Pipeline(iterations=3), roster="alpha"))
    sim.run(until=lambda s: s.state.iteration == 2 and s.state.phase is P.Development)
    sim.fails("alpha", good(), node="dev-fix")
    sim.fails("alpha", bad(Class.Refused, "no"), node="implement", times=attempts)
    sim.says(CollectWork, lambda e: WorkspaceLost(key=e.key, slot=e.slot, reason="gone"), times=1, node="implement")
    assert sim.run().state.phase is P.Complete
    assert len(sim.started(Land)) == 1


def test_level_three_never_goes_below_the_first() -> None:
    """R05, S032: at iteration 0 it stays 0, and every level-3 recovery begins a new epoch."""
    sim = hopeless().run(until=until(9))
    assert (sim.state.iteration, sim.state.recovery_epoch) == (0, 3)


def test_level_four_goes_back_to_the_base() -> None:
    """R06, S039, S046: iteration 0 from the run's first base, at attempt 10, 20 and 30, and never an end."""
    sim = Sim(story(pipeline=Pipeline(iterations=6), roster="alpha"))
    sim.run(until=lambda s: s.state.iteration == 5 and s.state.phase is P.Development)
    sim.fails("alpha", good(), node="dev-fix")
    sim.fails("alpha", bad(Class.Refused, "no"), node="implement")
    sim.run(until=until(9))
    assert sim.state.iteration == 2
    sim.run(until=until(30))
    assert (sim.state.iteration, sim.state.phase) == (0, P.Planning)
    assert {level for n, level, _ in attempts(sim) if n >= 10} == {4}
    resets = [e for n in (10, 20) for e in next_effects(sim, n)[:1]]
    assert [getattr(e, "start", "") for e in resets] == ["c0", "c0"]


def test_deep_levels_forget_everything_of_the_work() -> None:
    """S044, S045: after level 3 no review, gate, commit or landing of before is left, and no conversation."""
    sim = red_gate().run(until=until(7))
    state = sim.state
    assert (state.phase, state.winner, state.candidates) == (P.Development, "", {})
    assert not any(seat.turns or seat.reported for seat in state.seats.values())
    assert (state.gated, state.commit, state.open_findings, state.marks) == ("", "", (), {})
    assert (state.reviewing.round, state.validating.rounds) == (1, 0)
    sim.run(until=until(8))
    assert sim.asked("implement").count("alpha") == 2
    offered = [t.session for t in sim.started(StartTurn) if t.session]
    assert len(offered) == len(set(offered))


def test_the_repair_is_kept_through_every_level() -> None:
    """Every repair commit of the trouble is put on top of each reset; one that conflicts is left out and told of."""
    sim = red_gate()
    sim.says(
        ResetWorkspace,
        lambda effect: WorkspaceReset(key=effect.key, head=effect.start, tree=Tree("t"), skipped=effect.repairs[:1]),
        times=1,
    )
    sim.run(until=until(5))
    left_out = [r.left_out for r in trouble(sim).repairs]
    assert left_out == [True, False, False, False, False]
    first, second = sim.started(ResetWorkspace)[:2]
    assert second.repairs[:3] == first.repairs[1:4]
    turn = [t for t in sim.started(StartTurn) if t.node == "dev-fix"][-1]
    assert any("left out" in part.text for part in turn.brief.parts)


def test_at_the_last_level_the_repairs_are_one() -> None:
    """Rulings 27: from attempt 10 on the kept repairs are one; one that conflicts is told of in the next prompt, and then forgotten."""
    sim = red_gate().run(until=until(10))
    sim.says(
        ResetWorkspace,
        lambda effect: WorkspaceReset(key=effect.key, head=Commit("one"), tree=Tree("t"), skipped=effect.repairs[:1]),
        times=1,
    )
    made = [r.commit for r in trouble(sim).repairs]
    sim.run(until=lambda s: len(trouble(s).repairs) < 10)
    assert [(r.commit, r.left_out) for r in trouble(sim).repairs] == [(made[0], True), ("one", False)]
    sim.run(until=until(11))
    turn = [t for t in sim.started(StartTurn) if t.node == "dev-fix"][-1]
    assert any("left out" in part.text for part in turn.brief.parts)
    sim.run(until=lambda s: s.started(ResetWorkspace)[-1].repairs[:1] == ("one",) and not s.state.rewinds)
    assert len(trouble(sim).repairs) == 1
    assert all(len(r.summary) <= 400 for r in trouble(sim).repairs)


def test_no_change_compares_with_the_start_of_the_work() -> None:
    """A developer that changes nothing on top of a repair has changed nothing: the repair alone is no candidate."""
    sim = Sim(story(roster="alpha", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", good(), node="implement")
    sim.fails("alpha", good(), node="dev-fix", times=3)
    sim.run(until=until(6))
    assert trouble(sim).failure.kind == "no candidate"
    assert len(trouble(sim).repairs) == 3


# ── one trouble, several phases ───────────────────────────────────────────────────────────────────────────────────


def test_planning_that_succeeds_on_the_way_proves_nothing() -> None:
    """R25: Development fails for ever, planning always succeeds: one count up to level 4."""
    sim = hopeless(pipeline=Pipeline()).run(until=until(12))
    assert [n for n, *_ in attempts(sim)] == list(range(1, 13))
    assert sim.facts(RecoverySucceeded) == []
    assert attempts(sim)[-1] == (12, 4, P.Planning)


def test_another_phase_failing_on_the_way_is_the_same_trouble() -> None:
    """R26: after a level-3 reset an earlier phase fails too: the count goes on, and only Development ends it."""
    sim = hopeless(pipeline=Pipeline()).run(until=until(7))
    sim.says(PrepareWorkspace, lambda effect: StepFailed(key=effect.key, reason="no"), times=1, seat="plan")
    sim.says(ResetWorkspace, lambda effect: StepFailed(key=effect.key, reason="no"), times=1)
    sim.run(until=until(8))
    assert trouble(sim).furthest is P.Development
    assert attempts(sim)[-1][:2] == (8, 3)
    sim.world.faults.clear()
    sim.run()
    assert sim.facts(RecoverySucceeded) == [RecoverySucceeded(level=3, total_attempts=8)]


def test_two_phases_that_fail_in_turn_are_one_trouble() -> None:
    """S143: the gate is always red, and of the reviews that its repairs make due every other one fails: one count, level 4 at the tenth."""
    sim = red_gate(roster="alpha")
    times: list[str] = []

    def every_other(effect: StartTurn) -> TurnEnded:
        times.append(effect.key)
        outcome = bad(Class.Refused, "no") if len(times) % 2 == 0 else good(Reviewed(Vote.Approve), session=effect.session)
        return TurnEnded(key=effect.key, outcome=outcome)

    sim.says(StartTurn, every_other, node="review")
    sim.run(until=until(12))
    failed = [f.failed_phase for f in sim.facts(DevFixTriggered)]
    assert failed[:4] == [P.FinalValidation, P.Review, P.FinalValidation, P.Review]
    assert [n for n, *_ in attempts(sim)] == list(range(1, 13))
    assert [level for _, level, _ in attempts(sim)] == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert sim.facts(RecoverySucceeded) == []


# ── pauses and waits ──────────────────────────────────────────────────────────────────────────────────────────────


def test_attempts_are_paused_longer_and_longer() -> None:
    """S101: none for the first three, then 30 s doubling with jitter to 15 min."""
    sim = hopeless().run(until=until(12))
    spans = [t.span_s for t in sim.started(Timer)]
    assert len(spans) == 9
    for n, span in enumerate(spans):
        longest = min(900.0, 30.0 * 2**n)
        assert 0.8 * longest <= span <= longest


def test_a_pause_survives_a_restart() -> None:
    """Parked in the middle of a pause, the rest is waited for, once; the attempt is made once."""
    sim = hopeless().run(until=lambda s: bool(s.state.trouble and s.state.trouble.wait_until))
    sim.settle()
    (before,) = sim.open()
    assert isinstance(before, Timer)
    fresh = Sim(sim.entries[0].event, sim.world)  # type: ignore[arg-type]
    for entry in sim.entries[1:]:
        fresh.put(entry.event)
    assert [e for e in fresh.open() if isinstance(e, Timer)] == [before]
    fresh.put(TimerFired(key=before.key))
    fresh.settle()
    assert len(fresh.facts(RecoveryAttempted)) == 4


def test_a_wait_for_an_agent_counts_nothing() -> None:
    """R01, R08: a spent quota without a reset: unavailable again and again, pauses from 60 s to 30 min, count 0, few calls."""
    sim = Sim(story(roster="alpha", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", bad(Class.Quota, "usage limit"), node="implement")
    sim.run(until=until(8))
    assert attempts(sim) == [(0, 1, P.Development)] * 8
    assert len(sim.facts(DevFixAgentUnavailable)) == 8
    assert sim.facts(DevFixCompleted, DevFixSkipped, RecoveryEscalated) == []
    assert [t.span_s for t in sim.started(Timer)] == [60.0 * 2**n for n in range(5)] + [1800.0] * 3
    assert len(sim.asked("implement")) <= 9
    sim.world.faults.clear()
    assert sim.run().facts(RecoverySucceeded) == [RecoverySucceeded(level=1, total_attempts=0)]


def test_a_known_reset_is_waited_for() -> None:
    """R09: with a reset in 40 minutes no agent is asked for 40 minutes, then exactly one."""
    sim = Sim(story(roster="alpha", pipeline=Pipeline(plan=False)))
    reset_at = sim.world.at + 2_400.0
    sim.fails("alpha", bad(Class.Quota, "usage limit", reset_at=reset_at), node="implement", times=1)
    sim.world.cooling[AgentId("alpha")] = 0.0
    sim.run(until=lambda s: len(s.asked("implement")) == 2)
    assert sim.world.at >= reset_at
    assert len(sim.facts(RecoveryAttempted)) == 1


def test_a_chain_with_a_free_agent_goes_back_at_once() -> None:
    """Only entries before the sticky start are free: the chain is reset and asked again without a wait."""
    sim = Sim(story(fixer="beta gamma", pipeline=Pipeline(plan=False)), World(red={Purpose.Gate: lambda _t: 1}))
    sim.fails("beta", bad(Class.Timeout), node="gate-fix", times=1)
    sim.run(until=lambda s: s.asked("gate-fix") == ["beta", "gamma"])
    sim.world.cooling[AgentId("gamma")] = 1e9
    sim.run(until=lambda s: len(s.asked("gate-fix")) == 3)
    assert sim.asked("gate-fix") == ["beta", "gamma", "beta"]
    assert sim.started(Timer) == []
    assert trouble(sim).attempts == 0


def test_an_absent_login_asks_a_person_and_goes_on() -> None:
    """No agent of the role can log in: asked once, tried again on the slow schedule, and at once when a person says so."""
    sim = Sim(story(roster="alpha", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", bad(Class.Auth, "not logged in"), node="implement")
    sim.run(until=until(3))
    assert [(q.id, q.holds) for q in sim.state.questions.values()] == [("login", False)]
    assert [t.span_s for t in sim.started(Timer)] == [900.0, 1800.0, 3600.0]
    sim.run(until=lambda s: bool(s.state.trouble and s.state.trouble.wait_until))
    sim.put(Answered(question="login", text="go"))
    sim.world.faults.clear()
    at = sim.world.at
    sim.run()
    assert sim.world.at - at < 900.0
    assert sim.state.questions == {}


def test_the_same_end_again_and_again_asks_a_person_once() -> None:
    """Level 4 three times with the same failure and unchanged files: one question that holds nothing, and slow tries. After `go` it counts anew."""
    sim = hopeless(ladder=Ladder(dev_fix=False)).run(until=until(16))
    assert [(q.id, q.holds) for q in sim.state.questions.values()] == [("stuck", False)]
    assert [round(t.span_s) for t in sim.started(Timer)][-4:] == [900, 1_800, 3_600, 7_200]
    assert len(sim.facts(Asked)) == 1
    sim.put(Answered(question="stuck", text="go"))
    tried = len(sim.facts(RecoveryAttempted))
    sim.run(until=until(tried + 2))
    assert sim.state.questions == {}
    sim.run(until=until(tried + 3))
    assert [q.id for q in sim.state.questions.values()] == ["stuck"]
    sim.put(Answered(question="stuck", text="stop"))
    assert sim.run().state.phase is P.Interrupted


def test_nothing_is_repaired_twice_after_a_kill() -> None:
    """R17: killed between the repair and the recovery: after the replay the recovery is made once, the repair not again."""
    sim = red_gate().run(until=lambda s: bool(s.facts(DevFixCompleted)))
    cut = next(i for i, e in enumerate(sim.entries) if isinstance(e.event, DevFixCompleted))
    again = Sim(sim.entries[0].event)  # type: ignore[arg-type]
    for entry in sim.entries[1 : cut + 1]:
        again.put(entry.event)
    assert isinstance(again.record(), RecoveryAttempted)
    again.settle()
    assert [e.node for e in again.started(StartTurn)].count("dev-fix") == 1


def test_a_trouble_survives_its_bytes() -> None:
    """A run in the middle of any level is the same after its JSON."""
    sim = red_gate()
    for n in (1, 4, 7, 10):
        sim.run(until=until(n))
        data = msgspec.json.encode(sim.state)
        assert msgspec.json.decode(data, type=type(sim.state)) == sim.state
        assert isinstance(sim.entries[-1], Entry)

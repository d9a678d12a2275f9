"""The exhaustive walk holds the invariants of recovery and of chains in every state; each of them is seen to be broken when a fault is planted."""

from collections.abc import Callable

import pytest
from msgspec import structs

from nightcrew.core import reducer
from nightcrew.core.effects import StartTurn
from nightcrew.core.events import (
    AgentCooling,
    BaseSynced,
    CancelAsked,
    CommitRefused,
    DevFixSkipped,
    EffectStarted,
    Entry,
    Event,
    HandedOver,
    LandingRefused,
    Record,
    RecoveryAttempted,
    TurnEnded,
    Wanted,
    WorkspaceReset,
)
from nightcrew.core.ids import AgentId, SeatKey
from nightcrew.core.state import RunState
from nightcrew.core.work import Class, PipelinePhase
from support.invariants import Reduce, Want
from support.shape import shape
from support.walk import Bounds, Walked, walk
from support.world import Sim, World, bad, story
from walk import ALL, SKIPS, TWO, WALKS, small

Fold = Callable[[RunState, Entry, RunState], RunState]
"""A fault of `reduce`: the state before, the fact, and the state that is right."""
Asks = Callable[[RunState, tuple[Wanted, ...]], tuple[Wanted, ...]]
"""A fault of `wanted`: the state, and what is right."""

FIRST = 2_500
"""So many states of each run: enough to see what is newly broken."""
LADDER = small("implement", "refused", ladder=SKIPS, iterations=2)
CHAIN = small("implement", "refused quota AgentCooling", ladder=SKIPS, **TWO)
ENDS = small("implement", "refused", "cancel")


def folding(fault: Fold) -> Reduce:
    """`reduce` with a fault in it."""
    return lambda state, entry: fault(state, entry, reducer.reduce(state, entry))


def asking(fault: Asks) -> Want:
    """`wanted` with a fault in it."""
    return lambda state: fault(state, reducer.wanted(state))


def found(bounds: Bounds, reduce: Reduce = reducer.reduce, want: Want = reducer.wanted) -> Walked:
    """What a walk finds, in the first states that are enough for it."""
    return walk(reduce, want, bounds._replace(states=20_000))


def broken(walked: Walked) -> str:
    """The invariant that the walk saw broken; the walk told the way there."""
    (violation,) = walked.violations
    assert violation.path[0].startswith("RunStarted")
    assert violation.invariant in str(violation)
    return violation.invariant


@pytest.mark.parametrize("name", WALKS)
def test_no_state_breaks_an_invariant(name: str) -> None:
    """The states that a small run first comes to: levels, marker, counts, replay and chains hold in each (recovery, invariants 1-7 and 9).

    `make check` visits all of them, to the last.
    """
    walked = walk(reducer.reduce, reducer.wanted, WALKS[name].bounds._replace(states=FIRST))
    print(f"{name}: {walked}")  # noqa: T201 - what a failure shows first
    assert [str(violation) for violation in walked.violations] == []
    assert walked.states >= min(FIRST, WALKS[name].floor)


def test_the_walks_are_no_examples() -> None:
    """Together the walks visit more than a hundred thousand states."""
    assert sum(each.floor for each in WALKS.values()) >= 100_000


MEANT: dict[str, Callable[[Event], object]] = {
    "repairs": lambda e: isinstance(e, WorkspaceReset) and e.skipped,
    "base": lambda e: isinstance(e, BaseSynced) and e.state == "conflict",
    "landing": lambda e: isinstance(e, LandingRefused) and e.why == "unreachable",
    "commits": lambda e: isinstance(e, CommitRefused),
    "ends of a turn": lambda e: isinstance(e, TurnEnded) and e.outcome.kind is Class.SessionNotFound,
    "rivals mended": lambda e: isinstance(e, WorkspaceReset),
}
"""The fact that a walk is there for."""


@pytest.mark.parametrize("name", MEANT)
def test_a_walk_is_answered_by_what_it_is_for(name: str) -> None:
    """What the world can seldom say is said in the walk that is there for it, and breaks nothing."""
    seen: set[bool] = set()

    def sees(_before: RunState, entry: Entry, after: RunState) -> RunState:
        seen.add(bool(MEANT[name](entry.event)))
        return after

    assert walk(folding(sees), reducer.wanted, WALKS[name].bounds._replace(states=FIRST)).violations == ()
    assert True in seen


def test_everything_may_go_wrong_at_once() -> None:
    """Two agents, two iterations, every effect answered by every kind of fact: as far as the bound, nothing is broken."""
    walked = walk(reducer.reduce, reducer.wanted, ALL._replace(states=2 * FIRST))
    print(f"everything: {walked}")  # noqa: T201 - what a failure shows first
    assert [str(violation) for violation in walked.violations] == []
    assert walked.states >= 2 * FIRST


def test_the_walk_climbs_the_whole_ladder() -> None:
    """A failing implementer is met at every level, and its recovery succeeds at every level."""
    walked = found(LADDER)
    levels = {f"{fact} {level}" for fact in ("RecoveryAttempted", "RecoverySucceeded") for level in (1, 2, 3, 4)}
    assert levels | {"RecoveryEscalated", "CompletionMarkerEmitted"} <= walked.met
    assert walked.whole


# ── faults in what a fact means ──────────────────────────────────────────────────────────────────────────────────────


def test_a_level_that_lags_is_found() -> None:
    """Invariant 1: the level is a function of the count."""

    def lags(before: RunState, entry: Entry, after: RunState) -> RunState:
        if before.trouble is None or after.trouble is None or not isinstance(entry.event, DevFixSkipped):
            return after
        return structs.replace(after, trouble=structs.replace(after.trouble, level=max(1, before.trouble.level)))

    assert broken(found(LADDER, folding(lags))) == "1 level follows count"


def test_an_interruption_without_a_marker_is_found() -> None:
    """Invariant 2: only a written marker interrupts a run."""

    def at_once(_before: RunState, entry: Entry, after: RunState) -> RunState:
        gone = isinstance(entry.event, CancelAsked)
        return structs.replace(after, phase=PipelinePhase.Interrupted, marker=None) if gone else after

    assert broken(found(ENDS, folding(at_once))) == "2 marker interrupts"


def test_a_count_that_a_retry_moves_is_found() -> None:
    """Invariant 5: only a finished dev-fix counts."""

    def counts(_before: RunState, entry: Entry, after: RunState) -> RunState:
        if after.trouble is None or not isinstance(entry.event, RecoveryAttempted):
            return after
        return structs.replace(after, trouble=structs.replace(after.trouble, attempts=after.trouble.attempts + 1))

    assert broken(found(LADDER, folding(counts))) == "5 count moves"


def test_an_iteration_that_level_three_keeps_is_found() -> None:
    """Invariant 7: level 3 goes one iteration back."""

    def keeps(before: RunState, entry: Entry, after: RunState) -> RunState:
        third = isinstance(entry.event, RecoveryAttempted) and entry.event.level == 3
        return structs.replace(after, iteration=before.iteration) if third else after

    assert broken(found(LADDER, folding(keeps))) == "7 level says what is kept"


def test_a_memory_beside_the_journal_is_found() -> None:
    """Invariant 9: a replay gives the same state; a reducer that remembers anything itself is seen."""
    seen: list[int] = []

    def remembers(_before: RunState, entry: Entry, after: RunState) -> RunState:
        seen.append(entry.seq)
        return structs.replace(after, ended=f"{len(seen)} facts") if len(seen) % 97 == 0 else after

    assert broken(found(LADDER, folding(remembers))) == "9 replay is the same"


def test_a_late_answer_that_is_paid_again_is_found() -> None:
    """A doubled answer routes nothing and is not paid twice."""

    def pays(before: RunState, entry: Entry, after: RunState) -> RunState:
        late = isinstance(entry.event, TurnEnded) and entry.event.key not in before.open
        return structs.replace(after, spend=structs.replace(after.spend, turns=after.spend.turns + 1)) if late else after

    assert broken(found(LADDER, folding(pays))) == "late answer changes nothing"


def test_a_start_that_is_forgotten_is_found() -> None:
    """What was started is in flight from then on."""

    def forgets(before: RunState, entry: Entry, after: RunState) -> RunState:
        return structs.replace(after, open=before.open) if isinstance(entry.event, EffectStarted) else after

    assert broken(found(LADDER, folding(forgets))) == "started once"


def test_a_chain_that_begins_again_is_found() -> None:
    """Whoever passed a seat on is not asked there again before the chain is reset (F11)."""

    def begins(_before: RunState, entry: Entry, after: RunState) -> RunState:
        if not isinstance(entry.event, HandedOver):
            return after
        calls = {key: structs.replace(call, at=0, first=0) for key, call in after.calls.items()}
        return structs.replace(after, calls=calls)

    assert broken(found(CHAIN, folding(begins))) == "nobody asked again"


def test_an_agent_that_is_asked_while_it_cools_is_found() -> None:
    """Whoever says that he cools down is passed over or waited for (F21)."""

    def deaf(before: RunState, entry: Entry, after: RunState) -> RunState:
        return structs.replace(after, calls=before.calls) if isinstance(entry.event, AgentCooling) else after

    assert broken(found(CHAIN, folding(deaf))) == "cooling is not asked"


def test_a_conversation_that_is_offered_twice_is_found() -> None:
    """An id that a program was given once is taken, whatever became of its turn."""

    def offers(before: RunState, entry: Entry, after: RunState) -> RunState:
        failed = isinstance(entry.event, TurnEnded) and entry.event.outcome.kind is not Class.Ok
        return structs.replace(after, seats=before.seats) if failed else after

    assert broken(found(small("implement", "crashed"), folding(offers))) == "conversation offered once"


def test_generations_that_begin_again_are_found() -> None:
    """The generations of a seat are counted for ever, whatever recovery resets."""

    def resets(_before: RunState, entry: Entry, after: RunState) -> RunState:
        return structs.replace(after, seats={}) if isinstance(entry.event, RecoveryAttempted) else after

    assert broken(found(LADDER, folding(resets))) == "generations rise"


# ── faults in what is wanted ─────────────────────────────────────────────────────────────────────────────────────────


def test_work_beside_a_marker_is_found() -> None:
    """Invariant 3: while a marker is pending nothing else is due."""

    def works(state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        if state.marker is None or state.done:
            return want
        return (*want, *reducer.wanted(structs.replace(state, marker=None, phase=PipelinePhase.Development)))

    assert broken(found(ENDS, want=asking(works))) == "3 marker first"


def test_a_recovery_that_goes_nowhere_is_found() -> None:
    """Invariant 4: a recovery targets a phase that does work."""

    def nowhere(_state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        return tuple(retargeted(w) for w in want)

    assert broken(found(LADDER, want=asking(nowhere))) == "4 recovery goes to work"


def retargeted(want: Wanted) -> Wanted:
    """A recovery into the phase that it comes from; anything else as it is."""
    if not isinstance(want, Record) or not isinstance(want.event, RecoveryAttempted):
        return want
    return Record(structs.replace(want.event, target_phase=PipelinePhase.AwaitingDevFix))


def test_a_recovery_that_leads_to_nothing_is_found() -> None:
    """Invariant 6: after a recovery an effect of the target phase is due."""

    def nothing(state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        recovering = state.trouble is not None and not state.trouble.over
        return () if recovering and state.phase is not PipelinePhase.AwaitingDevFix else want

    assert broken(found(LADDER, want=asking(nothing))) == "6 recovery leads on"


def test_a_run_that_stops_is_found() -> None:
    """A run that is not over always wants or waits for something."""

    def stops(state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        return () if state.phase is PipelinePhase.CommitMessage and not state.open else want

    assert broken(found(LADDER, want=asking(stops))) == "goes on"


def test_a_start_beside_a_decision_is_found() -> None:
    """While a decision waits to be written down nothing starts."""

    def hastens(state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        due = any(isinstance(w, Record) for w in want)
        return (*want, *(e for e in reducer.desired(state) if e.key not in state.open)) if due else want

    assert broken(found(WALKS["gate"].bounds, want=asking(hastens))) == "decision starts nothing"


def test_a_handover_backwards_is_found() -> None:
    """A seat passes down its chain."""

    def backwards(_state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        return tuple(turned(w) for w in want)

    assert broken(found(CHAIN, want=asking(backwards))) == "chain goes forward"


def turned(want: Wanted) -> Wanted:
    """A handover the other way round; anything else as it is."""
    if not isinstance(want, Record) or not isinstance(want.event, HandedOver):
        return want
    line = want.event.handover
    return Record(HandedOver(handover=structs.replace(line, from_agent=line.to_agent, to_agent=line.from_agent)))


def test_a_judge_of_its_own_work_is_found() -> None:
    """Nobody judges what he made while there is anybody else."""

    def judges(_state: RunState, want: tuple[Wanted, ...]) -> tuple[Wanted, ...]:
        return tuple(
            structs.replace(w, agent=AgentId("alpha")) if isinstance(w, StartTurn) and w.node == "judge" else w for w in want
        )

    assert broken(found(WALKS["competition"].bounds, want=asking(judges))) == "judges are no authors"


def test_a_vote_of_nobody_is_found() -> None:
    """A winner has the ballots of a quorum, each of a judge who ranked."""

    def stuffs(_before: RunState, _entry: Entry, after: RunState) -> RunState:
        strange = {SeatKey("judge-9"): next(iter(after.judging.ballots.values()))} if after.judging.ballots else {}
        return after.within("judging", ballots={**after.judging.ballots, **strange})

    assert broken(found(WALKS["competition"].bounds, folding(stuffs))) == "winners have a quorum"


# ── what a shape is ──────────────────────────────────────────────────────────────────────────────────────────────────


def shapes(at: float, numbers: int, kind: Class) -> list[bytes]:
    """The shapes of one run, in a world that begins then and counts its names from there."""
    sim = Sim(story(), World(at=at, numbers=numbers))
    sim.fails("alpha", bad(kind), times=2)
    found = [shape(sim.state, {})]
    while not sim.state.done:
        sim.step()
        found.append(shape(sim.state, {}))
    return found


def test_a_shape_knows_no_time_and_no_names() -> None:
    """The same story at another time, with other commits and slots, has the same shapes; another story has others."""
    assert shapes(1_000.0, 0, Class.Refused) == shapes(5_000.0, 70, Class.Refused)
    assert shapes(1_000.0, 0, Class.Refused) != shapes(1_000.0, 0, Class.Timeout)

"""The nine facts of the recovery loop: what each means to the state, in whatever phase it comes."""

import msgspec
import pytest
from msgspec import structs

from nightcrew.core import reducer
from nightcrew.core.events import (
    AwaitingDevFixEvent,
    CompletionMarkerEmitted,
    CompletionMarkerWriteFailed,
    DevFixAgentUnavailable,
    DevFixCompleted,
    DevFixSkipped,
    DevFixTriggered,
    Entry,
    Event,
    Record,
    RecoveryAttempted,
    RecoveryEscalated,
    RecoverySucceeded,
)
from nightcrew.core.recovery import level_of
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import Marker, RunState, Trouble
from nightcrew.core.work import Failure, PipelinePhase
from support import laws
from support.world import Sim, story

P = PipelinePhase
NINE: tuple[AwaitingDevFixEvent, ...] = (
    DevFixTriggered(failed_phase=P.Review, failed_role=AgentRole.Reviewer),
    DevFixSkipped(reason="disabled"),
    DevFixCompleted(success=True, summary="mended"),
    DevFixAgentUnavailable(failed_phase=P.Review, reason="quota"),
    CompletionMarkerEmitted(is_failure=True),
    CompletionMarkerWriteFailed(is_failure=True, error="disk full"),
    RecoveryAttempted(level=1, attempt_count=1, target_phase=P.Development),
    RecoveryEscalated(from_level=1, to_level=2, reason="three attempts did not help"),
    RecoverySucceeded(level=1, total_attempts=2),
)


def trouble(phase: P = P.Development, **fields: object) -> Trouble:
    """A failure in that phase that is being recovered from."""
    failure = Failure(phase=phase, role="developer", kind="crashed", reason="it crashed")
    return structs.replace(Trouble(failure=failure, failed_phase=phase, furthest=phase), **fields)


def run(phase: P, hurt: Trouble | None = None, marker: Marker | None = None) -> RunState:
    """A run in that phase, with a trouble."""
    return structs.replace(Sim(story()).state, phase=phase, trouble=hurt, marker=marker)


def fold(state: RunState, *events: Event) -> RunState:
    """The state after those facts."""
    for event in events:
        state = reducer.reduce(state, Entry(state.seq + 1, state.at + 1, event))
    return state


def hurt(state: RunState) -> Trouble:
    """The trouble the run is in."""
    assert state.trouble is not None
    return state.trouble


@pytest.mark.parametrize("event", NINE, ids=lambda event: type(event).__name__)
@pytest.mark.parametrize("phase", list(P))
def test_every_fact_has_a_meaning_in_every_phase(phase: P, event: AwaitingDevFixEvent) -> None:
    """R27: each of the nine applied in each phase, in trouble or out of it, marker pending or not, keeps all laws."""
    for of in (None, trouble(), trouble(P.Landing, attempts=4, level=2, triggered=True)):
        for marker in (None, Marker(is_failure=True, reason="cancelled")):
            before = run(phase, of, marker)
            after = fold(before, event)
            laws.in_a_state(after)
            assert after.phase is P.Interrupted or after.phase is P.Complete or not before.done


@pytest.mark.parametrize("event", NINE, ids=lambda event: type(event).__name__)
def test_a_fact_survives_its_bytes(event: AwaitingDevFixEvent) -> None:
    """All nine are immutable, comparable and survive JSON bit for bit; the tag is the variant's name."""
    data = msgspec.json.encode(event)
    assert msgspec.json.decode(data, type=AwaitingDevFixEvent) == event
    assert msgspec.json.encode(msgspec.json.decode(data, type=AwaitingDevFixEvent)) == data
    assert msgspec.json.decode(data)["type"] == type(event).__name__
    assert hash(event) == hash(structs.replace(event))


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "RecoveryAttempted", "level": 5, "attempt_count": 1, "target_phase": "Review"}',
        '{"type": "RecoveryAttempted", "level": 1, "attempt_count": -1, "target_phase": "Review"}',
        '{"type": "RecoverySucceeded", "level": 1, "total_attempts": 4294967296}',
    ],
)
def test_levels_and_counts_are_checked(text: str) -> None:
    """S052: a level beyond 4 or a count outside 32 bits is refused when it is read."""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(text, type=AwaitingDevFixEvent)


@pytest.mark.parametrize("before", range(14))
@pytest.mark.parametrize("event", NINE[1:3], ids=lambda event: type(event).__name__)
def test_a_finished_attempt_counts(before: int, event: AwaitingDevFixEvent) -> None:
    """S001, S002, S004, S005, S007, R07: completed or skipped, believed or not, the count rises and gives the level."""
    for success in (True, False):
        told = structs.replace(event, success=success) if isinstance(event, DevFixCompleted) else event
        state = fold(run(P.AwaitingDevFix, trouble(attempts=before, level=level_of(before))), told)
        assert (hurt(state).attempts, hurt(state).level) == (before + 1, level_of(before + 1))
        assert state.phase is P.AwaitingDevFix
        assert hurt(state).failed_phase is P.Development


def test_levels_follow_the_count() -> None:
    """S135: 0 → 0, 1-3 → 1, 4-6 → 2, 7-9 → 3, from 10 on → 4, for ever."""
    assert [level_of(n) for n in range(13)] == [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert level_of(2**32 - 1) == 4


def test_the_summary_decides_nothing() -> None:
    """S008: with a summary or without, the state after a dev-fix is the same."""
    state = run(P.AwaitingDevFix, trouble(attempts=1, level=1))
    told = [fold(state, DevFixCompleted(success=True, summary=text)) for text in (None, "", "mended")]
    assert told[0] == told[1] == told[2]


def test_a_skipped_repair_is_an_attempt() -> None:
    """S009: skipped at attempt 0 leaves it triggered, attempt 1, level 1, the failed phase as it was."""
    state = fold(run(P.AwaitingDevFix, trouble(P.CommitMessage)), DevFixSkipped(reason="disabled"))
    now = hurt(state)
    assert (now.triggered, now.attempts, now.level, now.failed_phase) == (True, 1, 1, P.CommitMessage)


def test_triggered_changes_nothing_else() -> None:
    """S011: the trigger is remembered, and nothing else moves."""
    before = run(P.AwaitingDevFix, trouble())
    after = fold(before, NINE[0])
    assert hurt(after) == structs.replace(hurt(before), triggered=True)
    assert after.phase is before.phase


def test_an_unavailable_agent_counts_nothing() -> None:
    """R08: fifty times unavailable, the count is what it was and the run never ends."""
    state = run(P.AwaitingDevFix, trouble(attempts=2, level=1, triggered=True))
    for _ in range(50):
        state = fold(state, NINE[3], RecoveryAttempted(level=1, attempt_count=2, target_phase=P.Development))
        state = structs.replace(state, phase=P.AwaitingDevFix)
        assert (hurt(state).attempts, hurt(state).level) == (2, 1)


def test_an_emitted_marker_ends_the_run() -> None:
    """S016: whatever kind the marker was, Emitted clears what was pending and interrupts."""
    pending = Marker(is_failure=True, reason="previous error")
    state = fold(run(P.AwaitingDevFix, trouble(), pending), CompletionMarkerEmitted(is_failure=False))
    assert (state.phase, state.marker, state.ended) == (P.Interrupted, None, "previous error")


def test_a_failed_write_keeps_the_phase() -> None:
    """S017, S018, S019: the first reason and the newest error are kept, until one write succeeds."""
    state = fold(run(P.AwaitingDevFix, trouble()), NINE[5])
    assert state.marker == Marker(is_failure=True, reason="disk full", error="disk full", failures=1)
    state = fold(state, CompletionMarkerWriteFailed(is_failure=True, error="read-only"))
    assert state.marker is not None
    assert (state.marker.reason, state.marker.error) == ("disk full", "read-only")
    state = fold(state, CompletionMarkerEmitted(is_failure=True))
    assert (state.phase, state.marker) == (P.Interrupted, None)


@pytest.mark.parametrize("phase", [p for p in P if p not in {P.Complete, P.Interrupted}])
def test_a_failed_write_moves_no_phase(phase: P) -> None:
    """S020: a marker that cannot be written leaves the run in the phase it is in, with the marker pending."""
    state = fold(run(phase, trouble() if phase is P.AwaitingDevFix else None), NINE[5])
    assert state.phase is phase
    assert state.marker is not None


@pytest.mark.parametrize(("told", "level"), [(0, 1), (2, 2), (4, 4), (9, 4)])
def test_an_escalation_only_rises(told: int, level: int) -> None:
    """S051, S052: the level goes to what was told, within 1-4 and never down; phase and count stay."""
    before = run(P.AwaitingDevFix, trouble(attempts=2, level=1))
    after = fold(before, RecoveryEscalated(from_level=1, to_level=told, reason="x"))
    assert (hurt(after).level, hurt(after).attempts, after.phase) == (level, 2, P.AwaitingDevFix)
    lower = fold(after, RecoveryEscalated(from_level=1, to_level=1, reason="x"))
    assert hurt(lower).level == level


@pytest.mark.parametrize("phase", [P.Planning, P.Development, P.Finalizing])
def test_a_success_ends_the_trouble(phase: P) -> None:
    """S053, S054: count, level and failed phase are gone; the phase goes on."""
    state = fold(run(phase, trouble(attempts=5, level=2)), RecoverySucceeded(level=2, total_attempts=5))
    assert state.trouble is None
    assert state.phase is phase


def test_a_recovery_believes_its_own_target() -> None:
    """R16, S081: the target is the fact's, the level the highest of fact, state and count."""
    state = run(P.AwaitingDevFix, trouble(attempts=7, level=3, triggered=True, finished=True))
    after = fold(state, RecoveryAttempted(level=1, attempt_count=7, target_phase=P.Planning))
    assert after.phase is P.Planning
    assert (hurt(after).level, hurt(after).attempts, hurt(after).triggered) == (3, 7, False)


@pytest.mark.parametrize("target", [P.AwaitingDevFix, P.Complete, P.Interrupted])
def test_a_recovery_never_leads_nowhere(target: P) -> None:
    """S069, S089: what is no working phase is no target; Development is."""
    state = fold(
        run(P.AwaitingDevFix, trouble(attempts=1, level=1)), RecoveryAttempted(level=1, attempt_count=1, target_phase=target)
    )
    assert state.phase is P.Development


def test_without_a_known_failure_development_is_next() -> None:
    """S069: in the phase and nobody knows why: the way out is a recovery into Development."""
    wanted = reducer.wanted(run(P.AwaitingDevFix))
    assert [w.event for w in wanted if isinstance(w, Record)] == [
        RecoveryAttempted(level=1, attempt_count=0, target_phase=P.Development)
    ]

"""The laws of a run that hold at every fact and in every state; `Sim` holds each run of the tests to them."""

from nightcrew.core import reducer
from nightcrew.core.effects import (
    Ask,
    DropWorkspaces,
    Effect,
    EmitCompletionMarkerAndTerminate,
    Land,
    MakeCommit,
    NeutraliseWork,
    PrepareWorkspace,
    RescueWork,
    ResetWorkspace,
    RunCommands,
    Timer,
)
from nightcrew.core.events import (
    CompletionMarkerEmitted,
    DevFixCompleted,
    DevFixSkipped,
    Event,
    HandedOver,
    Record,
    RecoveryAttempted,
    RecoverySucceeded,
)
from nightcrew.core.recovery import level_of
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import RunState
from nightcrew.core.trouble import ORDER
from nightcrew.core.work import PipelinePhase

ROLE_AT = {
    "plan": AgentRole.Planner,
    "advise": AgentRole.Advisor,
    "synthesize": AgentRole.Synthesizer,
    "judge": AgentRole.Judge,
    "deliberate": AgentRole.Judge,
    "vote": AgentRole.Judge,
    "implement": AgentRole.Developer,
    "dev-fix": AgentRole.Developer,
    "review": AgentRole.Reviewer,
    "revote": AgentRole.Reviewer,
    "commit": AgentRole.Committer,
}
"""Whose chain a node asks; the other nodes ask fixers."""


def at_a_fact(before: RunState, event: Event, after: RunState) -> None:
    """What one fact may change, and what it may not."""
    assert after.seq == before.seq + 1
    assert after.at >= before.at
    counts_move(before, event, after)
    if after.phase is PipelinePhase.Interrupted and before.phase is not after.phase:
        assert isinstance(event, CompletionMarkerEmitted), "only a marker interrupts a run"
    if isinstance(event, RecoveryAttempted):
        goes_back(before, event, after)
    if isinstance(event, HandedOver):
        goes_forward(after, event)


def counts_move(before: RunState, event: Event, after: RunState) -> None:
    """Attempts rise by one with a finished dev-fix and end with a success; the level follows and never falls."""
    was, now = before.trouble, after.trouble
    if was is None or now is None:
        assert was is None or isinstance(event, RecoverySucceeded), f"{event} ended a trouble"
        assert now is None or now.attempts == 0
        return
    rose = isinstance(event, DevFixCompleted | DevFixSkipped)
    assert now.attempts == was.attempts + rose, f"{event} changed the count from {was.attempts} to {now.attempts}"
    assert now.level >= was.level
    assert now.level in {level_of(now.attempts), was.level, 1}


def goes_back(before: RunState, event: RecoveryAttempted, after: RunState) -> None:
    """A recovery leads to work, and forgets exactly as much as its level says."""
    assert event.target_phase in ORDER
    level = max(event.level, before.trouble.level) if before.trouble else 0
    kept = {3: max(0, before.iteration - 1), 4: 0}.get(level, before.iteration)
    assert after.iteration == kept
    assert after.recovery_epoch == before.recovery_epoch + (level >= 3)
    assert after.handovers == before.handovers
    assert all(after.seats[key].generation >= seat.generation for key, seat in before.seats.items())


def goes_forward(state: RunState, event: HandedOver) -> None:
    """A seat passes to an agent further down the chain, never back."""
    handover = event.handover
    chain = state.started.roles.chain(ROLE_AT.get(handover.node, AgentRole.Fixer))
    assert chain.index(handover.from_agent) < chain.index(handover.to_agent)
    assert "\n" not in handover.reason
    assert len(handover.reason) <= 160


def in_a_state(state: RunState) -> None:
    """What is wanted and open in any state a run can come to."""
    wanted = reducer.wanted(state)
    effects = [w for w in wanted if not isinstance(w, Record)]
    if state.done:
        assert wanted == ()
        return
    if len(effects) < len(wanted):
        assert all(e.key in state.open for e in effects), "nothing starts while a decision is due"
    slots = [slot for e in effects if (slot := e.slot)]
    assert len(slots) == len(set(slots)), "two effects want one workspace"
    known = {space.slot for space in state.workspaces.values()}
    placeless = PrepareWorkspace | DropWorkspaces | NeutraliseWork | Timer | Ask | EmitCompletionMarkerAndTerminate
    fresh = [e for e in effects if e.key not in state.open and not isinstance(e, placeless)]
    strange = [e.key for e in fresh if e.slot not in known]
    assert strange == [], f"a workspace the run has not, in {state.phase}"
    for effect in effects:
        lands_what_was_tested(state, effect)
    if state.rewinds and state.phase in ORDER:
        begun = (ResetWorkspace, PrepareWorkspace, RunCommands, Ask)
        assert all(isinstance(e, begun) for e in effects if e.key not in state.open), "a reset comes first"
    if state.marker is not None:
        assert all(isinstance(e, EmitCompletionMarkerAndTerminate | RescueWork | Timer) for e in effects)
    if not state.parked and reducer.blocked(state) is None:
        assert wanted or state.open, f"stuck in {state.phase}"


def lands_what_was_tested(state: RunState, effect: Effect) -> None:
    """What is committed and landed has the tree whose gate was green, on the tip that it was green on."""
    if isinstance(effect, Land | MakeCommit) and effect.key not in state.open:
        assert state.winning is not None
        assert state.gated
        assert state.gated == state.winning.change.tree
        assert effect.tip == state.base

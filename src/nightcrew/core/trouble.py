"""A terminal failure enters AwaitingDevFix, and the phase that failed ends it by completing."""

from msgspec import structs

from nightcrew.core.state import RunState, Trouble, enter
from nightcrew.core.work import Failure, PipelinePhase

ORDER = (
    PipelinePhase.Planning,
    PipelinePhase.Development,
    PipelinePhase.Judging,
    PipelinePhase.Review,
    PipelinePhase.FinalValidation,
    PipelinePhase.CommitMessage,
    PipelinePhase.Landing,
    PipelinePhase.Finalizing,
)
"""The phases that do work, in pipeline order; a recovery targets only these."""


def fail(state: RunState, failure: Failure) -> RunState:
    """The run in AwaitingDevFix because of `failure`; an earlier trouble that is not over keeps its count."""
    if state.done:
        return state
    if state.phase is PipelinePhase.AwaitingDevFix:
        return state
    before = state.trouble
    phase = state.phase
    if before is None or before.over:
        trouble = Trouble(failure=failure, failed_phase=phase, furthest=phase, previous_phase=phase)
    else:
        trouble = structs.replace(
            before,
            failure=failure,
            failed_phase=phase,
            furthest=max(before.furthest, phase, key=ORDER.index),
            previous_phase=phase,
            triggered=False,
            finished=False,
            unavailable=False,
            reset=False,
            step="ask",
        )
    return enter(state, PipelinePhase.AwaitingDevFix, trouble=trouble)


def leave(state: RunState, phase: PipelinePhase, **changes: object) -> RunState:
    """The run in the next phase, because the present one completed; a trouble it was in is over if this phase had failed last."""
    return enter(completed(state), phase, **changes)


def completed(state: RunState) -> RunState:
    """The run whose present phase completed; the trouble is over if no later phase had failed in it."""
    trouble = state.trouble
    if trouble is None or ORDER.index(state.phase) < ORDER.index(trouble.furthest):
        return state
    return structs.replace(state, trouble=structs.replace(trouble, over=True))


def missing(state: RunState, what: str, role: str) -> RunState:
    """The failure of a phase whose inputs are not there (no plan, no candidate, no winner)."""
    return fail(
        state, Failure(phase=state.phase, role=role, kind="missing", reason=f"{what} is missing", signature=what)
    )

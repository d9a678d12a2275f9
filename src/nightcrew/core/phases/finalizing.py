"""Finalizing: the slots go back to the pool, then the success marker ends the run."""

from nightcrew.core.effects import DropWorkspaces, Effect, EmitCompletionMarkerAndTerminate
from nightcrew.core.events import EffectAnswer, WorkspacesDropped
from nightcrew.core.state import Phase, RunState, keyed
from nightcrew.core.trouble import completed


def _wants(state: RunState) -> tuple[Effect, ...]:
    if not state.dropped:
        return (keyed(state, DropWorkspaces(node="finalize")),)
    how = "ready" if state.landing is None or state.landing.mode == "branch" else "landed"
    return (keyed(state, EmitCompletionMarkerAndTerminate(node="marker", is_failure=False, reason=state.already or how)),)


def _answered(state: RunState, _effect: Effect, event: EffectAnswer) -> RunState:
    if not isinstance(event, WorkspacesDropped):
        return state
    return completed(state.but(dropped=True, workspaces={}))


PHASE = Phase(lambda state: state.but(dropped=False), wants=_wants, answered=_answered)

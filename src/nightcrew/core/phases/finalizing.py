"""Finalizing: the slots go back to the pool, then the success marker ends the run."""

from nightcrew.core.effects import DropWorkspaces, Effect, EmitCompletionMarkerAndTerminate
from nightcrew.core.events import EffectAnswer
from nightcrew.core.state import Phase, RunState, Want, keyed
from nightcrew.core.trouble import completed


def _wants(state: RunState) -> tuple[Want, ...]:
    if not state.dropped:
        # Any answer will do: what could not be cleared away waits for `nightcrew clean`.
        return (Want(keyed(state, DropWorkspaces(node="finalize")), _dropped),)
    how = "ready" if state.landing is None or state.landing.mode == "branch" else "landed"
    marker = EmitCompletionMarkerAndTerminate(node="marker", is_failure=False, reason=state.already or how)
    return (Want(keyed(state, marker)),)


def _dropped(state: RunState, _effect: Effect, _event: EffectAnswer) -> RunState:
    return completed(state.but(dropped=True, workspaces={}))


PHASE = Phase(lambda state: state.but(dropped=False), wants=_wants)

"""Finalizing: the slots go back to the pool, then the success marker ends the run."""

from nightcrew.core.effects import DropWorkspaces, EmitCompletionMarkerAndTerminate
from nightcrew.core.state import Phase, RunState, Want, keyed
from nightcrew.core.trouble import completed


def _wants(state: RunState) -> tuple[Want, ...]:
    if not state.dropped:
        # Any answer will do: what could not be cleared away waits for `nightcrew clean`.
        drop = keyed(state, DropWorkspaces(node="finalize"))
        return (Want(drop, lambda now, _effect, _event: completed(now.but(dropped=True, workspaces={}))),)
    how = "ready" if state.landing is None or state.landing.mode == "branch" else "landed"
    return (Want(keyed(state, EmitCompletionMarkerAndTerminate(node="marker", is_failure=False, reason=state.already or how))),)


PHASE = Phase(lambda state: state.but(dropped=False), wants=_wants)

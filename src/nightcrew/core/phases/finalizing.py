"""Finalizing: the slots go back to the pool, then the success marker ends the run."""

from msgspec import structs

from nightcrew.core.effects import DropWorkspaces, Effect, EmitCompletionMarkerAndTerminate
from nightcrew.core.events import EffectAnswer, WorkspacesDropped
from nightcrew.core.state import RunState, keyed
from nightcrew.core.trouble import completed

NODE = "finalize"
MARKER = "marker"


def wants(state: RunState) -> tuple[Effect, ...]:
    """Clean up, then the marker, which says in one word or two how the run ended."""
    if not state.dropped:
        return (keyed(state, DropWorkspaces(node=NODE)),)
    how = "ready" if state.landing is None or state.landing.mode == "branch" else "landed"
    marker = EmitCompletionMarkerAndTerminate(node=MARKER, is_failure=False, reason=state.already or how)
    return (keyed(state, marker),)


def answered(state: RunState, _effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    if not isinstance(event, WorkspacesDropped):
        return state
    return completed(structs.replace(state, dropped=True, workspaces={}))

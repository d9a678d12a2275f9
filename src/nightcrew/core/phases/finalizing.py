"""Finalizing: the slots go back to the pool, then the success marker ends the run."""

from msgspec import structs

from nightcrew.core.effects import DropWorkspaces, Effect, EmitCompletionMarkerAndTerminate
from nightcrew.core.events import EffectAnswer, WorkspacesDropped
from nightcrew.core.state import RunState, key_for
from nightcrew.core.trouble import completed

NODE = "finalize"
MARKER = "marker"


def wants(state: RunState) -> tuple[Effect, ...]:
    """Clean up, then the marker."""
    if not state.dropped:
        return (DropWorkspaces(key=key_for(state, DropWorkspaces, NODE), node=NODE),)
    key = key_for(state, EmitCompletionMarkerAndTerminate, MARKER)
    return (EmitCompletionMarkerAndTerminate(key=key, node=MARKER, is_failure=False, reason=reason(state)),)


def arrived(state: RunState) -> RunState:
    """Nothing to pass over."""
    return state


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    del effect
    if not isinstance(event, WorkspacesDropped):
        return state
    return completed(structs.replace(state, dropped=True, workspaces={}))


def afresh(state: RunState) -> RunState:
    """The phase from its first effect (recovery level 2)."""
    return structs.replace(state, dropped=False)


def again(state: RunState) -> RunState:
    """What failed becomes due again (recovery level 1)."""
    return state


def reason(state: RunState) -> str:
    """How the run ended, in one word or two."""
    if state.already:
        return state.already
    return "ready" if state.landing is None or state.landing.mode == "branch" else "landed"

"""Judging: with one viable candidate there is nothing to judge; it is the winner and no panel is shown."""

from msgspec import structs

from nightcrew.core.effects import Effect
from nightcrew.core.events import EffectAnswer
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import Lane, Planning, RunState
from nightcrew.core.trouble import leave, missing
from nightcrew.core.work import PipelinePhase


def wants(state: RunState) -> tuple[Effect, ...]:
    """Nothing: one candidate needs no judge."""
    del state
    return ()


def arrived(state: RunState) -> RunState:
    """Take the viable candidate as the winner; then the next iteration, or Review."""
    viable = [c for c in state.candidates.values() if c.changed]
    if not viable:
        return missing(state, "a candidate", str(AgentRole.Judge))
    winner = viable[0].label
    began = (*state.iterations[: state.iteration], viable[0])
    if state.iteration + 1 < state.settings.pipeline.iterations:
        lanes: dict[str, Lane] = {}
        return leave(
            state,
            PipelinePhase.Planning,
            winner=winner,
            iteration=state.iteration + 1,
            iterations=began,
            lanes=lanes,
            plan=None,
            planning=Planning(),
        )
    return leave(state, PipelinePhase.Review, winner=winner)


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """Nothing was asked, so no answer means anything."""
    del effect, event
    return state


def afresh(state: RunState) -> RunState:
    """Start the phase from its first effect (recovery level 2)."""
    return structs.replace(state, winner="")


def again(state: RunState) -> RunState:
    """What failed becomes due again (recovery level 1)."""
    return state

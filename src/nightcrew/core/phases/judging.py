"""Judging: with one viable candidate there is nothing to judge; it is the winner and no panel is shown."""

from nightcrew.core.state import Phase, RunState
from nightcrew.core.trouble import leave, missing
from nightcrew.core.work import PipelinePhase


def _arrived(state: RunState) -> RunState:
    viable = next((c for c in state.candidates.values() if c.changed), None)
    if viable is None:
        return missing(state, "a candidate")
    if state.iteration + 1 >= state.settings.pipeline.iterations:
        return leave(state, PipelinePhase.Review, winner=viable.label)
    began = (*state.iterations[: state.iteration], viable)
    return leave(
        state, PipelinePhase.Planning, winner=viable.label, iteration=state.iteration + 1, iterations=began, lanes={},
        plan=None, planned=False,
    )  # fmt: skip


PHASE = Phase(lambda state: state.but(winner=""), arrived=_arrived)

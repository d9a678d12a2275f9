"""The table of phases, and of the readers of structured answers. A new phase is one module and one line here."""

from collections.abc import Callable
from typing import Protocol

from nightcrew.core.effects import Effect
from nightcrew.core.events import EffectAnswer
from nightcrew.core.phases import committing, development, finalizing, judging, landing, planning, review, validation
from nightcrew.core.state import RunState
from nightcrew.core.work import PipelinePhase, Report


class Phase(Protocol):
    """What a phase's module must offer; all of it pure."""

    def wants(self, state: RunState) -> tuple[Effect, ...]:
        """The effects that should be in flight now."""
        ...

    def arrived(self, state: RunState) -> RunState:
        """One step further where nothing needs to be asked; the same state when there is something to ask."""
        ...

    def answered(self, state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
        """What a terminal answer to one of the phase's effects means."""
        ...

    def afresh(self, state: RunState) -> RunState:
        """The phase's progress forgotten (recovery level 2 and above)."""
        ...

    def again(self, state: RunState) -> RunState:
        """What failed due once more, with one more round of the budget that ran out (recovery level 1)."""
        ...


PHASES: dict[PipelinePhase, Phase] = {
    PipelinePhase.Planning: planning,
    PipelinePhase.Development: development,
    PipelinePhase.Judging: judging,
    PipelinePhase.Review: review,
    PipelinePhase.FinalValidation: validation,
    PipelinePhase.CommitMessage: committing,
    PipelinePhase.Landing: landing,
    PipelinePhase.Finalizing: finalizing,
}

READERS: dict[str, Callable[[str], Report | None]] = {
    development.NODE: development.read,
    review.NODE: review.read,
    review.FIX: review.read_fix,
    committing.NODE: committing.read,
}
"""By the name a `StartTurn` gives in `reads`."""

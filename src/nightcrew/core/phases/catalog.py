"""The table of phases, and of the readers of structured answers. A new phase is one module and one line here."""

from collections.abc import Callable
from typing import NamedTuple

from msgspec import structs

from nightcrew.core.effects import Effect
from nightcrew.core.events import EffectAnswer
from nightcrew.core.phases import committing, development, finalizing, judging, landing, planning, review, validation
from nightcrew.core.state import RunState
from nightcrew.core.work import PipelinePhase, Report


def _same(state: RunState) -> RunState:
    return state


class Phase(NamedTuple):
    """What a phase offers, all of it pure; what it leaves out is nothing."""

    afresh: Callable[[RunState], RunState]  # its progress forgotten (recovery level 2 and above)
    again: Callable[[RunState], RunState] = _same  # what failed due once more, with one more round (recovery level 1)
    arrived: Callable[[RunState], RunState] = _same  # a step further where nothing is asked; the same state otherwise
    wants: Callable[[RunState], tuple[Effect, ...]] = lambda _state: ()  # the effects that should be in flight
    answered: Callable[[RunState, Effect, EffectAnswer], RunState] = lambda state, _effect, _event: state
    winner: bool = False  # it works on the winner, and is never asked without one


PHASES: dict[PipelinePhase, Phase] = {
    PipelinePhase.Planning: Phase(planning.afresh, _same, planning.arrived, planning.wants, planning.answered),
    PipelinePhase.Development: Phase(
        development.afresh, development.again, development.arrived, development.wants, development.answered
    ),
    PipelinePhase.Judging: Phase(lambda state: structs.replace(state, winner=""), arrived=judging.arrived),
    PipelinePhase.Review: Phase(
        review.afresh, review.again, review.arrived, review.wants, review.answered, winner=True
    ),
    PipelinePhase.FinalValidation: Phase(
        validation.afresh, validation.again, validation.arrived, validation.wants, validation.answered, winner=True
    ),
    PipelinePhase.CommitMessage: Phase(
        committing.afresh, _same, committing.arrived, committing.wants, committing.answered, winner=True
    ),
    PipelinePhase.Landing: Phase(
        landing.afresh, landing.again, landing.arrived, landing.wants, landing.answered, winner=True
    ),
    PipelinePhase.Finalizing: Phase(
        lambda state: structs.replace(state, dropped=False), wants=finalizing.wants, answered=finalizing.answered
    ),
}

READERS: dict[str, Callable[[str], Report | None]] = {
    development.NODE: development.read,
    review.NODE: review.read,
    review.FIX: review.read_fix,
    committing.NODE: committing.read,
}
"""By the name a `StartTurn` gives in `reads`."""

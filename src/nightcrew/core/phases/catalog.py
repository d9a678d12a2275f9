"""The table of phases, and of the readers of structured answers. A new phase is one module and one line here."""

from collections.abc import Callable
from functools import partial

from nightcrew.core.phases import committing, development, finalizing, judging, landing, planning, review, validation
from nightcrew.core.reading import last_fitting
from nightcrew.core.state import Phase
from nightcrew.core.work import Advice, FixReport, PipelinePhase, Report

PHASES: dict[PipelinePhase, Phase] = {
    PipelinePhase.Planning: planning.PHASE,
    PipelinePhase.Development: development.PHASE,
    PipelinePhase.Judging: judging.PHASE,
    PipelinePhase.Review: review.PHASE,
    PipelinePhase.FinalValidation: validation.PHASE,
    PipelinePhase.CommitMessage: committing.PHASE,
    PipelinePhase.Landing: landing.PHASE,
    PipelinePhase.Finalizing: finalizing.PHASE,
}
READERS: dict[str, Callable[[str], Report | None]] = {
    planning.ADVISE: partial(last_fitting, shape=Advice),
    development.NODE: development.read,
    judging.NODE: judging.read,
    judging.VOTE: judging.read_ballot,
    review.NODE: review.read,
    review.AGAIN: review.read_vote,
    review.FIX: partial(last_fitting, shape=FixReport),
    committing.NODE: committing.read,
}  # by the name a `StartTurn` gives in `reads`

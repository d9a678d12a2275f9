"""A terminal failure enters AwaitingDevFix, and the phase that failed ends it by completing."""

from msgspec import structs

from nightcrew.core import rooms
from nightcrew.core.fixer import FIX_NODES, FIX_SEAT
from nightcrew.core.ids import Commit, Label, SeatKey, Tree
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import Committing, LandingTry, Mark, Planning, Reviewing, RunState, Trouble, Validating, enter
from nightcrew.core.work import Failure, PipelinePhase

NODE = "dev-fix"
"""Where a repair is asked for."""
ORDER = (
    PipelinePhase.Planning,
    PipelinePhase.Development,
    PipelinePhase.Judging,
    PipelinePhase.Review,
    PipelinePhase.FinalValidation,
    PipelinePhase.CommitMessage,
    PipelinePhase.Landing,
    PipelinePhase.Finalizing,
)
"""The phases that do work, in pipeline order; a recovery targets only these."""


CHAINS_OF: dict[PipelinePhase, tuple[AgentRole, ...]] = {
    PipelinePhase.Planning: (AgentRole.Planner,),
    PipelinePhase.Development: (AgentRole.Developer,),
    PipelinePhase.Judging: (),
    PipelinePhase.Review: (AgentRole.Reviewer, AgentRole.Fixer),
    PipelinePhase.FinalValidation: (AgentRole.Fixer,),
    PipelinePhase.CommitMessage: (AgentRole.Committer,),
    PipelinePhase.Landing: (AgentRole.Fixer,),
    PipelinePhase.Finalizing: (),
}
"""The chains that a phase asks."""
NODES_OF = {
    AgentRole.Planner: ("plan",),
    AgentRole.Developer: ("implement", NODE),
    AgentRole.Reviewer: ("review",),
    AgentRole.Fixer: FIX_NODES,
    AgentRole.Committer: ("commit",),
}
"""The nodes at which handovers move a chain's start."""
SEATS_OF: dict[PipelinePhase, tuple[SeatKey, ...]] = {
    PipelinePhase.Planning: (SeatKey("plan"),),
    PipelinePhase.Development: (rooms.impl_seat(Label("A")),),
    PipelinePhase.Judging: (),
    PipelinePhase.Review: (SeatKey("review-1"), FIX_SEAT),
    PipelinePhase.FinalValidation: (FIX_SEAT,),
    PipelinePhase.CommitMessage: (SeatKey("commit"),),
    PipelinePhase.Landing: (FIX_SEAT,),
    PipelinePhase.Finalizing: (),
}
"""The conversations that a reset to the start of a phase gives up."""
ROLE_OF = {
    PipelinePhase.Planning: AgentRole.Planner,
    PipelinePhase.Development: AgentRole.Developer,
    PipelinePhase.Judging: AgentRole.Judge,
    PipelinePhase.Review: AgentRole.Reviewer,
    PipelinePhase.FinalValidation: AgentRole.Fixer,
    PipelinePhase.CommitMessage: AgentRole.Committer,
    PipelinePhase.Landing: AgentRole.Fixer,
    PipelinePhase.Finalizing: AgentRole.Developer,
}
"""The role that stands for a phase where a failure names none."""


def fail(state: RunState, failure: Failure) -> RunState:
    """The run in AwaitingDevFix because of `failure`; an earlier trouble that is not over keeps its count."""
    if state.done:
        return state
    if state.phase is PipelinePhase.AwaitingDevFix:
        return state
    before, phase, tree = state.trouble, state.phase, _tree(state)
    if before is None or before.over:
        trouble = Trouble(failure=failure, failed_phase=phase, furthest=phase, previous_phase=phase)
        trouble = structs.replace(trouble, tree=tree, iteration=state.iteration)
    else:
        trouble = structs.replace(
            before,
            failure=failure,
            failed_phase=phase,
            furthest=max(before.furthest, phase, key=ORDER.index),
            iteration=max(before.iteration, state.iteration),
            previous_phase=phase,
            triggered=False,
            finished=False,
            unavailable=False,
            reset=(),
            step="ask",
            tree=tree,
            same=before.same + 1 if _alike(before, failure, tree) else 0,
        )
    return enter(state, PipelinePhase.AwaitingDevFix, trouble=trouble)


def _tree(state: RunState) -> Tree:
    return state.winning.change.tree if state.winning else Tree("")


def _alike(before: Trouble, failure: Failure, tree: Tree) -> bool:
    """Whether going back to the start, with whatever was repaired, led to the very same end."""
    return before.level >= 4 and before.tree == tree and before.failure.signature == failure.signature


def leave(state: RunState, phase: PipelinePhase, **changes: object) -> RunState:
    """The run in the next phase, because the present one completed; a trouble it was in is over if this phase had failed last."""
    state = enter(completed(state), phase, **changes)
    again = state.trouble is not None and not state.trouble.over and phase in state.marks
    if state.winning is None or again:
        return state
    return structs.replace(state, marks={**state.marks, phase: Mark(state.winning, state.base)})


def back_to_its_start(state: RunState, phase: PipelinePhase) -> RunState:
    """The run with the winner as it was when `phase` began (level 2); repairs come on top."""
    mark, winner = state.marks.get(phase), state.winning
    if mark is None or winner is None or winner.label != mark.winner.label:
        return state
    state = rooms.with_candidate(state, structs.replace(mark.winner, slot=winner.slot))
    return rooms.rewound(structs.replace(state, base=mark.base), winner.label, mark.winner.change.head)


def back_to_an_iteration(state: RunState, iteration: int) -> RunState:
    """The run as it was when that iteration began (levels 3 and 4): nothing of a later one is left, no prompt or session used again."""
    began = rooms.at_its_slot(state, state.iterations[iteration - 1]) if iteration else None
    return structs.replace(
        state,
        iteration=iteration,
        iterations=state.iterations[:iteration],
        recovery_epoch=state.recovery_epoch + 1,
        base=state.started.base,
        candidates={began.label: began} if began else {},
        winner=began.label if began else Label(""),
        seats={},
        marks={},
        rewinds={},
        unreviewed=False,
        plan=None,
        planning=Planning(),
        lanes={},
        open_findings=(),
        contested=False,
        gated=Tree(""),
        commit=Commit(""),
        reviewing=Reviewing(),
        validating=Validating(fresh=True),
        committing=Committing(),
        trying=LandingTry(),
        dropped=False,
    )


def first_phase(state: RunState) -> PipelinePhase:
    """The first phase of an iteration: Planning, unless nobody plans and the base was looked at already."""
    plans = state.settings.pipeline.plan and bool(state.started.roles.chain(AgentRole.Planner))
    verify = state.settings.verify
    looked = state.preflight is not None or not (verify.gate or verify.check)
    return PipelinePhase.Planning if plans or not looked else PipelinePhase.Development


def completed(state: RunState) -> RunState:
    """The run whose present phase completed; the trouble is over if none had failed in it later, in this iteration or one after."""
    trouble = state.trouble
    if trouble is None or (state.iteration, ORDER.index(state.phase)) < (
        trouble.iteration,
        ORDER.index(trouble.furthest),
    ):
        return state
    return structs.replace(state, trouble=structs.replace(trouble, over=True))


def missing(state: RunState, what: str, role: str) -> RunState:
    """The failure of a phase whose inputs are not there (no plan, no candidate, no winner)."""
    return fail(
        state, Failure(phase=state.phase, role=role, kind="missing", reason=f"{what} is missing", signature=what)
    )


def role_of(trouble: Trouble) -> AgentRole:
    """The failed role; a failure without an agent takes its phase's role."""
    named = trouble.failure.role
    if named in {str(role) for role in AgentRole}:
        return AgentRole(named)
    return ROLE_OF.get(trouble.failed_phase, AgentRole.Developer)

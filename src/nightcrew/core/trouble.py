"""A terminal failure enters AwaitingDevFix, and the phase that failed ends it by completing."""

from collections.abc import Iterable
from typing import NamedTuple

from nightcrew.core import chain, rooms
from nightcrew.core.chain import FIX_NODES, FIX_SEAT
from nightcrew.core.ids import Commit, Label, SeatKey, Tree
from nightcrew.core.roster import AgentRole as Role
from nightcrew.core.state import Advising, Judging, LandingTry, Reviewing, RunState, Trouble, Validating, enter, line
from nightcrew.core.work import Blob, Failure, PipelinePhase as Phase

NODE = "dev-fix"


class _Asks(NamedTuple):
    role: Role  # stands for the phase where a failure names none
    chains: tuple[Role, ...] = ()
    seats: tuple[str, ...] = ()  # how they begin whose conversations are given up by a reset to the start of the phase


ASKS = {
    Phase.Planning: _Asks(Role.Planner, (Role.Planner, Role.Advisor, Role.Synthesizer), ("plan", "advisor", "synthesis")),
    Phase.Development: _Asks(Role.Developer, (Role.Developer,), ("impl",)),
    Phase.Judging: _Asks(Role.Judge, (Role.Judge,), ("judge",)),
    Phase.Review: _Asks(Role.Reviewer, (Role.Reviewer, Role.Fixer), ("review", FIX_SEAT)),
    Phase.FinalValidation: _Asks(Role.Fixer, (Role.Fixer,), (FIX_SEAT,)),
    Phase.CommitMessage: _Asks(Role.Committer, (Role.Committer,), ("commit",)),
    Phase.Landing: _Asks(Role.Fixer, (Role.Fixer,), (FIX_SEAT,)),
    Phase.Finalizing: _Asks(Role.Developer),
}
ORDER = tuple(ASKS)  # the phases that do work, in pipeline order; a recovery targets only these
NODES_OF = {  # at which handovers move a chain's start
    Role.Planner: ("plan",), Role.Advisor: ("advise",), Role.Synthesizer: ("synthesize",), Role.Developer: ("implement", NODE),
    Role.Judge: ("judge", "deliberate", "vote"), Role.Reviewer: ("review", "revote"), Role.Fixer: FIX_NODES, Role.Committer: ("commit",),
}  # fmt: skip


def fail(state: RunState, failure: Failure) -> RunState:
    """The run in AwaitingDevFix because of `failure`; an earlier trouble that is not over keeps its count."""
    if state.phase is Phase.AwaitingDevFix and state.trouble is not None:  # the attempt is over, the first failure is kept
        return state.within("trouble", step="told", success=False, summary=line(failure.reason))
    if state.done or state.phase is Phase.AwaitingDevFix:
        return state
    before, phase = state.trouble, state.phase
    tree = state.winning.change.tree if state.winning else Tree("")
    reached = Phase.CommitMessage if phase is Phase.FinalValidation and state.validating.refused else phase
    new = Trouble(failure=failure, failed_phase=phase, furthest=reached, tree=tree, iteration=state.iteration, since=state.at)
    if before is None or before.over:
        return enter(state, Phase.AwaitingDevFix, trouble=new)
    # Going back to the start, with whatever was repaired, led to the very same end.
    as_before = before.failure.signature == failure.signature
    alike = before.level >= 4 and before.tree == tree and as_before
    trouble = new.but(
        furthest=max(before.furthest, reached, key=ORDER.index), iteration=max(before.iteration, state.iteration),
        same=before.same + 1 if alike else 0, attempts=before.attempts, level=before.level, attempted=before.attempted,
        waits=before.waits, repairs=before.repairs, since=before.since if as_before else state.at,
    )  # fmt: skip
    return enter(state, Phase.AwaitingDevFix, trouble=trouble)


def fail_of(state: RunState, failures: Iterable[Failure]) -> RunState:
    """The run after several calls failed: of one that more than waiting may mend, if there is one."""
    return fail(state, min(failures, key=lambda failure: failure.unavailable))


def fails(
    state: RunState, kind: str, reason: str, node: str, seat: SeatKey = SeatKey(""), *, detail: Blob | None = None, sign: str = ""
) -> RunState:
    """The run after a failure of no agent; it is told apart by `sign`, where the reason does not say enough."""
    role = Role.Fixer if node in FIX_NODES else _role(state.phase)
    failure = Failure(
        phase=state.phase, role=str(role), kind=kind, reason=reason, node=node, seat=seat, detail=detail,
        signature=chain.signature_of(sign or reason), internal=kind == "internal",
    )  # fmt: skip
    return fail(state, failure)


def leave(state: RunState, phase: Phase, **changes: object) -> RunState:
    """The run in the next phase, because the present one completed; a trouble it was in is over if this phase had failed last."""
    state = enter(completed(state), phase, **changes)
    if state.winning is None or (state.trouble is not None and not state.trouble.over and phase in state.marks):
        return state
    return state.but(marks={**state.marks, phase: (state.winning, state.base)})


def back_to_its_start(state: RunState, phase: Phase) -> RunState:
    """The run with the winner as it was when `phase` began (level 2); repairs come on top."""
    (began, base), winner = state.marks.get(phase, (None, state.base)), state.winning
    if began is None or winner is None or winner.label != began.label:
        return state
    return rooms.rewound(rooms.with_candidate(state.but(base=base), began), winner.label, began.change.head)


def back_to_an_iteration(state: RunState, iteration: int) -> RunState:
    """The run as it was when that iteration began (levels 3 and 4): nothing of a later one is left, no prompt or session used again."""
    began = state.iterations[iteration - 1] if iteration else None
    state = chain.forgotten(state, *state.seats)
    return state.but(
        iteration=iteration, iterations=state.iterations[:iteration], recovery_epoch=state.recovery_epoch + 1,
        base=state.started.base, candidates={began.label: began} if began else {},
        winner=began.label if began else Label(""), marks={}, rewinds={}, unreviewed=False, plan=None,
        planned=False, advising=Advising(), lanes={}, judging=Judging(), open_findings=(), contested=False, gated=Tree(""), commit=Commit(""),
        reviewing=Reviewing(), validating=Validating(fresh=True), text=None, trying=LandingTry(), dropped=False,
    )  # fmt: skip


def first_phase(state: RunState) -> Phase:
    """The first phase of an iteration: Planning, unless nobody plans and the base was looked at already."""
    plans = state.settings.pipeline.plan and bool(state.started.roles.chain(Role.Planner))
    return Phase.Planning if plans or not looked(state) else Phase.Development


def looked(state: RunState) -> bool:
    """Whether the base was looked at, or there is nothing to look with."""
    return state.preflight is not None or not (state.settings.verify.gate or state.settings.verify.check)


def missing(state: RunState, what: str) -> RunState:
    """The failure of a phase whose inputs are not there."""
    return fails(state, "missing", f"{what} is missing", "", sign=what)


def completed(state: RunState) -> RunState:
    """The run whose present phase completed; the trouble is over if none had failed in it later, in this iteration or one after."""
    trouble = state.trouble
    if trouble is None or (state.iteration, ORDER.index(state.phase)) < (trouble.iteration, ORDER.index(trouble.furthest)):
        return state
    return state.but(trouble=trouble.but(over=True))


def role_of(trouble: Trouble) -> Role:
    """The failed role; a failure without an agent takes its phase's role."""
    named = trouble.failure.role
    return Role(named) if named in set(Role) else _role(trouble.failed_phase)


def _role(phase: Phase) -> Role:
    return ASKS[phase].role if phase in ASKS else Role.Developer

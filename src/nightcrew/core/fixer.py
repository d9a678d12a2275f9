"""The fixer chain, shared by every node that asks a fixer. Its memory is `RunState.handovers` alone, so that report and behaviour agree."""

from collections.abc import Callable

from nightcrew.core import brief as b, chain, rooms
from nightcrew.core.events import WorkCollected
from nightcrew.core.ids import AgentId, SeatKey
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import RunState, Want, on
from nightcrew.core.trouble import fail
from nightcrew.core.work import Candidate, CommandResult, Failure, Outcome


def attempts(state: RunState, winner: Candidate) -> tuple[tuple[tuple[AgentId, SeatKey], ...], tuple[AgentId, ...]]:
    """The fixers to ask in order, each with the seat it sits in; and the ids before the sticky start."""
    if not state.started.roles.fixer_set:  # then the winner's implementer, in its own seat
        return ((winner.agent, winner.seat),), ()
    agents = state.started.roles.chain(AgentRole.Fixer)
    start = chain.sticky_start(agents, chain.counted(state, AgentRole.Fixer), chain.FIX_NODES)
    # The winner's own agent sits in its own seat, where its conversation goes on.
    return tuple((agent, winner.seat if agent == winner.agent else chain.FIX_SEAT) for agent in agents[start:]), agents[:start]


def can_fix(state: RunState) -> bool:
    """Whether there is anybody to ask."""
    return bool(attempts(state, state.chosen)[0])


def ask(state: RunState, node: str, *new: b.Piece, then: chain.Then, shape: str = "") -> tuple[Want, ...]:
    """A fixer to be asked in the winner's workspace: one seat `fix` for all four nodes; `new` is what it does not know yet."""
    winner = state.chosen
    entries, before = attempts(state, winner)
    known = (b.HOUSE, *b.task(state), *b.plan(state), *b.change(winner.change.patch))
    wish = chain.Wish(
        node, chain.FIX_SEAT, AgentRole.Fixer, Answers.Edit, lambda memory: b.brief(*(() if memory else known), *new), then,
        entries=entries, before=before, reads=node if shape else "", shape=shape, lenient=bool(shape), label=winner.label,
    )  # fmt: skip
    return chain.ask(state, wish)


def mend(
    state: RunState, part: str, node: str, *new: b.Piece, then: Callable[[RunState, WorkCollected], RunState], shape: str = ""
) -> tuple[Want, ...]:
    """A round of a fixer in that part of the run: its step `fix` asks, `collect` takes the work; `then` is told what it did."""

    def said(now: RunState, what: Outcome | Failure) -> RunState:
        if isinstance(what, Failure):
            return fail(now, what)
        return now.within(part, step="collect", **({"fixed": what.report} if shape else {}))

    if getattr(state, part).step == "fix":
        return ask(state, node, *new, then=said, shape=shape)
    return rooms.collect(state, node, state.winner, f"a round of {node}", on(WorkCollected, then))


def gate_round_left(state: RunState, red: CommandResult) -> bool:
    """Whether a gate-fix round can help and may be made: an ordinary failure, budget left, and somebody to ask."""
    at = state.validating
    return red.ordinary and at.rounds < state.settings.pipeline.gate_fix_rounds + at.granted and can_fix(state)

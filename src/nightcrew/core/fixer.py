"""The fixer chain, shared by every node that asks a fixer.

Sticky within a run and never persisted: the memory is `RunState.handovers` alone, so that the report and the behaviour
read one record and nothing is written to the config.
"""

from nightcrew.core.chain import counted, sticky_start
from nightcrew.core.ids import AgentId, SeatKey
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import RunState
from nightcrew.core.work import Candidate, CommandResult

FIX_NODES = ("fix", "gate-fix", "land", "rebase")
"""Every consumer records its handovers under exactly one of these, so that the two sides cannot disagree."""

FIX_SEAT = SeatKey("fix")


def attempts(state: RunState, winner: Candidate) -> tuple[tuple[tuple[AgentId, SeatKey], ...], tuple[AgentId, ...]]:
    """The fixers to ask in order, each with the seat it sits in; and the ids before the sticky start.

    Unset chain: the winner's implementer in its own seat. Set: forward from the sticky start; the winner's own agent sits
    in its own seat, where its conversation goes on, every other in `fix`.
    """
    if not state.started.roles.fixer_set:
        return ((winner.agent, winner.seat),), ()
    chain = state.started.roles.chain(AgentRole.Fixer)
    start = sticky_start(chain, counted(state, str(AgentRole.Fixer)), FIX_NODES)
    seats = tuple((agent, winner.seat if agent == winner.agent else FIX_SEAT) for agent in chain[start:])
    return seats, chain[:start]


def gate_round_left(state: RunState, winner: Candidate, red: CommandResult) -> bool:
    """Whether a gate-fix round can help and may be made: an ordinary failure, budget left, and somebody to ask."""
    at = state.validating
    left = at.rounds < state.settings.pipeline.gate_fix_rounds + at.granted
    return red.ordinary and left and bool(attempts(state, winner)[0])

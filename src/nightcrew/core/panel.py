"""A panel: seats that read in parallel, each in a room of its own; whom each of them asks, who answered, and who is absent."""

from collections.abc import Callable, Collection

from nightcrew.core import chain, rooms
from nightcrew.core.ids import AgentId, Commit, SeatKey
from nightcrew.core.state import RunState, Want
from nightcrew.core.work import Failure, Outcome

Agents = tuple[AgentId, ...]
Seats = tuple[SeatKey, ...]


def seats(name: str, number: int) -> Seats:
    """The seats of a panel of that size."""
    return tuple(SeatKey(f"{name}-{n}") for n in range(1, number + 1))


def bench(agents: Agents, number: int, n: int, shunned: Collection[AgentId] = ()) -> Agents:
    """Whom seat `n` (from 0) of `number` asks: from its own start forward, rather a spare agent than one with which another seat starts."""
    # Nobody who is shunned is asked, as long as there is anybody else.
    first = [agent for agent in agents if agent not in shunned] or agents
    starts = [first[i % len(first)] for i in range(number)]
    after = agents[agents.index(starts[n]) + 1 :]
    rest = [agent for agent in after if agent not in shunned] or after
    return (starts[n], *([agent for agent in rest if agent not in starts] or rest))


def awaited(state: RunState, part: str, into: str, asked: Seats, node: str = "", enough: int = 0) -> Seats:
    """Those of the seats that have neither answered, in that field of that part of the run, nor failed; where `enough` did, none that sleeps."""
    at = getattr(state, part)
    out = chain.asleep(state, node) if len(getattr(at, into)) >= enough else set[SeatKey]()
    return tuple(seat for seat in asked if seat not in out and seat not in getattr(at, into) and seat not in at.absent)


def ask(
    state: RunState, asked: Seats, head: Commit, wish: Callable[[SeatKey], chain.Wish], sees: tuple[Commit, ...] = ()
) -> tuple[Want, ...]:
    """What is due for those seats, all at once: a room at `head`, then the turn."""
    housed = ((seat, rooms.reader(state, seat, head, sees)) for seat in asked)
    return tuple(want for seat, room in housed for want in room or chain.ask(state, wish(seat)))


def heard(state: RunState, part: str, into: str, seat: SeatKey, said: Outcome | Failure) -> RunState:
    """The run after a seat answered, or its call failed."""
    into, what = ("absent", said) if isinstance(said, Failure) else (into, said.report)
    return state.within(part, **{into: {**getattr(getattr(state, part), into), seat: what}})

"""Seats: who sits where, and whether a prompt may rely on memory."""

from msgspec import structs

from nightcrew.core.ids import AgentId, SeatKey, SlotId, session_id
from nightcrew.core.state import RunState, SeatState
from nightcrew.core.work import Outcome


def seat_in(state: RunState, key: SeatKey, agent: AgentId, slot: SlotId) -> SeatState:
    """The seat for a turn in `slot`: the same agent goes on where it can; else another conversation begins, as the old id is taken."""
    now = state.seats.get(key)
    if now is not None and now.agent == agent and (now.turns == 0 or has_session(now, slot)):
        return now
    return fresh_seat(state, key, agent)


def fresh_seat(state: RunState, key: SeatKey, agent: AgentId) -> SeatState:
    """A seat with a conversation that was never offered to any CLI before (decision 0004)."""
    generation = state.generations.get(key, 0) + 1
    minted = session_id(state.started.seed, key, generation, agent)
    return SeatState(key=key, agent=agent, generation=generation, minted=minted)


def has_session(seat: SeatState, slot: SlotId) -> bool:
    """Whether the agent in this seat remembers: it reported a conversation (a plain command never does), begun in this very slot."""
    return seat.turns > 0 and bool(seat.reported) and seat.slot == slot


def sat_down(state: RunState, seat: SeatState) -> RunState:
    """The run with `seat` taken; a new generation is remembered for ever."""
    generation = max(seat.generation, state.generations.get(seat.key, 0))
    generations = {**state.generations, seat.key: generation}
    return structs.replace(state, seats={**state.seats, seat.key: seat}, generations=generations)


def took_turn(state: RunState, key: SeatKey, outcome: Outcome, slot: SlotId) -> RunState:
    """The run after the agent in `key` took a turn in `slot` and told which conversation it was."""
    seat = state.seats[key]
    told = outcome.session or seat.reported
    seat = structs.replace(
        seat, turns=seat.turns + 1, reported=told, usd=seat.usd + (outcome.usd or 0.0), slot=slot if told else seat.slot
    )
    return sat_down(state, seat)


def forget(state: RunState, key: SeatKey) -> RunState:
    """The run with the seat's conversation given up: its agent starts cold next time, under an id of its own."""
    seat = state.seats.get(key)
    return state if seat is None else sat_down(state, fresh_seat(state, key, seat.agent))

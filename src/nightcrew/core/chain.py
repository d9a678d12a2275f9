"""Asking a chain: when a call advances, who is asked next, what is a handover.

Theory of operation. A phase says what it wants asked (`Wish`); `ask` gives the effect that is due for it, whose answers go on with
the walk until the wish is told how it ended. Between two answers the position stands in `RunState.calls`. One `StartTurn` asks one
agent. A walk goes forward only; an agent that the ledger knows to be cooling answers `AgentCooling` without a process and is passed
over; its handover is recorded when the next agent really begins. When every entry left is cooling the call sleeps.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from nightcrew.core.effects import Effect, StartTurn
from nightcrew.core.events import AgentCooling, EffectAnswer, HandedOver, TimerFired, TurnEnded, TurnLost
from nightcrew.core.ids import AgentId, Label, SeatKey, SlotId, fraction, impl_seat, session_id
from nightcrew.core.reading import json_answer
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Call, RunState, SeatState, Want, keyed, line, timer, without
from nightcrew.core.work import UNAVAILABLE, Brief, Class, FailClass, Failure, Handover, Outcome, Part, QuotaLoss, Report

# Faults that pass, so that the same agent is asked again after a pause; that are forgiven once; and of the conversation, not
# of the agent, which is asked once more in a fresh one.
PASSING = frozenset({Class.RateLimit, Class.Overloaded, Class.Network, Class.ServerError})
ONCE_MORE = frozenset({Class.Crashed, Class.InvalidOutput})
COLD = frozenset({Class.SessionNotFound, Class.SessionInUse, Class.ContextTooLong})
ROSTER_NODES = frozenset({"advise", "implement", "judge", "deliberate", "vote", "review", "revote"})
"""Nodes whose walk stops when two neighbours fail alike: a fault of the prompt must not burn the roster."""
FIX_NODES = ("fix", "gate-fix", "land", "rebase")  # each consumer of the fixer chain records its handovers under one of these
FIX_SEAT = SeatKey("fix")
LOST_IN_A_ROW = 3
REASKS = 2  # for an answer in the right shape
_REASK = "Your last answer did not end with a JSON object of the asked shape. Give it now, from what you know already."
Then = Callable[[RunState, Outcome | Failure], RunState]


class Wish(NamedTuple):
    """What a phase wants asked, `brief(memory)` of one that remembers or not; `then` goes on with a usable answer or an exhausted chain's failure."""

    node: str
    seat: SeatKey
    role: AgentRole
    answers: Answers
    brief: Callable[[bool], Brief]
    then: Then
    reads: str = ""
    shape: str = ""  # the JSON shape a structured answer must have
    fits: Callable[[Report], bool] = lambda _report: True  # whether an answer of that shape can be meant
    reasks: int = REASKS
    label: Label = Label("")  # whose work it edits; a seat without one only reads
    lenient: bool = False  # an answer counts without its shape, once two more were asked for; the files decide anyway
    agents: tuple[AgentId, ...] = ()  # whom to ask, if not the role's chain
    nodes: tuple[str, ...] = ()  # at whose handovers the seat moved on, if not at its own node alone
    entries: tuple[tuple[AgentId, SeatKey], ...] = ()  # the walk from its sticky start on, like the next two
    before: tuple[AgentId, ...] = ()  # the chain's entries before the sticky start, which this call does not ask
    slot: SlotId = SlotId("")


def output_advances(outcome: Outcome, call: Call, retries: int, reasks: int = REASKS) -> bool:
    """Whether this outcome passes the seat on to the next entry, given the second chances the call has already spent."""
    if outcome.kind in PASSING:
        return call.tries >= retries
    if outcome.kind in ONCE_MORE:
        return call.reasked >= (reasks if outcome.kind is Class.InvalidOutput and outcome.answer is not None else 1)
    return outcome.kind is not Class.Ok and (outcome.kind not in COLD or call.cold >= 1)


def signature_of(reason: str) -> str:
    """A reason with what varies folded away: lower case, digits, paths; at most 120 characters."""
    text = re.sub(r"(?:[a-z]:)?[~.]?(?:/[^\s/:'\"`]+)+", "<path>", line(reason, 400).lower())
    return re.sub(r"\d+", "0", text)[:120]


def failure_of(outcome: Outcome) -> tuple[FailClass, str, str]:
    """How a call failed, one short line why, and the signature of what the class does not tell, for the handover record."""
    fail = {Class.Quota: FailClass.Quota, Class.Timeout: FailClass.Timeout}.get(outcome.kind, FailClass.Other)
    reason = line(outcome.reason) or str(outcome.kind)
    return fail, reason, signature_of(reason) if fail is FailClass.Other else ""


def _walked(state: RunState, wish: Wish) -> Wish:
    """The wish with its place and its walk: whoever took the seat over last, since the last reset, goes on sitting there."""
    wish = wish._replace(slot=state.slot(impl_seat(wish.label) if wish.label else wish.seat))
    if wish.entries:
        return wish
    agents = wish.agents or state.started.roles.chain(wish.role)
    start = sticky_start(agents, (h for h in counted(state, wish.role) if h.seat == wish.seat), wish.nodes or (wish.node,))
    return wish._replace(entries=tuple((agent, wish.seat) for agent in agents[start:]), before=agents[:start])


def asleep(state: RunState, node: str) -> set[SeatKey]:
    """The seats whose call at that node waits, because everybody it could ask cools down."""
    return {call.seat for call in state.calls.values() if call.sleeping and call.node == node}


def counted(state: RunState, chain: str) -> tuple[Handover, ...]:
    """The handovers since `chain` was last reset by recovery."""
    return state.handovers[state.resets.get(chain, 0) :]


def sticky_start(chain: tuple[AgentId, ...], handovers: Iterable[Handover], nodes: tuple[str, ...]) -> int:
    """The position of `to_agent` of the last of those handovers on `nodes` that is on the chain; else 0."""
    hits = [h.to_agent for h in handovers if h.node in nodes and h.to_agent in chain]
    return chain.index(hits[-1]) if hits else 0


def ask(state: RunState, wish: Wish) -> tuple[Want, ...]:
    """What is due for this wish: a turn, a pause before it, or nothing while a handover waits to be recorded."""
    wish = _walked(state, wish)
    call = _call(state, wish)
    if call.failed is not None:
        return ()
    if call.wait_until:
        agents = tuple(agent for agent, _ in call.entries[call.first :]) if call.sleeping else ()
        why = f"waiting for {', '.join(agents)}" if agents else f"pause before asking {call.entries[call.at][0]} again"
        due: Effect = timer(state, call.node, call.seat, call.wait_until, why, agents)
    else:
        due = _turn(state, wish, call)
    return (Want(due, lambda now, effect, event: _answered(now, wish, effect, event)),)


def _turn(state: RunState, wish: Wish, call: Call) -> Effect:
    agent, key = call.entries[call.at]
    seat = seat_in(state, key, agent, wish.slot)
    memory, limit = has_session(seat, wish.slot), state.started.limits.turn_s
    reask = call.reasked > 0 and memory and bool(wish.shape)
    turn = StartTurn(
        node=wish.node, seat=key, role=wish.role, agent=agent, slot=wish.slot, answers=wish.answers,
        brief=Brief((Part(text=_REASK), Part(text=json_answer(wish.shape)))) if reask else wish.brief(memory), reads=wish.reads,
        label=wish.label, session="" if memory else seat.minted, resume=seat.reported if memory else "", read_only=not wish.label,
        total_s=max(min(120.0, limit), limit / 4) if reask else limit,
    )  # fmt: skip
    return keyed(state, turn)


def _answered(state: RunState, wish: Wish, effect: Effect, event: EffectAnswer) -> RunState:
    call = _call(state, wish)
    match event:
        case TurnEnded(outcome=outcome) if isinstance(effect, StartTurn):
            state = sat_down(state, seat_in(state, effect.seat, effect.agent, effect.slot))
            if outcome.kind not in COLD and (outcome.kind is Class.Ok or outcome.session):
                state = took_turn(state, effect.seat, outcome, effect.slot)
            return _ended(state, wish, call, outcome)
        case TurnLost(session=session) if isinstance(effect, StartTurn):
            state = interrupted(state, effect, session)
            if call.lost + 1 < LOST_IN_A_ROW:
                return _keep(state, call, lost=call.lost + 1)
            lost = Outcome(kind=Class.Crashed, reason="the turn vanished three times in a row")
            return _ended(state, wish, call.but(reasked=1), lost)
        case AgentCooling(agent=agent, until=until):
            return _cooled(state.but(cooling={**state.cooling, agent: until + state.behind_s}), wish, call)
        case TimerFired():
            return _keep(state, call, at=call.first if call.sleeping else call.at, wait_until=0.0, sleeping=False)
        case _:
            return state


def interrupted(state: RunState, effect: StartTurn, session: str) -> RunState:
    """The run after a turn was cut off: the conversation it told of goes on; an id that was offered in vain is never offered again."""
    seat = seat_in(state, effect.seat, effect.agent, effect.slot)
    if effect.session not in {"", seat.minted}:
        return state  # somebody sat down there since, under an id of their own
    state = sat_down(state, seat)
    if session:
        return took_turn(state, effect.seat, Outcome(kind=Class.Crashed, session=session), effect.slot)
    return forgotten(state, effect.seat) if effect.session else state


def _ended(state: RunState, wish: Wish, call: Call, outcome: Outcome) -> RunState:
    agent, seat = call.entries[call.at]
    # Where the files decide, an answer without its shape is taken too, once two were asked for or nobody remembers what to repeat.
    enough = wish.lenient and (call.reasked >= REASKS or seat not in state.seats or not has_session(state.seats[seat], wish.slot))
    fits = outcome.report is not None and wish.fits(outcome.report)
    if outcome.kind is Class.Ok and wish.shape and not fits and not enough:
        outcome = outcome.but(kind=Class.InvalidOutput, reason="its answer does not end with a JSON object of the asked shape")
    if outcome.kind is Class.Ok:
        return wish.then(_close(_owing(state, call), call), outcome)
    if outcome.kind in COLD or not state.seats[seat].reported:
        state = forgotten(state, seat)  # the id was offered, and may be taken
    if outcome.kind is Class.Quota and outcome.reset_at:
        state = state.but(cooling={**state.cooling, agent: outcome.reset_at + state.behind_s})
    if not output_advances(outcome, call, state.settings.pipeline.retries, wish.reasks):
        return _again(state, call, outcome)
    alike = wish.node in ROSTER_NODES and "" != call.before == failure_of(outcome)[2]
    if call.at + 1 < len(call.entries) and not alike:
        return _keep(state, call, failed=outcome)
    return _exhausted(_owing(state, call), wish, call, outcome)


def _owing(state: RunState, call: Call) -> RunState:
    """The run with what a call passed over still to be recorded, although the call itself is over."""
    owed = tuple(_handover(state, call, index) for index in range(call.first, call.at))
    return state.but(owed=(*state.owed, *owed)) if owed else state


def _again(state: RunState, call: Call, outcome: Outcome) -> RunState:
    if outcome.kind in COLD:
        return _keep(state, call, cold=call.cold + 1)
    if outcome.kind in ONCE_MORE:
        return _keep(state, call, reasked=call.reasked + 1)
    jitter = 1 + 0.2 * fraction(f"{state.started.run}/{call.node}/{call.seat}/{state.seq}")
    pause = max(min(300.0, 5.0 * 4**call.tries) * jitter, outcome.retry_after_s or 0.0)
    return _keep(state, call, tries=call.tries + 1, wait_until=state.at + pause)


def _cooled(state: RunState, wish: Wish, call: Call) -> RunState:
    if call.at + 1 < len(call.entries):
        return _keep(state, call, at=call.at + 1, tries=0)
    free_before = [agent for agent in wish.before if state.cooling.get(agent, 0.0) <= state.at]
    if free_before:
        reason = f"{call.entries[call.at][0]} cools down and only {', '.join(free_before)} is free"
        return _exhausted(state, wish, call, Outcome(kind=Class.Quota, reason=reason))
    until = min(state.cooling.get(agent, state.at) for agent, _ in call.entries[call.first :])
    return _keep(state, call, wait_until=max(until, state.at), sleeping=True)


def _exhausted(state: RunState, wish: Wish, call: Call, outcome: Outcome) -> RunState:
    agent, seat = call.entries[call.at]
    if outcome.kind is Class.Quota:
        state = state.but(quota_losses=(*state.quota_losses, QuotaLoss(state.at, wish.node, seat, agent, outcome.reset_at)))
    _, reason, _ = failure_of(outcome)
    asked, mine = [a for a, _ in call.entries[: call.at + 1]], {a for a, _ in call.entries}.union(wish.before)
    # Whom this seat never asks is nobody to wait less for.
    asked += [a for a in state.started.roles.chain(wish.role) if a not in mine]
    failure = Failure(
        phase=state.phase, role=str(wish.role), kind=str(outcome.kind), reason=reason, node=wish.node, seat=seat,
        signature=signature_of(reason), detail=outcome.answer, unavailable=outcome.kind in UNAVAILABLE,
        exhausted=str(wish.role), asked=tuple(asked),
    )  # fmt: skip
    return wish.then(_close(state, call), failure)


def due(state: RunState) -> HandedOver | None:
    """The handover that waits to be recorded, if any: a failed entry's, or one passed over as cooling."""
    if state.owed:
        return HandedOver(handover=state.owed[0])
    turns = [o.effect for o in state.open.values() if o.begun and isinstance(o.effect, StartTurn)]
    for call in state.calls.values():
        begun = any((turn.node, turn.agent, turn.seat) == (call.node, *call.entries[call.at]) for turn in turns)
        if call.failed is not None or (call.first < call.at and begun):
            return HandedOver(handover=_handover(state, call, call.first))
    return None


def handed_over(state: RunState, handover: Handover) -> RunState:
    """The run after a handover was recorded: the call moves on, the record is the memory."""
    state = state.but(handovers=(*state.handovers, handover))
    if state.owed:
        return state.but(owed=state.owed[1:])
    for call in state.calls.values():
        step, agents = call.entries[call.first : call.first + 2], (handover.from_agent, handover.to_agent)
        if call.node != handover.node or tuple(agent for agent, _ in step) != agents or step[-1][1] != handover.seat:
            continue
        if call.first < call.at:
            return _keep(state, call, first=call.first + 1)
        if call.failed is not None:
            moved = Call(node=call.node, seat=call.seat, entries=call.entries)
            return _keep(state, moved, at=call.at + 1, first=call.at + 1, before=failure_of(call.failed)[2])
    return state


def _handover(state: RunState, call: Call, index: int) -> Handover:
    """From that entry to the next: the current one failed, the ones before it were passed over as cooling."""
    from_agent, (to_agent, seat) = call.entries[index][0], call.entries[index + 1]
    until = state.cooling.get(from_agent, state.at)
    cooled = Outcome(kind=Class.Quota, reason=f"cools down until {until:.0f}", reset_at=until)
    outcome = call.failed if call.failed is not None and index == call.at else cooled
    return Handover(state.at, call.node, seat, from_agent, to_agent, *failure_of(outcome))


def _call(state: RunState, wish: Wish) -> Call:
    return state.calls.get(f"{wish.node}/{wish.seat}") or Call(node=wish.node, seat=wish.seat, entries=wish.entries)


def _keep(state: RunState, call: Call, **changes: object) -> RunState:
    call = call.but(**changes)
    return state.but(calls={**state.calls, f"{call.node}/{call.seat}": call})


def _close(state: RunState, call: Call) -> RunState:
    return state.but(calls=without(state.calls, f"{call.node}/{call.seat}"))


def seat_in(state: RunState, key: SeatKey, agent: AgentId, slot: SlotId) -> SeatState:
    """The seat for a turn in `slot`: the same agent goes on where it can; else another conversation begins, as the old id is taken."""
    now = state.seats.get(key)
    return now if now and now.agent == agent and (now.turns == 0 or has_session(now, slot)) else fresh_seat(state, key, agent)


def fresh_seat(state: RunState, key: SeatKey, agent: AgentId) -> SeatState:
    """A seat with a conversation that was never offered to any CLI before (decision 0004)."""
    generation = state.seats[key].generation + 1 if key in state.seats else 1
    return SeatState(key=key, agent=agent, generation=generation, minted=session_id(state.started.seed, key, generation, agent))


def has_session(seat: SeatState, slot: SlotId) -> bool:
    """Whether the agent in this seat remembers: it reported a conversation (a plain command never does), begun in this very slot."""
    return seat.turns > 0 and bool(seat.reported) and seat.slot == slot


def sat_down(state: RunState, seat: SeatState) -> RunState:
    """The run with `seat` taken. A seat is never given up, only sat in anew: its generations are counted there."""
    return state.but(seats={**state.seats, seat.key: seat})


def took_turn(state: RunState, key: SeatKey, outcome: Outcome, slot: SlotId) -> RunState:
    """The run after the agent in `key` took a turn in `slot` and told which conversation it was."""
    seat = state.seats[key]
    told = outcome.session or seat.reported
    usd, tokens = seat.usd + (outcome.usd or 0.0), seat.tokens + (outcome.tokens or 0)
    seat = seat.but(turns=seat.turns + 1, reported=told, usd=usd, tokens=tokens, slot=slot if told else seat.slot)
    return sat_down(state, seat)


def forgotten(state: RunState, *keys: SeatKey) -> RunState:
    """The run with the conversations of those seats given up: their agents start cold next time, under ids of their own."""
    for key in keys:
        if key in state.seats:
            state = sat_down(state, fresh_seat(state, key, state.seats[key].agent))
    return state

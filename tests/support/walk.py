"""The exhaustive walk: breadth first over the states that a run can come to when the world answers in every way it can.

`reduce` and `wanted` are arguments, so that a test can plant a fault and see it found. What is visited is the shape of a
state (`support.shape`); what must hold is in `support.invariants`. It drives as the engine does: a decision first and alone,
then one start at a time, then whatever is in flight is answered, and people may speak in between.
"""

import sys
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from nightcrew.core import reducer
from nightcrew.core.effects import Ask, CollectWork, Effect, StartTurn
from nightcrew.core.events import (
    AgentCooling,
    Answered,
    Asked,
    CancelAsked,
    Cancelled,
    EffectBegun,
    EffectStarted,
    Entry,
    Event,
    ParkAsked,
    Record,
    ResumeAsked,
    RunStarted,
    TimerFired,
    TurnEnded,
    Wanted,
)
from nightcrew.core.ids import Commit
from nightcrew.core.state import RunState
from nightcrew.core.work import Class
from support.answers import possible
from support.invariants import FACTS, FOLLOWED, REQUESTS, Reduce, Step, Want, late_answer_changes_nothing, replay_is_the_same
from support.shape import Offered, shape
from support.world import BEGUN, World

ALIKE = {
    Class.SessionInUse: Class.SessionNotFound,
    Class.ContextTooLong: Class.SessionNotFound,
    Class.Overloaded: Class.RateLimit,
    Class.ServerError: Class.Network,
    Class.Billing: Class.Auth,
    Class.ModelUnavailable: Class.Refused,
    Class.ConfigError: Class.Refused,
}
"""Ends of a turn that core tells apart by nothing but their name."""
EVERYWHERE = frozenset({"*"})


class Bounds(NamedTuple):
    """What is walked: a run's first fact, the nodes whose effects may end in any way, what people say, and how many states at most."""

    start: RunStarted
    faulty: frozenset[str] = EVERYWHERE
    words: frozenset[str] = frozenset()
    """Of `cancel`, `park` and `answer`."""
    states: int = sys.maxsize
    ends: frozenset[str] = frozenset()
    """How faulty effects may end: names of facts, and classes of outcomes; empty = in every way."""


class Violation(NamedTuple):
    """An invariant that does not hold, and the facts that lead there."""

    invariant: str
    path: tuple[str, ...]

    def __str__(self) -> str:
        """The path, a fact a line, under the invariant's name."""
        return "\n  ".join((f"VIOLATION of '{self.invariant}' after", *self.path))


class Walked(NamedTuple):
    """How far a walk came, and which facts it met; `whole` when there was nothing left to visit."""

    states: int
    edges: int
    violations: tuple[Violation, ...]
    met: frozenset[str]
    whole: bool

    def __str__(self) -> str:
        """The line that a walk ends with."""
        return f"states {self.states} edges {self.edges} violations {len(self.violations)}"


class _Node(NamedTuple):
    number: int
    state: RunState
    want: tuple[Wanted, ...]
    offered: Offered


class _Visited:
    """The shapes that were seen, and from where each was first reached."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._came: list[tuple[int, Event]] = []

    def __len__(self) -> int:
        return len(self._known)

    def add(self, found: bytes, parent: int, fact: Event) -> int | None:
        """The new state's number; None when its shape is known."""
        if found in self._known:
            return None
        self._known[found] = len(self._came)
        self._came.append((parent, fact))
        return len(self._came) - 1

    def path(self, number: int) -> tuple[str, ...]:
        """The facts that lead to a state."""
        facts: list[str] = []
        while number >= 0:
            number, fact = self._came[number]
            facts.append(told(fact))
        return tuple(reversed(facts))


def walk(reduce: Reduce, wanted: Want, bounds: Bounds, most: int = 1) -> Walked:
    """Visit every state within the bounds, breadth first; stop after `most` violations."""
    first = reducer.begin(Entry(1, 1_000.0, bounds.start))
    visited, edges, broken, met = _Visited(), 0, list[Violation](), set[str]()
    number = visited.add(shape(first, {}), -1, bounds.start)
    queue = deque([_Node(number or 0, first, wanted(first), {})])
    while queue and len(visited) < bounds.states:
        node = queue.popleft()
        for entry in moves(node.state, node.want, bounds):
            edges += 1
            step = _taken(node, entry, reduce)
            number = visited.add(shape(step.after, step.offered), node.number, entry.event)
            if number is not None or isinstance(entry.event, FOLLOWED):
                step = step._replace(want=wanted(step.after))
            name = _broken(step, reduce, wanted, new=number is not None)
            if name:
                broken.append(Violation(name, (*visited.path(node.number), told(entry.event))))
                if len(broken) >= most:
                    return Walked(len(visited), edges, tuple(broken), frozenset(met), whole=False)
            if number is not None:
                met.add(f"{type(entry.event).__name__} {getattr(entry.event, 'level', '')}".rstrip())
                queue.append(_Node(number, step.after, step.want, step.offered))
    return Walked(len(visited), edges, tuple(broken), frozenset(met), whole=not queue)


def _taken(node: _Node, entry: Entry, reduce: Reduce) -> Step:
    offered = node.offered
    if isinstance(entry.event, EffectBegun):
        opened = node.state.open[entry.event.key].effect
        if isinstance(opened, StartTurn) and opened.session:
            offered = {**offered, opened.seat: opened.session}
    return Step(node.state, entry, reduce(node.state, entry), (), offered)


def _broken(step: Step, reduce: Reduce, wanted: Want, *, new: bool) -> str:
    """The law that this step breaks. What a state wants is looked at once for each shape, for it is the same in all of it."""
    held = {**FACTS, **REQUESTS} if new or isinstance(step.event, FOLLOWED) else FACTS
    name = next((name for name, holds in held.items() if not holds(step)), "")
    if name or not new:
        return name
    if not replay_is_the_same(step, reduce, wanted):
        return "9 replay is the same"
    return "" if late_answer_changes_nothing(step, reduce) else "late answer changes nothing"


def moves(state: RunState, want: tuple[Wanted, ...], bounds: Bounds) -> Iterator[Entry]:
    """Every entry that can come next: what the engine does, what the world answers, what people say."""
    for event in _next(state, want, bounds):
        at = state.at + 1.0
        if isinstance(event, TimerFired) and not event.early:
            opened = state.open[event.key].effect
            at = max(at, getattr(opened, "fire_at", 0.0))
        yield Entry(state.seq + 1, at, event)


def _next(state: RunState, want: tuple[Wanted, ...], bounds: Bounds) -> Iterator[Event]:
    if state.done:
        return
    yield from _words(state, bounds)
    record = next((w.event for w in want if isinstance(w, Record)), None)
    if record is not None:
        yield record
        return
    effects = {w.key: w for w in want if not isinstance(w, Record)}
    fresh = next((e for key, e in effects.items() if key not in state.open), None)
    if fresh is not None:
        yield EffectStarted(key=fresh.key, effect=fresh)
        return
    for key, opened in state.open.items():
        if key not in effects:
            yield Cancelled(key=key)
        yield from answers(state, opened.effect, bounds, begun=opened.begun)


def _words(state: RunState, bounds: Bounds) -> Iterator[Event]:
    if state.marker is not None:
        return
    if "cancel" in bounds.words:
        yield CancelAsked()
    if "park" in bounds.words:
        yield from (ResumeAsked(), ParkAsked(now=True)) if state.parked else (ParkAsked(), ParkAsked(now=True))
    if "answer" in bounds.words:
        yield from (Answered(question=name, text=word) for name in state.questions for word in ("yes", "no"))


def answers(state: RunState, effect: Effect, bounds: Bounds, *, begun: bool) -> Iterator[Event]:
    """How an effect in flight can go on. A turn begins before it ends; an agent known to cool is not let in."""
    world = _world(state)
    if isinstance(effect, Ask):
        if not begun:
            yield Asked(key=effect.key)
        return
    turn = isinstance(effect, StartTurn)
    if not begun and (turn or (isinstance(effect, BEGUN) and "park" in bounds.words)):
        cools = state.cooling.get(effect.agent, 0.0) if isinstance(effect, StartTurn) else 0.0
        if isinstance(effect, StartTurn) and cools > state.at:
            yield AgentCooling(key=effect.key, agent=effect.agent, until=cools)
            return
        yield EffectBegun(key=effect.key)
    if not turn or begun:
        yield _well(effect, world)
    if bounds.faulty & {"*", effect.node}:
        yield from () if turn else (_world(state).ordinary(effect),)
        yield from (e for e in possible(effect, world) if _can(e, bounds, begun=begun, turn=turn))


def _well(effect: Effect, world: World) -> Event:
    """The answer where nothing goes wrong: whoever is asked for work left some; a repair, or a formatter, need not."""
    if isinstance(effect, CollectWork) and effect.node not in {"dev-fix", "pre_gate"}:
        world.edited.add(effect.slot)
    return world.ordinary(effect)


def _can(event: Event, bounds: Bounds, *, begun: bool, turn: bool) -> bool:
    """Whether that is possible now, and not the same to core as another that is walked."""
    if isinstance(event, AgentCooling) and begun:
        return False
    if not isinstance(event, TurnEnded):
        return not bounds.ends or type(event).__name__ in bounds.ends
    kind = event.outcome.kind
    return begun and turn and kind not in ALIKE and (not bounds.ends or str(kind) in bounds.ends)


def _world(state: RunState) -> World:
    """A world that stands where the state says, and gives names that were never used before."""
    world = World(at=state.at, tip=state.base, numbers=state.seq * 10)
    for space in state.workspaces.values():
        world.trees[space.slot] = (space.start, space.tree)
        world.known[space.start] = space.tree
    for c in state.candidates.values():
        world.trees[state.slot(c.seat)] = (c.change.head, c.change.tree)
        world.known.update({Commit(c.change.head): c.change.tree, c.start: c.start_tree})
    return world


def told(event: Event) -> str:
    """A fact in a line."""
    about = [getattr(event, "key", "").partition("/")[2]]
    if isinstance(event, TurnEnded):
        report = event.outcome.report
        about += [event.outcome.kind, type(report).__name__ if report else ""]
    for field in ("reason", "state", "why", "level", "attempt_count", "target_phase", "from_level", "text", "until"):
        value = getattr(event, field, "")
        about += [f"{field}={value}"] if value != "" else []
    return " ".join(str(part) for part in (type(event).__name__, *about) if part)

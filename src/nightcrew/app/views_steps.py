"""A run's facts with the state before and after each: what all parts of a story are read from."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeVar

from nightcrew.core.effects import Effect
from nightcrew.core.events import Answer, Entry
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.state import RunState

E = TypeVar("E", bound=Answer)


class Step(NamedTuple):
    """One fact, and the states it led from and to. Before the first fact there is no state: `before` is then `after`."""

    entry: Entry
    before: RunState
    after: RunState


class Closed(NamedTuple):
    """An effect that ended: the step of its last fact, what it was, and when it was started."""

    step: Step
    effect: Effect
    started_at: float


def steps(entries: Iterable[Entry]) -> Iterator[Step]:
    """Every fact with its states, in order; nothing when there is no fact."""
    state: RunState | None = None
    for entry in entries:
        after = begin(entry) if state is None else reduce(state, entry)
        yield Step(entry, state or after, after)
        state = after


def closed(told: Iterable[Step]) -> Iterator[Closed]:
    """The effects that ended, in the order of their ends."""
    for step in told:
        event = step.entry.event
        if isinstance(event, Answer) and event.terminal and event.key in step.before.open:
            opened = step.before.open[event.key]
            yield Closed(step, opened.effect, opened.at)

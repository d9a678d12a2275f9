"""Which points a recorded run has: where it can be killed, of which class each is, and how it is killed there."""

from collections.abc import Iterator
from typing import NamedTuple, get_args

from crash.driver import Note
from crash.machine import Tape
from nightcrew.core import effects as fx
from nightcrew.core.events import EffectStarted
from nightcrew.core.ids import fraction

KINDS = tuple(kind.__name__ for kind in get_args(fx.Effect))
WHENS = ("before", "in", "after")


class Point(NamedTuple):
    """One death, or several: how, the instant whose copy it begins from, and the entry or call at which the driver dies.

    `how`: copy (the machine is copied at that instant: nothing lives) · after, before (an entry) · git, orphan (a call of git; an
    orphan is a git that goes on) · held (a program of ours waits at the turnstile) · asleep · several (`more` = the entries).
    """

    scenario: str
    how: str
    at: Note
    number: int = 0
    kind: str = ""
    phase: str = ""
    when: str = ""
    more: tuple[int, ...] = ()
    fact: str = ""

    @property
    def told(self) -> str:
        """Where it is, in words."""
        what = f"{self.kind} in {self.phase}, {self.when}" if self.kind else self.fact or "several"
        return f"{self.scenario}: {what} ({self.how} {self.number or self.at.seq}{' '.join(map(str, self.more))})"


def points_of(name: str, tape: Tape) -> list[Point]:
    """Every point of a recorded run."""
    return [
        *of_entries(name, tape),
        *(point for key in started(tape) for point in of_effect(name, tape, key)),
        *several(name, tape),
    ]


def started(tape: Tape) -> dict[str, int]:
    """The effects of a run, each with the entry that says it was started."""
    return {entry.event.key: entry.seq for entry in tape.entries if isinstance(entry.event, EffectStarted)}


def of_entries(name: str, tape: Tape) -> Iterator[Point]:
    """Right after each entry but the last; where something lives then it is a real kill of a real run."""
    for entry in tape.entries[:-1]:
        kind, phase, when = "", "", ""
        if isinstance(entry.event, EffectStarted):
            kind, phase, when = type(entry.event.effect).__name__, str(tape.states[entry.seq - 1].phase), "before"
        note, fact = nearest(tape, entry.seq), type(entry.event).__name__
        if note.seq == entry.seq and not note.before:
            yield Point(name, "copy", note, 0, kind, phase, when, (), fact)
        else:
            yield Point(name, "after", note, entry.seq, kind, phase, when, (), fact)


def nearest(tape: Tape, seq: int) -> Note:
    """The last instant up to right after entry `seq` of which there is a copy."""
    return max((n for n in tape.notes if n.copied and n.seq <= seq), key=lambda n: (n.seq, not n.before))


def of_effect(name: str, tape: Tape, key: str) -> Iterator[Point]:
    """In the middle of an effect, at everything it does that can be seen; and after it ended, before the fact is written."""
    begin = started(tape)[key]
    event = tape.entries[begin - 1].event
    assert isinstance(event, EffectStarted)
    kind, phase = type(event.effect).__name__, str(tape.states[begin - 1].phase)
    end = next((seq for seq in range(begin + 1, len(tape.states) + 1) if key not in tape.states[seq - 1].open), 0)
    first, last = noted(tape, begin, before=False), noted(tape, end, before=True)
    if last is None or first is None:
        return
    if last.copied:
        yield Point(name, "copy", last, 0, kind, phase, "after")
    else:
        yield Point(name, "before", nearest(tape, last.seq - 1), last.seq, kind, phase, "after")
    if not first.copied:
        return
    if last.held > first.held:
        yield Point(name, "held", first, 0, kind, phase, "in")
    if last.slept > first.slept:
        yield Point(name, "asleep", first, 0, kind, phase, "in")
    for n in range(1, last.git - first.git + 1):
        yield Point(name, "orphan" if n % 3 == 0 else "git", first, n, kind, phase, "in")


def noted(tape: Tape, seq: int, *, before: bool) -> Note | None:
    """The note of an instant."""
    return next((n for n in tape.notes if (n.seq, n.before) == (seq, before)), None)


def several(name: str, tape: Tape) -> Iterator[Point]:
    """Three deaths in one run, at entries drawn once and for all."""
    last = len(tape.entries)
    for n in range(4):
        first, *more = sorted({2 + int(fraction(f"{name}/{n}/{death}") * (last - 2)) for death in range(3)})
        yield Point(name, "several", nearest(tape, first), first, "", "", "", tuple(more))

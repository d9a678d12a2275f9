"""A nightcrew that dies at a chosen instant by kill -9, or keeps a copy of its whole machine at each: `driver.py ORDER`.

It opens the same rooms as `nightcrew resume` and hands the engine two of them changed: `headline`, which the engine asks right
before it writes a fact, and a clock whose waits may be jumped over. git is counted, and may kill us, through a wrapper on PATH.
"""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import msgspec

from nightcrew.app import control, ground
from nightcrew.app.views import conclusion
from nightcrew.core.effects import Ask, Timer
from nightcrew.core.events import EffectStarted, Entry
from nightcrew.core.ids import RunId
from nightcrew.core.state import RunState
from nightcrew.engine import local
from nightcrew.engine.tools import Clock

TOO_LONG = 200
"""A run of so many facts has lost its way: it ends here."""


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """What to do: drive `run` (or start one), and die after or before an entry, at a call of git (or be `told` something else there), or asleep.

    `at`: when it is for this driver as it begins, in seconds since the epoch; 0 for now.
    """

    run: str = ""
    machine: str = ""
    copies: str = ""
    answer: str = ""
    jumps: bool = False
    after: int = 0
    before: int = 0
    git: int = 0
    told: str = "stop"
    asleep: bool = False
    at: float = 0.0


class Note(msgspec.Struct, frozen=True):
    """An instant of a recorded run: right after entry `seq`, or right before it is written. `copied` when nothing ran then that cannot be copied.

    `git`, `held` and `slept` count the calls of git, the programs that came to the turnstile, and the waits so far.
    """

    seq: int
    before: bool
    copied: bool
    git: int
    held: int
    slept: int

    @property
    def name(self) -> str:
        """The file of the copy."""
        return f"{self.seq}{'-before' * self.before}.tgz"


class Instants(NamedTuple):
    """The places where we look up: whether it is time to die, and what is to be kept."""

    order: Order
    machine: Path
    slept: list[float]
    open: set[str]
    ahead_s: float = 0.0

    def die(self) -> None:
        """As a machine would have it: at once."""
        os.kill(os.getpid(), signal.SIGKILL)

    def written(self, state: RunState, entry: Entry) -> None:
        """A fact is on disk."""
        self.open.clear()
        self.open.update(state.open)
        fresh = entry.event.key if isinstance(entry.event, EffectStarted) else ""
        self.keep(Note(entry.seq, False, not flying(state, fresh), *self.counted()))  # noqa: FBT003
        if entry.seq in {self.order.after, TOO_LONG}:
            self.die()

    def about(self, state: RunState) -> str:
        """A fact is about to be written: what it says happened has happened."""
        if state.seq == self.order.before:
            self.die()
        if self.open - set(state.open):
            self.keep(Note(state.seq, True, not flying(state, ""), *self.counted()))  # noqa: FBT003
        return conclusion(state).headline

    def counted(self) -> tuple[int, int, int]:
        """Calls of git, comings to the turnstile, waits."""
        calls, held = self.machine / "bin/calls", self.machine / "home/played/held"
        return size(calls), held.read_bytes().count(b"\n") if held.exists() else 0, len(self.slept)

    def keep(self, note: Note) -> None:
        """Copy everything, and note it. A program copies: SQLite would lose its locks when we opened its files ourselves."""
        if not self.order.copies:
            return
        folder = Path(self.order.copies)
        if note.copied:
            words = ("tar", "--format=posix", "-I", "gzip -1", "-C", str(self.machine), "-cf", str(folder / note.name), ".")
            subprocess.run(words, check=True)
        with (folder / "notes").open("ab") as notes:
            notes.write(msgspec.json.encode(note) + b"\n")

    async def sleep(self, span_s: float) -> None:
        """Wait; or die; or let the machine's clock jump."""
        self.slept.append(span_s)
        if self.order.asleep:
            self.die()
        if not self.order.jumps:
            await asyncio.sleep(span_s)
            return
        await asyncio.sleep(0)
        with (self.machine / "jumped").open("ab") as file:
            file.write(b".\n" if span_s <= 0 else b"%.6f\n" % span_s)

    def jumped(self) -> float:
        """Seconds by which this machine's clock is ahead of the world's."""
        path = self.machine / "jumped"
        return self.ahead_s + (sum(float(line) for line in path.read_text().split() if line != ".") if path.exists() else 0.0)

    def clock(self) -> Clock:
        """The machine's clock."""
        return Clock(lambda: time.time() + self.jumped(), lambda: time.monotonic() + self.jumped(), self.sleep)


def flying(state: RunState, fresh: str) -> bool:
    """Whether something may be running now: an effect that is not just about to begin, and is no mere wait."""
    return any(key != fresh and not isinstance(opened.effect, Timer | Ask) for key, opened in state.open.items())


def size(path: Path) -> int:
    """Bytes of a file that may not be there."""
    return path.stat().st_size if path.exists() else 0


def drive(order: Order) -> RunState:
    """Drive the run until it rests."""
    env, at = dict(os.environ), Instants(order, Path(order.machine), [], set(), order.at - time.time() if order.at else 0.0)
    run = RunId(order.run) or control.start(Path.cwd(), env, "write the note")
    if not order.run:
        at.keep(Note(1, False, True, 0, 0, 0))  # noqa: FBT003
    tools = control.open_tools(run, env, ground.load_config(None, env, {}).max_turns, at.clock())
    lease = tools.journal.acquire(run)
    call = size(at.machine / "bin/calls") + order.git if order.git else 0
    (at.machine / "bin/armed").write_text(f"{os.getpid()} {order.told} {call}\n")
    try:
        left = local.drive(local.Driver(tools._replace(headline=at.about), run, lease, at.written))
        if left.signal == signal.SIGTERM:
            sys.exit(128 + left.signal)
        return left.state
    finally:
        tools.turnstile.leave()
        lease.release()


def main(order: Order) -> None:
    """Drive; answer what is asked; drive on."""
    state = drive(order)
    if order.answer and state.questions:
        order = msgspec.structs.replace(order, run=state.started.run)
        control.answer(RunId(order.run), dict(os.environ), order.answer)
        drive(order)


if __name__ == "__main__":
    main(msgspec.json.decode(sys.argv[1], type=Order))

"""What the driver of a run holds, as files in the run's folder: the lease (rulings 8), and the bell by which any process wakes it.

The lease's lock is freed by the kernel at death; the number that outlives a frozen holder is raised and compared in `store`.
"""

import os
import time
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

import msgspec

from nightcrew.core.ids import RunId
from nightcrew.database import held, locked
from nightcrew.errors import UserError

GLANCES = 100
"""How often a taken lease is tried again, a millisecond apart: who only looks at it has it for microseconds."""


class Holder(msgspec.Struct, frozen=True):
    """Who drives a run, as it signed itself: its pid and since when (seconds since the epoch). For messages only."""

    pid: int = 0
    since: float = 0.0


class RunBusy(UserError):  # noqa: N818 — says how the run is
    """Another process drives this run; the message names it."""


class Lease(NamedTuple):
    """The right to append to a run. Lost at once when somebody takes over; ends with the process at the latest."""

    run: RunId
    fence: int
    lock: ExitStack

    def release(self) -> None:
        """Let others drive the run. Releasing twice is once."""
        self.lock.close()


def seize(path: Path, run: RunId) -> int:
    """Lock the lease file and sign it; gives its descriptor, which no program started later inherits. Raises `RunBusy`."""
    for _ in range(GLANCES):
        fd = locked(path)
        if fd >= 0:
            os.ftruncate(fd, 0)
            os.pwrite(fd, msgspec.json.encode(Holder(os.getpid(), time.time())), 0)
            return fd
        time.sleep(0.001)
    hint = "wait for it, park it, or `nightcrew resume --take-over`"
    raise RunBusy(f"run {run} is being driven by process {_signed(path).pid}", hint)


def usurp(path: Path, run: RunId) -> int:
    """The same in place of the holder, who keeps its lock on a file that nobody sees any more."""
    path.unlink(missing_ok=True)
    return seize(path, run)


def holder(path: Path) -> Holder | None:
    """Who holds the lease now, or None."""
    return _signed(path) if held(path) else None


def _signed(path: Path) -> Holder:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Holder)
    except (OSError, msgspec.MsgspecError):
        return Holder()


class Bell(FileIO):
    """A named pipe that becomes readable when somebody rang. It carries no words; those are in the inbox."""

    def __init__(self, path: Path) -> None:
        """Hang a new bell at `path`, in place of a dead or frozen driver's."""
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        aside.unlink(missing_ok=True)
        os.mkfifo(aside, 0o600)
        # Open for writing too: a pipe without a writer would be readable (at its end) for ever.
        super().__init__(os.open(aside, os.O_RDWR | os.O_NONBLOCK))
        aside.rename(path)

    def hush(self) -> bool:
        """Forget every ring so far; whether there was one. Hush first and read the inbox then, and no word is missed."""
        return bool(self.read(1 << 20))


def ring(path: Path) -> None:
    """Wake whoever listens at `path`. Never waits and never fails: with nobody there, the word waits in the inbox."""
    with suppress(OSError), open(os.open(path, os.O_WRONLY | os.O_NONBLOCK), "wb", buffering=0) as bell:
        bell.write(b"!")

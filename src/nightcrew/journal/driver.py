"""What the driver of a run holds, as files in the run's folder: the lease (rulings 8; freed by the kernel at death), and the bell that wakes it."""

import os
import time
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from nightcrew.core.ids import RunId
from nightcrew.database import held, locked
from nightcrew.errors import UserError

GLANCES = 100
"""How often a taken lease is tried again, a millisecond apart: who only looks at it has it for microseconds."""


class Lease(NamedTuple):
    """The right to append to a run. Lost at once when somebody takes over; ends with the process at the latest."""

    run: RunId
    fence: int
    lock: ExitStack

    def release(self) -> None:
        """Let others drive the run. Releasing twice is once."""
        self.lock.close()


def seize(path: Path, run: RunId) -> int:
    """Lock the lease file and sign it; gives its descriptor, which no program started later inherits. Raises `UserError`: another process has it."""
    for _ in range(GLANCES):
        fd = locked(path)
        if fd >= 0:
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d" % os.getpid(), 0)
            return fd
        time.sleep(0.001)
    hint = "nightcrew watch follows it, park stops it; if it hangs: nightcrew resume --take-over"
    raise UserError(f"run {run} is being driven by process {_signed(path)}", hint)


def holder(path: Path) -> int | None:
    """The pid of the process that holds the lease now, 0 if it has not signed yet; None when nobody does."""
    return _signed(path) if held(path) else None


def _signed(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_bytes())
    return 0


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

"""Who drives a run: a lock that the kernel frees at death, and a number that outlives a frozen holder (rulings 8).

What the file says (pid, since, boot) is for messages only. The number is raised and compared in `store`.
"""

import fcntl
import os
import time
from pathlib import Path

import msgspec
from msgspec import Struct

from nightcrew.core.ids import RunId
from nightcrew.errors import UserError

GLANCE_S = 0.2
"""How long a taken lock is tried again: `holder` touches it for microseconds when it looks."""


class Holder(Struct, frozen=True):
    """What a driver wrote into its lease: its pid, since when (seconds since the epoch), the machine's boot id."""

    pid: int
    since: float
    boot: str = ""


class RunBusy(UserError):  # noqa: N818 — says how the run is
    """Another process drives this run. `pid` and `since` (seconds since the epoch) are what it wrote, 0 when it is not readable."""

    def __init__(self, run: str, holder: Holder) -> None:
        """Name the process in the message."""
        super().__init__(
            f"run {run} is being driven by process {holder.pid}",
            "wait for it, park it, or `nightcrew resume --take-over`",
        )
        self.pid = holder.pid
        self.since = holder.since


class Lease:
    """The right to append to a run. Lost at once when somebody takes over; ends with the process at the latest."""

    def __init__(self, run: RunId, fence: int, fd: int) -> None:
        """Hold `fd`, whose lock ends when it is closed."""
        self.run = run
        self.fence = fence
        self._fd = fd

    def release(self) -> None:
        """Let others drive the run. Releasing twice is once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def seize(path: Path, run: str) -> int:
    """Lock the lease file and sign it; gives its descriptor, which no program started later inherits. Raises `RunBusy`."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    deadline = time.monotonic() + GLANCE_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() < deadline:
                time.sleep(0.01)
                continue
            holder = _read(fd)
            os.close(fd)
            raise RunBusy(run, holder) from None
        _sign(fd)
        return fd


def aside(path: Path) -> tuple[Path, int]:
    """A lease file of our own, locked and signed, to be renamed over `path`: the holder keeps its lock on a file nobody sees."""
    mine = path.with_name(f"{path.name}.{os.getpid()}")
    mine.unlink(missing_ok=True)
    fd = os.open(mine, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    _sign(fd)
    return mine, fd


def stands(path: Path, fd: int) -> bool:
    """Whether `fd` is still the file others see at `path`."""
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False


def holder(path: Path) -> Holder | None:
    """Who holds the lock now, or None. Only a look: nothing is taken."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(fd)
    else:
        return None
    finally:
        os.close(fd)


def boot_id() -> str:
    """The kernel's name for this boot; empty where there is none (then a message says less)."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _sign(fd: int) -> None:
    words = msgspec.json.encode(Holder(os.getpid(), time.time(), boot_id()))
    os.ftruncate(fd, 0)
    os.pwrite(fd, words, 0)


def _read(fd: int) -> Holder:
    try:
        return msgspec.json.decode(os.pread(fd, 4096, 0), type=Holder)
    except msgspec.MsgspecError:
        return Holder(0, 0.0)

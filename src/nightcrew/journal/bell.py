"""The bell of a run: a named pipe by which any process wakes the run's driver. It carries no words; those are in the inbox."""

import os
from contextlib import suppress
from pathlib import Path

_CLAPPER = b"!"


class Bell:
    """The driver's end: `fileno()` becomes readable when somebody rang."""

    def __init__(self, path: Path) -> None:
        """Hang a new bell at `path`, in place of a dead or frozen driver's."""
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        aside.unlink(missing_ok=True)
        os.mkfifo(aside, 0o600)
        # Open for writing too: a pipe without a writer would be readable (at its end) for ever.
        self._fd = os.open(aside, os.O_RDWR | os.O_NONBLOCK)
        aside.rename(path)

    def fileno(self) -> int:
        """What to wait on until it is readable."""
        return self._fd

    def hush(self) -> bool:
        """Forget every ring so far; whether there was one. Hush first and read the inbox then, and no word is missed."""
        rang = False
        with suppress(BlockingIOError):
            while os.read(self._fd, 4096):
                rang = True
        return rang

    def close(self) -> None:
        """Take it down; the pipe's name stays and is nobody's until the next driver."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def ring(path: Path) -> None:
    """Wake whoever listens at `path`. Never waits and never fails: with nobody there, the word waits in the inbox."""
    # Nobody listens (ENXIO), no pipe (ENOENT), or it is full of rings already (EAGAIN): all the same to the ringer.
    with suppress(OSError):
        fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        try:
            os.write(fd, _CLAPPER)
        finally:
            os.close(fd)

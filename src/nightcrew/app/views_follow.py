"""Following a run that another process drives: woken by the files it writes, never by a clock. Changes nothing."""

import ctypes
import os
import select
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nightcrew.app.home import home_of
from nightcrew.app.views_journal import Seen
from nightcrew.core.events import Entry
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.state import RunState
from nightcrew.errors import UserError

_IN_MODIFY, _IN_CLOSE_WRITE, _IN_MOVED_TO, _IN_CREATE = 0x2, 0x8, 0x80, 0x100
_IN_CLOEXEC = 0o2000000
_LOOK_S = 1.0
"""Seconds between two looks where the system tells nothing of files (macOS)."""


_SOON_S, _QUIET_S = 0.02, 30.0
"""Seconds until the look after a write was heard, and between two looks when none is."""


class Ear:
    """Hears when a file in one of some folders is written or closed."""

    def __init__(self, *folders: Path) -> None:
        """Listen from now on."""
        self._fd = -1
        libc = ctypes.CDLL(None, use_errno=True)
        if hasattr(libc, "inotify_init1"):
            self._fd = libc.inotify_init1(_IN_CLOEXEC)
            for folder in folders:
                # The end of a process closes its lease, which was open for writing: so a driver's death is heard too.
                libc.inotify_add_watch(
                    self._fd, os.fsencode(folder), _IN_MODIFY | _IN_CLOSE_WRITE | _IN_MOVED_TO | _IN_CREATE
                )

    def wait(self, at_most_s: float) -> bool:
        """Until something was written, or for so long; whether it was. What exactly does not matter: the journal is read."""
        if self._fd < 0:
            time.sleep(min(_LOOK_S, at_most_s))
            return False
        heard = bool(select.select([self._fd], [], [], at_most_s)[0])
        if heard:
            os.read(self._fd, 64 * 1024)
        return heard

    def close(self) -> None:
        """Stop listening."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def follow(seen: Seen, env: Mapping[str, str], show: Callable[[RunState, Entry], None]) -> RunState:
    """Show every fact from the first on, as it comes, until the run is over or nobody drives it; gives the last state."""
    home = home_of(env)
    ear = Ear(home, home / "runs" / seen.run)
    state: RunState | None = None
    pause = _QUIET_S
    try:
        while True:
            driven = seen.journal.holder(seen.run) is not None
            for entry in seen.journal.entries(seen.run, state.seq if state else 0):
                state = begin(entry) if state is None else reduce(state, entry)
                show(state, entry)
            if state is None:
                raise UserError(f"run {seen.run} has no beginning", "its journal is damaged")
            if state.done or not driven:
                return state
            # A write is heard a moment before others can read it, so some looks follow, further and further apart.
            pause = _SOON_S if ear.wait(pause) else min(_QUIET_S, 2 * pause)
    finally:
        ear.close()

"""A driver that kills itself: `dying.py RUN N` drives a run and dies by SIGKILL right after the N-th fact it wrote."""

import os
import signal
import sys

from nightcrew.app import control
from nightcrew.core.events import Entry
from nightcrew.core.ids import RunId
from nightcrew.core.state import RunState


def main(run: str, count: int) -> None:
    """Drive, and die."""
    left = count

    def written(_state: RunState, _entry: Entry) -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    control.drive(RunId(run), dict(os.environ), on_entry=written)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))

"""A driver that kills itself: `dying.py RUN N` drives a run and dies by SIGKILL right after the N-th fact it wrote; `dies` is one such life."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

from nightcrew.app import control
from nightcrew.core.ids import RunId

TYPE_CHECKING = False
if TYPE_CHECKING:
    from nightcrew.core.events import Entry
    from nightcrew.core.state import RunState
    from support.crew import Crew


def dies(crew: Crew, facts: int) -> None:
    """Have such a driver go on with the newest run: it wrote that many facts and died, or saw the run's end."""
    before, argv = crew.state().seq, [sys.executable, __file__, crew.run, str(facts)]
    died = subprocess.run(argv, cwd=crew.repo, env=crew.env, capture_output=True, check=False)
    assert died.returncode == -signal.SIGKILL or crew.state().done, died.stderr.decode()
    assert crew.state().seq > before


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

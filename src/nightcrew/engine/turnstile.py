"""The lease of a target branch over more than one effect: whoever was refused once has the target to itself from the gate to the landing."""

import os
from pathlib import Path

from nightcrew.database import locked
from nightcrew.engine.clock import Clock

FIRST_LOOK_S = 0.02
LAST_LOOK_S = 1.0
"""Spans between two looks at a lease that another run has; a wait that can be given up cannot sleep in the kernel's lock."""


class Turnstile:
    """One target's lease, which the kernel frees at our death. What lands without it is still only landed on the tip it was tested on."""

    def __init__(self, path: Path) -> None:
        """Take nothing yet."""
        self._path = path
        self._fd = -1

    @property
    def ours(self) -> bool:
        """Whether we have it."""
        return self._fd >= 0

    async def enter(self, clock: Clock) -> None:
        """Wait until it is ours; at once when it is already."""
        look_s = FIRST_LOOK_S
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while not self.ours:
            self._fd = locked(self._path)
            if not self.ours:
                await clock.sleep(look_s)
                look_s = min(LAST_LOOK_S, 2 * look_s)

    def leave(self) -> None:
        """Let the next one in; leaving twice is once."""
        if self.ours:
            os.close(self._fd)
            self._fd = -1

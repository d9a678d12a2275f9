"""What handlers work with: one frozen record of the rooms below, made by `app.control`; and what one effect's handler is given."""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from nightcrew.core.events import Event
from nightcrew.core.ids import RunId
from nightcrew.core.state import RunState
from nightcrew.database import Unusable, locked
from nightcrew.git import slots
from nightcrew.git.repo import Repo, Target
from nightcrew.git.workspace import Pool
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal, Lease
from nightcrew.ledger import Ledger
from nightcrew.proc.sandbox import Mode

off = asyncio.to_thread  # blocking work, so that the loop goes on


class Clock(NamedTuple):
    """The machine's own, unless a test presses time together (rulings 38)."""

    now: Callable[[], float] = time.time  # seconds since the epoch, for facts
    # Seconds from some fixed moment, suspended time included; never set back.
    elapsed: Callable[[], float] = lambda: time.clock_gettime(time.CLOCK_BOOTTIME)
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Turnstile:
    """The lease of a target branch from the gate to the landing, which the kernel frees at our death (decision 0030)."""

    def __init__(self, path: Path) -> None:
        """Take nothing yet."""
        self.path, self._fd = path, -1

    async def enter(self, clock: Clock) -> None:
        """Wait until it is ours; at once when it is already. A wait that can be given up cannot sleep in the kernel's lock."""
        look_s = 0.02
        self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        while self._fd < 0:
            self._fd = locked(self.path)
            if self._fd < 0:
                await clock.sleep(look_s)
                look_s = min(1.0, 2 * look_s)

    def leave(self) -> None:
        """Let the next one in; leaving twice is once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class Tools(NamedTuple):
    """The rooms a run needs, opened. `operator_env` is the person's environment, `secrets` what it holds for each agent."""

    home: Path
    journal: Journal
    blobs: Blobs
    ledger: Ledger
    repo: Repo
    pool: Pool
    clock: Clock
    mode: Mode
    operator_env: dict[str, str]
    secrets: dict[str, dict[str, str]]
    max_turns: int
    turnstile: Turnstile
    marker_folder: Path  # where the completion marker of the run goes, besides the run's own
    headline: Callable[[RunState], str]  # how a run stands, in a line; kept beside the run for lists
    zone: str = ""
    redacted: Callable[[str], str] = str  # known secrets taken out of a text

    def present(self) -> None:
        """Raise `Unusable` when the repository is away: nothing goes on, and nothing is recorded of what did not (rulings 31)."""
        if not self.repo.git_dir.is_dir():
            raise Unusable(f"the repository {self.repo.git_dir} is gone")


class Ctx(NamedTuple):
    """One effect's surroundings. `at`, when it was asked for, dates its commits: a redo is the same. `tell` writes a fact that does not end it."""

    tools: Tools
    run: RunId
    at: float
    begun: bool
    folder: Path
    tell: Callable[[Event], None]
    state: Callable[[], RunState]
    lease: Lease

    @property
    def target(self) -> Target:
        """The branch the run lands on."""
        told = self.state()
        return Target(told.started.target, told.started.remote or None, told.settings.land.mode)

    def workspace(self, slot: str) -> slots.Workspace:
        """The workspace an effect names, sound or not."""
        return self.tools.pool.at(slot)

    def verified(self, slot: str) -> slots.Workspace:
        """The same, verified to be ours and in use from now on; raises WorkspaceLost."""
        record = slots.verify(ws := self.workspace(slot))
        if not record.ready:
            slots.write_record(self.tools.pool.root, replace(record, ready=True))
        return ws

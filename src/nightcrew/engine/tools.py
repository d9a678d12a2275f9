"""What handlers work with: one frozen record of the rooms below, made by `app.wiring`; and what one effect's handler is given."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, ParamSpec, TypeVar

from nightcrew.core.effects import Effect
from nightcrew.core.events import Answer
from nightcrew.core.ids import RunId
from nightcrew.core.state import RunState
from nightcrew.engine.clock import Clock
from nightcrew.engine.turnstile import Turnstile
from nightcrew.git.repo import Repo
from nightcrew.git.workspace import Pool
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal
from nightcrew.ledger import Ledger
from nightcrew.proc.sandbox import Mode

P = ParamSpec("P")
T = TypeVar("T")


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
    marker_folder: Path
    """Where the completion marker of the run goes, besides the run's own."""
    headline: Callable[[RunState], str]
    """How a run stands, in a line; kept beside the run for lists."""
    zone: str = ""
    redacted: Callable[[str], str] = str
    """Known secrets taken out of a text."""


class Ctx(NamedTuple):
    """One effect's surroundings. `at` is when it was asked for: commits made for it bear that date, so a redo is the same commit.

    `tell` writes a fact that does not end the effect; `state` is the run as it stands.
    """

    tools: Tools
    run: RunId
    at: float
    begun: bool
    folder: Path
    tell: Callable[[Answer], None]
    state: Callable[[], RunState]


async def off(work: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
    """Blocking work in a thread, so that the loop goes on."""
    return await asyncio.to_thread(work, *args, **named)


def folder_of(tools: Tools, effect: Effect) -> Path:
    """Where an effect keeps its files: below the run's folder, by its key."""
    run, rest = effect.key.split("/", 1)
    return tools.journal.folder(RunId(run)) / "effects" / rest.replace("/", "-")

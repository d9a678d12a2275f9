"""What all briefs share: how the task, earlier answers and outputs are put before an agent. Each phase keeps its own words."""

from collections.abc import Iterable
from hashlib import sha256

from nightcrew.core.state import RunState
from nightcrew.core.work import Blob, Brief, CommandResult, Part

Piece = Part | str | None
OUTPUT_LIMIT = 6_000  # bytes of one command's output that a brief shows: its end, where failures stand
PATCH_LIMIT = 60_000
HOUSE = (
    "You work unattended in a private copy of the repository; nobody can answer questions. Work only below the current "
    "folder. Do not commit, switch branches, rebase or push: the files you leave are your answer. Do not weaken, skip or "
    "delete tests to make a check pass."
)
LOOK_ONLY = "You work unattended in a private copy of the repository; nobody can answer questions. Only read: change no file."


def brief(*parts: Piece) -> Brief:
    """A brief of those parts; absent ones are left out."""
    return Brief(tuple(Part(text=p) if isinstance(p, str) else p for p in parts if p))


def quoted(blob: Blob | None, limit: int = 0) -> Part | None:
    """A text from outside, fenced as data and cut to its last `limit` bytes."""
    return None if blob is None or not blob.size else Part(blob=blob, limit=limit, quoted=True)


def small(text: str) -> Blob:
    """A text of ours that is short enough to live in the fact itself."""
    return Blob(sha256(text.encode()).hexdigest(), len(text.encode()), text)


def task(state: RunState) -> tuple[Piece, ...]:
    """The task, in the words it was given in."""
    return ("# Task", Part(blob=state.started.task.text))


def plan(state: RunState) -> tuple[Piece, ...]:
    """The plan, if one was made."""
    return () if state.plan is None else ("# Plan", Part(blob=state.plan, limit=20_000))


def outputs(title: str, results: Iterable[CommandResult]) -> tuple[Piece, ...]:
    """What commands printed, each under its command line and exit status."""
    parts: list[Piece] = []
    for result in results:
        how = "ended at the time limit" if result.timed_out else f"exit status {result.code}"
        parts += [f"`{result.command}` ({how}):", quoted(result.output, OUTPUT_LIMIT)]
    return (f"# {title}", *parts) if parts else ()


def preflight(state: RunState) -> tuple[Piece, ...]:
    """What the checks said before anything was done."""
    return outputs("What the checks say on the untouched base", state.preflight.results if state.preflight else ())


def change(patch: Blob | None, title: str = "The change so far") -> tuple[Piece, ...]:
    """The work as it stands, if there is any."""
    shown = quoted(patch, PATCH_LIMIT)
    return (f"# {title}", shown) if shown else ()

"""What all briefs share: how the task, earlier answers and outputs are put before an agent. Each phase keeps its own words."""

from collections.abc import Iterable
from hashlib import sha256

from nightcrew.core.state import RunState
from nightcrew.core.work import Blob, Brief, CommandResult, Part

OUTPUT_LIMIT = 6_000
"""Bytes of one command's output that a brief shows: its end, where failures stand."""
PATCH_LIMIT = 60_000

HOUSE = (
    "You work unattended in a private copy of the repository; nobody can answer questions. Work only below the current "
    "folder. Do not commit, switch branches, rebase or push: the files you leave are your answer. Do not weaken, skip or "
    "delete tests to make a check pass."
)
LOOK_ONLY = (
    "You work unattended in a private copy of the repository; nobody can answer questions. Only read: change no file."
)


def brief(*parts: Part | str | None) -> Brief:
    """A brief of those parts; absent ones are left out."""
    return Brief(tuple(Part(text=p) if isinstance(p, str) else p for p in parts if p))


def quoted(blob: Blob | None, limit: int = 0) -> Part | None:
    """A text from outside, fenced as data and cut to its last `limit` bytes."""
    return None if blob is None or not blob.size else Part(blob=blob, limit=limit, quoted=True)


def small(text: str) -> Blob:
    """A text of ours that is short enough to live in the fact itself."""
    return Blob(sha256(text.encode()).hexdigest(), len(text.encode()), text)


def task(state: RunState) -> tuple[Part, ...]:
    """The task, in the words it was given in."""
    return (Part(text="# Task"), Part(blob=state.started.task.text))


def plan(state: RunState) -> tuple[Part, ...]:
    """The plan, if one was made."""
    return () if state.plan is None else (Part(text="# Plan"), Part(blob=state.plan, limit=20_000))


def outputs(title: str, results: Iterable[CommandResult]) -> tuple[Part, ...]:
    """What commands printed, each under its command line and exit status."""
    parts: list[Part] = []
    for result in results:
        how = "ended at the time limit" if result.timed_out else f"exit status {result.code}"
        parts += [Part(text=f"`{result.command}` ({how}):")]
        parts += [part for part in (quoted(result.output, OUTPUT_LIMIT),) if part]
    return (Part(text=f"# {title}"), *parts) if parts else ()


def preflight(state: RunState) -> tuple[Part, ...]:
    """What the checks said before anything was done."""
    seen = state.preflight
    return outputs("What the checks say on the untouched base", seen.results) if seen else ()


def change(patch: Blob | None, title: str = "The change so far") -> tuple[Part, ...]:
    """The work as it stands, if there is any."""
    shown = quoted(patch, PATCH_LIMIT)
    return (Part(text=f"# {title}"), shown) if shown else ()


def fixing(state: RunState, *new: Part | str | None, memory: bool) -> Brief:
    """A fixer's brief: what is new alone for one that remembers, else after all that it must know."""
    if memory:
        return brief(*new)
    return brief(HOUSE, *task(state), *plan(state), *change(state.chosen.change.patch), *new)

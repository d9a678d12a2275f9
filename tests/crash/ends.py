"""How a run ended, for comparison: history, refs, facts, agents' processes, spend, files; and what it left behind."""

import os
import re
import signal
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from crash.machine import Machine
from nightcrew.core.events import EffectBegun
from nightcrew.core.ids import RunId
from nightcrew.core.reducer import begin, reduce
from support import repos
from support.crew import Crew, until

VOLATILE = ("held", "jumped", "bin/", "/logs/", "/objects/", "/blobs/", "-wal", "-shm", "/ORIG_HEAD", "/COMMIT_EDITMSG")
"""Parts of paths that say nothing about the run: of the harness, git's own, content by digest, SQLite's."""

SLOT = re.compile(r"(worktrees/[^/]+/[^/.]+)/.*")
FETCHED = "refs/nightcrew/fetched/"
"""The tip last seen at a remote, of which only the name is compared: who comes after a driver that died in a push may see that push."""


class End(NamedTuple):
    """All that must be the same, each in a form that can be compared."""

    phase: str
    refs: dict[str, str]
    history: dict[str, str]
    facts: dict[str, int]
    agents: dict[str, int]
    spend: str
    files: dict[str, int]
    left: list[str]


def end_of(machine: Machine) -> End:
    """How things are now."""
    run, entries = machine.facts()
    state = begin(entries[0])
    for entry in entries[1:]:
        state = reduce(state, entry)
    crew = machine.crew
    until(lambda: not running(run))
    told = (f"{type(e.event).__name__} {getattr(e.event, 'key', '')}" for e in entries if not isinstance(e.event, EffectBegun))
    spend = f"{state.spend.turns} turns, {state.spend.tokens} tokens, {state.spend.usd:.4f} usd"
    places = [crew.repo, *(path for path in [crew.folder / "remote.git"] if path.exists())]
    return End(
        phase=f"{state.phase} {state.ended}",
        refs={
            f"{at.name} {name}": "" if FETCHED in name else look(at, commit)
            for at in places
            for name, commit in repos.refs(at).items()
        },
        history={at.name: repos.git(at, "log", "--format=%T %an %s", "main") for at in places},
        facts=dict(Counter(told)),
        agents=dict(Counter(f"{s['agent']}@{s['node']} {s['seat']} {s['turn']} {s['resume']}" for s in crew.starts())),
        spend=spend,
        files=dict(Counter(files(crew.folder, SLOT if state.settings.pipeline.implementers > 1 else None))),
        left=[*locks(crew), *unsound(places)],
    )


def marked(run: RunId) -> list[int]:
    """The processes of the run's turns and commands, without their supervisors."""
    return [int(line.split()[1]) for line in running(run) if "supervise" not in line]


def end_all(run: RunId) -> None:
    """Kill whatever belongs to the run, until there is nothing."""
    while left := running(run):
        for line in left:
            kill(int(line.split()[1]))


def kill(pid: int) -> None:
    """kill -9 of who may be gone already."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def look(repo: Path, commit: str) -> str:
    """What a commit is but for its dates."""
    return repos.git(repo, "log", "-1", "--format=%T %an %s", commit)


def running(run: RunId) -> list[str]:
    """Processes that belong to the run: turns, commands, whatever they started, and their supervisors."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            environ, words = (Path(f"/proc/{pid}/{name}").read_bytes() for name in ("environ", "cmdline"))
        except OSError:
            continue
        if f"NIGHTCREW_TURN={run}/".encode() in environ or (b"/runs/" + run.encode()) in words:
            found.append(f"process {pid} {words!r}")
    return found


def files(folder: Path, slot: re.Pattern[str] | None) -> list[str]:
    """Every file by its name, what is volatile left out. Of slots that were leased side by side only that they are there: whose each was is chance."""
    paths = (str(path.relative_to(folder)) for path in folder.rglob("*") if not path.is_dir() or path.is_symlink())
    kept = [path for path in paths if not any(part in f"/{path}" for part in VOLATILE)]
    return kept if slot is None else sorted({slot.sub(r"\1", path) for path in kept})


def locks(crew: Crew) -> list[str]:
    """Locks and half-written files that somebody would have to remove."""
    return [f"lock {path}" for root in (crew.repo, crew.state_home) for path in root.rglob("*.lock") if ".git" in path.parts]


def unsound(places: list[Path]) -> list[str]:
    """What git's own check says about a repository's history."""
    return [f"fsck {at.name}: {said}" for at in places if (said := repos.git(at, "fsck", "--connectivity-only", "--no-dangling"))]


def differences(expected: End, found: End) -> list[str]:
    """What is not as it should be, a line each."""
    said = []
    for name in End._fields:
        one, other = getattr(expected, name), getattr(found, name)
        if isinstance(one, dict) and isinstance(other, dict):
            keys = sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))
            said += [f"{name}: {key}: {one.get(key)} expected, {other.get(key)} found" for key in keys]
        elif one != other:
            said.append(f"{name}: {one} expected, {other} found")
    return said

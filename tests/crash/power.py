"""Power cuts: the machine as it is at a boundary where the journal was synced, less what nobody synced since the boundary before.

Modelled: at each entry (SQLite returned from its sync) everything that changed since the last copied instant is lost, unless it is among
`DURABLE`, the files that nightcrew, or git told by it, syncs before it goes on, or lies in our home and is older than a job's record, before
which that disk is synced, or in a workspace and not younger than a fact that is in `SETTLED`, before which it is synced too (both taken as
given here; `unit/proc/test_job`, `unit/git/test_workspace` and `unit/git/test_sync` show it). What is lost has its old content again, or, when it is new,
is there without content, as after a delayed allocation. `power, files late`: the small files of the workspaces' `.git` reached the disk by
chance, what was checked out did not. No process lives. Not modelled: a sync that is torn in its middle, any other choice among what was not
synced, removals that are lost, a disk that lies.
"""

import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path

from crash.driver import Note
from crash.machine import Machine, Tape
from crash.points import Point

WAYS = ("power", "power, files late")
DURABLE = re.compile(
    r"(nightcrew/(journal|ledger)\.db(-wal)?|nightcrew/runs/[^/]+/blobs/.*|nightcrew/runs/[^/]+/effects/.*/(exit\.json|spawned)"
    r"|nightcrew/worktrees/[^/]+/[^/]+\.json|.*\.git/(.*/)?(objects/.*|refs/.*|packed-refs|HEAD)|.*completion_marker"
    r"|(home|bin)/.*|jumped)"  # the harness's own instruments are not part of the machine
)
SETTLED = ("WorkspaceReady", "WorkspaceReset", "BaseSynced")
OF_GIT = re.compile(r"nightcrew/worktrees/[^/]+/[^/]+/\.git/.*")


def points_of(name: str, tape: Tape) -> list[Point]:
    """Two at each entry that was copied; the entry of the last copy before it, the last boundary, is the point's number."""
    pairs = list(pairwise(note for note in tape.notes if note.copied and not note.before))
    facts = (type(tape.entries[note.seq - 1].event).__name__ for _, note in pairs)
    return [
        Point(name, how, note, before.seq, fact=f"{fact}, {how}")
        for (before, note), fact in zip(pairs, facts, strict=True)
        for how in WAYS
    ]


def cut(machine: Machine, point: Point) -> None:
    """Put the machine, as it is at that point, back to how it is after the power came again."""
    older, synced_at, settled = machine.root / "older", last_sync(machine.folder), point.fact.startswith(SETTLED)
    shutil.rmtree(older, ignore_errors=True)
    older.mkdir()
    before = Note(point.number, False, True, 0, 0, 0)  # noqa: FBT003
    subprocess.run(["tar", "-C", str(older), "-xzf", str(machine.copies / before.name)], check=True)
    for path in [p for p in machine.folder.rglob("*") if p.is_file() and not p.is_symlink()]:
        name = str(path.relative_to(machine.folder))
        synced = name.startswith("nightcrew/") and path.stat().st_mtime_ns <= synced_at
        synced = synced or (settled and name.startswith("nightcrew/worktrees/"))
        by_chance = point.how == "power, files late" and OF_GIT.fullmatch(name)
        if synced or by_chance or DURABLE.fullmatch(name) or (was := content(older / name)) == path.read_bytes():
            continue
        if name.endswith("-shm"):
            path.unlink()
        else:
            path.write_bytes(was or b"")
    shutil.rmtree(older)


def last_sync(folder: Path) -> int:
    """When the newest job's record was written, in nanoseconds since the epoch."""
    return max((path.stat().st_mtime_ns for path in (folder / "nightcrew/runs").rglob("exit.json")), default=0)


def content(path: Path) -> bytes | None:
    """What a file holds, if it is there."""
    return path.read_bytes() if path.is_file() else None

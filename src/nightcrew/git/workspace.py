"""Workspaces: the pool of slots of one repository, leased to seats, reset, filled with local files, given back (rulings 15, 43)."""

import fcntl
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec

from nightcrew.errors import UserError
from nightcrew.git import snapshot, submodules
from nightcrew.git.repo import Repo, pin, repo_id
from nightcrew.git.sealed import GitError, git
from nightcrew.git.slots import (
    Record,
    Workspace,
    WorkspaceLost,
    build_git,
    give,
    lookup,
    owner_record,
    read_record,
    record_path,
    remove,
    template,
    verify,
    write_durably,
    write_record,
)
from nightcrew.git.snapshot import Rescued

__all__ = [
    "Pool",
    "Record",
    "Workspace",
    "WorkspaceLost",
    "copy_files",
    "drop",
    "lease",
    "leased",
    "locked",
    "lookup",
    "mend",
    "release",
    "reset",
    "verify",
]

SPACE_FLOOR = 64 * 1024 * 1024
"""No workspace is made when fewer bytes than this are free."""


class Pool(NamedTuple):
    """The slots of one repository: `root` is the folder they lie in, `<NIGHTCREW_HOME>/worktrees/<repo id>`."""

    root: Path
    repo: Repo


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the lock file `path`; the kernel frees it when we die, and no child inherits it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


# ── leasing ───────────────────────────────────────────────────────────────────────────────────────────────────────


def lease(
    pool: Pool,
    run: str,
    seat: str,
    start: str,
    branch: str | None = None,
    owned: str | None = None,
    keep: Sequence[str] = (),
) -> Workspace:
    """The workspace of a seat: found again as it was left, else a free slot made clean, else a new one; it stands at `start`.

    `branch` None = a reader's, detached at `start`, moved when `start` is another. `owned` is the slot the caller believes is
    the seat's (the answer tells another one if it is gone). `keep` are globs of ignored files that survive a change of
    seat. The same call again gives the same workspace. Raises UserError when the disk is full.
    """
    with locked(pool.root / "lock"):
        record = _choose(pool, run, seat, start, branch or "", owned or "")
    ws = lookup(pool.root, record.slot, pool.repo.operator_env)
    used, changed_hands = ws.path.exists(), not record.ready
    if record.ready:
        try:
            return _found_again(ws, verify(ws), start, branch)
        except WorkspaceLost as lost:
            if lost.files:
                mend(pool.repo, ws)
        if ws.path.exists():
            snapshot.rescue(pool.repo, ws, run)
    _prepare(pool, msgspec.structs.replace(record, start=start, branch=branch or ""))
    if used:
        ignored_too = ("-x", *(word for glob in keep for word in ("-e", glob))) if changed_hands else ()
        git(ws, "clean", "-ffdq", *ignored_too)
    return _furnish(pool, ws)


def _choose(pool: Pool, run: str, seat: str, start: str, branch: str, owned: str) -> Record:
    """The seat's own slot, a free one, or a new one, written down as the seat's; under the pool's lock."""
    records = _records(pool.root)
    own = [record for record in records if (record.run, record.seat) == (run, seat)]
    own.sort(key=lambda record: record.slot != owned)
    if own:
        return own[0]
    free = [record for record in records if not record.run and (pool.root / record.slot).is_dir()]
    slot = free[0].slot if free else _new_slot(pool)
    record = Record(slot, repo_id(pool.repo), run, seat, branch, start)
    write_record(pool.root, record)
    return record


def _records(root: Path) -> list[Record]:
    """All records that can be read, in the order of their slots' names."""
    found = []
    for path in sorted(root.glob("[!.]*.json")):
        try:
            found.append(read_record(root, path.stem))
        except WorkspaceLost:
            continue
    return found


def _new_slot(pool: Pool) -> str:
    """A name no slot of this pool ever had, that says nothing."""
    path = pool.root / "counter"
    count = int(path.read_text()) + 1 if path.exists() else 1
    write_durably(path, str(count).encode())
    return hashlib.sha256(f"{repo_id(pool.repo)}/{count}".encode()).hexdigest()[:10]


def _found_again(ws: Workspace, record: Record, start: str, branch: str | None) -> Workspace:
    """A sound workspace as its seat left it; a reader's is good only at `start` itself."""
    head, _, tree = git(ws, "log", "-1", "--format=%H %T", "HEAD", "--", ok=(0, 128)).partition(" ")
    if (branch or "") != record.branch:
        raise WorkspaceLost(ws.slot, "it belongs to another branch of its seat")
    if branch is None and head != start:
        raise WorkspaceLost(ws.slot, "its reader looks at another commit now")
    if git(ws, "rev-parse", "--verify", "-q", f"{start}^{{commit}}", ok=(0, 1)) != start:
        raise WorkspaceLost(ws.slot, "it lacks the commit it started from")
    return ws._replace(head=head, tree=tree)


def _prepare(pool: Pool, record: Record) -> None:
    """Set a slot up at its record's start: `.git` from the template, the files that are tracked, nothing untracked but what is ignored."""
    repo, ws = pool.repo, lookup(pool.root, record.slot, pool.repo.operator_env)
    if shutil.disk_usage(pool.root).free < SPACE_FLOOR:
        raise UserError(f"the disk of {pool.root} is full", "make room, then resume")
    record = msgspec.structs.replace(record, ready=False, files=template(repo, record.copies))
    write_record(pool.root, record)
    pin(repo, record.run, f"pins/{record.start[:12]}", record.start)
    ws.path.mkdir(exist_ok=True)
    build_git(ws.git_dir, record)
    if _has_hidden_entries(ws):
        (ws.git_dir / "index").unlink()
    give(repo, ws, record.start)
    git(ws, "reset", "--hard", "-q", record.start)


def _furnish(pool: Pool, ws: Workspace) -> Workspace:
    """The last of a set-up: submodules, and the record that says all is ready."""
    submodules.fill(pool.repo, ws)
    record = read_record(pool.root, ws.slot)
    write_record(pool.root, msgspec.structs.replace(record, ready=True))
    return ws._replace(head=record.start, tree=git(ws, "rev-parse", f"{record.start}^{{tree}}"))


def _has_hidden_entries(ws: Workspace) -> bool:
    """Whether an agent told the index to look away from a file (or broke the index): a reset would then leave its version there."""
    if not (ws.git_dir / "index").exists():
        return False
    try:
        said = git(ws, "ls-files", "-v", "-z")
    except GitError:
        return True
    return any(line[:1] != "H" for line in said.split("\0") if line)


# ── while it is leased ────────────────────────────────────────────────────────────────────────────────────────────


def mend(repo: Repo, ws: Workspace) -> Record:
    """A sound `.git` around files that lost theirs: the branch is at the start again, the files are unsaved work, nothing is lost.

    What an agent put in place of our `.git` is kept in rescue refs, as far as git can read it.
    """
    record = read_record(ws.path.parent, ws.slot)
    strange = ws.path.parent / f".{ws.slot}.strange"
    if ws.git_dir.is_dir() and not ws.git_dir.is_symlink():
        remove(strange)
        ws.git_dir.rename(strange)
        snapshot.bring_strangers(repo, strange, record.run)
    build_git(ws.git_dir, record)
    remove(strange)
    give(repo, ws, record.start)
    # The index says what the start held, so that only what differs is a change.
    git(ws, "read-tree", record.start)
    return record


def reset(pool: Pool, ws: Workspace, start: str) -> tuple[Workspace, Rescued | None]:
    """Set a leased workspace back to `start` on its own branch, after a rescue; ignored files stay (rulings 20)."""
    record = _sound(pool, ws)
    saved = snapshot.rescue(pool.repo, ws, record.run)
    _prepare(pool, msgspec.structs.replace(record, start=start))
    git(ws, "clean", "-ffdq")
    return _furnish(pool, ws), saved


def _sound(pool: Pool, ws: Workspace) -> Record:
    """The record of a workspace, mended if only its `.git` is gone."""
    try:
        return verify(ws)
    except WorkspaceLost as lost:
        if not lost.files:
            raise
        return mend(pool.repo, ws)


def copy_files(pool: Pool, ws: Workspace, patterns: Iterable[str]) -> tuple[str, ...]:
    """Copy files that `patterns` name in the person's checkout (`.env`) into a workspace, where they are ignored and never committed.

    Links are followed; what is not a file, lies outside or in `.git` is left out. Returns the paths copied.
    """
    source = pool.repo.work_tree
    if source is None:
        return ()
    found = {path for pattern in patterns for path in source.glob(pattern) if path.is_file()}
    names = sorted(str(path.relative_to(source)) for path in found if ".git" not in path.relative_to(source).parts)
    record = verify(ws)
    copies = tuple(dict.fromkeys([*record.copies, *names]))
    record = msgspec.structs.replace(record, copies=copies, files=template(pool.repo, copies))
    write_record(pool.root, record)
    verify(ws)
    for name in names:
        place = ws.path / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, place)
    return tuple(names)


# ── giving back ───────────────────────────────────────────────────────────────────────────────────────────────────


def leased(pool: Pool, run: str) -> tuple[Workspace, ...]:
    """Every workspace that a run holds."""
    env = pool.repo.operator_env
    return tuple(lookup(pool.root, record.slot, env) for record in _records(pool.root) if record.run == run)


def release(pool: Pool, ws: Workspace) -> Rescued | None:
    """Give a slot back to the pool; unsaved work is rescued first. A workspace whose folder is gone is forgotten."""
    saved = _rescue_if_any(pool, ws)
    with locked(pool.root / "lock"):
        if ws.path.is_dir():
            write_record(pool.root, owner_record(pool.repo, ws.slot))
        else:
            record_path(pool.root, ws.slot).unlink(missing_ok=True)
    return saved


def drop(pool: Pool, ws: Workspace) -> Rescued | None:
    """Remove a workspace from the disk; unsaved work is rescued first."""
    saved = _rescue_if_any(pool, ws)
    with locked(pool.root / "lock"):
        record_path(pool.root, ws.slot).unlink(missing_ok=True)
        if ws.path.exists():
            trash = pool.root / f".{ws.slot}.trash"
            remove(trash)
            os.replace(ws.path, trash)
    remove(pool.root / f".{ws.slot}.trash")
    return saved


def _rescue_if_any(pool: Pool, ws: Workspace) -> Rescued | None:
    """Rescue what a leased, prepared workspace has; a free, half-made or vanished one has nothing."""
    try:
        record = read_record(pool.root, ws.slot)
        if not record.run or not record.ready:
            return None
        _sound(pool, ws)
    except WorkspaceLost:
        return None
    return snapshot.rescue(pool.repo, ws, record.run)

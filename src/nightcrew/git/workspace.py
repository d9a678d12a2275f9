"""Workspaces: the pool of slots of one repository, leased to seats, reset, filled with local files, given back (rulings 15, 43)."""

import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from nightcrew.database import alone, sync_disk
from nightcrew.errors import UserError
from nightcrew.git import slots, snapshot
from nightcrew.git.collect import head_of, tree_of
from nightcrew.git.repo import Repo, pin, repo_id
from nightcrew.git.sealed import GitError, git, run
from nightcrew.git.slots import Record, Workspace, WorkspaceLost
from nightcrew.git.snapshot import Rescued, sound

SPACE_FLOOR = 64 * 1024 * 1024  # no workspace is made when fewer bytes than this are free


class Pool(NamedTuple):
    """The slots of one repository: `root` is the folder they lie in, `<NIGHTCREW_HOME>/worktrees/<repo id>`."""

    root: Path
    repo: Repo

    def at(self, slot: str) -> Workspace:
        """The workspace of a slot, by its name only; `slots.verify` says whether it is sound."""
        return Workspace(slot, self.root / slot, self.repo.env)


def lease(
    pool: Pool, run_id: str, seat: str, start: str, branch: str = "", keep: Sequence[str] = (), sees: tuple[str, ...] = ()
) -> Workspace:
    """The workspace of a seat at `start`: as it was left, else a free slot made clean, else a new one. Raises UserError when the disk is full."""
    # No branch: a reader's, detached, moved when `start` is another. What `keep` names survives a change of seat though ignored.
    with alone(pool.root / "lock"):
        record = _choose(pool, Record("", repo_id(pool.repo), run_id, seat, branch, start))
    record = replace(record, start=start, branch=branch, ready=record.ready and record.sees == sees, sees=sees)
    if not record.ready:
        return _set_up(pool, record, "-x", *(word for glob in keep for word in ("-e", glob)))
    ws = pool.at(record.slot)
    with suppress(WorkspaceLost, GitError):  # what git cannot read is mended by the rescue
        left = slots.verify(ws)
        known = git(ws, "rev-parse", "--verify", "-q", f"{start}^{{commit}}", ok=(0, 1))
        head, tree = head_of(ws)  # no head: a branch that the agent began, without a commit; its work too
        if left.branch == record.branch and known == start and (branch or head == start):
            return ws._replace(head=head, tree=tree)
    _rescue_if_any(pool, ws)
    return _set_up(pool, record)


def _choose(pool: Pool, wanted: Record) -> Record:
    # The seat's own slot, a free one, or a new one, written down as the seat's; under the pool's lock. Names say nothing.
    records = _swept(pool.root)
    own = [record for record in records if (record.run, record.seat) == (wanted.run, wanted.seat)]
    if own:
        return own[0]
    names = (hashlib.sha256(f"{wanted.repo}/{n}".encode()).hexdigest()[:10] for n in count())
    new = (name for name in names if not any(pool.root.glob(f"{name}*")))
    record = replace(wanted, slot=next((record.slot for record in records if not record.run), "") or next(new))
    slots.write_record(pool.root, record)
    return record


def _swept(root: Path) -> list[Record]:
    # The records, what somebody who was killed left of others thrown away: where no seat is, only the pool's lock lets write.
    records = _records(root)
    held = {record.slot for record in records if record.run}
    for left in root.glob(".*.json.*new"):
        if left.name.split(".")[1] not in held:
            left.unlink()
    return records


def _records(root: Path) -> list[Record]:
    found = []
    for path in sorted(root.glob("[!.]*.json")):
        with suppress(WorkspaceLost):
            found.append(slots.read_record(root, path.stem))
    return found


def _set_up(pool: Pool, record: Record, *cleaning: str, then: Callable[[Workspace], None] = lambda _: None) -> Workspace:
    # A slot at its record's start: `.git` from the template, the files that are tracked, no others but what `cleaning` spares.
    repo, ws = pool.repo, pool.at(record.slot)
    if shutil.disk_usage(pool.root).free < SPACE_FLOOR:
        raise UserError(f"the disk of {pool.root} is full", "make room, then resume")
    record = replace(record, ready=False, files=slots.template(repo, record))
    slots.write_record(pool.root, record)
    pin(repo, record.run, f"pins/{record.start[:12]}", record.start)  # before anything borrows it
    if not (used := ws.path.is_dir() and not ws.path.is_symlink()):
        slots.remove(ws.path)  # of a link that took its place not what lies behind it
    ws.path.mkdir(exist_ok=True)
    slots.build_git(ws.git_dir, record)
    if (index := ws.git_dir / "index").exists():
        # An agent told the index to look away from a file (or broke the index): a reset would leave its version there.
        said = run(ws, "ls-files", "-v", "-z", ok=(0, 128))
        if said.code or any(line[:1] != b"H" for line in said.out.split(b"\0") if line):
            index.unlink()
    slots.give(repo, ws, record.start, record.sees)
    # A filter that cannot bring a large file's content leaves its pointer; what is committed still has to pass it.
    filters = {key.rpartition(".")[0] for key in repo.settings if key.startswith("filter.")}
    lenient = (word for name in filters for word in ("-c", f"{name}.required=false"))
    for words in ((*lenient, "reset", "--hard", "-q", record.start), *([("clean", "-ffdq", *cleaning)] if used else [])):
        if (said := run(ws, *words, ok=(0, 1, 128))).code:  # somebody's tool made folders read-only, or too deep for a call
            slots.opened(ws.path)
            for name in snapshot.DEEP.findall(os.fsdecode(said.err)):
                slots.remove(Path(os.fsdecode(os.fsencode(ws.path / name)[:3500])).parent)
            git(ws, *words)
    if record.sees:
        slots.hide_times(ws)
    else:
        slots.fill_submodules(repo, ws)  # they borrow, too
    then(ws)
    sync_disk(pool.root)  # a power cut leaves no emptied files in a workspace that is ready
    slots.write_record(pool.root, replace(record, ready=True, saved=""))
    return ws._replace(head=record.start, tree=tree_of(repo, record.start))


def reset(pool: Pool, ws: Workspace, start: str, then: Callable[[Workspace], None] = lambda _: None) -> tuple[Workspace, Rescued]:
    """Set a leased workspace back to `start` on its own branch, after a rescue; ignored files stay (rulings 20). `then` is part of it."""
    record = sound(pool.repo, ws)
    snapshot.look_again(ws)
    # What we left half-made when we died in here is nobody's work.
    saved = snapshot.rescue(pool.repo, ws, record.run) if record.ready else Rescued(record.saved)
    return _set_up(pool, replace(record, start=start, saved=saved.ref), then=then), saved


def copy_files(pool: Pool, ws: Workspace, patterns: Iterable[str]) -> tuple[str, ...]:
    """Copy files that `patterns` name in the person's checkout (`.env`) to a workspace, ignored there and never committed; their paths."""
    source = pool.repo.work_tree
    if source is None:
        return ()
    found = {path.relative_to(source) for pattern in patterns for path in source.glob(pattern) if path.is_file()}
    names = sorted(str(path) for path in found if ".git" not in path.parts)
    record = slots.read_record(pool.root, ws.slot)
    record = replace(record, copies=tuple(dict.fromkeys([*record.copies, *names])))
    slots.write_record(pool.root, replace(record, files=slots.template(pool.repo, record)))
    slots.verify(ws)
    for name in filter(lambda name: slots.within(ws, ws.path / name), names):
        slots.remove(ws.path / name)
        (ws.path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, ws.path / name)
    if record.sees:
        slots.hide_times(ws)
    return tuple(names)


def ignored(ws: Workspace, patterns: Iterable[str] = ()) -> set[str]:
    """The files of a workspace that git ignores; or those not tracked that `patterns` match, which are written as in a .gitignore."""
    words = [word for one in patterns for word in ("-x", one)] or ["--exclude-standard"]
    return {name for name in git(ws, "ls-files", "-z", "--others", "--ignored", *words).split("\0") if name}


def leased(pool: Pool, run_id: str, seats: Sequence[str] = ()) -> tuple[Workspace, ...]:
    """Every workspace that a run holds, or those of some seats."""
    return tuple(pool.at(r.slot) for r in _records(pool.root) if r.run == run_id and (not seats or r.seat in seats))


def release(pool: Pool, ws: Workspace) -> Rescued:
    """Give a slot back to the pool; unsaved work is rescued first."""
    saved = _rescue_if_any(pool, ws)
    with alone(pool.root / "lock"):
        slots.write_record(pool.root, Record(ws.slot, repo_id(pool.repo)))
        _swept(pool.root)
    return saved


def _rescue_if_any(pool: Pool, ws: Workspace) -> Rescued:
    # A free, half-made or vanished one has nothing.
    with suppress(WorkspaceLost):
        record = slots.read_record(pool.root, ws.slot)
        if record.run and record.ready:
            return snapshot.rescue(pool.repo, ws, record.run)
    return Rescued()

"""Collecting an agent's work: what is left uncommitted is committed, a branch that was bent is put right, the result is brought over."""

from collections.abc import Iterable
from typing import NamedTuple

from nightcrew.git import snapshot, submodules
from nightcrew.git.repo import Repo
from nightcrew.git.sealed import dated, git, run
from nightcrew.git.slots import Record, Workspace, WorkspaceLost, remove, verify
from nightcrew.git.snapshot import Survey, left_out, survey
from nightcrew.git.workspace import mend

IN_PROGRESS = (
    "rebase-merge",
    "rebase-apply",
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "sequencer",
    "BISECT_LOG",
)
OPERATION_STATE = (
    *IN_PROGRESS,
    "AUTO_MERGE",
    "MERGE_MSG",
    "MERGE_MODE",
    "SQUASH_MSG",
    "REBASE_HEAD",
    "BISECT_START",
    "BISECT_NAMES",
)


class Collected(NamedTuple):
    """What stands on a branch after a turn, compared with its start; `patch` is for reading. `rescued` names a ref if history had to be put right."""

    head: str
    tree: str
    start_tree: str
    commits: int
    files: int
    insertions: int
    deletions: int
    patch: bytes
    rescued: str = ""

    @property
    def empty(self) -> bool:
        """Whether nothing changed: equal trees, whatever was said or committed."""
        return self.tree == self.start_tree


class Diff(NamedTuple):
    """The difference of two commits: paths with lines added and removed (binary: none), and the patch."""

    lines: dict[str, tuple[int, int]]
    patch: bytes


class History(NamedTuple):
    """HEAD's commit and tree, the start's tree, and how many commits lie between."""

    head: str
    tree: str
    start_tree: str
    commits: int


def collect(repo: Repo, ws: Workspace, run_id: str, label: str, start: str, message: str, at: float) -> Collected:
    """Commit what an agent left, have our branch hold its result on top of `start`, and bring it to `refs/nightcrew/<run>/<label>`.

    An agent that switched or rewrote branches, left a rebase or lost `start` from its history is put right after a rescue:
    the files as they are count. Files that were copied in and `.agent/` are never committed. `at` (seconds since the epoch)
    dates our commits, so that the same call after a crash gives the same ones.
    Raises WorkspaceLost when the folder is gone.
    """
    record, mended = sound(repo, ws)
    seen = _absorb_repositories(repo, ws, run_id, survey(ws))
    rescued = ""
    straight = not mended and seen.branch == record.branch and seen.head and not seen.unmerged and not in_progress(ws)
    if straight:
        _commit_files(ws, record, seen, message, at)
    history = _history(ws, start) if straight else None
    if history is None:
        saved = snapshot.rescue(repo, ws, run_id)
        rescued = saved.ref if saved else ""
        _straighten(ws, record, seen, start, message, at)
        history = _stands(ws, start)
    diff = diff_of(ws, start, history.head)
    if _clean_index(repo, ws, run_id, start, record, diff):
        commit_index(ws, message, at)
        history = _stands(ws, start)
        diff = diff_of(ws, start, history.head)
    snapshot.publish(repo, ws, run_id, label, history.head)
    snapshot.rescue_submodules(repo, ws, run_id)
    added, removed = (sum(pair[side] for pair in diff.lines.values()) for side in (0, 1))
    return Collected(*history, len(diff.lines), added, removed, diff.patch, rescued)


def _stands(ws: Workspace, start: str) -> History:
    """The history of a branch that was put right; it stands on the start."""
    history = _history(ws, start)
    if history is None:
        raise WorkspaceLost(ws.slot, f"its branch cannot be put on {start}")
    return history


def sound(repo: Repo, ws: Workspace) -> tuple[Record, bool]:
    """The workspace's record, and whether its `.git` had to be made anew around the files. Raises WorkspaceLost when the folder is gone."""
    try:
        return verify(ws), False
    except WorkspaceLost as lost:
        if not lost.files:
            raise
        return mend(repo, ws), True


def in_progress(ws: Workspace) -> bool:
    """Whether a rebase, merge, cherry-pick, revert or bisect is under way."""
    return any((ws.git_dir / name).exists() for name in IN_PROGRESS)


def _absorb_repositories(repo: Repo, ws: Workspace, run_id: str, seen: Survey) -> Survey:
    """Repositories that a tool made inside the tree become plain folders (git would commit them as empty links); their history is rescued."""
    nested = snapshot.nested_repositories(ws, seen)
    for path in nested:
        snapshot.bring_strangers(repo, path / ".git", run_id)
        remove(path / ".git")
    return survey(ws) if nested else seen


def _absorb_links(repo: Repo, ws: Workspace, run_id: str, start: str) -> bool:
    """The same for one that the agent committed as a link without a `.gitmodules`: the tree that lands must have its files."""
    raw = git(ws, "diff-tree", "-r", "-z", "--no-renames", start, "HEAD").split("\0")
    known = {module.path for module in submodules.modules(ws)} if (ws.path / ".gitmodules").is_file() else set()
    links = [path for meta, path in zip(raw[::2], raw[1::2], strict=False) if meta.startswith(":000000 160000")]
    links = [path for path in links if path not in known and (ws.path / path / ".git").exists()]
    for path in links:
        snapshot.bring_strangers(repo, ws.path / path / ".git", run_id)
        remove(ws.path / path / ".git")
        git(ws, "rm", "-q", "-f", "--cached", "--", f":(literal){path}")
        git(ws, "add", "-A", "--", f":(literal){path}")
    return bool(links)


def _clean_index(repo: Repo, ws: Workspace, run_id: str, start: str, record: Record, diff: Diff) -> bool:
    """Take out of the index what an agent committed and must not land; whether there was anything."""
    taboo = [path for path in diff.lines if _forbidden(record, path)]
    if taboo:
        git(ws, "reset", "-q", start, "--", *(f":(literal){path}" for path in taboo))
    linked = b"new file mode 160000" in diff.patch and _absorb_links(repo, ws, run_id, start)
    return bool(taboo) or linked


def _forbidden(record: Record, path: str) -> bool:
    """Whether a path must never be committed: copied in, or our own folder."""
    return path in record.copies or path == ".agent" or path.startswith(".agent/")


def _commit_files(ws: Workspace, record: Record, seen: Survey, message: str, at: float) -> None:
    """Commit all that is not committed and not ignored."""
    paths = (*seen.changed, *seen.untracked)
    taboo = [path for path in paths if _forbidden(record, path)]
    if len(paths) == len(taboo):
        return
    git(ws, "add", "-A", "--", ".", *map(left_out, taboo))
    commit_index(ws, message, at)


def commit_index(ws: Workspace, message: str, at: float) -> None:
    """Commit the index under the neutral identity; an index that holds nothing new makes no commit."""
    run(
        ws,
        "commit",
        "-q",
        "--no-verify",
        "--cleanup=verbatim",
        "-F",
        "-",
        stdin=message.encode(),
        env=dated(at),
        ok=(0, 1),
    )


def _straighten(ws: Workspace, record: Record, seen: Survey, start: str, message: str, at: float) -> None:
    """Have our branch hold the files as they are: on the agent's own commits where they stand on `start` and are whole, else as one on `start`."""
    whole = seen.head and not seen.unmerged and not in_progress(ws)
    parent = seen.head if whole and is_ancestor(ws, start, seen.head) else start
    taboo = [path for path in (*seen.changed, *seen.untracked) if _forbidden(record, path)]
    tree, _ = snapshot.files_tree(ws, seen, without=taboo)
    commit = parent
    if tree != _trees(ws, parent)[1]:
        commit = git(ws, "commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode(), env=dated(at))
    put_branch(ws, record, commit)


def put_branch(ws: Workspace, record: Record, commit: str) -> None:
    """Stand on our branch at `commit`, nothing in progress; files stay as they are."""
    for name in OPERATION_STATE:
        remove(ws.git_dir / name)
    if record.branch:
        # Away from whatever branch it stands on first: a reset must not move that one.
        git(ws, "update-ref", "--no-deref", "HEAD", commit)
        git(ws, "update-ref", f"refs/heads/{record.branch}", commit)
        git(ws, "symbolic-ref", "HEAD", f"refs/heads/{record.branch}")
    git(ws, "reset", "-q", commit)


def is_ancestor(place: Repo | Workspace, old: str, new: str) -> bool:
    """Whether `old` is `new` or lies in its history."""
    return run(place, "merge-base", "--is-ancestor", old, new, ok=(0, 1)).code == 0


def _history(ws: Workspace, start: str) -> History | None:
    """What leads from `start` to HEAD; None when HEAD does not stand on `start`."""
    said = git(ws, "log", "--topo-order", "--left-right", "--boundary", "--format=%m %H %T", f"{start}...HEAD")
    lines = [line.split(" ") for line in said.splitlines()]
    if not lines:
        tree = _trees(ws, start)[1]
        return History(start, tree, tree, 0)
    made = [(commit, tree) for side, commit, tree in lines if side == ">"]
    bases = {commit: tree for side, commit, tree in lines if side == "-"}
    if not made or start not in bases or any(side == "<" for side, *_ in lines):
        return None
    return History(*made[0], bases[start], len(made))


def _trees(ws: Workspace, commit: str) -> tuple[str, str]:
    """A commit's id and tree."""
    found, tree = git(ws, "rev-parse", commit, f"{commit}^{{tree}}").split("\n")
    return found, tree


def diff_of(place: Repo | Workspace, old: str, new: str) -> Diff:
    """The difference of two commits, by no program of the person's or the agent's."""
    flags = ("-r", "-z", "-M", "--numstat", "--patch", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")
    said = run(place, "diff-tree", *flags, old, new).out
    numbers, _, patch = said.partition(b"\0\0") if not said.startswith(b"\0") else (b"", b"", said[1:])
    return Diff(_numstat(numbers.decode(errors="surrogateescape").split("\0")), patch)


def _numstat(fields: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Lines added and removed by path; a renamed file counts under its new name."""
    found: dict[str, tuple[int, int]] = {}
    rest = iter(fields)
    for field in rest:
        if not field:
            break
        added, removed, path = field.split("\t", 2)
        if not path:
            next(rest)
            path = next(rest)
        found[path] = (int(added) if added != "-" else 0, int(removed) if removed != "-" else 0)
    return found

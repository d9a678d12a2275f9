"""Rescue: every commit and unsaved file of a workspace made reachable from the person's repository, without touching index or files (law 8)."""

import hashlib
import os
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from nightcrew.git.repo import NOTHING, Repo
from nightcrew.git.sealed import Checkout, GitError, git, run
from nightcrew.git.slots import Workspace, read_record
from nightcrew.git.submodules import Inner, filled

Files = Workspace | Inner
"""A git folder and its files: a workspace, or a submodule in one."""

LARGE = 50 * 1024 * 1024
"""Files above this many bytes are listed, not rescued (rulings 20)."""

BRINGING = ("-q", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-recurse-submodules", "--no-auto-gc")
"""A fetch of ours from a folder: it writes the refs it names and nothing else."""


class Rescued(NamedTuple):
    """Where unsaved work is now: a ref of the person's repository, its commit, how many files were unsaved, and those too large."""

    ref: str
    commit: str
    files: int
    large: tuple[str, ...]


class Survey(NamedTuple):
    """What stands in a workspace: HEAD's commit (empty: none), the branch it is on (empty: detached), and paths that differ from it."""

    head: str
    branch: str
    changed: tuple[str, ...]
    untracked: tuple[str, ...]
    unmerged: tuple[str, ...]

    @property
    def dirty(self) -> bool:
        """Whether anything is not committed."""
        return bool(self.changed or self.untracked or self.unmerged)


def survey(ws: Files) -> Survey:
    """One look at a workspace. Ignored files are not seen."""
    said = git(ws, "status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all")
    head = branch = ""
    changed: list[str] = []
    untracked: list[str] = []
    unmerged: list[str] = []
    for line in said.split("\0"):
        match line[:1]:
            case "#":
                _, name, value = line.split(" ", 2)
                head = value if name == "branch.oid" and value != "(initial)" else head
                branch = value if name == "branch.head" and value != "(detached)" else branch
            case "1":
                changed.append(line.split(" ", 8)[8])
            case "u":
                unmerged.append(line.split(" ", 10)[10])
            case "?":
                untracked.append(line[2:])
            case _:
                pass
    return Survey(head, branch, tuple(changed), tuple(untracked), tuple(unmerged))


def rescue(repo: Repo, ws: Workspace, run_id: str) -> Rescued | None:
    """Make reachable from `refs/nightcrew/rescue/<run>/<n>` what nothing else of the person's repository reaches; None = nothing was unsaved.

    Covers commits of any branch, stash, detached HEAD, reflog or rebase in progress, and tracked changes and untracked
    unignored files. The same unsaved files share one ref.
    """
    saved = _rescue(repo, ws, run_id, read_record(ws.path.parent, ws.slot).start)
    rescue_submodules(repo, ws, run_id)
    return saved


def rescue_submodules(repo: Repo, ws: Workspace, run_id: str) -> None:
    """Have the person's copies of the submodules hold what was made in ours, under rescue refs of their own."""
    for source, inner in filled(repo, ws):
        _rescue(source, inner, run_id, "")


def _rescue(repo: Repo, ws: Files, run_id: str, known_commit: str) -> Rescued | None:
    """Rescue one git folder and its files."""
    seen = survey(ws)
    for path in nested_repositories(ws, seen):
        bring_strangers(repo, path / ".git", run_id)
    loose = _loose_commits(ws, known_commit)
    tree, large = files_tree(ws, seen) if seen.dirty else ("", ())
    if tree and seen.head and tree == git(ws, "rev-parse", f"{seen.head}^{{tree}}"):
        tree = ""
    if not tree and not loose:
        return Rescued("", "", 0, large) if large else None
    known = _rescue_refs(repo, run_id)
    files = len(seen.changed) + len(seen.untracked) + len(seen.unmerged)
    if tree and not loose:
        for name, (commit, same) in known.items():
            if same == tree:
                return Rescued(name, commit, files, large)
    commit = _one_commit(ws, seen.head, loose, tree)
    return Rescued(_keep(repo, ws, run_id, commit, known), commit, files, large)


def _loose_commits(ws: Files, known: str) -> list[str]:
    """The newest commits of a workspace, reflogs included, that neither `known` nor a ref of the person's repository reaches."""
    borrowed = ("--alternate-refs",) if (ws.git_dir / "objects/info/alternates").exists() else ()
    said = git(ws, "rev-list", "--parents", "--all", "--reflog", "--not", *([known] if known else []), *borrowed)
    commits = [line.split(" ") for line in said.splitlines()]
    parents = {parent for _, *its in commits for parent in its}
    return [commit for commit, *_ in commits if commit not in parents]


def files_tree(ws: Files, seen: Survey | None = None, without: Iterable[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The tree of the files as they are (ignored ones left out), and the paths too large for it; index and files stay untouched."""
    seen = seen or survey(ws)
    large = tuple(path for path in (*seen.changed, *seen.untracked) if _is_large(ws.path / path))
    scratch = ws.git_dir / "nightcrew-index"
    index = ws.git_dir / "index"
    try:
        if index.exists():
            shutil.copy2(index, scratch)
        env = {"GIT_INDEX_FILE": str(scratch)}
        git(ws, "add", "-A", "--", ".", *(left_out(path) for path in (*large, *without)), env=env)
        for path in nested_repositories(ws, seen):
            _add_nested(ws, path, env)
        return git(ws, "write-tree", env=env), large
    finally:
        scratch.unlink(missing_ok=True)


def nested_repositories(ws: Files, seen: Survey) -> list[Path]:
    """Folders in the tree that are repositories of their own and no submodules: a tool made them."""
    return [ws.path / path for path in seen.untracked if path.endswith("/") and (ws.path / path / ".git").exists()]


def _add_nested(ws: Files, path: Path, env: dict[str, str]) -> None:
    """Put the files of a nested repository into the scratch index, where git alone would put an empty link."""
    name = os.fspath(path.relative_to(ws.path))
    own = {"GIT_INDEX_FILE": env["GIT_INDEX_FILE"] + "-nested", "GIT_WORK_TREE": str(path), "GIT_DIR": str(ws.git_dir)}
    inside = Checkout(path, ws.where.env)
    try:
        git(inside, "add", "-A", "--", ".", env=own)
        tree = git(inside, "write-tree", env=own)
    finally:
        Path(own["GIT_INDEX_FILE"]).unlink(missing_ok=True)
    git(ws, "rm", "-q", "-f", "--cached", "--", f":(literal){name}", env=env)
    git(ws, "read-tree", f"--prefix={name}/", tree, env=env)


def left_out(path: str) -> str:
    """A path as a pathspec that leaves it out, whatever characters it has."""
    return f":(exclude,literal){path}"


def _is_large(path: Path) -> bool:
    """Whether a file is too large to rescue."""
    try:
        return path.lstat().st_size > LARGE
    except OSError:
        return False


def _one_commit(ws: Files, head: str, loose: list[str], tree: str) -> str:
    """One commit from which all of it is reached; an only loose commit stands for itself."""
    if not tree and len(loose) == 1:
        return loose[0]
    parents = list(dict.fromkeys([*([head] if head else []), *loose]))
    tree = tree or git(ws, "rev-parse", f"{parents[0]}^{{tree}}")
    flags = [word for parent in parents for word in ("-p", parent)]
    return git(ws, "commit-tree", tree, *flags, "-m", "unsaved work, rescued")


def _rescue_refs(repo: Repo, run_id: str) -> dict[str, tuple[str, str]]:
    """The run's rescue refs: name to commit and tree, in order of their numbers."""
    said = git(repo, "for-each-ref", "--format=%(refname) %(objectname) %(tree)", f"refs/nightcrew/rescue/{run_id}/")
    lines = [line.split(" ") for line in said.splitlines()]
    lines.sort(key=lambda line: _number(line[0]))
    return {name: (commit, tree) for name, commit, tree in lines}


def _number(name: str) -> int:
    """The number at the end of a rescue ref."""
    last = name.rsplit("/", 1)[1]
    return int(last) if last.isdigit() else 0


def _keep(repo: Repo, ws: Files, run_id: str, commit: str, known: dict[str, tuple[str, str]]) -> str:
    """Bring `commit` over and name it by the next free number; another lane may take numbers at the same time."""
    bring(repo, ws, commit)
    return name_rescue(repo, run_id, commit, max(map(_number, known), default=0) + 1)


def name_rescue(repo: Repo, run_id: str, commit: str, number: int = 1) -> str:
    """Give a commit of the person's repository a rescue ref: the first number from `number` on that nobody took."""
    while True:
        name = f"refs/nightcrew/rescue/{run_id}/{number}"
        try:
            git(repo, "update-ref", name, commit, NOTHING)
        except GitError:
            if not git(repo, "rev-parse", "--verify", "-q", name, ok=(0, 1)):
                raise
            number += 1
        else:
            return name


def bring(repo: Repo, ws: Files, *refspecs: str) -> None:
    """Copy commits of a workspace into the person's repository; a plain commit id without a name is only copied."""
    git(repo, "fetch", *BRINGING, "--update-shallow", str(ws.git_dir), *refspecs)


def publish(repo: Repo, ws: Workspace, run_id: str, name: str, commit: str) -> None:
    """Have `refs/nightcrew/<run>/<name>` be `commit`; what it was before stays reachable."""
    full = f"refs/nightcrew/{run_id}/{name}"
    try:
        bring(repo, ws, f"{commit}:{full}")
    except GitError as error:
        before = git(repo, "rev-parse", "--verify", "-q", full, ok=(0, 1))
        # Exit 1 is git's refusal to move a ref that would lose commits; anything else is a failure.
        if error.code != 1 or not before:
            raise
        name_rescue(repo, run_id, before)
        bring(repo, ws, f"+{commit}:{full}")


def bring_strangers(repo: Repo, git_dir: Path, run_id: str) -> None:
    """Keep the branches of a `.git` that an agent made, as far as git can read it; the same state has one name."""
    stranger = Repo(git_dir, None, repo.operator_env)
    refs = run(stranger, "for-each-ref", "--format=%(objectname) %(refname)", ok=(0, 128)).out
    if refs:
        kept = f"refs/nightcrew/rescue/{run_id}/strange-{hashlib.sha256(refs).hexdigest()[:8]}"
        run(repo, "fetch", *BRINGING, os.fspath(git_dir), f"+refs/*:{kept}/*", ok=(0, 1, 128))

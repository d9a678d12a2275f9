"""Rescue: every commit and unsaved file of a workspace made reachable from the person's repository, without touching index or files (law 8)."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from nightcrew.git import slots
from nightcrew.git.repo import NOTHING, Repo, ref
from nightcrew.git.sealed import AS_IS, FETCH, Env, GitError, git, run
from nightcrew.git.slots import ALTERNATES, Record, Workspace, WorkspaceLost, read_record, remove

_INVALID = re.compile(r"(?ms)^error: invalid path '(.*?)'\nerror: unable to add '\1' to index$")  # whatever the name looks like
DEEP = re.compile(r"(?m)^warning: could not open directory '([^\n]{3500,})")  # no call reaches so far; git cuts its words off
LARGE = 50 * 1024 * 1024  # files above this many bytes are listed, not rescued (rulings 20)


class Rescued(NamedTuple):
    """Where unsaved work is now: a ref of the person's repository (empty: there was none), how many files it was, and those too large."""

    ref: str = ""
    files: int = 0
    large: tuple[str, ...] = ()


class Survey(NamedTuple):
    """What stands in a workspace: HEAD's commit (empty: none), the branch it is on (empty: detached), and paths that differ from it."""

    head: str
    branch: str
    changed: tuple[str, ...]
    untracked: tuple[str, ...]
    unmerged: tuple[str, ...]

    @property
    def unsaved(self) -> tuple[str, ...]:
        """All paths that are not committed."""
        return self.changed + self.untracked + self.unmerged


def survey(ws: Workspace) -> Survey:
    """One look at a workspace. Ignored files are not seen."""
    words = ("status", "--porcelain=v2", "--branch", "-z", "--no-renames", "--untracked-files=all")
    said = run(ws, *words)
    if said.err and slots.opened(ws.path):  # git passes over a folder that is shut
        said = run(ws, *words)
    lines = [line for line in os.fsdecode(said.out).split("\0") if line]
    about = dict(line[2:].split(" ", 1) for line in lines if line[0] == "#")
    head, branch = about["branch.oid"], about["branch.head"]
    # Kind of line, and after how many words its path begins.
    paths = [tuple(line.split(" ", n)[n] for line in lines if line[0] == kind) for kind, n in (("1", 8), ("?", 1), ("u", 10))]
    return Survey("" if head == "(initial)" else head, "" if branch == "(detached)" else branch, *paths)


def absorb(repo: Repo, ws: Workspace, run_id: str) -> Survey:
    """One look; a repository that a tool made inside the tree becomes a plain folder (git would take an empty link), its history is rescued."""
    seen = survey(ws)
    nested = [ws.path / path for path in seen.untracked if path.endswith("/") and os.path.exists(ws.path / path / ".git")]
    for path in nested:
        swallow(repo, path / ".git", run_id)
    return absorb(repo, ws, run_id) if nested else seen


def rescue(repo: Repo, ws: Workspace, run_id: str) -> Rescued:
    """Make reachable from `refs/nightcrew/rescue/<run>/<n>` what nothing else of the person's repository reaches. Raises WorkspaceLost: no folder."""
    # Commits of any branch, stash, detached HEAD, reflog or rebase; tracked changes and untracked unignored files. Equal files share a ref.
    try:
        saved = _rescue(repo, ws, run_id, sound(repo, ws).start)
    except (GitError, PermissionError):
        if not mended(repo, ws):
            raise
        return rescue(repo, ws, run_id)
    rescue_submodules(repo, ws, run_id)
    return saved


def look_again(ws: Workspace) -> None:
    """Have git see every file of a workspace as it is: an agent may have told it to look away from one."""
    hidden = [line[2:] for line in git(ws, "ls-files", "-v", "-z").split("\0") if line[:1] == "S" or line[:1].islower()]
    for flag in ("--no-skip-worktree", "--no-assume-unchanged") if hidden else ():
        git(ws, "update-index", flag, "-z", "--stdin", stdin=os.fsencode("\0".join(hidden)))


def rescue_submodules(repo: Repo, ws: Workspace, run_id: str) -> None:
    """Have the person's copies of the submodules hold what was made in ours, under rescue refs of their own."""
    for source, inner, _ in slots.walk_submodules(repo.git_dir / "modules", ws):
        if (inner.git_dir / "HEAD").is_file():
            _rescue(Repo(source, None, repo.env), inner, run_id, "")


def _rescue(repo: Repo, ws: Workspace, run_id: str, start: str) -> Rescued:
    seen = absorb(repo, ws, run_id)
    # The newest commits, reflogs included, that neither `start` nor a ref of the person's repository reaches.
    borrowed = ["--alternate-refs"] if (ws.git_dir / ALTERNATES).exists() else []
    made = git(ws, "rev-list", "--parents", "--all", "--reflog", "--not", *filter(None, [start]), *borrowed)
    commits = [line.split(" ") for line in made.splitlines()]
    inner = {parent for _, *its in commits for parent in its}
    loose = [commit for commit, *_ in commits if commit not in inner]
    tree, large = files_tree(ws, seen) if seen.unsaved else ("", ())
    if tree and seen.head and tree == git(ws, "rev-parse", f"{seen.head}^{{tree}}"):
        tree = ""
    if not tree and not loose:
        return Rescued(large=large)
    said = git(repo, "for-each-ref", "--format=%(refname) %(tree)", f"refs/nightcrew/rescue/{run_id}/")
    known = [line.split(" ") for line in said.splitlines()]
    if same := [name for name, its in known if its == tree and not loose]:
        return Rescued(same[0], len(seen.unsaved), large)
    commit = loose[0] if loose else ""
    if tree or len(loose) > 1:
        # One commit from which all of it is reached.
        parents = [f"-p{parent}" for parent in dict.fromkeys([seen.head, *loose]) if parent]
        commit = git(ws, "commit-tree", tree or f"{commit}^{{tree}}", *parents, "-m", "unsaved work, rescued")
    bring(repo, ws.git_dir, commit)
    return Rescued(name_rescue(repo, run_id, commit, len(known) + 1), len(seen.unsaved), large)


def name_rescue(repo: Repo, run_id: str, commit: str, number: int = 1) -> str:
    """Give a commit of the person's repository a rescue ref: the first number from `number` on that no other lane took."""
    while True:
        name = f"refs/nightcrew/rescue/{run_id}/{number}"
        try:
            git(repo, "update-ref", name, commit, NOTHING)
        except GitError:
            if not git(repo, "for-each-ref", name):  # neither a ref nor a folder of refs is there
                raise
            number += 1
        else:
            return name


def files_tree(ws: Workspace, seen: Survey, without: Iterable[str] = ()) -> tuple[str, tuple[str, ...]]:
    """The tree of the files as they are (ignored ones left out), and the paths too large for it; index and files stay untouched."""
    files = {path: ws.path / path for path in (*seen.changed, *seen.untracked)}
    large = tuple(name for name, path in files.items() if os.path.isfile(path) and path.lstat().st_size > LARGE)
    scratch = ws.git_dir / "nightcrew-index"
    try:
        if (ws.git_dir / "index").exists():
            shutil.copy2(ws.git_dir / "index", scratch)
        env = {"GIT_INDEX_FILE": str(scratch)}
        left = stage(ws, (*large, *without), env)
        return git(ws, "write-tree", env=env), (*large, *left)
    finally:
        scratch.unlink(missing_ok=True)


def stage(ws: Workspace, without: Iterable[str] = (), env: Env = AS_IS) -> tuple[str, ...]:
    """Have the index hold the files as they are, but for some; gives those that git takes from nobody (`.GIT/config`), which are left out."""
    words = ("add", "-A", "--ignore-errors", "--", ".", *(f":(exclude,literal){path}" for path in without))
    said = run(ws, *words, ok=(0, 1), env=env)
    wrong = os.fsdecode(said.err)
    if said.code and re.search(r"^(error|fatal): ", _INVALID.sub("", wrong), re.MULTILINE):  # anything else is a failure
        raise GitError(words, said)
    return (*_INVALID.findall(wrong), *DEEP.findall(wrong))


def bring(repo: Repo, git_dir: Path, *refspecs: str, ok: tuple[int, ...] = (0,)) -> None:
    """Copy commits from a git folder into the person's repository under the names that are told, and nothing else."""
    shallow = ("--update-shallow",) if (repo.git_dir / "shallow").exists() else ()
    run(repo, *FETCH, *shallow, str(git_dir), *refspecs, ok=ok)


def publish(repo: Repo, ws: Workspace, run_id: str, name: str, commit: str) -> None:
    """Have `refs/nightcrew/<run>/<name>` be `commit`; what it was before stays reachable."""
    full = ref(run_id, name)
    try:
        bring(repo, ws.git_dir, f"{commit}:{full}")
    except GitError as error:
        if error.code != 1:  # git's refusal to move a ref that would lose commits
            raise
        before = git(repo, "rev-parse", "--verify", full)
        if not git(repo, "for-each-ref", f"--points-at={before}", f"refs/nightcrew/rescue/{run_id}/"):
            name_rescue(repo, run_id, before)
        bring(repo, ws.git_dir, f"+{commit}:{full}")


def swallow(repo: Repo, git_dir: Path, run_id: str) -> None:
    """Remove a `.git` that an agent made; its branches are kept, as far as git can read it. The same state has one name."""
    refs = run(Repo(git_dir, None, repo.env), "for-each-ref", "--format=%(objectname) %(refname)", ok=(0, 126, 128)).out
    if refs and not git_dir.is_symlink():
        kept = f"refs/nightcrew/rescue/{run_id}/strange-{hashlib.sha256(refs).hexdigest()[:8]}"
        bring(repo, git_dir, f"+refs/*:{kept}/*", ok=(0, 1, 128))
    remove(git_dir)


def sound(repo: Repo, ws: Workspace) -> Record:
    """The record of a workspace; if its `.git` is gone or not ours it gets a new one. Raises WorkspaceLost when its folder is gone."""
    try:
        return slots.verify(ws)
    except PermissionError:
        if not slots.opened(ws.path):
            raise
        return sound(repo, ws)
    except WorkspaceLost as lost:
        if not lost.files:
            raise
    return _made_anew(repo, ws)


def _made_anew(repo: Repo, ws: Workspace) -> Record:
    record = read_record(ws.path.parent, ws.slot)
    swallow(repo, ws.git_dir, record.run)
    slots.build_git(ws.git_dir, record)
    slots.give(repo, ws, record.start, record.sees)
    # Its branch is at the start again; the index says what that held, so that only what differs is unsaved work.
    git(ws, "read-tree", record.start)
    return record


def mended(repo: Repo, ws: Workspace) -> bool:
    """Whether a workspace was shut, or git could not read its `.git` (an empty index, a ref to nowhere), and can read what it has now."""
    if slots.opened(ws.path):
        return True
    if ws.path.is_symlink() or not ws.git_dir.is_dir() or _readable(ws):
        return False
    record = read_record(ws.path.parent, ws.slot)
    remove(ws.git_dir / "index")
    if _readable(ws):  # its commits stay where they are
        git(ws, "read-tree", "HEAD", ok=(0, 128))
        return True
    remove(ws.git_dir / "HEAD")
    # With a HEAD its branches can be read, and are kept.
    slots.lay_out(ws.git_dir, {"HEAD": f"ref: {record.head}\n" if record.branch else record.start})
    _made_anew(repo, ws)
    return _readable(ws)


def _readable(ws: Workspace) -> bool:
    start = read_record(ws.path.parent, ws.slot).start
    with suppress(GitError):  # all that a rescue reads: HEAD, the index, the refs and reflogs with the trees they lead to
        git(ws, "diff", "--cached", "--quiet", ok=(0, 1))
        git(ws, "rev-list", "--objects", "--quiet", "--all", "--reflog", "--not", *filter(None, [start]))
        return True
    return False

"""Landing: the one commit, and moving a target to it, fast-forward only. The verbs on a workspace before that are offered here too."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, NamedTuple

from nightcrew.errors import UserError
from nightcrew.git import snapshot
from nightcrew.git.collect import Collected, collect, diff_of, is_ancestor
from nightcrew.git.hooks import Hook, after_hooks, hooks, stage_for_hooks
from nightcrew.git.repo import NOTHING, Repo, Target, fetch, ref, repo_id, tip
from nightcrew.git.sealed import NETWORK_S, OPERATOR, Checkout, GitError, dated, git, run
from nightcrew.git.slots import Workspace, give
from nightcrew.git.sync import Synced, has_change, resume_rebase, sync, undo_rebase
from nightcrew.git.workspace import locked

__all__ = [
    "Collected",
    "Hook",
    "Made",
    "Synced",
    "Try",
    "after_hooks",
    "collect",
    "diff_of",
    "drop_run",
    "has_change",
    "hooks",
    "land_branch",
    "land_local",
    "landed",
    "push",
    "push_dry",
    "resume_rebase",
    "squash",
    "stage_for_hooks",
    "sync",
    "target_lock",
    "undo_rebase",
]

SIGN_S = 120.0
"""How long a signing program may take; one that asks a person never ends by itself."""


class Made(NamedTuple):
    """The commit that lands, and its tree."""

    commit: str
    tree: str


class Try(NamedTuple):
    """How an attempt to move a branch ended; `tip` is where the branch is now, `why` git's or the remote's words.

    `moved`: it is not where the work was tested. `dirty`: a checkout of it has unsaved changes. `rejected`: the remote, or
    somebody's commits, say no. `unreachable`: the remote did not answer.
    """

    state: Literal["landed", "moved", "dirty", "rejected", "unreachable"]
    tip: str
    why: str = ""


@contextmanager
def target_lock(root: Path, repo: Repo, branch: str) -> Iterator[None]:
    """Hold the lock of a target branch below `root`, waiting for whoever has it; our death frees it (law 6)."""
    name = branch.replace("%", "%25").replace("/", "%2F")
    with locked(root / "targets" / f"{repo_id(repo)}-{name}.lock"):
        yield


# ── the commit ────────────────────────────────────────────────────────────────────────────────────────────────────


def squash(repo: Repo, ws: Workspace, run_id: str, tip_commit: str, tree: str, message: str, at: float) -> Made:
    """One commit on top of `tip_commit` with exactly `tree`, the operator's identity, signed if they sign; kept at `refs/nightcrew/<run>/final`.

    Unsigned, the same call gives the same commit. Raises UserError when git does not know who the operator is, GitError when
    signing fails (its words are in `err`).
    """
    signed = repo.setting("commit.gpgsign").lower() in {"true", "yes", "on", "1"}
    words = ("commit-tree", tree, "-p", tip_commit, *(["-S"] if signed else []), "-F", "-")
    text = (message.rstrip("\n") + "\n").encode()
    try:
        commit = _committed(repo, words, text, at)
    except GitError as error:
        if "not a valid" not in error.err:
            raise
        # Only the workspace has the tree (a hook changed it): bring it over inside a commit.
        carrier = git(ws, "commit-tree", tree, "-p", tip_commit, "-m", "a tree", env=dated(at))
        snapshot.publish(repo, ws, run_id, "final-tree", carrier)
        commit = _committed(repo, words, text, at)
    git(repo, "update-ref", ref(run_id, "final"), commit)
    give(repo, ws, commit)
    return Made(commit, tree)


def _committed(repo: Repo, words: tuple[str, ...], text: bytes, at: float) -> str:
    """Make a commit as the operator. Raises UserError when git does not know who that is."""
    try:
        return git(repo, *words, profile=OPERATOR, stdin=text, env=dated(at), timeout_s=SIGN_S)
    except GitError as error:
        if "tell me who you are" in error.err or "empty ident" in error.err or "auto-detect" in error.err:
            hint = 'git config --global user.name "…" and user.email "…"'
            raise UserError("git does not know who you are", hint) from error
        raise


def landed(repo: Repo, target: Target, commit: str) -> bool:
    """Proof that the target has the work of `commit`: as an ancestor, with the same patch, or merging it changes nothing."""
    return has_change(repo, tip(repo, target).commit, commit, f"{commit}^")


# ── where it goes ─────────────────────────────────────────────────────────────────────────────────────────────────


def land_branch(repo: Repo, run_id: str, branch: str, commit: str) -> Try:
    """Leave the work on `refs/heads/<branch>`: made if absent, moved if it still is where this run put it, else untouched."""
    name, mark = f"refs/heads/{branch}", ref(run_id, f"branches/{branch}")
    said = git(repo, "for-each-ref", "--format=%(refname) %(objectname)", name, mark)
    found = dict(line.split(" ") for line in said.splitlines())
    before = found.get(name, "")
    if before == commit:
        return Try("landed", commit)
    if before and before != found.get(mark):
        return Try("rejected", before, f"branch {branch} has commits that this run did not make")
    if before and _checkouts(repo, branch):
        return Try("dirty", before, f"branch {branch} is checked out")
    moves = f"start\nupdate {name} {commit} {before or NOTHING}\nupdate {mark} {commit}\nprepare\ncommit\n"
    try:
        git(repo, "update-ref", "--stdin", "-m", "nightcrew", stdin=moves.encode())
    except GitError as error:
        return Try("rejected", before, error.words)
    return Try("landed", commit)


def land_local(repo: Repo, target: str, tip_commit: str, commit: str) -> Try:
    """Move the local branch `target` from `tip_commit` to `commit`; a checkout of it moves along if it is clean, else nothing moves."""
    name = f"refs/heads/{target}"
    now = git(repo, "rev-parse", "--verify", "-q", name, ok=(0, 1))
    if now == commit or (now and is_ancestor(repo, commit, now)):
        return Try("landed", now)
    if now != tip_commit or not is_ancestor(repo, tip_commit, commit):
        return Try("moved", now, f"{target} is not where the work was tested")
    checkouts = _checkouts(repo, target)
    if not checkouts:
        try:
            git(repo, "update-ref", "-m", "nightcrew: fast-forward", name, commit, tip_commit)
        except GitError:
            now = git(repo, "rev-parse", "--verify", "-q", name, ok=(0, 1))
            return Try("moved", now, f"{target} moved meanwhile")
        return Try("landed", commit)
    return _forward_checkout(repo, checkouts, target, (tip_commit, commit))


def _forward_checkout(repo: Repo, checkouts: list[Path], target: str, move: tuple[str, str]) -> Try:
    """Fast-forward a branch together with the files of its one clean checkout, as the person's own git would."""
    tip_commit, commit = move
    if len(checkouts) > 1 or not checkouts[0].is_dir():
        return Try("dirty", tip_commit, f"{target} is checked out at {', '.join(map(str, checkouts))}")
    place = Checkout(checkouts[0], repo.operator_env)
    changed = git(place, "status", "--porcelain", "-z", "--untracked-files=no", profile=OPERATOR)
    if changed or any((repo.git_dir / name).exists() for name in ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")):
        return Try(
            "dirty", tip_commit, f"{target} is checked out at {checkouts[0]} with changes that are not committed"
        )
    try:
        git(place, "merge", "-q", "--ff-only", "--no-autostash", commit, profile=OPERATOR)
    except GitError as error:
        now = git(repo, "rev-parse", "--verify", "-q", f"refs/heads/{target}", ok=(0, 1))
        return Try("moved" if now != tip_commit else "dirty", now, f"{target} at {checkouts[0]}: {error.words}")
    return Try("landed", commit)


def _checkouts(repo: Repo, branch: str) -> list[Path]:
    """The folders in which a branch is checked out, those in the middle of rebasing it included."""
    found: list[Path] = []
    here = Path()
    for line in git(repo, "worktree", "list", "--porcelain", "-z").split("\0"):
        if line.startswith("worktree "):
            here = Path(line.removeprefix("worktree "))
        elif line == f"branch refs/heads/{branch}":
            found.append(here)
    for state in (*repo.git_dir.glob("rebase-*/head-name"), *repo.git_dir.glob("worktrees/*/rebase-*/head-name")):
        if state.read_text().strip() == f"refs/heads/{branch}":
            # Two entries are never clean: a branch under rebase stays where it is.
            found += [state.parent, state.parent]
    return found


def push(repo: Repo, target: Target, tip_commit: str, commit: str) -> Try:
    """Push `commit` to the remote's target, which must be at `tip_commit`; never anything but a fast-forward.

    Tried again after it went through it is `landed`, also when others pushed on top.
    """
    remote = target.remote or ""
    if not is_ancestor(repo, tip_commit, commit):
        return Try("moved", tip_commit, "the commit does not stand on the tip it was tested on")
    name = f"refs/heads/{target.branch}"
    ended = run(
        repo,
        *_push_words(name, tip_commit),
        remote,
        f"{commit}:{name}",
        profile=OPERATOR,
        timeout_s=NETWORK_S,
        ok=(0, 1, 128),
    )
    if ended.code == 0:
        return Try("landed", commit)
    words = _remote_words(ended.err.decode(errors="replace"))
    try:
        kept = f"refs/nightcrew/fetched/{remote}/{target.branch}"
        fetch(repo, remote, f"+{name}:{kept}")
        now = git(repo, "rev-parse", "--verify", kept)
    except GitError as error:
        return Try("unreachable", tip_commit, words or error.words)
    if is_ancestor(repo, commit, now):
        return Try("landed", now)
    return Try("rejected", now, words) if now == tip_commit else Try("moved", now, words)


def push_dry(repo: Repo, target: Target, commit: str) -> str:
    """What would keep a push from working, in one line; nothing when it would go through as far as can be told without pushing."""
    name = f"refs/heads/{target.branch}"
    words = (
        "push",
        "--dry-run",
        "--porcelain",
        "--no-verify",
        "--no-follow-tags",
        "--recurse-submodules=no",
        target.remote or "",
    )
    try:
        git(repo, *words, f"{commit}:{name}", profile=OPERATOR, timeout_s=NETWORK_S)
    except GitError as error:
        return "" if "fetch first" in error.out or "non-fast-forward" in error.out else error.words
    return ""


def _push_words(name: str, tip_commit: str) -> tuple[str, ...]:
    """A push that expects the tip, runs no hook of ours and takes nothing along; the pre-push hook ran before, in the sandbox."""
    lease = f"--force-with-lease={name}:{tip_commit}"
    return ("push", "--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no", lease)


def _remote_words(err: str) -> str:
    """What the remote, its hook or git said, in one line."""
    lines = [line.strip() for line in err.splitlines()]
    remote = [line.removeprefix("remote:").strip() for line in lines if line.startswith("remote:")]
    said = [line for line in remote if line and not line.startswith("error: hook declined")]
    own = [line for line in lines if line.startswith(("fatal: ", "error: ", "! "))]
    return " ".join(said or own[:1])[:300]


# ── afterwards ────────────────────────────────────────────────────────────────────────────────────────────────────


def drop_run(repo: Repo, run_id: str) -> tuple[str, ...]:
    """Remove a run's refs whose work is reachable elsewhere, or is in a commit that is; returns those that stay. Rescue refs stay untouched."""
    prefix = f"refs/nightcrew/{run_id}/"
    said = git(repo, "for-each-ref", "--format=%(refname) %(objectname) %(tree)", prefix)
    found = [(name, commit, tree) for name, commit, tree in (line.split(" ") for line in said.splitlines())]
    if not found:
        return ()
    commits = "".join(f"{commit}\n" for _, commit, _ in found).encode()
    elsewhere = ("--not", f"--exclude={prefix}*", "--all", "--not", "--stdin")
    loose = set(git(repo, "rev-list", *elsewhere, stdin=commits).split())
    safe_trees = {tree for _, commit, tree in found if commit not in loose}
    kept = [name for name, commit, tree in found if commit in loose and tree not in safe_trees]
    gone = [f"delete {name} {commit}\n" for name, commit, _ in found if name not in kept]
    git(repo, "update-ref", "--stdin", stdin="".join(gone).encode())
    return tuple(kept)

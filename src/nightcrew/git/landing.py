"""Landing: the hooks' workspace, the one commit, moving a target to it, fast-forward only; what proves it, what goes afterwards."""

import os
from pathlib import Path
from typing import Literal, NamedTuple

from nightcrew.errors import UserError
from nightcrew.git import snapshot
from nightcrew.git.collect import commit_tree, is_ancestor
from nightcrew.git.repo import NOTHING, Repo, Target, as_operator, fetch, pin, ref
from nightcrew.git.sealed import OPERATOR, Checkout, GitError, dated, git
from nightcrew.git.slots import Workspace, give, verify
from nightcrew.git.snapshot import sound

BRANCHES = ("refs/heads/", "refs/remotes/", "refs/nightcrew/fetched/")
HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push")


class Try(NamedTuple):
    """How an attempt to move a branch ended, and the words of whoever said no."""

    # `moved`: it is not where the work was tested. `dirty`: a checkout of it has unsaved changes.
    state: Literal["landed", "moved", "dirty", "rejected", "unreachable"]
    why: str = ""


def hooks(repo: Repo, base: str) -> dict[str, Path]:
    """The path of each active hook, in the order git would run them; a relative one is in the tree of commit `base`."""
    configured = repo.setting("core.hookspath")
    path = Path(os.path.expanduser(configured)) if configured else repo.git_dir / "hooks"
    if configured and repo.work_tree and path.is_relative_to(repo.work_tree):
        path = path.relative_to(repo.work_tree)
    paths = {name: Path(os.path.normpath(path / name)) for name in HOOKS}
    if path.is_absolute():
        return {name: path for name, path in paths.items() if os.access(path, os.X_OK)}
    said = git(repo, "ls-tree", "-z", base, "--", *map(str, paths.values()))
    active = [line.partition("\t")[2] for line in said.split("\0") if line.startswith("100755 ")]
    return {name: path for name, path in paths.items() if str(path) in active}


def stage_for_hooks(repo: Repo, ws: Workspace, tip: str, tree: str) -> None:
    """Leave a clean workspace with HEAD at `tip`, index and files at `tree`, as a hook sees a commit. GitError where unsaved files are in the way."""
    sound(repo, ws)
    git(ws, "read-tree", "-m", "-u", "HEAD", tree)
    git(ws, "update-ref", "--no-deref", "HEAD", tip)


def after_hooks(ws: Workspace) -> str:
    """The tree after the hooks' changes to tracked files; HEAD is on our branch again, so that `collect` commits what changed."""
    record = verify(ws)
    git(ws, "add", "-u")
    tree = git(ws, "write-tree")
    if record.branch:
        git(ws, "symbolic-ref", "HEAD", record.head)
    return tree


def squash(repo: Repo, ws: Workspace, run_id: str, tip_commit: str, tree: str, message: str, at: float) -> str:
    """One commit of the operator's on `tip_commit` with exactly `tree`, kept as the run's `final`. Raises UserError (no identity), GitError (no signature)."""
    words = ("commit-tree", tree, "-p", tip_commit, *_signature(repo), "-F", "-")
    text = (message.rstrip("\n") + "\n").encode()
    try:
        commit = as_operator(repo, *words, stdin=text, env=dated(at))
    except GitError as error:
        if "not a valid" not in error.err:
            raise
        # Only the workspace has the tree (a hook changed it): bring it over inside a commit.
        snapshot.publish(repo, ws, run_id, "final-tree", commit_tree(ws, tree, tip_commit, "a tree\n", at))
        commit = as_operator(repo, *words, stdin=text, env=dated(at))
    pin(repo, run_id, "final", commit)
    give(repo, ws, commit)
    return commit


def try_signing(repo: Repo) -> None:
    """Make one signed commit that nothing refers to, if the operator signs at all. Raises UserError when that needs a person (decision 0017)."""
    if not (signature := _signature(repo)):
        return
    tree = git(repo, "hash-object", "-t", "tree", "-w", os.devnull)
    try:
        as_operator(repo, "commit-tree", tree, *signature, "-F", "-", stdin=b"a try\n")
    except GitError as error:
        told = f"git cannot sign a commit here by itself: {error.words}"
        raise UserError(told, "unlock the key, or: git config commit.gpgsign false") from error


def try_pushing(repo: Repo, target: Target, tip_commit: str) -> None:
    """Ask the remote whether a push would be let in, without one. Raises UserError when not (decision 0017)."""
    where = f"{tip_commit}:refs/heads/{target.branch}"
    try:
        git(repo.top, "push", "--dry-run", "--no-verify", "--porcelain", str(target.remote), where, profile=OPERATOR)
    except GitError as error:
        hint = "mend the access, or leave a branch: --mode branch"
        raise UserError(f"pushing to {target.remote} cannot work: {error.words}", hint) from error


def _signature(repo: Repo) -> tuple[str, ...]:
    return ("-S",) if repo.setting("commit.gpgsign").lower() in {"true", "yes", "on", "1"} else ()


def land_branch(repo: Repo, run_id: str, branch: str, commit: str) -> Try:
    """Leave the work on `refs/heads/<branch>`: made if absent, moved if it still is where this run put it, else untouched."""
    name, mark, before = f"refs/heads/{branch}", ref(run_id, f"branches/{branch}"), NOTHING
    while True:
        moves = f"start\nupdate {name} {commit} {before}\nupdate {mark} {commit}\nprepare\ncommit\n"
        try:
            git(repo, "update-ref", "--stdin", "-m", "nightcrew", stdin=moves.encode())
            return Try("landed")
        except GitError as error:
            why = error.words
        now, checkout = standing(repo, branch)
        if now == commit:
            return Try("landed")
        if now == before or now != git(repo, "rev-parse", "--verify", "-q", mark, ok=(0, 1)):
            return Try("rejected", f"branch {branch} has commits that this run did not make" if now else why)
        if checkout:
            return Try("dirty", f"branch {branch} is checked out at {checkout}")
        before = now


def land_local(repo: Repo, target: Target, tip_commit: str, commit: str) -> Try:
    """Move the local branch of `target` forward to `commit`, which was tested on `tip_commit`; a checkout of it moves along if it is clean."""
    branch, (now, checkout) = target.branch, standing(repo, target.branch)
    fits = now == tip_commit
    # The tip may be the remote's, the local branch (if there is one) merely lag behind it.
    if not fits and target.remote and git(repo, "for-each-ref", f"--points-at={tip_commit}", *target.theirs):
        fits = not now or is_ancestor(repo, now, tip_commit)
    if not (fits and is_ancestor(repo, tip_commit, commit)):
        there = now and is_ancestor(repo, commit, now)
        return Try("landed") if there else Try("moved", f"{branch} is not where the work was tested")
    try:
        if not checkout:
            git(repo, "update-ref", "-m", "nightcrew: fast-forward", target.ref, commit, now or NOTHING)
            return Try("landed")
        # As the person's own git would.
        place = Checkout(checkout, repo.env)
        clean = checkout.is_dir() and not git(place, "status", "--porcelain", "--untracked-files=no", profile=OPERATOR)
        if not clean:
            return Try("dirty", f"{branch} is checked out at {checkout} with changes that are not committed")
        # A merge writes the files before it takes the branch's lock: one that is held is found out, and waited for, first.
        git(place, "update-ref", "--stdin", stdin=f"start\nverify HEAD {now}\nprepare\nabort\n".encode())
        git(place, "merge", "-q", "--ff-only", "--no-autostash", commit, profile=OPERATOR)
    except GitError as error:
        return Try("dirty" if standing(repo, branch)[0] == now else "moved", f"{branch}: {error.words}")
    return Try("landed")


def standing(repo: Repo, branch: str) -> tuple[str, Path | None]:
    """A branch's commit (none: empty), and where it is checked out; for one that is being rebased a file, which is never clean."""
    name = f"refs/heads/{branch}"
    said = git(repo, "for-each-ref", "--format=%(refname)%00%(objectname)%00%(worktreepath)", name).split("\n")
    commit, place = next((line.split("\0")[1:] for line in said if line.startswith(f"{name}\0")), ("", ""))
    rebases = (*repo.git_dir.glob("rebase-*/head-name"), *repo.git_dir.glob("worktrees/*/rebase-*/head-name"))
    rebasing = next((path for path in rebases if path.read_text().strip() == name), None)
    # A bare repository is no checkout of its HEAD.
    return commit, rebasing or (Path(place) if place and Path(place) != repo.git_dir else None)


def push(repo: Repo, target: Target, tip_commit: str, commit: str) -> Try:
    """Push `commit` to the remote's target, which must be at `tip_commit`; only forward. It may be there already, with others' work on top."""
    if not is_ancestor(repo, tip_commit, commit):
        return Try("moved", "the commit does not stand on the tip it was tested on")
    # Nothing else is taken along, and no hook of theirs runs: pre-push ran before, in the sandbox.
    words = ("--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no")
    lease = f"--force-with-lease={target.ref}:{tip_commit}"
    try:
        git(repo.top, "push", *words, lease, target.remote or "", f"{commit}:{target.ref}", profile=OPERATOR)
        return Try("landed")
    except GitError as error:
        why = error.words
    try:
        fetch(repo, target)
    except GitError:
        return Try("unreachable", why)
    now = git(repo, "rev-parse", "--verify", target.fetched)
    return Try("landed") if is_ancestor(repo, commit, now) else Try("rejected" if now == tip_commit else "moved", why)


def drop_run(repo: Repo, run_id: str, proven: str = "", lost: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Remove a run's refs but those of its rescues; returns those that stay. `proven` is the commit that landed; who `lost` to it stays."""
    # Where a branch of the person's (or the remote's, as fetched) has it all go; else those whose work is reachable elsewhere.
    prefix = f"refs/nightcrew/{run_id}/"
    said = git(repo, "for-each-ref", "--format=%(refname) %(objectname) %(tree)", prefix, *BRANCHES)
    refs = [(name, commit, tree) for name, commit, tree in (line.split(" ") for line in said.splitlines())]
    found = [one for one in refs if one[0].startswith(prefix)]
    heads = {commit for name, commit, _ in refs if not name.startswith(prefix)}
    containing = ("for-each-ref", "--count=1", f"--contains={proven}", *BRANCHES)
    held = proven and (proven in heads or git(repo, *containing, ok=(0, 129)))
    loose: set[str] = set()
    if found and not held:
        commits = "".join(f"{commit}\n" for _, commit, _ in found).encode()
        loose = set(git(repo, "rev-list", "--not", f"--exclude={prefix}*", "--all", "--not", "--stdin", stdin=commits).split())
    safe_trees = {tree for _, commit, tree in found if commit not in loose}
    ours = f"{prefix}neutral/"  # the work as judges saw it: the work itself has a ref of its own
    kept = {name for name, commit, tree in found if commit in loose and tree not in safe_trees and not name.startswith(ours)}
    kept |= {name for name, _, _ in found if name.removeprefix(prefix) in lost}
    gone = [f"delete {name} {commit}\n" for name, commit, _ in found if name not in kept]
    git(repo, "update-ref", "--stdin", stdin="".join(gone).encode())
    return tuple(sorted(kept))

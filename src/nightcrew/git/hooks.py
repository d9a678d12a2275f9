"""The repository's own hooks: which there are, and a workspace made ready for them. Running them is the engine's, in the sandbox."""

import os
from pathlib import Path
from typing import NamedTuple

from nightcrew.git.repo import Repo
from nightcrew.git.sealed import git
from nightcrew.git.slots import Workspace, verify
from nightcrew.git.snapshot import sound

HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push")


class Hook(NamedTuple):
    """A hook that would run: its name, and its path: absolute, or (`in_tree`) relative to the top of the files of the commit."""

    name: str
    path: str
    in_tree: bool


def hooks(repo: Repo, base: str) -> list[Hook]:
    """The active hooks, in the order git would run them; those in the tree are the ones of commit `base`."""
    configured = repo.setting("core.hookspath")
    path = Path(os.path.expanduser(configured)) if configured else repo.git_dir / "hooks"
    if configured and repo.work_tree and path.is_relative_to(repo.work_tree):
        path = path.relative_to(repo.work_tree)
    if path.is_absolute():
        return [Hook(name, str(path / name), in_tree=False) for name in HOOKS if os.access(path / name, os.X_OK)]
    paths = {name: os.path.normpath(path / name) for name in HOOKS}
    said = git(repo, "ls-tree", "-z", base, "--", *paths.values())
    active = [line.partition("\t")[2] for line in said.split("\0") if line.startswith("100755 ")]
    return [Hook(name, path, in_tree=True) for name, path in paths.items() if path in active]


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

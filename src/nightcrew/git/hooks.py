"""The repository's own hooks: which there are, and a workspace made ready for them. Running them is the engine's, in the sandbox."""

import os
from pathlib import Path
from typing import NamedTuple

from nightcrew.git.collect import sound
from nightcrew.git.repo import Repo
from nightcrew.git.sealed import git
from nightcrew.git.slots import Workspace, verify

HOOKS = ("pre-commit", "prepare-commit-msg", "commit-msg", "post-commit", "pre-push")


class Hook(NamedTuple):
    """A hook that would run: its name, and its path: absolute, or (`in_tree`) relative to the top of the files of the commit."""

    name: str
    path: str
    in_tree: bool


def hooks(repo: Repo, base: str) -> list[Hook]:
    """The active hooks, in the order git would run them; those in the tree are the ones of commit `base`."""
    configured = repo.setting("core.hookspath")
    if not configured:
        return _in_folder(repo.git_dir / "hooks")
    path = Path(os.path.expanduser(configured)) if configured.startswith("~") else Path(configured)
    if path.is_absolute() and repo.work_tree and path.is_relative_to(repo.work_tree):
        path = path.relative_to(repo.work_tree)
    return _in_folder(path) if path.is_absolute() else _in_tree(repo, base, os.path.normpath(path))


def _in_folder(folder: Path) -> list[Hook]:
    """Hooks in a folder outside the tree."""
    return [Hook(name, str(folder / name), in_tree=False) for name in HOOKS if os.access(folder / name, os.X_OK)]


def _in_tree(repo: Repo, base: str, folder: str) -> list[Hook]:
    """Executable hooks that a commit brings along."""
    said = git(repo, "ls-tree", "-z", base, "--", *(f"{folder}/{name}" for name in HOOKS))
    modes = {line.partition("\t")[2]: line.split(" ")[0] for line in said.split("\0") if line}
    return [Hook(name, f"{folder}/{name}", in_tree=True) for name in HOOKS if modes.get(f"{folder}/{name}") == "100755"]


def stage_for_hooks(repo: Repo, ws: Workspace, tip: str, tree: str) -> None:
    """Leave a clean workspace with HEAD at `tip` (detached), index and files at `tree`, as a commit about to be made looks to a hook.

    `GitError` when files that are not committed would be overwritten. Done twice it is done once.
    """
    sound(repo, ws)
    git(ws, "read-tree", "-m", "-u", "HEAD", tree)
    git(ws, "update-ref", "--no-deref", "HEAD", tip)


def after_hooks(ws: Workspace) -> str:
    """The tree after the hooks' changes to tracked files; HEAD is on our branch again, so that `collect` commits what changed."""
    record = verify(ws)
    git(ws, "add", "-u")
    tree = git(ws, "write-tree")
    if record.branch:
        git(ws, "symbolic-ref", "HEAD", f"refs/heads/{record.branch}")
    return tree

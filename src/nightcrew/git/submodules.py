"""Submodules of a workspace: filled from the person's own copies, by borrowing, without the network. One they never initialised stays empty."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from nightcrew.git.repo import Repo
from nightcrew.git.sealed import Where, git
from nightcrew.git.slots import Workspace, config_lines, remove


class Module(NamedTuple):
    """One submodule: its name, its path in the tree, and the commit the tree wants."""

    name: str
    path: str
    commit: str


class Inner(NamedTuple):
    """A git folder and its files, as a place for git calls."""

    git_dir: Path
    path: Path
    outer: Workspace

    @property
    def where(self) -> Where:
        """Both named: git looks for nothing by itself."""
        return Where((f"--git-dir={self.git_dir}", f"--work-tree={self.path}"), self.path, self.outer.env)


def fill(repo: Repo, ws: Workspace) -> tuple[str, ...]:
    """Check out the submodules of a workspace at the commits its tree names; returns the paths that stay empty."""
    return _fill(repo.git_dir / "modules", Inner(ws.git_dir, ws.path, ws))


def _fill(sources: Path, here: Inner) -> tuple[str, ...]:
    """The same for any level of nesting."""
    if not (here.path / ".gitmodules").is_file():
        return ()
    empty: list[str] = []
    for module in modules(here):
        source, inner = (
            sources / module.name,
            Inner(here.git_dir / "modules" / module.name, here.path / module.path, here.outer),
        )
        if ".." in Path(module.name).parts or not _has(source, module.commit, here):
            empty.append(module.path)
            continue
        remove(inner.path)
        inner.path.mkdir(parents=True)
        _build(source, inner, module.commit)
        git(inner, "reset", "--hard", "-q", module.commit)
        empty += [f"{module.path}/{path}" for path in _fill(source / "modules", inner)]
    return tuple(empty)


def filled(repo: Repo, ws: Workspace) -> Iterator[tuple[Repo, Inner]]:
    """The submodules that were filled, each with the person's own copy it borrows from."""
    yield from _filled(repo.git_dir / "modules", Inner(ws.git_dir, ws.path, ws), repo)


def _filled(sources: Path, here: Inner, repo: Repo) -> Iterator[tuple[Repo, Inner]]:
    """The same for any level of nesting."""
    if not (here.git_dir / "modules").is_dir() or not (here.path / ".gitmodules").is_file():
        return
    for module in modules(here):
        inner = Inner(here.git_dir / "modules" / module.name, here.path / module.path, here.outer)
        source = sources / module.name
        if (inner.git_dir / "HEAD").is_file() and inner.path.is_dir() and (source / "objects").is_dir():
            yield Repo(source, None, repo.operator_env), inner
            yield from _filled(source / "modules", inner, repo)


def modules(here: Inner | Workspace) -> list[Module]:
    """The submodules that both the tree and `.gitmodules` know."""
    staged = git(here, "ls-files", "-s", "-z").split("\0")
    commits = {line.partition("\t")[2]: line.split(" ")[1] for line in staged if line.startswith("160000")}
    said = git(here, "config", "-z", "-f", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", ok=(0, 1))
    paths = (item.partition("\n") for item in said.split("\0") if item)
    return [
        Module(re.sub(r"^submodule\.(.*)\.path$", r"\1", key), path, commits[path])
        for key, _, path in paths
        if path in commits
    ]


def _has(source: Path, commit: str, here: Inner) -> bool:
    """Whether the person has the commit of a submodule."""
    if not (source / "objects").is_dir():
        return False
    place = Inner(source, source, here.outer)
    return git(place, "rev-parse", "--verify", "-q", f"{commit}^{{commit}}", ok=(0, 1, 128)) == commit


def _build(source: Path, inner: Inner, commit: str) -> None:
    """The submodule's own git folder, borrowing objects, with HEAD at the commit and a link from its files."""
    remove(inner.git_dir)
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (inner.git_dir / folder).mkdir(parents=True)
    (inner.git_dir / "objects/info/alternates").write_text(f"{source}/objects\n")
    if (source / "shallow").exists():
        (inner.git_dir / "shallow").write_text((source / "shallow").read_text())
    (inner.git_dir / "HEAD").write_text(commit + "\n")
    ours = (inner.outer.git_dir / "config").read_text(errors="surrogateescape")
    text = ours + config_lines("core.worktree", str(inner.path))
    (inner.git_dir / "config").write_text(text, errors="surrogateescape")
    (inner.path / ".git").write_text(f"gitdir: {inner.git_dir}\n")

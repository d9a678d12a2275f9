"""Links that an agent made: nightcrew itself, outside any sandbox, never follows one out of the workspace."""

import os
from pathlib import Path

import pytest

from nightcrew.git import collect as work, slots, workspace
from nightcrew.git.repo import open_repo, repo_id
from nightcrew.git.slots import Workspace, WorkspaceLost
from nightcrew.git.workspace import Pool
from support.repos import commit, environment, git, make_repo, refs, state, write

RUN, AT = "20260101-000000-ab12", 1767225600.0


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """The slots of a small repository."""
    repo = open_repo(make_repo(tmp_path / "source"), environment())
    return Pool(tmp_path / "home/worktrees" / repo_id(repo), repo)


@pytest.fixture
def ws(pool: Pool) -> Workspace:
    """A workspace on a branch of its own."""
    return workspace.lease(pool, RUN, "impl-A", git(pool.repo.git_dir.parent, "rev-parse", "main"), "nightcrew/ab12/A")


def test_a_link_to_a_repository_is_a_link(pool: Pool, ws: Workspace) -> None:
    """An agent's link to a repository (the person's own, say) is collected as a link: that repository is as it was, byte for byte."""
    person = pool.repo.git_dir.parent
    other = make_repo(person.with_name("other"))
    before, theirs = state(person), state(other)
    (ws.path / "mine").symlink_to(person)
    (ws.path / "deep").mkdir()
    (ws.path / "deep/other").symlink_to(other)
    (ws.path / "here").symlink_to(".")

    found = work.collect(pool.repo, ws, RUN, "A", ws.head, "the work", AT)

    assert (state(person), state(other)) == (before, theirs)
    assert git(person, "ls-tree", "-r", found.head, "mine", "deep").count("120000 blob") == 2


def test_a_folder_that_became_a_link(pool: Pool, tmp_path: Path) -> None:
    """A tracked folder replaced by a link: what lies behind the link at the old names is not the work's."""
    person = pool.repo.git_dir.parent
    start = commit(person, {"libs/one": "a\n"})
    ws = workspace.lease(pool, RUN, "impl-A", start, "nightcrew/ab12/A")
    other = make_repo(tmp_path / "libs/one")
    before = state(other)
    slots.remove(ws.path / "libs")
    (ws.path / "libs").symlink_to(tmp_path / "libs")

    found = work.collect(pool.repo, ws, RUN, "A", start, "the work", AT)

    assert state(other) == before
    assert git(person, "ls-tree", found.head, "libs").startswith("120000 blob")


def test_a_lent_file_is_written_through_no_link(pool: Pool, ws: Workspace, tmp_path: Path) -> None:
    """`verify.copy` into a name, or a folder, that an agent made a link: what it led to is untouched."""
    person = pool.repo.git_dir.parent
    write(person, {".env": "KEY=1\n", "conf/local": "KEY=2\n"})
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    victim.write_text("mine\n")
    folder.mkdir()
    (ws.path / ".env").symlink_to(victim)
    (ws.path / "conf").symlink_to(folder)

    workspace.copy_files(pool, ws, [".env", "conf/local"])

    assert victim.read_text() == "mine\n"
    assert list(folder.iterdir()) == []
    assert (ws.path / ".env").read_text() == "KEY=1\n"


@pytest.mark.parametrize(
    "part", ["refs/heads", "refs/heads/nightcrew", "logs", "logs/HEAD", "objects/00", "index", "packed-refs"]
)
def test_a_git_folder_with_links(pool: Pool, ws: Workspace, tmp_path: Path, part: str) -> None:
    """A link inside the workspace's `.git` would have our git write elsewhere: the workspace gets a new one, its files are the work."""
    person, place = pool.repo.git_dir.parent, ws.git_dir / part
    before, victim = refs(person, "refs/heads"), tmp_path / "victim"
    write(ws.path, {"note.txt": "one\ntwo\nthree\nfour\n"})
    if place.is_dir():
        place.rename(tmp_path / "moved")
        victim = person / ".git/refs/heads"
    else:
        place.unlink(missing_ok=True)
        victim.touch()
    os.symlink(victim, place)
    was = victim.read_bytes() if victim.is_file() else b""

    with pytest.raises(WorkspaceLost):
        slots.verify(ws)
    found = work.collect(pool.repo, ws, RUN, "A", ws.head, "the work", AT)

    assert git(person, "show", f"{found.head}:note.txt").endswith("four")
    assert refs(person, "refs/heads") == before
    assert (victim.read_bytes() if victim.is_file() else b"") == was
    assert not place.is_symlink()

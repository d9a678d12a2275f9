"""Collecting: whatever an agent does to its repository, its result stands on our branch, on the start, and nothing is lost."""

from collections.abc import Callable
from pathlib import Path

import pytest

from nightcrew.git import repo as repos, workspace
from nightcrew.git.collect import Collected, collect
from nightcrew.git.slots import Workspace, WorkspaceLost
from nightcrew.git.workspace import Pool
from support.repos import ODD_NAMES, commit, environment, forget, git, make_repo, refs, shown, state, write

RUN = "20260101-000000-a1b2"
BRANCH = "nightcrew/a1b2/A"
AT = 1_700_000_000.0


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small repository."""
    return make_repo(tmp_path / "source", {"note.txt": "one\ntwo\nthree\n", "code.py": "print(1)\n"})


@pytest.fixture
def pool(source: Path, tmp_path: Path) -> Pool:
    """Its pool."""
    return Pool(tmp_path / "pool", repos.open_repo(source, environment()))


@pytest.fixture
def ws(source: Path, pool: Pool) -> Workspace:
    """A workspace at its start."""
    return workspace.lease(pool, RUN, "dev", git(source, "rev-parse", "HEAD"), BRANCH)


def collected(pool: Pool, ws: Workspace) -> Collected:
    """One turn's collection."""
    return collect(pool.repo, ws, RUN, "A", ws.head, "turn 1\n", AT)


def sound(source: Path, ws: Workspace, found: Collected) -> None:
    """What holds after every collection: our branch, checked out, clean, on the start, and brought over."""
    assert git(ws.path, "branch", "--show-current") == BRANCH
    assert git(ws.path, "rev-parse", "HEAD") == found.head
    assert git(ws.path, "rev-parse", "HEAD^{tree}") == found.tree
    assert git(ws.path, "status", "--porcelain") == ""
    assert git(ws.path, "merge-base", "--is-ancestor", ws.head, "HEAD") == ""
    assert refs(source, "refs/nightcrew")[f"refs/nightcrew/{RUN}/A"] == found.head
    assert git(source, "rev-list", "--objects", "--quiet", found.head) == ""


def test_no_change_is_empty(source: Path, pool: Pool, ws: Workspace) -> None:
    """A turn that changed nothing is empty, by trees."""
    found = collected(pool, ws)
    sound(source, ws, found)
    assert found.tree == found.start_tree
    assert (found.head, found.commits, found.files, found.patch) == (ws.head, 0, 0, b"")


def test_a_change_undone_is_empty(pool: Pool, ws: Workspace) -> None:
    """Two commits that end where they began are no change, whatever the agent says (law 9)."""
    commit(ws.path, {"note.txt": "x\n"})
    commit(ws.path, {"note.txt": "one\ntwo\nthree\n"})
    found = collected(pool, ws)
    assert (found.tree, found.commits, found.files) == (found.start_tree, 2, 0)


def test_unsaved_files_become_one_neutral_commit(source: Path, pool: Pool, ws: Workspace) -> None:
    """What is left uncommitted, odd names and modes too, is committed under the neutral identity with our date."""
    write(
        ws.path, {"note.txt": "one\nTWO\nthree\n", **dict.fromkeys(ODD_NAMES, "odd\n"), "bin": b"\0\1", "run.sh": "#!/bin/sh\n"}
    )
    (ws.path / "run.sh").chmod(0o755)
    (ws.path / "link").symlink_to("note.txt")
    found = collected(pool, ws)
    sound(source, ws, found)
    assert (found.commits, found.files) == (1, len(ODD_NAMES) + 4)
    assert (found.insertions, found.deletions) == (len(ODD_NAMES) + 3, 1)
    assert b"+TWO" in found.patch
    assert b"naive" not in found.patch
    said = git(source, "log", "-1", "--format=%an <%ae> %at %cn <%ce> %ct %s", found.head)
    assert said == f"nightcrew <nightcrew@localhost> {int(AT)} nightcrew <nightcrew@localhost> {int(AT)} turn 1"


def test_all_kinds_of_changes_are_counted_once(pool: Pool, ws: Workspace) -> None:
    """A renamed file counts under its new name, one whose mode changed and a binary one without lines; commits of the agent count."""
    git(ws.path, "mv", "note.txt", "moved to.txt")
    (ws.path / "code.py").chmod(0o755)
    commit(ws.path, {"moved to.txt": "one\ntwo\nthree\nfour\n"}, "agent's own")
    write(ws.path, {"bin": b"\0\1"})
    found = collected(pool, ws)
    assert (found.commits, found.files, found.insertions, found.deletions) == (2, 3, 1, 0)
    assert b"rename to moved to.txt" in found.patch
    assert b"new mode 100755" in found.patch


def test_collected_again_it_is_the_same(pool: Pool, ws: Workspace) -> None:
    """The same collection after a crash gives the same commit (law 4)."""
    commit(ws.path, {"code.py": "print(2)\n"}, "agent's own")
    write(ws.path, {"note.txt": "new\n"})
    first = collected(pool, ws)
    assert first.commits == 2
    assert collected(pool, ws) == first


def test_a_collection_lost_in_a_crash_gives_the_same_commit(pool: Pool, ws: Workspace, tmp_path: Path) -> None:
    """Two machines with the same files, start and time make the same commit id."""
    other = Pool(tmp_path / "pool2", pool.repo)
    twin = workspace.lease(other, RUN, "dev", ws.head, BRANCH)
    for place in (ws, twin):
        write(place.path, {"note.txt": "new\n"})
    assert collected(pool, ws) == collected(other, twin)


def test_ignored_copied_and_our_own_files_are_never_committed(source: Path, pool: Pool, ws: Workspace) -> None:
    """Not by us, and not when the agent forced them into a commit of its own (rulings 21)."""
    write(source, {".env": "TOKEN=secret\n"})
    workspace.copy_files(pool, ws, [".env"])
    write(ws.path, {".gitignore": "*.log\n", "x.log": "noise\n", ".agent/PLAN.md": "plan\n", "ok.txt": "ok\n"})
    git(ws.path, "add", "-f", ".env", ".agent")
    git(ws.path, "commit", "-q", "-m", "agent adds too much")
    found = collected(pool, ws)
    sound(source, ws, found)
    assert git(source, "ls-tree", "-r", "--name-only", found.head).split() == [".gitignore", "code.py", "note.txt", "ok.txt"]
    assert b"secret" not in found.patch
    assert (ws.path / ".env").exists()


def _switches(ws: Workspace) -> str:
    git(ws.path, "checkout", "-q", "-b", "feature")
    return commit(ws.path, {"note.txt": "result\n"})


def _detaches(ws: Workspace) -> str:
    git(ws.path, "checkout", "-q", "--detach")
    made = commit(ws.path, {"code.py": "print(3)\n"})
    write(ws.path, {"note.txt": "result\n"})
    return made


def _resets_before_the_start(ws: Workspace) -> str:
    made = commit(ws.path, {"note.txt": "result\n"})
    git(ws.path, "checkout", "-q", "--orphan", "fresh")
    git(ws.path, "commit", "-q", "-m", "a new root")
    git(ws.path, "branch", "-q", "-f", BRANCH)
    git(ws.path, "checkout", "-q", BRANCH)
    return made


def _rebases_and_stops(ws: Workspace) -> str:
    git(ws.path, "checkout", "-q", "-b", "other")
    commit(ws.path, {"note.txt": "other\n"})
    git(ws.path, "checkout", "-q", BRANCH)
    made = commit(ws.path, {"note.txt": "mine\n"})
    with pytest.raises(AssertionError):
        git(ws.path, "rebase", "-q", "other")
    write(ws.path, {"note.txt": "result\n"})
    return made


def _merges_and_stops(ws: Workspace) -> str:
    git(ws.path, "checkout", "-q", "-b", "other")
    made = commit(ws.path, {"note.txt": "other\n"})
    git(ws.path, "checkout", "-q", BRANCH)
    commit(ws.path, {"note.txt": "mine\n"})
    with pytest.raises(AssertionError):
        git(ws.path, "merge", "-q", "other")
    write(ws.path, {"note.txt": "result\n"})
    return made


def _starts_a_branch_without_commit(ws: Workspace) -> str:
    git(ws.path, "checkout", "-q", "--orphan", "fresh")
    write(ws.path, {"note.txt": "result\n"})
    return ws.head


@pytest.mark.parametrize(
    "bend",
    [_switches, _detaches, _resets_before_the_start, _rebases_and_stops, _merges_and_stops, _starts_a_branch_without_commit],
)
def test_a_bent_branch_is_put_right(source: Path, pool: Pool, ws: Workspace, bend: Callable[[Workspace], str]) -> None:
    """An agent that switches, detaches, rewrites history or stops in the middle leaves its files as the result, on the start; its commits are kept."""
    made = bend(ws)
    found = collected(pool, ws)
    sound(source, ws, found)
    assert shown(source, found.head, "note.txt") == "result\n"
    assert git(source, "for-each-ref", "--contains", made)
    again = collected(pool, ws)
    assert again._replace(rescued="") == found._replace(rescued="")


def test_an_agents_commits_survive_a_switch(pool: Pool, ws: Workspace) -> None:
    """Commits that stand on the start are kept as they are, on our branch."""
    made = _switches(ws)
    assert collected(pool, ws).head == made


@pytest.mark.parametrize("own_history", ["none", "one"])
def test_a_deleted_git_folder_loses_nothing(source: Path, pool: Pool, ws: Workspace, own_history: str) -> None:
    """An agent that deletes `.git`, or starts a repository of its own, still has its files collected on the start."""
    write(ws.path, {"note.txt": "result\n"})
    forget(ws.git_dir)
    if own_history == "one":
        git(ws.path, "init", "-q")
        commit(ws.path, {"own.txt": "own\n"}, "my own history")
    found = collected(pool, ws)
    sound(source, ws, found)
    assert shown(source, found.head, "note.txt") == "result\n"
    assert found.commits == 1


def test_a_git_folder_that_points_elsewhere_is_not_followed(source: Path, pool: Pool, ws: Workspace) -> None:
    """An agent that links `.git` to the person's own repository brings none of its refs over and harms nothing there."""
    write(ws.path, {"note.txt": "result\n"})
    forget(ws.git_dir)
    ws.git_dir.symlink_to(source / ".git")
    before = state(source)
    found = collected(pool, ws)
    sound(source, ws, found)
    assert shown(source, found.head, "note.txt") == "result\n"
    assert state(source) == before
    assert refs(source, "refs/nightcrew/rescue") == {}


def test_a_deleted_folder_is_told(pool: Pool, ws: Workspace) -> None:
    """Where no file is left there is nothing to collect: `WorkspaceLost`."""
    forget(ws.path)
    with pytest.raises(WorkspaceLost):
        collected(pool, ws)


@pytest.mark.parametrize("committed", ["by nobody", "by the agent"])
def test_a_repository_made_inside_lands_as_files(source: Path, pool: Pool, ws: Workspace, committed: str) -> None:
    """A scaffold that runs `git init` in a folder does not leave an empty link in the tree: what was tested is what lands (law 7)."""
    make_repo(ws.path / "app", {"main.py": "app\n"})
    if committed == "by the agent":
        git(ws.path, "-c", "advice.addEmbeddedRepo=false", "add", "-A")
        git(ws.path, "commit", "-q", "-m", "app")
    found = collected(pool, ws)
    sound(source, ws, found)
    assert shown(source, found.head, "app/main.py") == "app\n"
    assert git(source, "ls-tree", found.head, "app").startswith("040000")


def test_a_label_whose_history_changed_keeps_the_old_one(source: Path, pool: Pool, ws: Workspace) -> None:
    """When a branch no longer holds what was collected before, the earlier commits stay reachable (law 8)."""
    write(ws.path, {"note.txt": "first\n"})
    first = collected(pool, ws)
    git(ws.path, "reset", "-q", "--hard", ws.head)
    write(ws.path, {"note.txt": "second\n"})
    second = collected(pool, ws)
    assert refs(source, "refs/nightcrew")[f"refs/nightcrew/{RUN}/A"] == second.head
    assert f"refs/nightcrew/rescue/{RUN}/" in git(source, "for-each-ref", "--contains", first.head)

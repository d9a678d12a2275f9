"""Rescue: nothing an agent made is lost, and its workspace is not touched (law 8, rulings 20)."""

from pathlib import Path

import pytest

from nightcrew.git import repo as repos, snapshot, workspace
from nightcrew.git.slots import Workspace
from nightcrew.git.snapshot import Rescued
from nightcrew.git.workspace import Pool
from support.repos import ODD_NAMES, add_submodule, commit, environment, git, make_repo, refs, write

RUN = "20260101-000000-a1b2"
BRANCH = "nightcrew/a1b2/A"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small repository with ignored files."""
    return make_repo(tmp_path / "source", {"note.txt": "one\ntwo\n", ".gitignore": "*.log\n"})


@pytest.fixture
def pool(source: Path, tmp_path: Path) -> Pool:
    """Its pool."""
    return Pool(tmp_path / "pool", repos.open_repo(source, environment()))


@pytest.fixture
def ws(source: Path, pool: Pool) -> Workspace:
    """A workspace at its start."""
    return workspace.lease(pool, RUN, "dev", git(source, "rev-parse", "HEAD"), BRANCH)


def reachable(source: Path, commit_id: str) -> bool:
    """Whether any ref of the person's repository reaches a commit."""
    return bool(git(source, "for-each-ref", "--contains", commit_id))


def test_nothing_unsaved_is_nothing(pool: Pool, ws: Workspace) -> None:
    """A clean workspace leaves no ref; ignored files are no work."""
    write(ws.path, {"x.log": "noise\n"})
    assert snapshot.rescue(pool.repo, ws, RUN) == Rescued()
    assert refs(pool.repo.git_dir, "refs/nightcrew/rescue") == {}


def test_unsaved_files_are_one_commit_and_the_workspace_is_as_it_was(source: Path, pool: Pool, ws: Workspace) -> None:
    """Changed, deleted, new and staged files with any name are rescued; index, files and HEAD stay untouched."""
    write(ws.path, {"note.txt": "changed\n", **dict.fromkeys(ODD_NAMES, "odd\n"), "bin": b"\0\xff", "x.log": "noise\n"})
    write(ws.path, {"staged.txt": "staged\n"})
    git(ws.path, "add", "staged.txt")
    before = (git(ws.path, "status", "--porcelain", "-z"), (ws.git_dir / "index").read_bytes(), git(ws.path, "rev-parse", "HEAD"))
    saved = snapshot.rescue(pool.repo, ws, RUN)
    after = (git(ws.path, "status", "--porcelain", "-z"), (ws.git_dir / "index").read_bytes(), git(ws.path, "rev-parse", "HEAD"))
    assert after == before
    assert saved.ref
    assert saved.ref == f"refs/nightcrew/rescue/{RUN}/1"
    assert saved.files == len(ODD_NAMES) + 3
    names = git(source, "ls-tree", "-r", "-z", "--name-only", saved.ref).split("\0")
    assert set(ODD_NAMES) | {"note.txt", "bin", "staged.txt", ".gitignore"} == set(filter(None, names))
    assert git(source, "log", "-1", "--format=%an <%ae> %P", saved.ref) == f"nightcrew <nightcrew@localhost> {ws.head}"


def test_equal_files_share_a_ref(pool: Pool, ws: Workspace) -> None:
    """Rescued twice, the same work has one ref; more work has another (rulings 20)."""
    write(ws.path, {"new.txt": "1\n"})
    first = snapshot.rescue(pool.repo, ws, RUN)
    assert snapshot.rescue(pool.repo, ws, RUN) == first
    write(ws.path, {"new.txt": "2\n"})
    second = snapshot.rescue(pool.repo, ws, RUN)
    assert first is not None
    assert second is not None
    assert second.ref.endswith("/2")


def test_a_taken_rescue_name_is_passed_over(source: Path, pool: Pool, ws: Workspace) -> None:
    """A ref that stands under the next name already stays what it is; the work gets a name of its own."""
    taken = git(source, "rev-parse", "HEAD")
    git(source, "update-ref", f"refs/nightcrew/rescue/{RUN}/1", taken)
    write(ws.path, {"new.txt": "1\n"})
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved is not None
    assert saved.ref == f"refs/nightcrew/rescue/{RUN}/2"
    assert git(source, "show", f"{saved.ref}:new.txt") == "1"
    assert git(source, "rev-parse", f"refs/nightcrew/rescue/{RUN}/1") == taken


def test_a_rescue_name_that_is_a_folder_is_passed_over(source: Path, pool: Pool, ws: Workspace) -> None:
    """A name below which others are leaves no room for a ref: the next number is taken."""
    git(source, "update-ref", f"refs/nightcrew/rescue/{RUN}/2/strange", "HEAD")
    write(ws.path, {"note.txt": "changed\n"})
    found = snapshot.rescue(pool.repo, ws, RUN)
    assert git(source, "show", f"{found.ref}:note.txt") == "changed"


def test_every_commit_an_agent_made_is_reachable(source: Path, pool: Pool, ws: Workspace) -> None:
    """Other branches, detached heads, stashes, reset and amended commits: all of them (R13)."""
    start = git(ws.path, "rev-parse", "HEAD")
    made = [commit(ws.path, {"a": "a\n"}, "thrown away by reset")]
    git(ws.path, "reset", "-q", "--hard", start)
    git(ws.path, "checkout", "-q", "-b", "side")
    made.append(commit(ws.path, {"b": "b\n"}, "on another branch"))
    git(ws.path, "checkout", "-q", "--detach", start)
    made.append(commit(ws.path, {"c": "c\n"}, "detached"))
    write(ws.path, {"note.txt": "stashed\n"})
    git(ws.path, "stash", "-q")
    made.append(git(ws.path, "rev-parse", "stash"))
    write(ws.path, {"note.txt": "stashed again\n"})
    git(ws.path, "stash", "-q")
    made.append(git(ws.path, "rev-parse", "stash"))
    git(ws.path, "checkout", "-q", BRANCH)
    made.append(commit(ws.path, {"d": "d\n"}, "to be amended"))
    git(ws.path, "commit", "-q", "--amend", "-m", "amended")
    assert not any(
        reachable(source, one) for one in made if git(source, "cat-file", "--batch-check", stdin=one).endswith("commit")
    )
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved.ref
    assert all(reachable(source, one) for one in made)
    assert snapshot.rescue(pool.repo, ws, RUN) == Rescued()


def test_a_rebase_in_progress_is_rescued_with_its_files(source: Path, pool: Pool, ws: Workspace) -> None:
    """In the middle of a conflict both the branch's commits and the half-merged files are kept, and the rebase goes on as it was."""
    start = ws.head
    git(ws.path, "checkout", "-q", "-b", "other", start)
    other = commit(ws.path, {"note.txt": "other\n"})
    git(ws.path, "checkout", "-q", BRANCH)
    mine = commit(ws.path, {"note.txt": "mine\n"})
    with pytest.raises(AssertionError):
        git(ws.path, "rebase", "-q", other)
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved.ref
    assert reachable(source, mine)
    assert reachable(source, other)
    assert "<<<<<<<" in git(source, "show", f"{saved.ref}:note.txt")
    assert git(ws.path, "status", "--porcelain") == "UU note.txt"


def test_large_files_are_listed(pool: Pool, ws: Workspace) -> None:
    """A file above the limit is named, not copied."""
    with (ws.path / "big.bin").open("wb") as file:
        file.truncate(snapshot.LARGE + 1)
    alone = snapshot.rescue(pool.repo, ws, RUN)
    assert alone is not None
    assert (alone.ref, alone.large) == ("", ("big.bin",))
    write(ws.path, {"small.txt": "small\n"})
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved.ref
    assert saved.large == ("big.bin",)
    assert git(pool.repo.git_dir, "ls-tree", "--name-only", saved.ref).split() == [".gitignore", "note.txt", "small.txt"]


def test_an_orphan_branch_without_a_commit_is_rescued(source: Path, pool: Pool, ws: Workspace) -> None:
    """A HEAD that has no commit yet is no reason to lose the files."""
    git(ws.path, "checkout", "-q", "--orphan", "fresh")
    write(ws.path, {"new.txt": "new\n"})
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved.ref
    assert git(source, "show", f"{saved.ref}:new.txt") == "new"


def test_two_lanes_rescue_at_once(source: Path, pool: Pool, ws: Workspace) -> None:
    """A number that another lane took meanwhile is not written over."""
    commit_id = git(source, "rev-parse", "HEAD")
    names = [snapshot.name_rescue(pool.repo, RUN, commit_id) for _ in range(3)]
    assert names == [f"refs/nightcrew/rescue/{RUN}/{n}" for n in (1, 2, 3)]
    write(ws.path, {"new.txt": "new\n"})
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved.ref
    assert saved.ref.endswith("/4")


def test_what_a_name_held_is_kept_once(source: Path, pool: Pool, ws: Workspace) -> None:
    """Published anew, what the name held before has one rescue ref, also when we died between the two and do it again."""
    start = git(source, "rev-parse", "HEAD")
    old = commit(ws.path, {"note.txt": "first\n"})
    snapshot.publish(pool.repo, ws, RUN, "A", old)
    git(ws.path, "reset", "-q", "--hard", start)
    new = commit(ws.path, {"note.txt": "second\n"})
    snapshot.name_rescue(pool.repo, RUN, old)
    snapshot.publish(pool.repo, ws, RUN, "A", new)
    assert refs(source, "refs/nightcrew/rescue") == {f"refs/nightcrew/rescue/{RUN}/1": old}
    snapshot.publish(pool.repo, ws, RUN, "A", old)
    assert sorted(refs(source, "refs/nightcrew/rescue").values()) == sorted([old, new])


def test_what_was_made_in_a_submodule_is_kept(source: Path, tmp_path: Path) -> None:
    """Commits and files made inside a submodule are reachable in the person's own copy of it."""
    add_submodule(source, make_repo(tmp_path / "library", {"lib.py": "lib = 1\n"}))
    pool = Pool(tmp_path / "pool2", repos.open_repo(source, environment()))
    ws = workspace.lease(pool, RUN, "dev", git(source, "rev-parse", "HEAD"), BRANCH)
    made = commit(ws.path / "lib", {"lib.py": "lib = 2\n"})
    write(ws.path / "lib", {"new.py": "new\n"})
    workspace.release(pool, ws)
    kept = refs(source / "lib", "refs/nightcrew/rescue")
    assert git(source / "lib", "for-each-ref", "--contains", made)
    assert [git(source / "lib", "show", f"{name}:new.py") for name in kept] == ["new"]


def test_a_repository_made_inside_is_rescued_with_files_and_history(source: Path, pool: Pool, ws: Workspace) -> None:
    """A nested repository's files are in the rescue commit (not an empty link), and its commits are reachable; twice is once."""
    make_repo(ws.path / "app", {"main.py": "app\n"})
    inner = git(ws.path / "app", "rev-parse", "HEAD")
    write(ws.path / "app", {"new.py": "new\n"})
    saved = snapshot.rescue(pool.repo, ws, RUN)
    assert saved.ref
    names = git(source, "ls-tree", "-r", "--name-only", saved.ref).split()
    assert names == [".gitignore", "app/main.py", "app/new.py", "note.txt"]
    assert reachable(source, inner)
    before = refs(source, "refs/nightcrew/rescue")
    assert snapshot.rescue(pool.repo, ws, RUN) == saved
    assert refs(source, "refs/nightcrew/rescue") == before

"""Base sync: work follows a target that moves, conflicts wait for a fixer, undo is exact (pipeline: base sync)."""

from pathlib import Path

import pytest

from nightcrew.git import collect as sync, landing, repo as repos, workspace
from nightcrew.git.collect import Synced, collect
from nightcrew.git.repo import Target
from nightcrew.git.slots import Workspace
from nightcrew.git.snapshot import Rescued
from nightcrew.git.workspace import Pool
from support import disk
from support.repos import bare_remote, commit, environment, git, make_repo, move_remote, refs, shallow_clone, shown, write

RUN = "20260101-000000-a1b2"
BRANCH = "nightcrew/a1b2/A"
AT = 1_700_000_000.0
TARGET = Target("main", "origin")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A repository with a remote."""
    made = make_repo(tmp_path / "source", {"note.txt": "one\ntwo\nthree\n", "code.py": "print(1)\n"})
    bare_remote(made, tmp_path / "remote.git")
    return made


@pytest.fixture
def remote(source: Path) -> Path:
    """The remote."""
    return source.parent / "remote.git"


@pytest.fixture
def pool(source: Path, tmp_path: Path) -> Pool:
    """Its pool."""
    return Pool(tmp_path / "pool", repos.open_repo(source, environment()))


@pytest.fixture
def ws(source: Path, pool: Pool) -> Workspace:
    """A workspace whose agent changed the second line."""
    made = workspace.lease(pool, RUN, "dev", git(source, "rev-parse", "HEAD"), BRANCH)
    write(made.path, {"note.txt": "one\nTWO\nthree\n"})
    found = collect(pool.repo, made, RUN, "A", made.head, "the work\n", AT)
    assert found.commits == 1
    return made


def work(ws: Workspace) -> str:
    """The work's head."""
    return git(ws.path, "rev-parse", BRANCH)


def synced(pool: Pool, ws: Workspace, head: str) -> Synced:
    """One look at the target."""
    return sync.sync(pool.repo, ws, RUN, ws.head, head, TARGET, AT)


def test_a_target_that_stands_still_changes_nothing(pool: Pool, ws: Workspace) -> None:
    """No move, no rebase: same head, same tree."""
    head = work(ws)
    found = synced(pool, ws, head)
    assert (found.state, found.tip, found.head, found.tree) == ("same", ws.head, head, git(ws.path, "rev-parse", "HEAD^{tree}"))


def test_work_moves_onto_a_new_tip(source: Path, remote: Path, pool: Pool, ws: Workspace) -> None:
    """The target moved elsewhere: the work is rebased, the old commits stay reachable, and a repeat finds it done."""
    head = work(ws)
    moved = move_remote(remote, {"other.txt": "other\n"})
    found = synced(pool, ws, head)
    assert (found.state, found.tip) == ("rebased", moved)
    assert git(ws.path, "rev-parse", "HEAD", "HEAD^") == f"{found.head}\n{moved}"
    assert git(ws.path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert shown(source, found.head, "note.txt") == "one\nTWO\nthree\n"
    assert shown(source, found.head, "other.txt") == "other\n"
    assert git(source, "for-each-ref", "--contains", head)
    assert synced(pool, ws, head) == found
    assert sync.sync(pool.repo, ws, RUN, moved, found.head, TARGET, AT).state == "same"


def test_a_rebase_done_again_gives_the_same_commits(remote: Path, pool: Pool, ws: Workspace) -> None:
    """Undone and repeated with the same time, a rebase has the same ids (law 4)."""
    head = work(ws)
    move_remote(remote, {"other.txt": "other\n"})
    found = synced(pool, ws, head)
    undone = sync.undo_rebase(pool.repo, ws, RUN, head)
    assert (undone.state, work(ws)) == ("undone", head)
    assert synced(pool, ws, head) == found


def test_unsaved_files_are_rescued_before_a_rebase(source: Path, remote: Path, pool: Pool, ws: Workspace) -> None:
    """What is not committed when the base is synced is kept in a rescue ref (law 8)."""
    head = work(ws)
    move_remote(remote, {"other.txt": "other\n"})
    write(ws.path, {"code.py": "unsaved\n"})
    assert synced(pool, ws, head).state == "rebased"
    assert shown(source, f"refs/nightcrew/rescue/{RUN}/1", "code.py") == "unsaved\n"


@pytest.mark.parametrize("how", ["merged", "same patch", "same patch and more on it"])
def test_work_that_is_there_already_is_landed(source: Path, remote: Path, pool: Pool, ws: Workspace, how: str) -> None:
    """The target has the commit, or the same patch by somebody else: already landed (S: already landed)."""
    head = work(ws)
    move_remote(remote, {"other.txt": "other\n"})
    if how == "merged":
        git(source, "push", "-q", "-f", "origin", f"{head}:refs/heads/main")
        git(remote.with_name("remote.git.other"), "fetch", "-q")
        git(remote.with_name("remote.git.other"), "reset", "-q", "--hard", "origin/main")
        move_remote(remote, {"more.txt": "more\n"})
    else:
        move_remote(remote, {"note.txt": "one\nTWO\nthree\n"}, "by hand")
    if how == "same patch and more on it":
        move_remote(remote, {"note.txt": "one\nTWO and a half\nthree\n"})
    assert synced(pool, ws, head).state == "landed"
    assert work(ws) == head


def conflicted(remote: Path, pool: Pool, ws: Workspace, head: str) -> Synced:
    """Somebody changed the same line."""
    move_remote(remote, {"note.txt": "one\n2\nthree\n"})
    return synced(pool, ws, head)


def test_a_conflict_waits_in_the_files(remote: Path, pool: Pool, ws: Workspace) -> None:
    """A conflict is left for the fixer, with its paths and git's words; a repeat tells the same."""
    head = work(ws)
    found = conflicted(remote, pool, ws, head)
    assert (found.state, found.paths, found.head) == ("conflict", ("note.txt",), head)
    assert "CONFLICT" in found.note
    assert "<<<<<<< " in (ws.path / "note.txt").read_text()
    again = synced(pool, ws, head)
    assert (again.state, again.paths, again.tip) == ("conflict", ("note.txt",), found.tip)


@pytest.mark.parametrize("fixer", ["edits", "adds", "continues", "commits by itself"])
def test_a_resolved_conflict_is_finished(source: Path, remote: Path, pool: Pool, ws: Workspace, fixer: str) -> None:
    """However far the fixer went, a resolution without markers ends rebased, on our branch, on the tip (T108)."""
    head = work(ws)
    tip = conflicted(remote, pool, ws, head).tip
    write(ws.path, {"note.txt": "one\n2 TWO\nthree\n"})
    if fixer != "edits":
        git(ws.path, "add", "note.txt")
    if fixer == "continues":
        git(ws.path, "-c", "core.editor=true", "rebase", "--continue")
    if fixer == "commits by itself":
        git(ws.path, "commit", "-q", "-m", "resolved")
    found = sync.resume_rebase(pool.repo, ws, RUN, tip, head, AT)
    assert (found.state, found.tip) == ("rebased", tip)
    assert git(ws.path, "rev-parse", "HEAD", "HEAD^") == f"{found.head}\n{tip}"
    assert git(ws.path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
    assert shown(source, found.head, "note.txt") == "one\n2 TWO\nthree\n"
    assert sync.resume_rebase(pool.repo, ws, RUN, tip, head, AT) == found


@pytest.mark.parametrize("fixer", ["nothing", "adds markers", "commits markers"])
def test_markers_left_are_a_conflict_still(remote: Path, pool: Pool, ws: Workspace, fixer: str) -> None:
    """A file with conflict markers is not resolved, whatever git was told."""
    head = work(ws)
    tip = conflicted(remote, pool, ws, head).tip
    if fixer != "nothing":
        git(ws.path, "add", "note.txt")
    if fixer == "commits markers":
        git(ws.path, "-c", "core.editor=true", "rebase", "--continue")
    found = sync.resume_rebase(pool.repo, ws, RUN, tip, head, AT)
    assert (found.state, found.paths, found.note) == ("conflict", ("note.txt",), "conflict markers are left")


def test_markers_that_were_always_there_are_no_conflict(source: Path, remote: Path, tmp_path: Path) -> None:
    """A file whose business is conflict markers (a test's sample) may be changed."""
    sample = "<<<<<<< ours\na\n=======\nb\n>>>>>>> theirs\n"
    start = commit(source, {"sample.txt": sample})
    git(source, "push", "-q", "origin", "main")
    pool = Pool(tmp_path / "pool3", repos.open_repo(source, environment()))
    ws = workspace.lease(pool, RUN, "dev", start, BRANCH)
    write(ws.path, {"sample.txt": sample + "more\n", "note.txt": "one\nTWO\nthree\n"})
    head = collect(pool.repo, ws, RUN, "A", start, "w\n", AT).head
    tip = conflicted(remote, pool, ws, head).tip
    write(ws.path, {"note.txt": "one\n2 TWO\nthree\n"})
    assert sync.resume_rebase(pool.repo, ws, RUN, tip, head, AT).state == "rebased"


def test_a_fixer_that_aborts_has_failed(remote: Path, pool: Pool, ws: Workspace) -> None:
    """An aborted rebase is no result: the tip is missing from it, the branch is as it was."""
    head = work(ws)
    tip = conflicted(remote, pool, ws, head).tip
    git(ws.path, "rebase", "--abort")
    found = sync.resume_rebase(pool.repo, ws, RUN, tip, head, AT)
    assert (found.state, found.note) == ("failed", "the target's tip is missing from the result")
    assert work(ws) == head


def test_a_fixer_that_skips_everything_has_failed(remote: Path, pool: Pool, ws: Workspace) -> None:
    """Skipping all commits is not a resolution."""
    head = work(ws)
    tip = conflicted(remote, pool, ws, head).tip
    git(ws.path, "rebase", "--skip")
    found = sync.resume_rebase(pool.repo, ws, RUN, tip, head, AT)
    assert (found.state, found.note) == ("failed", "all commits were skipped")


def two_steps(pool: Pool, ws: Workspace) -> str:
    """Work of two commits; its head."""
    write(ws.path, {"code.py": "print('mine')\n"})
    found = collect(pool.repo, ws, RUN, "A", ws.head, "second\n", AT)
    assert found.commits == 2
    return found.head


def test_conflicts_of_several_commits_cost_one_round(remote: Path, pool: Pool, ws: Workspace) -> None:
    """Work of many steps moves as one commit, so that all its conflicts are told at once and one fixer's round ends them."""
    head = two_steps(pool, ws)
    move_remote(remote, {"code.py": "print('theirs')\n"})
    found = conflicted(remote, pool, ws, head)
    assert (found.state, found.paths, found.head) == ("conflict", ("code.py", "note.txt"), head)
    write(ws.path, {"note.txt": "one\n2 TWO\nthree\n", "code.py": "print('both')\n"})
    done = sync.resume_rebase(pool.repo, ws, RUN, found.tip, head, AT)
    assert done.state == "rebased"
    assert git(ws.path, "rev-parse", "HEAD", "HEAD^") == f"{done.head}\n{found.tip}"


def test_many_steps_are_one_neutral_commit_on_the_tip(source: Path, remote: Path, pool: Pool, ws: Workspace) -> None:
    """The one commit has the work's tree, our neutral identity and the given time; the steps stay reachable; undo brings them back; a repeat is the same."""
    head = two_steps(pool, ws)
    tip = move_remote(remote, {"other.txt": "other\n"})
    found = synced(pool, ws, head)
    said = git(source, "log", "-1", "--format=%P %an <%ae> %at %cn <%ce> %ct", found.head)
    who = f"nightcrew <nightcrew@localhost> {int(AT)}"
    assert said == f"{tip} {who} {who}"
    assert git(source, "diff", "--name-only", tip, found.head) == "code.py\nnote.txt"
    assert git(source, "for-each-ref", "--contains", head)
    assert sync.undo_rebase(pool.repo, ws, RUN, head).head == work(ws) == head
    assert synced(pool, ws, head) == found
    assert workspace.release(pool, ws) == Rescued()
    assert refs(source, "refs/nightcrew/rescue") == {}


def test_work_of_one_commit_moves_as_it_is(remote: Path, pool: Pool, ws: Workspace) -> None:
    """A single commit keeps its message and author."""
    write(ws.path, {"code.py": "print('mine')\n"})
    git(ws.path, "commit", "-q", "-a", "--amend", "-m", "as the agent said it", "--author", "Agent <agent@localhost>")
    head = collect(pool.repo, ws, RUN, "A", ws.head, "m\n", AT).head
    move_remote(remote, {"other.txt": "other\n"})
    found = synced(pool, ws, head)
    assert git(ws.path, "log", "-1", "--format=%an %s", found.head) == "Agent as the agent said it"


def test_undo_restores_the_branch_and_keeps_the_half_work(source: Path, remote: Path, pool: Pool, ws: Workspace) -> None:
    """Given up, a rebase leaves the branch where it was, nothing in progress, and the fixer's files in a rescue ref."""
    head = work(ws)
    conflicted(remote, pool, ws, head)
    write(ws.path, {"note.txt": "half resolved\n", "extra.txt": "extra\n"})
    for _ in range(2):
        undone = sync.undo_rebase(pool.repo, ws, RUN, head)
        assert (undone.state, undone.head) == ("undone", head)
        assert git(ws.path, "status", "--porcelain", "--branch") == f"## {BRANCH}"
        assert git(ws.path, "rev-parse", "HEAD") == head
    assert shown(source, f"refs/nightcrew/rescue/{RUN}/1", "note.txt") == "half resolved\n"
    assert shown(source, f"refs/nightcrew/rescue/{RUN}/1", "extra.txt") == "extra\n"


def test_the_target_moves_again_during_a_conflict(remote: Path, pool: Pool, ws: Workspace) -> None:
    """A conflict with an old tip is given up for the new one; the conflict is told anew."""
    head = work(ws)
    first = conflicted(remote, pool, ws, head)
    moved = move_remote(remote, {"later.txt": "later\n"})
    again = synced(pool, ws, head)
    assert (again.state, again.tip) == ("conflict", moved)
    assert first.tip != moved


def test_a_shallow_repository_follows_its_target_and_lands(source: Path, remote: Path, tmp_path: Path) -> None:
    """With copied objects instead of borrowed ones the whole way works: sync, rebase, final commit, push."""
    commit(source, {"code.py": "print(2)\n"})
    git(source, "push", "-q", "origin", "main")
    shallow = shallow_clone(remote, tmp_path / "shallow")
    pool = Pool(tmp_path / "pool4", repos.open_repo(shallow, environment()))
    ws = workspace.lease(pool, RUN, "dev", git(shallow, "rev-parse", "HEAD"), BRANCH)
    write(ws.path, {"note.txt": "one\nTWO\nthree\n"})
    head = collect(pool.repo, ws, RUN, "A", ws.head, "w\n", AT).head
    moved = move_remote(remote, {"other.txt": "other\n"})
    found = synced(pool, ws, head)
    assert (found.state, found.tip) == ("rebased", moved)
    made = landing.squash(pool.repo, ws, RUN, moved, found.tree, "m", AT)
    assert git(ws.path, "cat-file", "-t", made) == "commit"
    assert landing.push(pool.repo, TARGET, moved, made).state == "landed"
    assert shown(remote, "main", "note.txt") == "one\nTWO\nthree\n"


def test_a_rebase_is_on_the_disk_before_it_is_told(source: Path, remote: Path, pool: Pool, ws: Workspace) -> None:
    """A power cut takes nothing of a conflict that waits, of one that was given up, or of work that was moved."""
    if not disk.places_late(source):
        pytest.skip("this file system places files at once, or does not tell")
    head, large = work(ws), "x" * 10_000
    move_remote(remote, {"note.txt": "one\n2\nthree\n", "large.txt": large})
    assert synced(pool, ws, head).state == "conflict"
    assert not disk.unplaced(ws.path / "large.txt")
    write(ws.path, {"code.py": large})
    sync.undo_rebase(pool.repo, ws, RUN, head)
    assert not disk.unplaced(ws.path / "code.py")
    moved = move_remote(remote, {"note.txt": "one\ntwo\nthree\n", "more.txt": large})
    found = synced(pool, ws, head)
    assert (found.state, found.tip) == ("rebased", moved)
    assert not disk.unplaced(ws.path / "more.txt")

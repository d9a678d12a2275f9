"""Workspaces: leased, found again, made clean, given back (rulings 15, 20, 43)."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from nightcrew.git import repo as repos, workspace
from nightcrew.git.slots import Workspace, WorkspaceLost, read_record, remove, verify, write_record
from nightcrew.git.snapshot import Rescued
from nightcrew.git.workspace import Pool
from support import disk
from support.crew import ANYBODY
from support.repos import (
    ODD_NAMES,
    add_submodule,
    commit,
    environment,
    forget,
    git,
    make_repo,
    many_files,
    refs,
    shallow_clone,
    state,
    write,
)

RUN = "20260101-000000-a1b2"
BRANCH = "nightcrew/a1b2/A"


def pool_of(path: Path, root: Path) -> Pool:
    """A pool over the repository at `path`."""
    return Pool(root, repos.open_repo(path, environment()))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small repository."""
    return make_repo(tmp_path / "source")


@pytest.fixture
def pool(source: Path, tmp_path: Path) -> Pool:
    """Its pool."""
    return pool_of(source, tmp_path / "pool")


def head(path: Path) -> str:
    """HEAD's commit."""
    return git(path, "rev-parse", "HEAD")


def test_a_lease_is_a_private_clone_at_the_start(source: Path, pool: Pool) -> None:
    """A workspace stands at its start on its own branch, knows no remote, no other ref and no history of ours; the person's checkout stays as it was."""
    write(source, {"note.txt": "dirty\n"})
    before = state(source)
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    assert ws.head == head(source) == head(ws.path)
    assert ws.tree == git(source, "rev-parse", "HEAD^{tree}")
    assert git(ws.path, "status", "--porcelain") == ""
    assert (ws.path / "note.txt").read_text() == "one\ntwo\nthree\n"
    assert git(ws.path, "branch", "--show-current") == BRANCH
    assert list(refs(ws.path)) == [f"refs/heads/{BRANCH}"]
    assert git(ws.path, "remote") == ""
    assert git(ws.path, "fsck", "--no-dangling") == ""
    assert state(source) == before


def test_a_workspace_is_on_the_disk_before_it_is_ready(source: Path, pool: Pool, tmp_path: Path) -> None:
    """A power cut leaves no emptied files in a workspace that the pool's record calls ready: they have a place on the disk."""
    if not disk.places_late(tmp_path):
        pytest.skip("this file system places files at once, or does not tell")
    leased = workspace.lease(pool, RUN, "impl-A", commit(source, {"large.txt": "x" * 10_000}), BRANCH)
    assert not disk.unplaced(leased.path / "large.txt")


def test_the_path_of_a_slot_says_nothing(source: Path, pool: Pool) -> None:
    """Neither path nor git folder of a workspace holds the run, the seat or an agent (blindness, rulings 43)."""
    ws = workspace.lease(pool, RUN, "seat-of-claude", head(source))
    texts = [str(ws.path), *(p.read_text("latin-1") for p in ws.git_dir.rglob("*") if p.is_file())]
    assert not any(word in text for text in texts for word in ("claude", RUN, "seat"))


def test_a_lease_repeated_is_the_same_workspace(source: Path, pool: Pool) -> None:
    """The same seat finds its own slot again with its unsaved files and ignored ones (law 5)."""
    first = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    write(first.path, {"new.txt": "unsaved\n"})
    again = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    assert (again.slot, again.head) == (first.slot, first.head)
    assert (again.path / "new.txt").read_text() == "unsaved\n"


def test_a_freed_slot_is_reused_and_clean(source: Path, pool: Pool) -> None:
    """The next seat gets the same folder with nothing of the last one in it but what `keep` names; the last one's work is rescued."""
    commit(source, {".gitignore": "cache/\nbuild/\n"})
    first = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    git(first.path, "config", "alias.st", "status")
    git(first.path, "config", "core.fsmonitor", "/bin/false")
    write(first.path, {"cache/a": "a", "build/b": "b", "left.txt": "left", "note.txt": "changed\n", ".git/hooks/pre-commit": "x"})
    commit_id = commit(first.path, {"src/code.py": "print(2)\n"})
    write(first.path, {"note.txt": "unsaved\n"})
    saved = workspace.release(pool, first)
    assert saved.ref
    assert git(source, "show", f"{saved.ref}:note.txt") == "unsaved"
    assert git(source, "merge-base", "--is-ancestor", commit_id, saved.ref) == ""
    second = workspace.lease(pool, "20260102-000000-c3d4", "dev", head(source), "nightcrew/c3d4/A", keep=["cache/"])
    assert second.path == first.path
    assert git(second.path, "status", "--porcelain", "--ignored") == "!! cache/"
    assert commit_id[:7] not in git(second.path, "reflog", "--all")
    assert "alias" not in (second.path / ".git/config").read_text()
    assert not (second.path / ".git/hooks/pre-commit").exists()
    assert (second.path / "note.txt").read_text() == "one\ntwo\nthree\n"


def test_a_hidden_change_does_not_reach_the_next_seat(source: Path, pool: Pool) -> None:
    """A file that an agent told git to look away from is as the start has it for the next seat."""
    first = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    git(first.path, "update-index", "--assume-unchanged", "note.txt")
    git(first.path, "update-index", "--skip-worktree", "src/code.py")
    write(first.path, {"note.txt": "poison\n", "src/code.py": "poison\n"})
    workspace.release(pool, first)
    second = workspace.lease(pool, RUN, "other", head(source), "nightcrew/a1b2/B")
    assert second.path == first.path
    assert (second.path / "note.txt").read_text() == "one\ntwo\nthree\n"
    assert (second.path / "src/code.py").read_text() == "print(1)\n"


def test_two_seats_have_two_slots(source: Path, pool: Pool) -> None:
    """A leased slot is nobody else's."""
    slots = {workspace.lease(pool, RUN, f"seat{n}", head(source), f"b/{n}").slot for n in range(3)}
    assert len(slots) == 3
    assert {ws.slot for ws in workspace.leased(pool, RUN)} == slots


LEASE_FIVE = """
import os, sys
from pathlib import Path
from nightcrew.git import repo, workspace

path, root, start, number = sys.argv[1:]
pool = workspace.Pool(Path(root), repo.open_repo(Path(path), os.environ))
for n in range(5):
    print(workspace.lease(pool, f"run{number}", f"seat{n}", start, f"b/{number}-{n}").slot)
"""


def test_leases_of_several_processes_never_collide(source: Path, pool: Pool) -> None:
    """Leases taken at the same moment by different processes are all different."""
    argv = [sys.executable, "-c", LEASE_FIVE, str(source), str(pool.root), head(source)]
    jobs = [subprocess.Popen([*argv, str(number)], stdout=subprocess.PIPE, text=True) for number in range(4)]
    slots = [slot for job in jobs for slot in job.communicate(timeout=120)[0].split()]
    assert len(slots) == len(set(slots)) == 20
    assert {head(pool.root / slot) for slot in slots} == {head(source)}


def test_odd_names_and_many_files(tmp_path: Path) -> None:
    """Names with spaces, line ends, quotes and non-ASCII are checked out and seen as clean; 200 files too."""
    source = make_repo(tmp_path / "source", {**many_files(200), **dict.fromkeys(ODD_NAMES, "odd\n")})
    ws = workspace.lease(pool_of(source, tmp_path / "pool"), RUN, "dev", head(source), BRANCH)
    assert git(ws.path, "status", "--porcelain") == ""
    assert all((ws.path / name).read_text() == "odd\n" for name in ODD_NAMES)


def test_a_path_with_spaces_and_accents(tmp_path: Path) -> None:
    """The repository and the pool may lie below folders with any name."""
    source = make_repo(tmp_path / 'mein # größtes "Repo"' / "source")
    ws = workspace.lease(pool_of(source, tmp_path / "der «Pool»"), RUN, "dev", head(source), BRANCH)
    assert git(ws.path, "status", "--porcelain") == ""


def test_a_shallow_source_is_copied(source: Path, tmp_path: Path) -> None:
    """Objects of a shallow repository are copied, not borrowed, and work goes back."""
    commit(source, {"note.txt": "second\n"})
    shallow = shallow_clone(source, tmp_path / "shallow")
    pool = pool_of(shallow, tmp_path / "pool")
    ws = workspace.lease(pool, RUN, "dev", head(shallow), BRANCH)
    assert not (ws.path / ".git/objects/info/alternates").exists()
    assert (ws.path / "note.txt").read_text() == "second\n"
    write(ws.path, {"new.txt": "new\n"})
    saved = workspace.release(pool, ws)
    assert saved.ref
    assert git(shallow, "show", f"{saved.ref}:new.txt") == "new"
    assert git(shallow, "rev-parse", f"{saved.ref}^") == head(shallow)


def test_a_borrowed_commit_survives_gc(source: Path, pool: Pool) -> None:
    """What a workspace borrows is pinned first, so that no gc takes it."""
    start = commit(source, {"note.txt": "on a branch that goes\n"})
    ws = workspace.lease(pool, RUN, "dev", start, BRANCH)
    git(source, "reset", "-q", "--hard", "HEAD~1")
    git(source, "reflog", "expire", "--expire=now", "--all")
    git(source, "gc", "-q", "--prune=now")
    assert git(ws.path, "status", "--porcelain") == ""
    assert git(ws.path, "cat-file", "-t", start) == "commit"


def test_submodules_come_from_the_persons_own(source: Path, tmp_path: Path) -> None:
    """A submodule is filled from the copy in the person's repository; its source need not exist any more (rulings 21)."""
    library = make_repo(tmp_path / "library", {"lib.py": "lib = 1\n"})
    add_submodule(source, library)
    forget(library)
    ws = workspace.lease(pool_of(source, tmp_path / "pool"), RUN, "dev", head(source), BRANCH)
    assert (ws.path / "lib/lib.py").read_text() == "lib = 1\n"
    assert git(ws.path, "status", "--porcelain") == ""
    assert git(ws.path / "lib", "rev-parse", "HEAD") == git(source / "lib", "rev-parse", "HEAD")


def test_a_deleted_workspace_is_told_and_made_anew(source: Path, pool: Pool) -> None:
    """A folder that a person deleted is `WorkspaceLost`; the next lease of the seat makes one at its start."""
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    forget(ws.path)
    with pytest.raises(WorkspaceLost, match="folder is gone"):
        verify(ws)
    again = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    assert head(again.path) == head(source)
    verify(again)


@pytest.mark.parametrize("left", ["link", "dangling", "file", "pipe"])
def test_what_took_a_workspaces_place_is_no_workspace(source: Path, pool: Pool, tmp_path: Path, left: str) -> None:
    """A file in its place, or a link that an agent made to a repository of the person's, is `WorkspaceLost`; nothing behind it is touched."""
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    other = make_repo(tmp_path / "other")
    write(other, {"loose.txt": "theirs\n"})
    before = state(other)
    forget(ws.path)
    match left:
        case "link" | "dangling":
            ws.path.symlink_to(other if left == "link" else tmp_path / "nowhere")
        case "file":
            ws.path.write_text("work\n")
        case _:
            os.mkfifo(ws.path)
    with pytest.raises(WorkspaceLost, match="folder is gone"):
        verify(ws)
    with pytest.raises(WorkspaceLost, match="folder is gone"):
        workspace.reset(pool, ws, head(source))
    again = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    assert not again.path.is_symlink()
    assert head(again.path) == head(source)
    verify(again)
    assert state(other) == before


def test_a_deleted_git_folder_loses_no_file(source: Path, pool: Pool) -> None:
    """An agent that deletes `.git` (or makes its own) is told; the next lease rescues its files before it starts over."""
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    write(ws.path, {"work.txt": "work\n"})
    forget(ws.git_dir)
    git(ws.path, "init", "-q")
    commit(ws.path, {"own.txt": "own\n"}, "my own history")
    with pytest.raises(WorkspaceLost, match="replaced") as lost:
        verify(ws)
    assert lost.value.files
    again = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    verify(again)
    kept = [git(source, "ls-tree", "-r", "--name-only", name) for name in refs(source, "refs/nightcrew/rescue")]
    assert any("work.txt" in names and "own.txt" in names and "note.txt" in names for names in kept)
    assert "my own history" in [git(source, "log", "-1", "--format=%s", name) for name in refs(source, "refs/nightcrew/rescue")]


@pytest.mark.parametrize("name", ["HEAD", "index", "packed-refs"])
def test_a_git_folder_that_cannot_be_read_loses_nothing(source: Path, pool: Pool, name: str) -> None:
    """With a HEAD, an index or refs that git cannot read, the next lease of the seat, or its end, rescues files and commits first."""
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    made = commit(ws.path, {"own.txt": "own\n"}, "my own")
    for last in (False, True):
        write(ws.path, {"work.txt": f"work {last}\n"})
        (ws.git_dir / name).write_text("garbage")
        if last:
            workspace.release(pool, ws)
        else:
            verify(workspace.lease(pool, RUN, "dev", head(source), f"{BRANCH}2"))
        kept = refs(source, "refs/nightcrew/rescue")
        assert f"work {last}" in [git(source, "show", f"{ref}:work.txt") for ref in kept if "strange" not in ref]
        assert name == "packed-refs" or made in git(source, "rev-list", *kept).split()


def test_a_workspace_of_another_seat_is_not_ours(source: Path, pool: Pool) -> None:
    """A `.git` that belongs to another seat's slot is not taken for ours."""
    one = workspace.lease(pool, RUN, "one", head(source), "b/1")
    two = workspace.lease(pool, RUN, "two", head(source), "b/2")
    forget(two.git_dir)
    shutil.copytree(one.git_dir, two.git_dir)
    with pytest.raises(WorkspaceLost, match="replaced"):
        verify(two)


def test_settings_and_locks_an_agent_left_are_gone_at_the_next_use(source: Path, pool: Pool) -> None:
    """Before each use the git folder's settings are our template again and stale locks are removed: nobody is at work there."""
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    template = (ws.git_dir / "config").read_text()
    git(ws.path, "config", "filter.evil.clean", "false")
    write(ws.path, {".git/index.lock": "", ".git/refs/heads/x.lock": "", ".git/info/attributes": "* filter=evil\n"})
    (ws.git_dir / "objects/info/alternates").unlink()
    verify(ws)
    assert (ws.git_dir / "config").read_text() == template
    assert not list(ws.git_dir.rglob("*.lock"))
    assert git(ws.path, "status", "--porcelain") == ""


def test_a_reader_moves_to_another_commit(source: Path, pool: Pool) -> None:
    """A reviewer's workspace is detached, and a lease at another commit moves it; ignored files of the seat stay."""
    commit(source, {".gitignore": "cache\n"})
    ws = workspace.lease(pool, RUN, "review", head(source))
    write(ws.path, {"cache": "warm", "note.txt": "a reader must not write\n"})
    moved = commit(source, {"note.txt": "new\n"})
    again = workspace.lease(pool, RUN, "review", moved)
    assert (again.slot, again.head, head(again.path)) == (ws.slot, moved, moved)
    assert git(again.path, "status", "--porcelain", "--ignored") == "!! cache"
    assert (again.path / "note.txt").read_text() == "new\n"


def test_reset_rescues_and_keeps_ignored_files(source: Path, pool: Pool) -> None:
    """A reset goes back to the start, rescues what was there, leaves ignored files alone, and done twice is done once."""
    start = commit(source, {".gitignore": "cache\n"})
    ws = workspace.lease(pool, RUN, "dev", start, BRANCH)
    made = commit(ws.path, {"a.txt": "a\n"})
    write(ws.path, {"b.txt": "b\n", "cache": "warm"})
    back, saved = workspace.reset(pool, ws, start)
    assert back.head == head(ws.path) == start
    assert git(ws.path, "status", "--porcelain", "--ignored") == "!! cache"
    assert git(ws.path, "branch", "--show-current") == BRANCH
    assert saved.ref
    assert git(source, "show", f"{saved.ref}:b.txt") == "b"
    assert git(source, "rev-parse", f"{saved.ref}^") == made
    assert workspace.reset(pool, ws, start) == (back, Rescued())


@pytest.mark.parametrize("flags", [("--skip-worktree",), ("--assume-unchanged",), ("--skip-worktree", "--assume-unchanged")])
def test_what_the_index_looks_away_from_is_rescued(source: Path, pool: Pool, flags: tuple[str, ...]) -> None:
    """Law 8: a change of a file that an agent told git to look away from is in a rescue ref before the reset takes it."""
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    for flag in flags:
        git(ws.path, "update-index", flag, "note.txt")
    write(ws.path, {"note.txt": "hidden\n"})
    _, saved = workspace.reset(pool, ws, head(source))
    assert saved.ref
    assert git(source, "show", f"{saved.ref}:note.txt") == "hidden"
    assert git(ws.path, "status", "--porcelain") == ""


def test_a_reset_cut_short_is_made_again_and_leaves_no_more(source: Path, pool: Pool) -> None:
    """Killed in the middle of a reset and of what belongs to it, the next one rescues nothing of what we had made by then, and tells what it had rescued."""
    start = head(source)
    ws = workspace.lease(pool, RUN, "dev", start, BRANCH)
    write(ws.path, {"b.txt": "b\n"})

    def killed(at: Workspace) -> None:
        commit(at.path, {"repaired.txt": "half of it\n"})
        write(at.path, {"conflict.txt": "in the middle\n"})
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        workspace.reset(pool, ws, start, killed)
    kept = refs(source, "refs/nightcrew/rescue")
    made: list[str] = []
    back, saved = workspace.reset(pool, ws, start, lambda at: made.append(commit(at.path, {"repaired.txt": "all of it\n"})))
    assert (len(kept), refs(source, "refs/nightcrew/rescue"), saved.ref) == (1, kept, *kept)
    assert [head(back.path)] == made
    assert git(back.path, "status", "--porcelain") == ""
    assert workspace.reset(pool, back, start)[1].ref not in kept
    assert verify(back).ready


def test_copied_files_are_ignored(source: Path, pool: Pool) -> None:
    """`copy` files are there for the agent and invisible to git (rulings 21)."""
    commit(source, {"note.txt": "x\n"})
    write(source, {".env": "TOKEN=1\n", "app/[x].env": "B=2\n"})
    ws = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    assert workspace.copy_files(pool, ws, [".env", "app/*.env"]) == (".env", "app/[x].env")
    assert (ws.path / ".env").read_text() == "TOKEN=1\n"
    assert git(ws.path, "status", "--porcelain") == ""
    assert workspace.release(pool, ws) == Rescued()


def test_a_folder_somebody_made_read_only_is_removed(tmp_path: Path) -> None:
    """A tool that takes away the right to write keeps nothing of ours from going; what is not there is no error."""
    write(tmp_path, {"deep/er/file.txt": "x\n", "deep/er/more.txt": "x\n"})
    os.chmod(tmp_path / "deep/er", 0o500)
    remove(tmp_path / "deep/er/more.txt")
    assert not (tmp_path / "deep/er/more.txt").exists()
    os.chmod(tmp_path / "deep/er", 0o500)
    for _ in range(2):
        remove(tmp_path / "deep")
    assert not (tmp_path / "deep").exists()


def test_a_lease_cut_short_is_finished_by_the_next(source: Path, pool: Pool) -> None:
    """Killed in the middle of setting a slot up, the same lease makes it whole, whatever half of it was there."""
    first = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    record = read_record(pool.root, first.slot)
    write_record(pool.root, msgspec.structs.replace(record, ready=False))
    write(first.path, {"half.txt": "of somebody before\n", "note.txt": "half"})
    forget(first.git_dir)
    write(pool.root, {f".{first.slot}.new/HEAD": "left over\n"})
    again = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    assert again == first
    assert git(again.path, "status", "--porcelain", "--ignored") == ""
    assert (again.path / "note.txt").read_text() == "one\ntwo\nthree\n"
    assert verify(again).ready


def test_what_a_killed_writer_left_goes(source: Path, pool: Pool) -> None:
    """A record that was never finished is litter, at a lease and at a release, unless a seat holds its slot and may be writing it now."""
    first = workspace.lease(pool, RUN, "dev", git(source, "rev-parse", "HEAD"), BRANCH)
    write(pool.root, {f".{first.slot}.json.7.new": "", ".gone.json.7.new": ""})
    workspace.lease(pool, RUN, "reader", first.head)
    assert [path.name for path in pool.root.glob(".*.new")] == [f".{first.slot}.json.7.new"]
    workspace.release(pool, first)
    assert not list(pool.root.glob(".*.new"))


def test_a_seat_with_a_new_branch_keeps_its_slot(source: Path, pool: Pool) -> None:
    """After a recovery the seat's branch has another name: same slot, clean at its start, the old work rescued."""
    first = workspace.lease(pool, RUN, "dev", head(source), BRANCH)
    made = commit(first.path, {"a.txt": "a\n"})
    again = workspace.lease(pool, RUN, "dev", head(source), "nightcrew/a1b2/e1-A")
    assert (again.slot, again.head) == (first.slot, head(source))
    assert git(again.path, "branch", "--show-current") == "nightcrew/a1b2/e1-A"
    assert git(source, "for-each-ref", "--contains", made)


def test_filters_of_the_person_work_in_a_workspace(source: Path, tmp_path: Path) -> None:
    """Filters from the person's configuration (as LFS has them) are applied in a workspace; remotes and aliases do not come along."""
    git(source, "config", "filter.shout.smudge", "tr a-z A-Z")
    git(source, "config", "filter.shout.clean", "tr A-Z a-z")
    git(source, "config", "alias.x", "status")
    commit(source, {".gitattributes": "*.loud filter=shout\n", "a.loud": "HELLO\n"})
    assert git(source, "show", "HEAD:a.loud") == "hello"
    ws = workspace.lease(pool_of(source, tmp_path / "pool"), RUN, "dev", head(source), BRANCH)
    assert (ws.path / "a.loud").read_text() == "HELLO\n"
    assert git(ws.path, "status", "--porcelain") == ""
    assert "alias" not in (ws.git_dir / "config").read_text()


SHUT = """
import subprocess, sys
from pathlib import Path
from unit.git.test_workspace import RUN, git, head, pool_of, workspace

pool, start = pool_of(Path(sys.argv[1]), Path(sys.argv[2])), head(Path(sys.argv[1]))
for seat, also in (("one", ""), ("two", "&& mkdir no && touch no/f && chmod 0 no")):
    mess = f"mkdir -p ro/in && touch ro/in/f {also} && chmod -R a-w ro && chmod a-w src ."
    ws = workspace.lease(pool, RUN, seat, start, f"b/{seat}")
    subprocess.run(["sh", "-c", mess], cwd=ws.path, check=True)
    saved = workspace.reset(pool, ws, start)[1].ref
    assert git(pool.repo.git_dir, "ls-tree", "-r", "--name-only", saved).split()[0] == ("no/f" if also else "note.txt"), saved
    assert git(ws.path, "status", "--porcelain", "--ignored") == ""
    subprocess.run(["sh", "-c", mess], cwd=ws.path, check=True)
    assert workspace.release(pool, ws).ref == saved
print(len(list(pool.root.glob("[!.]*.json"))))
"""


def test_folders_that_were_shut_keep_nobody_from_a_slot(source: Path, tmp_path: Path) -> None:
    """What a tool made read-only or shut is rescued and cleared away, at a reset and for the next seat; nobody here is root."""
    argv = [*ANYBODY, sys.executable, "-c", SHUT, str(source), str(tmp_path / "pool")]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("1\n", 0), done.stderr

"""Opening the person's repository, its target and tip, and the seal around every git call (rulings 16, 22)."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from nightcrew.errors import UserError
from nightcrew.git import landing, repo as repos, sealed
from nightcrew.git.repo import Repo, Target, Tip
from nightcrew.git.sealed import OPERATOR, Checkout, GitError
from support.crew import alive, until
from support.repos import add_hook, bare_remote, commit, environment, forget, git, make_repo, move_remote, refs, state, write


def opened(path: Path, **env: str) -> Repo:
    """The repository at `path`, with more in the operator's environment."""
    return repos.open_repo(path, {**environment(), **env})


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small repository."""
    return make_repo(tmp_path / "source")


def test_a_repository_is_found_from_below(source: Path) -> None:
    """A folder inside the checkout finds its repository; a worktree shares its git folder."""
    assert opened(source / "src")[:2] == (source / ".git", source)
    git(source, "worktree", "add", "-q", "../linked", "-b", "side")
    linked = opened(source.parent / "linked")
    assert linked[:2] == (source / ".git", source.parent / "linked")
    assert repos.repo_id(linked) == repos.repo_id(opened(source))


def test_a_bare_repository_has_no_work_tree(source: Path, tmp_path: Path) -> None:
    """A bare repository opens, without files."""
    bare = bare_remote(source, tmp_path / "bare.git")
    assert opened(bare)[:2] == (bare, None)


@pytest.mark.parametrize("make", ["nothing", "empty", "missing"])
def test_what_cannot_be_opened_is_one_line(tmp_path: Path, make: str) -> None:
    """No repository, no commit, no folder: a person's mistake in one line."""
    path = tmp_path / "here"
    if make != "missing":
        path.mkdir()
    if make == "empty":
        git(path, "init", "-q")
    said = {"nothing": "no git repository", "empty": "no commit yet", "missing": "no such folder"}[make]
    with pytest.raises(UserError, match=said) as error:
        opened(path)
    assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_foreign_owner_is_told_what_to_do(source: Path) -> None:
    """A repository of another user is refused with the command that trusts it, and opens once it is trusted."""
    for path in (source, source / ".git"):
        os.chown(path, 12345, 12345)
    with pytest.raises(UserError, match="owned by another user") as error:
        opened(source)
    assert "safe.directory" in error.value.hint
    trusted = opened(source, GIT_CONFIG_COUNT="1", GIT_CONFIG_KEY_0="safe.directory", GIT_CONFIG_VALUE_0=str(source))
    assert repos.tip(trusted, Target("main", None)).commit == git(source, "-c", "safe.directory=*", "rev-parse", "HEAD")


def test_variables_that_point_elsewhere_are_dropped(source: Path, tmp_path: Path) -> None:
    """GIT_DIR and its friends in the caller's environment do not lead us to another repository."""
    other = make_repo(tmp_path / "other", {"other.txt": "x\n"})
    stray = {"GIT_DIR": str(other / ".git"), "GIT_WORK_TREE": str(other), "GIT_INDEX_FILE": "/nowhere", "GIT_PREFIX": "x/"}
    repo = opened(source, **stray)
    assert repo[:2] == (source / ".git", source)
    assert sealed.git(repo, "rev-parse", "main", profile=OPERATOR) == git(source, "rev-parse", "main")


def test_the_persons_configuration_does_not_bend_our_calls(source: Path, tmp_path: Path) -> None:
    """Aliases, pagers, editors, fsmonitor and hooks of the person play no part in plain calls; hooks in none."""
    marks = tmp_path / "marks"
    marks.mkdir()
    home = tmp_path / "home"
    write(
        home,
        {
            ".gitconfig": f"[core]\n pager = touch {marks}/pager\n editor = touch {marks}/editor\n fsmonitor = touch {marks}/fsmonitor;\n"
            f"[alias]\n rev-parse = !touch {marks}/alias\n[user]\n name = Me\n email = me@localhost\n"
        },
    )
    for hook in ("reference-transaction", "pre-commit", "post-commit", "post-checkout"):
        add_hook(source, hook, f"touch {marks}/{hook}; exit 1")
    repo = opened(source, HOME=str(home), GIT_CONFIG_GLOBAL=str(home / ".gitconfig"))
    repos.pin(repo, "r1", "base", git(source, "rev-parse", "HEAD"))
    sealed.git(Checkout(source, repo.env), "status", "--porcelain")
    sealed.git(Checkout(source, repo.env), "commit", "--allow-empty", "-q", "-m", "plain")
    assert list(marks.iterdir()) == []
    assert git(source, "log", "-1", "--format=%an <%ae>") == "nightcrew <nightcrew@localhost>"
    assert repos.identity(repo) == "Me <me@localhost>"


def test_an_unknown_operator_is_told(source: Path, tmp_path: Path) -> None:
    """Where git cannot say who commits, a person is told how to say it."""
    write(tmp_path, {"empty": "[user]\n useConfigOnly = true\n"})
    with pytest.raises(UserError, match="who you are"):
        repos.identity(opened(source, GIT_CONFIG_GLOBAL=str(tmp_path / "empty")))


def test_git_never_asks(source: Path, tmp_path: Path) -> None:
    """A remote that wants a password is an error, not a prompt (T: never interactive)."""
    ssh = tmp_path / "ssh"
    write(tmp_path, {"ssh": f'#!/bin/sh\necho "$@" > {tmp_path}/asked\necho "Permission denied" >&2\nexit 255\n'})
    ssh.chmod(0o755)
    git(source, "remote", "add", "origin", "git@localhost:x.git")
    repo = opened(source, GIT_SSH_COMMAND=str(ssh))
    found = repos.tip(repo, Target("main", "origin"))
    assert found.note
    assert "-oBatchMode=yes" in (tmp_path / "asked").read_text()


HANGS = """
import os, sys
from pathlib import Path
from nightcrew.git.sealed import Checkout, Profile, run
place = Checkout(Path(sys.argv[1]), os.environ)
run(place, "-c", "alias.hang=!echo $$ > pid; exec sleep 600", "hang", profile=Profile((), 1.0))
"""


@pytest.mark.parametrize("dies", [False, True])
def test_what_hangs_ends_at_its_limit_whoever_is_dead(source: Path, *, dies: bool) -> None:
    """A push or a signature that hangs ends with all it started, by our limit or, when we were killed before that, by the system's."""
    written = source / "pid"
    asker = subprocess.Popen([sys.executable, "-c", HANGS, str(source)], stderr=subprocess.DEVNULL)
    until(lambda: written.exists() and written.read_text().strip())
    if dies:
        asker.kill()
    assert asker.wait(60) != 0
    until(lambda: not alive(int(written.read_text())))


def test_a_lock_somebody_holds_is_waited_for(source: Path) -> None:
    """index.lock held for a moment by the person's own git delays us and breaks nothing; it is never removed by us."""
    lock = source / ".git/index.lock"
    lock.touch()
    place = Checkout(source, environment())
    held: list[bool] = []

    def let_go() -> None:
        time.sleep(0.5)
        held.append(lock.exists())
        lock.unlink()

    other = threading.Thread(target=let_go)
    other.start()
    sealed.git(place, "add", "-A")
    other.join()
    assert held == [True]


def test_a_failure_keeps_gits_words(source: Path) -> None:
    """What git complains about is told in one line."""
    with pytest.raises(GitError) as error:
        sealed.git(opened(source), "rev-parse", "--verify", "nowhere")
    assert error.value.words == "Needed a single revision"
    assert error.value.code == 128


# ── the target ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_target_is_found_in_the_order_of_the_rule(source: Path, tmp_path: Path) -> None:
    """Configured, else the remote's HEAD, else the current branch, else the only one (rulings 22)."""
    git(source, "checkout", "-q", "-b", "work")
    assert repos.target(opened(source)) == Target("work", None)
    assert repos.target(opened(source), "main") == Target("main", None)
    git(source, "checkout", "-q", "--detach")
    with pytest.raises(UserError, match="which branch") as error:
        repos.target(opened(source))
    assert "main, work" in error.value.hint
    git(source, "branch", "-q", "-D", "work")
    git(source, "branch", "-q", "nightcrew/a1b2/A")  # what a run left is none to land on by itself
    assert repos.target(opened(source)) == Target("main", None)
    git(source, "branch", "-q", "aaa")
    git(source, "checkout", "-q", "main")
    bare_remote(source, tmp_path / "remote.git", "upstream")
    git(source, "checkout", "-q", "aaa")
    assert repos.target(opened(source)) == Target("main", "upstream")
    assert repos.target(opened(source), remote="none") == Target("aaa", None)


def test_the_remotes_head_is_asked_when_no_fetch_brought_it(source: Path, tmp_path: Path) -> None:
    """A remote added by hand has no HEAD here: it is asked."""
    remote = bare_remote(source, tmp_path / "remote.git")
    git(remote, "branch", "trunk", "main")
    git(remote, "symbolic-ref", "HEAD", "refs/heads/trunk")
    git(source, "remote", "set-head", "origin", "-d")
    assert repos.target(opened(source)) == Target("trunk", "origin")


def test_an_unknown_target_is_one_line_with_what_there_is(source: Path) -> None:
    """A mistyped branch or remote is refused with the list."""
    with pytest.raises(UserError, match="no branch mian") as error:
        repos.target(opened(source), "mian")
    assert "main" in error.value.hint
    with pytest.raises(UserError, match="no remote up"):
        repos.target(opened(source), "main", "up")


def test_the_tip_is_the_remotes_and_no_ref_of_the_person_moves(source: Path, tmp_path: Path) -> None:
    """A fetch brings the remote's tip into a ref of ours alone; a dirty checkout stays as it is."""
    remote = bare_remote(source, tmp_path / "remote.git")
    moved = move_remote(remote, {"new.txt": "new\n"})
    git(remote, "tag", "v1", moved)
    write(source, {"note.txt": "dirty\n"})
    before = state(source)
    assert repos.tip(opened(source), Target("main", "origin")) == Tip(moved, "")
    assert state(source) == before
    assert refs(source, "refs/nightcrew") == {"refs/nightcrew/fetched/origin/main": moved}


def test_without_the_remote_the_local_tip_counts_with_a_note(source: Path, tmp_path: Path) -> None:
    """No network is no reason to stop: the local tip, and one line that says so."""
    remote = bare_remote(source, tmp_path / "remote.git")
    forget(remote)
    found = repos.tip(opened(source), Target("main", "origin"))
    assert found.commit == git(source, "rev-parse", "main")
    assert "origin was not reached" in found.note
    assert "\n" not in found.note


def test_what_lands_locally_stands_on_the_local_branch_when_that_has_more(source: Path, tmp_path: Path) -> None:
    """Mode `local`: the remote's tip where it contains the local one, else the local one; one line when they went apart."""
    remote, where = bare_remote(source, tmp_path / "remote.git"), Target("main", "origin", "local")
    theirs = move_remote(remote, {"theirs.txt": "x\n"})
    assert repos.tip(opened(source), where) == Tip(theirs, "")
    git(source, "reset", "-q", "--hard", theirs)
    mine = commit(source, {"mine.txt": "x\n"})
    assert repos.tip(opened(source), where, "HEAD^{tree}") == Tip(mine, "", (git(source, "rev-parse", "HEAD^{tree}"),))
    for mode in ("branch", "push"):
        ahead = repos.tip(opened(source), where._replace(mode=mode))
        assert ahead == Tip(theirs, "main has commits that origin/main lacks: the work stands on origin/main, without them")
    move_remote(remote, {"more.txt": "x\n"})
    apart = repos.tip(opened(source), where)
    assert apart.commit == mine
    assert "went apart" in apart.note
    git(source, "reset", "-q", "--hard", "HEAD~2")
    forget(remote)
    assert repos.tip(opened(source), where).commit == git(source, "rev-parse", "refs/nightcrew/fetched/origin/main")


def test_the_url_of_a_remote_may_be_relative(source: Path, tmp_path: Path) -> None:
    """A path that the person's own git takes from the top of the work tree is found from there, whatever folder we were started in."""
    remote = bare_remote(source, tmp_path / "remote.git")
    git(source, "remote", "set-url", "origin", "../remote.git")
    moved, repo = move_remote(remote, {"new.txt": "new\n"}), opened(source / "src")
    assert repos.tip(repo, Target("main", "origin")) == Tip(moved, "")
    git(remote, "branch", "far", moved)
    where = repos.target(repo, "far")
    landing.try_pushing(repo, where, moved)
    made = git(source, "commit-tree", f"{moved}^{{tree}}", "-p", moved, "-m", "made")
    assert landing.push(repo, where, moved, made).state == "landed"


def test_a_repository_without_branches_is_told_to_make_one(source: Path) -> None:
    """A detached HEAD and no branch at all: nothing to choose from, so the hint makes one."""
    git(source, "checkout", "-q", "--detach")
    git(source, "branch", "-q", "-D", "main")
    with pytest.raises(UserError, match="which branch") as error:
        repos.target(opened(source))
    assert "git switch -c" in error.value.hint


def test_without_a_remote_the_local_tip_counts(source: Path) -> None:
    """A repository without remotes needs none; a branch that is nowhere is refused."""
    assert repos.tip(opened(source), Target("main", None)) == Tip(git(source, "rev-parse", "main"), "")
    with pytest.raises(UserError, match="no branch gone"):
        repos.tip(opened(source), Target("gone", None))


def test_exclude_adds_a_line_once(source: Path) -> None:
    """Our folder is ignored in the person's checkout without touching a tracked file."""
    repo = opened(source)
    write(source, {".agent/tmp/completion_marker": "{}"})
    repos.exclude(repo, "/.agent/")
    repos.exclude(repo, "/.agent/")
    assert (source / ".git/info/exclude").read_text().count("/.agent/") == 1
    assert git(source, "status", "--porcelain") == ""


def test_a_pin_keeps_a_commit_from_gc(source: Path) -> None:
    """A pinned commit outlives its branch."""
    repo = opened(source)
    made = commit(source, {"x": "x\n"})
    repos.pin(repo, "r1", "base", made)
    git(source, "reset", "-q", "--hard", "HEAD~1")
    git(source, "reflog", "expire", "--expire=now", "--all")
    git(source, "gc", "-q", "--prune=now")
    assert git(source, "cat-file", "-t", made) == "commit"

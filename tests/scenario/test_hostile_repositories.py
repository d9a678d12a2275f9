"""Repositories that are awkward by nature: a run lands in them, and what is the person's stays as it was.

More of the kind: submodules, odd names, a detached HEAD (`test_ruff`), hooks, signing, locks, no identity (`test_odd_hosts`, `test_operator`),
shallow and bare ones (`test_landing`), a foreign owner, branches of somebody's with our names (`unit/git/test_repo`, `test_landing`).
"""

import os
from pathlib import Path
from typing import Any

import pytest

from scenario.test_hostile_agents import ALLOWED_KIB, MEGABYTE, weight
from support import repos
from support.crew import Crew, Turn

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:" + "a" * 64 + "\nsize 123\n"
WORK: Turn = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}]}


def lands(crew: Crew, *turns: Turn, cwd: Path | None = None, **tables: Any) -> None:
    """A small run lands on main as one commit that changes one line, and the person's checkout is the same byte for byte."""
    if crew.git("branch", "--show-current") == "main":
        crew.solo(*turns, **tables)
    mine, base = crew.mine(), crew.git("rev-parse", "main")
    done = crew.call("run", "write the note", cwd=cwd)
    assert done.code == 0, done
    assert crew.git("rev-list", "--count", f"{base}..main") == "1"
    assert crew.git("diff", "--numstat", base, "main") == "1\t0\tnote.txt"
    assert crew.mine() == mine


@pytest.mark.parametrize("smudge", ["", "false", "no-such-git-lfs smudge -- %f"])
def test_pointers_of_large_files(crew: Crew, smudge: str) -> None:
    """Large-file pointers whose content is nowhere, whatever the filter that would bring it says: it is not needed, the pointers stay."""
    repos.commit(crew.repo, {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "asset.bin": POINTER})
    if smudge:
        for name, value in (("clean", "cat"), ("smudge", smudge), ("required", "true")):
            crew.git("config", f"filter.lfs.{name}", value)
    lands(crew, WORK)
    assert crew.shown("main", "asset.bin") == POINTER


def test_a_sparse_checkout(crew: Crew) -> None:
    """The person sees a part of the tree only: agents see all of it, and what is left out there stays left out."""
    repos.commit(crew.repo, {"far/away.txt": "x\n", "near/by.txt": "y\n"})
    crew.git("sparse-checkout", "set", "near")
    sees: Turn = {"node": "implement", "do": [{"run": "test -e far/away.txt && echo four >> note.txt"}]}
    lands(crew, sees)
    assert not (crew.repo / "far").exists()
    crew.git("switch", "-q", "main")
    crew.play({"node": "implement", "do": [{"append": "note.txt", "text": "five\n"}]})
    assert crew.call("run", "and the next").code == 0
    assert (crew.repo / "note.txt").read_text().endswith("four\nfive\n")
    assert not (crew.repo / "far").exists()
    assert crew.git("status", "--porcelain") == ""


def test_a_partial_clone(crew: Crew, tmp_path: Path) -> None:
    """A clone without old contents borrows what it has; what a workspace needs is fetched as the person's git would."""
    crew.git("config", "uploadpack.allowFilter", "true")
    repos.git(tmp_path, "clone", "-q", "--filter=blob:none", crew.repo.as_uri(), "partial")
    crew.settle(pipeline={"plan": False, "reviewers": 0}, verify={"gate": ["grep -q four note.txt"]})
    crew.play(WORK)
    done = crew.call("run", "write the note", cwd=tmp_path / "partial")
    assert done.code == 0, done


def test_names_that_differ_in_case(crew: Crew) -> None:
    """Two files, and two folders, whose names differ in case alone are two."""
    repos.commit(crew.repo, {"Readme": "a\n", "README": "b\n", "Lib/x": "c\n", "lib/x": "d\n"})
    lands(crew, WORK)
    assert [crew.shown("main", name) for name in ("Readme", "README", "Lib/x", "lib/x")] == ["a\n", "b\n", "c\n", "d\n"]


def test_huge_files(crew: Crew) -> None:
    """Files of 100 MB that are there and one that changes: landed, with little memory."""
    huge = crew.repo / "huge.txt"
    huge.write_bytes(b"a line of text\n" * (100 * MEGABYTE // 15))
    repos.commit(crew.repo, {"more.bin": bytes(60 * MEGABYTE)})
    crew.solo({"node": "implement", "do": [WORK["do"][0], {"append": "huge.txt", "text": "last\n"}]})

    peak = weight(crew, "run", "write the note")

    assert crew.git("diff", "--name-only", "mine", "main").splitlines() == ["huge.txt", "note.txt"]
    assert peak <= ALLOWED_KIB, f"{peak} KiB"


def test_links_that_lead_out(crew: Crew, tmp_path: Path) -> None:
    """Links out of the tree, to a folder, a repository, the person's own checkout: they land as links, what they lead to is untouched."""
    outside = repos.make_repo(tmp_path / "outside")
    before = repos.state(outside)
    for name, leads in (
        ("up", "../.."),
        ("repo", str(outside)),
        ("own", str(crew.repo)),
        ("nowhere", "/no/such"),
        ("self", "self"),
    ):
        os.symlink(leads, crew.repo / name)
    repos.commit(crew.repo, {})
    crew.solo({"node": "implement", "do": [WORK["do"][0], {"run": f"ln -s {outside} another; ln -s {crew.repo} deep"}]})
    mine = crew.mine()

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert repos.state(outside) == before
    assert crew.mine() == mine
    assert {line.split()[0] for line in crew.git("ls-tree", "main", "up", "repo", "own", "another", "deep").splitlines()} == {
        "120000"
    }


def test_a_monitor_of_files(crew: Crew, tmp_path: Path) -> None:
    """`core.fsmonitor`, the untracked cache and hooks on every index change are the person's: our git asks none of them."""
    crew.git("config", "core.fsmonitor", f"touch {tmp_path}/asked; false")
    crew.git("config", "core.untrackedCache", "true")
    crew.solo(WORK)
    repos.add_hook(crew.repo, "post-index-change", f"touch {tmp_path}/asked")
    repos.add_hook(crew.repo, "reference-transaction", f"touch {tmp_path}/asked")
    (tmp_path / "asked").unlink(missing_ok=True)

    assert crew.call("run", "write the note").code == 0

    assert not (tmp_path / "asked").exists()


def test_line_ends_that_git_changes(crew: Crew) -> None:
    """`core.autocrlf`: files have the person's line ends in a workspace, the commit has the repository's; one line changes."""
    crew.git("config", "core.autocrlf", "true")
    sees: Turn = {
        "node": "implement",
        "do": [{"run": "grep -q \"$(printf 'two\\r')\" note.txt && printf 'four\\r\\n' >> note.txt"}],
    }
    (crew.repo / "note.txt").unlink()
    crew.git("checkout", "-q", "--", "note.txt")
    lands(crew, sees)
    assert "\r" not in crew.git("cat-file", "blob", "main:note.txt")


def test_worktrees_of_the_person(crew: Crew, tmp_path: Path) -> None:
    """Started in a linked worktree, the target checked out in another: each is as it was but the target's, which moves along."""
    linked = tmp_path / "linked"
    crew.solo(WORK)
    crew.git("worktree", "add", "-q", str(linked), "-b", "side")
    crew.git("worktree", "add", "-q", str(tmp_path / "target"), "main")
    mine = crew.mine()

    done = crew.call("run", "write the note", cwd=linked)

    assert done.code == 0, done
    assert (tmp_path / "target/note.txt").read_text().endswith("four\n")
    assert repos.git(tmp_path / "target", "status", "--porcelain") == ""
    assert repos.git(linked, "status", "--porcelain") == ""
    assert crew.mine() == mine
    assert (linked / ".agent/tmp/completion_marker").exists()


def test_a_worktree_that_went_with_commits_on_it(crew: Crew, tmp_path: Path) -> None:
    """A record that git would prune, the only way to commits of the person: neither a run nor `clean` prunes it, or anything."""
    gone = tmp_path / "gone"
    crew.git("worktree", "add", "-q", "--detach", str(gone))
    only = repos.commit(gone, {"only.txt": "here\n"})
    repos.forget(gone)
    lost = crew.git("commit-tree", "-m", "on no ref", "HEAD^{tree}")
    assert "prunable" in crew.git("worktree", "list", "--porcelain")
    lands(crew, WORK)

    assert crew.call("clean").code == 0

    assert "prunable" in crew.git("worktree", "list", "--porcelain")
    assert crew.git("cat-file", "-t", only) == crew.git("cat-file", "-t", lost) == "commit"
    assert crew.git("fsck", "--connectivity-only", "--no-dangling") == ""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_somebody_else(crew: Crew) -> None:
    """Another user's repository is not trusted silently: one line with the command that does, before anybody is paid."""
    crew.solo()
    os.chown(crew.repo / ".git", 65534, 65534)
    os.chown(crew.repo, 65534, 65534)

    done = crew.call("run", "write the note")

    assert done.code == 2, done
    assert "safe.directory" in done.line
    assert crew.starts() == []

"""What a judge gets of a repository: neutral commits, and a workspace that holds nothing else (rulings 15)."""

from pathlib import Path

import pytest

from nightcrew.git import neutral, repo as repos, workspace
from nightcrew.git.collect import Collected
from nightcrew.git.slots import verify
from nightcrew.git.workspace import Pool
from nightcrew.redact import NAMELESS, names
from support.repos import Files, commit, environment, git, make_repo, shallow_clone

RUN = "20260101-000000-a1b2"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A small repository with a history, on a branch of its own."""
    path = make_repo(tmp_path / "source")
    git(path, "switch", "-q", "-c", "somebody's")
    return path


def head(path: Path) -> str:
    """HEAD's commit."""
    return git(path, "rev-parse", "HEAD")


def squashed(source: Path, files: Files, *roster: str, redact: bool = False) -> tuple[Collected, tuple[str, ...]]:
    """A candidate with those files, in two commits of somebody's, as judges see it."""
    base = head(source)
    commit(source, files, "Co-authored-by: Claude <x@example.org>")
    git(source, "commit", "-q", "--allow-empty", "-m", "more by codex")
    repo = repos.open_repo(source, environment())
    try:
        return neutral.squash(repo, RUN, "A", base, head(source), names(roster), redact=redact)
    finally:
        git(source, "reset", "-q", "--hard", base)


def test_a_candidate_is_one_commit_that_says_nothing_of_its_author(source: Path) -> None:
    """T191: author, date, message and number of commits are the same for all; made again it is the same commit."""
    base = head(source)
    found, leaks = squashed(source, {"a.txt": "new\n"})
    told = git(source, "log", "-1", "--format=%an %ae %cn %ce %at %ct %P %B", found.head)
    assert told.strip() == f"nightcrew nightcrew@localhost nightcrew nightcrew@localhost 0 0 {base} candidate A"
    assert (leaks, found.files, found.insertions) == ((), 1, 1)
    assert b"+new" in found.patch
    assert squashed(source, {"a.txt": "new\n"})[0].head == found.head
    assert git(source, "rev-parse", f"refs/nightcrew/{RUN}/neutral/A") == found.head


def test_names_in_what_is_added_are_found(source: Path) -> None:
    """Vendors' words and the roster's own, in texts and names of files; not within other words, not the short ones, not what the base speaks of."""
    commit(source, {"known.py": "import mistral\n", "docs/Copilot.md": "x\n"})
    files: Files = {"a.py": "# by Claude, not claudel\nmistral copilot gpt-4o\nthe a-team\n", "CODEX.bin": b"\0x"}
    assert squashed(source, files, "team", "a")[1] == ("claude", "codex", "team")
    assert squashed(source, {"known.py": "import mistral as m\n"})[1] == ()


def test_names_are_taken_out_where_that_is_wanted(source: Path) -> None:
    """`redact` leaves neither text nor file name, in the commit as in the patch; other bytes stay, and so does what is not text."""
    files: Files = {"claude/a.txt": "Claude and CODEX\r\nna\u00efve\n", "b.bin": b"\0claude", "c.txt": "plain\n"}
    found, leaks = squashed(source, files, redact=True)
    assert leaks == ("claude", "codex")
    text = f"{NAMELESS} and {NAMELESS}-2\r\nna\u00efve\n".encode()
    assert git(source, "cat-file", "-s", f"{found.head}:{NAMELESS}/a.txt") == str(len(text))
    assert f"+{NAMELESS} and {NAMELESS}-2\r\n+na\u00efve".encode() in found.patch
    assert git(source, "ls-tree", "-r", "--name-only", found.head, "claude") == ""
    assert b"claude" not in found.patch.lower()
    assert git(source, "cat-file", "-p", f"{found.head}:b.bin") == "\0claude"


def test_names_that_are_taken_out_leave_every_file(source: Path) -> None:
    """Files that only differ in whom they name stay as many, also where one's name is another's folder."""
    files: Files = {"claude.txt": "1\n", "codex.txt": "2\n", "gemini": "3\n", "qwen/a": "4\n"}
    found, _ = squashed(source, files, redact=True)
    told = git(source, "diff-tree", "-r", "--name-only", "--no-commit-id", f"{found.head}^", found.head).splitlines()
    assert sorted(told) == [f"{NAMELESS}-2.txt", f"{NAMELESS}-3", f"{NAMELESS}-4/a", f"{NAMELESS}.txt"]
    assert found.files == 4


@pytest.mark.parametrize("shallow", [False, True])
def test_a_judge_s_workspace_holds_the_base_and_the_neutral_commits_alone(source: Path, tmp_path: Path, shallow: bool) -> None:  # noqa: FBT001
    """No other object, no ref, no reflog, no alternates; one time for all files; a leased one is found as it was, also after a reset."""
    commit(source, {"old.txt": "1\n"})
    commit(source, {"old.txt": "2\n"})
    path = shallow_clone(source, tmp_path / "shallow") if shallow else source
    base, found = head(path), squashed(path, {"a.txt": "new\n"})[0]
    other = squashed(path, {"hidden.txt": "another's\n"})[0]
    pool = Pool(tmp_path / "pool", repos.open_repo(path, environment()))
    first = workspace.lease(pool, RUN, "judge-1", base, sees=(found.head,))
    for again in range(3):
        ws = (
            workspace.lease(pool, RUN, "judge-1", base, sees=(found.head,))
            if again != 1
            else workspace.reset(pool, first, base)[0]
        )
        assert ws.slot == first.slot
        verify(ws)
        objects = git(ws.path, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
        commits = {line.split()[0] for line in objects if line.split()[1] == "commit"}
        assert commits == {base, found.head}
        wanted = git(path, "rev-list", "--objects", "--no-walk", base, found.head).splitlines()
        assert {line.split()[0] for line in objects} == {line.split()[0] for line in wanted}
        assert other.head not in commits
        assert git(ws.path, "for-each-ref") == ""
        assert not (ws.git_dir / "objects/info/alternates").exists()
        assert not (ws.git_dir / "logs").exists()
        assert git(ws.path, "diff", "--stat", base, found.head).endswith("1 file changed, 1 insertion(+)")
        assert git(ws.path, "status", "--porcelain") == ""
        times = {entry.lstat().st_mtime for entry in ws.path.rglob("*") if ".git" not in entry.parts}
        assert times == {0}


def test_a_seat_that_judges_after_it_read_or_sees_others_gets_a_new_store(source: Path, tmp_path: Path) -> None:
    """What a slot held before does not stay in it."""
    base = head(source)
    one, two = squashed(source, {"a.txt": "1\n"})[0].head, squashed(source, {"a.txt": "2\n"})[0].head
    pool = Pool(tmp_path / "pool", repos.open_repo(source, environment()))
    workspace.lease(pool, RUN, "judge-1", base)
    for seen in (one, two):
        ws = workspace.lease(pool, RUN, "judge-1", base, sees=(seen,))
        said = git(ws.path, "cat-file", "--batch-all-objects", "--batch-check").splitlines()
        assert {line.split()[0] for line in said if " commit " in line} == {base, seen}

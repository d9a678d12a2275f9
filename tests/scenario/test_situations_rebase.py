"""Death in the middle of a rebase, beside a rebase of the person's own."""

import subprocess

from nightcrew.core.events import BaseSynced, Landed
from support import repos
from support.crew import LOCAL, Crew, Turn

HOLDS: Turn = {"node": "implement", "do": [{"replace": "note.txt", "old": "two\n", "new": "zwei\n"}, {"wait_for": "{state}/go"}]}
RESOLVES: Turn = {"node": "rebase", "do": [{"wait_for": "{state}/on"}, {"write": "note.txt", "text": "one\nzwei, deux\nthree\n"}]}


def mine_in_progress(crew: Crew) -> None:
    """The person's own rebase, stopped in a conflict, on a branch of theirs."""
    crew.git("switch", "-qc", "mine")
    repos.commit(crew.repo, {"own.txt": "mine\n"}, "mine")
    crew.git("switch", "-qc", "other", "HEAD^")
    repos.commit(crew.repo, {"own.txt": "other\n"}, "other")
    crew.git("switch", "-q", "mine")
    stopped = subprocess.run(["git", "rebase", "-q", "other"], cwd=crew.repo, capture_output=True, check=False)
    assert stopped.returncode == 1
    assert (crew.repo / ".git/rebase-merge").is_dir()


def test_killed_in_the_middle_of_a_rebase(crew: Crew) -> None:
    """S263: killed while the fixer resolves: the rebase is finished after the restart; the person's own rebase is left alone."""
    crew.settle(pipeline={"plan": False, "reviewers": 0}, land=LOCAL, verify={"gate": ["grep -q zwei note.txt"]})
    crew.play(HOLDS, RESOLVES)
    mine_in_progress(crew)
    process = crew.start("run", "say it in German")
    crew.begun(process, "impl-A")
    crew.git("clone", "-q", "--shared", "--branch", "main", ".", str(crew.folder / "clone"))
    theirs = repos.commit(crew.folder / "clone", {"note.txt": "one\ndeux\nthree\n"}, "somebody else")
    crew.git("fetch", "-q", str(crew.folder / "clone"), "main:main")
    mine = crew.mine()
    (crew.played / "go").touch()
    crew.until(lambda e: isinstance(e, BaseSynced) and e.state == "conflict", process)
    crew.kill(process)

    (crew.played / "on").touch()
    done = crew.call("resume", crew.run)

    assert done.code == 0, done
    assert crew.git("rev-parse", "main^") == theirs
    assert crew.shown("main", "note.txt") == "one\nzwei, deux\nthree\n"
    assert (len(crew.facts(Landed)), crew.seats()[:2]) == (1, ["alpha@implement", "alpha@rebase"])
    assert crew.mine() == mine
    assert (crew.repo / ".git/rebase-merge").is_dir()

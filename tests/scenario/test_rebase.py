"""The target moves into a conflict: the fixer resolves it, or it is undone; what is there already is seen."""

from pathlib import Path

import pytest

from nightcrew.core.events import BaseSynced, DevFixTriggered, HandlerCrashed, Landed, StepFailed
from support import repos
from support.crew import LOCAL, Crew, Turn, until

HOLDS: Turn = {"node": "implement", "do": [{"replace": "note.txt", "old": "two\n", "new": "zwei\n"}, {"wait_for": "{state}/go"}]}
STAYS: Turn = {"node": "dev-fix", "do": [{"hang": "plain"}]}
GATE = "grep -q . note.txt"


def moved(crew: Crew, *turns: Turn, files: repos.Files, **tables: object) -> tuple[str, str]:
    """A run whose target gets `files` while its agent works; that commit, and what came before."""
    crew.settle(**{"pipeline": {"plan": False, "reviewers": 0}, "land": LOCAL, "verify": {"gate": [GATE]}, **tables})
    crew.play(HOLDS, *turns)
    base = crew.git("rev-parse", "main")
    crew.git("switch", "-qc", "mine")
    crew.git("switch", "-q", "main")
    crew.driven.append(crew.start("run", "say it in German"))
    crew.begun(crew.driven[0], "impl-A")
    theirs = repos.commit(crew.repo, files, "somebody else")
    crew.git("switch", "-q", "mine")
    (crew.played / "go").touch()
    return theirs, base


CLASH = {"note.txt": "one\ndeux\nthree\n"}


def test_the_fixer_resolves_a_conflict(crew: Crew) -> None:
    """T108: the same line on both sides: one rebase round with the path in the prompt, no marker left, landed on top."""
    resolve = {"node": "rebase", "do": [{"must_read": "note.txt"}, {"write": "note.txt", "text": "one\nzwei, deux\nthree\n"}]}
    theirs, _ = moved(crew, resolve, files=CLASH)

    done = crew.end(crew.driven[0])

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@rebase", "alpha@commit"]
    assert crew.git("rev-parse", "main^") == theirs
    assert crew.shown("main", "note.txt") == "one\nzwei, deux\nthree\n"
    assert [e.paths for e in crew.facts(BaseSynced) if e.state == "conflict"] == [("note.txt",)]


def test_a_fixer_that_aborts_the_rebase(crew: Crew) -> None:
    """T110: the base is missing from the result: terminal, the branch is where it was, the target too."""
    theirs, _ = moved(crew, {"node": "rebase", "do": [{"run": "git rebase --abort"}]}, STAYS, files=CLASH)
    process = crew.driven[0]

    crew.until(lambda event: isinstance(event, DevFixTriggered), process)
    head = crew.state().winning
    crew.call("cancel", crew.run)

    assert crew.end(process).code == 1
    assert head is not None
    assert "zwei" in crew.shown(head.change.head, "note.txt")
    assert crew.facts(BaseSynced)[-1].state == "undone"
    assert crew.git("rev-parse", "main") == theirs
    assert crew.facts(Landed) == []


BROKEN = [
    "echo x > .git/HEAD",
    ": > .git/index",
    "echo x > .git/packed-refs",
    "echo 1234567890123456789012345678901234567890 > $(find .git/refs/heads -type f)",
    "for f in $(find .git/objects -type f -path '*/??/*'); do chmod u+w $f; : > $f; done",
]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_fixer_that_breaks_the_git_folder(crew: Crew, broken: str) -> None:
    """What git cannot read any more is made anew, whatever stands in the files: the run goes on and lands, no step fails."""
    resolve = {"write": "note.txt", "text": "one\nzwei, deux\nthree\n"}
    breaks: Turn = {"node": "rebase", "turn": 1, "do": [resolve, {"run": broken}]}
    moved(crew, breaks, {"node": "rebase", "do": [resolve]}, files=CLASH)

    done = crew.end(crew.driven[0])

    assert done.code == 0, done
    assert crew.shown("main", "note.txt") == "one\nzwei, deux\nthree\n"
    assert crew.facts(StepFailed) == crew.facts(HandlerCrashed) == []


@pytest.mark.parametrize("make", ["git init -q", "git init -q; echo x > a; git add .; git commit -qm a; git -C .. add in"])
def test_a_fixer_that_makes_a_repository_inside(crew: Crew, make: str) -> None:
    """A repository that a fixer of a conflict makes inside the tree is a plain folder in what lands, never a link to nowhere."""
    resolve = [{"write": "note.txt", "text": "one\nzwei, deux\nthree\n"}, {"run": f"mkdir in; cd in; {make}; echo x > b"}]
    moved(crew, {"node": "rebase", "do": resolve}, files=CLASH)

    done = crew.end(crew.driven[0])

    assert done.code == 0, done
    assert crew.shown("main", "in/b") == "x\n"
    assert "160000" not in crew.git("ls-tree", "-r", "main")


def test_the_same_change_is_there_already(crew: Crew) -> None:
    """T116: somebody landed the same change meanwhile: `already landed`, exit 0, no review, no commit of ours."""
    theirs, _ = moved(crew, files={"note.txt": "one\nzwei\nthree\n"})

    done = crew.end(crew.driven[0])

    assert done.code == 0, done
    assert "already landed" in done.out
    assert crew.git("rev-parse", "main") == theirs
    assert crew.seats() == ["alpha@implement"]


def test_a_push_that_meets_a_fast_neighbour(crew: Crew, tmp_path: Path) -> None:
    """Two runs of one repository land one after the other; the second is tested again on top of the first."""
    crew.settle(pipeline={"plan": False, "reviewers": 0}, land={"mode": "push", "target": "main"}, verify={"gate": [GATE]})
    repos.bare_remote(crew.repo, tmp_path / "remote.git")
    crew.play(
        {
            "node": "implement",
            "do": [{"write": "{run}.txt", "text": "x\n"}, {"write": "{state}/there/{run}"}, {"wait_for": "{state}/go"}],
        }
    )

    both = [crew.start("run", "one more file") for _ in range(2)]
    until(lambda: len(list((crew.played / "there").glob("*"))) == 2)
    (crew.played / "go").touch()
    ends = [crew.end(process) for process in both]

    assert [end.code for end in ends] == [0, 0], ends
    remote = tmp_path / "remote.git"
    names = set(repos.git(remote, "ls-tree", "--name-only", "main").splitlines())
    assert {f"{run}.txt" for run in crew.runs()} <= names
    assert repos.git(remote, "rev-list", "--count", "main") == "3"

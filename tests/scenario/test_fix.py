"""The operator picks findings of a run that stands: refused with nothing recorded, or fixed, reviewed and gated again."""

import json
import re

import pytest

from nightcrew.core.events import CommandsEnded, FixAsked, TurnEnded
from nightcrew.core.work import PipelinePhase
from support.crew import APPROVES, Crew, Done, Turn, until

GATE = "grep -q four note.txt"
TWO = json.dumps(
    {
        "vote": "approve_with_findings",
        "findings": [
            {"severity": "minor", "why": "no trailing word", "file": "note.txt", "line": 1},
            {"severity": "minor", "why": "no other file", "file": "nowhere.txt", "line": 99},
        ],
    }
)
FIXED = json.dumps({"addressed": ["R1-1-1", "R9-9-9"], "rejected": {}})
FIRST: Turn = {"node": "review", "turn": 1, "do": [{"say": TWO}]}
FIX: Turn = {"node": "fix", "do": [{"must_read": "it is for tomorrow"}, {"write": "fixed.txt", "text": "x\n"}, {"say": FIXED}]}
WHY = ("--reason", "it is for tomorrow")


def ready(crew: Crew, *turns: Turn) -> None:
    """A run that is ready on its branch, with two small findings."""
    crew.settle(pipeline={"plan": False}, verify={"gate": [GATE]})
    crew.play(*turns, FIRST)
    assert crew.call("run", "write the note").code == 0
    assert crew.state().phase is PipelinePhase.Complete


def asked(crew: Crew, *args: str) -> Done:
    """`nightcrew fix` of that run."""
    return crew.call("fix", crew.run, *args)


def branch(crew: Crew) -> str:
    """The finished branch."""
    landing = crew.state().landing
    assert landing is not None
    return landing.branch


def test_one_finding_of_a_ready_run_is_fixed(crew: Crew) -> None:
    """T099: one of two small findings is picked, twice named: the fix is on the branch, reviewed and gated again; only that one is reported."""
    ready(crew, FIX)
    name, before = branch(crew), crew.git("rev-parse", branch(crew))

    done = asked(crew, "R1-1-1", "R1-1-1", *WHY)

    assert done.code == 0, done
    assert "ready" in done.out
    assert crew.seats() == [f"alpha@{n}" for n in ("implement", "review", "commit", "fix", "review")]
    assert crew.shown(name, "fixed.txt") == "x\n"
    assert crew.git("rev-list", "--count", f"main..{name}").strip() == "1"
    assert crew.git("rev-parse", name) != before
    (fact,) = crew.facts(FixAsked)
    assert ([f.id for f in fact.findings], fact.reason, fact.stale) == (["R1-1-1"], WHY[1], False)
    assert len([e for e in crew.facts(CommandsEnded) if "/gate/" in e.key]) == 2
    told = crew.call("show", crew.run).out
    assert f"a fix of R1-1-1 is asked for: {WHY[1]}" in told.partition("Your words")[2].partition("Phases")[0]
    assert "R1-1-1: addressed, says alpha" in told
    assert "R1-1-2: " not in told
    assert "R9-9-9, which it was not given" in told
    assert (crew.state_home / "runs" / crew.run / "completion_marker").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("R99-9-9", *WHY), "R99-9-9"),
        (("R1-1-1", "R99-9-9", *WHY), "R99-9-9"),
        (("R1-1-1", "--reason", "  "), "reason"),
        (("R1-1-1",), "reason"),
    ],
)
def test_a_fix_that_cannot_be_asked_for(crew: Crew, words: tuple[str, ...], says: str) -> None:
    """F27, T100, T101: an unknown finding, even beside a known one, or no reason: one line, exit 2, nothing recorded."""
    ready(crew)
    before = crew.entries()

    refused = asked(crew, *words)

    assert refused.code == 2
    assert says in refused.line
    assert (crew.entries(), crew.seats()[3:]) == (before, [])


def test_a_fix_of_a_run_that_is_driven(crew: Crew) -> None:
    """F27, T103, T105: refused as worked on, with who does it; of two fixes at once one is made."""
    ready(crew, {"node": "fix", "do": [{"wait_for": "{state}/go"}, {"write": "fixed.txt", "text": "x\n"}, {"say": FIXED}]})
    first = crew.start("fix", crew.run, "R1-1-1", *WHY)
    crew.begun(first, "impl-A", crew.run)
    crew.until(lambda e: isinstance(e, FixAsked), first, crew.run)

    refused = asked(crew, "R1-1-2", *WHY)

    assert refused.code == 2
    assert str(first.pid) in refused.line
    (crew.played / "go").touch()
    assert crew.end(first).code == 0
    assert len(crew.facts(FixAsked)) == 1


def test_a_fix_after_its_driver_died(crew: Crew) -> None:
    """T104: killed in the middle of a fix: no lock is left, `resume` ends it, the fixer was started once."""
    ready(crew, {"node": "fix", "do": [{"wait_for": "{state}/go"}, {"write": "fixed.txt", "text": "x\n"}, {"say": FIXED}]})
    first = crew.start("fix", crew.run, "R1-1-1", *WHY)
    crew.until(lambda e: isinstance(e, FixAsked), first, crew.run)
    until(lambda: "alpha@fix" in crew.seats())
    crew.kill(first)
    assert "resume" in asked(crew, "R1-1-2", *WHY).line
    (crew.played / "go").touch()

    assert crew.call("resume", crew.run).code == 0

    assert crew.seats().count("alpha@fix") == 1
    assert crew.shown(branch(crew), "fixed.txt") == "x\n"


def test_a_branch_that_moved(crew: Crew) -> None:
    """F27, T106: somebody put a commit on the branch: refused; allowed, it is part of the work, recorded as stale, and not lost."""
    ready(crew, FIX)
    name = branch(crew)
    crew.git("switch", "-q", name)
    (crew.repo / "theirs.txt").write_text("theirs\n")
    crew.git("add", "theirs.txt")
    crew.git("commit", "-qm", "theirs")
    theirs = crew.git("rev-parse", "HEAD").strip()
    assert "checked out" in asked(crew, "R1-1-1", *WHY, "--allow-stale").line
    crew.git("switch", "-q", "main")
    before = crew.entries()

    refused = asked(crew, "R1-1-1", *WHY)
    assert refused.code == 2
    assert "--allow-stale" in refused.line
    assert crew.entries() == before

    done = asked(crew, "R1-1-1", *WHY, "--allow-stale")
    assert done.code == 0, done
    assert [fact.stale for fact in crew.facts(FixAsked)] == [True]
    assert (crew.shown(name, "theirs.txt"), crew.shown(name, "fixed.txt")) == ("theirs\n", "x\n")
    assert theirs in crew.git("for-each-ref", "--format=%(objectname)")


def test_a_fixer_that_refuses_with_a_reason(crew: Crew) -> None:
    """T099: rejected with a reason: told so, nothing reviewed or gated again, the branch is the same commit."""
    no = json.dumps({"addressed": [], "rejected": {"R1-1-1": "the format forbids it"}})
    ready(crew, {"node": "fix", "do": [{"say": no}]})
    before = crew.git("rev-parse", branch(crew))

    assert asked(crew, "R1-1-1", *WHY).code == 0

    assert crew.seats()[3:] == ["alpha@fix"]
    assert crew.git("rev-parse", branch(crew)) == before
    assert "R1-1-1: rejected, the format forbids it" in crew.call("show", crew.run).out


def test_a_fixer_that_does_nothing_and_says_nothing(crew: Crew) -> None:
    """A fix that did not happen looks like none: the work is told as it was before, the finding as unreported."""
    ready(crew, {"node": "fix", "do": [{"say": "I looked."}]})
    done = asked(crew, "R1-1-1", *WHY)
    assert done.code == 0, done
    assert "R1-1-1: unreported, alpha says nothing of it" in done.out
    assert re.search(r"work collected: 1 file, \+\d+ -\d+ as before", done.out)


def test_a_panel_of_two_is_two_processes_at_once(crew: Crew) -> None:
    """T064: two reviewers work at the same time, each in a folder and seat of its own; both findings are fixed in one round."""
    meet: list[dict[str, str]] = [{"write": "{state}/{seat}", "text": ""}]

    def found(seat: str, other: str) -> Turn:
        answer = {"vote": "reject", "findings": [{"severity": "blocker", "why": f"{seat} misses it"}]}
        steps = [*meet, {"wait_for": f"{{state}}/{other}"}, {"say": json.dumps(answer)}]
        return {"node": "review", "seat": seat, "turn": 1, "do": steps}

    both = [{"must_read": "R1-1-1 [blocker]"}, {"must_read": "R1-2-1 [blocker]"}, {"write": "fixed.txt", "text": "x\n"}]
    crew.settle(*crew.agents("alpha", "beta"), pipeline={"plan": False, "reviewers": 2}, verify={"gate": [GATE]})
    turns = (found("review-1", "review-2"), found("review-2", "review-1"))
    crew.play(*turns, {"node": "fix", "do": [*both, {"say": FIXED}]}, {"node": "review", "do": [{"say": APPROVES}]})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    reviews = [start for start in crew.starts() if start["node"] == "review"]
    assert sorted(start["seat"] for start in reviews) == ["review-1", "review-1", "review-2", "review-2"]
    assert {start["agent"] for start in reviews} == {"alpha", "beta"}
    assert crew.state().reviewing.round == 2
    assert all(e.outcome.kind == "ok" for e in crew.facts(TurnEnded))

"""Review: findings are fixed in rounds, progress is the diff, an answer in the wrong shape is asked for again."""

import json

from nightcrew.core.events import CommandsEnded, TurnEnded, WorkCollected
from nightcrew.core.work import Purpose, Reviewed
from support.crew import APPROVES, LOCAL, Crew, Turn, rejects

FIXED = json.dumps({"addressed": ["R1-1-1"], "rejected": {}})
FIX: Turn = {"node": "fix", "do": [{"must_read": "R1-1-1"}, {"write": "fixed.txt", "text": "x\n"}, {"say": FIXED}]}
GATE = "grep -q four note.txt"


def reviewed(crew: Crew, *turns: Turn, **tables: object) -> None:
    """Implement, review, fix; no plan."""
    small = {"pipeline": {"plan": False}, "land": LOCAL, "verify": {"gate": [GATE]}}
    crew.settle(**{**small, **tables})
    crew.git("switch", "-qc", "mine")
    crew.play(*turns)


def votes(crew: Crew) -> list[str]:
    """The reviewers' votes in order."""
    reports = [e.outcome.report for e in crew.facts(TurnEnded)]
    return [str(r.vote) for r in reports if isinstance(r, Reviewed)]


def test_a_blocker_is_fixed_in_the_second_round(crew: Crew) -> None:
    """T081: one blocker, fixed: the next round is clean, no finding is open, landed with the fix."""
    first = {"node": "review", "turn": 1, "do": [{"say": rejects("there is no fixed.txt")}]}
    reviewed(crew, first, FIX)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == [f"alpha@{n}" for n in ("implement", "review", "fix", "review", "commit")]
    assert votes(crew) == ["reject", "approve"]
    assert crew.state().open_findings == ()
    assert crew.shown("main", "fixed.txt") == "x\n"


def test_e2e_is_put_off_while_a_blocker_is_open(crew: Crew) -> None:
    """T082, T083: round 1 has a blocker and rounds are left: e2e waits; round 2 is clean with exactly one real e2e run."""
    first = {"node": "review", "turn": 1, "do": [{"say": rejects("there is no fixed.txt")}]}
    reviewed(crew, first, FIX, verify={"gate": [GATE], "e2e": ["test -e fixed.txt"]})

    assert crew.call("run", "write the note").code == 0

    ran = [e for e in crew.facts(CommandsEnded) if f"/{Purpose.E2e}/" in e.key]
    assert [e.green for e in ran] == [True]


def test_a_fixer_that_only_claims(crew: Crew) -> None:
    """T080: two rounds without a diff end the rounds, whatever is claimed; the finding goes on as open."""
    claim = {"node": "fix", "do": [{"say": FIXED}]}
    reviewed(crew, {"node": "review", "do": [{"say": rejects("there is no fixed.txt")}]}, claim, land={})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats().count("alpha@fix") == 2
    assert len(crew.state().open_findings) == 1
    assert "ready" in done.out


def test_open_findings_after_the_last_round(crew: Crew) -> None:
    """T077: findings that never clear, two rounds: the gate is green, the branch is ready, the findings are listed."""
    busy = {"node": "fix", "do": [{"append": "tries.txt", "text": "try\n"}, {"say": FIXED}]}
    pipeline = {"plan": False, "review_rounds": 2}
    reviewed(crew, {"node": "review", "do": [{"say": rejects("never good")}]}, busy, pipeline=pipeline, land={})

    assert crew.call("run", "write the note").code == 0

    assert crew.seats().count("alpha@review") == 2
    assert "never good" in crew.call("show", crew.run).out


def test_a_wrong_shape_is_asked_again(crew: Crew) -> None:
    """A review without the JSON is asked for once more in the same conversation, then counts."""
    prose = {"node": "review", "turn": 1, "do": [{"say": "Looks fine to me."}]}
    again = {"node": "review", "turn": 2, "resumed": True, "do": [{"must_read": "JSON"}, {"say": APPROVES}]}
    reviewed(crew, prose, again)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@review", "alpha@review", "alpha@commit"]


def test_a_reviewer_that_writes(crew: Crew) -> None:
    """A read-only seat that changes its workspace gave a void answer; without a sandbox for files it is told by git."""
    meddles = {"node": "review", "turn": 1, "do": [{"write": "mine.txt", "text": "x\n"}, {"say": APPROVES}]}
    reviewed(crew, meddles, sandbox={"mode": "off"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@review", "alpha@review", "alpha@commit"]
    assert [e.outcome.violated for e in crew.facts(TurnEnded) if "/review/" in e.key] == [True, False]
    assert "mine.txt" not in crew.git("ls-tree", "-r", "--name-only", "main")
    assert len(crew.facts(WorkCollected)) == 1

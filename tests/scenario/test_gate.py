"""A red gate: fixed in rounds by the fixer; for ever red it enters AwaitingDevFix. Formatters before it."""

import json

import pytest

from nightcrew.core.events import (
    CommandsEnded,
    CompletionMarkerEmitted,
    DevFixTriggered,
    HandlerCrashed,
    LandingRefused,
    TurnEnded,
    WorkCollected,
)
from nightcrew.core.roster import AgentRole
from nightcrew.core.work import PipelinePhase
from support.crew import SUBJECT, Crew, Turn
from support.repos import commit, write


def triggered(event: object) -> bool:
    """Whether a terminal failure was entered."""
    return isinstance(event, DevFixTriggered)


STAYS: Turn = {"node": "dev-fix", "do": [{"hang": "plain"}]}
"""A dev-fix that takes for ever, so that a story can look at the failure before it."""


def cancelled(crew: Crew) -> list[str]:
    """Run until a terminal failure, cancel there; who was asked until then."""
    process = crew.start("run", "write the note")
    crew.until(triggered, process)
    said = crew.call("cancel", crew.run)
    assert said.code == 0, said
    done = crew.end(process)
    assert done.code == 1, done
    state = crew.state()
    assert state.phase is PipelinePhase.Interrupted
    assert [e.is_failure for e in crew.facts(CompletionMarkerEmitted)] == [True]
    marker = json.loads((crew.state_home / "runs" / crew.run / "completion_marker").read_text())
    assert marker["is_failure"] is True
    assert "cancelled" in marker["reason"]
    return [seat for seat in crew.seats() if not seat.endswith("dev-fix")]


def gates(crew: Crew, line: str) -> list[bool]:
    """How a gate command ended each time, preflight included."""
    return [r.green for e in crew.facts(CommandsEnded) for r in e.results if r.command == line]


def test_the_fixer_makes_the_gate_green(crew: Crew) -> None:
    """T012: red until gatefix.txt exists: one gate-fix with the failed output in its prompt, the gate green, landed."""
    fix = {"node": "gate-fix", "do": [{"must_read": "no gatefix here"}, {"write": "gatefix.txt", "text": "x\n"}]}
    gate = "test -e gatefix.txt || { echo no gatefix here; exit 1; }"
    crew.solo(fix, gate=gate)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@gate-fix", "alpha@commit"]
    assert gates(crew, gate) == [False, False, True]
    assert crew.shown("main", "gatefix.txt") == "x\n"
    assert crew.git("rev-list", "--count", "mine..main") == "1"


def test_a_gate_that_stays_red(crew: Crew) -> None:
    """T014: after two gate-fix rounds the run is in trouble: role fixer, phase FinalValidation; the target did not move."""
    crew.solo({"node": "gate-fix", "do": [{"append": "tries.txt", "text": "try\n"}]}, STAYS, gate="echo broken; exit 1")
    base = crew.git("rev-parse", "main")

    assert cancelled(crew) == ["alpha@implement", "alpha@gate-fix", "alpha@gate-fix"]

    first = crew.facts(DevFixTriggered)[0]
    assert (first.failed_phase, first.failed_role) == (PipelinePhase.FinalValidation, AgentRole.Fixer)
    assert crew.git("rev-parse", "main") == base
    assert crew.facts(LandingRefused) == []


def test_a_gate_that_does_not_end(crew: Crew) -> None:
    """T015: a timeout is nothing that a fixer could mend: no gate-fix round is spent."""
    slow = "grep -q four note.txt || exit 1; sleep 600"
    verify = {"gate": [slow], "timeout": "1s"}
    crew.solo(STAYS, verify=verify)

    assert cancelled(crew) == ["alpha@implement"]

    assert crew.facts(CommandsEnded)[-1].results[0].timed_out


def test_a_fixer_that_changes_nothing(crew: Crew) -> None:
    """T016: without a change there is no second try."""
    crew.solo({"node": "gate-fix", "do": [{"say": "All is well."}]}, STAYS, gate="echo broken; exit 1")

    assert cancelled(crew) == ["alpha@implement", "alpha@gate-fix"]


def test_recovery_brings_it_home(crew: Crew) -> None:
    """A terminal failure is entered, the dev-fix mends the cause, the phase is made again, the run lands."""
    fix = {"node": "dev-fix", "do": [{"write": "cure.txt", "text": "x\n"}, {"say": "Cured."}]}
    crew.solo({"node": "gate-fix", "do": [{"say": "No idea."}]}, fix, gate="test -e cure.txt || { echo ill; exit 1; }")

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@gate-fix", "alpha@dev-fix", "alpha@commit"]
    assert crew.shown("main", "cure.txt") == "x\n"
    assert [type(e).__name__ for e in (x.event for x in crew.entries()) if type(e).__name__.startswith(("Dev", "Recovery"))] == [
        "DevFixTriggered",
        "DevFixCompleted",
        "RecoveryAttempted",
        "RecoverySucceeded",
    ]


def test_what_does_not_land_does_not_make_the_gate_green(crew: Crew) -> None:
    """Decision 0031: ignored files are gone before the gate unless set-up or a formatter made them, they are kept, or were copied."""
    commit(crew.repo, {".gitignore": "local.txt\nmade/\nstyle\nkept/\ncache/\n.env\n"})
    write(crew.repo, {".env": "x\n"})
    left: list[Turn] = [{"write": name, "text": "four\n"} for name in ("local.txt", "made/more", "kept/more", "note.txt")]
    look = "echo $(ls -A . made kept); mkdir -p cache; touch cache/x; test -e local.txt"
    verify = {
        "setup": ["mkdir made; touch made/tool"],
        "pre_gate": ["touch style"],
        "gate": [look],
        "copy": [".env"],
        "keep": ["kept/"],
    }
    crew.solo({"node": "implement", "do": left}, {"node": "gate-fix", "do": [{"say": "No."}]}, STAYS, verify=verify)

    assert cancelled(crew) == ["alpha@implement", "alpha@gate-fix"]

    gate = next(e for e in crew.facts(CommandsEnded) if e.tree)
    said, seen = gate.results[0].output.tail.splitlines()
    assert "cache/x, local.txt, made/more; 3 files" in said
    assert {".env", "tool", "style", "more", "kept"} <= set(seen.split())
    assert not {"local.txt", "cache"} & set(seen.split())


def test_a_formatter_before_the_gate(crew: Crew) -> None:
    """T017: what pre_gate changes is one commit of its own before the gate."""
    crew.solo(verify={"pre_gate": ["echo formatted >> style.txt"], "gate": ["test -e style.txt"]})

    assert crew.call("run", "write the note").code == 0

    collected = [e for e in crew.facts(WorkCollected) if "/pre_gate/" in e.key]
    assert len(collected) == 1
    assert crew.shown("main", "style.txt") == "formatted\n"


def test_a_formatter_that_fails(crew: Crew) -> None:
    """T019: pre_gate exits 3: recorded, the gate still runs, the run lands."""
    crew.solo(verify={"pre_gate": ["exit 3"], "gate": ["grep -q four note.txt"]})

    assert crew.call("run", "write the note").code == 0

    codes = [r.code for e in crew.facts(CommandsEnded) for r in e.results if r.command == "exit 3"]
    assert codes == [3]


def test_no_formatter(crew: Crew) -> None:
    """T020: without pre_gate there is no fact of that node."""
    crew.solo()

    assert crew.call("run", "write the note").code == 0

    assert not [e for e in crew.entries() if "pre_gate" in str(getattr(e.event, "key", ""))]


def test_a_finished_gate_is_not_run_again(crew: Crew) -> None:
    """T021: resume of an interrupted run says how it stands and starts nothing."""
    crew.solo({"node": "gate-fix", "do": [{"say": "All is well."}]}, STAYS, gate="echo broken; exit 1")
    cancelled(crew)
    before, starts = len(crew.entries()), len(crew.starts())

    again = crew.call("resume", crew.run)

    assert again.code == 1, again
    assert "interrupted" in again.out
    assert (len(crew.entries()), len(crew.starts())) == (before, starts)


def test_a_gate_that_is_known_is_not_run_again(crew: Crew) -> None:
    """Rulings 19: the target moves by a commit without a change: same tree, lines and environment, so the gate is known; it lands on that tip."""
    empty = crew.git("commit-tree", "-p", "main", "-m", "empty", "main^{tree}")
    moves = {"run": f"git -C {crew.repo} update-ref refs/heads/main {empty}"}
    line = f"echo gate >> {crew.played}/gates; grep -q four note.txt"
    crew.solo({"node": "commit", "do": [moves, {"say": SUBJECT}]}, gate=line, sandbox={"mode": "off"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.git("log", "--format=%s", "-2", "main").splitlines() == ["Write the note", "empty"]
    assert [(e.green, e.cached) for e in crew.facts(CommandsEnded)] == [(False, False), (True, False), (True, True)]
    assert (crew.played / "gates").read_text().split() == ["gate"] * 2  # on the base, and on the work


def test_the_bill_counts_every_process(crew: Crew) -> None:
    """Spend: each turn of every node once, with the money that the agents told."""
    usage = {"usage": {"tokens": 10, "usd": 0.25}}
    work = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, usage]}
    crew.solo(work, {"node": "commit", "do": [usage, {"say": SUBJECT}]})

    assert crew.call("run", "write the note").code == 0

    state = crew.state()
    assert state.spend.turns == len(crew.starts()) == len(crew.facts(TurnEnded))
    assert state.spend.usd == 0.5
    assert state.spend.tokens == 20


@pytest.mark.parametrize("ruin", ["rm -rf -- * .git", "echo x > .git/index; rm -r .git/refs; echo x > x.txt"])
def test_a_gate_that_ruins_the_workspace(crew: Crew, ruin: str) -> None:
    """What a command of the gate says counts, red and green, whatever it leaves of the workspace; that is mended, and no fault of ours."""
    gate = f"test -e cured.txt; code=$?; {ruin}; echo ill; exit $code"
    crew.solo({"node": "gate-fix", "do": [{"must_read": "ill"}, {"write": "cured.txt", "text": "x\n"}]}, gate=gate)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert [event.results[0].code for event in crew.facts(CommandsEnded)] == [1, 1, 0]
    assert crew.git("diff", "--stat", "--format=", "mine", "main").splitlines()[-1].strip().startswith("2 files changed, 2 ins")
    assert (crew.facts(HandlerCrashed), crew.state().trouble) == ([], None)
    if "x.txt" in ruin:
        assert crew.shown(crew.facts(CommandsEnded)[-1].rescued, "x.txt") == "x\n"

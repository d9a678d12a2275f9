"""The plain night: plan, work, review, gate, message, landing; each agent process is counted."""

import json

from nightcrew.core.events import CommandsEnded, TurnEnded
from support import repos
from support.crew import LOCAL, Crew


def test_a_task_lands(crew: Crew) -> None:
    """T056: everybody does its duty: one commit with the agent's message on the target, the person's checkout as it was."""
    crew.settle(land=LOCAL, verify={"gate": ["grep -q four note.txt"]})
    crew.play()
    crew.git("switch", "-qc", "mine")
    repos.write(crew.repo, {"note.txt": "my own words\n", "new ☃.txt": "x"})
    mine, base = crew.mine(), crew.git("rev-parse", "main")

    done = crew.call("run", "write", "the", "note")

    assert done.code == 0, done
    assert crew.seats() == ["alpha@plan", "alpha@implement", "alpha@review", "alpha@commit"]
    assert crew.git("log", "--format=%s", f"{base}..main") == "Write the note"
    assert crew.shown("main", "note.txt").endswith("three\nfour\n")
    assert crew.mine() == mine
    green = [e for e in crew.facts(CommandsEnded) if e.green]
    assert green[-1].results[0].command == "grep -q four note.txt"
    assert crew.state().spend.turns == len(crew.starts()) == len(crew.facts(TurnEnded))
    marker = json.loads((crew.state_home / "runs" / crew.run / "completion_marker").read_text())
    assert (marker["is_failure"], marker["reason"], marker["run_id"]) == (False, "landed", crew.run)
    assert json.loads((crew.repo / ".agent/tmp/completion_marker").read_text()) == marker


def test_a_finished_branch_is_left(crew: Crew) -> None:
    """The default mode `branch`: exit 0, `ready`, the command that merges it; the target stays where it was."""
    crew.settle(pipeline={"plan": False, "reviewers": 0}, verify={"gate": ["grep -q four note.txt"]})
    crew.play()
    base = crew.git("rev-parse", "main")

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    landing = crew.state().landing
    assert landing is not None
    assert f"git merge --ff-only {landing.branch}" in done.out
    assert crew.git("rev-parse", "main") == base
    assert crew.git("rev-list", "--count", f"main..{landing.branch}") == "1"
    crew.git("merge", "-q", "--ff-only", landing.branch)
    assert f"git merge --ff-only {landing.branch}" in crew.call("show").out
    assert f"removed branch {landing.branch}" in crew.call("clean").out
    shown = crew.call("show").out
    assert (f"clean removed branch {landing.branch}" in shown, "merge --ff-only" in shown, "undo" in shown) == (
        True,
        False,
        False,
    )

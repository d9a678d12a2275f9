"""Law 8, watched at every git call of whole runs: no commit and no unsaved file becomes unreachable; `clean` takes what is proven alone."""

import json
import subprocess
from pathlib import Path

import pytest

from nightcrew.core.events import Landed, RecoveryAttempted, WorkspaceReset
from nightcrew.core.work import PipelinePhase
from support import repos, watched
from support.crew import APPROVES, Crew, rejects, until

MESS = (
    "echo one > a.txt; git add a.txt; git commit -qm mine; git checkout -q --detach; echo two > b.txt; git add -A; git commit -qm loose;"
    "git switch -qc elsewhere; echo three > c.txt; git stash -q -u; echo four >> note.txt; echo half > d.txt"
)


def losses(log: Path) -> list[object]:
    """What went at a call, but for the refs of a run whose work is proven landed."""
    return [
        (note["words"], note["lost"], note["files"])
        for note in watched.seen(log)
        if (note["lost"] and not note["dropped"]) or note["files"]
    ]


def verbs(log: Path) -> set[object]:
    """Which calls were watched."""
    return {note["verb"] for note in watched.seen(log)}


def test_the_watch_sees_what_is_lost(crew: Crew) -> None:
    """The watching git itself: a reset over an unsaved file, and a branch that is deleted with its reflog, are noted."""
    log = watched.dress(crew)
    slot = crew.state_home / "worktrees/x/slot"
    repos.git(crew.folder, "clone", "-q", str(crew.repo), str(slot))
    repos.write(slot, {"note.txt": "unsaved\n"})
    subprocess.run(["git", "reset", "-q", "--hard"], cwd=slot, env=crew.env, check=True)
    crew.git("switch", "-qc", "side")
    repos.commit(crew.repo, {"side.txt": "x\n"})
    crew.git("switch", "-q", "main")
    crew.git("reflog", "expire", "--expire=now", "--all")
    subprocess.run(["git", "branch", "-D", "side"], cwd=crew.repo, env=crew.env, check=True, capture_output=True)
    assert [(bool(note["lost"]), bool(note["files"])) for note in watched.seen(log)] == [(False, True), (True, False)]


def test_a_rich_night_loses_nothing(crew: Crew) -> None:
    """An agent that leaves commits here and there, a stash and loose files; litter of a gate; a reader that meddles; a target that moves into a conflict."""
    fixed = json.dumps({"addressed": ["R1-1-1"], "rejected": {}})
    crew.play(
        {
            "node": "implement",
            "do": [{"run": MESS}, {"replace": "note.txt", "old": "two", "new": "zwei"}, {"wait_for": "{state}/go"}],
        },
        {
            "node": "review",
            "turn": 1,
            "do": [{"run": "echo x > meddled.txt; git add -A; git commit -qm meddled"}, {"say": APPROVES}],
        },
        {"node": "review", "turn": 2, "do": [{"say": rejects("there is no fixed.txt")}]},
        {"node": "fix", "do": [{"write": "fixed.txt"}, {"say": fixed}]},
        {"node": "gate-fix", "do": [{"write": "cured.txt"}]},
        {"node": "rebase", "do": [{"write": "note.txt", "text": "one\nzwei deux\nthree\nfour\n"}, {"run": "git add -A"}]},
    )
    gate = "echo litter > litter.txt; test -e cured.txt || { echo ill; exit 1; }"
    crew.settle(land={"mode": "local", "target": "main"}, verify={"gate": [gate]}, sandbox={"mode": "off"})
    crew.git("switch", "-qc", "mine")
    log = watched.dress(crew)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    until(lambda: list(crew.state_home.glob("worktrees/*/*/d.txt")))
    work = repos.git(crew.repo, "commit-tree", "-p", "main", "-m", "theirs", _tree(crew, "one\ndeux\nthree\n"))
    crew.git("update-ref", "refs/heads/main", work)
    (crew.played / "go").touch()
    process.wait(600)  # a watched run is slow

    done = crew.end(process)

    assert done.code == 0, done
    assert losses(log) == []
    assert {"reset", "clean", "rebase", "update-ref", "fetch", "add", "commit"} <= verbs(log)
    dropped = [n for n, note in enumerate(watched.seen(log)) if note["dropped"]]
    assert len(crew.facts(Landed)) == 1
    assert dropped
    assert crew.call("clean").code == 0
    assert losses(log) == []


def _tree(crew: Crew, text: str) -> str:
    """The tree of main with another note.txt."""
    blob = repos.git(crew.repo, "hash-object", "-w", "--stdin", stdin=text)
    lines = [line for line in crew.git("ls-tree", "main").splitlines() if not line.endswith("note.txt")]
    return repos.git(crew.repo, "mktree", stdin="\n".join([*lines, f"100644 blob {blob}\tnote.txt", ""]))


def test_a_night_that_fails_loses_nothing(crew: Crew) -> None:
    """A gate that never passes, set back four times at levels 2 and 3, then `clean`: all that was ever committed or left lying is reachable to the end."""
    crew.play(
        {"node": "implement", "do": [{"run": f"{MESS}; echo {{turn}} >> note.txt"}]},
        {"node": "gate-fix", "turn": 1, "do": [{"append": "tries.txt", "text": "again {turn}\n"}]},
    )
    crew.settle(
        pipeline={"plan": False, "reviewers": 0}, land={"mode": "local", "target": "main"}, sandbox={"mode": "off"},
        verify={"gate": ["echo litter > litter.txt; exit 1"]}, recovery={"dev_fix": False, "ceiling": 8, "pause": "0.01s", "pause_max": "0.01s"},
    )  # fmt: skip
    crew.git("switch", "-qc", "mine")
    log = watched.dress(crew)

    process = crew.start("run", "write the note")
    process.wait(600)
    done = crew.end(process)

    assert done.code == 1, done
    assert crew.state().phase is PipelinePhase.Interrupted
    levels = [e.level for e in crew.facts(RecoveryAttempted)]
    assert (levels[3:], len(crew.facts(WorkspaceReset))) == ([2, 2, 2, 3], 4)
    assert losses(log) == []
    kept = crew.call("clean")
    assert kept.code == 0
    assert losses(log) == []
    assert not any(note["lost"] for note in watched.seen(log))
    held = {commit for note in watched.seen(log) for commit in note["commits"]}  # type: ignore[attr-defined]
    assert held <= set(crew.git("rev-list", "--all", "--reflog").split())


@pytest.mark.parametrize("merged", [False, True])
def test_clean_takes_what_is_proven(crew: Crew, *, merged: bool) -> None:
    """`clean`: a finished branch goes when the target has it, else it stays and is listed; a run that is not over is left alone, and listed."""
    crew.solo(land={"mode": "branch", "target": "main"})
    assert crew.call("run", "write the note").code == 0
    landing = crew.state().landing
    assert landing is not None
    if merged:
        crew.git("branch", "-f", "main", landing.branch)

    done = crew.call("clean")

    assert done.code == 0, done
    assert (f"refs/heads/{landing.branch}" in repos.refs(crew.repo)) is not merged
    assert (f"removed branch {landing.branch}" in done.out) is merged
    assert (f"kept branch {landing.branch}: not landed on main" in done.out) is not merged
    crew.play({"node": "implement", "do": [{"hang": "plain"}]})
    process = crew.start("run", "another one")
    crew.begun(process, "impl-A")
    again = crew.call("clean", crew.run)
    assert "kept the run is not over" in again.out
    crew.call("cancel", crew.run)
    crew.end(process)

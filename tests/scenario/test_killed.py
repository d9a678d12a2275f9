"""kill -9 of nightcrew: what ran is adopted, nothing is asked twice, the end is the same."""

import json
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from nightcrew.core.events import CommandsEnded, EffectStarted, FixAsked, Landed, TurnEnded, WorkspacesDropped
from nightcrew.core.work import PipelinePhase
from nightcrew.proc import job
from support import dying, repos
from support.crew import Crew, rejects, until

CONTINUE = '{"word": "continue"}'

WAITS = {"node": "implement", "do": [{"wait_for": "{state}/go"}, {"append": "note.txt", "text": "four\n"}]}


@pytest.mark.parametrize("mode", ["bwrap", "unshare", "off"])
def test_a_running_agent_is_adopted(crew: Crew, mode: str) -> None:
    """Law 5, T104: nightcrew dies by kill -9 while the agent works; resume waits for the same process: one start, one bill."""
    crew.solo(WAITS, sandbox={"mode": mode})
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    before = crew.supervisor("implement")
    crew.kill(process)
    assert crew.supervisor("implement") == before
    shown = crew.call("show").out
    assert "(stopped: nobody drives it)" in shown
    assert f"next: nightcrew resume {crew.run[-4:]}" in shown

    again = crew.start("resume", crew.run)
    crew.until(lambda _: True, again)
    assert crew.supervisor("implement") == before
    (crew.played / "go").touch()
    done = crew.end(again)

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert crew.state().spend.turns == 2
    assert crew.shown("main", "note.txt").endswith("four\n")


def test_an_agent_that_ended_while_nobody_looked(crew: Crew) -> None:
    """The agent goes on without nightcrew and ends; resume takes its answer from the disk and starts nobody for it."""
    crew.solo(WAITS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    turn = next(crew.state_home.glob("runs/*/effects/StartTurn-implement-*/owner")).parent
    crew.kill(process)
    (crew.played / "go").touch()
    until(lambda: isinstance(job.look(turn), job.Exit))

    assert crew.call("resume", crew.run).code == 0

    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert len(crew.facts(TurnEnded)) == crew.state().spend.turns == 2


def die(crew: Crew, facts: int = 1, between: Callable[[], None] = lambda: None) -> int:
    """Drive the newest run to its end by drivers that each die by kill -9 after so many facts; how many there were."""
    drivers = 0
    while not crew.state().done:
        between()
        dying.dies(crew, facts)
        drivers += 1
        assert drivers < 300, crew.told()
    return drivers


def born(crew: Crew) -> None:
    """Start a run and kill its driver as soon as the run exists."""
    process = crew.start("run", "write the note")
    until(crew.runs)
    crew.kill(process)


def exact(crew: Crew) -> None:
    """Nothing was asked twice, paid twice or left behind."""
    keys = [e.key for e in crew.facts(EffectStarted)]
    assert len(keys) == len(set(keys))
    assert crew.state().spend.turns == len(crew.starts())
    assert len(crew.facts(Landed)) == 1
    kept = crew.facts(WorkspacesDropped)[-1].kept
    assert all(ref.startswith(f"refs/nightcrew/{crew.run}/") for ref in kept)  # states the work went through


def test_death_after_every_entry(crew: Crew) -> None:
    """T022: whoever drives the run dies by kill -9 after each fact it writes: the same end, no process, gate or commit more."""
    crew.solo()
    base = crew.git("rev-parse", "main")
    born(crew)

    assert die(crew) > 20

    exact(crew)
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert len(crew.facts(CommandsEnded)) == 2
    assert repos.refs(crew.repo, "refs/nightcrew/rescue") == {}
    assert crew.git("log", "--format=%s", f"{base}..main") == "Write the note"


def test_death_after_every_third_entry_of_a_rich_night(crew: Crew, tmp_path: Path) -> None:
    """The same with every room of the pipeline: plan, two turns, a conflict, a fix round, a gate-fix round, a push."""
    fixed = json.dumps({"addressed": ["R1-1-1"], "rejected": {}})
    crew.play(
        {"node": "implement", "turn": 1, "do": [{"replace": "note.txt", "old": "two", "new": "zwei"}, {"say": CONTINUE}]},
        {"node": "review", "turn": 1, "do": [{"say": rejects("there is no fixed.txt")}]},
        {"node": "fix", "do": [{"write": "fixed.txt"}, {"say": fixed}]},
        {"node": "gate-fix", "do": [{"write": "cured.txt"}]},
        {"node": "rebase", "do": [{"write": "note.txt", "text": "one\nzwei deux\nthree\nfour\n"}]},
    )
    verify = {"gate": ["test -e cured.txt || { echo ill; exit 1; }"], "e2e": ["true"], "pre_gate": ["echo f > style.txt"]}
    crew.settle(land={"mode": "push", "target": "main"}, verify={**verify, "check": ["true"]})
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")
    theirs: list[str] = []

    def somebody_else() -> None:
        if not theirs and crew.state().phase is PipelinePhase.Review:
            theirs.append(repos.move_remote(remote, {"note.txt": "one\ndeux\nthree\n"}))

    born(crew)
    assert die(crew, 3, somebody_else) > 20

    exact(crew)
    nodes = ("plan", "implement", "implement", "rebase", "review", "fix", "review", "gate-fix", "commit")
    assert crew.seats() == [f"alpha@{node}" for node in nodes]
    assert repos.git(remote, "rev-parse", "main^") == theirs[0]
    names = set(repos.git(remote, "ls-tree", "--name-only", "main").splitlines())
    assert {"cured.txt", "fixed.txt", "style.txt"} <= names


def test_death_after_every_entry_of_an_operators_fix(crew: Crew) -> None:
    """F23, T104: the same while a picked finding is fixed, its first fixer's quota being spent: one handover, each agent asked once."""
    found = json.dumps({"vote": "approve_with_findings", "findings": [{"severity": "minor", "why": "no other file"}]})
    spent = {"node": "fix", "agent": "beta", "do": [{"notice": "quota", "reason": "spent", "reset_in": 3600}]}
    fix = {"node": "fix", "do": [{"write": "fixed.txt"}, {"say": json.dumps({"addressed": ["R1-1-1"], "rejected": {}})}]}
    crew.settle(
        *crew.agents("alpha", "beta", "gamma"),
        roles={"developer": "alpha", "fixer": ["beta", "gamma"], "reviewer": "alpha", "committer": "alpha"},
        pipeline={"plan": False},
        verify={"gate": ["grep -q four note.txt"]},
    )
    crew.play({"node": "review", "turn": 1, "do": [{"say": found}]}, spent, fix)
    assert crew.call("run", "write the note").code == 0
    process = crew.start("fix", crew.run, "R1-1-1", "--reason", "now")
    crew.until(lambda e: isinstance(e, FixAsked), process)
    crew.kill(process)

    assert die(crew) > 10

    keys = [e.key for e in crew.facts(EffectStarted)]
    assert len(keys) == len(set(keys))
    assert crew.seats() == [
        *(f"alpha@{node}" for node in ("implement", "review", "commit")), "beta@fix", "gamma@fix", "alpha@review"
    ]  # fmt: skip
    assert crew.state().spend.turns == len(crew.starts())
    assert [(h.from_agent, h.to_agent) for h in crew.state().handovers] == [("beta", "gamma")]
    landing = crew.state().landing
    assert landing is not None
    assert "fixed.txt" in crew.git("ls-tree", "--name-only", landing.branch)


def test_death_at_any_moment(crew: Crew, tmp_path: Path) -> None:
    """The driver is killed not after a fact but anywhere: in the middle of git, of a hook, of a gate: the same end, nothing twice."""
    crew.solo(WAITS | {"do": [{"append": "note.txt", "text": "four\n"}, {"sleep": 0.1}]}, land={"mode": "push", "target": "main"})
    repos.add_hook(crew.repo, "pre-commit", "sleep 0.1")
    remote, lives = repos.bare_remote(crew.repo, tmp_path / "remote.git"), 0
    process = crew.start("run", "write the note")
    until(crew.runs)
    while not crew.state().done:
        crew.run_of(process)
        lives += 1
        time.sleep(0.015 * lives)  # longer each time: it comes to an end on any machine
        crew.kill(process)
        process = crew.start("resume", crew.run)

    assert crew.end(process).code == 0
    assert lives > 4
    exact(crew)
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert repos.git(remote, "rev-list", "--count", "main") == "2"


def test_a_supervisor_that_is_killed(crew: Crew) -> None:
    """Decision 0009: a turn whose supervisor vanished is nobody's fault: asked again, no handover, its strays ended."""
    once = {"node": "implement", "turn": 1, "do": [{"append": "half.txt", "text": "half\n"}, {"wait_for": "{state}/go"}]}
    crew.solo(once)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    until(lambda: list(crew.state_home.glob("worktrees/*/*/half.txt")) or list(crew.state_home.rglob("half.txt")))
    subprocess.run(["kill", "-9", str(crew.supervisor("implement").pid)], check=True)

    done = crew.end(process)

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@implement", "alpha@commit"]
    assert crew.state().handovers == ()
    assert crew.shown("main", "half.txt") == "half\n"


def test_a_hook_whose_supervisor_is_killed(crew: Crew, tmp_path: Path) -> None:
    """Decision 0009: a hook that vanished refused nothing: it runs again, and nobody is paid to mend what is whole."""
    repos.bare_remote(crew.repo, tmp_path / "remote.git")
    for name in ("pre-commit", "pre-push"):
        wait = f"while [ $(grep -c {name} {crew.played}/came) -lt 2 ]; do sleep 0.02; done"
        repos.add_hook(crew.repo, name, f"echo {name} >> {crew.played}/came; {wait}")
    verify = {"gate": ["grep -q four note.txt"], "writable": [str(crew.played)]}
    crew.solo(land={"mode": "push", "target": "main"}, verify=verify)
    process, came = crew.start("run", "write the note"), crew.played / "came"
    for name in ("pre-commit", "pre-push"):
        until(lambda name=name: came.exists() and name in came.read_text())  # type: ignore[misc]
        (owner,) = crew.state_home.glob(f"runs/*/effects/*/{name}/owner")
        found = job.look(owner.parent)
        assert isinstance(found, job.Running)
        subprocess.run(["kill", "-9", str(found.pid)], check=True)

    done = crew.end(process)

    assert done.code == 0, done
    assert came.read_text().split() == ["pre-commit", "pre-commit", "pre-push", "pre-push"]
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_leaving_without_a_word(crew: Crew) -> None:
    """Rulings 11: SIGTERM ends nightcrew at once, the agent runs on, resume adopts it."""
    crew.solo(WAITS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    before = crew.supervisor("implement")
    process.terminate()
    assert crew.end(process).code == 143
    assert crew.supervisor("implement") == before

    again = crew.start("resume", crew.run)
    (crew.played / "go").touch()

    assert crew.end(again).code == 0
    assert crew.seats() == ["alpha@implement", "alpha@commit"]

"""kill -9 of nightcrew: what ran is adopted, nothing is asked twice, the end is the same."""

import subprocess
import sys

from nightcrew.core.events import EffectStarted, Landed, TurnEnded, WorkspacesDropped
from nightcrew.proc import job
from support import dying, repos
from support.crew import Crew, until

WAITS = {"node": "implement", "do": [{"wait_for": "{state}/go"}, {"append": "note.txt", "text": "four\n"}]}


def test_a_running_agent_is_adopted(crew: Crew) -> None:
    """Law 5: nightcrew dies by kill -9 while the agent works; resume waits for the same process: one start, one bill."""
    crew.solo(WAITS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    before = crew.supervisor("implement")
    crew.kill(process)
    assert crew.supervisor("implement") == before

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


def test_death_after_every_entry(crew: Crew) -> None:
    """Whoever drives the run dies by kill -9 after each fact it writes: the same end, no process and no commit more."""
    crew.solo()
    base = crew.git("rev-parse", "main")
    crew.start("run", "--no-wait", "write the note")
    until(crew.runs)
    crew.kill(crew.driven[0])

    deaths = 0
    while not crew.state().done:
        seq = crew.state().seq
        died = subprocess.run(
            [sys.executable, dying.__file__, crew.run, "1"],
            cwd=crew.repo,
            env=crew.env,
            capture_output=True,
            check=False,
        )
        assert died.returncode == -9, died.stderr.decode()
        assert crew.state().seq > seq
        deaths += 1

    assert deaths > 20
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert crew.state().spend.turns == 2
    assert len(crew.facts(Landed)) == 1
    assert crew.git("rev-list", "--count", f"{base}..main") == "1"
    assert crew.git("log", "-1", "--format=%s", "main") == "Write the note"
    keys = [e.key for e in crew.facts(EffectStarted)]
    assert len(keys) == len(set(keys))
    assert crew.facts(WorkspacesDropped)[-1].kept == ()
    assert list(repos.refs(crew.repo, "refs/nightcrew/rescue")) == []


def test_a_supervisor_that_is_killed(crew: Crew) -> None:
    """Decision 0009: a turn whose supervisor vanished is nobody's fault: asked again, no handover, its strays ended."""
    once = {
        "node": "implement",
        "turn": 1,
        "do": [{"append": "half.txt", "text": "half\n"}, {"wait_for": "{state}/go"}],
    }
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

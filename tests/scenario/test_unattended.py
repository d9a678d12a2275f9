"""Runs that nobody sits beside: they outlive the terminal that started them, and go on after the machine was down."""

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from nightcrew.core.events import Answered, CommandsEnded, Landed
from nightcrew.core.work import PipelinePhase
from support.crew import Crew, Turn, until

HOLDS: Turn = {
    "node": "implement",
    "do": [{"append": "note.txt", "text": "four\n"}, {"write": "{state}/there/{run}"}, {"wait_for": "{state}/go"}],
}
RED = "grep -q four note.txt || { echo four is missing; exit 1; }"


def typed(crew: Crew, *words: str) -> str:
    """`nightcrew …` in a session of its own at a real terminal, which is closed as soon as the prompt is back; what it showed."""
    here, there = pty.openpty()
    leader = "import os, sys, fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); os.execv(sys.argv[1], sys.argv[1:])"
    shell = [sys.executable, "-c", leader, "/bin/sh", "-c", '"$@"; echo "status $?"; sleep 600', "sh"]
    argv = [*shell, sys.executable, "-m", "nightcrew", *words]
    process = subprocess.Popen(argv, cwd=crew.repo, env=crew.env, stdin=there, stdout=there, stderr=there, start_new_session=True)
    os.close(there)
    shown = b""
    while b"status" not in shown or not shown.endswith(b"\n"):
        shown += os.read(here, 1 << 16)
    os.close(here)  # the terminal goes: the kernel sends SIGHUP to whoever still sits at it
    process.wait(60)
    return shown.decode()


def test_a_run_outlives_its_terminal(crew: Crew) -> None:
    """`run --detach`: the base is looked at in front of the person; then it goes on by itself, in a session of its own, and lands."""
    crew.solo(HOLDS, gate=RED)

    shown = typed(crew, "run", "--detach", "write the note")

    assert "status 0" in shown, shown
    assert "preflight red" in shown
    assert f"nightcrew watch {crew.run[-4:]}" in shown
    driver = crew.journal().holder(crew.run)
    assert driver, shown
    assert os.getsid(driver) == driver
    (crew.played / "go").touch()
    crew.rest()
    assert len(crew.facts(Landed)) == 1
    assert len([e for e in crew.facts(CommandsEnded) if "/preflight/" in e.key]) == 1
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    printed = next(crew.state_home.glob("runs/*/driver.log"))
    assert "landed" in printed.read_text()
    assert printed.stat().st_mode & 0o777 == 0o600


def test_a_base_that_cannot_be_looked_at(crew: Crew) -> None:
    """`run --detach` with a gate that cannot run: said in front of the person with exit 2, and nothing goes on behind them."""
    crew.solo(gate="no-such-program-anywhere")

    done = crew.call("run", "--detach", "write the note")

    assert done.code == 2, done
    assert "no-such-program-anywhere" in done.out
    assert crew.journal().holder(crew.run) is None
    assert crew.state().phase is PipelinePhase.Interrupted


def test_a_question_about_the_base_is_asked_here(crew: Crew) -> None:
    """`run --detach` on a red base under `green`: the question is put in front of the person with exit 1."""
    crew.solo(verify={"gate": [RED], "base": "green"})

    done = crew.call("run", "--detach", "write the note")

    assert done.code == 1, done
    assert "nightcrew answer" in done.out
    assert crew.starts() == []


def test_who_waits_for_an_answer_is_not_driven_by_all(crew: Crew) -> None:
    """`resume --all` tells what a blocked run asks and starts nothing for it; once an answer was left, it goes on."""
    crew.solo(verify={"gate": [RED], "base": "green"})
    assert crew.call("run", "write the note").code == 1
    before = crew.entries()

    done = crew.call("resume", "--all")

    assert done.code == 0, done
    assert done.out.startswith(f"{crew.run[-4:]} blocked: "), done
    assert not list(crew.state_home.glob("runs/*/driver.log"))
    assert crew.entries() == before
    crew.journal().say(crew.run, 1.0, Answered(question=next(iter(crew.state().questions)), text="yes"))
    assert "goes on by itself" in crew.call("resume", "--all").out
    crew.rest()
    assert len(crew.facts(Landed)) == 1


def test_after_the_machine_was_down(crew: Crew) -> None:
    """`resume --all`: every run that is not over and that nobody drives goes on by itself, a line each; agents are adopted."""
    crew.solo(HOLDS)
    for _ in range(2):
        process = crew.start("run", "write the note")
        crew.begun(process, "impl-A")
        crew.kill(process)
    first, second = crew.runs()
    parked = crew.start("run", "write the note")
    crew.begun(parked, "impl-A")

    done = crew.call("resume", "--all")

    assert done.code == 0, done
    lines = done.out.splitlines()
    assert len(lines) == 2
    assert all(any(line.startswith(run[-4:]) for line in lines) for run in (first, second))
    drivers = {crew.journal().holder(run) for run in (first, second)}
    assert None not in drivers
    assert len(drivers) == 2
    (crew.played / "go").touch()
    crew.end(parked)
    for run in (first, second):
        crew.rest(run)
    assert [s["run"] for s in crew.starts() if s["node"] == "implement"].count(first) == 1
    assert sorted(crew.state(run).phase for run in crew.runs()) == [PipelinePhase.Complete] * 3
    both = crew.call("resume", "--all", first)
    assert (both.code, "--all takes every run" in both.err) == (2, True)
    again = crew.call("resume", "--all")
    assert (again.code, again.out.strip()) == (0, "no run waits to go on")


def test_a_run_that_cannot_go_on_is_told(crew: Crew) -> None:
    """`resume --all` with a run whose agents are gone: its line says why, exit 1; the others go on."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    crew.kill(process)
    (crew.played / "go").touch()
    Path(crew.repo / ".git").rename(crew.repo / "away")

    done = crew.call("resume", "--all", cwd=crew.home)

    assert done.code == 1, done
    assert f"{crew.run[-4:]} does not go on: " in done.out
    Path(crew.repo / "away").rename(crew.repo / ".git")
    assert crew.call("resume", crew.run).code == 0


@pytest.mark.parametrize("words", [("yes",), ("more",)])
def test_an_answer_needs_no_terminal(crew: Crew, words: tuple[str, ...]) -> None:
    """Rulings 29: `answer` to a run that nobody drives says so and is back at once; the run goes on by itself to its end."""
    dear = [{"append": "note.txt", "text": "four\n"}, {"usage": {"usd": 30.0}}]
    crew.solo({"node": "implement", "do": dear}, {"node": "commit", "do": [{"wait_for": "{state}/go"}]})
    assert crew.call("run", "write the note").code == 1

    shown = typed(crew, "answer", crew.run, *words)

    assert "status 0" in shown, shown
    assert "goes on by itself" in shown
    until(lambda: crew.seats() == ["alpha@implement", "alpha@commit"])
    assert crew.journal().holder(crew.run)
    (crew.played / "go").touch()
    crew.rest()
    assert len(crew.facts(Landed)) == 1

"""What a person is told and asked around real runs."""

import os
import pty
import subprocess
import sys

import pytest

from nightcrew.app.home import rows
from nightcrew.app.views import conclusion
from support import repos
from support.crew import Crew


@pytest.fixture
def solo(crew: Crew) -> Crew:
    """The smallest run: one agent that implements and writes the message; no plan and no review."""
    crew.settle(pipeline={"plan": False, "reviewers": 0}, land={"mode": "local", "target": "main"})
    crew.git("switch", "-qc", "mine")
    crew.play()
    return crew


def asked(crew: Crew, reply: str, *words: str) -> tuple[int, str]:
    """`nightcrew …` by somebody at a terminal who types `reply`; its exit code and what the terminal showed."""
    here, there = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "nightcrew", *words], cwd=crew.repo, env=crew.env,
        stdin=there, stdout=subprocess.PIPE, stderr=there, text=True,
    )  # fmt: skip
    os.close(there)
    os.write(here, f"{reply}\n".encode())
    process.communicate(timeout=120)
    shown = os.read(here, 1 << 16).decode()
    os.close(here)
    return process.returncode, shown


def test_a_list_says_what_the_driver_saw_last(solo: Crew) -> None:
    """The line beside a run is the headline of its newest fact, written with it."""
    assert solo.call("run", "write the note").code == 0
    assert [row.headline for row in rows(solo.env, 1)] == [conclusion(solo.state()).headline]
    assert rows(solo.env, 1)[0].word == "landed"


def test_a_run_that_is_over_is_not_parked(solo: Crew) -> None:
    """Nothing can stop what is over: one line and exit 2, as for `cancel`."""
    assert solo.call("run", "write the note").code == 0
    assert "asks nothing" in solo.call("answer", solo.run, "yes").line
    for verb in ("park", "cancel"):
        done = solo.call(verb, solo.run)
        assert (done.code, "is over already" in done.err) == (2, True)
    late = solo.call("resume", solo.run, "--limit", "turns=9")
    assert (late.code, "is over already" in late.err) == (2, True)
    assert solo.journal().words(solo.run) == ()


def test_a_secret_without_a_value_leaves_no_run(solo: Crew) -> None:
    """It is a mistake in one line, and no run is left behind that could neither go on nor be ended."""
    alpha, *_ = solo.agents("alpha")
    solo.settle({**alpha, "env": {"TOKEN": {"env": "NOT_SET_ANYWHERE"}}})
    done = solo.call("run", "write the note")
    assert (done.code, "no value for TOKEN: NOT_SET_ANYWHERE is not set" in done.err) == (2, True)
    assert "no runs yet" in solo.call("list").out


def test_a_run_is_ended_without_the_secrets_of_its_agents(solo: Crew) -> None:
    """A password that is gone keeps a run from going on, not from being cancelled."""
    alpha, *_ = solo.agents("alpha")
    solo.settle({**alpha, "env": {"TOKEN": {"env": "MY_PASSWORD"}}})
    solo.env["MY_PASSWORD"] = "correct horse"
    solo.play({"node": "implement", "do": [{"notice": "quota", "reset_in": 90_000}]})
    assert solo.call("run", "--no-wait", "write the note").code == 3
    del solo.env["MY_PASSWORD"]
    assert "no value for TOKEN" in solo.call("resume", "--no-wait").err
    assert solo.call("cancel", solo.run).code == 0
    assert "interrupted" in solo.call("list").out


def test_notes_are_told_when_a_run_begins(solo: Crew) -> None:
    """What will be left out is said where the task is handed off, not only in `show`: here, that there is no gate."""
    done = solo.call("run", "write the note")
    assert done.out.startswith("note: no gate is set: nothing is tested before it lands")


def test_trust_is_asked_for_once_at_a_terminal(solo: Crew) -> None:
    """What a repository's file would execute is shown and asked about; no is exit 2, yes is remembered (rulings 35)."""
    repos.commit(solo.repo, {"nightcrew.toml": '[verify]\ngate = ["grep -q four note.txt"]\n'}, "settings")
    solo.git("branch", "-f", "main")
    code, shown = asked(solo, "n", "run", "write the note")
    assert (code, solo.runs()) == (2, [])
    assert "verify.gate: grep -q four note.txt" in shown
    assert asked(solo, "y", "run", "write the note")[0] == 0
    code, shown = asked(solo, "", "run", "write the note again")
    assert (code, "Trust this" in shown) == (0, False)


def test_without_a_terminal_trust_is_a_mistake_with_the_command(solo: Crew) -> None:
    """Nobody there to ask: exit 2 and the exact command, before anything of the file ran (rulings 35)."""
    repos.commit(solo.repo, {"nightcrew.toml": '[verify]\ngate = ["touch ran"]\n'}, "settings")
    done = solo.call("run", "write the note")
    assert (done.code, "nightcrew trust" in done.err) == (2, True)
    assert not (solo.repo / "ran").exists()


@pytest.mark.parametrize(("to", "verb_exits"), [(">&-", 0), (">/dev/full", 1), ("2>&- >&-", 0)])
def test_a_run_does_not_end_of_its_output(solo: Crew, to: str, verb_exits: int) -> None:
    """With nowhere to print to, or a full disk there, a run goes on unheard; a verb that only prints says so."""

    def muted(*words: str) -> int:
        line = ["sh", "-c", f'exec "$@" {to}', "sh", sys.executable, "-m", "nightcrew", *words]
        return subprocess.run(line, cwd=solo.repo, env=solo.env, check=False, timeout=120).returncode

    assert (muted("run", "write the note"), muted("list")) == (0, verb_exits)
    assert solo.state().landing is not None


def test_a_reader_who_leaves_ends_no_run(solo: Crew) -> None:
    """`nightcrew run … | head -1`: the run goes on to its end."""
    process = solo.start("run", "write the note")
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.wait(120) == 0

"""What only the operator's own set-up can do, and what happens when it stops doing it in the middle of a run."""

import signal
from pathlib import Path

import pytest

from nightcrew.core.events import ParkAsked
from support import repos
from support.crew import Crew, alive, until

SIGNER = """#!/bin/sh
cat >/dev/null
case "$(cat {mood})" in
well) echo '[GNUPG:] SIG_CREATED ' >&2; echo SIGNED-BY-TEST;;
ill) echo 'no secret key' >&2; exit 2;;
hung) echo $$ > {mood}.pid; sleep 600;;
esac
"""


def signs(crew: Crew, then: str) -> Path:
    """A person who signs every commit; their program does `then` from the agent's turn on. The file that decides it."""
    mood, signer = crew.home / "mood", crew.home / "signer"
    mood.write_text("well")
    signer.write_text(SIGNER.format(mood=mood))
    signer.chmod(0o755)
    work = {"append": "note.txt", "text": "four\n"}
    crew.solo({"node": "implement", "do": [work, {"run": f"echo {then} > {mood}"}]}, sandbox={"mode": "off"})
    crew.git("config", "commit.gpgsign", "true")
    crew.git("config", "gpg.program", str(signer))
    return mood


@pytest.mark.parametrize("told", [signal.SIGINT, signal.SIGTERM])
def test_a_program_that_hangs_holds_nobody_up(crew: Crew, told: signal.Signals) -> None:
    """Rulings 11: while git waits for a program that hangs, nightcrew leaves when it is told to, and nothing of it stays."""
    mood = signs(crew, "hung")
    process = crew.start("run", "write the note")
    pid = mood.with_suffix(".pid")
    until(lambda: pid.exists() and pid.read_text().strip())
    if told is signal.SIGINT:
        process.send_signal(told)
        crew.until(lambda e: isinstance(e, ParkAsked), process)
    process.send_signal(told)

    assert crew.end(process).code == 128 + told

    until(lambda: not alive(int(pid.read_text())))
    mood.write_text("well")
    assert crew.call("resume", crew.run).code == 0
    assert "SIGNED-BY-TEST" in crew.git("cat-file", "commit", "main")
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_a_signature_that_breaks_in_the_night(crew: Crew) -> None:
    """Rulings 29: a key that is locked meanwhile is a question that holds; answered, the same commit is made and nobody is paid again."""
    mood = signs(crew, "ill")

    done = crew.call("run", "write the note")

    assert done.code == 1, done
    assert "sign" in done.out
    assert "nightcrew answer" in done.out
    assert crew.state().trouble is None
    mood.write_text("well")
    assert crew.answer("retry").code == 0
    assert "SIGNED-BY-TEST" in crew.git("cat-file", "commit", "main")
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_a_hook_that_hangs(crew: Crew) -> None:
    """Rulings 29: a hook that hits the time limit says so and is a question that holds; no fixer is asked to mend that."""
    crew.solo(verify={"gate": ["grep -q four note.txt"], "timeout": "1s"})
    hook = repos.add_hook(crew.repo, "pre-commit", "sleep 600")

    done = crew.call("run", "write the note")

    assert done.code == 1, done
    assert "the pre-commit hook did not end in time" in done.out
    hook.unlink()
    assert crew.answer("retry").code == 0
    assert crew.seats() == ["alpha@implement", "alpha@commit"]

"""What only the operator's own set-up can do, and what happens when it stops doing it in the middle of a run."""

import signal
from pathlib import Path

import pytest

from nightcrew.core.events import ParkAsked
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

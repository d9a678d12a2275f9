"""Playing one turn of a script for real: the adapter's own command line, a real process, the adapter's judgement."""

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from nightcrew.agents import scripted
from nightcrew.agents.base import Judged, Turn
from unit.agents.ends import returned

PROMPT = "Add a greeting."


class Played(NamedTuple):
    """How a turn ended, what it printed and what that was judged to be."""

    code: int
    out: bytes
    err: str
    judged: Judged


class Stage:
    """A workspace and a script in a folder of its own; `play` plays one turn."""

    def __init__(self, folder: Path) -> None:
        """Make the workspace."""
        self.folder = folder
        self.script = folder / "script.json"
        self.state = folder / "state"
        self.cwd = folder / "work space"
        self.cwd.mkdir()

    def write(self, *turns: dict[str, Any]) -> None:
        """Write the script."""
        self.script.write_text(json.dumps({"turn": turns}))

    def do(self, *steps: dict[str, Any]) -> Played:
        """Play these steps as the only turn."""
        self.write({"do": steps})
        return self.play()

    def turn(self, **told: Any) -> Turn:
        """A turn in this workspace."""
        prompt = self.folder / "prompt"
        prompt.write_text(PROMPT)
        command = (str(self.script), str(self.state))
        return Turn(**{"program": "", "prompt_file": prompt, "cwd": self.cwd, "command": command, "seat": "impl-A", **told})

    def start(self, turn: Turn) -> subprocess.Popen[bytes]:
        """Start a turn; its output goes to pipes."""
        launch = scripted.command(turn)
        with turn.prompt_file.open("rb") as prompt:
            return subprocess.Popen(
                launch.argv,
                cwd=self.cwd,
                env={"PATH": os.environ["PATH"]},
                stdin=prompt,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def play(self, **told: Any) -> Played:
        """Play one turn to its end."""
        turn = self.turn(**told)
        with self.start(turn) as process:
            out, err = process.communicate()
        end = returned(process.returncode)
        return Played(process.returncode, out, err.decode(), scripted.judge(turn, end, out, err, time.time(), "UTC"))

    def starts(self) -> list[dict[str, Any]]:
        """The processes that were started, as the player noted them."""
        return [json.loads(line) for line in (self.state / "starts.jsonl").read_text().splitlines()]


def until(true: Callable[[], object]) -> None:
    """Wait until something is true."""
    while not true():
        time.sleep(0.01)

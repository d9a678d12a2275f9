"""What the real programs printed, with how each recording ended and what is known of it."""

import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nightcrew.agents import catalog
from nightcrew.agents.base import Judged, Turn
from unit.agents.ends import End, returned

FOLDER = Path(__file__).resolve().parents[2] / "fixtures"
NOW = 1796027000.0
"""A moment on the day of the recordings."""


class Recorded(msgspec.Struct, rename={"kind": "class"}):
    """One recording: its class, its end, and where a turn was judged good what it told."""

    kind: str
    exit_code: int
    stopped: bool
    version: str
    resume: str = ""
    session: str = ""
    answer: str | None = None
    tokens: int | None = None
    usd: float | None = None
    why: str = ""  # the class is not the one that the name suggests


class Recording(NamedTuple):
    """One recording of one program."""

    folder: str
    name: str
    told: Recorded

    @property
    def kind(self) -> str:
        """The kind of agent that reads it."""
        return "acp" if self.folder.endswith("-acp") else self.folder.partition("-")[0]

    def judged(self, **changed: Any) -> Judged:
        """What its adapter makes of it."""
        made, err = FOLDER / self.folder, FOLDER / self.folder / f"{self.name}.stderr"
        end: End = returned(self.told.exit_code, "total" if self.told.stopped else "")
        asked = Turn(program="it", prompt_file=Path("/turn/prompt"), cwd=Path("/slot"), **{"resume": self.told.resume, **changed})
        out = (made / f"{self.name}.stdout").read_bytes()
        return catalog.adapter(self.kind).judge(asked, end, out, err.read_bytes() if err.exists() else b"", NOW, "UTC")


def recordings() -> list[Recording]:
    """All of them, but those of Claude Code, which has a test of its own."""
    found = []
    for file in sorted(FOLDER.glob("*/recorded.json")):
        if file.parent.name != "claude":
            told = json.loads(file.read_text())
            found += [Recording(file.parent.name, name, msgspec.convert(one, Recorded)) for name, one in told.items()]
    return found


def recording(folder: str, name: str) -> Recording:
    """One of them."""
    return next(one for one in recordings() if (one.folder, one.name) == (folder, name))

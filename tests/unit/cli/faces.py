"""The command line as a person uses it: a process of its own, with its own HOME."""

import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ENTRY = "import sys; sys.argv[0] = 'nightcrew'; from nightcrew.cli import main; sys.exit(main())"


class Said(NamedTuple):
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str


def environment(home: Path) -> dict[str, str]:
    """The tests' environment with NIGHTCREW_HOME at `home`."""
    return {**os.environ, "NIGHTCREW_HOME": str(home)}


def argv(*words: str, entry: str = ENTRY) -> list[str]:
    """The command line that runs nightcrew with these words."""
    return [sys.executable, "-c", entry, *words]


def nightcrew(home: Path, *words: str, cwd: Path | None = None, entry: str = ENTRY, **more: str) -> Said:
    """Run it to its end, with `more` in its environment."""
    done = subprocess.run(
        argv(*words, entry=entry), cwd=cwd, env=environment(home) | more, capture_output=True, text=True, errors="replace", check=False, timeout=120
    )  # fmt: skip
    return Said(done.returncode, done.stdout, done.stderr)


def loaded(home: Path, *words: str) -> set[str]:
    """The modules that a command line has loaded when it ends."""
    entry = (
        "import sys; sys.argv[0] = 'nightcrew'; from nightcrew.cli import main\n"
        "try: main()\nexcept SystemExit: pass\nprint('\\n@@', *sys.modules)"
    )
    return set(nightcrew(home, *words, entry=entry).out.rpartition("@@")[2].split())

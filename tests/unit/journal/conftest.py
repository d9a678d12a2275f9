"""A journal in a folder of its own, and processes that write to it."""

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightcrew.core.events import Noted
from nightcrew.core.ids import RunId
from nightcrew.journal.store import Journal

RUN = RunId("20260830-153012-a1b2")
Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A NIGHTCREW_HOME that is not there yet."""
    return tmp_path / "state" / "nightcrew"


@pytest.fixture
def journal(home: Path) -> Iterator[Journal]:
    """A journal with the one run `RUN`, whose only fact is entry 1."""
    journal = Journal(home)
    journal.create(RUN, "repo", "a title", 1.0, Noted(text="first"))
    yield journal
    journal.close()


HEAD = """
import sys
from pathlib import Path
from nightcrew.core.events import *
from nightcrew.database import Unusable
from nightcrew.journal.store import *
def say(*words): print(*words, flush=True)
home, run = Path(sys.argv[1]), sys.argv[2]
"""


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Start a process that runs the given lines with `home` and `run` set; it is gone, even if frozen, when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def go(lines: str, *args: str) -> subprocess.Popen[str]:
        argv = [sys.executable, "-c", HEAD + lines, str(home), RUN, *args]
        process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        started.append(process)
        return process

    yield go
    for process in started:
        process.send_signal(signal.SIGKILL)
        process.communicate()


def heard(process: "subprocess.Popen[str]") -> str:
    """The next line the process printed."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def answer(process: "subprocess.Popen[str]") -> None:
    """Let a process that waits for a line go on."""
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()

"""A scenario's machine: built once at one path, recorded with a copy at each instant, put back from a copy, driven to its end from there.

Everything of a machine lies below one folder, and its copies are always put back at the very same path, since a repository, a
workspace and a journal know their own.
"""

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import msgspec

from crash import driver
from crash.driver import Note, Order
from crash.scenarios import Scenario
from nightcrew.core.events import Entry
from nightcrew.core.ids import RunId
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.state import RunState
from nightcrew.database import held
from nightcrew.journal.store import Journal
from support.crew import Crew

HANG_S = 240.0
"""After this long a wait is a hang, and a violation."""

GIT = """\
#!/bin/sh
# git, counted when our driver calls it, itself or through `timeout`: `armed` holds its pid, the number of the call at which it
# is told something, and what: kill -9 (`stop`; with `orphan` this git goes on all the same), or a signal, once or twice.
here=${0%/*}
read -r _ name _ above _ 2>/dev/null </proc/$PPID/stat
[ "$name" = "(timeout)" ] || above=$PPID
if read -r who how at 2>/dev/null <"$here/armed" && [ "$who" = "$above" ]; then
    printf . >>"$here/calls"
    n=$(wc -c <"$here/calls")
    if [ "$at" != 0 ] && [ "$n" -ge "$at" ]; then  # another lane may have counted between these two lines
        echo 0 0 0 >"$here/armed"
        case $how in
        stop) kill -9 "$who"; exit 1 ;;
        orphan) kill -9 "$who" ;;
        twice) kill -INT "$who"; sleep 0.3; kill -INT "$who" ;;
        *) kill -"$how" "$who" ;;
        esac
    fi
fi
exec GIT "$@"
"""

HOLD = """\
#!/bin/sh
# The turnstile of commands, hooks and notices: say that we came, and wait until it is open.
echo hold >>PLAYED/held
while [ ! -e PLAYED/go ]; do sleep 0.02; done
"""

CANCEL = """\
#!PYTHON
# A person cancels the newest run, and leaves whether anybody drives it or not.
import time
from pathlib import Path
from nightcrew.core.events import CancelAsked
from nightcrew.journal.store import Journal
journal = Journal(Path("HOME"))
journal.say(journal.recent(1)[0], time.time(), CancelAsked())
"""


class Hang(Exception):  # noqa: N818 - what happened
    """Something that should have come did not."""


class Tape(NamedTuple):
    """A recorded run: its facts with the states after each, the instants noted on the way, and where the copies are."""

    run: RunId
    entries: list[Entry]
    states: list[RunState]
    notes: list[Note]


class Machine:
    """The one machine of a scenario."""

    def __init__(self, root: Path, scenario: Scenario) -> None:
        """Build it below `root`, ready for its run; nothing runs yet."""
        self.scenario, self.root = scenario, root
        self.folder, self.copies = root / "machine", root / "copies"
        self.copies.mkdir(parents=True)
        self.crew = Crew(self.folder)
        self.crew.env["PATH"] = f"{self.folder}/bin:{self.crew.env['PATH']}"
        (self.crew.played / "go").touch()
        self._program("git", GIT.replace("GIT", str(shutil.which("git"))))
        self._program("hold", HOLD.replace("PLAYED", str(self.crew.played)))
        self._program("cancel", CANCEL.replace("PYTHON", sys.executable).replace('"HOME"', f'"{self.crew.state_home}"'))
        scenario.ready(self.crew)

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    # ── driving ───────────────────────────────────────────────────────────────────────────────────────────────────

    def start(self, order: Order) -> subprocess.Popen[str]:
        """A driver with this order, in the person's checkout."""
        told = msgspec.structs.replace(order, machine=str(self.folder), answer=self.scenario.answer, jumps=self.scenario.jumps)
        return self._start(sys.executable, driver.__file__, msgspec.json.encode(told).decode())

    def _start(self, *argv: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(
            argv, cwd=self.crew.repo, env=self.crew.env, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe, text=True
        )

    def record(self) -> Tape:
        """The whole run once, every instant noted and copied."""
        process = self.start(Order(copies=str(self.copies)))
        ended(process)
        run, entries = self.facts()
        states = [begin(entries[0])]
        for entry in entries[1:]:
            states.append(reduce(states[-1], entry))
        lines = (self.copies / "notes").read_bytes().splitlines()
        if str(states[-1].phase) != self.scenario.ends:
            raise Hang(f"{self.scenario.name} ended in {states[-1].phase}, not {self.scenario.ends}: {self.crew.told()}")
        return Tape(run, entries, states, [msgspec.json.decode(line, type=Note) for line in lines])

    def facts(self) -> tuple[RunId, list[Entry]]:
        """The newest run and its facts."""
        journal = Journal(self.crew.state_home)
        run = journal.recent(1)[0]
        entries = list(journal.entries(run))
        journal.close()
        return run, entries

    def put_back(self, note: Note) -> None:
        """The machine as it was at that instant."""
        while self.folder.exists():  # a git that outlived its driver may still write there
            shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        subprocess.run(["tar", "-C", str(self.folder), "-xzf", str(self.copies / note.name)], check=True)

    def copied_at(self, note: Note) -> float:
        """When the copy of that instant was taken, in seconds since the epoch."""
        return (self.copies / note.name).stat().st_mtime

    def rest(self, run: RunId) -> subprocess.Popen[str]:
        """`nightcrew resume`, begun; where waits are jumped over, a driver that does the same."""
        if self.scenario.jumps:
            return self.start(Order(run=run))
        return self._start(sys.executable, "-m", "nightcrew", "resume", run)

    def finish(self, process: subprocess.Popen[str], run: RunId) -> None:
        """Wait for the end of that; where the run asks, a driver answers and drives it on (`nightcrew answer` would leave it to itself)."""
        ended(process)
        if self.scenario.answer and process.returncode == 1:
            ended(self.start(Order(run=run)))

    # ── the turnstile ─────────────────────────────────────────────────────────────────────────────────────────────

    def shut(self) -> None:
        """Whoever comes to the turnstile waits there."""
        (self.crew.played / "go").unlink()
        (self.crew.played / "held").unlink(missing_ok=True)

    def open(self) -> None:
        """Let them all go on."""
        (self.crew.played / "go").touch()

    def somebody_waits(self) -> bool:
        """Whether a program came to the turnstile since it was shut."""
        return (self.crew.played / "held").exists()

    def says(self, run: RunId, fact: str) -> bool:
        """Whether the run's journal holds a fact of this name."""
        journal = Journal(self.crew.state_home)
        found = any(type(entry.event).__name__ == fact for entry in journal.entries(run))
        journal.close()
        return found

    def driven(self, run: RunId) -> bool:
        """Whether a living process has the run's lease."""
        return held(self.crew.state_home / "runs" / run / "lease")


def until(true: Callable[[], object], process: subprocess.Popen[str], what: str) -> None:
    """Wait until something is true, as long as a process lives."""
    late = time.monotonic() + HANG_S
    while not true():
        if process.poll() is not None:
            raise Hang(f"{what} never came: the process ended with {process.returncode}: {process.communicate()}")
        if time.monotonic() > late:
            process.kill()
            raise Hang(f"{what} never came")
        time.sleep(0.01)


def ended(process: subprocess.Popen[str]) -> None:
    """Wait for its end; a traceback, a hang or a bug of ours is a violation."""
    try:
        said = "".join(process.communicate(timeout=HANG_S))
    except subprocess.TimeoutExpired:
        process.kill()
        raise Hang(f"it hangs: {process.args!r}") from None
    if "Traceback" in said or process.returncode not in {0, 1, 3, 128 + signal.SIGINT, 128 + signal.SIGTERM, -signal.SIGKILL}:
        raise Hang(f"it ended with {process.returncode}: {said}")


def died(process: subprocess.Popen[str]) -> None:
    """Wait for its death by kill -9; anything else is a mistake in the point."""
    ended(process)
    if process.returncode != -signal.SIGKILL:
        raise Hang(f"it was not killed, it ended with {process.returncode}: {process.args!r}")

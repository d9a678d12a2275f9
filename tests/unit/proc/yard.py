"""What the tests of this room share: jobs to supervise, a look at the process table of their own, patience."""

import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from nightcrew.proc.job import Absent, Exit, Job, Lost, Running, look
from nightcrew.proc.sandbox import Mode, Sandbox

ENV = {"PATH": os.environ["PATH"]}
PATIENCE_S = 30.0

# Four that stay: in the job's group, in a session of its own deaf to TERM, one that dropped its environment, the job.
VICTIM = """
sleep {token} &
(setsid sh -c 'trap "" TERM; exec sleep {token}' &)
(env -i setsid sleep {token} &)
trap '' TERM
sleep {token} &
echo ready
wait; wait; wait
"""


def job(folder: Path, script: str, mode: Mode = "mark", **more: Any) -> Job:
    """A job that runs a shell script next to its folder; the folder's path is its mark."""
    plain = Job(
        argv=("sh", "-c", script),
        cwd=folder.parent,
        env=ENV,
        mark=str(folder),
        sandbox=Sandbox(mode=mode, writable=(folder.parent,)),
    )
    return msgspec.structs.replace(plain, **more)


def wait(folder: Path, timeout_s: float) -> Running | Exit | Lost | Absent:
    """Block until the job is over or the time is up, and say what there is then."""
    found = look(folder)
    if isinstance(found, Running) and (held := found.open_pidfd()) is not None:
        poll = select.poll()
        poll.register(held, select.POLLIN)
        poll.poll(timeout_s * 1000)
        os.close(held)
    return look(folder)


def ended(folder: Path) -> Exit:
    """The exit record, waited for."""
    found = wait(folder, PATIENCE_S)
    assert isinstance(found, Exit), found
    return found


def running(found: object) -> Running:
    """The same, known to be running."""
    assert isinstance(found, Running), found
    return found


def output(folder: Path) -> str:
    """What the job has printed so far; empty if there is no file yet."""
    file = folder / "stdout"
    return file.read_text() if file.exists() else ""


def until(condition: Callable[[], object], what: str) -> None:
    """Wait for something to become true; a failure says what did not."""
    limit = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < limit, f"still not: {what}"
        time.sleep(0.01)


def holders(token: str) -> list[int]:
    """Living processes that have this word among their arguments, read from the process table."""
    found = []
    for name in os.listdir("/proc"):
        try:
            words = Path("/proc", name, "cmdline").read_bytes().split(b"\0") if name.isdecimal() else []
        except OSError:
            continue
        if token.encode() in words:
            found.append(int(name))
    return found


def token(folder: Path) -> str:
    """A number of seconds that no other process sleeps for."""
    return f"98765.{abs(hash(folder)) % 10**9:09d}"

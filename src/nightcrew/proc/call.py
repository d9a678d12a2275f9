"""Running a short program (git and the like) to its end, in memory; jobs that must outlive us are in `job`."""

import os
import select
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from io import FileIO
from pathlib import Path
from typing import NamedTuple

from nightcrew.proc import processes

_LOCK = threading.Lock()
_RUNNING: dict[int, signal.Signals] = {}  # every group that runs, and what ends it next


class Ended(NamedTuple):
    """How a program ended: its exit code (128+n if signal n killed it), its whole output, whether the limit ended it."""

    code: int
    out: bytes
    err: bytes
    timed_out: bool


def call(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes = b"", timeout_s: float) -> Ended:
    """Run `argv` in its own session with exactly this environment; at the limit its whole group is killed.

    The wait is for its exit: a daemon that keeps the output open holds nobody up. A program that is missing ends with
    code 127, one that cannot be executed (or a missing cwd) with 126, each with a line in `err`.
    """
    # Files in memory: unlike a pipe they need no reader, and unlike a file no disk.
    fed, out, err = (FileIO(os.memfd_create(name), "r+") for name in ("stdin", "stdout", "stderr"))
    with fed, out, err:
        fed.write(stdin)
        fed.seek(0)
        try:
            with _LOCK:  # `end_all` finds each of them
                child = subprocess.Popen(argv, cwd=cwd, env=env, stdin=fed, stdout=out, stderr=err, start_new_session=True)
                _RUNNING[child.pid] = signal.SIGTERM
        except OSError as error:
            missing = isinstance(error, FileNotFoundError) and cwd.is_dir()
            why = error.strerror if cwd.is_dir() else f"there is no folder {cwd}"
            said = f"nightcrew: cannot run {argv[0]}: {why}\n".encode(errors="replace")
            return Ended(127 if missing else 126, b"", said, timed_out=False)
        ended = _wait(child, timeout_s)
        code = child.returncode if child.returncode >= 0 else 128 - child.returncode
        # All of it, from wherever the program's descriptor stands.
        said, complained = (os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0) for file in (out, err))
        return Ended(code, said, complained, timed_out=not ended)


def leave(argv: Sequence[str], *, env: Mapping[str, str], output: Path) -> int:
    """Begin a program that goes on without us, in a session of its own, what it prints added to a file of the user's own; its pid, ours to reap."""
    printed = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    streams = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0), (os.POSIX_SPAWN_OPEN, 1, str(output), printed, 0o600)]
    return os.posix_spawn(argv[0], list(argv), env, file_actions=[*streams, (os.POSIX_SPAWN_DUP2, 1, 2)], setsid=True)


def end_all() -> None:
    """Have every program that runs (in whatever thread) end, with its group: asked the first time, killed the second."""
    with _LOCK:
        for pid, how in _RUNNING.items():  # ours until its thread reaps it: its pid cannot be another's
            _RUNNING[pid] = signal.SIGKILL
            processes.tell(-pid, how)


def _wait(child: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for the exit; at the limit, and when we are interrupted, kill the group. Whether it ended by itself."""
    held, ended = os.pidfd_open(child.pid), False
    try:
        poll = select.poll()
        poll.register(held, select.POLLIN)
        ended = bool(poll.poll(max(0.0, timeout_s) * 1000))
    finally:
        os.close(held)
        with _LOCK:
            told = _RUNNING.pop(child.pid) is signal.SIGKILL
        if told or not ended:
            processes.tell(-child.pid, signal.SIGKILL)
        child.wait()
    return ended

"""Running a short program (git and the like) to its end, in memory; jobs that must outlive us are in `job`."""

import contextlib
import os
import select
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple


class Ended(NamedTuple):
    """How a program ended: its exit code (128+n if signal n killed it), its whole output, whether the limit ended it."""

    code: int
    out: bytes
    err: bytes
    timed_out: bool


def call(argv: Sequence[str], *, cwd: Path, env: Mapping[str, str], stdin: bytes = b"", timeout_s: float) -> Ended:
    """Run `argv` in its own session with exactly this environment; at the limit its whole group is killed.

    The wait is for the program's exit, not for the end of its output: a daemon that keeps the output open holds nobody
    up. A program that is missing ends with code 127, one that cannot be executed (or a missing cwd) with 126, each with
    a line in `err`.
    """
    with contextlib.ExitStack() as files:
        given, out, err = (_memory(files, name) for name in ("stdin", "stdout", "stderr"))
        _fill(given, stdin)
        try:
            child = subprocess.Popen(
                argv, cwd=cwd, env=env, stdin=given, stdout=out, stderr=err, start_new_session=True
            )
        except OSError as error:
            return _unstarted(argv[0], cwd, error)
        timed_out = not _wait(child, timeout_s)
        code = child.wait()
        return Ended(code if code >= 0 else 128 - code, _content(out), _content(err), timed_out)


def _wait(child: subprocess.Popen[bytes], timeout_s: float) -> bool:
    """Wait for the exit; at the limit, and when we are interrupted, kill the group. Whether it ended by itself."""
    held = os.pidfd_open(child.pid)
    ended = False
    try:
        poll = select.poll()
        poll.register(held, select.POLLIN)
        ended = bool(poll.poll(max(0.0, timeout_s) * 1000))
    finally:
        os.close(held)
        if not ended:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            child.wait()
    return ended


def _memory(files: contextlib.ExitStack, name: str) -> int:
    """A file in memory: unlike a pipe it needs no reader, and unlike a file it needs no disk."""
    fd = os.memfd_create(name)
    files.callback(os.close, fd)
    return fd


def _fill(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]
    os.lseek(fd, 0, os.SEEK_SET)


def _content(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    parts: list[bytes] = []
    at = 0
    while at < size and (part := os.pread(fd, size - at, at)):
        parts.append(part)
        at += len(part)
    return b"".join(parts)


def _unstarted(program: str, cwd: Path, error: OSError) -> Ended:
    """What a shell would say: 127 for a program that is not there, 126 for anything else that keeps it from running."""
    if not cwd.is_dir():
        code, why = 126, f"there is no folder {cwd}"
    else:
        code, why = 127 if isinstance(error, FileNotFoundError) else 126, error.strerror or ""
    said = f"nightcrew: cannot run {program}: {why}\n".encode(errors="replace")
    return Ended(code, b"", said, timed_out=False)

"""The room's door: jobs that outlive us. Start or adopt one in a folder, look at it, stop it.

The work itself is done by the job's supervisor (`supervise`), one process per job, in a session of its own.
"""

import contextlib
import fcntl
import marshal
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from nightcrew.errors import UserError
from nightcrew.proc import identity, strays
from nightcrew.proc.sandbox import Sandbox, wrap

if TYPE_CHECKING:
    from nightcrew.proc.supervise import Orders

_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from nightcrew.proc.supervise import main; main()"
_START_S = 60.0
_SETTLE_S = 2.0


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A command line to run under a supervisor; spans in seconds, 0 for no limit.

    `env` is the whole environment (only the mark is added, as NIGHTCREW_TURN); `mark` names the job and is unlike any
    other's; `stdin` is a file that is read to its end, nothing if None. First output and idle count both stdout and
    stderr; until the first output only its own limit counts, if it is set. `stop_signals` are sent to the job's group
    one after another, each with a grace in seconds, then all that is left is killed. Beyond `output_cap` bytes of
    output the job is stopped.
    """

    argv: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]
    mark: str
    sandbox: Sandbox
    stdin: Path | None = None
    total_s: float = 0.0
    idle_s: float = 0.0
    first_output_s: float = 0.0
    stop_signals: tuple[tuple[str, float], ...] = (("TERM", 5.0),)
    output_cap: int = 512 * 1024 * 1024


class Running(msgspec.Struct, frozen=True):
    """A living supervisor: its pid, start time (clock ticks since boot) and boot id. Its end is the job's end."""

    pid: int
    start: int
    boot: str

    def open_pidfd(self) -> int | None:
        """A descriptor, the caller's to close, that becomes readable when the job is over; None if it is already."""
        try:
            held = os.pidfd_open(self.pid)
        except ProcessLookupError:
            return None
        if identity.alive((self.pid, self.start, self.boot)):
            return held
        os.close(held)
        return None


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended.

    `code` follows the shell's convention, 128+n for a death by signal n, which `signal` repeats (a program that itself
    exits with 143 looks the same). `stopped_by`: "" by itself · total, idle, first_output (limits) · flood (output_cap)
    · stop (asked by `stop`) · shutdown (the supervisor was told to end by somebody else, as at a shutdown).
    Times in seconds since the epoch; `strays` counts left-over processes killed in mode `mark`, `left` those that could
    not be; `max_rss` in bytes.
    """

    code: int
    signal: int
    stopped_by: str
    began_at: float
    ended_at: float
    strays: int
    left: int
    max_rss: int


class Lost(msgspec.Struct, frozen=True):
    """The job was begun, its supervisor is gone and left no record: nobody knows how it ended, or will."""


class Absent(msgspec.Struct, frozen=True):
    """Nothing was ever begun here."""


def start(folder: Path, job: Job) -> Running | Exit | Lost:
    """Start the job in this folder (made for this user only), or find out what became of the one begun here before.

    A folder begins its job at most once, whatever is killed when and however many start it at once. When the job was
    lost, what it left running is ended first. Raises UserError if it cannot be started; then nothing ran.
    """
    folder = folder.absolute()
    found = look(folder)
    if isinstance(found, Absent):
        found = _launch(folder, job)
    if isinstance(found, Lost):
        strays.sweep(job.mark)
    return found


def look(folder: Path) -> Running | Exit | Lost | Absent:
    """What there is to say about the job of this folder; starts and changes nothing."""
    until = time.monotonic() + _SETTLE_S
    while True:
        if found := _record(folder):
            return found
        try:
            with (folder / "owner").open("rb", buffering=0) as owner:
                who = identity.parsed(owner.read(256))
                if who and identity.alive(who):
                    return Running(*who)
                fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            break
        except BlockingIOError:  # somebody about to say who it is
            if time.monotonic() > until:
                raise UserError(f"another process holds {folder}", "is it shared with another machine?") from None
            time.sleep(0.005)
            continue
        break
    # It may have ended between the first look and the lock.
    return _record(folder) or (Lost() if (folder / "spawned").exists() else Absent())


def stop(folder: Path) -> None:
    """Ask the job to stop; returns at once (a job begun in this folder later does not run either).

    What a lost job left running is ended before this returns. Without the folder there is nothing to stop.
    """
    _tell(folder, signal.SIGTERM)


def stop_now(folder: Path) -> None:
    """Like `stop`, but no signal gets its grace, also if the job is being stopped already."""
    _tell(folder, signal.SIGUSR1)  # supervise.NOW


def _tell(folder: Path, number: int) -> None:
    try:
        (folder / "stop").touch(mode=0o600)
    except FileNotFoundError:
        return
    found = look(folder)
    if isinstance(found, Running) and (held := found.open_pidfd()) is not None:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(held, number)
        os.close(held)
    elif isinstance(found, Lost) and (mark := os.fsdecode((folder / "spawned").read_bytes())):
        strays.sweep(mark)


def wait(folder: Path, timeout_s: float) -> Running | Exit | Lost | Absent:
    """Block until the job is over or the time is up, and say what there is then."""
    found = look(folder)
    if isinstance(found, Running) and (held := found.open_pidfd()) is not None:
        poll = select.poll()
        poll.register(held, select.POLLIN)
        poll.poll(timeout_s * 1000)
        os.close(held)
    return look(folder)


def _record(folder: Path) -> Exit | None:
    try:
        return msgspec.json.decode((folder / "exit.json").read_bytes(), type=Exit)
    except FileNotFoundError:
        return None


def _launch(folder: Path, job: Job) -> Running | Exit | Lost:
    """Start a supervisor and hear its one line of answer."""
    orders = marshal.dumps(dict(_orders(job)))
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for host, _ in job.sandbox.private:
            host.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "supervisor.log").open("ab") as log:
            answer = _ask(folder, orders, log.fileno())
    except OSError as error:
        raise UserError(f"cannot start a job in {folder}: {error.strerror}") from error
    word, _, rest = answer.partition(b" ")
    if word == b"running" and (who := identity.parsed(rest)):
        return Running(*who)
    # How it is over is on the disk; so is all that a killed supervisor cannot tell. One that refused may not be gone.
    found = Absent() if word == b"refused" else look(folder)
    if isinstance(found, Absent):
        why = rest.decode(errors="replace").strip() or "its supervisor died"
        raise UserError(f"cannot start a job in {folder}: {why}")
    return found


def _ask(folder: Path, orders: bytes, log: int) -> bytes:
    # The supervisor needs no environment; without the mark a sweep cannot mistake it for the job.
    env = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).parents[2]), str(folder)]
    with subprocess.Popen(
        argv,
        cwd="/",
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
    ) as child:
        return child.communicate(orders, timeout=_START_S)[0]


def _orders(job: Job) -> "Orders":
    sandbox = job.sandbox
    return {
        "argv": wrap(job.argv, sandbox),
        "program": job.argv[0],
        "cwd": str(job.cwd),
        "env": {**job.env, strays.MARK: job.mark},
        "stdin": str(job.stdin.absolute()) if job.stdin else "",
        "total_s": job.total_s,
        "idle_s": job.idle_s,
        "first_output_s": job.first_output_s,
        "output_cap": job.output_cap,
        "stop": [(int(signal.Signals[f"SIG{name}"]), grace_s) for name, grace_s in job.stop_signals],
        "mark": job.mark,
        "namespace": int(sandbox.mode != "mark"),
    }

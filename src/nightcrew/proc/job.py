"""Jobs that outlive us: start or adopt one in a folder, look at it, stop it. Its supervisor (`supervise`), a process of its own, does the work."""

import contextlib
import fcntl
import marshal
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from nightcrew.errors import UserError
from nightcrew.proc import processes
from nightcrew.proc.sandbox import Sandbox, wrap

_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from nightcrew.proc.supervise import main; main()"
_SETTLE_S = 30.0  # how long a supervisor may take between the lock on its folder and its name


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A command line to run under a supervisor; spans in seconds, 0 for no limit.

    `env` is all of the environment but the mark (NIGHTCREW_TURN), which is unlike any other job's. Until the first output, on stdout or stderr, only its own
    limit counts, if set. `stop_signals` go to the job's group, each with its grace, then what is left is killed. Beyond `output_cap` bytes the job is stopped.
    `closing` and `loops` are an adapter's (`agents.base.Launch`): what stdout's last line looks like once all is said (then `linger_s` is
    left to leave), and when the job goes in circles.
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
    closing: tuple[str, ...] = ()
    linger_s: float = 10.0
    loops: tuple[str, int] = ("", 0)


class Running(msgspec.Struct, frozen=True):
    """A living supervisor: its pid, and the line that tells it from any other process. Its end is the job's end."""

    pid: int
    identity: bytes

    def open_pidfd(self) -> int | None:
        """A descriptor, the caller's to close, that becomes readable when the job is over; None if it is already."""
        with contextlib.suppress(ProcessLookupError):
            held = os.pidfd_open(self.pid)
            if processes.alive(self.identity):
                return held
            os.close(held)
        return None


class Exit(msgspec.Struct, frozen=True, kw_only=True):
    """How a job ended, times in seconds since the epoch; `code` is the shell's, 128+n for a death by signal n, which `signal` repeats.

    `stopped_by`: "" by itself · total, idle, first_output (limits) · flood (output_cap) · loop (in circles) · closed (lingered after its end) ·
    stop (asked by `stop`) · shutdown (told to end by somebody else).
    """

    code: int
    signal: int
    stopped_by: str
    began_at: float
    ended_at: float


class Lost(msgspec.Struct, frozen=True):
    """The job was begun, its supervisor is gone and left no record: nobody knows how it ended, or will."""


class Absent(msgspec.Struct, frozen=True):
    """Nothing was ever begun here."""


def start(folder: Path, job: Job) -> Running | Exit | Lost:
    """Start the job in this folder (made for this user only), or what became of the one begun before. UserError: nothing ran."""
    # A folder begins its job at most once, whatever is killed; what a lost one left running is ended first.
    folder = folder.absolute()
    found = look(folder)
    if isinstance(found, Absent):
        found = _launch(folder, job)
    if isinstance(found, Lost):
        processes.sweep(job.mark)
    return found


def look(folder: Path) -> Running | Exit | Lost | Absent:
    """What there is to say about the job of this folder; starts and changes nothing."""
    until = time.monotonic() + _SETTLE_S
    while True:
        if found := _record(folder):
            return found
        with contextlib.suppress(FileNotFoundError), (folder / "owner").open("rb", buffering=0) as owner:
            who = owner.read(256)
            if pid := processes.alive(who):
                return Running(pid, who)
            try:
                fcntl.flock(owner, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:  # somebody about to say who it is
                if time.monotonic() > until:
                    raise UserError(f"another process holds {folder}", "is it shared with another machine?") from None
                time.sleep(0.005)
                continue
        # It may have ended between the first look and the lock.
        return _record(folder) or (Lost() if (folder / "spawned").exists() else Absent())


def stop(folder: Path) -> None:
    """Ask the job to stop (one begun here later does not run either), end what a lost one left running. Returns at once."""
    if not folder.exists():
        return
    (folder / "stop").touch(mode=0o600)
    found = look(folder)
    if isinstance(found, Running):
        processes.tell(found.pid, signal.SIGTERM)
    elif isinstance(found, Lost) and (mark := os.fsdecode((folder / "spawned").read_bytes())):
        processes.sweep(mark)


def _record(folder: Path) -> Exit | None:
    with contextlib.suppress(FileNotFoundError, msgspec.DecodeError):  # one that a power cut damaged says nothing
        return msgspec.json.decode((folder / "exit.json").read_bytes(), type=Exit)
    return None


def _launch(folder: Path, job: Job) -> Running | Exit | Lost:
    """Start a supervisor and wait until it has begun, or said why it cannot."""
    argv = [sys.executable, "-I", "-S", "-c", _BOOT, str(Path(__file__).parents[2]), str(folder)]
    # The supervisor needs no environment; without the mark a sweep cannot mistake it for the job.
    env = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    given, pipe = marshal.dumps(_orders(job)), subprocess.PIPE
    try:
        for place in (folder, *(host for host, _ in job.sandbox.private)):
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (folder / "supervisor.log").open("ab") as log:
            why = subprocess.run(argv, cwd="/", env=env, input=given, stdout=pipe, stderr=log, check=False).stdout
    except OSError as error:
        why = str(error).encode(errors="replace")
    found = look(folder)
    if isinstance(found, Absent):
        raise UserError(f"cannot start a job in {folder}: {why.decode(errors='replace').strip() or 'its supervisor died'}")
    return found


def _orders(job: Job) -> dict[str, object]:
    """The job's own fields in plain types, for `supervise`, which does without msgspec."""
    return {
        **msgspec.to_builtins(job, enc_hook=os.fspath),
        "argv": wrap(job.argv, job.sandbox),
        "env": {**job.env, processes.MARK: job.mark},
        "stdin": str(job.stdin.absolute() if job.stdin else os.devnull),
        "namespace": job.sandbox.mode != "mark",
    }

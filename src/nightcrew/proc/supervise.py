"""The guard of one job: a small process in the job's folder that starts it, keeps its limits, and writes how it ended. Started for every turn: imports little.

Its orders come on stdin, so that no secret reaches the disk. Files: owner (lock, identity) · spawned · stdout · stderr · stop (asked to) · exit.json.
"""

from __future__ import annotations

import _signal as signal  # type: ignore[import-not-found]  # the public module pulls in enum: 4 ms of CPU for every turn
import ctypes
import fcntl
import marshal
import os
import sys
import time

from nightcrew.proc import processes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Orders = dict[str, Any]  # the fields of `job.Job`, as `job._orders` gives them

_TOLD = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}
_WAITED = {*_TOLD, signal.SIGCHLD, signal.SIGIO}
_RESET = {*_WAITED, signal.SIGPIPE, signal.SIGQUIT, signal.SIGXFSZ, signal.SIGUSR1, signal.SIGUSR2}
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_NEVER = 1e9  # 30 years
_LOOK_S = 1.0  # while output flows it is looked at this often; while there is none, never
_TAIL = 256 * 1024  # bytes: no more of the output is looked at for what it says
_CLAIM_S = 30.0  # how long a holder of the lock may take to say who it is
_RECORD_BYTES = 512


def main() -> None:
    """Supervise the job ordered on stdin in the folder named by the first argument, to the end of all it started."""
    # The starter waits for the end of our stdout: the job has begun by then, or an error is on it.
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    with open(0, "rb", closefd=False) as given:
        orders: Orders = marshal.loads(given.read())  # noqa: S302 - from our starter, through a pipe only it holds
    if os.fork():  # the starter need not reap us, and its end does not concern us
        os._exit(0)
    os.setsid()
    os.chdir(sys.argv[1])
    try:
        owner = _claim()
        if owner >= 0 and not os.path.exists("spawned"):
            _serve(orders, owner)
    except OSError as error:
        os.write(1, f"{error}\n".encode(errors="replace"))
        raise
    os._exit(0)  # taking the interpreter down in order would cost 2 ms more


def _claim() -> int:
    """The descriptor that holds the lock on this folder; -1 if another supervisor has it."""
    owner = os.open("owner", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + _CLAIM_S
    while not processes.alive(os.pread(owner, 256, 0)) and time.monotonic() < until:
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.005)  # a winner about to write its name, or somebody who only looks
        else:
            return owner
    return -1


def _serve(orders: Orders, owner: int) -> None:
    """Start the job, wait for its end or its limits, end what is left, write the record."""
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    record = os.open("exit.tmp", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(record, b" " * _RECORD_BYTES)  # so that a full disk cannot lose it
    outputs = [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("stdout", "stderr")]
    began_at = time.time()
    if os.path.exists("stop"):
        return _record(record, folder, 128 + signal.SIGTERM, "stop", began_at)
    watch = _Watch(orders, _spawn(orders, outputs, folder), outputs, folder)
    os.pwrite(owner, processes.identity(os.getpid()), 0)
    null = os.open(os.devnull, os.O_RDWR)
    for pipe in (0, 1):
        os.dup2(null, pipe)
    stopped_by = watch.until_due()
    if stopped_by:
        watch.stop()
    watch.end_all()
    # All that the job wrote, workspace included, is on the disk before the record is. A disk that cannot take it must not lose the record too.
    ctypes.CDLL(None).syncfs(folder)
    return _record(record, folder, watch.code, stopped_by, began_at)


def _record(fd: int, folder: int, code: int, stopped_by: str, began_at: float) -> None:
    """Overwrite the reserved room in place, then give the record its name: whoever sees the name sees all of it."""
    text = (  # the json module would cost 7 ms
        f'{{"code":{code},"signal":{code - 128 if 128 < code <= 192 else 0},"stopped_by":"{stopped_by}",'
        f'"began_at":{began_at:.6f},"ended_at":{time.time():.6f}}}'
    )
    os.pwrite(fd, text.ljust(_RECORD_BYTES).encode(), 0)
    os.fsync(fd)
    os.rename("exit.tmp", "exit.json")
    os.fsync(folder)


def _spawn(orders: Orders, outputs: list[int], folder: int) -> int:
    """Note on the disk that the job begins, then begin it: its pid."""
    stdin = os.open(orders["stdin"], os.O_RDONLY)
    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    spawned = os.open("spawned", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    os.write(spawned, os.fsencode(orders["mark"]))
    os.fsync(folder)  # only the name counts; what is in the file serves a sweep during this boot
    me = os.getpid()
    child = os.fork()
    if child == 0:
        prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() == me:  # else we died before the line above
            _become(orders, [stdin, *outputs])
        os._exit(1)
    return child


def _become(orders: Orders, files: list[int]) -> None:
    """Turn this forked child into the job; a program that cannot be run ends like in a shell, with 127 or 126."""
    argv, cwd = orders["argv"], orders["cwd"]
    code = 126
    try:
        os.setsid()
        for target, fd in enumerate(files):
            os.dup2(fd, target)
        for number in _RESET:
            signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        os.chdir(cwd)
        os.execvpe(argv[0], argv, orders["env"])  # noqa: S606
    except OSError as error:
        code = 127 if isinstance(error, FileNotFoundError) and os.path.isdir(cwd) else 126
        os.write(2, f"nightcrew: cannot run {argv[0]}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


class _Watch:
    """One running job and its limits. Woken by the kernel (exit, output, stop) or by the next limit, never by a tick."""

    def __init__(self, orders: Orders, child: int, outputs: list[int], folder: int) -> None:
        self.orders, self.child, self.outputs, self.folder = orders, child, outputs, folder
        self.told = False
        self.running, self.code = True, 128 + signal.SIGKILL  # the code of one that will not die

    def until_due(self) -> str:
        """Wait for the end ("") or for a reason to stop the job."""
        total_s, first_s, idle_s = (self.orders[f"{name}_s"] or _NEVER for name in ("total", "first_output", "idle"))
        began = grew = time.monotonic()  # stands still while the machine is suspended
        size, look_at, over = 0, 0.0, ""
        while self.reap() and self.running:
            now = time.monotonic()
            if now >= look_at:
                look_at = self._arm(now)
            if (seen := sum(os.fstat(fd).st_size for fd in self.outputs)) != size:
                size, grew, over = seen, now, self._over()
            if os.path.exists("stop"):
                return "stop"
            if self.told:
                return "shutdown"
            if size > self.orders["output_cap"] or over == "loop":
                return over or "flood"
            starting = first_s != _NEVER and not size
            silent = (began + first_s, "first_output") if starting else (grew + idle_s, "idle")
            silent = min(silent, (grew + self.orders["linger_s"], over)) if over else silent
            due, limit = min((began + total_s, "total"), silent)
            if due <= now:
                return limit
            if self._sleep(min(due, look_at) - now) == signal.SIGIO:
                look_at = time.monotonic() + _LOOK_S  # after output the kernel is asked again only after a pause
        return ""

    def _over(self) -> str:
        """Whether what was printed last says that the work is done ("closed") or goes in circles ("loop")."""
        closing, (loop, often) = self.orders["closing"], self.orders["loops"]
        if not closing and not often:
            return ""
        with open("stdout", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            tail = file.read()
        if often and tail.count(loop.encode()) >= often:
            return "loop"
        line = tail[tail.rfind(b"\n", 0, -1) + 1 :] if tail.endswith(b"\n") else b""
        parts = (pattern.encode().partition(b"*") for pattern in closing)
        return "closed" if any(line.startswith(begin) and inside in line for begin, _, inside in parts) else ""

    def stop(self) -> None:
        """Signal the job's group until it ends, each signal with its grace; in a namespace not the sandbox's program, whose end would be the job's."""
        for name, grace_s in self.orders["stop_signals"]:
            for pid in processes.inmates(self.child) if self.orders["namespace"] else [-self.child]:
                processes.tell(pid, getattr(signal, f"SIG{name}"))
            until = time.monotonic() + grace_s
            while (left := until - time.monotonic()) > 0:
                self._sleep(left)
                self.reap()
                if not self.running:
                    return

    def end_all(self) -> None:
        """Kill our children until there are none: the kernel gives us the job's orphans too, so that then nothing of it is left."""
        until = time.monotonic() + processes.PATIENCE_S
        while self.reap() and time.monotonic() < until:
            for pid in processes.children():  # ours until we reap it: its pid cannot be another's
                processes.tell(pid, signal.SIGKILL)
            self._sleep(0.02)

    def reap(self) -> bool:
        """Take in whoever ended; whether there are children left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            if pid == self.child:
                code = os.waitstatus_to_exitcode(status)
                self.running, self.code = False, code if code >= 0 else 128 - code

    def _arm(self, now: float) -> float:
        """Have the kernel signal the next output (once): when to look by ourselves, where it cannot now and then."""
        try:
            fcntl.fcntl(self.folder, fcntl.F_NOTIFY, fcntl.DN_MODIFY | fcntl.DN_CREATE)
        except OSError:
            return now + _LOOK_S
        return _NEVER

    def _sleep(self, span_s: float) -> int:
        """Until a signal comes or the span is over: which signal, 0 for none."""
        got = signal.sigtimedwait(_WAITED, span_s)
        number = got.si_signo if got else 0
        self.told |= number in _TOLD
        return number

"""The guard of one job: a small process of its own that starts the job, keeps its limits, and writes how it ended.

Reads its orders from stdin (so that no secret of the environment reaches the disk), works in the job's folder, and
answers its starter with one line. Standard library only, and little of it: this starts once for every turn.
Files: owner (lock, identity) · spawned · stdout · stderr · stop (asked to) · exit.json.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import marshal
import os
import sys
import time

from nightcrew.proc import identity, strays

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
    from typing import NoReturn, TypedDict

    class Orders(TypedDict):
        """What the starter sends, marshalled. Spans in seconds, 0 for no limit; `stop` pairs signal number and grace."""

        argv: list[str]
        program: str
        cwd: str
        env: dict[str, str]
        stdin: str
        total_s: float
        idle_s: float
        first_output_s: float
        output_cap: int
        stop: list[tuple[int, float]]
        mark: str
        namespace: int
else:
    import _signal as signal  # the public module pulls in enum: 4 ms of CPU for every turn

NOW = signal.SIGUSR1
"""What tells a supervisor that the stop it was asked for must not wait for any grace."""

_WAITED = {signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGIO, NOW}
_RESET = {*_WAITED, signal.SIGPIPE, signal.SIGQUIT, signal.SIGXFSZ, signal.SIGUSR2}
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
_FOREVER = float("inf")
_LOOK_S = 1.0  # while output flows it is looked at this often; while there is none, never
_PATIENCE_S = 10.0  # how long killed processes may take to go
_CLAIM_S = 2.0  # how long a holder of the lock may take to say who it is
_RECORD_BYTES = 512


def main() -> NoReturn:
    """Supervise the job ordered on stdin in the folder named by the first argument, to the end of all it started."""
    signal.pthread_sigmask(signal.SIG_BLOCK, _WAITED)
    with open(0, "rb", closefd=False) as given:
        orders: Orders = marshal.loads(given.read())  # noqa: S302 - from our starter, through a pipe only it holds
    if os.fork():  # the starter need not reap us, and its end does not concern us
        os._exit(0)
    os.setsid()
    os.chdir(sys.argv[1])
    try:
        owner = _claim()
        if owner >= 0:
            _serve(orders, owner)
    except OSError as error:
        why = f"{error}\n".encode(errors="replace")
        _say(b"refused " + why)
        _note(why)
    os._exit(0)  # taking the interpreter down in order would cost 2 ms more


def _claim() -> int:
    """The descriptor that holds the lock on this folder; -1, after naming the holder, if another has it."""
    owner = os.open("owner", os.O_RDWR | os.O_CREAT, 0o600)
    until = time.monotonic() + _CLAIM_S
    while time.monotonic() < until:
        try:
            fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = identity.parsed(os.pread(owner, 256, 0))
            if who and identity.alive(who):
                _say(b"running " + identity.written(who))
                return -1
            time.sleep(0.005)  # a winner about to write its name, or somebody who only looks
        else:
            return owner
    _say(b"refused another process holds this folder\n")
    return -1


def _serve(orders: Orders, owner: int) -> None:
    """Start the job, wait for its end or its limits, end what is left, write the record."""
    if os.path.exists("exit.json") or os.path.exists("spawned"):
        return _say(b"over\n")
    me = identity.written(identity.own())
    os.ftruncate(owner, 0)
    os.pwrite(owner, me, 0)
    try:
        record, outputs = _reserve(), (_output("stdout"), _output("stderr"))
        if os.path.exists("stop"):
            now = time.time()
            _record(record, (128 + signal.SIGTERM, "stop", now, now, 0, 0, 0))
            return _say(b"over\n")
        child, began_at = _spawn(orders, outputs)
    except OSError:
        os.ftruncate(owner, 0)  # nothing runs, so nobody may find a runner
        raise
    _say(b"running " + me)
    watch = _Watch(orders, child, outputs)
    stopped_by = watch.until_due()
    if stopped_by:
        watch.stop()
    killed, left = watch.end_all()
    for fd in outputs:
        _sync(fd)
    _record(record, (watch.code(), stopped_by, began_at, time.time(), killed, left, watch.max_rss))
    return None


def _say(line: bytes) -> None:
    """Answer the starter and let go of its pipes."""
    null = os.open(os.devnull, os.O_RDWR)
    try:
        os.write(1, line)
    except OSError:
        _note(b"the starter was gone: " + line)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def _note(line: bytes) -> bool:
    """A line in supervisor.log, if the disk still takes one."""
    try:
        return os.write(2, line) > 0
    except OSError:
        return False


def _reserve() -> int:
    """Room on the disk for the exit record, so that a full disk cannot lose it."""
    fd = os.open("exit.tmp", os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    os.write(fd, b" " * _RECORD_BYTES)
    return fd


def _output(name: str) -> int:
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)


def _sync(fd: int) -> None:
    """A disk that cannot take the output must not lose the record as well."""
    try:
        if os.fstat(fd).st_size:
            os.fdatasync(fd)
    except OSError:
        pass


def _record(fd: int, values: tuple[int, str, float, float, int, int, int]) -> None:
    """Overwrite the reserved room in place, then give the record its name: whoever sees the name sees all of it."""
    code, stopped_by, began_at, ended_at, killed, left, max_rss = values
    text = (  # the json module would cost 7 ms
        f'{{"code":{code},"signal":{code - 128 if 128 < code <= 192 else 0},"stopped_by":"{stopped_by}",'
        f'"began_at":{began_at:.6f},"ended_at":{ended_at:.6f},"strays":{killed},"left":{left},"max_rss":{max_rss}}}'
    )
    os.pwrite(fd, text.ljust(_RECORD_BYTES - 1).encode() + b"\n", 0)
    os.fsync(fd)
    os.rename("exit.tmp", "exit.json")
    _sync_folder()


def _sync_folder() -> None:
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)


def _spawn(orders: Orders, outputs: tuple[int, int]) -> tuple[int, float]:
    """Note on the disk that the job begins, then begin it: pid and time of the start.

    Only the name `spawned` counts, hence one sync of the folder; its content serves a sweep during this boot.
    """
    stdin = os.open(orders["stdin"] or os.devnull, os.O_RDONLY)
    prctl = ctypes.CDLL(None).prctl
    prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    spawned = os.open("spawned", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.write(spawned, os.fsencode(orders["mark"]))
        _sync_folder()
        began_at, me = time.time(), os.getpid()
        child = os.fork()
    except OSError:
        os.unlink("spawned")
        raise
    if child == 0:
        prctl(_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != me:  # we died before the line above
            os._exit(1)
        _become(orders, (stdin, *outputs))
    os.close(stdin)
    os.close(spawned)
    return child, began_at


def _become(orders: Orders, files: tuple[int, int, int]) -> NoReturn:
    """Turn this forked child into the job; a program that cannot be run ends like in a shell, with 127 or 126."""
    os.setsid()
    for target, fd in enumerate(files):
        os.dup2(fd, target)
    for number in _RESET:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    code = 126
    try:
        os.chdir(orders["cwd"])
        path = _find(orders["program"], orders["env"].get("PATH", os.defpath))
        argv = orders["argv"]
        os.execve(path if argv[0] == orders["program"] else argv[0], argv, orders["env"])  # noqa: S606
    except OSError as error:
        code = 127 if (error.errno, error.filename) == (errno.ENOENT, orders["program"]) else 126
        os.write(2, f"nightcrew: cannot run {orders['program']}: {error}\n".encode(errors="replace"))
    finally:
        os._exit(code)


def _find(program: str, path: str) -> str:
    """Where the program is; OSError if nowhere, or not for us. Looked up here since a sandbox would just exit with 1."""
    places = [program] if "/" in program else [os.path.join(folder or ".", program) for folder in path.split(":")]
    there = [place for place in places if os.path.isfile(place)]
    for place in there:
        if os.access(place, os.X_OK):
            return place
    number = errno.EACCES if there else errno.ENOENT
    raise OSError(number, os.strerror(number), program)


class _Watch:
    """One running job and its limits. Woken by the kernel (exit, output, stop) or by the next limit, never by a tick."""

    def __init__(self, orders: Orders, child: int, outputs: tuple[int, int]) -> None:
        self.orders = orders
        self.child = child
        self.outputs = outputs
        self.folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
        self.began = self.grew = time.monotonic()  # stands still while the machine is suspended
        self.size = 0
        self.arm_at = 0.0
        self.told = self.hurried = False
        self.status: int | None = None
        self.max_rss = 0

    def until_due(self) -> str:
        """Wait for the end ("") or for a reason to stop the job."""
        while True:
            self.reap()
            if self.status is not None:
                return ""
            now = time.monotonic()
            if now >= self.arm_at:
                self.arm_at = _FOREVER if self._arm() else now + _LOOK_S
            self._look(now)
            due = self._due()
            for at, cause in due:
                if at <= now:
                    return cause
            self._sleep(min(self.arm_at, *(at for at, _ in due)) - now)

    def stop(self) -> None:
        """Ask the job to end, each signal with its grace; returns as soon as it ended."""
        for number, grace_s in self.orders["stop"]:
            self._signal(number)
            until = time.monotonic() + grace_s
            while self.status is None and not self.hurried and (left := until - time.monotonic()) > 0:
                self._sleep(left)
                self.reap()

    def end_all(self) -> tuple[int, int]:
        """Kill what is left of the job until nothing is: how many strays were killed, how many would not go."""
        killed: set[int] = set()
        left: set[int] = set()
        until = time.monotonic() + _PATIENCE_S
        while time.monotonic() < until:
            more = self.reap()
            left = self._left(more)
            if not more and not left:
                break
            for pid in left:
                if identity.started(pid) and pid != self.child and not self.orders["namespace"]:
                    killed.add(pid)
                self._kill(pid)
            self._sleep(0.02)
        return len(killed), len(left)

    def reap(self) -> bool:
        """Take in whoever ended; whether there are children left. The kernel gives us the job's orphans too."""
        while True:
            try:
                pid, status, usage = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                return False
            if pid == 0:
                return True
            self.max_rss = max(self.max_rss, usage.ru_maxrss * 1024)
            if pid == self.child:
                self.status = status

    def code(self) -> int:
        """Exit code by the shell's convention: 128+n for a death by signal n."""
        if self.status is None:
            return 128 + signal.SIGKILL
        code = os.waitstatus_to_exitcode(self.status)
        return code if code >= 0 else 128 - code

    def _due(self) -> tuple[tuple[float, str], ...]:
        """When which limit is reached, as far as can be seen now."""
        orders, silent = self.orders, not self.size
        first = orders["first_output_s"] if silent else 0.0
        idle = 0.0 if first else orders["idle_s"]
        told = "stop" if os.path.exists("stop") else "shutdown" if self.told else ""
        return (
            (self.began + orders["total_s"] if orders["total_s"] else _FOREVER, "total"),
            (self.began + first if first else _FOREVER, "first_output"),
            (self.grew + idle if idle else _FOREVER, "idle"),
            (0.0 if told else _FOREVER, told),
            (0.0 if self.size > orders["output_cap"] > 0 else _FOREVER, "flood"),
        )

    def _arm(self) -> bool:
        """Have the kernel signal the next output (once); False where it cannot, then we look now and then."""
        try:
            fcntl.fcntl(self.folder, fcntl.F_NOTIFY, fcntl.DN_MODIFY | fcntl.DN_CREATE)
        except OSError:
            return False
        return True

    def _look(self, now: float) -> None:
        size = sum(os.fstat(fd).st_size for fd in self.outputs)
        if size != self.size:
            self.size, self.grew = size, now

    def _sleep(self, span_s: float) -> None:
        """Until a signal comes or the span is over. After output the kernel is asked again only after a pause."""
        if span_s == _FOREVER:
            number = signal.sigwaitinfo(_WAITED).si_signo
        else:
            got = signal.sigtimedwait(_WAITED, max(0.0, span_s))
            number = got.si_signo if got else 0
        if number == signal.SIGIO:
            self.arm_at = time.monotonic() + _LOOK_S
        elif number not in {0, signal.SIGCHLD}:
            self.told = True
            self.hurried |= number == NOW

    def _signal(self, number: int) -> None:
        """To the job's group; in a namespace not to the sandbox's own processes, whose end would be the job's."""
        if self.orders["namespace"]:
            for pid in strays.inmates(self.child):
                strays.tell(pid, number)
        elif self.status is None:
            strays.tell(-self.child, number)

    def _left(self, more: bool) -> set[int]:  # noqa: FBT001 - the answer of `reap`
        """Own children, orphans included, and (without a namespace) whoever else carries the job's mark."""
        left = set(strays.children()) if more else set()
        return left if self.orders["namespace"] else left.union(strays.marked(self.orders["mark"]))

    def _kill(self, pid: int) -> None:
        if pid in strays.children():  # ours until we reap it: its pid cannot be another's
            strays.tell(pid, signal.SIGKILL)
        else:
            strays.kill_marked(pid, self.orders["mark"])

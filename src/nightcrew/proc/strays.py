"""Finding and ending what a turn left behind: own children, members of its group, holders of its mark; nothing else.

Standard library only, and little of it: the supervisor imports this on every turn.
"""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    import signal
else:
    import _signal as signal  # the public module pulls in enum: 4 ms of CPU for every turn

MARK = "NIGHTCREW_TURN"
"""The environment variable whose value names the turn that a process belongs to."""

_PATIENCE_S = 10.0


def children() -> list[int]:
    """Children of the calling process, zombies included; orphans of a subreaper are among them."""
    me = os.getpid()
    try:
        with open(f"/proc/{me}/task/{me}/children", "rb") as file:
            return [int(pid) for pid in file.read().split()]
    except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
        return [pid for pid in _pids() if _stat(pid)[:1] == (me,)]


def inmates(leader: int) -> list[int]:
    """Members of the leader's process group without the sandbox's own two: the leader and pid 1 of its namespace.

    A signal to the sandbox program ends the namespace at once; the agent must hear it first.
    """
    return [pid for pid in _pids() if pid != leader and _stat(pid)[1:] == (leader,) and not _is_init(pid)]


def marked(mark: str) -> list[int]:
    """Living processes whose environment says that they belong to this turn."""
    return [pid for pid in _pids() if _carries(pid, mark)]


def tell(pid: int, number: int) -> bool:
    """Send a signal (to a group if negative); False if nobody is there to take it from us."""
    try:
        os.kill(pid, number)
    except OSError:
        return False
    return True


def sweep(mark: str) -> int:
    """Kill every process that carries the mark and wait until none is left; returns how many were killed.

    Gives up after ten seconds: a process in an uninterruptible call, or of another user, stays.
    """
    killed: set[int] = set()
    until = time.monotonic() + _PATIENCE_S
    while (left := marked(mark)) and time.monotonic() < until:
        killed.update(pid for pid in left if kill_marked(pid, mark))
        time.sleep(0.005)
    return len(killed)


def kill_marked(pid: int, mark: str) -> bool:
    """Kill this process if it (still) carries the mark; holding it by a pidfd, so that a recycled pid is safe."""
    try:
        held = os.pidfd_open(pid)
    except OSError:
        return False
    try:
        if not _carries(pid, mark):
            return False
        signal.pidfd_send_signal(held, signal.SIGKILL)
    except OSError:
        return False
    finally:
        os.close(held)
    return True


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat(pid: int) -> tuple[int, ...]:
    """Parent and process group of a living process; empty if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            state, parent, group = file.read().rpartition(b")")[2].split()[:3]
    except OSError:
        return ()
    return () if state in {b"Z", b"X"} else (int(parent), int(group))


def _is_init(pid: int) -> bool:
    """Whether this process is pid 1 of a PID namespace below ours."""
    try:
        with open(f"/proc/{pid}/status", "rb") as file:
            lines = [line for line in file if line.startswith(b"NSpid:")]
    except OSError:
        return False
    return bool(lines) and len(lines[0].split()) > 2 and lines[0].split()[-1] == b"1"


def _carries(pid: int, mark: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return os.fsencode(f"{MARK}={mark}") in file.read().split(b"\0")
    except OSError:
        return False

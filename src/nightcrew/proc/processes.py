"""The process table: who a process is, so that no recycled pid is taken for it, and whose. Small, since every turn's supervisor imports it."""

import _signal as signal  # type: ignore[import-not-found]  # the public module pulls in enum: 4 ms of CPU for every turn
import os
import time

MARK = "NIGHTCREW_TURN"  # the environment variable whose value names the job that a process belongs to
# How long killed processes may take to go; one in an uninterruptible call, or of another user, may stay for ever.
PATIENCE_S = 10.0


def identity(pid: int) -> bytes:
    """One line, pid, start time and boot id, that no other process ever had; empty if it is gone or a zombie."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as boot:
        return b"%d %d %b" % (pid, start, boot.read()) if (start := _stat(pid)[2]) else b""


def alive(who: bytes) -> int:
    """The pid of the very process that this line of `identity` names; 0 if it is gone or the line is torn."""
    pid = who.partition(b" ")[0]
    return int(pid) if pid.isdigit() and identity(int(pid)) == who else 0


def children() -> list[int]:
    """Living children of the calling process; orphans of a subreaper are among them."""
    return [pid for pid in _pids() if _stat(pid)[0] == os.getpid()]


def inmates(leader: int) -> list[int]:
    """Living members of this process group without its leader."""
    return [pid for pid in _pids() if pid != leader and _stat(pid)[1] == leader]


def tell(pid: int, number: int) -> None:
    """Send a signal (to a group if negative), if anybody is there to take it from us."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def sweep(mark: str) -> None:
    """Kill every process whose environment carries this mark, until none is left or patience is over."""
    marked, until = os.fsencode(f"{MARK}={mark}"), time.monotonic() + PATIENCE_S
    while sum(_kill_if(pid, marked) for pid in _pids()) and time.monotonic() < until:
        time.sleep(0.005)


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdecimal()]


def _stat(pid: int) -> tuple[int, int, int]:
    """Parent, process group and start time (clock ticks since boot) of a living process; zeros if it is gone."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name may hold spaces and brackets: only what follows the last bracket is in fields.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0, 0, 0
    return (0, 0, 0) if fields[0] in {b"Z", b"X"} else (int(fields[1]), int(fields[2]), int(fields[19]))


def _kill_if(pid: int, marked: bytes) -> bool:
    try:
        held = os.pidfd_open(pid)  # from here on the pid cannot become another's
    except OSError:
        return False
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if carries := marked in file.read().split(b"\0"):
                signal.pidfd_send_signal(held, signal.SIGKILL)
            return carries
    except OSError:
        return False
    finally:
        os.close(held)

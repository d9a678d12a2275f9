"""Who a process is: pid, start time and boot id, so that a recycled pid is never taken for the old process.

Standard library only, and little of it: the supervisor imports this on every turn.
"""

import os

Identity = tuple[int, int, str]

_STATE, _START = 0, 19  # places in /proc/<pid>/stat, counted after the program's name


def boot_id() -> str:
    """The kernel's name for this boot; another one means that every remembered pid is void."""
    with open("/proc/sys/kernel/random/boot_id", "rb") as file:
        return file.read().decode().strip()


def started(pid: int) -> int:
    """Start time of a living process in clock ticks since boot; 0 if it is gone or a zombie."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # The name may hold spaces and brackets: only what follows the last bracket is in fields.
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return 0
    return 0 if fields[_STATE] in {b"Z", b"X"} else int(fields[_START])


def own() -> Identity:
    """The identity of the calling process."""
    pid = os.getpid()
    return pid, started(pid), boot_id()


def alive(who: Identity) -> bool:
    """Whether exactly this process still runs (a zombie does not)."""
    pid, start, boot = who
    return start != 0 and started(pid) == start and boot_id() == boot


def written(who: Identity) -> bytes:
    """One line that `parsed` reads back."""
    return f"{who[0]} {who[1]} {who[2]}\n".encode()


def parsed(line: bytes) -> Identity | None:
    """The identity in a line of `written`; None for a torn, empty or foreign one."""
    parts = line.decode(errors="replace").split()
    if not line.endswith(b"\n") or len(parts) != 3 or not (parts[0] + parts[1]).isdecimal():
        return None
    return int(parts[0]), int(parts[1]), parts[2]

"""What the figures stand on: machines of their own in a temporary folder, and programs run with their cost measured.

A cost counts everything a program started, also what outlived it: this process adopts orphans and waits for them.
"""

import ctypes
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, NamedTuple

PYTHON = sys.executable
NIGHTCREW = str(Path(PYTHON).with_name("nightcrew"))
PLAIN = str(Path(__file__).with_name("plain.sh"))
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
FILES = 20


class Cost(NamedTuple):
    """What a program took: wall and CPU in seconds (of all it started), its own peak memory in MB, its exit code and output."""

    wall_s: float
    cpu_s: float
    rss_mb: float
    code: int
    out: str


class Machine(NamedTuple):
    """One person's machine: a folder with a HOME, settings, nightcrew's state and a small repository of `FILES` files."""

    folder: Path
    env: dict[str, str]

    @property
    def repo(self) -> Path:
        """The repository; its checkout stands on a branch that is not the target, so that landing moves `main` alone."""
        return self.folder / "repo"

    @property
    def state(self) -> Path:
        """NIGHTCREW_HOME."""
        return self.folder / "nightcrew"


def adopt_orphans() -> None:
    """Become the parent of processes whose own parent is gone, so that their CPU can be counted."""
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)


def machine(folder: Path, agent: str, gate: str, settings: str = "", answers: str = '["edit"]') -> Machine:
    """Make a machine whose one agent is the shell line `agent` and whose gate is the line `gate`; `settings` is more TOML."""
    home = folder / "home"
    (home / ".config/nightcrew").mkdir(parents=True)
    text = f"""
[[agents]]
id = "alpha"
kind = "command"
answers = {answers}
command = ["sh", "-c", '''{agent}''']
[verify]
gate = ['''{gate}''']
[land]
mode = "local"
target = "main"
{settings}
"""
    (home / ".config/nightcrew/config.toml").write_text(text)
    made = Machine(folder, {"PATH": os.environ["PATH"], "HOME": str(home), "NIGHTCREW_HOME": str(folder / "nightcrew")})
    made.repo.mkdir()
    for number in range(FILES):
        (made.repo / f"f{number}.txt").write_text(f"{number}\n" * 20)
    for words in (
        "init -q -b main .",
        "config user.name Bench",
        "config user.email bench@localhost",
        "add .",
        "commit -qm base",
        "switch -qc mine",
    ):
        git(made, *words.split())
    return made


def git(where: Machine, *args: str) -> str:
    """What git says in the machine's repository."""
    done = subprocess.run(["git", *args], cwd=where.repo, env=where.env, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def start(argv: Sequence[str], where: Machine, out: int | IO[str] = subprocess.DEVNULL) -> subprocess.Popen[str]:
    """A program in the machine's repository, running."""
    return subprocess.Popen(
        argv, cwd=where.repo, env=where.env, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, text=True
    )


def cost(argv: Sequence[str], where: Machine) -> Cost:
    """Run a program to its end and the end of all it left behind."""
    before, began = spent_by_dead(), time.perf_counter()
    with (where.folder / "output").open("w+") as out:
        process = start(argv, where, out)
        # The peak is the program's own: what it waits for (git, shells) is smaller.
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        reap()
        out.seek(0)
        return Cost(wall_s, spent_by_dead() - before, usage.ru_maxrss / 1024, process.returncode, out.read())


def run(where: Machine, *args: str) -> Cost:
    """`nightcrew …`; anything but success ends the measuring."""
    done = cost([NIGHTCREW, *args], where)
    if done.code:
        raise SystemExit(f"nightcrew {' '.join(args)} ended with {done.code}:\n{done.out}")
    return done


def reap() -> None:
    """Wait for everything adopted."""
    with suppress(ChildProcessError):
        while True:
            os.waitpid(-1, 0)


def reap_dead(but: int) -> None:
    """Bury what is dead already, but for the child `but`, which is its owner's to wait for."""
    while True:
        found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if found is None or found.si_pid == but:
            return
        os.waitpid(found.si_pid, 0)


def spent_by_dead() -> float:
    """CPU seconds of all processes waited for so far, with all that they waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def spent_by(pid: int) -> float:
    """CPU seconds of a living process and of those it waited for."""
    fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def on_cpu_s(pid: int) -> float:
    """CPU seconds of a living process's threads alone, to the nanosecond."""
    tasks = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


def memory_mb(pid: int, name: str = "VmHWM") -> float:
    """A line of a living process's memory: its peak (VmHWM), or what it has now (VmRSS)."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) / 1024


def share_mb(pid: int) -> float:
    """What a living process has in memory, pages shared with others counted in parts."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def supervisors(where: Machine) -> list[int]:
    """The processes that own this machine's turns and commands."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes()
        except OSError:
            continue
        if b"supervise" in words and os.fsencode(where.state) in words:
            found.append(int(path.parent.name))
    return found


def end(*drivers: subprocess.Popen[str]) -> None:
    """Have drivers stop their turns and rescue their work now: the second SIGINT means that."""
    living = list(drivers)
    while living := [driver for driver in living if driver.poll() is None]:
        for driver in living:
            driver.send_signal(signal.SIGINT)
        time.sleep(0.5)
    reap()

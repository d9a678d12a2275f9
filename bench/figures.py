"""Print the figures that nightcrew promises, as ratios measured in one run, each beside its bound. Nothing is asserted.

Every figure has a temporary HOME of its own. BENCH_LONG=1 measures more turns and waits longer.
"""

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

import journals
import stage
from stage import NIGHTCREW, PYTHON, Machine

LONG = bool(os.environ.get("BENCH_LONG"))
ROUNDS = 15
SOLO_ROUNDS = 7
TURNS = 1000 if LONG else 200
WINDOW = 20
"""How many turns one sample of the cost of a turn covers."""
SILENT_S = 60.0 if LONG else 20.0
CROWD = 50
AT_ONCE = 8
IN_A_ROW = 20
LATE_S = 30.0
ENOUGH_S = 75.0
"""When eight at once have taken so long altogether, the rest of `IN_A_ROW` is left out."""
LISTED = 10_000
LONG_JOURNAL = 100_000

EDIT, GATE = "echo four >> f1.txt", "grep -q four f1.txt"
ALONE = "[pipeline]\nplan = false\nreviewers = 0\n"
SLOW_S = 3.0
SILENT = "exec sleep 100000"


class Figure(NamedTuple):
    """One line of the table. `bound` None = none is promised."""

    name: str
    value: float
    bound: float | None
    unit: str = "x"

    def line(self) -> str:
        """The figure, its bound, and whether it holds."""
        measured = f"{self.value:.4g} {self.unit}"
        if self.bound is None:
            return f"{self.name:<62} {measured:>14}  -"
        verdict = "ok" if self.value <= self.bound else "OVER"
        return f"{self.name:<62} {measured:>14}  {f'<= {self.bound:.4g} {self.unit}':<14} {verdict}"


@contextmanager
def machine(agent: str = EDIT, gate: str = GATE, settings: str = ALONE, answers: str = '["edit"]') -> Iterator[Machine]:
    """A machine for one measuring."""
    with tempfile.TemporaryDirectory(prefix="bench-", ignore_cleanup_errors=True) as folder:
        yield stage.machine(Path(folder) / "m", agent, gate, settings, answers)


# ── starting ──────────────────────────────────────────────────────────────────────────────────────────────────────


def startup() -> Iterator[Figure]:
    """How long the verbs that only read take, against an empty Python."""
    with machine() as here:
        stage.run(here, "run", "the task")
        journals.many_runs(here.state, LISTED)
        calls = {
            "pass": [PYTHON, "-c", "pass"],
            "version": [NIGHTCREW, "--version"],
            "help": [NIGHTCREW, "--help"],
            "list": [NIGHTCREW, "list"],
        }
        took: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(ROUNDS):
            for name, argv in calls.items():
                took[name].append(stage.cost(argv, here).wall_s)
    wall = {name: statistics.median(values) for name, values in took.items()}
    yield Figure("nightcrew --version / python3 -c pass", wall["version"] / wall["pass"], 3)
    yield Figure("nightcrew --help / python3 -c pass (5x + 20 ms)", wall["help"] / wall["pass"], 5 + 0.020 / wall["pass"])
    yield Figure(f"nightcrew list over {LISTED} runs / python3 -c pass", wall["list"] / wall["pass"], 6)


# ── a whole run ───────────────────────────────────────────────────────────────────────────────────────────────────


def solo() -> Iterator[Figure]:
    """A run with an agent that answers at once, against the same git and shell calls without nightcrew."""
    ours, plain, dirty = [], [], 0
    for _ in range(SOLO_ROUNDS):
        with machine() as here:
            ours.append(stage.run(here, "run", "the task"))
            dirty += len(stage.git(here, "status", "--porcelain").splitlines())
            landed(here)
        with machine() as here:
            plain.append(stage.cost(plain_argv(here), here))
            landed(here)
    wall = statistics.median(cost.wall_s for cost in ours) / statistics.median(cost.wall_s for cost in plain)
    cpu = statistics.median(cost.cpu_s for cost in ours) / statistics.median(cost.cpu_s for cost in plain)
    yield Figure("a solo run / bench/plain.sh, wall", wall, 2)
    yield Figure("a solo run / bench/plain.sh, CPU", cpu, 2)
    yield Figure("a solo run, peak memory", max(cost.rss_mb for cost in ours), 60, "MB")
    yield Figure("a solo run, entries in git status", dirty, 0, "files")
    counts = [counted(argv) for argv in ((NIGHTCREW, "run", "the task"), None)]
    yield Figure(f"git calls of a solo run (plain.sh makes {counts[1]})", counts[0], counts[1], "calls")


def plain_argv(here: Machine) -> list[str]:
    """The same calls without nightcrew."""
    state = here.folder / "plain"
    state.mkdir()
    return [stage.PLAIN, str(here.repo), str(state), EDIT, GATE]


def landed(here: Machine) -> None:
    """Make sure that what was measured was done."""
    if "four" not in stage.git(here, "show", "main:f1.txt"):
        raise SystemExit("nothing landed: the figure would mean nothing")


def counted(argv: tuple[str, ...] | None) -> int:
    """How many git processes a run starts itself (None: plain.sh), by a `git` in front of the real one."""
    with machine() as here:
        log, folder = here.folder / "calls", here.folder / "bin"
        folder.mkdir()
        program = folder / "git"
        real = next(path for path in map(Path, os.get_exec_path()) if (path / "git").exists()) / "git"
        program.write_text(f'#!/bin/sh\necho "$*" >>{log}\nexec {real} "$@"\n')
        program.chmod(0o755)
        before = dict(here.env)
        here.env["PATH"] = f"{folder}:{before['PATH']}"
        done = stage.cost(argv or plain_argv(here), here)
        if done.code:
            raise SystemExit(done.out)
        return len(log.read_text().splitlines())


# ── turn after turn ───────────────────────────────────────────────────────────────────────────────────────────────


def turns() -> Iterator[Figure]:
    """The CPU of a further turn with a commit, early and late in a run that goes on and on."""
    agent = 'cat /proc/uptime > f1.txt; echo \'{"word": "continue"}\''
    more = f'{ALONE}continuations = {TURNS}\n[limits]\nturns = "none"\nusd = "none"\nwall = "none"\n'
    with machine(agent, "true", more, '["edit", "text", "structured"]') as here:
        spent = spent_by_turn(here)
        if len(spent) < TURNS:
            raise SystemExit(f"{len(spent)} turns instead of {TURNS}")
        early = (spent[10 + WINDOW // 2] - spent[10 - WINDOW // 2 + 1]) / (WINDOW - 1)
        late = (spent[-1] - spent[-WINDOW]) / (WINDOW - 1)
        yield Figure("a further turn with a commit, CPU of all processes", early * 1000, 20, "ms")
        yield Figure(f"turn {TURNS} / turn 10, CPU", late / early, 1.1)
        run = journals.long_run(here.state, LONG_JOURNAL)
        yield from opening(here, run)


def opening(here: Machine, run: str) -> Iterator[Figure]:
    """What it takes to know how a run of many entries stands, and to tell its story."""
    look = "import os, sys; from nightcrew.app.control import view; view(sys.argv[1], os.environ)"
    argv = [PYTHON, "-c", look, run]
    bare = [PYTHON, "-c", look.rpartition("; ")[0]]
    wall = statistics.median(stage.cost(argv, here).wall_s - stage.cost(bare, here).wall_s for _ in range(5))
    yield Figure(f"opening a journal of {LONG_JOURNAL} entries", wall, 0.5, "s")
    yield Figure("... and telling the run's story (show)", stage.run(here, "show", run).wall_s, None, "s")
    journals.forget_snapshots(here.state)
    yield Figure("opening it without its snapshot, by folding every entry", stage.cost(argv, here).wall_s, None, "s")


def spent_by_turn(here: Machine) -> list[float]:
    """CPU seconds of a whole run, as they stood when each of its turns began."""
    before = stage.spent_by_dead()
    driver = stage.start([NIGHTCREW, "run", "go on and on"], here, subprocess.PIPE)
    spent = []
    for line in driver.stdout or ():
        if "alpha begins" in line:
            stage.reap_dead(driver.pid)
            spent.append(stage.spent_by(driver.pid) + stage.spent_by_dead() - before)
    driver.wait()
    stage.reap()
    return spent


# ── many at once, and silence ─────────────────────────────────────────────────────────────────────────────────────


def at_once() -> Iterator[Figure]:
    """Eight runs in one repository, all landing on one branch, again and again; who takes longer than `LATE_S` is given up."""
    walls: list[float] = []
    lost = 0
    while len(walls) < IN_A_ROW and (LONG or sum(walls) < ENOUGH_S):
        with machine("mktemp work-XXXXXX", "ls work-*") as here:
            began = time.perf_counter()
            drivers = [stage.start([NIGHTCREW, "run", f"task {n}"], here) for n in range(AT_ONCE)]
            for driver in drivers:
                with suppress(subprocess.TimeoutExpired):
                    driver.wait(max(0.0, began + LATE_S - time.perf_counter()))
            walls.append(time.perf_counter() - began)
            names = stage.git(here, "ls-tree", "--name-only", "main").splitlines()
            lost += AT_ONCE - sum(name.startswith("work-") for name in names)
            stage.end(*drivers)
    yield Figure(f"{AT_ONCE} runs at once, median wall of {len(walls)} times", statistics.median(walls), 2.5, "s")
    yield Figure(f"{AT_ONCE} runs at once, slowest of {len(walls)}", max(walls), 2.5, "s")
    yield Figure(f"... not landed within {LATE_S:g} s, of {AT_ONCE * len(walls)}", lost, 0, "runs")


def silence() -> Iterator[Figure]:
    """What waiting for a silent agent costs, alone and fifty at a time."""
    with machine(SILENT) as here:
        [driver] = waiting(here, 1)
        pids = [driver.pid, *stage.supervisors(here)]
        time.sleep(2)
        before, began = [stage.on_cpu_s(pid) for pid in pids], time.perf_counter()
        time.sleep(SILENT_S)
        span = time.perf_counter() - began
        used = [stage.on_cpu_s(pid) - then for pid, then in zip(pids, before, strict=True)]
        stage.end(driver)
    yield Figure(f"a waiting run for {SILENT_S:g} s, CPU of nightcrew", 100 * used[0] / span, 0.2, "%")
    yield Figure("... with its supervisor", 100 * sum(used) / span, 0.2, "%")


def crowd() -> Iterator[Figure]:
    """The memory of nightcrew while fifty agents say nothing; each run has a process of its own."""
    with machine(SILENT, settings=f"{ALONE}[machine]\nmax_turns = {CROWD}\n") as here:
        drivers = waiting(here, CROWD)
        peaks = [stage.memory_mb(driver.pid) for driver in drivers]
        shares = sum(stage.share_mb(driver.pid) for driver in drivers)
        guards = [stage.share_mb(pid) for pid in stage.supervisors(here)]
        stage.end(*drivers)
    yield Figure(f"{CROWD} silent agents, peak memory of each nightcrew", max(peaks), 60, "MB")
    yield Figure("... of all nightcrews together, per agent", shares / CROWD, None, "MB")
    yield Figure("... of all supervisors together, per agent", sum(guards) / CROWD, None, "MB")


def waiting(here: Machine, count: int) -> list[subprocess.Popen[str]]:
    """Runs whose agents are all at work."""
    drivers = [stage.start([NIGHTCREW, "run", f"task {n}"], here) for n in range(count)]
    while len(list(here.state.glob("runs/*/effects/StartTurn-*/spawned"))) < count:
        if any(driver.poll() is not None for driver in drivers):
            raise SystemExit("a run ended before its agent began")
        time.sleep(0.1)
    return drivers


# ── a competition ─────────────────────────────────────────────────────────────────────────────────────────────────


def contest() -> Iterator[Figure]:
    """What several implementers cost beside one, each of them at work for `SLOW_S`; judges answer at once."""
    walls = {n: [competing(n) for _ in range(3)] for n in (1, 3, 8)}
    alone = statistics.median(cost.wall_s for cost, _ in walls[1])
    for n, bound in ((3, 1.3), (8, None)):
        beside = statistics.median(cost.wall_s / (alone + judged_s) for cost, judged_s in walls[n])
        yield Figure(f"{n} implementers of {SLOW_S:g} s, wall beside one's and the judging", beside, bound)
        yield Figure("... judging", statistics.median(judged_s for _, judged_s in walls[n]), None, "s")
        yield Figure("... peak memory", max(cost.rss_mb for cost, _ in walls[n]), 80, "MB")


def competing(n: int) -> tuple[stage.Cost, float]:
    """A run of so many implementers: what it cost, and how long its judging took, in seconds."""
    order = json.dumps({"order": [chr(ord("A") + k) for k in range(n)]})
    agent = f"if grep -q 'Rank them all'; then echo '{order}'; else sleep {SLOW_S}; echo four {{label}} >> f1.txt; fi"
    settings = f"{ALONE}implementers = {n}\nmax_parallel = {n}\n[machine]\nmax_turns = {n + 3}\n"
    with machine(agent, settings=settings, answers='["edit", "structured"]') as here:
        cost = stage.run(here, "run", "write four")
        return cost, journals.spent_at(here.state, "judge")


# ── the table ─────────────────────────────────────────────────────────────────────────────────────────────────────

SECTIONS: tuple[Callable[[], Iterator[Figure]], ...] = (startup, solo, turns, at_once, silence, crowd, contest)


def main() -> None:
    """Measure and print, one section after the other."""
    stage.adopt_orphans()
    began = time.perf_counter()
    chosen = os.environ.get("BENCH_ONLY", "").split()
    print(f"{'figure':<62} {'measured':>14}  bound")
    for section in SECTIONS:
        if not chosen or section.__name__ in chosen:
            for figure in section():
                print(figure.line(), flush=True)
    print(f"measured in {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

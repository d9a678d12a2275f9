"""The crash sweep: every scenario is recorded once, then killed at each of its points and driven on: the end must be the same.

    python -m crash.sweep sample | classes | all [scenario ...]

`all`: every point, some 2,800 in 42 minutes on two cores that had other work too. `classes`: every kind of effect in every phase, before, in
and after it, and each kind of fact once, killed, and with a cut of the power. `sample`: every kind of effect, before, in and after, and a cut
of the power after a turn. A kind of effect that no scenario brings to one of the three is a violation too.
"""

import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from msgspec.structs import replace

import conftest
from crash import hard, power
from crash.driver import Order
from crash.ends import End, differences, end_all, end_of
from crash.machine import Hang, Machine, Tape, died, until
from crash.points import KINDS, WHENS, Point, points_of
from crash.scenarios import SCENARIOS, Scenario

LANES = int(os.environ.get("LANES", "2"))


class Recorded(NamedTuple):
    """A scenario's machine with its one recorded run."""

    machine: Machine
    tape: Tape
    expected: End
    points: list[Point]


def recorded(root: Path, scenario: Scenario) -> Recorded:
    """Build and record."""
    machine = Machine(root / scenario.name, scenario)
    tape = machine.record()
    points = [*points_of(scenario.name, tape), *hard.points_of(scenario.name, tape), *power.points_of(scenario.name, tape)]
    return Recorded(machine, tape, end_of(machine), points)


def violations(on: Recorded, point: Point) -> list[str]:
    """Kill at that point, drive on, compare: what is not the same, a line each."""
    machine, run = on.machine, on.tape.run
    machine.put_back(point.at)
    try:
        if point.how == "held":
            killed_at_the_turnstile(machine, Order(run=run))
        if point.how in hard.WAYS:
            hard.interrupted(machine, run, point)
        if point.how in power.WAYS:
            power.cut(machine, point)
        for order in deaths(point, Order(run=run, at=machine.copied_at(point.at) if point.how == "asleep" else 0.0)):
            died(machine.start(order))
        process = machine.rest(run)
        if point.how == "held":
            until(lambda: machine.driven(run), process, "the next driver")
            machine.open()
        machine.finish(process, run)
        end = end_of(machine)
        rough = point.how in (*hard.WAYS, *power.WAYS)
        return hard.wrong(on.expected, end, point.how) if rough else differences(on.expected, end)
    except (Hang, AssertionError) as broken:
        machine.open()
        end_all(run)
        return [f"{type(broken).__name__}: {broken}"]


def deaths(point: Point, order: Order) -> list[Order]:
    """The drivers that die by themselves, one after the other."""
    match point.how:
        case "after" | "several":
            return [replace(order, after=seq) for seq in (point.number, *point.more) if seq != point.at.seq or point.at.before]
        case "before":
            return [replace(order, before=point.number)]
        case "git" | "orphan":
            return [replace(order, git=point.number, told="stop" if point.how == "git" else "orphan")]
        case "asleep":
            return [replace(order, asleep=True)]
        case _:
            return []


def killed_at_the_turnstile(machine: Machine, order: Order) -> None:
    """kill -9 of a driver while a program of its waits, which lives on."""
    machine.shut()
    process = machine.start(order)
    until(machine.somebody_waits, process, "a program at the turnstile")
    process.kill()
    process.communicate()


# ── which points ──────────────────────────────────────────────────────────────────────────────────────────────────────


def chosen(points: list[Point], class_of: Callable[[Point], tuple[str, ...]]) -> list[Point]:
    """One point of each class, spread over the scenarios."""
    classes: dict[tuple[str, ...], list[Point]] = {}
    for point in points:
        classes.setdefault(class_of(point), []).append(point)
    load: Counter[str] = Counter()
    taken = []
    for name in sorted(classes):
        taken.append(min(classes[name], key=lambda p: (HOWS.index(p.how), load[p.scenario], p.number)))
        load[taken[-1].scenario] += 1
    return taken


HOWS = ("held", "asleep", "copy", "after", "before", "several", "git", "orphan", *hard.WAYS, *power.WAYS)


def selected(points: list[Point], mode: str) -> list[Point]:
    """The points that this mode runs."""
    effects = [p for p in points if p.kind]
    match mode:
        case "all":
            return points
        case "classes":
            facts, several = [p for p in points if p.fact and not p.kind], [p for p in points if p.how == "several"]
            other = [*chosen(facts, lambda p: (p.fact,)), *chosen(several, lambda p: (p.scenario,))]
            return [*chosen(effects, lambda p: (p.kind, p.phase, p.when)), *other]
        case _:
            cuts = [p for p in points if p.fact == "TurnEnded, power"]
            return [*chosen([p for p in effects if p.when in WHENS], lambda p: (p.kind, p.when)), *cuts[:1]]


def missing(points: list[Point]) -> list[str]:
    """Kinds of effects that exist and that no scenario brings to some moment."""
    seen = {(p.kind, p.when) for p in points}
    return [f"no scenario brings {kind} to a death {when} it" for kind in KINDS for when in WHENS if (kind, when) not in seen]


# ── the whole ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Count:
    """What was done so far, told on the way."""

    def __init__(self) -> None:
        """Nothing yet."""
        self.points, self.bad, self.total, self.lock, self.began = 0, 0, 0, Lock(), time.monotonic()

    def tell(self, what: str, wrong: list[str]) -> None:
        """One point is done."""
        with self.lock:
            self.points += 1
            self.bad += bool(wrong)
            if wrong:
                say("\n".join([f"VIOLATION {what}", *(f"    {line}" for line in wrong)]))
            elif self.points % 10 == 0:
                took_s = time.monotonic() - self.began
                left_s = took_s / self.points * (self.total - self.points)
                say(f"{self.points} of {self.total}, {self.bad} violations, {took_s:.0f} s, about {left_s:.0f} s left")


def sweep(root: Path, mode: str, names: list[str]) -> int:
    """Record, choose, kill; how many violations."""
    wanted, count = [s for s in SCENARIOS if not names or s.name in names], Count()
    with ThreadPoolExecutor(LANES) as lanes:
        tapes = {on.machine.scenario.name: on for on in lanes.map(lambda scenario: recorded(root, scenario), wanted)}
        points = [point for on in tapes.values() for point in on.points]
        for name, on in tapes.items():
            say(f"{name}: {len(on.tape.entries)} entries, {len(on.points)} points")
        lacking = [] if names else missing(points)
        for line in lacking:
            say(f"VIOLATION {line}")
        todo = selected(points, mode)
        count.total = len(todo)

        def one_scenario(name: str) -> None:
            for point in todo:
                if point.scenario == name:
                    count.tell(point.told, violations(tapes[name], point))

        per = Counter(point.scenario for point in todo)
        for _ in lanes.map(one_scenario, sorted(per, key=lambda name: -per[name] * len(tapes[name].tape.entries))):
            pass
    kinds = len({(p.kind, p.phase, p.when) for p in todo if p.kind})
    say(f"{kinds} classes, {time.monotonic() - count.began:.0f} s")
    say(f"points {count.points} violations {count.bad + len(lacking)}")
    return count.bad + len(lacking)


def say(line: str) -> None:
    """A line, at once."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main(mode: str, *names: str) -> int:
    """In an environment of its own, below one temporary folder."""
    root = Path(tempfile.mkdtemp(prefix="nightcrew-crash-"))
    (root / ".gitconfig").write_text(conftest.GITCONFIG)
    for name in [name for name in os.environ if name not in conftest.KEPT]:
        del os.environ[name]
    os.environ.update(conftest.environment(root))
    try:
        return min(1, sweep(root, mode, list(names)))
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

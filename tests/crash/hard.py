"""Interruptions of a real run while a program of it waits at the turnstile, or at a call of git: signals, and kill -9 of all that takes part.

What is killed is asked again: one more process for each killed turn is allowed, and a rescue ref that keeps its work.
"""

import os
import signal
import subprocess
from collections import Counter

from crash.driver import Order
from crash.ends import End, differences, kill, marked
from crash.machine import Hang, Machine, Tape, died, ended, until
from crash.points import Point, of_effect, started
from nightcrew.core.ids import RunId
from nightcrew.proc import job
from support import crew

AT_GIT = {"int at git": "INT", "term at git": "TERM", "int twice at git": "twice"}
POLITE = ("int", "term", "int at git", "term at git")
"""After these nothing was killed: all must be as it would have been."""
ROUGH = ("int twice", "supervisor", "both", "all three")
TURNS = ("program",)
"""A command or hook of which only the program is killed is red, which is another story."""

RESCUE = "refs/nightcrew/rescue/"
WAYS = (*POLITE, *ROUGH, *TURNS, "int twice at git")
SUPERVISED = ("StartTurn", "RunCommands", "MakeCommit", "Land")
MACHINES = {"solo": ROUGH, "push": ROUGH, "remote": ("int twice",)}
"""The scenarios that this is done to: their scripts do not count turns, and a person drives them with `nightcrew resume`. A push has no supervisor."""


def points_of(name: str, tape: Tape) -> list[Point]:
    """Every way of interrupting each effect that is held, and each call of git."""
    if name not in MACHINES:
        return []
    found = []
    for point in (point for key in started(tape) for point in of_effect(name, tape, key)):
        match point.how:
            case "held":
                rough = MACHINES[name] if point.kind in SUPERVISED else ("int twice",)
                ways = ["int", "term", *rough, *(TURNS if point.kind == "StartTurn" else ())]
            case "git" | "orphan":
                ways = list(AT_GIT)
            case _:
                ways = []
        found += [point._replace(how=how, when=how) for how in ways]
    return found


def interrupted(machine: Machine, run: RunId, point: Point) -> None:
    """Drive to that instant, interrupt there, and see that run rest or go on."""
    if point.how in AT_GIT:
        told_at_git(machine, Order(run=run, git=point.number, told=AT_GIT[point.how]))
    else:
        at_the_turnstile(machine, run, point.how)


def told_at_git(machine: Machine, order: Order) -> None:
    """A call of git sends its driver a signal, and goes on."""
    process = machine.start(order)
    ended(process)
    left = process.returncode == 128 + signal.SIGTERM
    if not (left if order.told == "TERM" else machine.says(RunId(order.run), "ParkAsked")):
        raise Hang(f"it did not hear {order.told} at git: it ended with {process.returncode}")


def at_the_turnstile(machine: Machine, run: RunId, how: str) -> None:
    """While a program waits there."""
    machine.shut()
    process = machine.start(Order(run=run))
    until(machine.somebody_waits, process, "a program at the turnstile")
    match how:
        case "int":
            process.send_signal(signal.SIGINT)
            until(lambda: machine.says(run, "ParkAsked"), process, "the wish to park")
            machine.open()
            ended(process)
        case "int twice":
            process.send_signal(signal.SIGINT)
            until(lambda: machine.says(run, "ParkAsked"), process, "the wish to park")
            process.send_signal(signal.SIGINT)
            ended(process)
        case "term":
            process.terminate()
            ended(process)
        case _:
            killed(machine, run, how, process)
    machine.open()


def killed(machine: Machine, run: RunId, how: str, process: subprocess.Popen[str]) -> None:
    """kill -9 of some of the three; the last of them to go is the one that could tell."""
    before = set(marked(run))
    if how == "all three":
        process.kill()
    if how != "program":
        os.kill(supervisor(machine, run), signal.SIGKILL)
    if how != "supervisor":
        for pid in marked(run):
            kill(pid)
    # Or what is about to die of its supervisor's death would go on for a little.
    crew.until(lambda: not before & set(marked(run)))
    machine.open()
    if how == "all three":
        died(process)
    else:
        machine.finish(process, run)


def supervisor(machine: Machine, run: RunId) -> int:
    """The pid of the one job that runs."""
    owners = (machine.crew.state_home / "runs" / run / "effects").rglob("owner")
    pids = [found.pid for owner in owners if isinstance(found := job.look(owner.parent), job.Running)]
    if len(pids) != 1:
        raise Hang(f"one supervisor was to run, not {len(pids)}")
    return pids[0]


def wrong(expected: End, found: End, how: str) -> list[str]:
    """What must not be, after such an interruption."""
    found = found._replace(facts=expected.facts, files=expected.files)
    if how in POLITE:
        return differences(expected, found)
    more = sum(found.agents.values()) - sum(expected.agents.values())
    lost = rescued(expected) - rescued(found)
    said = differences(plain(expected), plain(found)._replace(agents=expected.agents, spend=expected.spend))
    said += [f"{times} of {what} not rescued" for what, times in lost.items()]
    return [*said, *([f"{more} more processes"] if more not in {0, 1} else [])]


def rescued(end: End) -> Counter[str]:
    """What is kept by rescue refs; there may be more of them, and other numbers."""
    return Counter(what for name, what in end.refs.items() if RESCUE in name)


def plain(end: End) -> End:
    """Without them."""
    return end._replace(refs={name: what for name, what in end.refs.items() if RESCUE not in name})

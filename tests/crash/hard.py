"""Interruptions of a real run while a program of it waits at the turnstile: signals, and kill -9 of all that takes part but nightcrew.

What is killed is asked again: one more process for each killed turn is allowed, and a rescue ref that keeps its work.
"""

import os
import signal
import subprocess

from crash.driver import Order
from crash.ends import End, differences, marked
from crash.machine import Machine, Tape, died, ended, until
from crash.points import Point, held_points
from nightcrew.core.ids import RunId
from nightcrew.proc import job

POLITE = ("int", "term")
"""After these nothing was killed: all must be as it would have been."""
ROUGH = ("int twice", "supervisor", "program", "both", "all three")


WAYS = (*POLITE, *ROUGH)
MACHINES = ("solo", "push")
"""The scenarios that this is done to: their scripts do not count turns, and a person drives them with `nightcrew resume`."""


def points_of(name: str, tape: Tape) -> list[Point]:
    """Every way of interrupting each held effect; roughly only turns: a command or hook that is killed is red, which is another story."""
    held = held_points(name, tape) if name in MACHINES else []
    ways = {point: (*POLITE, *(ROUGH if point.kind == "StartTurn" else ())) for point in held}
    return [point._replace(how=how, when=how) for point in held for how in ways[point]]


def interrupted(machine: Machine, run: RunId, how: str) -> None:
    """Drive to the turnstile, interrupt there, and see that run rest or go on."""
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
    if how == "all three":
        process.kill()
    if how != "program":
        os.kill(supervisor(machine, run), signal.SIGKILL)
    if how != "supervisor":
        for pid in marked(run):
            _kill(pid)
    machine.open()
    if how == "all three":
        died(process)
    else:
        machine.finish(process, run)


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def supervisor(machine: Machine, run: RunId) -> int:
    """The pid of the one job that runs."""
    owners = (machine.crew.state_home / "runs" / run / "effects").rglob("owner")
    (pid,) = [found.pid for owner in owners if isinstance(found := job.look(owner.parent), job.Running)]
    return pid


def wrong(expected: End, found: End, how: str) -> list[str]:
    """What must not be, after such an interruption."""
    found = found._replace(facts=expected.facts, files=expected.files)
    if how in POLITE:
        return differences(expected, found)
    more = sum(found.agents.values()) - sum(expected.agents.values())
    refs = {name: what for name, what in found.refs.items() if "refs/nightcrew/rescue/" not in name}
    said = differences(expected, found._replace(agents=expected.agents, spend=expected.spend, refs=refs))
    return [*said, *([f"{more} more processes"] if more not in {0, 1} else [])]

"""The door of the room: which kinds of agent there are, what is known of each without loading it, and which program it is.

To add an agent: one module beside this one, and one line in `KINDS`.
"""

import sys
from importlib import import_module
from typing import Literal, NamedTuple, cast

from nightcrew.agents import find
from nightcrew.agents.base import Adapter
from nightcrew.agents.find import Resolved
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, Answers


class Kind(NamedTuple):
    """One kind of agent: its module, what it can answer (rulings 46), and which program is started for it.

    `runs` is `program` (one of `programs` on PATH), `argv` (the first word of the roster's command) or `player`
    (our own interpreter, with a program of `nightcrew.players`; the roster's command holds its arguments).
    """

    module: str
    answers: tuple[Answers, ...]
    runs: Literal["program", "argv", "player"]
    programs: tuple[str, ...] = ()


_ALL = (Answers.Edit, Answers.Text, Answers.Structured)

KINDS: dict[str, Kind] = {
    "claude": Kind("nightcrew.agents.claude", _ALL, "program", ("claude",)),
    "command": Kind("nightcrew.agents.command", (Answers.Edit,), "argv"),
    "scripted": Kind("nightcrew.agents.scripted", _ALL, "player"),
}


def adapter(kind: str) -> Adapter:
    """The adapter module of that kind, loaded now.

    Raises:
        KeyError: There is no such kind; the configuration is checked against `KINDS` before.
    """
    return cast("Adapter", import_module(KINDS[kind].module))


def resolve(agent: Agent, path: str) -> Resolved:
    """Which program `agent` is on this machine, without starting anything: where it was before, then on `path`.

    `path` is a PATH. What is missing is said in one line in `why_not`.
    """
    kind = KINDS.get(agent.kind)
    if kind is None:
        return Resolved("", f"there is no kind of agent called {agent.kind!r}; there are {', '.join(sorted(KINDS))}")
    if kind.runs != "program" and not agent.command:
        return Resolved("", f"agent {agent.id!r} of kind {agent.kind!r} has no command")
    if kind.runs == "player":
        script = find.readable(agent.command[0])
        return Resolved("", script) if script else Resolved(sys.executable)
    names = kind.programs if kind.runs == "program" else agent.command[:1]
    return find.program((agent.program, *names) if agent.program else names, path)


def found(path: str) -> list[Agent]:
    """A roster made from the model programs found on `path`, for a machine without any configuration; best known first."""
    return [
        Agent(id=AgentId(name), kind=name, answers=kind.answers, program=resolved.program)
        for name, kind in KINDS.items()
        if kind.runs == "program" and (resolved := find.program(kind.programs, path)).program
    ]


def looked_for() -> tuple[str, ...]:
    """The names of all programs that `found` looks for, to say what is missing."""
    return tuple(name for kind in KINDS.values() for name in kind.programs)

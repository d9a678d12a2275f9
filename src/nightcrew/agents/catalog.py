"""The door of the room: which kinds of agent there are, and which program each is here; to look loads and starts none of them."""

import os
import shutil
import sys
import tomllib
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Literal, NamedTuple, cast

import msgspec

from nightcrew.agents.base import Adapter
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, Answers


class Kind(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One kind of agent, a table of `catalog.toml`: which program is started for it, what that gets and what it can."""

    answers: tuple[Answers, ...] = tuple(Answers)  # decision 0029
    # One of the kind's name on PATH; the first word of the roster's command, by itself or through a client of ours; a player of ours.
    runs: Literal["program", "argv", "client", "player"] = "program"
    passes: tuple[str, ...] = ()
    login: tuple[str, ...] = ()
    sessions: Literal["", "its own", "chosen"] = ""
    looks: bool = False
    resets: bool = False
    tokens: bool = False
    money: bool = False
    silent: bool = False
    bad: dict[str, str] = {}

    @property
    def can(self) -> tuple[str, ...]:
        """What it can beyond its answers, in words for people."""
        facts = ("sessions", self.sessions), ("chosen ids", self.sessions == "chosen"), ("read-only", self.looks)
        more = ("reset times", self.resets), ("tokens", self.tokens), ("money", self.money)
        return tuple(word for word, true in (*facts, *more) if true)


class Resolved(NamedTuple):
    """A program's path, or in `why_not` one line on why there is none."""

    program: str
    why_not: str = ""


@cache
def kinds() -> dict[str, Kind]:
    """All kinds by name."""
    return msgspec.convert(tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8")), dict[str, Kind])


def adapter(kind: str) -> Adapter:
    """The adapter module of a kind, loaded now."""
    return cast("Adapter", import_module(f"nightcrew.agents.{kind}"))


def resolve(agent: Agent, path: str) -> Resolved:
    """Which program `agent` is on this machine: where it was before, then on `path` (a PATH)."""
    if agent.kind not in kinds():
        return Resolved("", f"there is no kind of agent called {agent.kind!r}; there are {', '.join(kinds())}")
    runs = kinds()[agent.kind].runs
    if runs != "program" and not agent.command:
        return Resolved("", f"agent {agent.id!r} of kind {agent.kind!r} has no command")
    if runs == "player":
        script = agent.command[0]
        return Resolved(sys.executable) if os.access(script, os.R_OK) else Resolved("", f"{script} cannot be read")
    if runs == "client" and find_spec("acp") is None:
        return Resolved("", f"kind {agent.kind} needs the extra; in the clone: pip install '.[acp]'")
    name = agent.kind if runs == "program" else agent.command[0]
    before = _program(agent.program, path) if agent.program else Resolved("")
    return before if before.program else _program(name, path)


def found(path: str) -> list[Agent]:
    """A roster made from the model programs found on `path`, for a machine without any configuration; best known first."""
    there = ((name, _program(name, path).program) for name in looked_for())
    return [Agent(id=AgentId(name), kind=name, answers=kinds()[name].answers, program=file) for name, file in there if file]


def looked_for() -> tuple[str, ...]:
    """The names of all programs that `found` looks for, to say what is missing."""
    return tuple(name for name, kind in kinds().items() if kind.runs == "program")


def misbehaves(kind: str, version: str) -> str:
    """What a version is known to do wrong; empty when nothing is known."""
    return next((why for begin, why in kinds()[kind].bad.items() if any(word.startswith(begin) for word in version.split())), "")


def _program(name: str, path: str) -> Resolved:
    name = os.path.expanduser(name)
    if os.sep in name and not os.path.isabs(name):
        # A file of the workspace, which exists only when the turn begins.
        return Resolved(name)
    # A relative folder of PATH is passed over: a workspace must not add programs.
    safe = os.pathsep.join(folder for folder in path.split(os.pathsep) if os.path.isabs(folder))
    if file := shutil.which(name, path=safe):
        return Resolved(file)
    there, where = shutil.which(name, os.F_OK, path=safe), "" if os.sep in name else " on PATH"
    return Resolved("", f"{there} is not executable" if there else f"no program {name} found{where}")

"""The `[[agents]]` of one file: from tables to the core's roster. Which kinds there are is told from outside."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from nightcrew.config.mistakes import Complaint, near
from nightcrew.config.readers import argv, number, shown, text
from nightcrew.config.table import LATER_KINDS
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, Answers, SecretRef

KEYS = ("id", "kind", "model", "account", "command", "env", "answers", "price")

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class KindInfo(NamedTuple):
    """What the settings must know of a kind of agent.

    `answers`: what its adapter can give; an entry may name fewer, or any where `argv` holds. `argv`: the entry brings the
    program (`command`). `model`: the entry may name one. `money`: the program reports what a turn cost.
    """

    answers: tuple[Answers, ...]
    argv: bool = False
    model: bool = True
    money: bool = False


def read_agents(value: Any, kinds: Mapping[str, KindInfo], said: list[Complaint]) -> tuple[Agent, ...]:
    """The entries in order. Without `account`, agents of a kind share its login unless they bring a program or variables.

    Entries with a complaint are there as far as their id can be read, so that roles know it.
    """
    if not isinstance(value, list) or not value:
        told = "no agent is named" if value == [] else f"{shown(value)} is not a list of agents"
        said.append(Complaint(told, "[[agents]]"))
        return ()
    roster: list[Agent] = []
    for n, entry in enumerate(value):
        mine: list[Complaint] = []
        agent = _agent(entry, kinds, mine)
        if any(agent.id == earlier.id for earlier in roster):
            mine.append(Complaint(f'the id "{agent.id}" is taken', "two entries need two ids", ("id",)))
        name = f'"{agent.id}": ' if agent.id else ""
        said += [Complaint(name + c.text, c.hint, (n, *c.path)) for c in mine]
        if agent.id:
            roster.append(agent)
    return tuple(roster)


def _agent(entry: Any, kinds: Mapping[str, KindInfo], said: list[Complaint]) -> Agent:
    if not isinstance(entry, dict):
        said.append(Complaint(f"{shown(entry)} is not an agent's table"))
        return Agent(id=AgentId(""), kind="")
    said += [Complaint(f'unknown key "{key}"', near(key, KEYS), (key,)) for key in entry if key not in KEYS]
    name = _id(entry, said)
    kind = _kind(entry, kinds, said)
    info = kinds.get(kind)
    command = _command(entry, info, said)
    env = _env(entry.get("env", {}), said)
    return Agent(
        id=AgentId(name),
        kind=kind,
        model=_word(entry, "model", said)
        if info is None or info.model or "model" not in entry
        else _no_model(kind, said),
        account=_word(entry, "account", said) or (name if command or env else kind),
        command=command,
        env=env,
        answers=_answers(entry, info, said),
        price=_price(entry, said),
    )


def _within(key: str, found: list[Complaint], said: list[Complaint]) -> None:
    said += [Complaint(f"{key}: {c.text}", c.hint, (key, *c.path)) for c in found]


def _id(entry: dict[str, Any], said: list[Complaint]) -> str:
    name = entry.get("id")
    if name is None:
        said.append(Complaint("an agent has no id", 'id = "a-name"'))
    elif not isinstance(name, str) or not _ID.fullmatch(name):
        said.append(Complaint(f"id: {shown(name)} is not an id", "letters, digits and . _ @ + -, at most 64", ("id",)))
    else:
        return name
    return ""


def _kind(entry: dict[str, Any], kinds: Mapping[str, KindInfo], said: list[Complaint]) -> str:
    kind = entry.get("kind")
    known = ", ".join(sorted(kinds))
    if kind is None:
        said.append(Complaint("an agent has no kind", f"one of {known}"))
        return ""
    if isinstance(kind, str) and kind in kinds:
        return kind
    if isinstance(kind, str) and kind in LATER_KINDS:
        said.append(Complaint(f'kind: "{kind}" is not in this version and comes later', f"one of {known}", ("kind",)))
    else:
        hint = near(kind, kinds) if isinstance(kind, str) else ""
        said.append(Complaint(f"kind: {shown(kind)} is not one of {known}", hint, ("kind",)))
    return ""


def _word(entry: dict[str, Any], key: str, said: list[Complaint]) -> str:
    if key not in entry:
        return ""
    found: list[Complaint] = []
    value = text(entry[key], found)
    _within(key, found, said)
    return "" if found else str(value)


def _no_model(kind: str, said: list[Complaint]) -> str:
    said.append(Complaint(f'model: the kind "{kind}" takes no model', "leave it out", ("model",)))
    return ""


def _command(entry: dict[str, Any], info: KindInfo | None, said: list[Complaint]) -> tuple[str, ...]:
    if "command" not in entry:
        if info is not None and info.argv:
            said.append(Complaint(f'the kind "{entry["kind"]}" needs a command', 'command = ["program", "--flag"]'))
        return ()
    found: list[Complaint] = []
    command = argv(entry["command"], found)
    _within("command", found, said)
    if info is not None and not info.argv:
        said.append(
            Complaint(f'command: the kind "{entry["kind"]}" brings its own program', "leave it out", ("command",))
        )
    return command


def _answers(entry: dict[str, Any], info: KindInfo | None, said: list[Complaint]) -> tuple[Answers, ...]:
    able = info.answers if info else tuple(Answers)  # of an unknown kind nothing more is held against the entry
    if "answers" not in entry:
        return able
    named = entry["answers"]
    if not isinstance(named, list) or not named:
        said.append(
            Complaint(f"answers: {shown(named)} is not a list", f"some of {_words(tuple(Answers))}", ("answers",))
        )
        return able
    allowed = tuple(Answers) if info is None or info.argv else able
    for n, one in enumerate(named):
        if not isinstance(one, str) or one not in tuple(Answers):
            hint = near(one, tuple(Answers)) if isinstance(one, str) else ""
            said.append(
                Complaint(f"answers: {shown(one)} is not one of {_words(tuple(Answers))}", hint, ("answers", n))
            )
        elif one not in allowed:
            told = f'answers: the kind "{entry["kind"]}" cannot answer with {one}'
            said.append(Complaint(told, f"it can {_words(allowed)}", ("answers", n)))
    return tuple(answer for answer in Answers if answer in named)


def _words(answers: tuple[Answers, ...]) -> str:
    return ", ".join(answers)


def _price(entry: dict[str, Any], said: list[Complaint]) -> float | None:
    if "price" not in entry:
        return None
    found: list[Complaint] = []
    value = number(entry["price"], found)
    _within("price", found, said)
    return value


def _env(value: Any, said: list[Complaint]) -> dict[str, str | SecretRef]:
    if not isinstance(value, dict):
        said.append(Complaint(f"env: {shown(value)} is not a table", 'env = { NAME = "value" }', ("env",)))
        return {}
    read: dict[str, str | SecretRef] = {}
    for name, one in value.items():
        if not _NAME.fullmatch(name):
            said.append(Complaint(f"env: {shown(name)} is not the name of a variable", path=("env", name)))
        elif isinstance(one, str) and "\0" not in one:
            read[name] = one
        elif isinstance(one, dict) and (ref := _reference(one)):
            read[name] = ref
        else:  # the value is never shown: it may be a secret
            hint = 'a text, { env = "NAME" } or { command = "pass show x" }'
            said.append(Complaint(f"env: {name} has no value that can be used", hint, ("env", name)))
    return read


def _reference(value: dict[str, Any]) -> SecretRef | None:
    if len(value) != 1:
        return None
    key, told = next(iter(value.items()))
    if not isinstance(told, str) or not told.strip() or "\0" in told:
        return None
    if key == "env":
        return SecretRef(env=told) if _NAME.fullmatch(told) else None
    return SecretRef(command=told) if key == "command" else None

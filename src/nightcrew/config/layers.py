"""One settings file, or the command line, read on its own: values by dotted key, where each stands, and all that is wrong in it."""

import re
import tomllib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Any

from msgspec import Struct

from nightcrew.config.agents import KindInfo, read_agents
from nightcrew.config.lines import Path as KeyPath
from nightcrew.config.lines import key_lines
from nightcrew.config.mistakes import Complaint, Mistake, Origin, near
from nightcrew.config.readers import ids, shown
from nightcrew.config.table import LATER, TABLES, Setting
from nightcrew.core.roster import AgentRole


class Side(StrEnum):
    """Whose word a layer is; later ones win."""

    Machine = "machine"
    Repository = "repository"
    CommandLine = "command line"


class Layer(Struct, frozen=True, kw_only=True):
    """What one source says. `values` holds core values by dotted key; `origins` also knows items (`roles.fixer.1`)."""

    side: Side
    file: str
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    mistakes: tuple[Mistake, ...] = ()
    readable: bool = True


class _Found(Struct, frozen=True):
    """One thing the reading of a layer met: a value, or complaints about it."""

    path: KeyPath
    value: Any = None
    said: tuple[Complaint, ...] = ()


def read_file(side: Side, path: Path, file: str, kinds: Mapping[str, KindInfo]) -> Layer:
    """The layer of the file at `path`, called `file` in messages; an absent file is an empty layer."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return Layer(side=side, file=file)
    except OSError as error:
        return _unreadable(side, Mistake(file, 0, f"cannot be read: {error.strerror}"))
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return _unreadable(side, Mistake(file, raw.count(b"\n", 0, error.start) + 1, "is not UTF-8 text"))
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        return _unreadable(side, _not_toml(file, text, str(error)))
    return _layer(side, file, data, key_lines(text), kinds)


def _unreadable(side: Side, mistake: Mistake) -> Layer:
    return Layer(side=side, file=mistake.file, mistakes=(mistake,), readable=False)


def _not_toml(file: str, text: str, error: str) -> Mistake:
    """Python's words and line; it gives no line at the end of the text."""
    found = re.search(r" \(at line (\d+), column (\d+)\)", error)
    told = re.sub(r" \(at [^)]*\)$", "", error)
    line = int(found.group(1)) if found else text.rstrip().count("\n") + 1
    return Mistake(file, line, f"not valid TOML: {told[:1].lower()}{told[1:]}")


def _layer(
    side: Side, file: str, data: dict[str, Any], lines: dict[KeyPath, int], kinds: Mapping[str, KindInfo]
) -> Layer:
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for found in _walk(data, side, kinds):
        key = ".".join(map(str, found.path))
        mistakes += [_mistake(file, lines, found.path, complaint) for complaint in found.said]
        if not found.said or found.path == ("agents",):
            values[key] = found.value
    origins = {".".join(map(str, path)): Origin(file, line) for path, line in lines.items()}
    return Layer(
        side=side, file=file, values=values, origins=origins, mistakes=tuple(sorted(mistakes, key=lambda m: m.line))
    )


def _mistake(file: str, lines: dict[KeyPath, int], path: KeyPath, complaint: Complaint) -> Mistake:
    """A complaint with its key before it and the line of the nearest thing that has one."""
    whole = (*path, *complaint.path)
    line = next((lines[whole[:end]] for end in range(len(whole), 0, -1) if whole[:end] in lines), 0)
    return Mistake(file, line, f"{'.'.join(map(str, path))}: {complaint.text}", complaint.hint)


def _walk(data: dict[str, Any], side: Side, kinds: Mapping[str, KindInfo]) -> Iterator[_Found]:
    for name, value in data.items():
        said: list[Complaint] = []
        if name == "agents":
            agents = read_agents(value, kinds, said)
            yield _Found(("agents",), agents, tuple(said))
        elif name in LATER:
            yield _Found((name,), said=(Complaint(LATER[name]),))
        elif name != "roles" and name not in TABLES:
            yield _Found((name,), said=(_unknown_table(name),))
        elif not isinstance(value, dict):
            yield _Found((name,), said=(Complaint(f"{shown(value)} is not a table", f"[{name}]"),))
        elif name == "machine" and side is not Side.Machine:
            yield _Found((name,), said=(Complaint("belongs in the machine's file, not in the repository's"),))
        else:
            yield from _table(name, value)


def _table(name: str, table: dict[str, Any]) -> Iterator[_Found]:
    known = tuple(AgentRole) if name == "roles" else tuple(TABLES[name])
    for key, value in table.items():
        said: list[Complaint] = []
        if key in known:
            got = ids(value, said) if name == "roles" else TABLES[name][key].read(value, said)
            yield _Found((name, key), got, tuple(said))
        elif later := LATER.get(f"{name}.{key}"):
            yield _Found((name, key), said=(Complaint(later),))
        else:
            yield _Found((name, key), said=(Complaint("unknown key", near(key, known) or _home(key)),))


def _unknown_table(name: str) -> Complaint:
    hint = _home(name) or near(name, ("agents", "roles", *TABLES))
    return Complaint("unknown table or key", hint)


def _home(key: str) -> str:
    """Where a key that stands in the wrong place belongs."""
    homes = [f"[{name}]" for name, table in TABLES.items() if key in table]
    return f"it belongs in {' or '.join(homes)}" if homes else ""


def read_overrides(overrides: Mapping[str, str]) -> Layer:
    """The command line's words, `{"limits.usd": "20"}`: dotted keys with values as they were typed."""
    file = Side.CommandLine.value
    values: dict[str, Any] = {}
    mistakes: list[Mistake] = []
    for key, typed in overrides.items():
        setting = _setting(key)
        if setting is None:
            keys = [f"{name}.{inner}" for name, table in TABLES.items() for inner in table]
            mistakes.append(Mistake(file, 0, f'unknown setting "{key}"', near(key, keys)))
            continue
        said: list[Complaint] = []
        values[key] = setting.read(typed if setting.word else _typed(typed), said)
        mistakes += [Mistake(file, 0, f"{key}: {complaint.text}", complaint.hint) for complaint in said]
    return Layer(
        side=Side.CommandLine,
        file=file,
        values=values,
        origins={key: Origin(file) for key in values},
        mistakes=tuple(mistakes),
    )


def _setting(key: str) -> Setting | None:
    name, _, inner = key.partition(".")
    return TABLES.get(name, {}).get(inner)


def _typed(word: str) -> Any:
    """A number, a truth or a list as TOML reads it; anything else is a text."""
    try:
        read = tomllib.loads(f"x = {word}")
    except tomllib.TOMLDecodeError:
        return word
    return read["x"] if len(read) == 1 else word

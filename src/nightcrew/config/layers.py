"""One settings file, or the command line, read on its own: values by dotted key, where each stands, and all that is wrong in it."""

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nightcrew.config.table import TABLES, Said, Spot, file_shape, read
from nightcrew.core.roster import Agent, Answers
from nightcrew.errors import UserError


class Origin(NamedTuple):
    """Where a setting was written. `line` counts from 1; 0 means the whole file or the command line."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        """`file:line`, or the file alone."""
        return f"{self.file}:{self.line}" if self.line else self.file


class Mistake(NamedTuple):
    """One thing to mend; also the shape of a warning."""

    file: str
    line: int
    text: str
    hint: str = ""

    def __str__(self) -> str:
        """One line: where, what, what to do."""
        told = f"{Origin(self.file, self.line)}: {UserError(self.text, self.hint)}"
        return "".join(letter if letter.isprintable() else "?" for letter in told)


class ConfigError(UserError):
    """All mistakes of all files at once, in the order of files and lines; `message` holds one line for each."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        """Keep the list, so that a face may count or serialise it."""
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class KindInfo(NamedTuple):
    """A kind of agent: what it can answer; whether an entry brings the program (`argv`), may name a model; whether it reports money."""

    answers: tuple[Answers, ...]
    argv: bool = False
    model: bool = True
    money: bool = False


LARGEST = 1_000_000  # bytes of a settings file
TOLD = 20_000  # letters of one whose mistakes are told with their lines: finding those takes the square of its length
Kinds = Mapping[str, KindInfo]
Typed = Mapping[str, str]  # dotted keys and what was typed for them


class Layer(NamedTuple):
    """What one source says. `roster`: whether its agents could be told (or it has none), however wrong one is."""

    file: str
    values: Mapping[str, Any] = {}
    lines: Mapping[Spot, int] = {}
    mistakes: tuple[Mistake, ...] = ()
    roster: bool = True

    def at(self, spot: Spot) -> Origin:
        """The place of `spot`, or of the nearest thing around it that has one."""
        around = (spot[:end] for end in range(len(spot), 0, -1))
        return Origin(self.file, next((self.lines[one] for one in around if one in self.lines), 0))


def read_file(path: Path, file: str, kinds: Kinds) -> Layer:
    """The layer of the file at `path`, called `file` in messages; an absent file is an empty layer."""
    try:
        text = _text(path)
        data, lines = tomllib.loads(text), key_lines(text)
    except (FileNotFoundError, NotADirectoryError):
        return Layer(file)
    except (OSError, ValueError, RecursionError) as error:  # a ValueError: not UTF-8, or not TOML
        line = re.search(r"at line (\d+)", str(error))
        told = f"cannot be read: {getattr(error, 'strerror', None) or error}"
        return Layer(file, mistakes=(Mistake(file, int(line[1]) if line else 0, told),), roster=False)
    return _layer(file, data, lines, kinds)


def _text(path: Path) -> str:
    if path.exists() and (not path.is_file() or path.stat().st_size > LARGEST):
        raise ValueError(f"it is no file of at most {LARGEST} bytes")
    return path.read_bytes().decode("utf-8-sig")


def read_overrides(overrides: Typed, kinds: Kinds) -> Layer:
    """The command line's words, `{"limits.usd": "20"}`: as TOML if that makes a right value, else as they were typed."""
    made = Layer("command line")
    for key, typed in overrides.items():
        table, _, inner = key.partition(".")
        words: list[Any] = [typed]
        with suppress(tomllib.TOMLDecodeError):
            words.insert(0, tomllib.loads(f"x = {typed}")["x"])
        tried = [_layer(made.file, {table: {inner: value}}, {}, kinds) for value in words]
        best = next((one for one in tried if not one.mistakes), tried[0])
        made = made._replace(values={**made.values, **best.values}, mistakes=made.mistakes + best.mistakes)
    return made


def _layer(file: str, data: dict[str, Any], lines: dict[Spot, int], kinds: Kinds) -> Layer:
    said: Said = []
    got = read(file_shape(kinds), data, (), said)
    entries = got.pop("agents", ())
    values = {f"{name}.{key}": value for name, table in got.items() for key, value in (table or {}).items()}
    values = {key: value for key, value in values.items() if value is not None}
    if entries:
        said += _wrong(entries, kinds)
        values["agents"] = tuple(_agent(entry, kinds.get(entry.get("kind", ""))) for entry in entries)
    layer = Layer(file, values, lines, roster=entries is not None)
    texts = [(spot, ".".join(part for part in spot if isinstance(part, str)), error) for spot, error in said]
    mistakes = (Mistake(*layer.at(spot), f"{key}: {e.message}", e.hint or _home(spot, e)) for spot, key, e in texts)
    return layer._replace(mistakes=tuple(mistakes))


def _home(spot: Spot, error: UserError) -> str:
    """Where a key that is unknown here belongs, or what there is instead."""
    if error.message != "unknown key":
        return ""
    homes, known = [f"[{name}]" for name, table in TABLES.items() if spot[-1] in table], TABLES.get(str(spot[0]))
    return f"it belongs in {' or '.join(homes)}" if homes else f"there are {', '.join(known)}" if known else ""


def _wrong(entries: tuple[dict[str, Any], ...], kinds: Kinds) -> Iterator[tuple[Spot, UserError]]:
    """What only whole entries tell. Nothing more is held against an entry of an unknown kind."""
    taken: set[Any] = set()
    for n, entry in enumerate(entries):
        info = kinds.get(entry.get("kind", ""), KindInfo(tuple(Answers), argv="command" in entry))
        beyond = [] if info.argv else [one for one in entry.get("answers") or () if one not in info.answers]
        checks = (
            ("id", "id" not in entry, "every agent needs one"),
            ("id", entry.get("id") in taken, "another agent has it already"),
            ("kind", "kind" not in entry, "every agent needs one"),
            ("command", info.argv and "command" not in entry, "this kind of agent needs one"),
            ("command", "command" in entry and not info.argv, "this kind of agent takes none"),
            ("model", "model" in entry and not info.model, "this kind of agent takes none"),
            ("answers", beyond, f"this kind of agent can {', '.join(info.answers)} only"),
        )
        yield from ((("agents", n, key), UserError(told)) for key, wrong, told in checks if wrong)
        taken |= {entry.get("id")} - {None}


def _agent(entry: dict[str, Any], info: KindInfo | None) -> Agent:
    """Without `account`, agents of a kind share its login unless they bring a program or variables."""
    told = {"id": "", "kind": "", **{key: value for key, value in entry.items() if value is not None}}
    account = told["id"] if told.get("command") or told.get("env") else told["kind"]
    named = told.get("answers", info.answers if info else tuple(Answers))
    return Agent(**{"account": account, **told, "answers": tuple(one for one in Answers if one in named)})


def key_lines(text: str) -> dict[Spot, int]:
    """The line, counted from 1, of every table, key and list item of a text that `tomllib` accepts; none of a very long one."""
    # A row that can be read together with those before it ends a statement, or an item of a list that is still open:
    # what is new then began after the last such row. Of earlier tables the headers are enough.
    found: dict[Spot, int] = {}
    headers, body, begin, closed = "", "", 1, True
    for number, row in enumerate(text.replace("\r\n", "\n").split("\n") if len(text) <= TOLD else (), 1):
        if closed and row.lstrip().startswith("["):
            headers, body = f"{headers}{row}\n", ""
        else:
            body += f"{row}\n"
        closed = False
        for end in ("", "]"):
            with suppress(tomllib.TOMLDecodeError):
                found = dict.fromkeys(_spots(tomllib.loads(headers + body + end)), begin) | found
                begin, closed = number + 1, not end
                break
    return found


def _spots(value: Any) -> Iterator[Spot]:
    pairs = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for key, one in pairs:
        yield (key,)
        yield from ((key, *spot) for spot in _spots(one))

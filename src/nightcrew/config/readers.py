"""One reader for each shape of a value: it gives the value as the core has it, and adds to `said` what it holds against it."""

import re
from collections.abc import Callable, Mapping
from math import isfinite
from typing import Any

from nightcrew.config.mistakes import Complaint, near

Reader = Callable[[Any, list[Complaint]], Any]
"""From a TOML value to the core's; what it returns counts only when it said nothing."""

_UNITS = {"d": 86400.0, "h": 3600.0, "m": 60.0, "s": 1.0}
_SPAN = re.compile(r"(?:\d+(?:\.\d+)?[dhms])+")
_SPAN_PART = re.compile(r"(\d+(?:\.\d+)?)([dhms])")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def shown(value: Any) -> str:
    """A value as a person wrote it, short enough for one line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list | tuple):
        return "a list"
    text = f'"{value}"' if isinstance(value, str) else str(value)
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if len(text) <= 40 else text[:38] + '…"'


def _no(value: Any, wanted: str, said: list[Complaint], *path: str | int) -> None:
    said.append(Complaint(f"{shown(value)} is not {wanted}", path=path))


def flag(value: Any, said: list[Complaint]) -> Any:
    """True or false."""
    if not isinstance(value, bool):
        _no(value, "true or false", said)
    return value


def count(least: int, most: int | None = None, beyond: str = "") -> Reader:
    """A whole number from `least` on; above `most` the reader says `beyond`."""

    def read(value: Any, said: list[Complaint]) -> Any:
        if not isinstance(value, int) or isinstance(value, bool):
            _no(value, "a whole number", said)
        elif value < least:
            said.append(Complaint(f"{value} is too small", f"{least} or more"))
        elif most is not None and value > most:
            said.append(Complaint(f"{value} {beyond}", f"at most {most}"))
        return value

    return read


def number(value: Any, said: list[Complaint]) -> float:
    """A finite number from zero on."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        _no(value, "a number", said)
        return 0.0
    if value < 0:
        said.append(Complaint(f"{shown(value)} is negative"))
    return float(value)


def above_zero(value: Any, said: list[Complaint]) -> float:
    """A finite number greater than zero."""
    read = number(value, said)
    if not said and not read:
        said.append(Complaint("0 would forbid everything", "a number above 0"))
    return read


def span(value: Any, said: list[Complaint]) -> float:
    """Seconds above zero, from a number or from a text such as `90s`, `30m`, `1h30m`, `2d`."""
    seconds = value
    if isinstance(value, str) and _SPAN.fullmatch(value):
        seconds = sum(float(amount) * _UNITS[unit] for amount, unit in _SPAN_PART.findall(value))
    hint = 'such as "90s", "30m", "8h" or a number of seconds'
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not isfinite(seconds):
        said.append(Complaint(f"{shown(value)} is not a span of time", hint))
        return 0.0
    if seconds <= 0:
        said.append(Complaint(f"{shown(value)} is not above zero", hint))
    return float(seconds)


def lifted(read: Reader) -> Reader:
    """What `read` reads, or `"none"` for no bound (None)."""

    def either(value: Any, said: list[Complaint]) -> Any:
        if value == "none":
            return None
        mine: list[Complaint] = []
        got = read(value, mine)
        said += [c._replace(hint=f'{c.hint}, or "none" to lift it' if c.hint else '"none" lifts it') for c in mine]
        return got

    return either


def text(value: Any, said: list[Complaint]) -> Any:
    """One line that is not blank."""
    if not isinstance(value, str) or not value.strip():
        _no(value, "a text", said)
    elif not value.isprintable():
        _no(value, "one printable line", said)
    return value


def choice(words: tuple[str, ...], later: Mapping[str, str] | None = None) -> Reader:
    """One of `words`; a word of `later` is refused with its own sentence."""

    def read(value: Any, said: list[Complaint]) -> Any:
        if later and isinstance(value, str) and value in later:
            said.append(Complaint(later[value], f"one of {', '.join(words)}"))
        elif not isinstance(value, str) or value not in words:
            hint = near(value, words) if isinstance(value, str) else ""
            said.append(Complaint(f"{shown(value)} is not one of {', '.join(words)}", hint))
        return value

    return read


def _list_of(item: Callable[[str], str], wanted: str) -> Reader:
    """A list of texts (one text alone is a list of one); `item` gives what is wrong with one, or nothing."""

    def read(value: Any, said: list[Complaint]) -> tuple[str, ...]:
        alone = isinstance(value, str)
        if not isinstance(value, list) and not alone:
            _no(value, f"{wanted} or a list of them", said)
            return ()
        items = (value,) if alone else tuple(value)
        for n, one in enumerate(items):
            path = () if alone else (n,)
            if not isinstance(one, str) or not one.strip() or "\0" in one:
                _no(one, wanted, said, *path)
            elif wrong := item(one):
                said.append(Complaint(f"{shown(one)} {wrong}", path=path))
        return items

    return read


def _inside(path: str) -> str:
    if path.startswith(("/", "~")) or ".." in path.split("/"):
        return "leaves the repository: a path below its top is wanted"
    return ""


def _outside(path: str) -> str:
    return "" if path.startswith(("/", "~/")) else "is not absolute: a path that begins with / or ~/ is wanted"


def _variable(name: str) -> str:
    return "" if _NAME.fullmatch(name) else "is not the name of a variable"


commands = _list_of(lambda _: "", "a command")
"""Shell lines."""
inside = _list_of(_inside, "a path")
"""Paths or patterns below the repository's top."""
outside = _list_of(_outside, "a path")
"""Folders of this machine."""
variables = _list_of(_variable, "the name of a variable")
"""Names of environment variables."""


def argv(value: Any, said: list[Complaint]) -> tuple[str, ...]:
    """A program and its arguments; no shell reads it."""
    if not isinstance(value, list) or not value:
        said.append(Complaint(f"{shown(value)} is not a program with its arguments", 'such as ["program", "--flag"]'))
        return ()
    for n, one in enumerate(value):
        if not isinstance(one, str) or "\0" in one or (n == 0 and not one.strip()):
            _no(one, "a text", said, n)
    return tuple(value)


def ids(value: Any, said: list[Complaint]) -> tuple[str, ...]:
    """One agent's id or a chain of them; never empty."""
    if isinstance(value, list) and not value:
        said.append(Complaint("the chain is empty", "name at least one agent, or leave the role out"))
        return ()
    read: tuple[str, ...] = _list_of(lambda _: "", "an agent's id")(value, said)
    return read

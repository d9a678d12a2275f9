"""On which line each key of a TOML text stands; Python's own reader does not say. Expects a text that it accepted."""

import re
from bisect import bisect_right
from collections.abc import Iterator

Path = tuple[str | int, ...]

_BLANK = re.compile(r"(?:[ \t\r\n]+|#[^\n]*)*")
_STRING = re.compile(r'"""(?:\\.|[^\\])*?"{3,5}|\'\'\'.*?\'{3,5}|"(?:\\.|[^"\\])*"|\'[^\']*\'', re.DOTALL)
_PLAIN = re.compile(r"[^,\]}#\n]+")
_EQUALS = re.compile(r"[ \t]*=[ \t]*")
_PART = re.compile(r'[ \t]*("(?:\\.|[^"\\])*"|\'[^\']*\'|[A-Za-z0-9_-]+)[ \t]*(\.?)')


class _Walk:
    """A place in the text that moves forward, and what it has seen so far."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.starts = [0] + [found.end() for found in re.finditer("\n", text)]
        self.lines: dict[Path, int] = {}
        self.last: dict[Path, int] = {}

    def take(self, pattern: re.Pattern[str]) -> str:
        """What `pattern` matches here, stepped over; nothing when it does not match."""
        found = pattern.match(self.text, self.at)
        if found is None:
            return ""
        self.at = found.end()
        return found.group()

    def blank(self) -> None:
        """Step over white space and comments."""
        self.take(_BLANK)

    def looking_at(self, start: str) -> bool:
        """Whether the text goes on with `start`."""
        return self.text.startswith(start, self.at)

    def note(self, path: Path, at: int) -> None:
        """Remember the line of a path and of what it lies in, the first one seen."""
        line = bisect_right(self.starts, at)
        for end in range(1, len(path) + 1):
            self.lines.setdefault(path[:end], line)


def key_lines(text: str) -> dict[Path, int]:
    """The line, counted from 1, of every table, key and list item; a list item's place in its list is a part of its path."""
    walk = _Walk(text)
    table: Path = ()
    walk.blank()
    while walk.at < len(text):
        if walk.looking_at("["):
            table = _header(walk)
        else:
            _pair(walk, table)
        walk.blank()
    return walk.lines


def _header(walk: _Walk) -> Path:
    """`[table]` or `[[list]]`: the path under which the following keys lie."""
    at = walk.at
    many = walk.looking_at("[[")
    walk.at += 2 if many else 1
    named = tuple(_key(walk))
    walk.at += 2 if many else 1
    path: Path = ()
    for n, part in enumerate(named, 1):
        path = (*path, part)
        if path in walk.last and not (many and n == len(named)):
            path = (*path, walk.last[path])
    if many:
        walk.last[path] = walk.last.get(path, -1) + 1
        path = (*path, walk.last[path])
    walk.note(path, at)
    return path


def _pair(walk: _Walk, table: Path) -> None:
    """`key = value` within a table."""
    at = walk.at
    path: Path = (*table, *_key(walk))
    walk.note(path, at)
    walk.take(_EQUALS)
    _value(walk, path)


def _key(walk: _Walk) -> Iterator[str]:
    """The parts of a key, quotes taken off."""
    while found := _PART.match(walk.text, walk.at):
        walk.at = found.end()
        part = found.group(1)
        yield _unquoted(part)
        if not found.group(2):
            return


def _unquoted(part: str) -> str:
    if part[0] == "'":
        return part[1:-1]
    if part[0] != '"':
        return part
    from tomllib import loads  # noqa: PLC0415 - a quoted key is rare

    return str(loads(f"x = {part}")["x"])


def _value(walk: _Walk, path: Path) -> None:
    """Step over a value, noting what lies in it."""
    if walk.looking_at("["):
        _items(walk, path)
    elif walk.looking_at("{"):
        _inline(walk, path)
    elif not walk.take(_STRING) and not walk.take(_PLAIN):
        walk.at += 1  # never reached in a valid text; without it a flaw here would be an endless loop


def _items(walk: _Walk, path: Path) -> None:
    walk.at += 1
    walk.blank()
    n = 0
    while walk.at < len(walk.text) and not walk.looking_at("]"):
        walk.note((*path, n), walk.at)
        _value(walk, (*path, n))
        n += 1
        _comma(walk)
    walk.at += 1


def _inline(walk: _Walk, path: Path) -> None:
    walk.at += 1
    walk.blank()
    while walk.at < len(walk.text) and not walk.looking_at("}"):
        _pair(walk, path)
        _comma(walk)
    walk.at += 1


def _comma(walk: _Walk) -> None:
    walk.blank()
    if walk.looking_at(","):
        walk.at += 1
    walk.blank()

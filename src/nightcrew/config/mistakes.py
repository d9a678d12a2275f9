"""What is wrong with a settings file: where, what, and the nearest right word. Nothing here reads a file."""

from collections.abc import Iterable
from typing import Any, NamedTuple

from nightcrew.errors import UserError

LATER = ("judges", "advise", "max_parallel", "approve", "review", "pr", "codex", "opencode", "gemini", "qwen", "acp")
"""Keys, words and kinds of agent that the project plans and this version refuses (rulings 42)."""


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


def near(word: Any, words: Iterable[str]) -> str:
    """What to say beside a word that is none of `words`: that it comes later, or which one is near; else nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    if word in LATER:
        return "it comes in a later version"
    found = get_close_matches(word, list(words), n=1) if isinstance(word, str) else []
    return f'did you mean "{found[0]}"?' if found else ""

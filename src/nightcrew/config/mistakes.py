"""What is wrong with a settings file: where, what, and the nearest right word. Nothing here reads a file."""

from collections.abc import Iterable
from typing import NamedTuple

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
        told = f"{Origin(self.file, self.line)}: {self.text}"
        return f"{told} ({self.hint})" if self.hint else told


class ConfigError(UserError):
    """All mistakes of all files at once, in the order of files and lines; `message` holds one line for each."""

    def __init__(self, mistakes: Iterable[Mistake]) -> None:
        """Keep the list, so that a face may count or serialise it."""
        self.mistakes = tuple(mistakes)
        super().__init__("\n".join(map(str, self.mistakes)))


class Complaint(NamedTuple):
    """What a reader holds against a value; `path` leads from the value to the part that is wrong."""

    text: str
    hint: str = ""
    path: tuple[str | int, ...] = ()


def near(word: str, words: Iterable[str]) -> str:
    """`did you mean "x"?` for the word nearest to `word`, or nothing when none is near."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    found = get_close_matches(word, list(words), n=1, cutoff=0.6)
    return f'did you mean "{found[0]}"?' if found else ""

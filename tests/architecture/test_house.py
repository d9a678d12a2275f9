"""The house stays small and says what its rooms are for."""

import ast
from pathlib import Path

import pytest

from architecture.sources import ROOT, functions, sources, tree

FILE_LINES = 500
ALL_LINES = 13_000
FUNCTION_LINES = 30


def lines(path: Path) -> int:
    """How many lines a file has."""
    return len(path.read_text("utf-8").splitlines())


def is_opener(path: Path) -> bool:
    """Whether a file only marks a folder as a package and has nothing to explain."""
    return path.name == "__init__.py" and not path.read_text("utf-8").strip()


def test_no_source_file_is_long() -> None:
    """No file of the package has more than 500 lines."""
    assert {str(path.relative_to(ROOT)): lines(path) for path in sources() if lines(path) > FILE_LINES} == {}


def test_the_package_is_small() -> None:
    """The whole package has at most 13,000 lines: over the 12,000 of the house rule, until those hold (decision 0035)."""
    assert 0 < sum(lines(path) for path in sources()) <= ALL_LINES


def test_nine_functions_in_ten_are_short() -> None:
    """At least nine in ten functions have fewer than 30 lines, docstring aside."""
    lengths = [found for path in sources() for found in functions(path)]
    long = [name for name, length in lengths if length >= FUNCTION_LINES]
    assert len(long) * 10 <= len(lengths), long


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT / "src")))
def test_a_module_says_what_lives_in_it(path: Path) -> None:
    """A module begins with one to five lines on what lives there, blank ones not counted."""
    said = [line for line in (ast.get_docstring(tree(path)) or "").splitlines() if line.strip()]
    assert is_opener(path) or 1 <= len(said) <= 5, said


def test_nothing_is_left_for_later() -> None:
    """No source file carries a note that something is still to be done."""
    words = ("TO" + "DO", "FIX" + "ME", "XX" + "X", "NotImplemented" + "Error")
    left = [str(path.relative_to(ROOT)) for path in sources() if any(word in path.read_text("utf-8") for word in words)]
    assert left == []

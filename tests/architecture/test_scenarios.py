"""The situations of `tests/scenarios.toml` and the tests that name them are held against each other."""

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import NamedTuple

import pytest

from architecture.sources import ROOT, tree

TESTS = ROOT / "tests"
ID = re.compile(r"\b(?:[FR]\d{2}|[ST]\d{3})\b")
VERDICT = re.compile(r"as is|(?:inverted|out): \S.*")
PARTS = range(1, 7)
ALL = {
    "F": "1-27",
    "R": "1-30",
    "S": (
        "1-2 4-5 7-9 11 14 16-20 22 24-26 29 32-34 36-39 43-49 51-54 60-69 71-73 75-79 81-82 84 87-89 91-92 95-97 101-106 108 "
        "110-117 119-120 125-129 131-132 135 137-139 143-144 148-149 152-154 156-169 171-172 174 178 180-185 187 190-191 194 199 "
        "201-207 209-210 212-213 215-226 229-242 245 247-251 253-259 263 265"
    ),
    "T": (
        "12 14-17 19-25 27-30 32-39 42-44 47-49 51-53 55-56 58 60-61 63-64 66 68-69 71 74 76-77 80-84 88 90-92 94 97-101 103-106 "
        "108 110 113 115-118 120 123-125 127-128 131-141 144 146-149 176 178-184 186-193"
    ),
}
"""The numbers of all situations, by letter."""


class Situation(NamedTuple):
    """One line of the list; `part` is 0 for what is out."""

    verdict: str
    part: int
    text: str


def listed() -> tuple[dict[str, Situation], int]:
    """Every situation by id, and the last part that is built."""
    told = tomllib.loads((TESTS / "scenarios.toml").read_text("utf-8"))
    found = {
        name: Situation(str(line["is"]), int(line.get("from", 0)), str(line["text"]))
        for letter in ALL
        for name, line in told[letter].items()
    }
    return found, int(told["ready"])


@cache
def named() -> dict[str, frozenset[str]]:
    """By id, the tests whose docstring names it."""
    found: dict[str, set[str]] = {}
    for test, told in docstrings():
        for name in ID.findall(told):
            found.setdefault(name, set()).add(test)
    return {name: frozenset(tests) for name, tests in found.items()}


def docstrings() -> Iterator[tuple[str, str]]:
    """Name and docstring of every test function."""
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield node.name, ast.get_docstring(node) or ""


def spelled(letter: str) -> Iterator[str]:
    """The ids that a line of numbers and ranges stands for."""
    width = 2 if letter in "FR" else 3
    for word in ALL[letter].split():
        first, _, last = word.partition("-")
        yield from (f"{letter}{n:0{width}}" for n in range(int(first), int(last or first) + 1))


def unheld(situations: Mapping[str, Situation], names: Mapping[str, frozenset[str]], ready: int) -> list[str]:
    """The ids that should have a test by now and have none."""
    return [name for name, one in situations.items() if 0 < one.part <= ready and not names.get(name)]


def strange(situations: Mapping[str, Situation], names: Mapping[str, frozenset[str]]) -> set[tuple[str, str]]:
    """Ids that are out or unknown, with the tests that name them all the same."""
    wrong = {name for name in names if name not in situations or situations[name].part == 0}
    return {(name, test) for name in wrong for test in names[name]}


@pytest.mark.parametrize("letter", list(ALL))
def test_no_situation_is_missing(letter: str) -> None:
    """Every situation is in the list, once, in order, and nothing else is."""
    situations, _ = listed()
    assert [name for name in situations if name[0] == letter] == list(spelled(letter))


def test_every_situation_is_decided() -> None:
    """Each is as is, inverted or out, the last two with a reason; a part brings it unless it is out; its text is one line."""
    situations, ready = listed()
    assert ready in PARTS
    for name, one in situations.items():
        assert VERDICT.fullmatch(one.verdict), name
        assert one.part in PARTS or (one.part == 0 and one.verdict.startswith("out: ")), name
        assert not (one.part and one.verdict.startswith("out: ")), name
        assert one.text.strip() == one.text != "", name
        assert "\n" not in one.text, name


def test_every_situation_that_is_built_has_a_test() -> None:
    """Up to the last part that is built, each situation that is not out is named by at least one test."""
    situations, ready = listed()
    assert unheld(situations, named(), ready) == []


def test_no_test_names_a_situation_that_is_none() -> None:
    """What a docstring names exists and is not out."""
    situations, _ = listed()
    assert strange(situations, named()) == set()


def test_a_gap_is_found() -> None:
    """Planted: a situation without its test, one of a later part, one that is out but named, one that nobody listed."""
    situations = {"F01": Situation("as is", 1, "x"), "F02": Situation("as is", 2, "x"), "F03": Situation("out: y", 0, "x")}
    assert unheld(situations, {}, 1) == ["F01"]
    assert unheld(situations, {"F01": frozenset({"test_one"})}, 2) == ["F02"]
    assert strange(situations, {"F03": frozenset({"test_two"}), "F09": frozenset({"test_three"})}) == {
        ("F03", "test_two"),
        ("F09", "test_three"),
    }

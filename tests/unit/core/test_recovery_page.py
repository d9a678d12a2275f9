"""What docs/recovery.md tells of the ladder is what the core does."""

import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from nightcrew.core import recovery
from nightcrew.core.events import Entry
from nightcrew.core.ids import RunId
from nightcrew.core.reducer import begin
from nightcrew.core.settings import Ladder
from support.world import story

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs/recovery.md").read_text("utf-8")
ROW = re.compile(r"^\| (?P<first>\d+)(?: to (?P<last>\d+)| and more) \| (?P<level>\d) \|", re.MULTILINE)


@pytest.fixture(scope="module")
def tool() -> dict[str, Any]:
    """The names of the program that draws the picture."""
    return runpy.run_path(str(ROOT / "tools/ladder.py"))


def test_the_table_has_the_levels_of_the_core() -> None:
    """Each row's attempts have the row's level, and no attempt is left out."""
    rows = [(int(m["first"]), int(m["last"] or 100), int(m["level"])) for m in ROW.finditer(PAGE)]
    told = [(n, level) for first, last, level in rows for n in range(first, last + 1)]
    assert told == [(n, recovery.level_of(n)) for n in range(1, 101)]


def test_the_picture_is_drawn_from_the_code(tool: dict[str, Any]) -> None:
    """The committed picture is what the program draws today."""
    assert (ROOT / "docs/recovery.svg").read_text("utf-8") == tool["drawn"]()


def test_the_pauses_of_the_picture_are_those_of_the_core(tool: dict[str, Any]) -> None:
    """No pause is longer than the picture says, nor more than a fifth shorter, whatever the run's name and settings."""
    for ladder in (Ladder(), Ladder(pause_s=2.0, pause_max_s=50.0)):
        for name in range(20):
            first = structs.replace(story(ladder=ladder), run=RunId(f"run-{name}"))
            state = begin(Entry(1, 0.0, first))
            for attempt in range(1, 40):
                longest = tool["longest_s"](attempt, ladder)
                assert 0.8 * longest <= recovery.pause_s(state, attempt) <= longest


def test_the_page_tells_the_spans_of_the_core() -> None:
    """The free attempts, the pauses and the waits that the page names are the constants and the defaults."""
    ladder, words = Ladder(), " ".join(PAGE.split())
    numbers = {1: "one", 2: "two", 3: "three"}
    assert f"none after the first {numbers[recovery.FREE_ATTEMPTS]} attempts" in words
    assert f"then {ladder.pause_s:.0f} s, doubling up to {ladder.pause_max_s / 60:.0f} min" in words
    first, longest = recovery.UNAVAILABLE_FIRST_S, recovery.UNAVAILABLE_LONGEST_S
    assert f"looks again after {first:.0f} s, doubling up to {longest / 60:.0f} min" in words
    slow = f"{recovery.SLOW_FIRST_S / 60:.0f} min, doubling up to {recovery.SLOW_LONGEST_S / 3600:.0f} h"
    assert words.count(slow) == 2
    assert f"{recovery.STUCK_AFTER} times in a row at level 4" in words
    assert ladder.ceiling == 0
    assert "(0, the default, is none)" in words

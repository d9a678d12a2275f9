"""What the reading verbs print, for people and as JSON."""

import json
import re
from pathlib import Path

import pytest
from msgspec import Struct, structs

from nightcrew.app.control import Cleaned
from nightcrew.app.failing import Verdict
from nightcrew.app.ground import AgentRow, Check
from nightcrew.app.home import Row
from nightcrew.app.seen import Replayed
from nightcrew.app.stats import Stats
from nightcrew.app.story import Recovery, Story
from nightcrew.app.views import Conclusion
from nightcrew.core import events as ev
from nightcrew.core.ids import RunId
from unit.app.test_story import eventful
from unit.app.worlds import RUN, World, started, written
from unit.cli.faces import nightcrew

ROOT = Path(__file__).parents[3]


def test_show_tells_the_story_of_the_newest_run_or_the_one_named(tmp_path: Path) -> None:
    """Without a name the newest run is meant; a short name is enough."""
    older = World(started("local"), eventful).play()
    written(older, tmp_path, RunId("20260101-000000-aaaa"))
    newer = World(started("branch")).play()
    newer.entries = [ev.Entry(e.seq, e.at + 10.0, e.event) for e in newer.entries]
    written(newer, tmp_path, RUN)
    assert "ready: branch nightcrew/a1b2/A" in nightcrew(tmp_path, "show").out
    named = nightcrew(tmp_path, "show", "aaaa")
    assert (named.code, "opus → codex (quota" in named.out) == (0, True)


def test_show_of_any_outcome_exits_with_0(tmp_path: Path) -> None:
    """`show` shows; that a run was interrupted is in its words, not in its exit code."""
    world = World().play(lambda s: s.phase == "Development")
    world.tell(ev.CancelAsked())
    written(world.play(), tmp_path)
    said = nightcrew(tmp_path, "show")
    assert (said.code, "interrupted: cancelled by the operator" in said.out) == (0, True)


def test_list_shows_each_run_and_says_when_there_is_none(tmp_path: Path) -> None:
    """A run is two lines: when and what, and where it stands."""
    assert nightcrew(tmp_path, "list").out == 'no runs yet; start one: nightcrew run "…"\n'
    written(World(started("branch")).play(), tmp_path)
    out = nightcrew(tmp_path, "list").out.splitlines()
    assert out[0].startswith("a1b2  2026-08-30 ")
    assert out[0].endswith("mend the clock")
    assert out[1].strip() == "ready: branch nightcrew/a1b2/A"


def test_replay_and_watch_read_a_run_that_is_over(tmp_path: Path) -> None:
    """Both tell what is written and end: replay at an entry, watch with the run's own exit code."""
    written(World(started("local")).play(), tmp_path)
    assert "after entry 3" in nightcrew(tmp_path, "replay", "--at", "3").out
    watched = nightcrew(tmp_path, "watch")
    assert (watched.code, "landed on main" in watched.out, "gate green" in watched.out) == (0, True, True)


def test_logs_print_what_was_said_but_no_secret(tmp_path: Path) -> None:
    """What an agent printed is printed below a line that says whose it is; secrets stay out (law 14)."""
    written(World(started("local")).play(), tmp_path)
    folder = tmp_path / "runs" / RUN / "effects/StartTurn-plan-plan-0"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(f"one\n\x1b[31mtwo\nmy word is hush-hush, my key sk-{'a' * 20}\n")
    assert nightcrew(tmp_path, "logs", "a1b2", "plan", OUR_TOKEN="hush-hush").out == (
        "── plan · opus · plan 1\none\n[31mtwo\nmy word is [redacted], my key [redacted]\n\n"
    )


def test_output_in_a_poor_terminal_is_still_output(tmp_path: Path) -> None:
    """A terminal whose letters have no arrow gets their numbers instead of an error."""
    written(World(started("local"), eventful).play(), tmp_path)
    entry = "import sys; sys.stdout.reconfigure(encoding='latin-1'); from nightcrew.cli import main; sys.exit(main())"
    said = nightcrew(tmp_path, "show", entry=entry)
    assert (said.code, "opus \\u2192 codex" in said.out) == (0, True)


@pytest.mark.parametrize("verb", ["list", "show", "logs"])
def test_words_from_outside_cannot_steer_the_terminal(tmp_path: Path, verb: str) -> None:
    """Escape sequences and bells of a task or an agent are taken out of what is printed; letters, line ends and tabs stay."""
    first = started("local")
    written(World(structs.replace(first, task=structs.replace(first.task, title="a\x1b[2Jb\x07\tc\x9bd"))).play(), tmp_path)
    folder = tmp_path / "runs" / RUN / "effects/StartTurn-plan-plan-0"
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("a\x1b[2Jb\x07\tc\x9bd\n")
    assert "a[2Jb\tcd" in nightcrew(tmp_path, verb).out


# ── JSON ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def documented() -> dict[str, list[str]]:
    """The fields that docs/json.md names, by the heading they stand under."""
    found: dict[str, list[str]] = {}
    heading = ""
    for line in (ROOT / "docs/json.md").read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ").strip("`")
        elif match := re.match(r"- `(\w+)`", line):
            found.setdefault(heading, []).append(match[1])
    return found


def fields(kind: type) -> list[str]:
    """The names of a view's fields, in order."""
    return list(kind.__struct_fields__) if issubclass(kind, Struct) else list(getattr(kind, "_fields", ()))


def test_every_shape_is_documented_field_by_field() -> None:
    """docs/json.md has one heading for each verb with `--json`, and under it exactly the fields that are printed."""
    shapes: dict[str, type] = {
        "list": Row, "show": Story, "show --recovery": Recovery, "replay": Replayed, "run, resume, answer, fix": Conclusion,
        "agents": AgentRow, "clean": Cleaned, "stats": Stats, "classify": Verdict,
    }  # fmt: skip
    assert documented() == {name: fields(kind) for name, kind in shapes.items()} | {"doctor": ["checks", "settings"]}
    assert fields(Check) == ["name", "ok", "text", "hint"]


def test_json_is_one_document_with_every_field(tmp_path: Path) -> None:
    """A program can rely on each field being there, empty or not."""
    written(World(started("local"), eventful).play(), tmp_path)
    shown = json.loads(nightcrew(tmp_path, "show", "--json").out)
    assert list(shown) == fields(Story)
    assert [list(row) for row in json.loads(nightcrew(tmp_path, "list", "--json").out)] == [fields(Row)]
    assert list(json.loads(nightcrew(tmp_path, "replay", "--json").out)) == fields(Replayed)
    assert list(json.loads(nightcrew(tmp_path, "show", "--recovery", "--json").out)) == fields(Recovery)

"""What outputs of agents are taken for: eight corpora of labelled rows, and the verb that reads one."""

import json
from pathlib import Path

import pytest

from nightcrew.app import failing
from nightcrew.errors import UserError
from support.scoring import CORPUS, Row, Score, asked, rows, score
from unit.cli.faces import nightcrew


def told(row: Row) -> tuple[str, str | None]:
    """Label and reset time of a row."""
    found = failing.verdict(row, {})
    return found.label, found.reset_at


def scored(name: str) -> Score:
    """The score of a corpus."""
    return score(rows(name), told)


@pytest.mark.parametrize("name", ["wild.jsonl", "fresh.jsonl", "field.jsonl", "apart.jsonl"])
def test_outputs_in_other_words(name: str) -> None:
    """Rows written before the tables knew their words; tests/corpus/README.md tells what they scored unseen."""
    found = scored(name)
    assert found.strict >= 95, found.wrong
    assert found.action >= 98, found.wrong
    assert found.resets >= 97, found.wrong
    assert (found.alarms, found.invented) == (0, 0), found.wrong


@pytest.mark.parametrize("name", ["samples.jsonl", "reported.jsonl", "held.jsonl", "later.jsonl"])
def test_labelled_outputs(name: str) -> None:
    """The labelled samples, and messages as people report them: no good turn is called a failure, no failure is called good, no time is invented."""
    found = scored(name)
    assert found.strict >= 97, found.wrong
    assert found.action >= 99, found.wrong
    assert found.resets >= 97, found.wrong
    assert (found.alarms, found.lost, found.invented) == (0, 0, 0), found.wrong


@pytest.mark.parametrize("channel", ["stdout", "stderr"])
def test_messages_of_every_day(channel: str) -> None:
    """The sentences that programs and services say most, alone at a bad end; and answers that speak of such things, at a good one."""
    lines = (line.split("\t") for line in (CORPUS / "common.tsv").read_text("utf-8").splitlines())
    wrong = []
    for label, text in lines:
        row = {
            "text": text.replace("\\n", "\n"),
            "channel": channel,
            "exit_code": int(label != "ok"),
            "as_of": "2026-10-05T12:00:00Z",
        }
        wrong += [(label, text)] if failing.verdict(row, {"TZ": "UTC"}).label != label else []
    assert wrong == []


def test_each_class_says_what_is_done() -> None:
    """What nightcrew would do follows from the class, by the sets that the chain itself goes by."""
    does = {text: failing.verdict({"text": text, "exit_code": 1}, {}).does for text in ("529 Overloaded", "out of credits", "?")}
    assert does["529 Overloaded"].startswith("asks the same agent again after a pause")
    assert does["out of credits"].startswith("asks the next agent now")
    assert does["?"].startswith("asks the same agent once more")


def test_one_output_is_read_and_explained(tmp_path: Path) -> None:
    """`classify` prints class, action, reset time and the piece that decided."""
    (tmp_path / "out.txt").write_text("You've hit your weekly limit · resets 8am (America/Halifax)\n", "utf-8")
    words = ("classify", "out.txt", "--exit-code", "1", "--as-of", "2026-10-14T11:47:00+00:00")
    assert nightcrew(tmp_path, *words, cwd=tmp_path).out.splitlines() == [
        "quota",
        "nightcrew asks the next agent now; this one cools down",
        "reset: 2026-10-15T11:00:00Z",
        "because of: weekly limit",
    ]
    found = json.loads(nightcrew(tmp_path, *words, "--json", cwd=tmp_path).out)
    assert (found["label"], found["reset_at"]) == ("quota", "2026-10-15T11:00:00Z")


def test_rows_are_answered_one_by_one(tmp_path: Path) -> None:
    """`--jsonl` answers every row with its id, in the host's zone that the row names."""
    asked_ = [asked(row) for row in rows("samples.jsonl")[:60:6]]
    (tmp_path / "rows").write_text("\n".join(map(json.dumps, asked_)) + "\n", "utf-8")
    answers = [json.loads(line) for line in nightcrew(tmp_path, "classify", "--jsonl", "rows", cwd=tmp_path).out.splitlines()]
    assert [(one["id"], one["label"], one["reset_at"]) for one in answers] == [(row["id"], *told(row)) for row in asked_]


@pytest.mark.parametrize("words", [("--as-of", "noon"), ("--jsonl",)])
def test_what_is_no_output_is_a_mistake(tmp_path: Path, words: tuple[str, ...]) -> None:
    """A time that is none, and a line that is no row, are one line and exit 2."""
    (tmp_path / "rows").write_text('["no", "row"]\n', "utf-8")
    said = nightcrew(tmp_path, "classify", "rows", *words, cwd=tmp_path)
    assert (said.code, len(said.err.splitlines())) == (2, 1)
    with pytest.raises(UserError):
        failing.verdict({"text": "x", "exit_code": "one"}, {})

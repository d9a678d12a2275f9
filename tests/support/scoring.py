"""Scores answers of the failure classifier against labelled rows: classes, the action they lead to, reset times."""

import json
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

CORPUS = Path(__file__).resolve().parents[1] / "corpus"
SAME = (("rate_limit", "overloaded"), ("auth", "billing"), ("network", "server_error"), ("context_too_long", "session_not_found"))
"""Labels that lead to the same action."""
LOOSE = (*SAME, ("invalid_output", "crashed"))
Row = dict[str, Any]
Answer = Callable[[Row], tuple[str, str | None]]


class Score(NamedTuple):
    """Shares in percent, but for the counts; `wrong` names the rows that are not right in every way."""

    strict: float
    action: float
    resets: float
    alarms: int  # good turns that were called a failure
    lost: int  # failures that were called good
    invented: int  # times where none was told
    wrong: list[str]


def rows(name: str) -> list[Row]:
    """The rows of one corpus."""
    return [json.loads(line) for line in (CORPUS / name).read_text("utf-8").split("\n") if line]


def score(corpus: Iterable[Row], answer: Answer) -> Score:
    """Ask for every row. `answer` gets what a program may know of a row, and gives a label and a time in ISO 8601 or None."""
    judged = [(row, *answer(asked(row))) for row in corpus]
    fair = [(row, label in {row["label"], *row["accept"]}) for row, label, _ in judged]
    times = [(row, reset_of(row, at)) for row, _, at in judged]
    counted = [verdict for _, verdict in times if verdict != "silent"]
    wrong = {row["id"] for row, right in fair if not right} | {
        row["id"] for row, verdict in times if verdict not in {"right", "silent"}
    }
    return Score(
        share(label == row["label"] for row, label, _ in judged),
        share(acts_alike(label, {row["label"], *row["accept"]}) for row, label, _ in judged),
        share(verdict == "right" for verdict in counted),
        sum(row["label"] == "ok" and not right for row, right in fair),
        sum(label == "ok" and label not in {row["label"], *row["accept"]} for row, label, _ in judged),
        counted.count("invented"),
        sorted(wrong),
    )


def share(hits: Iterable[bool]) -> float:
    """How many of them are true, in percent."""
    known = list(hits)
    return 100.0 * sum(known) / len(known) if known else 100.0


def asked(row: Row) -> Row:
    """What the classifier is told of a row: neither label nor time."""
    now = (row["reset"] or {}).get("as_of") or row.get("as_of") or "2026-09-01T12:00:00+00:00"
    return {name: row.get(name) for name in ("id", "cli", "channel", "text", "exit_code", "killed")} | {
        "as_of": now,
        "host_zone": row.get("host_zone") or "UTC",
    }


def acts_alike(label: str, accepted: set[str]) -> bool:
    """Whether a label leads to the action of one that is right."""
    return label in accepted or any(label in pair and accepted & set(pair) for pair in LOOSE)


def reset_of(row: Row, at: str | None) -> str:
    """Whether a time is right (within a minute; anywhere in a day; a short wait is not cut by half), wrong, missed or invented."""
    if row["reset"] is None:
        return "silent" if at is None else "invented"
    if at is None:
        return "missed"
    reset = row["reset"]
    now, told = datetime.fromisoformat(reset["as_of"]), datetime.fromisoformat(at)
    then = datetime.fromisoformat(reset["utc"]) if reset.get("utc") else now + timedelta(seconds=reset["wait_s"])
    if reset["kind"] == "date":
        return "right" if then <= told < then + timedelta(days=1) else "wrong"
    early = then - min(timedelta(minutes=1), max((then - now) / 2, timedelta(seconds=1)))
    return "right" if early <= told <= max(then, now) + timedelta(minutes=1) else "wrong"

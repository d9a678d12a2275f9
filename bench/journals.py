"""Journals as a long life leaves them: many runs, and one run of many entries, each made from a real run's own facts."""

import sqlite3
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from msgspec import structs

from nightcrew.core.events import EffectStarted, Event, RunStarted
from nightcrew.core.ids import RunId
from nightcrew.engine.local import folded
from nightcrew.journal import codec
from nightcrew.journal.store import Journal

BATCH = 1000
MODEL = 3
"""The turn that a long journal repeats; by then a run goes round and round."""


def many_runs(home: Path, count: int) -> None:
    """Runs beside the newest one, each begun as it was."""
    journal = Journal(home)
    start = next(journal.entries(journal.recent(1)[0]))
    first, began_at = start.event, start.at
    if isinstance(first, RunStarted):
        for number in range(count):
            run = RunId(f"20200101-000000-{number:05x}")
            journal.create(run, first.repo, first.task.title, began_at + number, structs.replace(first, run=run))
    journal.close()


def long_run(home: Path, count: int) -> str:
    """A run of `count` entries that takes the newest run's fourth turn again and again, with a snapshot at its end; its id."""
    journal = Journal(home)
    newest = journal.recent(1)[0]
    run = RunId("20300101-000000-beef")
    entries = list(journal.entries(newest))
    facts, began_at = endless([entry.event for entry in entries], newest, run), entries[0].at
    first = lasting(next(facts))
    journal.create(run, first.repo, first.task.title, began_at + 1, first)
    lease = journal.acquire(run)
    seq = 1
    while seq < count:
        some = tuple(islice(facts, min(BATCH, count - seq)))
        seq = journal.append(lease, seq, began_at + seq, *some)[-1].seq
    journal.snapshot_save(lease, seq, folded(journal, run))
    lease.release()
    journal.close()
    return run


def spent_at(home: Path, node: str) -> float:
    """From the start of the first effect at that node of the newest run to the end of the last, in seconds."""
    journal, times, keys = Journal(home), list[float](), set[str]()
    for entry in journal.entries(journal.recent(1)[0]):
        if isinstance(entry.event, EffectStarted) and entry.event.effect.node == node:
            keys.add(entry.event.key)
        if getattr(entry.event, "key", "") in keys:
            times.append(entry.at)
    journal.close()
    return times[-1] - times[0] if times else 0.0


def lasting(first: Event) -> RunStarted:
    """The first fact of a run that may go on for ever."""
    if not isinstance(first, RunStarted):
        raise TypeError(first)
    pipeline = structs.replace(first.settings.pipeline, continuations=10**9)
    return structs.replace(first, settings=structs.replace(first.settings, pipeline=pipeline))


def endless(facts: list[Event], old: str, new: str) -> Iterator[Event]:
    """The beginning of a run, then one of its turns for ever, under new numbers."""
    starts = [n for n, fact in enumerate(facts) if isinstance(fact, EffectStarted) and "/StartTurn/" in fact.key]
    before, turn = facts[: starts[MODEL]], facts[starts[MODEL] : starts[MODEL + 1]]
    yield from (renamed(fact, old, new, MODEL, MODEL) for fact in before)
    number = MODEL
    while True:
        yield from (renamed(fact, old, new, MODEL, number) for fact in turn)
        number += 1


def renamed(fact: Event, old: str, new: str, was: int, number: int) -> Event:
    """A fact of another run, its keys with another number."""
    data = codec.encode(fact).replace(old.encode(), new.encode())
    data = data.replace(b'/impl-A/%d"' % was, b'/impl-A/%d"' % number)
    return codec.decode(data, codec.SCHEMA)


def forget_snapshots(home: Path) -> None:
    """What a newer version finds: facts alone."""
    with sqlite3.connect(home / "journal.db") as connection:
        connection.execute("DELETE FROM snapshots")

"""Runs, facts, snapshots and places of one process."""

import sqlite3
import stat
from functools import reduce
from pathlib import Path

import pytest
from msgspec import Struct

from nightcrew.core.events import CancelAsked, Entry, Event, Noted, ResumeAsked
from nightcrew.core.ids import RunId
from nightcrew.errors import UserError
from nightcrew.journal import codec
from nightcrew.journal.store import Fenced, Journal, SeqMoved
from nightcrew.redact import Redactor

RUN = RunId("20260830-153012-a1b2")


class Count(Struct, frozen=True):
    """A state that counts: how many facts were folded, and how many of them here and now."""

    facts: int = 0
    text: str = ""


def fold(state: Count, entry: Entry) -> Count:
    """One more fact."""
    event = entry.event
    return Count(state.facts + 1, state.text + (event.text if isinstance(event, Noted) else "."))


def noted(journal: Journal, run: RunId = RUN) -> list[str]:
    """The texts of all notes of the run."""
    return [entry.event.text for entry in journal.entries(run) if isinstance(entry.event, Noted)]


def test_facts_come_back_in_order(journal: Journal) -> None:
    """What was appended is read back, complete and in order, by this journal and by one opened later."""
    lease = journal.acquire(RUN)
    events: list[Event] = [Noted(text="é"), CancelAsked(reason="x"), ResumeAsked()]
    written = journal.append(lease, 1, 2.5, *events)
    assert written == tuple(Entry(seq, 2.5, event) for seq, event in enumerate(events, 2))
    again = Journal(journal.home)
    assert tuple(again.entries(RUN)) == (Entry(1, 1.0, Noted(text="first")), *written)
    assert tuple(again.entries(RUN, after=3)) == written[2:]
    assert again.last_seq(RUN) == 4
    again.close()


def test_a_decision_is_written_at_its_place_or_not_at_all(journal: Journal) -> None:
    """Facts follow the entry they were decided on; when another came first nothing is written (rulings 1)."""
    lease = journal.acquire(RUN)
    journal.append(lease, 1, 2.0, Noted(text="other"))
    for stale in (0, 1, 3):
        with pytest.raises(SeqMoved, match="the last is 2"):
            journal.append(lease, stale, 3.0, Noted(text="decided"), Noted(text="too"))
    assert noted(journal) == ["first", "other"]


def test_facts_of_a_step_are_written_together(journal: Journal) -> None:
    """A step whose last fact cannot be written leaves none behind."""
    lease = journal.acquire(RUN)
    with pytest.raises(LookupError):
        journal.append(lease, 1, 2.0, Noted(text="a"), Noted(text="b"), takes=(99,))
    assert noted(journal) == ["first"]
    journal.append(lease, 1, 2.0, Noted(text="c"))
    assert noted(journal) == ["first", "c"]


def test_a_run_is_made_once(journal: Journal) -> None:
    """A second run of the same id is refused and changes nothing."""
    with pytest.raises(UserError, match=RUN):
        journal.create(RUN, "repo", "other", 2.0, Noted(text="again"))
    assert noted(journal) == ["first"]


def test_a_long_journal_is_read_in_pages_while_it_grows(journal: Journal) -> None:
    """A reader sees every fact exactly once, also those appended while it reads."""
    lease = journal.acquire(RUN)
    journal.append(lease, 1, 2.0, *[Noted(text=str(n)) for n in range(2500)])
    reader = journal.entries(RUN)
    seqs = [next(reader).seq]
    journal.append(lease, 2501, 3.0, Noted(text="late"))
    seqs += [entry.seq for entry in reader]
    assert seqs == list(range(1, 2503))


def test_one_run_does_not_touch_another(journal: Journal) -> None:
    """Two runs have their own seqs, leases and facts."""
    other = RunId("20260830-153013-ffff")
    journal.create(other, "repo", "other", 2.0, Noted(text="other"))
    lease, second = journal.acquire(RUN), journal.acquire(other)
    journal.append(lease, 1, 3.0, Noted(text="x"))
    journal.append(second, 1, 3.0, Noted(text="y"))
    assert (noted(journal), noted(journal, other)) == (["first", "x"], ["other", "y"])


# ── snapshots ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_snapshot_changes_nothing_but_the_work(journal: Journal) -> None:
    """The state is the same with and without a snapshot, and with one only later facts are folded."""
    lease = journal.acquire(RUN)
    journal.append(lease, 1, 2.0, *[Noted(text=str(n)) for n in range(5)])
    assert journal.snapshot_load(RUN, Count) is None
    whole = reduce(fold, journal.entries(RUN), Count())
    assert whole == Count(6, "first01234")
    journal.snapshot_save(lease, 4, Count(4, "first012"))
    kept = journal.snapshot_load(RUN, Count)
    assert kept == (4, Count(4, "first012"))
    later = list(journal.entries(RUN, kept[0]))
    assert [entry.seq for entry in later] == [5, 6]
    assert reduce(fold, later, kept[1]) == whole


class Other(Struct, frozen=True):
    """The state of another version of the code."""

    facts: int = 0


def test_a_snapshot_of_other_code_is_dropped(journal: Journal) -> None:
    """A snapshot of another shape of state is as good as none: everything is folded."""
    journal.snapshot_save(journal.acquire(RUN), 1, Other(77))
    assert journal.snapshot_load(RUN, Count) is None
    assert journal.snapshot_load(RUN, Other) == (1, Other(77))


def test_a_damaged_snapshot_is_dropped(journal: Journal) -> None:
    """Bytes that are no state are as good as none."""
    journal.snapshot_save(journal.acquire(RUN), 1, Count(9))
    assert journal.snapshot_load(RUN, Count) == (1, Count(9))
    with sqlite3.connect(journal.home / "journal.db") as plain:
        plain.execute("UPDATE snapshots SET state = x'c1'")
    plain.close()
    assert journal.snapshot_load(RUN, Count) is None


# ── lists and names ───────────────────────────────────────────────────────────────────────────────────────────────


def test_a_run_is_found_by_id_short_name_or_beginning(journal: Journal) -> None:
    """A person may write the whole id, its last part, or enough of its beginning; anything else is one line."""
    journal.create(RunId("20260830-160000-c3d4"), "repo", "t", 2.0, Noted(text=""))
    journal.create(RunId("20260901-160000-2026"), "repo", "t", 3.0, Noted(text=""))
    assert journal.find(RUN) == RUN
    assert journal.find("a1b2") == RUN
    assert journal.find("20260830-15") == RUN
    assert journal.find("2026") == "20260901-160000-2026", "a short name goes before a beginning"
    with pytest.raises(UserError, match="any of 2 runs: 20260830-160000-c3d4, 20260830-153012-a1b2"):
        journal.find("20260830")
    for unknown in ("", "zzzz", "%", "_", "1b2", "'; --"):
        with pytest.raises(UserError, match="no run"):
            journal.find(unknown)


def test_recent_runs_cost_what_they_show(journal: Journal) -> None:
    """A list of ten of ten thousand runs sorts and reads ten: it follows an index."""
    with sqlite3.connect(journal.home / "journal.db") as plain:
        rows = [(f"20270101-{n:06}-{n:04x}", f"repo{n % 3}", float(n)) for n in range(10_000)]
        plain.executemany("INSERT INTO runs (run, repo, title, created_at) VALUES (?, ?, 't', ?)", rows)
        plain.executemany(
            "INSERT INTO entries VALUES (?, 1, ?, 1, ?)", [(run, at, codec.encode(Noted(text=""))) for run, _, at in rows]
        )
        plain.execute("UPDATE runs SET repo = 'rare' WHERE created_at < 10")
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        plain.set_progress_handler(step, 1)
        for name, values in (("recent", (10,)), ("recent_of", ("rare", 10))):
            steps = 0
            assert len(plain.execute(journal._db.sql[name], values).fetchall()) == 10
            assert steps < 1000
    plain.close()
    assert journal.recent(2) == (rows[-1][0], rows[-2][0])
    assert journal.recent(1, "repo1") == (next(run for run, repo, _ in reversed(rows) if repo == "repo1"),)
    assert journal._db.row("recent", 1) == (*rows[-1][:2], "t", 9999.0, 9999.0, "")


def test_the_line_of_a_run_is_the_one_said_last(journal: Journal) -> None:
    """A line is kept with the facts it was said of, without secrets; facts without one leave it, refused facts too."""
    lease = journal.acquire(RUN)

    def line() -> str:
        return str(journal._db.rows("recent", 1)[0][-1])

    assert line() == ""
    journal.append(lease, 1, 2.0, Noted(text="a"), line="running: ghp_0123456789abcdefghij0123456789abcdef")
    journal.append(lease, 2, 2.0, Noted(text="b"))
    with pytest.raises(SeqMoved):
        journal.append(lease, 1, 2.0, Noted(text="c"), line="landed")
    said = line()
    assert said.startswith("running: ")
    assert "ghp_" not in said


def test_places_are_remembered(journal: Journal) -> None:
    """A place has one path, the last one told; an unknown name is one line (rulings 5)."""
    journal.set_place("repo", Path("/a"))
    journal.set_place("repo", Path("/b ü"))
    assert journal.place("repo") == Path("/b ü")
    with pytest.raises(UserError, match="elsewhere"):
        journal.place("elsewhere")


def test_an_unknown_run_is_one_line(journal: Journal) -> None:
    """Nobody can drive or talk to a run that is not there, and nothing is made by trying."""
    nobody = RunId("../nobody")
    for attempt in (
        lambda: journal.acquire(nobody),
        lambda: journal.acquire(nobody, take_over=True),
        lambda: journal.say(nobody, 1.0, ResumeAsked()),
    ):
        with pytest.raises(UserError, match="nobody"):
            attempt()
    assert tuple(journal.entries(nobody)) == ()
    assert not (journal.home / "nobody").exists()


# ── what is on disk ───────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_owner_can_read(journal: Journal) -> None:
    """Folders are 0700 and files 0600, those of SQLite and the bell included (law 14)."""
    lease = journal.acquire(RUN)
    bell = journal.listen(RUN)
    journal.append(lease, 1, 2.0, Noted(text="x"))
    found = [journal.home, *journal.home.rglob("*")]
    assert {path.name for path in found} >= {"journal.db", "journal.db-wal", "lease", "bell", RUN}
    modes = {path: stat.S_IMODE(path.stat().st_mode) for path in found}
    assert [path for path, mode in modes.items() if mode != (0o700 if path.is_dir() else 0o600)] == []
    bell.close()


def test_no_litter(journal: Journal) -> None:
    """A run that was driven leaves its lease and its bell, and nothing made aside."""
    journal.listen(RUN).close()
    journal.acquire(RUN, take_over=True).release()
    journal.acquire(RUN).release()
    assert sorted(path.name for path in journal.folder(RUN).iterdir()) == ["bell", "lease"]
    assert not (journal.home / "journal.db.new").exists()


def test_the_disk_is_asked_before_anything_is_acknowledged(journal: Journal) -> None:
    """WAL with synchronous=FULL: an append that returned survives a power cut."""
    assert journal._db._connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    assert journal._db._connection.execute("PRAGMA synchronous").fetchone() == (2,)


def test_known_secrets_are_never_on_disk(home: Path) -> None:
    """Neither facts nor words nor titles carry a known value into any file; the fact given back is the one on disk (law 14)."""
    secret = "correct-horse-battery"
    journal = Journal(home, Redactor([secret]))
    journal.create(RUN, "repo", f"use {secret}", 1.0, Noted(text=f"a {secret}"))
    lease = journal.acquire(RUN)
    word = journal.say(RUN, 2.0, CancelAsked(reason=secret))
    entries = journal.append(lease, 1, 2.0, Noted(text=f"b {secret} c"), takes=(word,))
    assert entries == tuple(journal.entries(RUN, 1))
    assert isinstance(entries[0].event, Noted)
    assert entries[0].event.text == "b [redacted] c"
    files = [path for path in home.rglob("*") if path.is_file()]
    assert not [path for path in files if secret.encode() in path.read_bytes()]
    journal.close()


def test_a_newer_journal_is_refused(journal: Journal) -> None:
    """Tables of a newer nightcrew are not touched."""
    with sqlite3.connect(journal.home / "journal.db") as plain:
        plain.execute("PRAGMA user_version=2")
    plain.close()
    with pytest.raises(UserError, match="newer nightcrew"):
        Journal(journal.home)


def test_a_fact_of_a_newer_schema_stops_the_reader(journal: Journal) -> None:
    """A run that a newer nightcrew went on with is refused at that fact, the earlier ones are read."""
    with sqlite3.connect(journal.home / "journal.db") as plain:
        plain.execute("INSERT INTO entries VALUES (?, 2, 2.0, ?, ?)", (RUN, codec.SCHEMA + 1, b"{}"))
    plain.close()
    reader = journal.entries(RUN)
    assert next(reader).seq == 1
    with pytest.raises(UserError, match="upgrade"):
        next(reader)


def test_a_lease_of_another_number_cannot_write(journal: Journal) -> None:
    """The fence is compared in every append and every snapshot (rulings 8)."""
    old = journal.acquire(RUN)
    new = journal.acquire(RUN, take_over=True)
    assert new.fence == old.fence + 1
    with pytest.raises(Fenced):
        journal.append(old, 1, 2.0, Noted(text="old"))
    with pytest.raises(Fenced):
        journal.snapshot_save(old, 1, Count(1))
    journal.append(new, 1, 2.0, Noted(text="new"))
    assert noted(journal) == ["first", "new"]

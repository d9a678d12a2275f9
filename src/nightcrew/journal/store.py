"""The journal itself: runs and their facts, leases, snapshots, people's words, places. Bytes are `codec`'s, texts `blobs`'s.

Every function is synchronous and may be called from any thread; one that writes returns when the disk has it.
"""

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeVar

from msgspec import Struct

from nightcrew.core.events import Entry, Event
from nightcrew.core.ids import RunId, short
from nightcrew.errors import UserError
from nightcrew.journal import codec
from nightcrew.journal.bell import Bell, ring
from nightcrew.journal.database import Database, JournalUnusable, Row, unusable
from nightcrew.journal.lease import Holder, Lease, RunBusy, aside, holder, seize, stands
from nightcrew.redact import Redactor

__all__ = ["Fenced", "Journal", "JournalUnusable", "Lease", "RunBusy", "RunRow", "SeqMoved", "Word"]

VERSION = 1
"""The number of the file's tables; facts have one of their own (`codec.SCHEMA`)."""
PAGE = 1000

S = TypeVar("S", bound=Struct)


class Fenced(Exception):  # noqa: N818 — what happened, not a mistake
    """Somebody took the run over: this process may not write to it any more and leaves."""


class SeqMoved(Exception):  # noqa: N818 — what happened, not a mistake
    """Facts were appended since the decision was made: read them and decide again. `last` is the newest seq."""

    def __init__(self, expected: int, last: int) -> None:
        """Keep both numbers for the message."""
        super().__init__(f"expected to follow entry {expected}, the last is {last}")
        self.last = last


class RunRow(NamedTuple):
    """A run as a list shows it. `repo` names a place; `last_seq` and `last_at` are those of its newest fact."""

    run: RunId
    repo: str
    title: str
    created_at: float
    last_seq: int
    last_at: float


class Word(NamedTuple):
    """What a person said to a run from another process, not yet a fact of it."""

    id: int
    at: float
    event: Event


class Journal:
    """All runs below one NIGHTCREW_HOME: `journal.db`, and `runs/<id>/` for what is a file."""

    def __init__(self, home: Path, redactor: Redactor | None = None) -> None:
        """Open the journal, made on first use; secrets known to `redactor` are never written.

        Raises `JournalUnusable`, or `UserError` when a newer nightcrew wrote it.
        """
        self.home = home
        self._redactor = redactor or Redactor()
        self._sql = queries()
        self._db = Database(home / "journal.db", self._sql["schema"], VERSION)

    def close(self) -> None:
        """Let go of the file; leases stay until they are released."""
        self._db.close()

    def folder(self, run: RunId) -> Path:
        """Where the run's files are."""
        return self.home / "runs" / run

    # ── runs ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def create(self, run: RunId, repo: str, title: str, at: float, first: Event) -> Entry:
        """Make a run with its first fact, as entry 1. Raises `UserError` when the id is taken."""
        event = codec.cleaned(first, self._redactor)
        with unusable(self.folder(run)):
            (self.home / "runs").mkdir(mode=0o700, exist_ok=True)
            self.folder(run).mkdir(mode=0o700, exist_ok=True)
        with self._db.transaction():
            if self._db.row(self._sql["fence"], run) is not None:
                raise UserError(f"there is a run {run} already")
            self._db.change(self._sql["create_run"], run, repo, self._redactor.text(title), at)
            self._db.change(self._sql["append"], run, 1, at, codec.SCHEMA, codec.encode(event))
        return Entry(1, at, event)

    def recent(self, limit: int) -> tuple[RunRow, ...]:
        """The newest runs first; costs what it shows."""
        return tuple(map(RunRow._make, self._db.rows(self._sql["recent"], limit)))

    def recent_of(self, repo: str, limit: int) -> tuple[RunRow, ...]:
        """The newest runs of one repository first."""
        return tuple(map(RunRow._make, self._db.rows(self._sql["recent_of"], repo, limit)))

    def find(self, name: str) -> RunId:
        """The run meant by an id, its short name, or the beginning of its id. Raises `UserError`: unknown, or several (with the list)."""
        found = [RunId(row[0]) for row in self._db.rows(self._sql["find"], name)] if name else []
        for chosen in ([run for run in found if run == name], [run for run in found if short(run) == name], found):
            if len(chosen) == 1:
                return chosen[0]
            if chosen:
                shown = ", ".join(chosen[:5]) + (", …" if len(chosen) > 5 else "")
                raise UserError(f"'{name}' may be any of {len(chosen)} runs: {shown}", "write more of it")
        raise UserError(f"there is no run '{name}'", "`nightcrew list` shows them")

    def set_place(self, name: str, path: Path) -> None:
        """Remember where something lies on this machine; facts hold only its name (rulings 5)."""
        self._db.change(self._sql["set_place"], name, str(path))

    def place(self, name: str) -> Path:
        """Where it lies. Raises `UserError` for a name never set."""
        row = self._db.row(self._sql["place"], name)
        if row is None:
            raise UserError(f"the journal does not know where '{name}' lies")
        return Path(row[0])

    # ── the right to write ────────────────────────────────────────────────────────────────────────────────────────

    def acquire(self, run: RunId) -> Lease:
        """Become the run's one driver. Raises `RunBusy` while another process is, `UserError` for an unknown run."""
        self._known(run)
        path = self.folder(run) / "lease"
        while True:
            with unusable(path):
                fd = seize(path, run)
            lease = Lease(run, 0, fd)
            try:
                with self._db.transaction():
                    if stands(path, fd):
                        lease.fence = self._raised(run)
                        return lease
            except BaseException:
                lease.release()
                raise
            lease.release()

    def take_over(self, run: RunId) -> Lease:
        """Become the driver in place of a live or frozen one, whose next append fails with `Fenced` (rulings 8)."""
        self._known(run)
        path = self.folder(run) / "lease"
        with unusable(path):
            mine, fd = aside(path)
        lease = Lease(run, 0, fd)
        try:
            # Both in one transaction: of two that take over at once, the later has the file and the number.
            with self._db.transaction():
                mine.rename(path)
                lease.fence = self._raised(run)
        except BaseException:
            mine.unlink(missing_ok=True)
            lease.release()
            raise
        return lease

    def holder(self, run: RunId) -> Holder | None:
        """The process that drives the run now, as it signed itself; None when nobody does."""
        with unusable(self.folder(run)):
            return holder(self.folder(run) / "lease")

    def _known(self, run: RunId) -> None:
        if self._db.row(self._sql["fence"], run) is None:
            raise UserError(f"there is no run '{run}'", "`nightcrew list` shows them")

    def _raised(self, run: RunId) -> int:
        self._db.change(self._sql["raise_fence"], run)
        return self._fence(run)

    def _fence(self, run: RunId) -> int:
        row = self._db.row(self._sql["fence"], run)
        return 0 if row is None else int(row[0])

    def _check(self, lease: Lease) -> None:
        if self._fence(lease.run) != lease.fence:
            raise Fenced(f"another process took run {lease.run} over")

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def append(
        self, lease: Lease, expected: int, at: float, *events: Event, takes: tuple[int, ...] = ()
    ) -> tuple[Entry, ...]:
        """Write facts right after entry `expected`, all or none, and mark the words they came from as taken.

        Fold the entries given back, not what was passed in: secrets are out of them. Raises `Fenced`, `SeqMoved`,
        `JournalUnusable`.
        """
        clean = [codec.cleaned(event, self._redactor) for event in events]
        entries = tuple(Entry(seq, at, event) for seq, event in enumerate(clean, expected + 1))
        coded = [(entry.seq, codec.encode(entry.event)) for entry in entries]
        with self._db.transaction():
            self._check(lease)
            last = self.last_seq(lease.run)
            if last != expected:
                raise SeqMoved(expected, last)
            for seq, data in coded:
                self._db.change(self._sql["append"], lease.run, seq, at, codec.SCHEMA, data)
            for word in takes:
                if self._db.change(self._sql["take"], expected + 1, word, lease.run) != 1:
                    raise LookupError(f"word {word} is not in the inbox of {lease.run}, or was taken before")
        return entries

    def last_seq(self, run: RunId) -> int:
        """The newest entry's seq; 0 for an unknown run."""
        row = self._db.row(self._sql["last_seq"], run)
        return 0 if row is None else int(row[0])

    def entries(self, run: RunId, after: int = 0) -> Iterator[Entry]:
        """The facts after entry `after` in order, read page by page: a slow reader holds nothing up. Raises `codec.Unreadable`."""
        while page := self._db.rows(self._sql["entries"], run, after, PAGE):
            yield from map(_entry, page)
            after = page[-1][0]

    def changed(self) -> int:
        """A number that differs from the last one whenever any process has written since: what a reader in wait looks at."""
        return self._db.changed()

    # ── snapshots: a cache, never the truth ───────────────────────────────────────────────────────────────────────

    def snapshot_save(self, lease: Lease, seq: int, state: Struct) -> None:
        """Keep the state as folded up to `seq`, in place of an older one. Raises `Fenced`."""
        data, key = codec.encode_state(state), codec.state_key(type(state))
        with self._db.transaction():
            self._check(lease)
            self._db.change(self._sql["save_snapshot"], lease.run, seq, key, data)

    def snapshot_load(self, run: RunId, kind: type[S]) -> tuple[int, S] | None:
        """The last state kept and its seq; None when there is none of this `kind` and version, or it does not fit the facts."""
        row = self._db.row(self._sql["snapshot"], run, codec.state_key(kind))
        if row is None or row[0] > self.last_seq(run):
            return None
        state = codec.decode_state(row[1], kind)
        return None if state is None else (int(row[0]), state)

    def load(self, run: RunId, start: S, fold: Callable[[S, Entry], S]) -> tuple[int, S]:
        """The newest seq and the state there: `start`, or a snapshot of its kind, with every later entry folded in."""
        seq, state = self.snapshot_load(run, type(start)) or (0, start)
        for entry in self.entries(run, seq):
            seq, state = entry.seq, fold(state, entry)
        return seq, state

    # ── people's words ────────────────────────────────────────────────────────────────────────────────────────────

    def say(self, run: RunId, at: float, word: Event) -> int:
        """Leave a word for the run's driver, wake it, and give the word's id. Works whether anybody drives it or not."""
        self._known(run)
        data = codec.encode(codec.cleaned(word, self._redactor))
        with self._db.transaction():
            self._db.change(self._sql["say"], run, at, codec.SCHEMA, data)
            row = self._db.row("SELECT last_insert_rowid()")
        ring(self.folder(run) / "bell")
        return int(row[0]) if row else 0

    def words(self, run: RunId) -> tuple[Word, ...]:
        """The words nobody took yet, in the order they were said. Name their ids in `append(takes=…)`."""
        rows = self._db.rows(self._sql["words"], run)
        return tuple(Word(number, at, codec.decode(data, schema)) for number, at, schema, data in rows)

    def listen(self, run: RunId) -> Bell:
        """The driver's bell. Listen first and read `words` then, and none is missed."""
        with unusable(self.folder(run)):
            return Bell(self.folder(run) / "bell")


def _entry(row: Row) -> Entry:
    seq, at, schema, data = row
    return Entry(seq, at, codec.decode(data, schema))


@cache
def queries() -> dict[str, str]:
    """The statements of `queries.sql` by name."""
    text = Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")
    parts = (part.partition("\n") for part in text.split("-- name: ")[1:])
    return {name.strip(): sql.strip() for name, _, sql in parts}

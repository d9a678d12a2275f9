"""The journal itself: runs, their facts, leases, snapshots, people's words, places. What writes returns when the disk has it."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec
from msgspec import Struct

from nightcrew.core.events import Entry, Event
from nightcrew.core.ids import EffectId, RunId, short
from nightcrew.database import Database, held, locked, unusable
from nightcrew.errors import UserError
from nightcrew.journal import VERSION, codec
from nightcrew.redact import Redactor

PAGE = 1000
GLANCES = 100  # how often a taken lease is tried again, a millisecond apart: who only looks at it has it for microseconds

S = TypeVar("S", bound=Struct)


class Fenced(Exception):  # noqa: N818 — what happened, not a mistake
    """Somebody took the run over: this process may not write to it any more and leaves."""


class SeqMoved(Exception):  # noqa: N818 — what happened, not a mistake
    """Facts were appended since the decision was made: read them and decide again."""


class Lease(NamedTuple):
    """The right to append to a run. Lost at once when somebody takes over; ends with the process at the latest, when the kernel frees its lock."""

    run: RunId
    fence: int
    lock: ExitStack

    def release(self) -> None:
        """Let others drive the run. Releasing twice is once."""
        self.lock.close()


class Bell(FileIO):
    """A named pipe that becomes readable when somebody rang. It carries no words; those are in the inbox."""

    def __init__(self, path: Path) -> None:
        """Hang a new bell at `path`, in place of a dead or frozen driver's."""
        aside = path.with_name(f"{path.name}.{os.getpid()}")
        aside.unlink(missing_ok=True)
        os.mkfifo(aside, 0o600)
        # Open for writing too: a pipe without a writer would be readable (at its end) for ever.
        super().__init__(os.open(aside, os.O_RDWR | os.O_NONBLOCK))
        aside.rename(path)

    def hush(self) -> bool:
        """Forget every ring so far; whether there was one. Hush first and read the inbox then, and no word is missed."""
        return bool(self.read(1 << 20))


def effect_folder(home: Path, key: EffectId) -> Path:
    """Where an effect keeps its files: the raw output of its turn, commands or hooks."""
    run, rest = key.split("/", 1)
    return home / "runs" / run / "effects" / rest.replace("/", "-")


class Journal:
    """All runs below one NIGHTCREW_HOME: `journal.db`, and `runs/<id>/` for what is a file."""

    def __init__(self, home: Path, redactor: Redactor | None = None) -> None:
        """Open it, made on first use; what `redactor` knows is never written. Raises `Unusable`, or `UserError`: a newer one."""
        self.home, self.redactor = home, redactor or Redactor()
        self._db = Database(home / "journal.db", Path(__file__).with_name("queries.sql"), VERSION)

    def close(self) -> None:
        """Let go of the file; leases stay until they are released."""
        self._db.close()

    def folder(self, run: RunId) -> Path:
        """Where the run's files are."""
        return self.home / "runs" / run

    def create(self, run: RunId, repo: str, title: str, at: float, first: Event) -> Entry:
        """Make a run with its first fact, as entry 1. Raises `UserError` when the id is taken."""
        event = codec.cleaned(first, self.redactor)
        with self._db.transaction():
            for folder in (self.home / "runs", self.folder(run)):
                folder.mkdir(mode=0o700, exist_ok=True)
            if self._db.row("fence", run) is not None:
                raise UserError(f"there is a run {run} already")
            self._db.change("create_run", run, repo, self.redactor.text(title), at)
            self._db.change("append", run, 1, at, codec.SCHEMA, codec.encode(event))
        return Entry(1, at, event)

    def recent(self, limit: int, *repo: str) -> tuple[RunId, ...]:
        """The newest runs, or those of one repository, newest first; costs what it shows."""
        return tuple(RunId(row[0]) for row in self._db.rows("recent_of" if repo else "recent", *repo, limit))

    def find(self, name: str) -> RunId:
        """The run meant by an id, its short name, or the beginning of its id. Raises `UserError`: unknown, or several (with the list)."""
        found = [RunId(row[0]) for row in self._db.rows("find", name)] if name else []
        meant = [run for run in found if run == name] or [run for run in found if short(run) == name] or found
        if not meant:
            raise UserError(f"there is no run '{name}'", "`nightcrew list` shows them")
        if len(meant) > 1:
            shown = ", ".join(meant[:5]) + (", …" if len(meant) > 5 else "")
            raise UserError(f"'{name}' may be any of {len(meant)} runs: {shown}", "write more of it")
        return meant[0]

    def set_place(self, name: str, path: Path) -> None:
        """Remember where something lies on this machine; facts hold only its name (rulings 5)."""
        self._db.change("set_place", name, str(path))

    def place(self, name: str) -> Path:
        """Where it lies. Raises `UserError` for a name never set."""
        row = self._db.row("place", name)
        if row is None:
            raise UserError(f"the journal does not know where '{name}' lies")
        return Path(row[0])

    def holder(self, run: RunId) -> int | None:
        """The pid of the process that drives the run now, 0 if it has not signed yet; None when nobody does."""
        path = self.folder(run) / "lease"
        return _signed(path) if held(path) else None

    def acquire(self, run: RunId, *, take_over: bool = False) -> Lease:
        """Become the run's one driver. Raises `UserError`: it is unknown, or another process drives it."""
        # With `take_over` in place of that one, live or frozen, whose next append fails with `Fenced` (rulings 8).
        with ExitStack() as undo:
            # Lock and number in one transaction: of several that come at once, each has both or none.
            with self._db.transaction():
                fence, path = self._fence(run) + 1, self.folder(run) / "lease"
                if take_over:  # the other keeps its lock on a file that nobody sees any more
                    path.unlink(missing_ok=True)
                undo.callback(os.close, _seize(path, run))
                self._db.change("set_fence", fence, run)
            return Lease(run, fence, undo.pop_all())

    def _fence(self, run: RunId) -> int:
        row = self._db.row("fence", run)
        if row is None:
            raise UserError(f"there is no run '{run}'", "`nightcrew list` shows them")
        return int(row[0])

    def check(self, lease: Lease) -> None:
        """Raise `Fenced` when the lease is not ours any more; asked before anything that the journal cannot refuse."""
        if self._fence(lease.run) != lease.fence:
            raise Fenced(f"another process took run {lease.run} over")

    def append(
        self, lease: Lease, expected: int, at: float, *events: Event, takes: tuple[int, ...] = (), line: str = ""
    ) -> tuple[Entry, ...]:
        """Write facts right after entry `expected`, all or none; mark the words they came from as taken; keep `line` for lists."""
        # Fold the entries given back: secrets are out of them. Raises `Fenced`, `SeqMoved`, `Unusable`.
        clean = [codec.cleaned(event, self.redactor) for event in events]
        entries = tuple(Entry(seq, at, event) for seq, event in enumerate(clean, expected + 1))
        with self._db.transaction():
            self.check(lease)
            last = self.last_seq(lease.run)
            if last != expected:
                raise SeqMoved(f"expected to follow entry {expected}, the last is {last}")
            for seq, event in enumerate(clean, expected + 1):
                self._db.change("append", lease.run, seq, at, codec.SCHEMA, codec.encode(event))
            if line:
                self._db.change("say_line", lease.run, codec.cleaned(line, self.redactor, "text"))
            for word in takes:
                if self._db.change("take", expected + 1, word, lease.run) != 1:
                    raise LookupError(f"word {word} is not in the inbox of {lease.run}, or was taken before")
        return entries

    def last_seq(self, run: RunId) -> int:
        """The newest entry's seq; 0 for an unknown run."""
        row = self._db.row("last_seq", run)
        return 0 if row is None else int(row[0])

    def entries(self, run: RunId, after: int = 0) -> Iterator[Entry]:
        """The facts after entry `after` in order, read page by page: a slow reader holds nothing up. Raises `UserError`: one cannot be read."""
        while page := self._db.rows("entries", run, after, PAGE):
            for seq, at, schema, data in page:
                yield Entry(seq, at, codec.decode(data, schema))
            after = page[-1][0]

    def snapshot_save(self, lease: Lease, seq: int, state: Struct) -> None:
        """Keep the state as folded up to `seq`, in place of an older one: a cache, never the truth. Raises `Fenced`."""
        data, key = msgspec.msgpack.encode(state), codec.state_key(type(state))
        with self._db.transaction():
            self.check(lease)
            self._db.change("save_snapshot", lease.run, seq, key, data)

    def snapshot_load(self, run: RunId, kind: type[S]) -> tuple[int, S] | None:
        """The last state kept and its seq; None when there is none of this `kind` and version: fold anew."""
        row = self._db.row("snapshot", run)
        if row is None or row[2] != codec.state_key(kind):  # the key costs 8 ms: asked for only when there is a row
            return None
        with suppress(msgspec.MsgspecError):
            return row[0], msgspec.msgpack.decode(row[1], type=kind)
        return None

    def say(self, run: RunId, at: float, word: Event) -> int:
        """Leave a word for the run's driver, wake it, and give the word's id. Works whether anybody drives it or not."""
        self._fence(run)
        [(number,)] = self._db.rows("say", run, at, codec.SCHEMA, codec.encode(codec.cleaned(word, self.redactor)))
        # Never waits and never fails: with nobody there, the word waits in the inbox.
        with suppress(OSError), FileIO(os.open(self.folder(run) / "bell", os.O_WRONLY | os.O_NONBLOCK), "w") as bell:
            bell.write(b"!")
        return int(number)

    def words(self, run: RunId) -> tuple[tuple[int, Event], ...]:
        """The words nobody took yet, by their ids, in the order they were said. Name the ids in `append(takes=…)`."""
        return tuple((number, codec.decode(data, schema)) for number, schema, data in self._db.rows("words", run))

    def listen(self, run: RunId) -> Bell:
        """The driver's bell. Listen first and read `words` then, and none is missed."""
        with unusable(self.folder(run)):
            return Bell(self.folder(run) / "bell")


def _seize(path: Path, run: RunId) -> int:
    """Lock the lease file and sign it; gives its descriptor, which no program started later inherits."""
    for _ in range(GLANCES):
        fd = locked(path)
        if fd >= 0:
            os.ftruncate(fd, 0)
            os.pwrite(fd, b"%d" % os.getpid(), 0)
            return fd
        time.sleep(0.001)
    hint = "wait for it, park it, or `nightcrew resume --take-over`"
    raise UserError(f"run {run} is being driven by process {_signed(path)}", hint)


def _signed(path: Path) -> int:
    with suppress(OSError, ValueError):
        return int(path.read_bytes())
    return 0

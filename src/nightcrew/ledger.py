"""What all runs of a machine know together: which accounts cool down until when, and who has one of the machine's turns.

It decides nothing: a handler asks it and makes a fact of the answer (rulings 24, 36). Works with SQLite 3.40.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import NamedTuple

from nightcrew.core.roster import Agent
from nightcrew.errors import UserError
from nightcrew.redact import Redactor

ASSUMED_S = 900.0
"""How long a loss without a known reset is assumed to last; doubles with each further one, up to `ASSUMED_MAX_S`."""
ASSUMED_MAX_S = 3600.0
QUIET_S = 90.0
"""Who waits and has not asked for so long (a frozen driver) holds nobody up any more; ask at least every 30 s."""
SEEN_S = 20.0
"""Asking again within so many seconds writes nothing, so that those who wait do not wake each other."""
BUSY_S = 30.0
VERSION = 1
"""The number of the tables."""

_SCHEMA = """
CREATE TABLE cooling (
    account TEXT NOT NULL,
    model TEXT NOT NULL,
    agent TEXT NOT NULL,
    until REAL NOT NULL,
    source TEXT NOT NULL,
    window TEXT NOT NULL,
    why TEXT NOT NULL,
    run TEXT NOT NULL,
    at REAL NOT NULL,
    losses INTEGER NOT NULL,
    PRIMARY KEY (account, model)
) WITHOUT ROWID;
CREATE TABLE turns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    folder TEXT NOT NULL UNIQUE,
    boot TEXT NOT NULL,
    pid INTEGER NOT NULL,
    seen_at REAL NOT NULL,
    granted INTEGER NOT NULL DEFAULT 0
);
"""
_COOLING = "SELECT account, model, agent, until, source, window, why, run, at FROM cooling "
_COOL = "INSERT OR REPLACE INTO cooling VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"


class LedgerUnusable(Exception):  # noqa: N818 — it names a condition of the machine
    """The ledger cannot be read or written (disk full, read-only, damaged). `reason` is one line."""

    def __init__(self, reason: str) -> None:
        """Keep the line for whoever prints it."""
        super().__init__(reason)
        self.reason = reason


class Cooling(NamedTuple):
    """An account, or one model of it (`model` empty = all), that is not to be asked until `until` (seconds since the epoch).

    `agent`, `run`, `why` and `at` tell who met it; `source` says how `until` is known, `assumed` if it is not.
    """

    account: str
    model: str
    agent: str
    until: float
    source: str
    window: str
    why: str
    run: str
    at: float


class Loss(NamedTuple):
    """An agent said at `at` that it cannot work until `until` (None = it did not say). `model` empty = the whole account."""

    agent: Agent
    at: float
    until: float | None = None
    source: str = ""
    model: str = ""
    window: str = ""
    why: str = ""
    run: str = ""


class Granted(NamedTuple):
    """The turn may begin: one of the machine's slots is its own until it is released or over."""

    folder: Path


class Full(NamedTuple):
    """All slots are taken: `live` turns run and `ahead` wait longer. Ask again when `changed` moves, and at least every 30 s."""

    live: int
    ahead: int


def account_of(agent: Agent) -> str:
    """What cools down together: the agent's account, or the agent alone."""
    return agent.account or f"{agent.kind}:{agent.id}"


class Ledger:
    """`ledger.db` of one NIGHTCREW_HOME. Every function is one transaction and may be called from any thread."""

    def __init__(self, home: Path, redactor: Redactor | None = None) -> None:
        """Open it, made on first use. Raises `LedgerUnusable`, or `UserError` when a newer nightcrew wrote it."""
        self._path = home / "ledger.db"
        self._redactor = redactor or Redactor()
        self._lock = RLock()
        self._boot = _boot_id()
        self._held: dict[Path, int] = {}
        with self._usable():
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._db = _open(self._path)

    def close(self) -> None:
        """Let go of the file, and of the turns asked for here that no supervisor owns."""
        with self._lock:
            self._db.close()
            for folder in list(self._held):
                self._let_go(folder)

    def changed(self) -> int:
        """A number that differs from the last one whenever any process has written since; a few microseconds."""
        with self._lock, self._usable():
            others: int = self._db.execute("PRAGMA data_version").fetchone()[0]
            return others + self._db.total_changes

    # ── who cools down ────────────────────────────────────────────────────────────────────────────────────────────

    def cool(self, loss: Loss) -> Cooling:
        """Remember a loss and give what holds now.

        Without a known reset it is assumed: 15 min, doubling to 60 with each loss in a row (rulings 24). A loss that was
        under way when the account began to cool counts once: it neither doubles nor shortens what is known.
        """
        key = account_of(loss.agent), loss.model
        with self._transaction():
            found = self._db.execute(_COOLING + "WHERE account = ? AND model = ?", key).fetchone()
            known = Cooling._make(found) if found else None
            if known is not None and known.until > loss.at and _keeps(known, loss):
                return known
            losses, until, source = 0, loss.until, loss.source
            if until is None:
                before = self._db.execute("SELECT losses FROM cooling WHERE account = ? AND model = ?", key).fetchone()
                losses, source = 1 + (before[0] if before else 0), "assumed"
                until = loss.at + min(ASSUMED_S * 2.0 ** min(losses - 1, 10), ASSUMED_MAX_S)
            why = self._redactor.text(loss.why)
            now = Cooling(*key, loss.agent.id, until, source, loss.window, why, loss.run, loss.at)
            self._db.execute(_COOL, (*now, losses))
            return now

    def warm(self, agent: Agent, began_at: float) -> None:
        """The agent answered in a turn that began at `began_at`: what was lost before that is over, and so is the doubling."""
        with self._transaction():
            self._db.execute(
                "DELETE FROM cooling WHERE account = ? AND model IN ('', ?) AND at <= ?",
                (account_of(agent), agent.model, began_at),
            )

    def clear(self, agent: Agent) -> int:
        """Forget all cooling of the agent's account, because a person says so; how much there was."""
        with self._transaction():
            return self._db.execute("DELETE FROM cooling WHERE account = ?", (account_of(agent),)).rowcount

    def cooling(self, at: float) -> tuple[Cooling, ...]:
        """All that cools at `at`, what ends first before the others."""
        with self._lock, self._usable():
            rows = self._db.execute(_COOLING + "WHERE until > ? ORDER BY until, account, model", (at,)).fetchall()
        return tuple(map(Cooling._make, rows))

    def cooling_of(self, agent: Agent, at: float) -> Cooling | None:
        """What keeps this agent from being asked at `at`, its model's or its account's, whichever ends last; None = nothing."""
        where = "WHERE account = ? AND model IN ('', ?) AND until > ? ORDER BY until DESC LIMIT 1"
        with self._lock, self._usable():
            row = self._db.execute(_COOLING + where, (account_of(agent), agent.model, at)).fetchone()
        return Cooling._make(row) if row else None

    # ── who has a turn ────────────────────────────────────────────────────────────────────────────────────────────

    def ask(self, agent: Agent, folder: Path, at: float, max_turns: int) -> Cooling | Granted | Full:
        """Ask for one of the machine's `max_turns` slots for the turn in `folder` (made if absent), in one transaction.

        An agent that cools gets no slot. Slots go to those who wait longest. A turn that has one keeps it, whoever asks
        and whatever cools: an adopted turn takes no second (rulings 36).
        """
        with self._transaction():
            mine = self._db.execute("SELECT id, granted FROM turns WHERE folder = ?", (str(folder),)).fetchone()
            if mine is not None and mine[1]:
                self._db.execute("UPDATE turns SET boot = ?, pid = ? WHERE id = ?", (self._boot, os.getpid(), mine[0]))
                self._hold(folder)
                return Granted(folder)
            cooling = self.cooling_of(agent, at)
            if cooling is not None:
                self._forget(folder)
                return cooling
            self._hold(folder)
            self._sweep(folder)
            place = self._queue(folder, at)
            live = self._count("granted = 1")
            ahead = self._count("granted = 0 AND id < ? AND seen_at >= ?", place, at - QUIET_S)
            if live + ahead >= max_turns:
                return Full(live, ahead)
            self._db.execute("UPDATE turns SET granted = 1, pid = ? WHERE id = ?", (os.getpid(), place))
            return Granted(folder)

    def release(self, folder: Path) -> None:
        """The turn is over, or is not wanted any more: its slot or its place among the waiting is free."""
        with self._transaction():
            self._forget(folder)

    def _count(self, where: str, *values: object) -> int:
        count: int = self._db.execute(f"SELECT count(*) FROM turns WHERE {where}", values).fetchone()[0]  # noqa: S608 — literals of this module
        return count

    def _queue(self, folder: Path, at: float) -> int:
        """The place of the turn among all that ever asked; its own from the first time on."""
        row = self._db.execute("SELECT id, seen_at FROM turns WHERE folder = ?", (str(folder),)).fetchone()
        if row is None:
            sql = "INSERT INTO turns (folder, boot, pid, seen_at) VALUES (?, ?, ?, ?)"
            return self._db.execute(sql, (str(folder), self._boot, os.getpid(), at)).lastrowid or 0
        if not 0 <= at - row[1] < SEEN_S:
            sql = "UPDATE turns SET seen_at = ?, pid = ?, boot = ? WHERE id = ?"
            self._db.execute(sql, (at, os.getpid(), self._boot, row[0]))
        return int(row[0])

    def _sweep(self, mine: Path) -> None:
        """Free what belongs to turns that are over and to drivers that died."""
        for text, boot in self._db.execute("SELECT folder, boot FROM turns WHERE folder != ?", (str(mine),)).fetchall():
            if boot != self._boot or _over(Path(text)):
                self._db.execute("DELETE FROM turns WHERE folder = ?", (text,))

    def _forget(self, folder: Path) -> None:
        self._db.execute("DELETE FROM turns WHERE folder = ?", (str(folder),))
        self._let_go(folder)

    def _hold(self, folder: Path) -> None:
        """Show, as long as this process lives, that somebody answers for the turn even before it has a supervisor."""
        if folder in self._held:
            return
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        fd = os.open(folder / "slot", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # The driver this run was taken from is frozen and still answers for it; the next asking tries again.
            os.close(fd)
            return
        self._held[folder] = fd

    def _let_go(self, folder: Path) -> None:
        fd = self._held.pop(folder, -1)
        if fd >= 0:
            os.close(fd)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._usable():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
            raise LedgerUnusable(f"{self._path}: {reason}") from error


def _keeps(known: Cooling, loss: Loss) -> bool:
    """Whether what is known holds against a loss that came while it cools."""
    if loss.until is None:
        return True
    return known.source != "assumed" and known.window != loss.window and known.until > loss.until


def _over(folder: Path) -> bool:
    """Whether nothing runs in a turn's folder and nobody answers for it (rulings 9 and 36)."""
    if not folder.is_dir():
        return True
    # The owner's lock is looked at last, and never while a driver may be starting a supervisor: it must not find it taken.
    ended = (folder / "exit.json").exists()
    return (ended or _free(folder / "slot")) and _free(folder / "owner")


def _free(path: Path) -> bool:
    """Whether nobody holds the lock on `path`."""
    try:
        fd = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    else:
        return True
    finally:
        os.close(fd)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _open(path: Path) -> sqlite3.Connection:
    # Two that open a fresh file at once would disturb each other while it changes to WAL.
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        db = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
        found: int = db.execute("PRAGMA user_version").fetchone()[0]
        if found > VERSION:
            db.close()
            raise UserError(
                f"{path} was written by a newer nightcrew (version {found}, known {VERSION})", "upgrade nightcrew"
            )
        if found == 0:
            db.execute("PRAGMA journal_mode=WAL")
            db.executescript(f"BEGIN;{_SCHEMA}PRAGMA user_version={VERSION};COMMIT;")
        db.execute("PRAGMA synchronous=FULL")
        return db
    finally:
        os.close(lock)

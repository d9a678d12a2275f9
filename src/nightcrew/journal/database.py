"""One connection to an SQLite file of our own: made once, aside; transactions; every failure of the disk said in one line.

It knows no run and no fact. Works with SQLite 3.40.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any

from nightcrew.errors import UserError

BUSY_S = 30.0
"""How long a writer waits for another process's transaction; those take milliseconds."""

Row = tuple[Any, ...]


class JournalUnusable(Exception):  # noqa: N818 — it names a condition of the machine, as the other facts about it do
    """Nothing can be recorded (disk full, read-only, damaged): what is running stops here and resumes later. `reason` is one line."""

    def __init__(self, reason: str) -> None:
        """Keep the line for whoever prints it."""
        super().__init__(reason)
        self.reason = reason


@contextmanager
def unusable(what: object) -> Iterator[None]:
    """Say failures of the disk or of SQLite about `what` as `JournalUnusable`."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise
    except (sqlite3.Error, OSError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise JournalUnusable(f"{what}: {reason}") from error


class Database:
    """A connection that several threads may use, one statement or transaction at a time."""

    def __init__(self, path: Path, schema: str, version: int) -> None:
        """Open `path`, made by `schema` first if it is not there. Raises `JournalUnusable`, or `UserError` for a newer version."""
        self.path = path
        self._lock = RLock()
        with unusable(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not path.exists():
                _create(path, schema, version)
            self._connection = _connect(path)
            found = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if found > version:
            self._connection.close()
            raise UserError(
                f"{path} was written by a newer nightcrew (version {found}, known {version})", "upgrade nightcrew"
            )

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def rows(self, sql: str, *values: object) -> Sequence[Row]:
        """All rows of one statement; outside `transaction` it is one of its own."""
        with self._lock, unusable(self.path):
            return self._connection.execute(sql, values).fetchall()

    def row(self, sql: str, *values: object) -> Row | None:
        """The first row, or None."""
        with self._lock, unusable(self.path):
            row: Row | None = self._connection.execute(sql, values).fetchone()
            return row

    def change(self, sql: str, *values: object) -> int:
        """Run a statement that writes; gives how many rows it touched."""
        with self._lock, unusable(self.path):
            return self._connection.execute(sql, values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on disk when the block is left: one writer at a time on this machine."""
        with self._lock, unusable(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # SQLite itself rolls back on some failures; then there is nothing left to undo.
                with suppress(sqlite3.Error):
                    self._connection.execute("ROLLBACK")
                raise

    def changed(self) -> int:
        """A number that differs from the last one whenever any process has written since; a few microseconds."""
        with self._lock, unusable(self.path):
            others: int = self._connection.execute("PRAGMA data_version").fetchone()[0]
            return others + self._connection.total_changes


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")
    return connection


def _create(path: Path, schema: str, version: int) -> None:
    """Make the file aside and rename it: whoever opens it finds nothing or all of it."""
    aside = path.with_name(f"{path.name}.new")
    lock = os.open(path.with_name(f"{path.name}.lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists():
            return
        aside.unlink(missing_ok=True)
        os.close(os.open(aside, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = _connect(aside)
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            connection.executescript(f"BEGIN;\n{schema}\nPRAGMA user_version={version};\nCOMMIT;")
        finally:
            connection.close()
        aside.rename(path)
        sync_folder(path.parent)
    finally:
        os.close(lock)


def sync_folder(folder: Path) -> None:
    """Make a rename or a new file in `folder` outlive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)

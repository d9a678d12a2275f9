"""Files of our own that processes share: SQLite databases (3.40 will do) and locks that the kernel frees. Knows no run and no fact."""

import ctypes
import fcntl
import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import RLock, get_native_id
from typing import Any

from nightcrew.errors import UserError

BUSY_S = 30.0  # how long a writer waits for another process's transaction; those take milliseconds
Row = tuple[Any, ...]


class Unusable(Exception):  # noqa: N818 — it names a condition of the machine, as the other facts about it do
    """Nothing can be recorded (disk full, read-only, damaged): what is running stops here and resumes later. Says so in one line."""


@contextmanager
def unusable(what: object) -> Iterator[None]:
    """Say failures of the disk or of SQLite about `what` as `Unusable`."""
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.ProgrammingError):
        raise  # a mistake of ours
    except (sqlite3.Error, OSError) as error:
        named, said = getattr(error, "filename", None), getattr(error, "strerror", None)
        raise Unusable(f"{named or what}: {said or error}") from error


class Database:
    """A connection that several threads may use, one statement or transaction at a time."""

    def __init__(self, path: Path, statements: Path, version: int) -> None:
        """Open `path`, made by `schema` of the `statements` (a file of SQL, `-- name:` above each). Raises `Unusable`, `UserError`: a newer one."""
        self._path, self._lock = path, RLock()
        parts = (part.partition("\n") for part in statements.read_text(encoding="utf-8").split("-- name: ")[1:])
        self.sql = {name: sql for name, _, sql in parts}
        with unusable(path):
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if not _made(path):
                _create(path, self.sql["schema"], version)
            self._connection = _connect(path)
            [(found,)] = self._connection.execute("PRAGMA user_version")
        if found > version:
            self.close()
            raise UserError(f"{path} was written by a newer nightcrew ({found}, known {version})", "upgrade nightcrew")

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()

    def rows(self, name: str, *values: object) -> list[Row]:
        """All rows of the statement of this name; outside `transaction` it is one of its own."""
        with self._lock, unusable(self._path):
            return self._connection.execute(self.sql[name], values).fetchall()

    def row(self, name: str, *values: object) -> Row | None:
        """The first row, or None."""
        return next(iter(self.rows(name, *values)), None)

    def change(self, name: str, *values: object) -> int:
        """Run a statement that writes; gives how many rows it touched."""
        with self._lock, unusable(self._path):
            return self._connection.execute(self.sql[name], values).rowcount

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing, and on disk when the block is left: one writer at a time on this machine."""
        with self._lock, unusable(self._path), self._connection:
            self._connection.execute("BEGIN IMMEDIATE")
            yield


def _made(path: Path) -> bool:
    return path.exists() and path.stat().st_size > 0


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    connection.executescript("PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON;")
    return connection


def _create(path: Path, schema: str, version: int) -> None:
    # Made aside in one file, on disk as a whole, then renamed: whoever opens it finds nothing or all of it.
    aside = path.with_name(f"{path.name}.new")
    with alone(Path(f"{path}.lock")):
        if _made(path):
            return
        for old in (*(aside.parent.glob(f"{aside.name}*")), Path(f"{path}-wal"), Path(f"{path}-shm")):
            old.unlink(missing_ok=True)
        aside.touch(0o600)
        with closing(_connect(aside)) as connection:
            # Not yet as WAL: whether that file reaches the database is not told, when the disk is full.
            connection.executescript(f"BEGIN; {schema} PRAGMA user_version={version}; COMMIT;")
            connection.execute("PRAGMA journal_mode=WAL")
        aside.rename(path)
        sync_folder(path.parent)


def put(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Have `path`, its folder made, hold `data`: whatever happens all of the old or all of the new. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{get_native_id()}.new")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def sync_folder(folder: Path, how: Callable[[int], object] = os.fsync) -> None:
    """Make a new or renamed file in `folder` outlive a power cut."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        how(fd)
    finally:
        os.close(fd)


def sync_disk(folder: Path) -> None:
    """Make all that was written to the disk of `folder` outlive a power cut."""
    sync_folder(folder, ctypes.CDLL(None).syncfs)


def locked(path: Path) -> int:
    """Lock the file at `path`, made if absent, until the descriptor given back is closed or we die; -1 while another has it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return -1
    return fd


@contextmanager
def alone(path: Path) -> Iterator[None]:
    """Hold the lock on `path`, made if absent, after whoever has it; no program started meanwhile inherits it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(path, os.O_RDWR | os.O_CREAT, 0o600), "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def held(path: Path) -> bool:
    """Whether a living process has the lock on `path`. Only a look: nothing is taken."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except (FileNotFoundError, BlockingIOError) as error:
        return isinstance(error, BlockingIOError)
    return False

"""Many runs, one line each, fast: what was said of a run is kept beside the journal and believed while no fact is newer.

Loads no core and no codec unless a run has news (decision 0014): `list` is called often.
"""

import fcntl
import os
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

from nightcrew import __version__
from nightcrew.app.home import home_of
from nightcrew.errors import UserError
from nightcrew.journal import database

WORDING = f"{__version__}/1"
"""Lines said by another version, or before the words changed, are said anew: raise the number when they do."""
ALL = -1
TABLES = 1
"""The number of the journal's tables (`journal.store.VERSION`, which is not loaded here)."""
_SCHEMA = "CREATE TABLE said (run TEXT PRIMARY KEY, seq INTEGER, wording TEXT, word TEXT, exit_code INTEGER, headline TEXT) WITHOUT ROWID;"
_ONES_TURN = frozenset({"running", "recovering", "waiting"})
"""How a run stands that somebody should be driving."""


class Row(NamedTuple):
    """A run in a list, times in seconds since the epoch. `driven` = a process works on it now; `repo` is the folder's path."""

    run: str
    short: str
    title: str
    repo: str
    created_at: float
    last_at: float
    word: str
    exit_code: int
    headline: str
    driven: bool


class _Said(NamedTuple):
    seq: int
    word: str
    exit_code: int
    headline: str


def rows(env: Mapping[str, str], limit: int) -> list[Row]:
    """The newest runs first, at most `limit` (`ALL` for all). Raises `JournalUnusable`."""
    home = home_of(env)
    if not (home / "journal.db").exists():
        return []
    statements = _statements()
    with closing(database.Database(home / "journal.db", statements["schema"], TABLES)) as journal:
        found = journal.rows(statements["recent"], limit)
        places = {place: journal.row(statements["place"], place) for place in {row[1] for row in found}}
    said = _said(home, {row[0]: row[4] for row in found})
    return [_row(home, row, said[row[0]], places) for row in found]


def _row(home: Path, row: database.Row, said: _Said, places: Mapping[str, database.Row | None]) -> Row:
    run, repo, title, created_at, _, last_at = row
    driven = said.word in _ONES_TURN and _driven(home / "runs" / run / "lease")
    place = places.get(repo)
    stopped = said.word in _ONES_TURN and not driven
    line = f"{said.headline} (stopped; nightcrew resume {run.rsplit('-', 1)[-1]})" if stopped else said.headline
    where = place[0] if place else repo
    return Row(run, run.rsplit("-", 1)[-1], title, where, created_at, last_at, said.word, said.exit_code, line, driven)


def _driven(lease: Path) -> bool:
    """Whether a living process holds the run; a lock taken for a look is given back at once."""
    try:
        fd = os.open(lease, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def _statements() -> dict[str, str]:
    """The journal's own statements, without the code that decodes facts."""
    text = Path(database.__file__).with_name("queries.sql").read_text("utf-8")
    parts = (part.partition("\n") for part in text.split("-- name: ")[1:])
    return {name.strip(): sql for name, _, sql in parts}


# ── what was said before ──────────────────────────────────────────────────────────────────────────────────────────


def _said(home: Path, newest: Mapping[str, int]) -> dict[str, _Said]:
    """What to say of each run, whose newest fact is given; what is not known yet is folded and kept."""
    known: dict[str, _Said] = {}
    with suppress(sqlite3.Error), closing(_cache(home)) as cache:
        for run, seq in newest.items():
            row = cache.execute(
                "SELECT seq, word, exit_code, headline FROM said WHERE run = ? AND seq = ? AND wording = ?",
                (run, seq, WORDING),
            ).fetchone()
            if row:
                known[run] = _Said(*row)
    fresh = _folded(home, [run for run in newest if run not in known])
    if fresh:
        _keep(home, fresh.items())
    return {**known, **fresh}


def _keep(home: Path, fresh: Iterable[tuple[str, _Said]]) -> None:
    # A cache: where it cannot be written (read-only, disk full) the next look folds again.
    with suppress(sqlite3.Error), closing(_cache(home)) as cache, cache:
        cache.executemany(
            "INSERT OR REPLACE INTO said VALUES (?, ?, ?, ?, ?, ?)",
            [(run, said.seq, WORDING, said.word, said.exit_code, said.headline) for run, said in fresh],
        )


def _cache(home: Path) -> sqlite3.Connection:
    path = home / "list.db"
    with suppress(OSError):
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    cache = sqlite3.connect(path, timeout=1.0)
    with suppress(sqlite3.OperationalError):  # it is there already
        cache.execute(_SCHEMA)
    return cache


def _folded(home: Path, runs: Sequence[str]) -> dict[str, _Said]:
    """What these runs' facts say, heavy parts loaded only now."""
    if not runs:
        return {}
    from nightcrew.app.views import conclusion, headline  # noqa: PLC0415 - most lists have no news
    from nightcrew.app.views_journal import state_of  # noqa: PLC0415 - as above
    from nightcrew.core.ids import RunId  # noqa: PLC0415 - as above
    from nightcrew.journal.store import Journal  # noqa: PLC0415 - as above

    found = {}
    with closing(Journal(home)) as journal:
        for run in runs:
            try:
                state = state_of(journal, RunId(run))
            except UserError as error:
                found[run] = _Said(0, "unreadable", 1, f"unreadable: {error.message}")
                continue
            said = conclusion(state)
            found[run] = _Said(state.seq, said.word, said.exit_code, headline(state))
    return found

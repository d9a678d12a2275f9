"""What lies in our home on a machine, for verbs that must be instant: no core and no codec is loaded (decision 0014).

Where it is, what must not be shown, the runs in one line each (by SQL alone; what a run's driver said last), our faults.
"""

import os
import time
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nightcrew import journal
from nightcrew.database import Database, Unusable, held
from nightcrew.errors import UserError
from nightcrew.redact import Redactor

# A variable of the person's environment whose name ends so holds a value to redact.
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")
ALL = -1
DRIVEN = ("running", "recovering", "waiting")  # somebody should be driving it
STOPPED = (*DRIVEN, "parked", "blocked")  # not over
# How a run may stand; every line begins with one of them.
WORDS = (*DRIVEN, "landed", "ready", "already landed", "already done", "parked", "blocked", "interrupted", "refused")


def home_of(env: Mapping[str, str]) -> Path:
    """Where everything of ours outside a repository lies: NIGHTCREW_HOME, else `nightcrew` in the person's folder for state."""
    if named := env.get("NIGHTCREW_HOME"):
        if not named.startswith("/"):
            raise UserError(f"NIGHTCREW_HOME is not an absolute path: {named}", "write it from / on")
        return Path(named)
    state = env.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path(env.get("HOME", "/")) / ".local/state") / "nightcrew"


def hide(env: Mapping[str, str], *more: str) -> Redactor:
    """Takes out of a text what must not be written or shown anywhere: values of the environment, by the names they have, and `more`."""
    return Redactor({value for name, value in env.items() if name.upper().endswith(SECRET_NAMES)}.union(more))


def zone_of(env: Mapping[str, str]) -> str:
    """The host's zone by name, for clocks that a program prints without one."""
    _, known, name = os.path.realpath("/etc/localtime").partition("zoneinfo/")
    return env.get("TZ", "").lstrip(":") or (name if known else time.tzname[0])


class Row(NamedTuple):
    """A run in a list, times in seconds since the epoch. `driven` = a process works on it now; `repo` is the folder's path."""

    run: str
    short: str
    title: str
    repo: str
    created_at: float
    last_at: float
    word: str
    headline: str
    driven: bool


def rows(env: Mapping[str, str], limit: int) -> list[Row]:
    """The newest runs first, at most `limit` (`ALL` for all). Raises `Unusable`."""
    home = home_of(env)
    if not (home / "journal.db").exists():
        return []
    statements = Path(journal.__file__).with_name("queries.sql")
    with closing(Database(home / "journal.db", statements, journal.VERSION)) as database:
        found = database.rows("recent", limit)
        places = {repo: database.row("place", repo) for repo in {row[1] for row in found}}
    made = []
    for run, repo, title, created_at, last_at, line in found:
        word, short, place = next(filter(line.startswith, WORDS), DRIVEN[0]), run.rsplit("-", 1)[-1], places[repo]
        driven = word in STOPPED and held(home / "runs" / run / "lease")
        headline = (line or word) + (f" (stopped; nightcrew resume {short})" if word in DRIVEN and not driven else "")
        made.append(Row(run, short, title, place[0] if place else repo, created_at, last_at, word, headline, driven))
    return made


def fault(error: Exception, env: Mapping[str, str]) -> tuple[str, int]:
    """What a face says and exits with: no journal, or a run taken over: 1. Anything else is our bug, its traceback kept: 70."""
    import traceback  # noqa: PLC0415 - only a failure pays for it

    from nightcrew.journal.store import Fenced  # noqa: PLC0415 - as above

    if isinstance(error, Unusable):
        return f"nothing can be recorded, so nothing goes on: {error} (mend it, then: nightcrew resume)", 1
    if isinstance(error, Fenced):
        return f"{error}; this process leaves it alone", 1
    cleaned, folder = hide(env).text, home_of(env) / "faults"
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    kept = f"its traceback is in {path}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(cleaned("".join(traceback.format_exception(error))), "utf-8")
    except OSError as why:
        kept = f"its traceback could not be kept in {folder}: {why.strerror}"
    return f"a bug of nightcrew: {cleaned(f'{type(error).__name__}: {error}'.splitlines()[0])} ({kept})", 70

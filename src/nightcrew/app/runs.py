"""Many runs, one line each, fast: SQL alone, no core and no codec (decision 0014). The line is what the run's driver said last."""

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from nightcrew import journal
from nightcrew.app.home import home_of
from nightcrew.database import Database, held, statements

ALL = -1
DRIVEN = ("running", "recovering", "waiting")  # somebody should be driving it
STOPPED = (*DRIVEN, "parked", "blocked")  # not over
# How a run may stand; every line begins with one of them.
WORDS = (*DRIVEN, "landed", "ready", "already landed", "already done", "parked", "blocked", "interrupted", "refused")


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
    """The newest runs first, at most `limit` (`ALL` for all). Raises `JournalUnusable`."""
    home = home_of(env)
    if not (home / "journal.db").exists():
        return []
    sql = statements(Path(journal.__file__).with_name("queries.sql"))
    with closing(Database(home / "journal.db", sql["schema"], journal.VERSION)) as database:
        found = database.rows(sql["recent"], limit)
        places = {repo: database.row(sql["place"], repo) for repo in {row[1] for row in found}}
    made = []
    for run, repo, title, created_at, last_at, line in found:
        word, short, place = next(filter(line.startswith, WORDS), DRIVEN[0]), run.rsplit("-", 1)[-1], places[repo]
        driven = word in DRIVEN and held(home / "runs" / run / "lease")
        stopped = f" (stopped; nightcrew resume {short})" if word in DRIVEN and not driven else ""
        headline = (line or word) + stopped
        made.append(Row(run, short, title, place[0] if place else repo, created_at, last_at, word, headline, driven))
    return made

"""The door to what is written, for those who only look: which run is meant, its facts, its files. Changes nothing."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from nightcrew.app.home import home_of
from nightcrew.core.events import Entry
from nightcrew.core.ids import EffectId, RunId
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.state import RunState
from nightcrew.errors import UserError
from nightcrew.journal.store import Journal

__all__ = ["RunId", "Seen", "effect_folder", "seen", "state_of"]


class Seen(NamedTuple):
    """A run in an open journal."""

    journal: Journal
    run: RunId

    def entries(self, after: int = 0) -> tuple[Entry, ...]:
        """Its facts after entry `after`."""
        return tuple(self.journal.entries(self.run, after))


def seen(env: Mapping[str, str], name: str = "") -> Seen:
    """The run meant by `name` (id, short name or beginning), or the newest. Raises UserError when there is none, or several."""
    home = home_of(env)
    if not (home / "journal.db").exists():
        raise UserError("there are no runs yet", 'start one: nightcrew run "…"')
    journal = Journal(home)
    if name:
        return Seen(journal, journal.find(name))
    newest = journal.recent(1)
    if not newest:
        raise UserError("there are no runs yet", 'start one: nightcrew run "…"')
    return Seen(journal, newest[0].run)


def state_of(journal: Journal, run: RunId) -> RunState:
    """The run as it stands: its newest snapshot with the later facts folded in. Raises UserError when there is no fact."""
    known = journal.snapshot_load(run, RunState)
    state = known[1] if known else None
    for entry in journal.entries(run, known[0] if known else 0):
        state = begin(entry) if state is None else reduce(state, entry)
    if state is None:
        raise UserError(f"run {run} has no beginning", "its journal is damaged")
    return state


def effect_folder(home: Path, key: EffectId) -> Path:
    """Where the raw output of a turn or of commands lies."""
    run, rest = key.split("/", 1)
    return home / "runs" / run / "effects" / rest.replace("/", "-")

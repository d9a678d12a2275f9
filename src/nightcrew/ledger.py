"""What all runs of a machine know together: which accounts cool down until when, and who has one of the machine's turns (rulings 24, 36)."""

import re
from math import inf
from pathlib import Path
from typing import NamedTuple

from nightcrew.core.roster import Agent
from nightcrew.database import Database, held
from nightcrew.redact import Redactor

# How long a loss without a known reset is assumed to last; doubles with each further one.
ASSUMED_S, ASSUMED_MAX_S = 900.0, 3600.0
QUIET_S = 90.0  # who waits and has not asked for so long (a frozen driver) holds nobody up any more; ask at least every 30 s
VERSION = 1  # of the tables


class Cooling(NamedTuple):
    """An account that is not to be asked until `until`, as somebody met at `at`; with `losses`, so many in a row, the end is assumed."""

    account: str
    until: float
    window: str
    why: str
    at: float
    losses: int = 0


def account_of(agent: Agent) -> str:
    """What cools down together: the agent's account, or the agent alone."""
    return agent.account or f"{agent.kind}:{agent.id}"


def _closed(agent: Agent, limit: str) -> str:
    """What a limit in these words closes: the agent's model on its account if it names that (`seven_day_opus`), else the account."""
    model, told = (set(re.split(r"[^a-z]+", text.lower())) for text in (agent.model, limit))
    named = {word for word in model & told if len(word) > len("gpt")} - {agent.kind}
    return f"{account_of(agent)} {agent.model}" if named else account_of(agent)


class Ledger:
    """`ledger.db` of one NIGHTCREW_HOME. Every function is one transaction and may be called from any thread."""

    def __init__(self, home: Path, redactor: Redactor | None = None) -> None:
        """Open it, made on first use. Raises `database.Unusable`, as all its functions, or `UserError` when a newer nightcrew wrote it."""
        self._redactor = redactor or Redactor()
        self._db = Database(home / "ledger.db", Path(__file__).with_suffix(".sql"), VERSION)

    def close(self) -> None:
        """Let go of the file."""
        self._db.close()

    def cool(self, agent: Agent, at: float, until: float | None = None, window: str = "", why: str = "") -> Cooling:
        """Remember that the agent said at `at` that it cannot work until `until`, and give what holds now.

        None = it did not say: 15 min are assumed, doubling to 60 with each loss in a row (rulings 24). A loss that was
        under way when the account began to cool counts once: it neither doubles nor shortens what is known.
        """
        until = until if until and until > at else None  # one that has come and changed nothing: their clock is wrong
        with self._db.transaction():
            row = self._db.row("known", closed := _closed(agent, f"{window} {why}"))
            known, losses = Cooling(*row) if row else None, 0
            if known and known.until > at:
                stated = not known.losses and known.window != window
                if until is None or (stated and known.until > until):
                    return known
            if until is None:
                losses = 1 + (known.losses if known else 0)
                until = at + min(ASSUMED_S * 2.0 ** min(losses - 1, 10), ASSUMED_MAX_S)
            self._db.change("cool", *(now := Cooling(closed, until, window, self._redactor.text(why), at, losses)))
            return now

    def warm(self, agent: Agent, began_at: float = inf) -> int:
        """The agent answered in a turn that began then, or a person says it works: what was lost before is over; how much that was."""
        return self._db.change("warm", account_of(agent), _closed(agent, agent.model), began_at)

    def cooling_of(self, agent: Agent, at: float) -> Cooling | None:
        """What keeps this agent from being asked at `at`; None = nothing."""
        row = self._db.row("cooling", account_of(agent), _closed(agent, agent.model), at)
        return Cooling(*row) if row else None

    def ask(self, agent: Agent, folder: Path, at: float, max_turns: int) -> Cooling | int:
        """What keeps the turn in `folder` (`<run>/effects/<turn>`) from one of the machine's `max_turns` slots; 0 = it has one, until it is over.

        An agent that cools gets no slot. Slots go to those who wait longest: the number is of turns that run or go first; ask again, at least every 30 s.
        A turn that has one keeps it, whoever asks and whatever cools: an adopted turn takes no second (rulings 36).
        """
        with self._db.transaction():
            self._db.change("queue", str(folder), at)
            [(place, granted)] = self._db.rows("place", str(folder))
            if granted:
                return 0
            if cooling := self.cooling_of(agent, at):
                self.release(folder)
                return cooling
            # What belongs to turns that are over and to drivers that died is free; a restart of the machine frees all locks (9, 36).
            for (text,) in self._db.rows("others", str(folder)):
                other = Path(text)
                # Who has the run's lease answers for a turn before it has a supervisor. The owner's lock is looked at last, and
                # never while a driver may be starting a supervisor: it must not find it taken.
                if ((other / "exit.json").exists() or not held(other.parents[1] / "lease")) and not held(other / "owner"):
                    self.release(other)
            [(before,)] = self._db.rows("before", place, at - QUIET_S)
            if before >= max_turns:
                return int(before)
            self._db.change("grant", place)
            return 0

    def release(self, folder: Path) -> None:
        """The turn is over, or is not wanted any more: its slot or its place among the waiting is free."""
        self._db.change("release", str(folder))

"""The loop: fold, reconcile with `wanted`, wait for the next fact. Start and resume are one path (law 5).

One process drives one run at a time (the journal's lease). Every effect's start is on disk before it runs; a handler first
looks whether its key already happened. Leaving without a word (SIGTERM, kill -9) leaves agents running, to be adopted.
"""

import asyncio
import errno
import signal
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from nightcrew.core import reducer
from nightcrew.core.effects import Ask, Effect, Timer
from nightcrew.core.events import Answer, Cancelled, EffectStarted, Entry, Event, HandlerCrashed, ParkAsked, Record
from nightcrew.core.ids import EffectId, RunId
from nightcrew.core.phases import landing
from nightcrew.core.state import RunState, line
from nightcrew.database import Unusable, unusable
from nightcrew.engine import handlers
from nightcrew.engine.tools import Ctx, Tools, folder_of
from nightcrew.journal.store import Journal, Lease

SNAPSHOT_EVERY = 200
"""Entries between two snapshots, which are a cache only."""

UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})
"""What a disk says that takes nothing more."""

OnEntry = Callable[[RunState, Entry], None]


class StuckError(RuntimeError):
    """Nothing is wanted, nothing runs, nobody is asked, and the run is not over: a bug of ours."""


class Flight(NamedTuple):
    """An effect in the air: its handler's task, and whether it is being cancelled."""

    effect: Effect
    task: asyncio.Task[None]
    stopping: bool = False


class Driver:
    """Drives one run until it is over, held by a person's decision, parked, or told to leave."""

    def __init__(self, tools: Tools, run: RunId, lease: Lease, on_entry: OnEntry | None = None) -> None:
        """Take the run's state from its journal; nothing is started yet."""
        self._tools = tools
        self._run = run
        self._lease = lease
        self._on_entry = on_entry
        self._flights: dict[EffectId, Flight] = {}
        self._facts: asyncio.Queue[Event | Unusable] = asyncio.Queue()
        self._kept = 0
        self.state = load(tools, run)

    async def drive(self, *, wait: bool = True) -> RunState:
        """Go on until the run is over or nothing can go on without a person; with `wait` False, also when only time is waited for."""
        bell = self._tools.journal.listen(self._run)
        loop = asyncio.get_running_loop()
        rung = asyncio.Event()
        loop.add_reader(bell.fileno(), rung.set)
        try:
            while True:
                bell.hush()
                rung.clear()
                self._hear()
                self._reconcile()
                if self._rests(wait=wait):
                    return self.state
                await self._next(rung)
        finally:
            loop.remove_reader(bell.fileno())
            bell.close()
            await self._let_go()
            self._tools.turnstile.leave()

    def say(self, word: Event) -> None:
        """Leave a word for this run, as any other process would."""
        self._tools.journal.say(self._run, self._tools.clock.now(), word)

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _append(self, event: Event, *, takes: tuple[int, ...] = ()) -> None:
        """Write one fact and fold it; nobody is told before it is on disk."""
        at, seq = self._tools.clock.now(), self.state.seq
        after = reducer.reduce(self.state, Entry(seq + 1, at, event))  # first: what cannot be folded is not written
        line = self._said(after)
        for entry in self._tools.journal.append(self._lease, seq, at, event, takes=takes, line=line):
            self.state = reducer.reduce(self.state, entry)
            if self._on_entry is not None:
                self._on_entry(self.state, entry)
        if not landing.queues(self.state):
            self._tools.turnstile.leave()
        if self.state.seq - self._kept >= SNAPSHOT_EVERY:
            self._keep()

    def _said(self, state: RunState) -> str:
        with suppress(Exception):  # a cache of a view: a run does not end because it cannot be told
            return self._tools.headline(state)
        return ""

    def _keep(self) -> None:
        with suppress(Exception):  # a cache: what cannot be kept is folded again
            self._tools.journal.snapshot_save(self._lease, self.state.seq, self.state)
            self._kept = self.state.seq

    def _hear(self) -> None:
        for word in self._tools.journal.words(self._run):
            self._append(word.event, takes=(word.id,))

    async def _next(self, rung: asyncio.Event) -> None:
        """Wait for a fact from a handler or for a person's word, and write the facts down."""
        fact, ring = asyncio.ensure_future(self._facts.get()), asyncio.ensure_future(rung.wait())
        try:
            await asyncio.wait((fact, ring), return_when=asyncio.FIRST_COMPLETED)
        finally:
            ring.cancel()
            if not fact.done():
                fact.cancel()
        if fact.done() and not fact.cancelled():
            told = fact.result()
            if isinstance(told, Unusable):
                raise told
            self._append(told)
            self._reap()

    def _reap(self) -> None:
        """Forget the handlers of keys that are closed."""
        for key in [key for key, flight in self._flights.items() if flight.task.done() and key not in self.state.open]:
            del self._flights[key]

    # ── what should be in flight ──────────────────────────────────────────────────────────────────────────────────

    def _reconcile(self) -> None:
        """Write the decisions that are due, start what is wanted, cancel what is not (law 3)."""
        while True:
            want = reducer.wanted(self.state)
            record = next((w for w in want if isinstance(w, Record)), None)
            if record is not None:
                self._append(record.event)
                continue
            fresh = next((w for w in want if isinstance(w, Effect) and w.key not in self.state.open), None)
            if fresh is None:
                break
            self._append(EffectStarted(key=fresh.key, effect=fresh))
        self._launch({w.key for w in want if isinstance(w, Effect)})

    def _launch(self, wanted: set[EffectId]) -> None:
        for key, opened in self.state.open.items():
            flight = self._flights.get(key)
            if key in wanted and flight is None:
                self._flights[key] = Flight(opened.effect, asyncio.ensure_future(self._carry_out(opened.effect)))
            elif key not in wanted and (flight is None or not flight.stopping):
                before = flight.task if flight else None
                self._flights[key] = Flight(
                    opened.effect, asyncio.ensure_future(self._cancel(opened.effect, before)), stopping=True
                )

    async def _carry_out(self, effect: Effect) -> None:
        try:
            fact: Event | Unusable = await handlers.run(effect, self._ctx(effect))
        except Exception as error:  # noqa: BLE001 — the one boundary of the engine: our bug becomes a fact (rulings 7)
            fact = self._crashed(effect, error)
        self._facts.put_nowait(fact)

    async def _cancel(self, effect: Effect, task: asyncio.Task[None] | None) -> None:
        """Stop, wait until nothing is left, rescue; then the key is closed (rulings 6)."""
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
        try:
            rescued = await handlers.stop(effect, self._ctx(effect))
        except Exception as error:  # noqa: BLE001 — the one boundary of the engine
            self._facts.put_nowait(self._crashed(effect, error))
            return
        self._facts.put_nowait(Cancelled(key=effect.key, rescued=rescued))

    def _crashed(self, effect: Effect, error: Exception) -> HandlerCrashed | Unusable:
        """Our own bug as a fact; but where nothing can be written any more, that, and the loop ends on it."""
        text = "".join(traceback.format_exception(error))
        try:
            with unusable(self._tools.home):
                if isinstance(error, Unusable) or (isinstance(error, OSError) and error.errno in UNWRITABLE):
                    raise error
                kept = self._tools.blobs.put(text.encode())
        except Unusable as broken:
            return broken
        return HandlerCrashed(key=effect.key, reason=line(f"{type(error).__name__}: {error}"), traceback=kept)

    def _ctx(self, effect: Effect) -> Ctx:
        opened = self.state.open[effect.key]
        return Ctx(
            tools=self._tools,
            run=self._run,
            at=opened.at,
            begun=opened.begun,
            folder=folder_of(self._tools, effect),
            tell=self._tell,
            state=lambda: self.state,
        )

    def _tell(self, fact: Answer) -> None:
        self._facts.put_nowait(fact)  # type: ignore[arg-type]  # every Answer is an Event

    # ── when to stop ──────────────────────────────────────────────────────────────────────────────────────────────

    def _rests(self, *, wait: bool) -> bool:
        """Whether there is nothing to do here until somebody says a word."""
        state = self.state
        if not self._facts.empty():
            return False
        if state.done:
            return True
        if reducer.blocked(state) is not None:
            return (
                all(flight.task.done() or isinstance(flight.effect, Ask) for flight in self._flights.values())
                and self._asked()
            )
        if state.parked:
            return not state.open
        if not wait and state.open and all(isinstance(o.effect, Timer | Ask) for o in state.open.values()):
            return self._asked()
        if not state.open:
            raise StuckError(f"run {self._run} is stuck in {state.phase} at entry {state.seq}")
        return False

    def _asked(self) -> bool:
        """Whether every open question was put to its person already."""
        return all(o.begun for o in self.state.open.values() if isinstance(o.effect, Ask))

    async def _let_go(self) -> None:
        """Drop the handlers without stopping what they wait for: it is adopted next time."""
        tasks = [flight.task for flight in self._flights.values() if not flight.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._flights.clear()


class Left(NamedTuple):
    """How a driver came to rest: the run as it stands, and the signal that ended it (0 = none)."""

    state: RunState
    signal: int


def drive(tools: Tools, run: RunId, lease: Lease, on_entry: OnEntry | None = None, *, wait: bool = True) -> Left:
    """Drive a run until it rests. SIGINT parks, a second stops now; SIGTERM and SIGHUP leave, agents run on (decision 0011)."""
    return asyncio.run(_drive(Driver(tools, run, lease, on_entry), wait=wait))


async def _drive(driver: Driver, *, wait: bool) -> Left:
    loop = asyncio.get_running_loop()
    got: list[int] = []
    driving = asyncio.ensure_future(driver.drive(wait=wait))

    def interrupted() -> None:
        got.append(signal.SIGINT)
        driver.say(ParkAsked(now=len(got) > 1))

    def told_to_leave(number: int) -> None:
        got.append(number)
        driving.cancel()

    loop.add_signal_handler(signal.SIGINT, interrupted)
    for number in (signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told_to_leave, number)
    try:
        state = await driving
    except asyncio.CancelledError:
        state = driver.state
    return Left(state, got[-1] if got else 0)


def load(tools: Tools, run: RunId) -> RunState:
    """The run's state as its journal tells it."""
    return folded(tools.journal, run)


def folded(journal: Journal, run: RunId) -> RunState:
    """A run's state: its newest snapshot with the later facts folded in; the whole journal where there is none."""
    known = journal.snapshot_load(run, RunState)
    state = known[1] if known else None
    for entry in journal.entries(run, known[0] if known else 0):
        state = reducer.begin(entry) if state is None else reducer.reduce(state, entry)
    if state is None:
        raise LookupError(f"run {run} has no first fact")
    return state

"""The loop: fold, reconcile with `wanted`, wait for the next fact. Start and resume are one path (law 5); one process drives one run."""

import asyncio
import errno
import os
import signal
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from nightcrew.core import events as ev, reducer
from nightcrew.core.effects import Ask, Effect, Land, Timer
from nightcrew.core.ids import EffectId, RunId
from nightcrew.core.phases import landing
from nightcrew.core.recovery import LAST_LEVEL
from nightcrew.core.state import Opened, RunState, line
from nightcrew.database import Unusable, unusable
from nightcrew.engine import handlers, waits
from nightcrew.engine.tools import Ctx, Tools, off
from nightcrew.errors import UserError
from nightcrew.journal.store import Journal, Lease, effect_folder
from nightcrew.proc.call import end_all, leave

SNAPSHOT_EVERY = 200  # entries between two snapshots, which are a cache only
UNWRITABLE = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS})  # what a disk says that takes nothing more
PRINTED = "driver.log"  # in a run's folder: what a driver without a terminal prints
PATIENCE_S = 1.0  # for a program of ours (git) that still runs when we leave to end by itself, and once it is told to

OnEntry = Callable[[RunState, ev.Entry], None]
Enough = Callable[[RunState], bool]


class Flight(NamedTuple):
    """An effect in the air: its handler's task, and whether it is being cancelled."""

    effect: Effect
    task: asyncio.Task[None]
    stopping: bool = False


class Driver:
    """Drives one run until it is over, held by a person's decision, parked, or told to leave."""

    def __init__(
        self, tools: Tools, run: RunId, lease: Lease, on_entry: OnEntry | None = None, enough: Enough = lambda _: False
    ) -> None:
        """Take the run's state from its journal; nothing is started yet. Once a state is `enough`, nothing is any more."""
        self._tools, self._run, self._lease, self._on_entry, self._enough = tools, run, lease, on_entry, enough
        self._flights: dict[EffectId, Flight] = {}
        self._facts: asyncio.Queue[ev.Event | Unusable | None] = asyncio.Queue()  # None: somebody rang
        self._kept = 0
        self.state = folded(tools.journal, run)

    async def drive(self, *, wait: bool = True) -> RunState:
        """Go on until the run is over or nothing can go on without a person; with `wait` False, also when only time is waited for."""
        bell, loop = self._tools.journal.listen(self._run), asyncio.get_running_loop()

        def rung() -> None:
            bell.hush()
            self._facts.put_nowait(None)

        loop.add_reader(bell.fileno(), rung)
        try:
            stuck = False  # what was said before we came leaves us one try
            while True:
                for number, word in self._tools.journal.words(self._run):
                    self._append(word, takes=(number,))
                    if stuck and isinstance(word, ev.CancelAsked | ev.ParkAsked):  # who asks again will not wait (rulings 31)
                        return self.state
                stuck = self.state.marker is not None and self.state.marker.failures > 0
                if self._enough(self.state):
                    return self.state
                await self._reconcile()
                if self._rests(wait=wait):
                    return self.state
                fact = await self._facts.get()
                if isinstance(fact, Unusable):
                    raise fact
                if fact is not None:
                    self._append(fact)
                for key in [key for key, flight in self._flights.items() if flight.task.done() and key not in self.state.open]:
                    del self._flights[key]
        finally:
            loop.remove_reader(bell.fileno())
            bell.close()
            await self._let_go()

    def say(self, word: ev.Event) -> None:
        """Leave a word for this run, as any other process would."""
        self._tools.journal.say(self._run, self._tools.clock.now(), word)

    def _append(self, event: ev.Event, *, takes: tuple[int, ...] = ()) -> None:
        """Write one fact and fold it; nobody is told before it is on disk."""
        at, seq = self._tools.clock.now(), self.state.seq
        after = reducer.reduce(self.state, ev.Entry(seq + 1, at, event))  # first: what cannot be folded is not written
        told = ""
        with suppress(Exception):  # a cache of a view: a run does not end because it cannot be told
            told = self._tools.headline(after)
        for entry in self._tools.journal.append(self._lease, seq, at, event, takes=takes, line=told):
            self.state = reducer.reduce(self.state, entry)
            if self._on_entry is not None:
                self._on_entry(self.state, entry)
        if not landing.queues(self.state) and not any(isinstance(o.effect, Land) for o in self.state.open.values()):
            self._tools.turnstile.leave()
        if self.state.seq - self._kept >= SNAPSHOT_EVERY:
            with suppress(Exception):  # a cache: what cannot be kept is folded again
                self._tools.journal.snapshot_save(self._lease, self.state.seq, self.state)
                self._kept = self.state.seq

    async def _reconcile(self) -> None:
        """Write the decisions that are due, start what is wanted, cancel what is not (law 3)."""
        while True:
            want = reducer.wanted(self.state)
            due = next((w.event for w in want if isinstance(w, ev.Record)), None)
            fresh = next((w for w in want if not isinstance(w, ev.Record) and w.key not in self.state.open), None)
            if due is not None:
                # Before it is a fact: a death loses neither.
                if isinstance(due, ev.RecoveryEscalated) and due.to_level == LAST_LEVEL:
                    await off(waits.tell, self._tools, self.state, f"stuck: {due.reason}")
                self._append(due)
            elif fresh is not None:
                self._append(ev.EffectStarted(key=fresh.key, effect=fresh))
            else:
                break
        wanted = {w.key for w in want if isinstance(w, Effect)}
        for key, opened in self.state.open.items():
            flight = self._flights.get(key)
            if key in wanted and flight is None:
                self._fly(opened, handlers.run, stopping=False)
            elif key not in wanted and not (flight and flight.stopping):
                self._fly(opened, partial(_cancel, flight.task if flight else None), stopping=True)

    def _fly(self, opened: Opened, work: Callable[[Effect, Ctx], Awaitable[ev.Event]], *, stopping: bool) -> None:
        effect, folder, tell = opened.effect, effect_folder(self._tools.home, opened.effect.key), self._facts.put_nowait
        ctx = Ctx(self._tools, self._run, opened.at, opened.begun, folder, tell, lambda: self.state, self._lease)
        self._flights[effect.key] = Flight(effect, asyncio.ensure_future(self._guarded(effect, work, ctx)), stopping)

    async def _guarded(self, effect: Effect, work: Callable[[Effect, Ctx], Awaitable[ev.Event]], ctx: Ctx) -> None:
        try:
            self._tools.present()
            fact: ev.Event | Unusable = await work(effect, ctx)
            self._tools.present()  # without the repository an answer says nothing about the work
        except Exception as error:  # noqa: BLE001 — the one boundary of the engine: our bug becomes a fact (rulings 7)
            fact = self._crashed(effect, error)
        self._facts.put_nowait(fact)

    def _crashed(self, effect: Effect, error: Exception) -> ev.HandlerCrashed | Unusable:
        """Our own bug as a fact; but where nothing can be written or read any more, that, and the loop ends on it."""
        text = "".join(traceback.format_exception(error))
        try:
            self._tools.present()
            with unusable(self._tools.home):
                if isinstance(error, Unusable) or (isinstance(error, OSError) and error.errno in UNWRITABLE):
                    raise error
                kept = self._tools.blobs.put(text.encode())
        except Unusable as broken:
            return broken
        return ev.HandlerCrashed(key=effect.key, reason=line(f"{type(error).__name__}: {error}"), traceback=kept)

    def _rests(self, *, wait: bool) -> bool:
        state, opened = self.state, [o.effect for o in self.state.open.values()]
        asked = all(o.begun for o in state.open.values() if isinstance(o.effect, Ask))  # each open question was put
        if not self._facts.empty():
            return False
        if state.done:
            return True
        if reducer.blocked(state) is not None:
            return asked and all(f.task.done() or isinstance(f.effect, Ask) for f in self._flights.values())
        if state.parked:
            return not opened
        if not opened:
            raise RuntimeError(f"run {self._run} is stuck in {state.phase} at entry {state.seq}")
        return asked and not wait and all(isinstance(effect, Timer | Ask) for effect in opened)

    async def _let_go(self) -> None:
        """Drop the handlers without stopping what they wait for: it is adopted next time."""
        tasks = [flight.task for flight in self._flights.values() if not flight.task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _cancel(before: asyncio.Task[None] | None, effect: Effect, ctx: Ctx) -> ev.Event:
    """Stop, wait until nothing is left, rescue; then the key is closed (rulings 6)."""
    if before is not None:
        before.cancel()
        with suppress(asyncio.CancelledError):
            await before
    return ev.Cancelled(key=effect.key, rescued=await handlers.stop(effect, ctx))


class Left(NamedTuple):
    """How a driver came to rest: the run as it stands, and the signal that ended it (0 = none)."""

    state: RunState
    signal: int


def drive(driver: Driver, *, wait: bool = True) -> Left:
    """Drive a run until it rests. SIGINT parks, a second stops now; SIGTERM and SIGHUP leave, agents run on (decision 0011)."""
    return asyncio.run(_drive(driver, wait=wait))


def drive_apart(journal: Journal, run: RunId, env: Mapping[str, str]) -> tuple[int, int]:
    """Have a process of its own drive a run, whatever becomes of us and our terminal: its pid, or 0 and the code with which it left at once."""
    pid = leave((sys.executable, "-P", "-m", "nightcrew", "resume", run), env=env, output=journal.folder(run) / PRINTED)
    while journal.holder(run) != pid:
        if (ended := os.waitpid(pid, os.WNOHANG))[0]:
            return 0, os.waitstatus_to_exitcode(ended[1])
        time.sleep(0.02)
    return pid, 0


async def _drive(driver: Driver, *, wait: bool) -> Left:
    loop = asyncio.get_running_loop()
    got: list[int] = []
    driving = asyncio.ensure_future(driver.drive(wait=wait))

    def told(number: int) -> None:
        got.append(number)
        if number == signal.SIGINT:
            driver.say(ev.ParkAsked(now=len(got) > 1))
        else:
            driving.cancel()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, told, number)
    try:
        with suppress(asyncio.CancelledError):
            await driving
    finally:
        # Threads that handlers left behind are waited for; a program that one of them waits for for long is ended.
        still = asyncio.ensure_future(loop.shutdown_default_executor())
        while not (await asyncio.wait({still}, timeout=PATIENCE_S))[0]:
            end_all()
    return Left(driver.state, got[-1] if got else 0)


def folded(journal: Journal, run: RunId) -> RunState:
    """A run's state: its newest snapshot with the later facts folded in; the whole journal where there is none."""
    known = journal.snapshot_load(run, RunState)
    state = known[1] if known else None
    for entry in journal.entries(run, known[0] if known else 0):
        state = reducer.begin(entry) if state is None else reducer.reduce(state, entry)
    if state is None:
        raise UserError(f"run {run} has no beginning", "its journal is damaged")
    return state

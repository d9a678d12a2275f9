"""A gate that can never pass, a thousand times over: the real engine and journal on a simulated world whose clock jumps over every pause."""

import asyncio
import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from nightcrew.core import recovery
from nightcrew.core.effects import CollectWork, Effect, ResetWorkspace, StartTurn
from nightcrew.core.events import (
    CompletionMarkerEmitted,
    DevFixCompleted,
    EffectBegun,
    EffectStarted,
    Entry,
    Event,
    RecoveryAttempted,
)
from nightcrew.core.settings import Limit, Limits, Pipeline
from nightcrew.core.state import Opened, RunState
from nightcrew.core.work import PipelinePhase, Purpose
from nightcrew.engine import local
from nightcrew.engine.tools import Clock, Ctx
from support import repos
from support.rooms import opened
from support.world import RUN, World, story

ATTEMPTS = 1_000
LIFTED = Limits(usd=Limit(None), turns=Limit(None), wall=Limit(None))
Work = Callable[[Effect, Ctx], Awaitable[Event]]


MEMORY = Path("/dev/shm")  # noqa: S108 - where a machine has it


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """In memory where that is possible: these are stories of tens of thousands of facts, and none of a disk."""
    if not os.access(MEMORY, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=MEMORY) as place:
        yield Path(place)


class Enough(Exception):  # noqa: N818 - what happened, not a mistake
    """The run was alive for as many attempts as the test wants to see."""


class Simulated(local.Driver):
    """The engine's loop with a world in place of its handlers; time passes in timers alone."""

    world: World
    mends: bool

    def _fly(self, opened: Opened, work: Work, *, stopping: bool) -> None:
        super()._fly(opened, work if stopping else self._answered, stopping=stopping)

    async def _answered(self, effect: Effect, ctx: Ctx) -> Event:
        if isinstance(effect, StartTurn):
            ctx.tell(EffectBegun(key=effect.key))
        if isinstance(effect, CollectWork) and effect.node == "dev-fix" and not self.mends:
            self.world.edited.discard(effect.slot)  # it finds nothing to mend
        return self.world.answer(effect)


def lives(folder: Path, *, mends: bool = False) -> tuple[list[Entry], dict[int, RunState]]:
    """The entries of a thousand attempts, and the state right after every hundredth. `mends` = each dev-fix changes something."""
    world, entries, states = World(red={Purpose.Gate: lambda _tree: 1}), list[Entry](), dict[int, RunState]()
    first = story(roster="alpha", limits=LIFTED, pipeline=Pipeline(plan=False, reviewers=0, gate_fix_rounds=0), land="local")
    tools = opened(folder / "home", repos.make_repo(folder / "repo"), Clock(lambda: world.at, lambda: world.at))
    tools.journal.create(RUN, "repo", "Do it", world.at, first)

    def seen(state: RunState, entry: Entry) -> None:
        entries.append(entry)
        if isinstance(entry.event, RecoveryAttempted) and entry.event.attempt_count % 100 == 0:
            states[entry.event.attempt_count] = state
            if entry.event.attempt_count >= ATTEMPTS:
                raise Enough

    lease = tools.journal.acquire(RUN)
    driver = Simulated(tools, RUN, lease, seen)
    driver.world, driver.mends = world, mends
    with pytest.raises(Enough):
        asyncio.run(driver.drive())
    lease.release()
    return entries, states


def size(state: RunState) -> int:
    """Bytes of the encoded state."""
    return len(msgspec.json.encode(state))


def per_attempt(entries: list[Entry]) -> list[Counter[str]]:
    """The facts between two recoveries, by name; the first is what came before the first."""
    counted = [Counter[str]()]
    for entry in entries:
        counted[-1][type(entry.event).__name__] += 1
        if isinstance(entry.event, RecoveryAttempted):
            counted.append(Counter())
    return counted


def test_a_gate_that_never_passes(folder: Path) -> None:
    """R06, R25: alive after 1,000 attempts; state and work of an attempt as at the beginning, and no waits but the documented pauses."""
    entries, states = lives(folder)

    last = states[ATTEMPTS]
    assert [e for e in entries if isinstance(e.event, CompletionMarkerEmitted)] == []
    assert (last.trouble and last.trouble.level, last.questions) == (4, {})
    assert last.phase is PipelinePhase.Development

    digits = 200  # counts and times get longer by a digit here and there
    assert max(size(s) for s in states.values()) < size(states[100]) + digits
    assert max(len(s.open) + len(s.calls) for s in states.values()) <= 1

    work = per_attempt(entries)
    assert work[900:1000] == work[100:200]
    nodes = Counter(e.event.effect.node for e in entries if isinstance(e.event, EffectStarted))
    assert nodes["recovery"] == ATTEMPTS - recovery.FREE_ATTEMPTS
    turns = {node: nodes[node] // 2 for node in ("gate-fix", "implement", "dev-fix")}  # each with its collection
    assert turns == {"gate-fix": 3, "implement": ATTEMPTS - 6, "dev-fix": ATTEMPTS}

    waited = pauses(entries)
    assert waited[:3] == [0.0, 0.0, 0.0]
    assert all(0.8 * full <= span <= full for span, full in zip(waited[3:], documented(), strict=False))


def test_a_thousand_repairs_that_do_not_help(folder: Path) -> None:
    """R06, rulings 27: every dev-fix changes something and none helps: all are on top of each reset, and the state stays as small as it was."""
    entries, states = lives(folder, mends=True)

    digits = 200
    assert max(size(s) for s in states.values()) < size(states[100]) + digits
    resets = [
        e.event.effect for e in entries if isinstance(e.event, EffectStarted) and isinstance(e.event.effect, ResetWorkspace)
    ]
    assert max(len(reset.repairs) for reset in resets) <= 10
    assert all(len(reset.repairs) == 2 for reset in resets[-900:])


def pauses(entries: list[Entry]) -> list[float]:
    """Seconds between the end of each dev-fix and the recovery that follows; nothing else takes time."""
    ended = [e.at for e in entries if isinstance(e.event, DevFixCompleted)]
    back = [e.at for e in entries if isinstance(e.event, RecoveryAttempted)]
    spans = [b - a for a, b in zip(ended, back, strict=True)]
    begun = [e.at for e in entries if isinstance(e.event, EffectBegun)]
    assert begun[-1] - begun[0] == pytest.approx(sum(spans[:-1]))
    return spans


def documented() -> list[float]:
    """The longest that each pause may be, from the fourth attempt on: 30 s, doubling to 15 minutes."""
    return [min(900.0, 30.0 * 2**n) for n in range(ATTEMPTS)]

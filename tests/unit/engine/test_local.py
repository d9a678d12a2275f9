"""What the loop holds and lets go of."""

import asyncio
import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightcrew.core.effects import Land
from nightcrew.core.events import EffectBegun, HandlerCrashed, Landed, ParkAsked
from nightcrew.core.work import Landing
from nightcrew.database import Unusable, locked
from nightcrew.engine import local
from nightcrew.engine.tools import Clock
from support import repos
from support.rooms import opened
from support.world import RUN, Sim, story


def free(path: Path) -> bool:
    """Whether nobody has the lock."""
    held = locked(path)
    if held >= 0:
        os.close(held)
    return held >= 0


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[local.Driver]:
    """Of a run that is about to land."""
    tools = opened(tmp_path / "home", repos.make_repo(tmp_path / "repo"))
    sim = Sim(story(roster="alpha", land="local")).run(lambda sim: any(isinstance(effect, Land) for effect in sim.open()))
    first, *later = sim.entries
    tools.journal.create(RUN, "repo", "Do it", first.at, first.event)
    lease = tools.journal.acquire(RUN)
    tools.journal.append(lease, 1, first.at, *(entry.event for entry in later))
    yield local.Driver(tools, RUN, lease)
    lease.release()
    tools.journal.close()
    tools.ledger.close()


def landing(driver: local.Driver) -> Land:
    """What it does."""
    [land] = [opened.effect for opened in driver.state.open.values() if isinstance(opened.effect, Land)]
    return land


def test_a_target_is_held_until_the_landing_is_over(driver: local.Driver, tmp_path: Path) -> None:
    """A run that is parked while it lands lets the next one in after the answer and not before (law 6, decision 0030)."""
    land = landing(driver)
    asyncio.run(driver._tools.turnstile.enter(Clock()))
    for event in (EffectBegun(key=land.key), ParkAsked()):
        driver._append(event)
        assert not free(tmp_path / "home/queue")
    driver._append(Landed(key=land.key, landing=Landing(land.mode, "main", land.commit, land.tip)))
    assert free(tmp_path / "home/queue")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_takes_nothing_is_no_fault_of_ours(driver: local.Driver, number: int) -> None:
    """A step that finds the disk full ends the driving, and is no fact, even where the journal still had room for one."""
    assert isinstance(driver._crashed(landing(driver), OSError(number, os.strerror(number))), Unusable)
    assert isinstance(driver._crashed(landing(driver), OSError(errno.EISDIR, "a mistake")), HandlerCrashed)

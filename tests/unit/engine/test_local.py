"""What the loop holds and lets go of."""

import asyncio
import os
from pathlib import Path

from nightcrew.core.effects import Land
from nightcrew.core.events import EffectBegun, Landed, ParkAsked
from nightcrew.core.work import Landing
from nightcrew.database import locked
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


def test_a_target_is_held_until_the_landing_is_over(tmp_path: Path) -> None:
    """A run that is parked while it lands lets the next one in after the answer and not before (law 6, decision 0030)."""
    tools = opened(tmp_path / "home", repos.make_repo(tmp_path / "repo"))
    sim = Sim(story(roster="alpha", land="local")).run(lambda sim: any(isinstance(effect, Land) for effect in sim.open()))
    first, *later = sim.entries
    tools.journal.create(RUN, "repo", "Do it", first.at, first.event)
    lease = tools.journal.acquire(RUN)
    tools.journal.append(lease, 1, first.at, *(entry.event for entry in later))
    driver = local.Driver(tools, RUN, lease)
    [land] = [opened.effect for opened in driver.state.open.values() if isinstance(opened.effect, Land)]
    asyncio.run(tools.turnstile.enter(Clock()))
    for event in (EffectBegun(key=land.key), ParkAsked()):
        driver._append(event)
        assert not free(tmp_path / "home/queue")
    driver._append(Landed(key=land.key, landing=Landing(land.mode, "main", land.commit, land.tip)))
    assert free(tmp_path / "home/queue")
    lease.release()
    tools.journal.close()
    tools.ledger.close()

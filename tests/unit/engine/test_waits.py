"""Waiting: a pause takes its time, whatever happens to the wall clock meanwhile."""

import asyncio
from contextlib import ExitStack
from pathlib import Path

import pytest

from nightcrew.core.effects import Timer
from nightcrew.core.events import Entry, TimerFired
from nightcrew.core.ids import EffectId, SeatKey
from nightcrew.core.reducer import begin
from nightcrew.engine import waits
from nightcrew.engine.tools import Clock, Ctx
from nightcrew.journal.store import Lease
from support import repos
from support.rooms import opened
from support.world import RUN, story

BEGAN_AT, SPAN_S = 1_000_000.0, 600.0


class Jumpy:
    """A wall clock that is set anew during the first sleep; what has really passed is not."""

    def __init__(self, jump_s: float) -> None:
        """Set by so much."""
        self.wall, self.passed, self.jump_s = BEGAN_AT, 0.0, jump_s

    async def sleep(self, span_s: float) -> None:
        """Let so much time pass."""
        self.wall, self.passed, self.jump_s = self.wall + span_s + self.jump_s, self.passed + span_s, 0.0


@pytest.mark.parametrize(("jump_s", "took_s"), [(0.0, SPAN_S), (-7200.0, SPAN_S), (7200.0, waits.TICK_S)])
def test_a_clock_that_is_set_during_a_pause(tmp_path: Path, jump_s: float, took_s: float) -> None:
    """Set back, a pause takes its span and not an hour more; set forward beyond its end, it is over at the next look (rulings 10)."""
    told = Jumpy(jump_s)
    clock = Clock(lambda: told.wall, lambda: told.passed, told.sleep)
    tools = opened(tmp_path / "home", repos.make_repo(tmp_path / "repo"), clock)
    state = begin(Entry(1, BEGAN_AT, story(roster="alpha")))
    key, end_at = EffectId(f"{RUN}/Timer/recovery//0"), BEGAN_AT + SPAN_S
    pause = Timer(key=key, node="recovery", seat=SeatKey(""), fire_at=end_at, span_s=SPAN_S, why="a pause")
    lease = Lease(RUN, 1, ExitStack())
    ctx = Ctx(tools, RUN, BEGAN_AT, begun=False, folder=tmp_path, tell=lambda _event: None, state=lambda: state, lease=lease)

    fired = asyncio.run(waits.wait(pause, ctx))

    assert isinstance(fired, TimerFired)
    assert told.passed == pytest.approx(took_s)

"""The time an engine lives by: the wall's for facts, and a span that also counts while the machine sleeps."""

import asyncio
import time
from typing import Protocol

TICK_S = 30.0
"""How long a wait goes on without a look at the wall clock (rulings 10)."""


class Clock(Protocol):
    """A constructor argument of the engine, so that a test can press time together (rulings 38)."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def elapsed(self) -> float:
        """Seconds from some fixed moment, suspended time included; never set back."""
        ...

    async def sleep(self, span_s: float) -> None:
        """Wait that long."""
        ...


class WallClock:
    """The machine's own."""

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time()

    def elapsed(self) -> float:
        """Seconds since the machine was started."""
        return time.clock_gettime(time.CLOCK_BOOTTIME)

    async def sleep(self, span_s: float) -> None:
        """Wait that long."""
        await asyncio.sleep(span_s)

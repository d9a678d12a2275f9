"""What a run may spend, and whether it has (decision 0024)."""

from msgspec import Struct, structs


class Limit(Struct, frozen=True):
    """One bound. `value` None = lifted. `mine` = set by the operator, otherwise a default that asks before it ends a run."""

    value: float | None
    mine: bool = False


class Limits(Struct, frozen=True, kw_only=True):
    """The safety valves of a run: money in US dollars, tokens, turns, and busy seconds; and the bounds of one turn in seconds."""

    usd: Limit = Limit(25.0)
    tokens: Limit = Limit(None)
    turns: Limit = Limit(200)
    wall: Limit = Limit(12 * 3600.0)
    turn_s: float = 3600.0
    first_output_s: float = 900.0
    idle_s: float = 1800.0


VALVES = ("usd", "tokens", "turns", "wall")


class Spend(Struct, frozen=True, kw_only=True):
    """What a run has used. `unpriced` counts turns whose money is unknown: unknown is not zero."""

    usd: float = 0.0
    tokens: int = 0
    turns: int = 0
    wall_s: float = 0.0
    unpriced: int = 0

    def used(self, valve: str) -> float:
        """The amount spent against that valve, in its own unit."""
        return float(self.wall_s if valve == "wall" else getattr(self, valve))


class Reached(Struct, frozen=True):
    """A limit that binds: which, its value, and whether the operator set it."""

    valve: str
    value: float
    mine: bool


def exceeded(limits: Limits, spend: Spend) -> Reached | None:
    """The first limit that forbids a further turn, the operator's own before defaults."""
    found = []
    for valve in VALVES:
        limit: Limit = getattr(limits, valve)
        if limit.value is not None and spend.used(valve) >= limit.value:
            found.append(Reached(valve, limit.value, limit.mine))
    return min(found, key=lambda r: not r.mine, default=None)


def raised(limits: Limits, valve: str, by: float) -> Limits:
    """The same limits with `valve` raised by `by`, now the operator's decision but still asking when reached again."""
    limit: Limit = getattr(limits, valve)
    value = None if limit.value is None else limit.value + by
    return structs.replace(limits, **{valve: Limit(value, limit.mine)})

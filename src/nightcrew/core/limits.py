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


def exceeded(limits: Limits, spend: Spend) -> tuple[str, float, bool] | None:
    """The first limit that forbids a further turn, the operator's own before defaults: its valve, its value, and whose it is."""
    bounds = ((valve, getattr(limits, valve)) for valve in VALVES)
    found = (
        (valve, bound.value, bound.mine)
        for valve, bound in bounds
        if bound.value is not None and _used(spend, valve) >= bound.value
    )
    return min(found, key=lambda reached: not reached[2], default=None)


def _used(spend: Spend, valve: str) -> float:
    return float(spend.wall_s if valve == "wall" else getattr(spend, valve))


def raised(limits: Limits, valve: str, spend: Spend) -> Limits:
    """The same limits with as much again for `valve` as its default allows, until it is more than is spent; it asks again when reached."""
    limit: Limit = getattr(limits, valve)
    if limit.value is None:
        return limits
    more = getattr(Limits(), valve).value or limit.value or 1.0
    times = 1 + max(0.0, _used(spend, valve) - limit.value) // more
    return structs.replace(limits, **{valve: Limit(limit.value + times * more, limit.mine)})

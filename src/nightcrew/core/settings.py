"""What a run was told when it started: the settings its first fact holds (decision 0012), and what it may spend (decision 0024)."""

from nightcrew.core.ids import Data

VALVES = ("usd", "tokens", "turns", "wall")


class Pipeline(Data, frozen=True, kw_only=True):
    """How many take part and how often. Rounds are counted per visit of a phase (decision 0030)."""

    plan: bool = True
    advise: bool = False  # so many advisors as `advisors` says, else three
    advisors: int = 0
    implementers: int = 1
    max_parallel: int = 4  # implementers at once
    judges: int = 3
    deliberate_rounds: int = 1
    on_leak: str = "warn"  # a candidate that names a vendor: judged as it is, `redact` = without the word, `fail` = out
    graft: bool = False  # what judges praise in the losers is ported to the winner
    reviewers: int = 1
    lenses: tuple[str, ...] = ("correctness", "tests", "security", "simplicity")
    """What each reviewer of several looks for first, in the order of their seats; used again from the front when there are fewer."""
    review_rounds: int = 6
    gate_fix_rounds: int = 2
    land_rounds: int = 4
    conflict_rounds: int = 4
    continuations: int = 3
    iterations: int = 1
    retries: int = 3  # times one agent is asked again after a fault that passes (rate limit, overload, network, server)


class Review(Data, frozen=True, kw_only=True):
    """What an incomplete panel of reviewers means: `block` = the absent are asked again, `warn` = who answered decides."""

    incomplete: str = "block"


class Verify(Data, frozen=True, kw_only=True):
    """Commands that decide. Each is a shell line; `timeout_s` bounds each one."""

    setup: tuple[str, ...] = ()
    check: tuple[str, ...] = ()
    e2e: tuple[str, ...] = ()
    pre_gate: tuple[str, ...] = ()
    gate: tuple[str, ...] = ()
    timeout_s: float = 1800.0
    base: str = "any"
    copy: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    env: tuple[str, ...] = ()


class Land(Data, frozen=True, kw_only=True):
    """Where the result goes: `branch` leaves a finished branch, `local` and `push` move the target."""

    mode: str = "branch"
    target: str = ""
    remote: str = ""


class Ladder(Data, frozen=True, kw_only=True):
    """Recovery: whether a dev-fix turn is made, its pauses in seconds, and the operator's ceiling (0 = none)."""

    dev_fix: bool = True
    ceiling: int = 0
    pause_s: float = 30.0
    pause_max_s: float = 900.0
    max_sleep_s: float = 6 * 3600.0


class Shelter(Data, frozen=True, kw_only=True):
    """How turns and commands are kept apart from the machine: mode `auto`, `bwrap`, `unshare` or `off`; network or none."""

    mode: str = "auto"
    network: bool = True


class Settings(Data, frozen=True, kw_only=True):
    """All of the above."""

    pipeline: Pipeline = Pipeline()
    review: Review = Review()
    verify: Verify = Verify()
    land: Land = Land()
    ladder: Ladder = Ladder()
    shelter: Shelter = Shelter()
    notify: tuple[str, ...] = ()


class Limit(Data, frozen=True):
    """One bound. `value` None = lifted. `mine` = set by the operator, otherwise a default that asks before it ends a run."""

    value: float | None
    mine: bool = False


class Limits(Data, frozen=True, kw_only=True):
    """The safety valves of a run: money in US dollars, tokens, turns, and busy seconds; and the bounds of one turn in seconds."""

    usd: Limit = Limit(25.0)
    tokens: Limit = Limit(None)
    turns: Limit = Limit(200)
    wall: Limit = Limit(12 * 3600.0)
    turn_s: float = 3600.0
    first_output_s: float = 900.0
    idle_s: float = 1800.0


class Spend(Data, frozen=True, kw_only=True):
    """What a run has used. `unpriced` counts turns whose money is unknown: unknown is not zero."""

    usd: float = 0.0
    tokens: int = 0
    turns: int = 0
    wall_s: float = 0.0
    unpriced: int = 0

    def used(self, valve: str) -> float:
        """The amount spent against that valve, in its own unit."""
        return float(self.wall_s if valve == "wall" else getattr(self, valve))


def exceeded(limits: Limits, spend: Spend) -> tuple[str, float, bool] | None:
    """The first limit that forbids a further turn, the operator's own before defaults: its valve, its value, and whose it is."""
    bounds = ((name, getattr(limits, name)) for name in VALVES)
    found = ((name, at.value, at.mine) for name, at in bounds if at.value is not None and spend.used(name) >= at.value)
    return min(found, key=lambda reached: not reached[2], default=None)


def raised(limits: Limits, valve: str, spend: Spend) -> Limits:
    """The same limits with as much again for `valve` as its default allows, until it is more than is spent; it asks again when reached."""
    limit: Limit = getattr(limits, valve)
    if limit.value is None:
        return limits
    more = getattr(Limits(), valve).value or limit.value or 1.0
    times = 1 + max(0.0, spend.used(valve) - limit.value) // more
    return limits.but(**{valve: Limit(limit.value + times * more, limit.mine)})

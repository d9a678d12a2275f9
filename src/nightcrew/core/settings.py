"""What a run was told when it started: the settings its first fact holds (decision 0012)."""

from msgspec import Struct


class Pipeline(Struct, frozen=True, kw_only=True):
    """How many take part and how often. Rounds are counted per visit of a phase (decision 0030)."""

    plan: bool = True
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


class Review(Struct, frozen=True, kw_only=True):
    """What an incomplete panel of reviewers means: `block` = the absent are asked again, `warn` = who answered decides."""

    incomplete: str = "block"


class Verify(Struct, frozen=True, kw_only=True):
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


class Land(Struct, frozen=True, kw_only=True):
    """Where the result goes: `branch` leaves a finished branch, `local` and `push` move the target."""

    mode: str = "branch"
    target: str = ""
    remote: str = ""


class Ladder(Struct, frozen=True, kw_only=True):
    """Recovery: whether a dev-fix turn is made, its pauses in seconds, and the operator's ceiling (0 = none)."""

    dev_fix: bool = True
    ceiling: int = 0
    pause_s: float = 30.0
    pause_max_s: float = 900.0
    max_sleep_s: float = 6 * 3600.0


class Shelter(Struct, frozen=True, kw_only=True):
    """How turns and commands are kept apart from the machine: mode `auto`, `bwrap`, `unshare` or `off`; network or none."""

    mode: str = "auto"
    network: bool = True


class Settings(Struct, frozen=True, kw_only=True):
    """All of the above."""

    pipeline: Pipeline = Pipeline()
    review: Review = Review()
    verify: Verify = Verify()
    land: Land = Land()
    ladder: Ladder = Ladder()
    shelter: Shelter = Shelter()
    notify: tuple[str, ...] = ()

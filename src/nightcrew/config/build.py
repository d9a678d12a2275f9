"""Put the layers together: defaults under the machine's file under the repository's under the command line; check what only the whole can tell."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from nightcrew.config import trust
from nightcrew.config.agents import KindInfo
from nightcrew.config.layers import Layer, Side, read_file, read_overrides
from nightcrew.config.mistakes import ConfigError, Mistake, Origin
from nightcrew.config.roles import Resolved, named_roles, resolve
from nightcrew.config.table import TABLES
from nightcrew.core.limits import VALVES, Limit, Limits
from nightcrew.core.roster import Agent, AgentRole, Roles
from nightcrew.core.settings import Ladder, Land, Pipeline, Settings, Shelter, Verify

REPOSITORY_FILE = "nightcrew.toml"
MAX_TURNS = 4
"""Turns at once over all runs of a machine when its file says nothing (rulings 36)."""

_WITHOUT_FILES = ("off", "unshare")
"""Sandbox modes that shelter no file system."""

S = TypeVar("S", bound=Struct)


class Config(Struct, frozen=True, kw_only=True):
    """What the files and the command line say together."""

    roster: tuple[Agent, ...]
    roles: Roles
    settings: Settings
    limits: Limits
    max_turns: int
    origins: dict[str, Origin]
    """Where each value was written, by dotted key; list items too (`roles.fixer.1`, `agents.0.env.TOKEN`). Absent: a default."""
    notes: tuple[str, ...]
    """What will be left out, each said once."""
    warnings: tuple[Mistake, ...]
    digest: str
    """Names the executable parts of the repository's file; empty when it has none (rulings 35)."""
    executes: tuple[str, ...]
    """Those parts, one line each, for the person who is asked to trust them."""
    open_rights: bool
    """Whether the machine's file or the command line lets agents with full rights run without a file-system sandbox (rulings 34)."""


def config_home(env: Mapping[str, str]) -> Path:
    """The folder in which programs keep their settings: XDG_CONFIG_HOME when it is absolute, else `~/.config`."""
    told = env.get("XDG_CONFIG_HOME", "")
    return Path(told) if told.startswith("/") else Path(env.get("HOME", "/")) / ".config"


def machine_file(home: Path) -> Path:
    """The machine's file below the folder that `config_home` gives."""
    return home / "nightcrew" / "config.toml"


def load(
    repo_top: Path | None,
    *,
    config_home: Path,
    kinds: Mapping[str, KindInfo],
    overrides: Mapping[str, str] | None = None,
    found: tuple[Agent, ...] = (),
) -> Config:
    """Read all layers. `repo_top`: the checkout's top, None for a bare repository.

    `found` is the roster when no file names agents; those share their kind's login.

    Raises ConfigError with every mistake of every layer. `overrides` are dotted keys with values as typed.
    """
    machine = machine_file(config_home)
    layers = [read_file(Side.Machine, machine, str(machine), kinds)]
    if repo_top is not None:
        layers.append(read_file(Side.Repository, repo_top / REPOSITORY_FILE, REPOSITORY_FILE, kinds))
    layers.append(read_overrides(overrides or {}))
    return _together(layers, kinds, found)


def _together(layers: list[Layer], kinds: Mapping[str, KindInfo], found: tuple[Agent, ...]) -> Config:
    values: dict[str, Any] = {}
    for layer in layers:
        values |= layer.values
    origins = _origins(layers)
    mistakes = [mistake for layer in layers for mistake in layer.mistakes]
    mistakes += _shelter_mistakes(layers, origins) + _pause_mistakes(values, origins)
    roster: tuple[Agent, ...] = values.get("agents", tuple(replace(a, account=a.account or a.kind) for a in found))
    named = _roles(values, roster, origins)
    if all(layer.readable for layer in layers):  # else an agent may be missing only because its file cannot be read
        mistakes += named.mistakes
    limits = _limits(values)
    unpriced = _unpriced(roster, named.roles, kinds)
    mistakes += _money_mistakes(limits, unpriced, origins)
    if mistakes:
        raise ConfigError(_ordered(mistakes, layers))
    parts = next((trust.executable(layer.values) for layer in layers if layer.side is Side.Repository), {})
    return Config(
        roster=roster,
        roles=named.roles,
        settings=_settings(values),
        limits=limits,
        max_turns=values.get("machine.max_turns", MAX_TURNS),
        origins=origins,
        notes=named.notes + _money_notes(limits, unpriced),
        warnings=named.warnings,
        digest=trust.digest(parts),
        executes=trust.told(parts),
        open_rights=_open_rights(layers),
    )


def _ordered(mistakes: list[Mistake], layers: list[Layer]) -> list[Mistake]:
    """By layer, then by line."""
    files = [layer.file for layer in layers]
    return sorted(mistakes, key=lambda mistake: (files.index(mistake.file), mistake.line))


def _origins(layers: list[Layer]) -> dict[str, Origin]:
    """Places by key; a key that a higher layer sets loses the lower one's places of its items too."""
    origins: dict[str, Origin] = {}
    for layer in layers:
        taken = tuple(f"{key}." for key in layer.values)
        origins = {key: place for key, place in origins.items() if not key.startswith(taken)} if taken else origins
        origins |= layer.origins
    return origins


def _where(origins: Mapping[str, Origin]) -> Callable[[str], Origin]:
    def place(key: str) -> Origin:
        """The place of a key, or of what it lies in."""
        while key not in origins and "." in key:
            key = key.rpartition(".")[0]
        return origins.get(key, Origin(Side.CommandLine))

    return place


def _roles(values: Mapping[str, Any], roster: tuple[Agent, ...], origins: Mapping[str, Origin]) -> Resolved:
    unused = set()
    if not values.get("pipeline.plan", True):
        unused.add(AgentRole.Planner)
    if not values.get("pipeline.reviewers", 1):
        unused.add(AgentRole.Reviewer)
    return resolve(named_roles(values), roster, _where(origins), frozenset(unused))


def _fields(table: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """What `table` sets, by the core's field names."""
    settings = TABLES[table].items()
    return {s.field: values[f"{table}.{key}"] for key, s in settings if s.field and f"{table}.{key}" in values}


def _settings(values: Mapping[str, Any]) -> Settings:
    return Settings(
        pipeline=Pipeline(**_fields("pipeline", values)),
        verify=Verify(**_fields("verify", values)),
        land=Land(**_fields("land", values)),
        ladder=Ladder(**_fields("recovery", values)),
        shelter=Shelter(**_fields("sandbox", values)),
        **_fields("notify", values),
    )


def _limits(values: Mapping[str, Any]) -> Limits:
    fields = _fields("limits", values)
    fields |= {valve: Limit(fields[valve], mine=True) for valve in VALVES if valve in fields}
    return Limits(**fields)


def _pause_mistakes(values: Mapping[str, Any], origins: Mapping[str, Origin]) -> list[Mistake]:
    ladder = Ladder(**_fields("recovery", values))
    if ladder.pause_s <= ladder.pause_max_s:
        return []
    key = "recovery.pause" if "recovery.pause" in values else "recovery.pause_max"
    told = f"recovery.pause ({ladder.pause_s:g} s) is longer than recovery.pause_max ({ladder.pause_max_s:g} s)"
    return [Mistake(*_where(origins)(key), told, "the first pause cannot be longer than the longest")]


# ── what the repository may say about the sandbox ────────────────────────────────────────────────────────────────────


def _shelter_mistakes(layers: list[Layer], origins: Mapping[str, Origin]) -> list[Mistake]:
    """A repository's file may ask for more shelter than the machine gives, never for less (rulings 34)."""
    by_side = {layer.side: layer for layer in layers}
    if Side.Repository not in by_side:
        return []
    theirs, mine = by_side[Side.Repository], by_side[Side.Machine]
    found = []
    mode = theirs.values.get("sandbox.mode")
    asked = mine.values.get("sandbox.mode", "auto")
    if mode in _WITHOUT_FILES or (mode, asked) == ("auto", "bwrap"):
        told = f'sandbox.mode: a repository cannot weaken the sandbox to "{mode}"'
        found.append(Mistake(*theirs.origins["sandbox.mode"], told, f"only {mine.file} or the command line can"))
    if theirs.values.get("sandbox.network") and mine.values.get("sandbox.network") is False:
        told = "sandbox.network: a repository cannot open the network that the machine's file closes"
        found.append(Mistake(*theirs.origins["sandbox.network"], told, f"see {origins['sandbox.network']}"))
    return found


def _open_rights(layers: list[Layer]) -> bool:
    told = [layer.values.get("sandbox.mode") for layer in layers if layer.side is not Side.Repository]
    last = next((mode for mode in reversed(told) if mode is not None), "auto")
    return last in _WITHOUT_FILES


# ── money ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _unpriced(roster: tuple[Agent, ...], roles: Roles, kinds: Mapping[str, KindInfo]) -> tuple[str, ...]:
    """Agents that some role may ask and whose turns have neither a figure nor a price."""
    asked = {name for chain in roles.chains.values() for name in chain}
    return tuple(
        a.id for a in roster if a.id in asked and a.price is None and a.kind in kinds and not kinds[a.kind].money
    )


def _money_mistakes(limits: Limits, unpriced: tuple[str, ...], origins: Mapping[str, Origin]) -> list[Mistake]:
    """A bound on money that cannot be kept is refused unless another of the operator's bounds binds (rulings 30)."""
    if not unpriced or not limits.usd.mine or limits.usd.value is None:
        return []
    if any(limit.mine and limit.value is not None for limit in (limits.turns, limits.tokens)):
        return []
    told = f"limits.usd cannot bind: {', '.join(unpriced)} reports no money and has no price"
    return [Mistake(*_where(origins)("limits.usd"), told, "set limits.turns too, or a price (usd a turn) on the agent")]


def _money_notes(limits: Limits, unpriced: tuple[str, ...]) -> tuple[str, ...]:
    if not unpriced or limits.usd.mine or limits.usd.value is None:
        return ()
    return (f"{', '.join(unpriced)} reports no money and has no price: limits.turns binds, not limits.usd",)

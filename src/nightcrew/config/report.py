"""What the settings came to and where each was written, for a person who asks; values of agents' environments are not in it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from nightcrew.config.build import Config
from nightcrew.config.table import TABLES
from nightcrew.core.roster import AgentRole
from nightcrew.core.settings import Limit

SPANS = {"d": 86400, "h": 3600, "m": 60, "s": 1}


class Row(NamedTuple):
    """A dotted key, its value as TOML (empty: nothing is set), and `file:line`, `command line` or `default`."""

    key: str
    value: str
    origin: str


def resolved(config: Config) -> tuple[Row, ...]:
    """Every setting, the agents, and the chain of every role (empty: nobody)."""
    return tuple(Row(key, value, str(config.origins.get(key, "default"))) for key, value in _pairs(config))


def _pairs(config: Config) -> Iterator[tuple[str, str]]:
    told = config.settings
    homes = {"limits": config.limits, "recovery": told.ladder, "sandbox": told.shelter, "machine": config}
    for table, keys in TABLES.items():
        home = homes.get(table) or getattr(told, table)
        fields = {field: key for key in keys for field in (key, f"{key}_s") if hasattr(home, field)}
        yield from ((f"{table}.{key}", _toml(getattr(home, field), field)) for field, key in fields.items())
    yield "notify.command", _toml(told.notify)
    for agent in config.roster:
        yield f"agents.{agent.id}", " · ".join(filter(None, (agent.id, agent.kind, agent.model, f"account {agent.account}")))
    yield from ((f"roles.{role}", _toml(config.roles.chain(role))) for role in AgentRole)


def _toml(value: Any, field: str = "") -> str:
    """A value as one would write it in a file; what is empty is not written."""
    told = value.value if isinstance(value, Limit) else value
    if told is not None and (field == "wall" or field.endswith("_s")):
        return next((f'"{told / size:g}{unit}"' for unit, size in SPANS.items() if told % size == 0), f"{told:.15g}")
    if isinstance(told, float):
        return f"{told:.15g}"
    return "" if told in ("", ()) else json.dumps("none" if told is None else told, ensure_ascii=False)

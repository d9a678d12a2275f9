"""What the settings came to and where each was written, for a person who asks; values of agents' environments are not in it."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from nightcrew.config.build import Config
from nightcrew.config.table import TABLES
from nightcrew.core.limits import Limit
from nightcrew.core.roster import AgentRole


class Row(NamedTuple):
    """A dotted key, its value as TOML (empty: nothing is set), and `file:line`, `command line` or `default`."""

    key: str
    value: str
    origin: str


def resolved(config: Config) -> tuple[Row, ...]:
    """Every setting, the agents, and the chain of every role that has one."""
    pairs = (*_settings(config), *_agents(config), *_roles(config))
    return tuple(Row(key, value, str(config.origins.get(key, "default"))) for key, value in pairs)


def _settings(config: Config) -> Iterator[tuple[str, str]]:
    told = config.settings
    homes: dict[str, Any] = {
        "pipeline": told.pipeline,
        "verify": told.verify,
        "land": told.land,
        "limits": config.limits,
        "recovery": told.ladder,
        "sandbox": told.shelter,
        "notify": told,
        "machine": config,
    }
    for table, settings in TABLES.items():
        for key, setting in settings.items():
            if setting.field:
                value = getattr(homes[table], setting.field)
                yield f"{table}.{key}", _toml(value, span=setting.field.endswith("_s") or key == "wall")


def _agents(config: Config) -> Iterator[tuple[str, str]]:
    for n, agent in enumerate(config.roster):
        parts = [agent.id, agent.kind, agent.model, f"account {agent.account}"]
        yield f"agents.{n}", " · ".join(filter(None, parts))


def _roles(config: Config) -> Iterator[tuple[str, str]]:
    for role in AgentRole:
        if chain := config.roles.chain(role):
            yield f"roles.{role}", _toml(chain, span=False)


def _toml(value: Any, *, span: bool) -> str:
    """A value as one would write it in a file; what is empty is not written."""
    if isinstance(value, Limit):
        value = "none" if value.value is None else value.value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False) if value else ""
    if isinstance(value, tuple):
        return f"[{', '.join(json.dumps(one, ensure_ascii=False) for one in value)}]" if value else ""
    return _span(value) if span else f"{value:.15g}"


def _span(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds % size == 0:
            return f'"{seconds / size:.15g}{unit}"'
    return f"{seconds:.15g}"

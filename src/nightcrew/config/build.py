"""The layers put together: defaults, then the machine's file, the repository's, the command line; what only the whole can tell, and what it came to."""

import json
from collections.abc import Callable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from shlex import join
from typing import Any

from msgspec import Struct, json as packed, structs

from nightcrew.config.layers import ConfigError, Kinds, Layer, Mistake, Origin, Typed, read_file, read_overrides
from nightcrew.config.table import SPANS, TABLES, near
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, AgentRole, Answers, Roles, SecretRef
from nightcrew.core.settings import Limit, Limits, Settings

REPOSITORY_FILE = "nightcrew.toml"
MAX_TURNS = 4  # at once, over all runs of a machine (rulings 36)
_WITHOUT_FILES = ("off", "unshare")  # sandbox modes that shelter no file system

Roster = tuple[Agent, ...]
Named = Mapping[AgentRole, tuple[str, ...]]  # the chains that `[roles]` names
Where = Callable[..., Origin]  # the place of a dotted key, and of an item in it: `where("roles.fixer", 1)`

NAMED = {"ladder": "recovery", "shelter": "sandbox"}  # settings whose table has another name

NEEDS = dict.fromkeys(AgentRole, Answers.Text)  # what a role asks of an agent
NEEDS |= dict.fromkeys((AgentRole.Developer, AgentRole.Fixer), Answers.Edit)
NEEDS |= dict.fromkeys((AgentRole.Judge, AgentRole.Reviewer, AgentRole.Advisor), Answers.Structured)

NOBODY = {  # what is said of a role that nobody can take
    AgentRole.Developer: "no agent can edit files: there is nobody to implement a task",
    AgentRole.Planner: "no developer answers in text: planning is off (roles.planner names somebody)",
    AgentRole.Reviewer: "no developer answers in a given form: nobody reviews (roles.reviewer names somebody)",
    AgentRole.Committer: "no developer answers in text: the commit message is the task's title (roles.committer names somebody)",
}

_VERIFY = ("setup", "check", "e2e", "pre_gate", "gate", "env", "writable")
# What runs, what it is handed from the environment, and what it may write outside the repository.
EXECUTABLE = ("agents", *(f"verify.{key}" for key in _VERIFY), "notify.command")


class Config(Struct, frozen=True, kw_only=True):
    """What the files and the command line say together."""

    roster: Roster
    roles: Roles
    settings: Settings
    limits: Limits
    max_turns: int
    origins: dict[str, Origin]  # where each value was written, by dotted key; absent: a default
    notes: tuple[str, ...]  # what will be left out, each said once
    warnings: tuple[Mistake, ...]
    digest: str  # names what of the repository's file would be executed; empty when nothing (rulings 35)
    executes: tuple[str, ...]  # those parts, one line each, for the person who is asked to trust them
    open_rights: bool  # the machine's file or the command line lets full rights go without a file-system sandbox


def machine_file(env: Mapping[str, str]) -> Path:
    """The machine's file, where programs keep their settings: below XDG_CONFIG_HOME when that is absolute, else below `~/.config`."""
    told = env.get("XDG_CONFIG_HOME", "")
    return (Path(told) if told.startswith("/") else Path(env.get("HOME", "/")) / ".config") / "nightcrew/config.toml"


def load(
    repo_top: Path | None, *, machine_file: Path, kinds: Kinds, overrides: Typed | None = None, found: Roster = ()
) -> Config:
    """Read all layers. Raises ConfigError with every mistake of every one. `found`: the roster when no file names agents."""
    machine = read_file(machine_file, str(machine_file), kinds)
    theirs = read_file(repo_top / REPOSITORY_FILE, REPOSITORY_FILE, kinds) if repo_top else Layer(REPOSITORY_FILE)
    typed = read_overrides(overrides or {}, kinds)
    layers = (machine, theirs, typed)
    owner = {key: layer for layer in layers for key in layer.values}
    values = {key: layer.values[key] for key, layer in owner.items()}

    def where(key: str, *item: int) -> Origin:
        return owner[key].at((*key.split("."), *item))

    roster: Roster = values.get("agents", tuple(structs.replace(a, account=a.account or a.kind) for a in found))
    named = {role: values[f"roles.{role}"] for role in AgentRole if f"roles.{role}" in values}
    chains, limits = _resolved(named, roster), _filled(Limits, "limits", values)
    asked = {name for chain in chains.chains.values() for name in chain}
    priced = {agent.id for agent in roster if agent.kind not in kinds or kinds[agent.kind].money or agent.price is not None}
    unpriced = ", ".join(agent.id for agent in roster if agent.id in asked - priced)
    mistakes = [mistake for layer in layers for mistake in layer.mistakes] + list(_too_far(machine, theirs))
    bound = any(limit.mine and limit.value is not None for limit in (limits.turns, limits.tokens))
    if unpriced and limits.usd.mine and limits.usd.value is not None and not bound:  # rulings 30
        told = f"limits.usd cannot bind: no money is reported by {unpriced}, and no price is set"
        mistakes.append(Mistake(*where("limits.usd"), told, "set limits.turns too, or the agent's price of a turn"))
    if values.get("pipeline.implementers", 1) > 1 and roster and not chains.chain(AgentRole.Judge):
        told = "no developer gives structured answers: there is nobody to judge a competition"
        mistakes.append(Mistake(*where("pipeline.implementers"), told, "roles.judge names somebody who does, or leave it at 1"))
    refused, warnings = _named_wrongly(named, roster, where)
    if all(layer.roster for layer in layers):  # else an agent may be missing only because its file cannot be read
        mistakes += refused
    if mistakes:
        order = [layer.file for layer in layers]
        raise ConfigError(sorted(mistakes, key=lambda mistake: (order.index(mistake.file), mistake.line)))
    digest, executes = executed(theirs.values)
    origins = {key: where(key) for key in values}
    origins |= {f"agents.{agent.id}": where("agents", n) for n, agent in enumerate(values.get("agents", ()))}
    parts = {one.name: one.type for one in structs.fields(Settings) if one.name != "notify"}
    filled = {name: _filled(kind, NAMED.get(name, name), values) for name, kind in parts.items()}
    settings = Settings(**filled, notify=values.get("notify.command", ()))
    return Config(
        roster=roster, roles=chains, settings=settings, limits=limits, max_turns=values.get("machine.max_turns", MAX_TURNS),
        origins=origins, notes=tuple(_notes(values, chains, limits, unpriced)), warnings=tuple(warnings), digest=digest,
        executes=executes, open_rights={**machine.values, **typed.values}.get("sandbox.mode") in _WITHOUT_FILES,
    )  # fmt: skip


def _filled(kind: Any, table: str, values: Mapping[str, Any]) -> Any:
    """The core's struct with what `table` sets: the key of the field `turn_s` is `turn`."""
    keys = {field: f"{table}.{field.removesuffix('_s')}" for field in kind.__struct_fields__}
    return kind(**{field: values[key] for field, key in keys.items() if key in values})


def _too_far(machine: Layer, theirs: Layer) -> Iterator[Mistake]:
    """A repository's file says nothing for the machine, and asks for more shelter than it gives, never for less (rulings 34)."""
    for key, value in theirs.values.items():
        mine = machine.values.get(key)
        weaker = key == "sandbox.mode" and (value in _WITHOUT_FILES or (value, mine) == ("auto", "bwrap"))
        if weaker or (key == "sandbox.network" and value and mine is False) or key.startswith("machine."):
            told = f"{key}: a repository cannot " + ("weaken the sandbox" if "sandbox" in key else "say this")
            yield Mistake(*theirs.at((*key.split("."),)), told, f"only {machine.file} or the command line can")


def _notes(values: Mapping[str, Any], chains: Roles, limits: Limits, unpriced: str) -> Iterator[str]:
    wanted = {AgentRole.Planner: values.get("pipeline.plan"), AgentRole.Reviewer: values.get("pipeline.reviewers")}
    off = {role for role, told in wanted.items() if told is not None and not told}
    implementers, able = values.get("pipeline.implementers", 1), chains.chain(AgentRole.Developer)
    yield from (NOBODY[role] for role in NOBODY if not chains.chain(role) and role not in off and (able or role == "developer"))
    if not values.get("verify.gate"):
        yield "no gate is set: nothing is tested before it lands (verify.gate; nightcrew init proposes one)"
    if implementers > len(able) > 0:
        yield f"{implementers} implementers and {len(able)} agents that can: {', '.join(able)} work more than once"
    if unpriced and not limits.usd.mine:
        yield f"no money is reported by {unpriced}, and no price is set: limits.turns binds, not limits.usd"


def _resolved(named: Named, roster: Roster) -> Roles:
    """Every role that somebody can take: named ones as they are, the rest from their default, cut to who can answer (rulings 26, 46)."""

    def of(role: AgentRole, default: tuple[str, ...]) -> tuple[AgentId, ...]:
        able = {agent.id for agent in roster if NEEDS[role] in agent.answers}
        return tuple(dict.fromkeys(map(AgentId, named.get(role) or (name for name in default if name in able))))

    developer = of(AgentRole.Developer, tuple(agent.id for agent in roster))
    defaults = dict.fromkeys((AgentRole.Judge, AgentRole.Reviewer), (*developer[1:], *developer[:1]))
    defaults[AgentRole.Synthesizer] = of(AgentRole.Planner, developer)
    chains = {role: of(role, defaults.get(role, developer)) for role in AgentRole}
    return Roles({role: chain for role, chain in chains.items() if chain}, fixer_set=AgentRole.Fixer in named)


def _named_wrongly(named: Named, roster: Roster, where: Where) -> tuple[list[Mistake], list[Mistake]]:
    """What cannot be asked as it is named, and what is odd: a chain asks each agent once, its first place counts."""
    known: dict[str, Agent] = {agent.id: agent for agent in roster}
    mistakes, warnings = [], []
    for role, ids in named.items():
        key = f"roles.{role}"
        if not ids:
            mistakes.append(Mistake(*where(key), f"{key}: the chain is empty", "name an agent, or leave the role out"))
        for n, name in enumerate(ids):
            place = where(key, n)
            if name not in known:
                hint = near(name, known) or f"agents are {', '.join(known) or 'not there at all'}"
                mistakes.append(Mistake(*place, f'{key}: unknown agent "{name}"', hint))
            elif NEEDS[role] not in known[name].answers:
                told = f'{key}: "{name}" cannot answer with {NEEDS[role]}, which this role needs'
                mistakes.append(Mistake(*place, told, f"it answers with {', '.join(known[name].answers)}"))
            elif name in ids[:n]:
                warnings.append(Mistake(*place, f'{key}: "{name}" is named twice', "its first place counts"))
    return mistakes, warnings


def executed(values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What of a file's values needs trust: a digest (empty: nothing does), and a line for each thing that would run, never an agent's values."""
    # Trust is remembered for the user, never in the repository (rulings 35).
    parts = {key: values[key] for key in EXECUTABLE if values.get(key)}
    lines = []
    for agent in parts.get("agents", ()):
        refs = [ref.command for ref in agent.env.values() if isinstance(ref, SecretRef) and ref.command]
        lines += [f"agent {agent.id}: {one}" for one in (join(agent.command) or agent.kind, *refs)]
    lines += [f"{key}: {one}" for key, value in parts.items() if key.startswith("verify.") for one in value]
    lines += [f"notify.command: {join(parts['notify.command'])}"] if "notify.command" in parts else []
    return sha256(packed.encode(parts, order="sorted")).hexdigest() if parts else "", tuple(lines)


def trusted(home: Path, repo_id: str, digest: str) -> bool:
    """Whether these parts were trusted for this repository; nothing to trust is trusted. `home` is NIGHTCREW_HOME."""
    return not digest or (home / "trust" / f"{repo_id}-{digest}").exists()


def trust(home: Path, repo_id: str, digest: str) -> None:
    """Remember these parts as trusted for this repository: an empty file, so that nothing can be half written or lost."""
    for folder in (home, home / "trust"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "trust" / f"{repo_id}-{digest}").touch(mode=0o600)


class Row(Struct, frozen=True):
    """A dotted key, its value as TOML (empty: nothing is set), and `file:line`, `command line` or `default`."""

    key: str
    value: str
    origin: str


def resolved(config: Config) -> tuple[Row, ...]:
    """Every setting, the agents, and the chain of every role (empty: nobody)."""
    told, found = config.settings, dict[str, str]()
    homes = {"limits": config.limits, "recovery": told.ladder, "sandbox": told.shelter, "machine": config}
    for table, keys in TABLES.items():
        home = homes.get(table) or getattr(told, table)
        fields = {key: field for key in keys for field in (key, f"{key}_s") if hasattr(home, field)}
        found |= {f"{table}.{key}": _toml(getattr(home, field), field) for key, field in fields.items()}
    found["notify.command"] = _toml(told.notify)
    for agent in config.roster:
        found[f"agents.{agent.id}"] = " · ".join(filter(None, (agent.id, agent.kind, agent.model, f"account {agent.account}")))
    found |= {f"roles.{role}": _toml(config.roles.chain(role)) for role in AgentRole}
    return tuple(Row(key, value, str(config.origins.get(key, "default"))) for key, value in found.items())


def _toml(value: Any, field: str = "") -> str:
    """A value as one would write it in a file; what is empty is not written."""
    told = value.value if isinstance(value, Limit) else value
    if told is not None and (field == "wall" or field.endswith("_s")):
        return next((f'"{told / size:g}{unit}"' for unit, size in SPANS.items() if told % size == 0), f"{told:.15g}")
    if isinstance(told, float):
        return f"{told:.15g}"
    return "" if told in ("", ()) else json.dumps("none" if told is None else told, ensure_ascii=False)

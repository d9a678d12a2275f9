"""From what `[roles]` names to a chain for every role: defaults, who can answer what, and what is wrong (rulings 26 and 46)."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from nightcrew.config.mistakes import Mistake, Origin, near
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, AgentRole, Answers, Roles

NEEDS = {
    AgentRole.Planner: Answers.Text,
    AgentRole.Advisor: Answers.Text,
    AgentRole.Synthesizer: Answers.Text,
    AgentRole.Developer: Answers.Edit,
    AgentRole.Judge: Answers.Structured,
    AgentRole.Reviewer: Answers.Structured,
    AgentRole.Fixer: Answers.Edit,
    AgentRole.Committer: Answers.Text,
}
"""What a role asks of an agent."""

_EMPTY_NOTES = {
    AgentRole.Developer: "no agent can edit files: there is nobody to implement a task",
    AgentRole.Planner: "no developer answers in text: planning is off (roles.planner names somebody)",
    AgentRole.Reviewer: "no developer answers in a given form: nobody reviews (roles.reviewer names somebody)",
    AgentRole.Committer: "no developer answers in text: the commit message is the task's title (roles.committer names somebody)",
}

Where = Callable[[str], Origin]
"""The place of a dotted key, `roles.fixer.1`."""
Chain = tuple[AgentId, ...]


class Resolved(NamedTuple):
    """The chains, what was wrong, what was odd, and what nobody can do."""

    roles: Roles
    mistakes: tuple[Mistake, ...]
    warnings: tuple[Mistake, ...]
    notes: tuple[str, ...]


def resolve(
    named: Mapping[AgentRole, tuple[str, ...]], roster: tuple[Agent, ...], where: Where, unused: frozenset[AgentRole]
) -> Resolved:
    """The chain of every role. `unused` roles, which this run never asks, are not noted when they stay empty."""
    mistakes: list[Mistake] = []
    warnings: list[Mistake] = []
    chains: dict[AgentRole, Chain] = {}
    for role, ids in named.items():
        mistakes += _wrong(role, ids, roster, where)
        warnings += _twice(role, ids, where)
        chains[role] = tuple(dict.fromkeys(AgentId(name) for name in ids))
    chains = _filled(chains, roster)
    notes = tuple(told for role, told in _EMPTY_NOTES.items() if role not in chains and role not in unused)
    return Resolved(Roles(chains, fixer_set=AgentRole.Fixer in named), tuple(mistakes), tuple(warnings), notes)


def _wrong(role: AgentRole, ids: tuple[str, ...], roster: tuple[Agent, ...], where: Where) -> list[Mistake]:
    known: dict[str, Agent] = {agent.id: agent for agent in roster}
    found = []
    for n, name in enumerate(ids):
        place = where(f"roles.{role}.{n}")
        if name not in known:
            hint = near(name, known) or (f"agents are {', '.join(known)}" if known else "there are no agents at all")
            found.append(Mistake(*place, f'roles.{role}: unknown agent "{name}"', hint))
        elif not known[name].can(NEEDS[role]):
            told = f'roles.{role}: "{name}" cannot answer with {NEEDS[role]}, which this role needs'
            found.append(Mistake(*place, told, f"it answers with {', '.join(known[name].answers)}"))
    return found


def _twice(role: AgentRole, ids: tuple[str, ...], where: Where) -> list[Mistake]:
    """A chain asks each agent once: the first place counts."""
    return [
        Mistake(*where(f"roles.{role}.{n}"), f'roles.{role}: "{name}" is named twice', "its first place counts")
        for n, name in enumerate(ids)
        if name in ids[:n]
    ]


def _filled(named: dict[AgentRole, Chain], roster: tuple[Agent, ...]) -> dict[AgentRole, Chain]:
    """Every role that somebody can take: named ones as they are, the rest from their default, cut to who can answer."""
    everybody = tuple(agent.id for agent in roster)
    able = {role: {agent.id for agent in roster if agent.can(answer)} for role, answer in NEEDS.items()}

    def of(role: AgentRole, default: Chain) -> Chain:
        return named.get(role) or tuple(name for name in default if name in able[role])

    developer = of(AgentRole.Developer, everybody)
    rotated = (*developer[1:], *developer[:1])
    # A synthesizer works like the planner, who was named perhaps; both fall back to the developer.
    planner = of(AgentRole.Planner, developer)
    chains = {
        AgentRole.Planner: planner,
        AgentRole.Advisor: named.get(AgentRole.Advisor, ()),
        AgentRole.Synthesizer: of(AgentRole.Synthesizer, planner),
        AgentRole.Developer: developer,
        AgentRole.Judge: of(AgentRole.Judge, rotated),
        AgentRole.Reviewer: of(AgentRole.Reviewer, rotated),
        AgentRole.Fixer: of(AgentRole.Fixer, developer),
        AgentRole.Committer: of(AgentRole.Committer, developer),
    }
    return {role: chain for role, chain in chains.items() if chain}


def named_roles(values: Mapping[str, Any]) -> dict[AgentRole, tuple[str, ...]]:
    """The roles that a file names, out of values by dotted key."""
    return {role: values[f"roles.{role}"] for role in AgentRole if f"roles.{role}" in values}

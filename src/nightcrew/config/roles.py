"""From what `[roles]` names to a chain for every role: defaults, who can answer what, and what is wrong (rulings 26 and 46)."""

from collections.abc import Callable, Mapping

from nightcrew.config.mistakes import Mistake, Origin, near
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, AgentRole, Answers, Roles

NEEDS = dict.fromkeys(AgentRole, Answers.Text) | {  # what a role asks of an agent
    AgentRole.Developer: Answers.Edit,
    AgentRole.Judge: Answers.Structured,
    AgentRole.Reviewer: Answers.Structured,
    AgentRole.Fixer: Answers.Edit,
}

NOBODY = {  # what is said of a role that nobody can take
    AgentRole.Developer: "no agent can edit files: there is nobody to implement a task",
    AgentRole.Planner: "no developer answers in text: planning is off (roles.planner names somebody)",
    AgentRole.Reviewer: "no developer answers in a given form: nobody reviews (roles.reviewer names somebody)",
    AgentRole.Committer: "no developer answers in text: the commit message is the task's title (roles.committer names somebody)",
}

Named = Mapping[AgentRole, tuple[str, ...]]
Where = Callable[..., Origin]  # the place of a dotted key, and of an item in it: `where("roles.fixer", 1)`


def resolve(named: Named, roster: tuple[Agent, ...]) -> Roles:
    """Every role that somebody can take: named ones as they are, the rest from their default, cut to who can answer."""

    def of(role: AgentRole, default: tuple[str, ...]) -> tuple[AgentId, ...]:
        able = {agent.id for agent in roster if agent.can(NEEDS[role])}
        return tuple(dict.fromkeys(map(AgentId, named.get(role) or (name for name in default if name in able))))

    developer = of(AgentRole.Developer, tuple(agent.id for agent in roster))
    defaults = dict.fromkeys((AgentRole.Judge, AgentRole.Reviewer), (*developer[1:], *developer[:1]))
    defaults |= {AgentRole.Advisor: (), AgentRole.Synthesizer: of(AgentRole.Planner, developer)}
    chains = {role: of(role, defaults.get(role, developer)) for role in AgentRole}
    return Roles({role: chain for role, chain in chains.items() if chain}, fixer_set=AgentRole.Fixer in named)


def look(named: Named, roster: tuple[Agent, ...], where: Where) -> tuple[list[Mistake], list[Mistake]]:
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
            elif not known[name].can(NEEDS[role]):
                told = f'{key}: "{name}" cannot answer with {NEEDS[role]}, which this role needs'
                mistakes.append(Mistake(*place, told, f"it answers with {', '.join(known[name].answers)}"))
            elif name in ids[:n]:
                warnings.append(Mistake(*place, f'{key}: "{name}" is named twice', "its first place counts"))
    return mistakes, warnings

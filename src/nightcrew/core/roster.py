"""Who may be asked, and in which order: agents, roles and chains."""

from enum import StrEnum

from msgspec import Struct

from nightcrew.core.ids import AgentId

AgentRole = StrEnum("AgentRole", "Planner Advisor Synthesizer Developer Judge Reviewer Fixer Committer")
"""What is asked of an agent."""
Answers = StrEnum("Answers", "Edit Text Structured")
"""The kinds of answer an agent can give (decision 0029)."""


class SecretRef(Struct, frozen=True, omit_defaults=True):
    """Where a value is to be read from when it is used: a variable's name or a command. Never the value itself."""

    env: str = ""
    command: str = ""


class Agent(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One entry of the roster: an adapter's kind, a model, options and the account that cools down together."""

    id: AgentId
    kind: str
    model: str = ""
    account: str = ""
    command: tuple[str, ...] = ()  # the argv of kinds `command` and `scripted`
    env: dict[str, str | SecretRef] = {}
    answers: tuple[Answers, ...] = (Answers.Edit,)
    program: str = ""  # what it resolved to when the run started (decision 0012), like its version
    version: str = ""
    price: float | None = None  # in US dollars a turn, of an agent that reports no money itself


class Roles(Struct, frozen=True):
    """Which chain each role asks; an absent role has nobody who could answer and is skipped (decision 0029)."""

    chains: dict[AgentRole, tuple[AgentId, ...]] = {}
    fixer_set: bool = False  # fixers were named; otherwise the winner's implementer fixes in its own seat

    def chain(self, role: AgentRole) -> tuple[AgentId, ...]:
        """The agents of `role` in order; empty when nobody can."""
        return self.chains.get(role, ())

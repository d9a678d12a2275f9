"""What agents' environments really hold, read at the moment it is used and kept nowhere (law 14, rulings 12)."""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, SecretRef
from nightcrew.errors import UserError

Ask = Callable[[str], str]
"""A shell line to what it printed; raises UserError when it fails."""


def environments(agents: Iterable[Agent], env: Mapping[str, str], ask: Ask) -> dict[AgentId, dict[str, str]]:
    """The variables of each agent, by id: texts as they are (a leading `~/` is HOME), references looked up.

    `env` is nightcrew's own environment; a command is asked once however many agents name it.

    Raises:
        UserError: A variable is not set, or a command failed or printed nothing; the agent and the name are said, never a value.
    """
    known: dict[str, str] = {}
    return {agent.id: {name: _value(agent, name, env, ask, known) for name in agent.env} for agent in agents}


def secrets(agents: Iterable[Agent], found: Mapping[AgentId, Mapping[str, str]]) -> frozenset[str]:
    """Those values of `environments` that came from a reference: what has to be redacted wherever it turns up."""
    return frozenset(
        found[agent.id][name] for agent in agents for name, told in agent.env.items() if isinstance(told, SecretRef)
    )


def _value(agent: Agent, name: str, env: Mapping[str, str], ask: Ask, known: dict[str, str]) -> str:
    told = agent.env[name]
    if isinstance(told, str):
        return env.get("HOME", "~") + told[1:] if told.startswith("~/") else told
    if told.env:
        if told.env not in env:
            raise UserError(
                f'agent "{agent.id}": {name} is to be read from {told.env}, which is not set', f"export {told.env}"
            )
        return env[told.env]
    if told.command not in known:
        known[told.command] = _asked(agent, name, told.command, ask)
    return known[told.command]


def _asked(agent: Agent, name: str, command: str, ask: Ask) -> str:
    try:
        value = ask(command).rstrip("\r\n")
    except UserError as error:
        raise UserError(f'agent "{agent.id}": no value for {name}: {error.message}', error.hint) from error
    if not value or "\0" in value:
        raise UserError(
            f'agent "{agent.id}": no value for {name}: `{command}` printed nothing usable', "try it in a shell"
        )
    return value


def asker(*, env: Mapping[str, str], cwd: Path, timeout_s: float = 60.0) -> Ask:
    """Asks the shell, outside any sandbox: a password manager needs the user's own session."""

    def ask(command: str) -> str:
        from nightcrew.proc.call import call  # noqa: PLC0415 - only who has such a reference pays for it

        ended = call(("/bin/sh", "-c", command), cwd=cwd, env=env, timeout_s=timeout_s)
        if ended.timed_out:
            raise UserError(f"`{command}` did not answer within {timeout_s:g} s", "try it in a shell")
        if ended.code:
            raise UserError(
                f"`{command}` failed with exit code {ended.code}", _last_line(ended.err) or "try it in a shell"
            )
        return ended.out.decode(errors="replace")

    return ask


def _last_line(err: bytes) -> str:
    lines = err.decode(errors="replace").strip().splitlines()
    return lines[-1][:160] if lines else ""

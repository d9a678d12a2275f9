"""What agents' environments really hold, read at the moment it is used and kept nowhere (law 14, rulings 12); and their programs' versions."""

from collections.abc import Callable, Collection, Mapping
from functools import cache
from pathlib import Path

from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, SecretRef
from nightcrew.errors import UserError


def environments(
    agents: Collection[Agent], env: Mapping[str, str], *, cwd: Path, timeout_s: float = 60.0
) -> tuple[dict[AgentId, dict[str, str]], frozenset[str]]:
    """The variables of each agent: texts as they are (a leading `~/` is HOME), references looked up, a command once for all. Raises UserError."""
    # Then those that came from a reference: what has to be redacted wherever it turns up. `env` is nightcrew's own environment.
    ask = cache(lambda command: _printed(command, env, cwd, timeout_s))
    found = {agent.id: {name: _value(agent, name, env, ask) for name in agent.env} for agent in agents}
    return found, frozenset(found[a.id][name] for a in agents for name, told in a.env.items() if isinstance(told, SecretRef))


def _value(agent: Agent, name: str, env: Mapping[str, str], ask: Callable[[str], str]) -> str:
    told = agent.env[name]
    if isinstance(told, str):
        return env.get("HOME", "~") + told[1:] if told.startswith("~/") else told
    try:
        return env[told.env] if told.env else ask(told.command)
    except KeyError:
        missing = UserError(f"{told.env} is not set", f"export {told.env}")
    except UserError as error:
        missing = error
    raise UserError(f'agent "{agent.id}": no value for {name}: {missing.message}', missing.hint)


def _printed(command: str, env: Mapping[str, str], cwd: Path, timeout_s: float) -> str:
    """What a shell line prints, outside any sandbox: a password manager needs the user's own session."""
    from nightcrew.proc.call import call  # noqa: PLC0415 - only who has such a reference pays for it

    ended = call(("/bin/sh", "-c", command), cwd=cwd, env=env, timeout_s=timeout_s)
    value = ended.out.decode(errors="replace").rstrip("\r\n")
    if ended.code == 0 and not ended.timed_out and value and "\0" not in value:
        return value
    told = f"gave no value within {timeout_s:g} s" if ended.timed_out else f"gave no value, exit code {ended.code}"
    last = ended.err.decode(errors="replace").strip().rpartition("\n")[2]
    raise UserError(f"`{command}` {told}", last[:160] or "try it in a shell")


def version(program: str, env: Mapping[str, str]) -> str:
    """The first line a program prints about its version; empty when it says nothing useful in ten seconds."""
    from nightcrew.proc.call import call  # noqa: PLC0415 - as above

    mine = {name: env[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in env}
    ended = call((program, "--version"), cwd=Path("/"), env=mine, timeout_s=10.0)
    said = ended.out.decode(errors="replace").strip().splitlines()
    return said[0][:80] if ended.code == 0 and said else ""

"""The text of a first `nightcrew.toml`: what was guessed, why, and what else could be set, as comments."""

from nightcrew.config.guess import Guess
from nightcrew.core.roster import Agent

_TEXT = """\
# How nightcrew works on this repository. Lines that begin with # are defaults or examples.
# Machine facts (agents, notifications, the sandbox) belong in ~/.config/nightcrew/config.toml instead.

[verify]
# Must be green on the very commit that lands; tried once on the base before any agent is paid.
{gate}
# Run in every new workspace.
{setup}
# Ignored files that survive when a workspace changes hands, and before the gate.
{keep}
# Ignored files that a workspace needs; never committed, their values never logged.
# copy = [".env"]
# timeout = "30m"    # of one command

[land]
# branch: leave a finished branch · local: move the target here · push: push it to the remote
mode = "branch"
# target = "main"    # default: the remote's own default branch, else the current one

# [limits]    # per run; a default that is reached asks, one that you set ends the run; "none" lifts it
# usd = 25
# turns = 200
# wall = "12h"    # time with a turn or a command open
# turn = "60m"    # one turn of an agent

# Agents found on PATH: {agents}. Others, models, accounts and an order are named under [[agents]] in the machine's file.
"""


def init_text(guesses: tuple[Guess, ...] = (), agents: tuple[Agent, ...] = ()) -> str:
    """A settings file that loads without a mistake anywhere; limits stand in it as comments only (rulings 30)."""
    lists = {"gate": "make test", "setup": "make install", "keep": "build/**"}
    told = {key: _list(key, guesses, example) for key, example in lists.items()}
    return _TEXT.format_map({**told, "agents": ", ".join(agent.id for agent in agents) or "none"})


def _list(key: str, guesses: tuple[Guess, ...], example: str) -> str:
    items = "".join(f'  "{one.value}",    # because of {one.file}\n' for one in guesses if one.key == key)
    return f"{key} = [\n{items}]" if items else f'# {key} = ["{example}"]    # nothing here told it'

"""The text of a first `nightcrew.toml`: what was guessed, why, and what else could be set, as comments."""

import json

from nightcrew.config.guess import Found, Guess
from nightcrew.core.limits import Limits
from nightcrew.core.roster import Agent
from nightcrew.core.settings import Verify

_HEAD = """\
# How nightcrew works on this repository. Lines that begin with # are defaults or examples.
# Machine facts (agents, notifications, the sandbox) belong in ~/.config/nightcrew/config.toml instead.
"""

_LAND = """\
[land]
# branch: leave a finished branch · local: move the target here · push: push it to the remote
mode = "branch"
# target = "main"    # default: the remote's own default branch, else the current one
"""

_AGENTS = """\
# ── agents: put these lines into ~/.config/nightcrew/config.toml to name models, accounts or an order ──
"""

_NOBODY = """\
# None was found on PATH. Any program can sit in a seat:
# [[agents]]
# id = "mine"
# kind = "command"
# command = ["my-agent", "{prompt_file}"]
"""


def init_text(found: Found, agents: tuple[Agent, ...] = ()) -> str:
    """A settings file that loads without a mistake anywhere; limits stand in it as comments only (rulings 30)."""
    return "\n".join((_HEAD, _verify(found), _LAND, _limits(Limits()), _AGENTS + _roster(agents)))


def _quoted(text: str) -> str:
    """A TOML string; JSON's escapes are a part of TOML's."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _verify(found: Found) -> str:
    lines = [
        "[verify]",
        "# Must be green on the very commit that lands; tried once on the base before any agent is paid.",
    ]
    lines += _list("gate", found.gate, 'gate = ["make test"]')
    lines += ["# Run in every new workspace."]
    lines += _list("setup", found.setup, 'setup = ["make install"]')
    lines += ["# Ignored files that survive when a workspace changes hands."]
    lines += _list("keep", found.keep, 'keep = ["build/**"]')
    lines += [
        "# Ignored files that a workspace needs; never committed, their values never logged.",
        '# copy = [".env"]',
        f'# timeout = "{Verify().timeout_s / 60:g}m"    # of one command',
    ]
    return "\n".join(lines) + "\n"


def _list(key: str, guesses: tuple[Guess, ...], example: str) -> list[str]:
    if not guesses:
        return [f"# {example}    # nothing was found here that says it"]
    return [f"{key} = [", *(f"  {_quoted(one.value)},    # {one.why}" for one in guesses), "]"]


def _limits(limits: Limits) -> str:
    return f"""\
# [limits]    # per run; a default that is reached asks, one that you set ends the run; "none" lifts it
# usd = {limits.usd.value:g}
# turns = {limits.turns.value:g}
# wall = "{(limits.wall.value or 0) / 3600:g}h"    # time with a turn or a command open
# turn = "{limits.turn_s / 60:g}m"    # one turn of an agent
"""


def _roster(agents: tuple[Agent, ...]) -> str:
    """The agents that are used while no file names any."""
    if not agents:
        return _NOBODY
    told = ", ".join(agent.id for agent in agents)
    tables = "".join(f"# [[agents]]\n# id = {_quoted(a.id)}\n# kind = {_quoted(a.kind)}\n" for a in agents)
    return f"# Found on PATH and used while no file names agents: {told}\n{tables}"

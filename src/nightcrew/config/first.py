"""The text of a first `nightcrew.toml`: what a repository's own files tell about how it is tested, and what else could be set."""

import re
from pathlib import Path
from typing import NamedTuple

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


class Guess(NamedTuple):
    """A value for a list of `[verify]` (`gate`, `setup` or `keep`), and the file that tells it."""

    key: str
    value: str
    file: str


_NODE = {
    "pnpm-lock.yaml": "pnpm install --frozen-lockfile",
    "yarn.lock": "yarn install --frozen-lockfile",
    "bun.lock": "bun install --frozen-lockfile",
    "package-lock.json": "npm ci",
}
_TARGET = r"^{}[ \t]*:(?!=)"
_SCRIPT = r'"{}"\s*:\s*"(?!echo \\"Error: no test)'
_SIGNS = (
    *(("Makefile", _TARGET.format(name), "gate", f"make {name}") for name in ("check", "ci", "verify", "lint", "test")),
    ("tox.ini", "", "gate", "tox"),
    ("uv.lock", "", "setup", "uv sync"),
    ("pyproject.toml", r"^\[tool\.ruff", "gate", "{uv}ruff check ."),
    ("pyproject.toml", r"^\[tool\.mypy", "gate", "{uv}mypy"),
    ("pyproject.toml", "pytest", "gate", "{python}pytest -q"),
    ("package.json", '"scripts"', "setup", "{install}"),
    ("package.json", '"scripts"', "keep", "node_modules/**"),
    *(("package.json", _SCRIPT.format(name), "gate", f"{{npm}} run {name}") for name in ("check", "lint", "test")),
    ("Cargo.toml", "", "gate", "cargo test"),
    ("Cargo.toml", "", "keep", "target/**"),
    ("go.mod", "", "gate", "go vet ./..."),
    ("go.mod", "", "gate", "go test ./..."),
    (".pre-commit-config.yaml", "", "gate", "pre-commit run --all-files"),
)
"""What to look for in which file, and the setting it speaks for. Nothing is parsed: a broken file says less."""


def guess(repo_top: Path) -> tuple[Guess, ...]:
    """What the files at the top tell. A project's own word for everything is the whole gate. Starts no program."""
    uv = "uv run " if (repo_top / "uv.lock").is_file() else ""
    install = next((line for lock, line in _NODE.items() if (repo_top / lock).is_file()), "npm install")
    words = {"uv": uv, "python": uv or "python3 -m ", "install": install, "npm": install.split()[0]}
    found = [
        Guess(key, value.format_map(words), file)
        for file, sign, key, value in _SIGNS
        if (path := repo_top / file).is_file() and re.search(sign, path.read_text(errors="replace"), re.MULTILINE)
    ]
    whole = [one for one in found if re.fullmatch("gate (tox|.* (check|ci|verify))", f"{one.key} {one.value}")][:1]
    return tuple(one for one in found if one.key != "gate" or one in (whole or found))


def init_text(guesses: tuple[Guess, ...] = (), agents: tuple[Agent, ...] = ()) -> str:
    """A settings file that loads without a mistake anywhere; limits stand in it as comments only (rulings 30)."""
    lists = {"gate": "make test", "setup": "make install", "keep": "build/**"}
    told = {key: _list(key, guesses, example) for key, example in lists.items()}
    return _TEXT.format_map({**told, "agents": ", ".join(agent.id for agent in agents) or "none"})


def _list(key: str, guesses: tuple[Guess, ...], example: str) -> str:
    items = "".join(f'  "{one.value}",    # because of {one.file}\n' for one in guesses if one.key == key)
    return f"{key} = [\n{items}]" if items else f'# {key} = ["{example}"]    # nothing here told it'

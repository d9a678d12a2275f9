"""The text of a first `nightcrew.toml`: what a repository's own files tell about how it is tested, and what else could be set (`first.toml`)."""

import re
from pathlib import Path

from nightcrew.core.roster import Agent

Guess = tuple[str, str, str]  # a list of `[verify]` (`gate`, `setup` or `keep`), a value for it, and the file that tells it

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
        (key, value.format_map(words), file)
        for file, sign, key, value in _SIGNS
        if (path := repo_top / file).is_file() and re.search(sign, path.read_text(errors="replace"), re.MULTILINE)
    ]
    whole = [one for one in found if re.fullmatch("gate (tox|.* (check|ci|verify))", f"{one[0]} {one[1]}")][:1]
    return tuple(one for one in found if one[0] != "gate" or one in (whole or found))


def init_text(guesses: tuple[Guess, ...] = (), agents: tuple[Agent, ...] = ()) -> str:
    """A settings file that loads without a mistake anywhere; limits stand in it as comments only (rulings 30)."""
    told = {"agents": ", ".join(agent.id for agent in agents) or "none"}
    for key, example in {"gate": "make test", "setup": "make install", "keep": "build/**"}.items():
        items = "".join(f'  "{value}",    # because of {file}\n' for of, value, file in guesses if of == key)
        told[key] = f"{key} = [\n{items}]" if items else f'# {key} = ["{example}"]    # nothing here told it'
    return Path(__file__).with_suffix(".toml").read_text("utf-8").format_map(told)

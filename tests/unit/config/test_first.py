"""The file that `init` writes: guesses with their reasons, and always a file that loads."""

from pathlib import Path

import pytest

from nightcrew.config.build import load
from nightcrew.config.first import guess, init_text
from nightcrew.config.layers import KindInfo
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, Answers
from nightcrew.core.settings import Limits, Verify

CLAUDE = Agent(id=AgentId("claude"), kind="claude", answers=tuple(Answers))
KINDS = {"claude": KindInfo(tuple(Answers), money=True), "command": KindInfo((Answers.Edit,), argv=True, model=False)}

NPM_TEST = '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1", "lint": "eslint ."}}'
PROJECTS: list[tuple[dict[str, str], list[str], list[str]]] = [
    ({}, [], []),
    ({"Makefile": "X := 1\n.PHONY: test\ncheck: lint test\n\tx\nlint:\n\ttest: no\n"}, ["make check"], []),
    ({"Makefile": "lint :\n\tx\ntest: lint\n"}, ["make lint", "make test"], []),
    ({"Makefile": "all:\n", "tox.ini": "", "go.mod": ""}, ["tox"], []),
    (
        {"package.json": '{"scripts": {"test": "jest"}}', "pnpm-lock.yaml": ""},
        ["pnpm run test"],
        ["pnpm install --frozen-lockfile"],
    ),
    ({"package.json": NPM_TEST}, ["npm run lint"], ["npm install"]),
    ({"package.json": '{"scripts": {"check": "x", "test": "y"}}', "package-lock.json": ""}, ["npm run check"], ["npm ci"]),
    ({"package.json": "[not json"}, [], []),
    ({"package.json": '{"scripts": [3]}'}, [], ["npm install"]),
    (
        {"pyproject.toml": "[tool.ruff]\n[tool.pytest.ini_options]\n", "uv.lock": ""},
        ["uv run ruff check .", "uv run pytest -q"],
        ["uv sync"],
    ),
    ({"pyproject.toml": "[project]\ndependencies=['pytest']\n"}, ["python3 -m pytest -q"], []),
    ({"pyproject.toml": "broken ["}, [], []),
    ({"Cargo.toml": "", ".pre-commit-config.yaml": ""}, ["cargo test", "pre-commit run --all-files"], []),
    ({"go.mod": ""}, ["go vet ./...", "go test ./..."], []),
]


@pytest.mark.parametrize(("files", "gate", "setup"), PROJECTS)
def test_a_project_is_guessed_and_its_first_file_loads(
    tmp_path: Path, files: dict[str, str], gate: list[str], setup: list[str]
) -> None:
    """From the files that are there, broken ones included, to a settings file that says exactly what was guessed."""
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    (tmp_path / "nightcrew.toml").write_text(init_text(guess(tmp_path), (CLAUDE,)))
    config = load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS, found=(CLAUDE,))
    assert list(config.settings.verify.gate) == gate
    assert list(config.settings.verify.setup) == setup
    assert not config.warnings


@pytest.mark.parametrize("agents", [(), (CLAUDE,)])
def test_a_first_file_sets_no_limit_and_no_agent(tmp_path: Path, agents: tuple[Agent, ...]) -> None:
    """Rulings 30: limits are comments, so that they stay defaults, which ask; agents are the machine's matter."""
    (tmp_path / "nightcrew.toml").write_text(init_text((), agents))
    config = load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)
    assert (config.limits, config.roster, config.digest) == (Limits(), (), "")


@pytest.mark.parametrize("agents", [(), (CLAUDE,)])
def test_what_a_first_file_offers_as_a_comment_is_right_too(tmp_path: Path, agents: tuple[Agent, ...]) -> None:
    """Whoever takes the # away gets a file that loads, with the numbers that hold anyway."""
    text = init_text((), agents)
    settings = [line.removeprefix("# ") for line in text.splitlines() if "= " in line or line.startswith(("# [", "["))]
    (tmp_path / "nightcrew.toml").write_text("\n".join(settings))
    config = load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)
    default = Limits()
    assert config.limits.wall.value == default.wall.value
    assert (config.limits.usd.value, config.limits.turns.value) == (default.usd.value, default.turns.value)
    assert config.limits.turn_s == default.turn_s
    assert config.settings.verify.timeout_s == Verify().timeout_s

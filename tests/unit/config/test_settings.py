"""Every setting works, is shown, and stands in the reference with its true default."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from nightcrew.config.build import Config, load, resolved
from nightcrew.config.layers import ConfigError, KindInfo
from nightcrew.config.table import AGENT, TABLES
from nightcrew.core.roster import AgentRole, Answers

KINDS = {"command": KindInfo((Answers.Edit,), argv=True, model=False), "claude": KindInfo(tuple(Answers), money=True)}
REFERENCE = Path(__file__).parents[3] / "docs/settings.md"

WRITTEN = {
    "pipeline.plan": "false",
    "pipeline.graft": "true",
    "pipeline.implementers": "3",
    "pipeline.max_parallel": "2",
    "pipeline.judges": "5",
    "pipeline.deliberate_rounds": "2",
    "pipeline.advise": "true",
    "pipeline.advisors": "1",
    "pipeline.on_leak": '"fail"',
    "pipeline.reviewers": "0",
    "pipeline.lenses": '["speed"]',
    "review.incomplete": '"warn"',
    "pipeline.review_rounds": "1",
    "pipeline.gate_fix_rounds": "0",
    "pipeline.land_rounds": "9",
    "pipeline.conflict_rounds": "1",
    "pipeline.continuations": "0",
    "pipeline.iterations": "2",
    "verify.setup": '["a b"]',
    "verify.check": '["c", "d"]',
    "verify.e2e": '["e"]',
    "verify.pre_gate": '["p"]',
    "verify.gate": '["g \\"q\\""]',
    "verify.timeout": '"2m"',
    "verify.base": '"green"',
    "verify.copy": '[".env"]',
    "verify.keep": '["node_modules/**"]',
    "verify.writable": '["~/.cache/uv"]',
    "verify.env": '["CI"]',
    "land.mode": '"push"',
    "land.target": '"main"',
    "land.remote": '"up"',
    "limits.usd": "2.5",
    "limits.tokens": "5000000",
    "limits.turns": '"none"',
    "limits.wall": '"8h"',
    "limits.turn": '"90s"',
    "limits.first_output": "0.5",
    "limits.idle": '"3m"',
    "recovery.dev_fix": "false",
    "recovery.ceiling": "4",
    "recovery.pause": "0.25",
    "recovery.pause_max": '"2m"',
    "recovery.max_sleep": '"1d"',
    "sandbox.mode": '"unshare"',
    "sandbox.network": "false",
    "notify.command": '["beep", "{summary}"]',
    "machine.max_turns": "2",
}
"""A value for every setting that is not its default, as it is shown afterwards."""


def machine(tmp_path: Path, text: str) -> Config:
    """Load this text as the machine's file."""
    (tmp_path / "config.toml").write_text(text)
    return load(None, machine_file=tmp_path / "config.toml", kinds=KINDS)


def defaults(tmp_path: Path) -> dict[str, str]:
    """What is shown when nothing is written."""
    return {row.key: row.value for row in resolved(load(None, machine_file=tmp_path / "config.toml", kinds=KINDS))}


def test_the_list_above_has_every_setting_and_no_default(tmp_path: Path) -> None:
    """A new setting is not done before a test writes it."""
    kept = {f"{table}.{key}" for table, settings in TABLES.items() for key in settings}
    assert set(WRITTEN) == kept
    assert not {key for key, value in defaults(tmp_path).items() if WRITTEN.get(key) == value}


@pytest.mark.parametrize("key", WRITTEN)
def test_a_setting_that_is_written_changes_itself_and_nothing_else(tmp_path: Path, key: str) -> None:
    """Each key reaches its own field of the core, and the report says the value and the line."""
    before = defaults(tmp_path)
    table, name = key.split(".")
    rows = {row.key: row for row in resolved(machine(tmp_path, f"[{table}]\n{name} = {WRITTEN[key]}\n"))}
    assert rows[key].value == WRITTEN[key]
    assert rows[key].origin == f"{tmp_path / 'config.toml'}:2"
    assert {k: row.value for k, row in rows.items() if k != key} == {k: v for k, v in before.items() if k != key}


@pytest.mark.parametrize("key", WRITTEN)
def test_a_setting_can_be_given_on_the_command_line(tmp_path: Path, key: str) -> None:
    """The same words reach the same field; a word needs no quotes there."""
    typed = WRITTEN[key] if WRITTEN[key].startswith("[") else WRITTEN[key].strip('"')
    config = load(None, machine_file=tmp_path / "config.toml", kinds=KINDS, overrides={key: typed})
    (row,) = [row for row in resolved(config) if row.key == key]
    assert (row.value, row.origin) == (WRITTEN[key], "command line")


ONE = '[[agents]]\nid = "{}"\nkind = "claude"\nanswers = {}\n'


def test_a_competition_without_a_judge_is_refused(tmp_path: Path) -> None:
    """Ruling 46: nobody can answer in a given form: said at the setting's line, before anybody is paid."""
    with pytest.raises(ConfigError) as told:
        machine(tmp_path, ONE.format("x", '["edit"]') + "[pipeline]\nimplementers = 2\n")
    assert "there is nobody to judge a competition" in str(told.value)


def test_more_implementers_than_agents_are_noted(tmp_path: Path) -> None:
    """Agents repeat where there are fewer than implementers, and that is said once."""
    two = ONE.format("x", '["edit", "structured"]') + ONE.format("y", '["edit"]')
    notes = machine(tmp_path, two + "[pipeline]\nimplementers = 3\n").notes
    assert "3 implementers and 2 agents that can: x, y work more than once" in notes
    assert not any("implementers" in note for note in machine(tmp_path, two + "[pipeline]\nimplementers = 2\n").notes)


def test_a_branch_that_looks_like_a_number_is_a_name(tmp_path: Path) -> None:
    """`--target 1.0` is the branch 1.0."""
    config = load(None, machine_file=tmp_path / "config.toml", kinds=KINDS, overrides={"land.target": "1.0"})
    assert config.settings.land.target == "1.0"


def test_the_report_has_agents_and_roles_but_no_value_of_an_environment(tmp_path: Path) -> None:
    """Law 14: what an agent's variables hold is nobody's reading."""
    config = machine(tmp_path, '[[agents]]\nid = "x"\nkind = "claude"\nmodel = "m"\nenv = { A = "hunter2" }\n')
    rows = {row.key: row.value for row in resolved(config)}
    assert rows["agents.x"] == "x · claude · m · account x"
    assert {row.key: row.origin.rpartition(":")[2] for row in resolved(config)}["agents.x"] == "1"
    assert rows["roles.advisor"] == '["x"]'
    assert rows["roles.developer"] == '["x"]'
    assert "hunter2" not in str(rows)


# ── the reference ────────────────────────────────────────────────────────────────────────────────────────────────────


def described() -> dict[str, list[str]]:
    """The cells behind each key in the tables of the reference."""
    rows = re.findall(r"^\| `([a-z_.0-9]+)` \|(.*)\|$", REFERENCE.read_text(), re.MULTILINE)
    assert len(rows) == len({key for key, _ in rows})
    return {key: [cell.strip() for cell in cells.split("|")] for key, cells in rows}


def test_the_reference_has_exactly_the_settings_there_are() -> None:
    """No setting without a line, no line without a setting."""
    keys = {f"{table}.{key}" for table, settings in TABLES.items() for key in settings}
    assert set(described()) == keys | {f"agents.{key}" for key in AGENT} | {f"roles.{role}" for role in AgentRole}


def test_the_references_defaults_are_the_true_ones(tmp_path: Path) -> None:
    """What the table says is what holds when nothing is written."""
    told = {key: cells[0].strip("`") for key, cells in described().items() if len(cells) == 2 and cells[0]}
    overrides = {key: value.strip('"') for key, value in told.items()}
    config = load(None, machine_file=tmp_path / "config.toml", kinds=KINDS, overrides=overrides)
    assert {row.key: row.value for row in resolved(config)} == defaults(tmp_path)
    assert set(told) == {key for key, value in defaults(tmp_path).items() if value}


def test_the_references_examples_load(tmp_path: Path) -> None:
    """Both files of the reference, each in its place, without a mistake or a warning."""
    blocks = re.findall(r"```toml\n(.*?)```", REFERENCE.read_text(), re.DOTALL)
    mine, theirs = blocks
    assert all(isinstance(tomllib.loads(block), dict) for block in blocks)
    (tmp_path / "config.toml").write_text(mine)
    (tmp_path / "nightcrew.toml").write_text(theirs)
    config = load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)
    values: dict[str, Any] = {"gate": config.settings.verify.gate, "setup": config.settings.verify.setup}
    assert values == {"gate": ("make check",), "setup": ("uv sync",)}
    assert [agent.account for agent in config.roster] == ["claude", "work", "ruff"]
    assert not config.warnings

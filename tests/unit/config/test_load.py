"""Layers, defaults and rights: what `load` makes of files that are right."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from nightcrew.config.build import Config, load, machine_file
from nightcrew.config.layers import ConfigError, KindInfo, Origin
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, AgentRole, Answers, SecretRef
from nightcrew.core.settings import Limit, Limits, Settings

ALL = tuple(Answers)
KINDS = {
    "claude": KindInfo(ALL, money=True),
    "command": KindInfo((Answers.Edit,), argv=True, model=False),
    "scripted": KindInfo(ALL, argv=True),
}
GATE = '[verify]\ngate = "make check"\n'
THREE = """
[[agents]]
id = "a"
kind = "claude"
[[agents]]
id = "b"
kind = "claude"
[[agents]]
id = "ruff"
kind = "command"
command = ["ruff", "check", "--fix", "."]
price = 0
"""


def read(tmp_path: Path, repository: str = "", machine: str = "", overrides: Mapping[str, str] | None = None) -> Config:
    """Load these two texts as the two files."""
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "config.toml").write_text(machine)
    (tmp_path / "nightcrew.toml").write_text(repository)
    return load(tmp_path, machine_file=tmp_path / "home" / "config.toml", kinds=KINDS, overrides=overrides)


def chain(config: Config, role: AgentRole) -> list[str]:
    """The chain of a role as plain texts."""
    return list(map(str, config.roles.chain(role)))


def test_no_file_at_all_is_the_defaults_and_the_roster_that_was_found(tmp_path: Path) -> None:
    """With nothing written, what the machine has is used, and every number is the core's default."""
    found = (Agent(id=AgentId("claude"), kind="claude", account="mine", answers=ALL),)
    config = load(tmp_path, machine_file=tmp_path / "none" / "config.toml", kinds=KINDS, found=found)
    assert (config.roster, config.settings, config.limits) == (found, Settings(), Limits())
    assert (config.max_turns, config.digest, config.origins) == (4, "", {})
    assert chain(config, AgentRole.Reviewer) == ["claude"]
    assert [note.split(":")[0] for note in config.notes] == ["no gate is set"]


def test_a_file_that_names_agents_replaces_the_found_roster(tmp_path: Path) -> None:
    """What was found on PATH counts only when no file names agents."""
    (tmp_path / "config.toml").write_text(THREE)
    config = load(None, machine_file=tmp_path / "config.toml", kinds=KINDS, found=(Agent(id=AgentId("x"), kind="claude"),))
    assert [agent.id for agent in config.roster] == ["a", "b", "ruff"]


def test_tables_merge_by_key_and_lists_come_whole_from_the_higher_layer(tmp_path: Path) -> None:
    """Repository over machine over defaults, command line over all; a list is never concatenated."""
    machine = THREE + '[verify]\ngate = ["old", "older"]\ntimeout = "5m"\n[limits]\nusd = 3\nturns = 9\n'
    repository = '[verify]\ngate = "make check"\n[limits]\nturns = "none"\n'
    config = read(tmp_path, repository, machine, {"limits.usd": "7.5", "land.mode": "local"})
    assert config.settings.verify.gate == ("make check",)
    assert config.settings.verify.timeout_s == 300.0
    assert config.limits.usd == Limit(7.5, mine=True)
    assert config.limits.turns == Limit(None, mine=True)
    assert config.limits.wall == Limits().wall
    assert config.settings.land.mode == "local"
    assert config.origins["verify.gate"] == Origin("nightcrew.toml", 2)
    assert config.origins["verify.timeout"].line == machine.splitlines().index('timeout = "5m"') + 1
    assert config.origins["limits.usd"] == Origin("command line")
    assert "verify.gate.1" not in config.origins


def test_the_agents_of_the_higher_layer_replace_the_lower_ones_whole(tmp_path: Path) -> None:
    """[[agents]] is a list like any other."""
    config = read(tmp_path, '[[agents]]\nid = "only"\nkind = "claude"\n', THREE)
    assert [agent.id for agent in config.roster] == ["only"]


def test_every_field_of_an_agent_arrives(tmp_path: Path) -> None:
    """Secrets stay references; answers, price and account are what the entry says."""
    text = """
[[agents]]
id = "c"
kind = "scripted"
model = "m"
account = "work"
command = ["prog", ""]
answers = ["structured", "edit"]
price = 1.5
[agents.env]
PLAIN = "~/x"
TOKEN = { env = "T" }
KEY.command = "pass show k"
"""
    config = read(tmp_path, text)
    assert config.roster == (
        Agent(
            id=AgentId("c"),
            kind="scripted",
            model="m",
            account="work",
            command=("prog", ""),
            answers=(Answers.Edit, Answers.Structured),
            price=1.5,
            env={"PLAIN": "~/x", "TOKEN": SecretRef(env="T"), "KEY": SecretRef(command="pass show k")},
        ),
    )


def test_agents_of_one_login_cool_together_unless_they_bring_their_own(tmp_path: Path) -> None:
    """Without `account`, two entries of one CLI share its login; a program or variables of its own set an entry apart."""
    config = read(tmp_path, THREE + '[[agents]]\nid = "w"\nkind = "claude"\nenv = { CLAUDE_CONFIG_DIR = "~/.w" }\n')
    assert [agent.account for agent in config.roster] == ["claude", "claude", "ruff", "w"]


# ── roles ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_roles_that_nobody_named_follow_the_developer(tmp_path: Path) -> None:
    """Rulings 26 and 46: the developer's list for most, rotated by one for judge and reviewer, cut to who can answer."""
    config = read(tmp_path, GATE + THREE)
    assert chain(config, AgentRole.Developer) == ["a", "b", "ruff"]
    assert chain(config, AgentRole.Planner) == ["a", "b"]
    assert chain(config, AgentRole.Synthesizer) == ["a", "b"]
    assert chain(config, AgentRole.Committer) == ["a", "b"]
    assert chain(config, AgentRole.Reviewer) == ["b", "a"]
    assert chain(config, AgentRole.Judge) == ["b", "a"]
    assert chain(config, AgentRole.Advisor) == ["a", "b"]
    assert not config.roles.fixer_set
    assert chain(config, AgentRole.Fixer) == ["a", "b", "ruff"]
    assert not config.notes


def test_a_named_role_is_taken_as_it_is(tmp_path: Path) -> None:
    """F05: a plain id is a chain of one; the synthesizer follows the planner; a named fixer is marked as named."""
    config = read(tmp_path, THREE + '[roles]\nfixer = "ruff"\nplanner = ["b"]\ndeveloper = ["b", "a"]\n')
    assert config.roles.fixer_set
    assert chain(config, AgentRole.Fixer) == ["ruff"]
    assert chain(config, AgentRole.Synthesizer) == ["b"]
    assert chain(config, AgentRole.Reviewer) == ["a", "b"]
    assert chain(config, AgentRole.Committer) == ["b", "a"]


def test_duplicate_ids_in_a_chain_count_at_their_first_place_and_are_warned_of(tmp_path: Path) -> None:
    """F17: the first place counts, with a warning that names the line of the second."""
    config = read(tmp_path, THREE + '[roles]\nfixer = ["ruff",\n"a",\n"ruff"]\n')
    assert chain(config, AgentRole.Fixer) == ["ruff", "a"]
    (warning,) = config.warnings
    assert (warning.line, '"ruff"' in warning.text) == (THREE.count("\n") + 4, True)


ONLY_EDITS = GATE + '[[agents]]\nid = "ruff"\nkind = "command"\ncommand = ["ruff"]\nprice = 0\n'


def test_a_role_that_nobody_can_take_is_absent_and_noted_once(tmp_path: Path) -> None:
    """Rulings 46: planning off, nobody reviews, the message is the title: one note each; nothing refused."""
    config = read(tmp_path, ONLY_EDITS)
    assert set(config.roles.chains) == {AgentRole.Developer, AgentRole.Fixer}
    assert [note.split(":")[1].split("(")[0].strip() for note in config.notes] == [
        "planning is off",
        "nobody reviews",
        "the commit message is the task's title",
    ]


def test_what_was_switched_off_is_not_noted_as_missing(tmp_path: Path) -> None:
    """Who wants no plan and no review is not told that nobody can do them."""
    config = read(tmp_path, ONLY_EDITS + "[pipeline]\nplan = false\nreviewers = 0\n")
    assert len(config.notes) == 1


def test_nobody_who_can_edit_is_said(tmp_path: Path) -> None:
    """A roster without an implementer loads (other verbs need the settings) and says so."""
    config = read(tmp_path, GATE + '[[agents]]\nid = "t"\nkind = "claude"\nanswers = ["text"]\n')
    assert AgentRole.Developer not in config.roles.chains
    assert config.notes == ("no agent can edit files: there is nobody to implement a task",)


def test_a_run_without_a_gate_is_noted(tmp_path: Path) -> None:
    """Law 7 is worth what the gate is worth: where none is set, that is said."""
    without, with_one = (read(tmp_path, text + ONLY_EDITS.removeprefix(GATE)).notes for text in ("", GATE))
    assert set(without) - set(with_one) == {
        "no gate is set: nothing is tested before it lands (verify.gate; nightcrew init proposes one)"
    }


# ── limits and money ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_limit_is_the_operators_only_where_it_is_set(tmp_path: Path) -> None:
    """Rulings 30: each value carries its origin, also when it is set to what the default says."""
    config = read(tmp_path, "[limits]\nturns = 200\n")
    assert config.limits.turns == Limit(200, mine=True)
    assert config.limits.usd == Limit(25.0, mine=False)


def test_a_default_bound_on_money_that_cannot_bind_is_noted(tmp_path: Path) -> None:
    """Rulings 30: an agent with neither figure nor price: `turns` binds, said once."""
    config = read(tmp_path, THREE.replace("price = 0\n", ""))
    assert [note for note in config.notes if "no money is reported by ruff" in note]


def test_the_operators_bound_on_money_that_cannot_bind_is_refused_unless_another_binds(tmp_path: Path) -> None:
    """Rulings 30: exit 2 at start unless turns or tokens is set too."""
    text = THREE.replace("price = 0\n", "") + "[limits]\nusd = 5\n"
    with pytest.raises(ConfigError, match=r"limits\.usd cannot bind: no money is reported by ruff"):
        read(tmp_path, text)
    assert read(tmp_path, text + "tokens = 1000\n").limits.tokens == Limit(1000, mine=True)
    with pytest.raises(ConfigError, match=r"limits\.usd cannot bind"):
        read(tmp_path, text + 'turns = "none"\n')
    assert read(tmp_path, THREE + "[limits]\nusd = 5\n").limits.usd.mine


# ── sandbox ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_only_the_machine_or_the_command_line_open_full_rights(tmp_path: Path) -> None:
    """Rulings 34: without a file-system sandbox only when the machine's file or the command line says so."""
    assert not read(tmp_path).open_rights
    assert read(tmp_path, machine='[sandbox]\nmode = "unshare"\n').open_rights
    assert read(tmp_path, overrides={"sandbox.mode": "off"}).open_rights
    assert read(tmp_path, '[sandbox]\nmode = "auto"\n', '[sandbox]\nmode = "off"\n').open_rights
    assert not read(tmp_path, machine='[sandbox]\nmode = "off"\n', overrides={"sandbox.mode": "bwrap"}).open_rights


@pytest.mark.parametrize(
    ("machine", "repository"),
    [
        ("", 'mode = "off"'),
        ("", 'mode = "unshare"'),
        ('mode = "off"', 'mode = "off"'),
        ('mode = "bwrap"', 'mode = "auto"'),
        ("network = false", "network = true"),
    ],
)
def test_a_repository_cannot_weaken_the_sandbox(tmp_path: Path, machine: str, repository: str) -> None:
    """A file that anybody who pushes can change asks for more shelter, never for less."""
    with pytest.raises(ConfigError, match=r"nightcrew.toml:2: sandbox\.\w+: a repository cannot"):
        read(tmp_path, f"[sandbox]\n{repository}\n", f"[sandbox]\n{machine}\n")


def test_a_repository_may_ask_for_more_shelter(tmp_path: Path) -> None:
    """Stricter than the machine is fine."""
    config = read(tmp_path, '[sandbox]\nmode = "bwrap"\nnetwork = false\n', '[sandbox]\nmode = "off"\n')
    assert (config.settings.shelter.mode, config.settings.shelter.network) == ("bwrap", False)


# ── where the files are ──────────────────────────────────────────────────────────────────────────────────────────────


def test_the_machines_file_follows_the_desktop_rules() -> None:
    """XDG_CONFIG_HOME when it is absolute (a relative one is to be ignored), else ~/.config."""
    assert machine_file({"HOME": "/h", "XDG_CONFIG_HOME": "/c"}) == Path("/c/nightcrew/config.toml")
    assert machine_file({"HOME": "/h", "XDG_CONFIG_HOME": "c"}) == Path("/h/.config/nightcrew/config.toml")
    assert machine_file({"HOME": "/h"}) == Path("/h/.config/nightcrew/config.toml")


def test_reading_changes_no_file(tmp_path: Path) -> None:
    """F16: the settings file is byte-identical afterwards, with its odd line ends and its byte order mark."""
    raw = b"\xef\xbb\xbf[verify]\r\ngate = 'x'\r\n"
    (tmp_path / "nightcrew.toml").write_bytes(raw)
    config = load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)
    assert config.settings.verify.gate == ("x",)
    assert (tmp_path / "nightcrew.toml").read_bytes() == raw

"""Values of agents' environments, looked up when they are used, by real commands."""

from pathlib import Path

import pytest

from nightcrew.config.values import environments
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent, SecretRef
from nightcrew.errors import UserError

ENV = {"HOME": "/home/me", "T": "from-env", "PATH": "/usr/bin:/bin"}


def agent(**env: str | SecretRef) -> Agent:
    """An agent with these variables."""
    return Agent(id=AgentId("x"), kind="command", env=env)


def test_texts_variables_and_commands_become_values(tmp_path: Path) -> None:
    """A leading ~/ is HOME; a command's line end is not a part of its value; only references count as secrets."""
    one = agent(A="~/x", B="a~/b", C=SecretRef(env="T"), D=SecretRef(command="printf 'se cret\\n'"))
    found, secrets = environments([one], ENV, cwd=tmp_path)
    assert found == {"x": {"A": "/home/me/x", "B": "a~/b", "C": "from-env", "D": "se cret"}}
    assert secrets == {"from-env", "se cret"}


def test_a_command_that_two_agents_name_is_asked_once(tmp_path: Path) -> None:
    """A password manager that asks for a fingerprint does so once."""
    ref = SecretRef(command="echo x >> log; echo value")
    environments([agent(A=ref), agent(A=ref, B=ref)], ENV, cwd=tmp_path)
    assert (tmp_path / "log").read_text() == "x\n"


@pytest.mark.parametrize(
    ("ref", "line"),
    [
        (SecretRef(env="GONE"), 'agent "x": no value for K: GONE is not set (export GONE)'),
        (SecretRef(command="echo no key >&2; exit 3"), "gave no value, exit code 3 (no key)"),
        (SecretRef(command="true"), "`true` gave no value, exit code 0 (try it in a shell)"),
        (SecretRef(command="sleep 60"), "`sleep 60` gave no value within 0.2 s"),
    ],
)
def test_a_value_that_cannot_be_had_is_one_line(tmp_path: Path, ref: SecretRef, line: str) -> None:
    """Which agent, which variable, what was tried; never half a value."""
    with pytest.raises(UserError) as caught:
        environments([agent(K=ref)], ENV, cwd=tmp_path, timeout_s=0.2 if "sleep" in ref.command else 60)
    assert line in str(caught.value)
    assert str(caught.value).startswith('agent "x":')
    assert len(str(caught.value).splitlines()) == 1

"""Which agents there are and where their programs lie."""

import inspect
import sys
from pathlib import Path

import pytest

from nightcrew.agents import acp, base, catalog, claude, codex, command, gemini, mini, opencode, qwen, scripted
from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent

CHECKED: tuple[base.Adapter, ...] = (acp, claude, codex, command, gemini, mini, opencode, qwen, scripted)
"""The type checker holds these modules to the protocol."""


def program(folder: Path, name: str, mode: int = 0o755) -> str:
    """A file in `folder` that could be started."""
    folder.mkdir(exist_ok=True)
    file = folder / name
    file.write_text("#!/bin/sh\nexit 99\n")
    file.chmod(mode)
    return str(file)


def agent(kind: str, *argv: str, program: str = "") -> Agent:
    """An entry of the roster."""
    return Agent(id=AgentId("a"), kind=kind, command=argv, program=program)


@pytest.mark.parametrize("kind", sorted(catalog.kinds()))
def test_every_kind_is_an_adapter(kind: str) -> None:
    """A line of the catalog names a module with all that an adapter has; the type checker compares the signatures."""
    adapter = catalog.adapter(kind)
    assert isinstance(adapter, base.Adapter)
    for name in ("command", "judge"):
        wanted = inspect.signature(getattr(base.Adapter, name)).parameters
        assert len(inspect.signature(getattr(adapter, name)).parameters) == len(wanted) - 1


def test_every_adapter_is_in_the_catalog() -> None:
    """An adapter module that nobody can ask for is a mistake."""
    assert set(map(id, CHECKED)) == {id(catalog.adapter(kind)) for kind in catalog.kinds()}


def test_a_program_is_found_on_path_and_nothing_is_started(tmp_path: Path) -> None:
    """The first folder of PATH that has it wins; a relative folder of PATH is passed over."""
    first = program(tmp_path / "one", "claude")
    program(tmp_path / "two", "claude")
    assert catalog.resolve(agent("claude"), f".:{tmp_path / 'one'}:{tmp_path / 'two'}").program == first


def test_the_program_of_before_is_asked_first(tmp_path: Path) -> None:
    """A resumed run takes the program it began with; if that is gone, the one on PATH."""
    old, new = program(tmp_path / "old", "claude"), program(tmp_path / "new", "claude")
    assert catalog.resolve(agent("claude", program=old), str(tmp_path / "new")).program == old
    Path(old).unlink()
    assert catalog.resolve(agent("claude", program=old), str(tmp_path / "new")).program == new


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (agent("claude"), "no program claude found on PATH"),
        (agent("command", "nope", "--fix"), "no program nope found on PATH"),
        (agent("command", "/nope/tool"), "no program /nope/tool found"),
        (agent("command"), "agent 'a' of kind 'command' has no command"),
        (agent("scripted", "/nope/script.toml"), "/nope/script.toml cannot be read"),
        (agent("wizard"), f"there is no kind of agent called 'wizard'; there are {', '.join(catalog.kinds())}"),
    ],
)
def test_what_is_missing_is_said_in_one_line(entry: Agent, words: str, tmp_path: Path) -> None:
    """There is no program, and one line says what was looked for."""
    found = catalog.resolve(entry, str(tmp_path))
    assert (found.program, found.why_not) == ("", words)


def test_a_file_that_cannot_be_started_is_named(tmp_path: Path) -> None:
    """A program without permission to execute is told from a missing one."""
    file = program(tmp_path / "bin", "tool", 0o644)
    assert catalog.resolve(agent("command", "tool"), str(tmp_path / "bin")).why_not == f"{file} is not executable"
    assert catalog.resolve(agent("command", file), "").why_not == f"{file} is not executable"


def test_a_file_of_the_workspace_is_taken_at_its_word() -> None:
    """`tools/fix` means a file of the workspace, which exists only when the turn begins."""
    assert catalog.resolve(agent("command", "tools/fix"), "").program == "tools/fix"


def test_a_tilde_is_the_home() -> None:
    """`~/bin/fix` lies in the home, not in the workspace: what is missing there is said before anybody is paid."""
    assert catalog.resolve(agent("command", "~/nope/fix"), "").why_not == f"no program {Path.home()}/nope/fix found"


def test_the_player_runs_on_our_own_interpreter(tmp_path: Path) -> None:
    """A scripted agent needs its script and nothing on PATH."""
    script = tmp_path / "script.toml"
    script.write_text("turn = []\n")
    assert catalog.resolve(agent("scripted", str(script)), "").program == sys.executable


def test_a_roster_without_configuration(tmp_path: Path) -> None:
    """Only programs of the catalog that are there make a roster; they can do everything a role asks."""
    assert catalog.found(str(tmp_path)) == []
    assert {"claude", "codex"} <= set(catalog.looked_for())
    file = program(tmp_path / "bin", "claude")
    (only,) = catalog.found(str(tmp_path / "bin"))
    assert (only.id, only.kind, only.program) == ("claude", "claude", file)
    assert only.answers == catalog.kinds()["claude"].answers

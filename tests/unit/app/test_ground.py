"""What `doctor` says of an agent's program."""

from pathlib import Path

import pytest

from nightcrew.app import ground


def told(folder: Path, said: str, **env: str) -> str:
    """What the check of a `qwen` that says this version reads."""
    program = folder / "bin" / "qwen"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho {said}\n")
    program.chmod(0o755)
    mine = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(folder), "NIGHTCREW_HOME": str(folder / "state"), **env}
    checks, _ = ground.doctor(folder, mine)
    return next(check.text for check in checks if check.name == "agent qwen")


def test_a_version_that_is_known_to_misbehave_is_warned_of(tmp_path: Path) -> None:
    """The release that npm takes under an old Node is named as such."""
    assert "version 0.15.10 (tries again without end" in told(tmp_path, "0.15.10")


@pytest.mark.parametrize(("env", "word"), [({}, "unknown"), ({"OPENAI_API_KEY": "x"}, "known")])
def test_a_login_is_known_or_unknown(tmp_path: Path, env: dict[str, str], word: str) -> None:
    """A key in the environment shows one; nothing found is not nobody."""
    text = told(tmp_path, "0.24.4", **env)
    assert f"version 0.24.4, login {word}; sessions, chosen ids" in text

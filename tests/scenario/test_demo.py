"""The demo is the first thing a newcomer sees: it must land, with every scene it promises, and clean up after a kill -9."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENES = ("bob → cleo", "gate red", "conflict in stack.py", "landed on main", "Say how many items a stack holds")


@pytest.mark.parametrize("how", [[], ["--crash"]])
def test_the_demo_lands(tmp_path: Path, how: list[str]) -> None:
    """`nightcrew demo` ends with exit code 0 and shows a handover, a red gate, a conflict and the landed history; with --crash too."""
    argv = [sys.executable, "-m", "nightcrew", "demo", *how]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=120)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [scene for scene in SCENES if scene not in ended.stdout] == []

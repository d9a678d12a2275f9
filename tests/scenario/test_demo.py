"""The demo is the first thing a newcomer sees: it must land, with every scene it promises, and clean up after a kill -9."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCENES = (
    "judge-2 leans to A: true",
    "A wins: it has the most votes (3 of 3 judges, votes A 2, B 0, C 1)",
    "fix: bob → dan (quota",
    "fix at gate-fix: dan → cleo",
    "FinalValidation failed: gate `python3 style.py` is red",
    "dev-fix done",
    "back to FinalValidation at level 1",
    "recovered at attempt 1",
    "conflict in stack.py",
    "landed on main",
    "Say how many items a stack holds",
)


@pytest.mark.parametrize("how", [[], ["--crash"]])
def test_the_demo_lands(tmp_path: Path, how: list[str]) -> None:
    """`nightcrew demo` ends with exit code 0, its scenes in this order: a split and its tally, handovers in a review's fix and at the gate, a recovery."""
    argv = [sys.executable, "-m", "nightcrew", "demo", *how]
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(argv, capture_output=True, text=True, check=False, env=env, timeout=120)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "follow a script" in ended.stdout.splitlines()[0]
    told = ended.stdout
    for scene in SCENES:
        _, found, told = told.partition(scene)
        assert found, f"{scene} does not come in its turn:\n{ended.stdout}"

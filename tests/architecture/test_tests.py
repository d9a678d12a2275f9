"""The tests themselves: nothing is patched, and nothing of the person at the keyboard reaches them."""

import ast
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import hypothesis

from architecture.sources import ROOT, tree

PATCHING = {"monkeypatch", "mocker", "mock"}


def names(path: Path) -> Iterator[str]:
    """Every name that a test file takes as an argument, imports or uses."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.ImportFrom | ast.Import):
            yield from (part for alias in node.names for part in alias.name.split("."))


def test_no_test_patches_anything() -> None:
    """A fake is a model of the world that ships; no test takes or imports a patching tool."""
    files = sorted((ROOT / "tests").rglob("*.py"))
    assert files
    assert [str(path.relative_to(ROOT)) for path in files if PATCHING & set(names(path))] == []


def test_the_environment_is_our_own() -> None:
    """Tests see a HOME below the temporary folder and no variable of an agent, a proxy or a login."""
    home = Path(os.environ["HOME"])
    assert home.is_relative_to(tempfile.gettempdir())
    private = ("HOME", "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "NIGHTCREW_HOME")
    assert all(Path(os.environ[name]).is_relative_to(home) for name in private)
    foreign = [name for name in os.environ if name.endswith(("_API_KEY", "_TOKEN", "_proxy", "_PROXY"))]
    assert foreign == []


def test_git_is_sealed(tmp_path: Path) -> None:
    """git reads the tests' own config alone: a fixed person, and no setting of the system or of the user."""
    argv = ["git", "config", "--list", "--show-origin"]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60)
    origins = {line.split("\t")[0] for line in done.stdout.splitlines()}
    assert origins == {f"file:{os.environ['HOME']}/.gitconfig"}
    assert "user.name=Tester" in done.stdout


def test_property_tests_repeat_exactly() -> None:
    """A failing example is the same on every machine: no random seed, no store of earlier examples, no time limit."""
    used = hypothesis.settings()
    assert used.derandomize
    assert used.database is None
    assert used.deadline is None

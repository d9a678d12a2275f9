"""What a repository's own files tell about how it is tested: guesses for a first settings file, each with its reason."""

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple


class Guess(NamedTuple):
    """A value for one of `[verify]`'s lists, and the file it was read from."""

    value: str
    why: str


class Found(NamedTuple):
    """All guesses about a repository: commands that must be green, set-up of a new workspace, ignored files worth keeping."""

    gate: tuple[Guess, ...] = ()
    setup: tuple[Guess, ...] = ()
    keep: tuple[Guess, ...] = ()


def guess(repo_top: Path) -> Found:
    """Read the files that say how a project is tested; one that is broken or absent says nothing. Starts no program.

    A project's own word for "everything" (`make check`, `tox`) is the whole gate; else every tool found adds its command.
    """
    found = [look(repo_top) for look in _LOOKS]
    whole = next((one.gate for one in found if one.gate and one.gate[0].value in _EVERYTHING), None)
    gate = whole or tuple(line for one in found for line in one.gate)
    return Found(gate, tuple(g for one in found for g in one.setup), tuple(g for one in found for g in one.keep))


_EVERYTHING = ("make check", "make ci", "make verify", "tox")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(_text(path))
    except tomllib.TOMLDecodeError:
        return {}


def _makefile(top: Path) -> Found:
    name = next((name for name in ("GNUmakefile", "makefile", "Makefile") if (top / name).is_file()), "")
    targets = set(re.findall(r"^([A-Za-z][\w-]*)[ \t]*:(?!=)", _text(top / name), re.MULTILINE)) if name else set()
    whole = next((target for target in ("check", "ci", "verify") if target in targets), "")
    wanted = (whole,) if whole else tuple(target for target in ("lint", "test") if target in targets)
    return Found(tuple(Guess(f"make {target}", f'{name} has a target "{target}"') for target in wanted))


def _tox(top: Path) -> Found:
    return Found((Guess("tox", "there is a tox.ini"),)) if (top / "tox.ini").is_file() else Found()


def _python(top: Path) -> Found:
    project = _toml(top / "pyproject.toml")
    if not project:
        return Found()
    locked = (top / "uv.lock").is_file()
    run = "uv run " if locked else ""
    gate = []
    if "ruff" in project.get("tool", {}):
        gate.append(Guess(f"{run}ruff check .", "pyproject.toml sets up ruff"))
    if "mypy" in project.get("tool", {}):
        gate.append(Guess(f"{run}mypy", "pyproject.toml sets up mypy"))
    if "pytest" in _text(top / "pyproject.toml") or (top / "tests").is_dir():
        gate.append(Guess(f"{run}pytest -q" if locked else "python3 -m pytest -q", "pyproject.toml and its tests"))
    setup = (Guess("uv sync", "there is a uv.lock"),) if locked else ()
    return Found(tuple(gate), setup)


def _node(top: Path) -> Found:
    try:
        scripts = json.loads(_text(top / "package.json"))["scripts"]
        named = {name for name, line in scripts.items() if "no test specified" not in line}
    except (ValueError, TypeError, KeyError, AttributeError):
        return Found()
    lock, tool, setup = next(
        (one for one in _NODE_LOCKS if (top / one[0]).is_file()), ("package.json", "npm", "npm install")
    )
    wanted = ("check",) if "check" in named else ("lint", "typecheck", "test")
    gate = tuple(Guess(f"{tool} run {one}", f'package.json has a script "{one}"') for one in wanted if one in named)
    keep = (Guess("node_modules/**", "installed packages"),)
    return Found(gate, (Guess(setup, f"there is a {lock}"),), keep)


_NODE_LOCKS = (
    ("pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn", "yarn install --frozen-lockfile"),
    ("bun.lock", "bun", "bun install --frozen-lockfile"),
    ("package-lock.json", "npm", "npm ci"),
)


def _rust(top: Path) -> Found:
    if not (top / "Cargo.toml").is_file():
        return Found()
    return Found((Guess("cargo test", "there is a Cargo.toml"),), keep=(Guess("target/**", "built crates"),))


def _go(top: Path) -> Found:
    if not (top / "go.mod").is_file():
        return Found()
    return Found(tuple(Guess(line, "there is a go.mod") for line in ("go vet ./...", "go test ./...")))


def _pre_commit(top: Path) -> Found:
    if not (top / ".pre-commit-config.yaml").is_file():
        return Found()
    return Found((Guess("pre-commit run --all-files", "there is a .pre-commit-config.yaml"),))


_LOOKS: tuple[Callable[[Path], Found], ...] = (_makefile, _tox, _python, _node, _rust, _go, _pre_commit)

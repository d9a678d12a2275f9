"""What the architecture tests look at: the tracked files, the sources, their classes and functions."""

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/nightcrew"


@cache
def tracked() -> tuple[Path, ...]:
    """Every file in the repository's index that is also on disk, with absolute paths."""
    done = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    return tuple(path for name in done.stdout.split("\0") if name and (path := ROOT / name).is_file())


@cache
def sources() -> tuple[Path, ...]:
    """Every Python file of the package, in a fixed order."""
    return tuple(sorted(PACKAGE.rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    """The syntax tree of a file."""
    return ast.parse(path.read_text("utf-8"), str(path))


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Name and length in lines of each function of a file, its docstring and decorators not counted."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0]
            doc = first.end_lineno - first.lineno + 1 if ast.get_docstring(node) and first.end_lineno else 0
            yield f"{path.relative_to(ROOT)}:{node.name}", (node.end_lineno or node.lineno) - node.lineno + 1 - doc


def public_names(path: Path) -> Iterator[tuple[str, bool]]:
    """Each public name that a module defines at its top, and whether it is a class."""
    for node in tree(path).body:
        if isinstance(node, ast.ClassDef):
            yield node.name, True
        elif isinstance(node, ast.Assign):
            yield from ((target.id, False) for target in node.targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id, False

"""Where a program is, found as a shell finds it and without starting anything."""

import os
from typing import NamedTuple


class Resolved(NamedTuple):
    """A program's path, or in `why_not` one line on why there is none."""

    program: str
    why_not: str = ""


def program(names: tuple[str, ...], path: str) -> Resolved:
    """The first of `names` that can be started: an absolute name as it is, a bare one looked for on `path`.

    A name with a folder that is not absolute is taken at its word: it means a file of the workspace, which exists
    only when the turn begins.
    """
    passed = []
    for name in names:
        if os.sep in name and not os.path.isabs(name):
            return Resolved(name)
        for file in [name] if os.path.isabs(name) else _candidates(name, path):
            if os.path.isfile(file):
                if os.access(file, os.X_OK):
                    return Resolved(file)
                passed.append(file)
    if passed:
        return Resolved("", f"{passed[0]} is not executable")
    where = "" if all(map(os.path.isabs, names)) else " on PATH"
    return Resolved("", f"no program {' or '.join(dict.fromkeys(names))} found{where}")


def _candidates(name: str, path: str) -> list[str]:
    """The files that `name` could be; an empty or relative entry of PATH is passed over, a workspace must not add programs."""
    return [os.path.join(folder, name) for folder in path.split(os.pathsep) if os.path.isabs(folder)]


def readable(file: str) -> str:
    """Why `file` cannot be read; empty when it can."""
    if not os.path.isfile(file):
        return f"there is no file {file}"
    return "" if os.access(file, os.R_OK) else f"{file} cannot be read"

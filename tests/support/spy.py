"""A judge that is curious: writes down all that it can reach from its seat, one JSON line for each thing, for two seats to be compared.

    spy.py FOLDER...      the folders to look through, besides /proc, the environment, and git in the working folder

What no two processes have alike is left out (rulings 40): pids, inodes, times of access and of change of an inode, ids of mounts. A folder with a
`-` before its name is looked at without the times of its files: those of this very turn.
"""

import hashlib
import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

Seen = tuple[str, object]


def files(folder: str) -> Iterator[Seen]:
    """Every file below: kind, rights, size, time, content."""
    timed, top = not folder.startswith("-"), folder.removeprefix("-")
    for place, folders, names in os.walk(top):
        folders.sort()
        for path in sorted([place, *(os.path.join(place, name) for name in names)]):
            found = os.lstat(path)
            told = [stat.filemode(found.st_mode)]
            made = found.st_dev != os.lstat(".").st_dev  # what the sandbox made for this very turn
            told += [f"{found.st_mtime}"] if timed and not made else []
            if stat.S_ISLNK(found.st_mode):
                told += [os.readlink(path)]
            elif stat.S_ISREG(found.st_mode) and (timed or os.path.basename(path) in {"prompt.md", "checkout"}):
                told += [digest(path)]
            yield path, told


def digest(path: str) -> str:
    """What is in a file, or why it cannot be told."""
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError as error:
        return error.strerror or "unreadable"


def processes() -> Iterator[Seen]:
    """Every process, in order, without its pid."""
    for pid in sorted((name for name in os.listdir("/proc") if name.isdigit()), key=int):
        yield "process", {name: about(f"/proc/{pid}/{name}") for name in ("cmdline", "environ", "comm", "cwd", "exe")}


def about(path: str) -> object:
    """What a file of /proc holds or leads to, or why it cannot be told."""
    try:
        return os.readlink(path) if os.path.islink(path) else Path(path).read_text().split("\0")
    except OSError as error:
        return error.strerror


def mounts() -> Iterator[Seen]:
    """Every mount, without ids; not those that another test makes meanwhile in its own folder, where no seat is."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        words = [word for word in line.split()[3:] if not re.fullmatch(r"(shared|master|propagate_from):\d+", word)]
        if "/pytest-of-" not in words[1]:
            yield "mount", " ".join(words)


def history() -> Iterator[Seen]:
    """What git tells in the working folder: objects with their contents, refs, reflogs, settings."""
    asks = (
        "cat-file --batch-all-objects --batch",
        "for-each-ref",
        "reflog --all",
        "config --list",
        "log --all --format=fuller HEAD",
        "status",
    )
    for ask in asks:
        ended = subprocess.run(["git", *ask.split()], capture_output=True, check=False)
        yield f"git {ask}", (ended.stdout + ended.stderr).decode(errors="replace")


def main(folders: list[str]) -> None:
    """Look, and say it."""
    seen = [("environment", dict(os.environ)), *processes(), *mounts(), *history()]
    for folder in folders:
        seen += files(folder)
    for where, what in seen:
        sys.stdout.write(json.dumps([where, what]) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Builders of real repositories for tests, made with real git in the test's own sealed HOME."""

import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

Files = Mapping[str, str | bytes | None]
"""Paths and contents; None removes the file."""

ODD_NAMES = ("with space.txt", "grün/naïve ☃.txt", "line\nbreak.txt", "-dash.txt", ":(top)colon.txt", 'quo"te.txt', "star*.txt")
"""File names that a careless caller of git trips over."""


def git(path: Path, *args: str, stdin: str = "") -> str:
    """What git says in `path`, last line end cut off; the test fails with git's words if git fails."""
    done = subprocess.run(["git", *args], cwd=path, input=stdin, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, f"git {' '.join(args)}: {done.stderr}"
    return done.stdout.rstrip("\n")


def write(path: Path, files: Files) -> None:
    """Put files into a folder."""
    for name, content in files.items():
        place = path / name
        if content is None:
            place.unlink()
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content if isinstance(content, bytes) else content.encode())


def commit(path: Path, files: Files, message: str = "change") -> str:
    """Commit files on the current branch; returns the commit."""
    write(path, files)
    git(path, "add", "-A")
    git(path, "commit", "-q", "--allow-empty", "--no-verify", "-m", message)
    return git(path, "rev-parse", "HEAD")


def make_repo(path: Path, files: Files | None = None) -> Path:
    """A repository with branch `main` and one commit."""
    path.mkdir(parents=True, exist_ok=True)
    git(path, "init", "-q", "-b", "main")
    commit(path, files or {"note.txt": "one\ntwo\nthree\n", "src/code.py": "print(1)\n"}, "start")
    return path


def many_files(count: int) -> dict[str, str]:
    """Contents for a repository of `count` files in folders of a hundred."""
    return {f"d{n // 100}/f{n}.txt": f"{n}\n" for n in range(count)}


def bare_remote(source: Path, path: Path, name: str = "origin") -> Path:
    """A bare copy of `source`, configured there as its remote, with the remote's HEAD known."""
    git(source, "clone", "-q", "--bare", str(source), str(path))
    git(source, "remote", "add", name, str(path))
    git(source, "fetch", "-q", name)
    git(source, "remote", "set-head", name, "-a")
    return path


def move_remote(remote: Path, files: Files, message: str = "somebody else") -> str:
    """Somebody else pushes one commit to `main` of a bare remote; returns the commit."""
    other = remote.with_name(remote.name + ".other")
    if not other.exists():
        git(remote.parent, "clone", "-q", str(remote), str(other))
    git(other, "pull", "-q", "--ff-only", "origin", "main")
    made = commit(other, files, message)
    git(other, "push", "-q", "origin", "HEAD:main")
    return made


def shallow_clone(source: Path, path: Path) -> Path:
    """A clone of `source` with one commit of history."""
    git(source.parent, "clone", "-q", "--depth", "1", source.as_uri(), str(path))
    return path


def add_submodule(path: Path, source: Path, name: str = "lib") -> str:
    """Make `source` a submodule of the repository at `path`, checked out there; returns the commit."""
    git(path, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(source), name)
    return commit(path, {}, f"submodule {name}")


def add_hook(path: Path, name: str, script: str) -> Path:
    """Install a hook in the repository's own folder."""
    hook = path / ".git/hooks" / name
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{script}\n")
    hook.chmod(0o755)
    return hook


def shown(path: Path, commit_id: str, name: str) -> str:
    """A file's content in a commit."""
    return git(path, "show", f"{commit_id}:{name}") + "\n"


def refs(path: Path, prefix: str = "refs/") -> dict[str, str]:
    """All refs below a prefix with their commits."""
    said = git(path, "for-each-ref", "--format=%(refname) %(objectname)", prefix)
    return dict(line.split(" ") for line in said.splitlines())


def state(path: Path) -> tuple[dict[str, str], str, str, dict[str, bytes]]:
    """All that must not change in a checkout nobody may touch: branches and tags, HEAD, status, contents."""
    head = (path / ".git/HEAD").read_text()
    status = git(path, "status", "--porcelain", "-uall")
    files = {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file() and ".git" not in p.parts}
    ours = {name: commit_id for name, commit_id in refs(path).items() if not name.startswith("refs/nightcrew/")}
    return ours, head, status, files


def environment() -> dict[str, str]:
    """The environment of the test, as an operator's."""
    return dict(os.environ)


def forget(path: Path) -> None:
    """Remove a folder by hand, as a person would."""
    shutil.rmtree(path)

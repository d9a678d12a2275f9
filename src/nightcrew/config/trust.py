"""Trust in what a repository's file would execute, remembered for the user, never in the repository (rulings 35)."""

import fcntl
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from shlex import join
from typing import Any

from msgspec import DecodeError, Struct, ValidationError, json

EXECUTABLE = (
    "agents",
    "verify.setup",
    "verify.check",
    "verify.e2e",
    "verify.pre_gate",
    "verify.gate",
    "verify.env",
    "verify.writable",
    "notify.command",
)
"""What runs, what it is handed from the environment, and what it may write outside the repository."""

_KEPT = 32
"""Digests remembered for one repository: going back to an older branch does not ask again."""


class _Memory(Struct, frozen=True):
    """The file: digests by repository, the newest last."""

    repositories: dict[str, tuple[str, ...]] = {}


def executable(values: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of one file's values that need trust."""
    return {key: values[key] for key in EXECUTABLE if values.get(key)}


def digest(parts: Mapping[str, Any]) -> str:
    """Names exactly these parts; empty when there is nothing to trust."""
    return sha256(json.encode(dict(parts), order="sorted")).hexdigest() if parts else ""


def told(parts: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts as lines for a person: what would run, never a value of an agent's environment."""
    lines = []
    for key, value in parts.items():
        if key == "agents":
            lines += [f"agent {agent.id}: {join(agent.command) or agent.kind}" for agent in value]
            lines += [
                f"agent {a.id}: {ref.command}"
                for a in value
                for ref in a.env.values()
                if not isinstance(ref, str) and ref.command
            ]
        elif key == "notify.command":
            lines.append(f"{key}: {join(value)}")
        else:
            lines += [f"{key}: {one}" for one in value]
    return tuple(lines)


def trusted(home: Path, repo_id: str, digest: str) -> bool:
    """Whether these parts were trusted for this repository; nothing to trust is trusted. `home` is NIGHTCREW_HOME."""
    return not digest or digest in _read(home).repositories.get(repo_id, ())


def trust(home: Path, repo_id: str, digest: str) -> None:
    """Remember these parts as trusted for this repository. Two processes at once lose nothing; a crash leaves the old file."""
    if not digest:
        return
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _alone(home):
        known = _read(home).repositories
        mine = (*(one for one in known.get(repo_id, ()) if one != digest), digest)
        _write(home, _Memory({**known, repo_id: mine[-_KEPT:]}))


def _file(home: Path) -> Path:
    return home / "trust.json"


def _read(home: Path) -> _Memory:
    """What is remembered. A file that cannot be read trusts nobody, so the person is asked again."""
    try:
        return json.decode(_file(home).read_bytes(), type=_Memory)
    except (OSError, DecodeError, ValidationError):
        return _Memory()


def _write(home: Path, memory: _Memory) -> None:
    new = home / f"trust.json.{os.getpid()}"
    descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as file:
        file.write(json.format(json.encode(memory)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    new.replace(_file(home))


@contextmanager
def _alone(home: Path) -> Iterator[None]:
    """Hold the file's lock; the kernel frees it at death."""
    descriptor = os.open(home / "trust.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)

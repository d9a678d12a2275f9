"""Trust in what a repository's file would execute, remembered for the user, never in the repository (rulings 35)."""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from shlex import join
from typing import Any

from msgspec import json

from nightcrew.core.roster import SecretRef

_VERIFY = ("setup", "check", "e2e", "pre_gate", "gate", "env", "writable")
# What runs, what it is handed from the environment, and what it may write outside the repository.
EXECUTABLE = ("agents", *(f"verify.{key}" for key in _VERIFY), "notify.command")


def executed(values: Mapping[str, Any]) -> tuple[str, tuple[str, ...]]:
    """What of a file's values needs trust: a digest (empty: nothing does), and a line for each thing that would run, never an agent's values."""
    parts = {key: values[key] for key in EXECUTABLE if values.get(key)}
    lines = []
    for agent in parts.get("agents", ()):
        refs = [ref.command for ref in agent.env.values() if isinstance(ref, SecretRef) and ref.command]
        lines += [f"agent {agent.id}: {one}" for one in (join(agent.command) or agent.kind, *refs)]
    lines += [f"{key}: {one}" for key, value in parts.items() if key.startswith("verify.") for one in value]
    lines += [f"notify.command: {join(parts['notify.command'])}"] if "notify.command" in parts else []
    return sha256(json.encode(parts, order="sorted")).hexdigest() if parts else "", tuple(lines)


def trusted(home: Path, repo_id: str, digest: str) -> bool:
    """Whether these parts were trusted for this repository; nothing to trust is trusted. `home` is NIGHTCREW_HOME."""
    return not digest or (home / "trust" / f"{repo_id}-{digest}").exists()


def trust(home: Path, repo_id: str, digest: str) -> None:
    """Remember these parts as trusted for this repository: an empty file, so that nothing can be half written or lost."""
    for folder in (home, home / "trust"):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (home / "trust" / f"{repo_id}-{digest}").touch(mode=0o600)

"""Where everything of ours outside a repository lies. Loads nothing, so that verbs which only read stay instant."""

from collections.abc import Mapping
from pathlib import Path


def home_of(env: Mapping[str, str]) -> Path:
    """NIGHTCREW_HOME, else `nightcrew` in the person's folder for state."""
    if env.get("NIGHTCREW_HOME"):
        return Path(env["NIGHTCREW_HOME"])
    state = env.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path(env.get("HOME", "/")) / ".local/state") / "nightcrew"

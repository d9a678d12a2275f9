"""What the person's environment says of us. Loads nothing, so that verbs which only read stay instant."""

from collections.abc import Mapping
from pathlib import Path

from nightcrew.errors import UserError
from nightcrew.redact import Redactor

# A variable of the person's environment whose name ends so holds a value to redact.
SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL")


def home_of(env: Mapping[str, str]) -> Path:
    """Where everything of ours outside a repository lies: NIGHTCREW_HOME, else `nightcrew` in the person's folder for state."""
    if named := env.get("NIGHTCREW_HOME"):
        if not named.startswith("/"):
            raise UserError(f"NIGHTCREW_HOME is not an absolute path: {named}", "write it from / on")
        return Path(named)
    state = env.get("XDG_STATE_HOME", "")
    return (Path(state) if state.startswith("/") else Path(env.get("HOME", "/")) / ".local/state") / "nightcrew"


def hide(env: Mapping[str, str], *more: str) -> Redactor:
    """Takes out of a text what must not be written or shown anywhere: values of the environment, by the names they have, and `more`."""
    return Redactor({value for name, value in env.items() if name.upper().endswith(SECRET_NAMES)}.union(more))

"""Tell the person something happened, with the command the settings name; what goes wrong with it never stops a run."""

from collections.abc import Mapping
from pathlib import Path

from nightcrew.proc.call import call


def notify(command: tuple[str, ...], summary: str, *, env: Mapping[str, str], cwd: Path, timeout_s: float = 30.0) -> None:
    """Run `command` with `{summary}`, redacted already and made one line here, replaced in its arguments (no shell reads them)."""
    line = " ".join(summary.replace("\0", "").encode(errors="replace").decode().split())
    argv = (command[0], *(part.replace("{summary}", line) for part in command[1:]))
    call(argv, cwd=cwd, env=env, timeout_s=timeout_s)

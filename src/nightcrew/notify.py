"""Tell the person something happened, with the command the settings name; what went wrong with it never stops a run."""

from collections.abc import Mapping
from pathlib import Path

from nightcrew.proc.call import call


def notify(command: tuple[str, ...], summary: str, *, env: Mapping[str, str], cwd: Path, timeout_s: float = 30.0) -> str:
    """Run `command` with `{summary}` replaced in its arguments (no shell reads them); empty text when it exited with 0.

    Else one line on what went wrong. `summary` must be redacted already; it is made one line. No command, nothing to do.
    """
    if not command:
        return ""
    line = " ".join(summary.replace("\0", "").encode(errors="replace").decode().split())
    argv = (command[0], *(part.replace("{summary}", line) for part in command[1:]))
    ended = call(argv, cwd=cwd, env=env, timeout_s=timeout_s)
    if ended.timed_out:
        return f"notify: {command[0]} did not end within {timeout_s:g} s"
    if ended.code:
        said = ended.err.decode(errors="replace").strip().splitlines()
        return f"notify: {command[0]} ended with exit code {ended.code}" + (f": {said[-1][:160]}" if said else "")
    return ""

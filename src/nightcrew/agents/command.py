"""Adapter for any program: the prompt on its standard input, its edits in the workspace, its exit status as its word."""

from nightcrew.agents import classify
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.core.work import Class


def command(turn: Turn) -> Launch:
    """The roster's argv with {prompt_file}, {cwd}, {label} and {session} filled; other braces stay, a shell line is full of them."""
    argv, session = list(turn.command[1:]), turn.resume or turn.session
    told = {"prompt_file": turn.prompt_file, "cwd": turn.cwd, "label": turn.label, "session": session}
    for name, value in told.items():
        argv = [word.replace(f"{{{name}}}", str(value)) for word in argv]
    return Launch((turn.program, *argv))


def judge(_turn: Turn, end: Exit, out: bytes, err: bytes, _now: float, _zone: str) -> Judged:
    """Exit status 0 is an answer, also an empty one: such a program answers by its edits."""
    if end.code == 0 and not end.stopped_by:
        return Judged(Class.Ok, answer=out.decode(errors="replace"))
    return classify.ended(end, err if err.strip() else out)

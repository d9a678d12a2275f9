"""Adapter for any program: the prompt on its standard input, its edits in the workspace, its exit status as its word."""

from nightcrew.agents import classify, reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.core.work import UNAVAILABLE, Class


def command(turn: Turn) -> Launch:
    """The roster's argv with {prompt_file}, {cwd}, {label} and {session} filled; other braces stay, a shell line is full of them."""
    argv, session = list(turn.command[1:]), turn.resume or turn.session
    for name, value in {"prompt_file": turn.prompt_file, "cwd": turn.cwd, "label": turn.label, "session": session}.items():
        argv = [word.replace(f"{{{name}}}", str(value)) for word in argv]
    return Launch((turn.program, *argv))


def judge(_turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """Exit status 0 is an answer, also an empty one. With another, a last line that is a known error or notice may say that it must wait."""
    if end.code == 0 and not end.stopped_by:
        return Judged(Class.Ok, answer=out.decode(errors="replace"))
    said = err if err.strip() else out
    found, last = classify.ended(end, said), said[-4096:].decode(errors="replace").rstrip().rpartition("\n")[2]
    told = classify.output(last, "", Exit(), now, zone)
    waits = found.kind is Class.Crashed and not end.signal and not end.stopped_by and told.kind in UNAVAILABLE
    return reading.timed(found._replace(kind=told.kind), told.reset_at, now) if waits else found

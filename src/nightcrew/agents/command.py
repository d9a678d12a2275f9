"""Adapter for any program: the prompt on its standard input, its edits in the workspace, its exit status as its word.

The argv may hold {prompt_file}, {cwd}, {label} and {session}; nothing is read from what it prints while it works.
"""

from nightcrew.agents import classify
from nightcrew.agents.base import Exit, Judged, Launch, Signals, Turn
from nightcrew.core.work import Class

chooses_session = False
reports_session = False
folder_bound = False
passes: tuple[str, ...] = ()


def version_argv(program: str) -> tuple[str, ...]:
    """Nothing: how an unknown program tells its version is unknown."""
    del program
    return ()


def command(turn: Turn) -> Launch:
    """The roster's argv with the placeholders filled; the program's own name is what the catalog resolved."""
    filled = {
        "{prompt_file}": str(turn.prompt_file),
        "{cwd}": str(turn.cwd),
        "{label}": turn.label,
        "{session}": turn.resume or turn.session,
    }
    return Launch((turn.program, *(_fill(word, filled) for word in turn.command[1:])), turn.prompt_file)


def _fill(word: str, filled: dict[str, str]) -> str:
    """`word` with every placeholder replaced; other braces stay, a shell line is full of them."""
    for name, value in filled.items():
        word = word.replace(name, value)
    return word


def read(line: str) -> Signals:
    """A line that the program printed is all that is known of what it does."""
    return Signals(activity=classify.one_line(line, 80))


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """Exit status 0 is an answer, also an empty one: such a program answers by its edits."""
    del turn, now, zone
    if end.code == 0 and not end.stopped_by:
        return Judged(Class.Ok, answer=out.decode(errors="replace"))
    return classify.ended(end, err if err.strip() else out)

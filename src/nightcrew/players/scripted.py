"""A program that sits in a seat and does what a script says: a model of an agent, with faults that can be set.

    scripted.py SCRIPT STATE [name=value ...]      names: run agent node seat label session resume read_only

SCRIPT (TOML or JSON) is a list `turn`: see `TURN` and `VERBS`. Output: one JSON event a line (started, text, notice, result).
STATE is a folder: `turns` counts, `starts.jsonl` has a line for each process, `sessions` the conversations.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from fnmatch import fnmatchcase

# Some modules take longer to load than a turn takes to play, `typing` and `tomllib` among them.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, NoReturn

    Step = dict[str, Any]

PATTERNS = ("agent", "node", "seat", "label")
TURN = (*PATTERNS, "turn", "resumed", "session", "do")
"""What an entry of a script holds. The first entry that fits is played; with none, status 127 and a line.

It fits when each pattern it names fits (as for file names), and `turn` (the count of this agent's turns in this seat and
run, from 1) and `resumed` (true or false) are equal. `session` makes it report another conversation id. `do` is a list of
steps, done in order; {seat}, {label}, {agent}, {node}, {turn}, {run} and {state} are filled in every text of them.
"""


class Play:
    """One turn being played: what it was told, and what it will say at the end. Owns standard output."""

    def __init__(self, state: str, told: dict[str, str]) -> None:
        """Count this turn, and note this process."""
        self.state, self.told = state, told
        self.prompt, self.answer, self.finished = b"", "Done.", False
        self.usage: Step = {}
        name = "~".join(told.get(key, "") for key in ("run", "agent", "seat")).replace(os.sep, "_")
        with open(made(f"{state}/turns/{name}"), "a+", encoding="ascii") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            self.turn = int(file.read() or 0) + 1
            file.truncate(0)
            file.write(str(self.turn))
        with open(f"{state}/starts.jsonl", "ab", buffering=0) as file:
            file.write(json.dumps({"pid": os.getpid(), "at": time.time(), "turn": self.turn, **told}).encode() + b"\n")

    def filled(self, step: Step) -> Any:
        """`step` with the placeholders in all its texts filled."""
        text, told = json.dumps(step), {**self.told, "turn": str(self.turn), "state": self.state}
        for name in (*PATTERNS, "run", "turn", "state"):
            text = text.replace(f"{{{name}}}", json.dumps(told.get(name, ""))[1:-1])
        return json.loads(text)

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event."""
        put(1, json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n")


def put(fd: int, data: bytes) -> None:
    """Write all of `data`; a reader that is gone does not matter."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except OSError:
            return


def leave(status: int, line: str = "") -> NoReturn:
    """End this process, with a line on stderr."""
    put(2, f"{line}\n".encode() if line else b"")
    os._exit(status)


def made(path: str) -> str:
    """`path`, the folder of which exists now."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    return path


def write(_: Play, path: str, *, text: str = "", mode: str = "") -> None:
    """Make or replace a file; mode as in "755". Folders are made."""
    with open(made(path), "wb") as file:
        file.write(text.encode())
    if mode:
        os.chmod(path, int(mode, 8))


def append(_: Play, path: str, *, text: str = "") -> None:
    """Add to a file's end."""
    with open(made(path), "ab") as file:
        file.write(text.encode())


def replace(_: Play, path: str, *, old: str, new: str) -> None:
    """Put one text in another's place; it must be there, else exit 3 with a line."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if old not in text:
        leave(3, f"{path} does not hold {old!r}")
    write(_, path, text=text.replace(old, new))


def run(_: Play, line: str) -> None:
    """Run a shell line in the workspace (to die of a signal: `kill -KILL $PPID`); it prints to stderr, its status does not matter."""
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", line], os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, 2, 1)])
    if status := os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]):
        put(2, f"ended with {status}: {line}\n".encode())


def fork(_: Play, line: str, *, how: str = "child") -> None:
    """Leave a process behind that runs a shell line, stdout open: a "child", "setsid" or "daemon" (twice forked, deaf)."""
    argv = ["sh", "-c", "trap '' TERM INT HUP; sh -c \"$0\" &", line] if how == "daemon" else ["sh", "-c", line]
    pid = os.posix_spawn("/bin/sh", argv, os.environ, setsid=how != "child")
    if how == "daemon":
        os.waitpid(pid, 0)


def hang(_: Play, how: str) -> None:
    """Never go on: "deaf" (to TERM, INT and HUP) or "plain"."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP) if how == "deaf" else ():
        signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()


def wait_for(_: Play, path: str) -> None:
    """Go on when a file exists."""
    while not os.path.exists(path):
        time.sleep(0.02)


def say(play: Play, words: Any) -> None:
    """Say something; the last word is the answer ("Done." without any). What is no text is said as JSON."""
    play.answer = words if isinstance(words, str) else json.dumps(words, indent=1)
    play.emit("text", text=play.answer)


def finish(play: Play, _true: object = None) -> None:
    """Write the closing event now, once; later steps still happen."""
    if not play.finished:
        play.finished = True
        play.emit("result", ok=True, text=play.answer, **play.usage)


def notice(  # noqa: PLR0913  (a script's words)
    play: Play, kind: str, *, reason: str = "", window: str = "", exit: int = 1,  # noqa: A002
    reset_in: float | None = None, reset_at: float | None = None, retry_after: float | None = None,
) -> NoReturn:  # fmt: skip
    """Tell why nothing can be done, as a class of failure and its times in seconds, and end badly with status `exit`."""
    at = reset_at if reset_in is None else time.time() + reset_in
    told = {"class": kind, "reason": reason or f"scripted: {kind}", "window": window, "reset_at": at}
    play.emit("notice", **told, retry_after_s=retry_after)
    play.emit("result", ok=False, **play.usage)
    leave(exit)


def flood(_: Play, size: int, *, newline: bool = True) -> None:
    """Write so many bytes to stdout, in lines of 80 or in one."""
    chunk = (b"x" * 79 + (b"\n" if newline else b"x")) * 819
    for at in range(0, size, len(chunk)):
        put(1, chunk[: size - at])


VERBS: dict[str, Callable[..., Any]] = {
    **{do.__name__: do for do in (write, append, replace, run, fork, hang, wait_for, say, finish, notice, flood)},
    "sleep": lambda _, seconds: time.sleep(seconds),
    "exit": lambda _, status: leave(status),  # at once, without a closing event
    "usage": lambda play, told: play.usage.update(told),  # {tokens, usd} of the closing event
    "stderr": lambda _, text: put(2, text.encode()),
    "raw": lambda _, text: put(1, text.encode("latin-1")),  # bytes that need not be an event, a line or text
    # Hold the prompt to a text, or to its absence, else exit 3 with a line.
    "must_read": lambda play, text: text.encode() in play.prompt or leave(3, f"the prompt does not hold {text!r}"),
    "must_not_read": lambda play, text: text.encode() not in play.prompt or leave(3, f"the prompt holds {text!r}"),
}
"""What a step can be: a verb with its value, and further names: `{ write = "a.txt", text = "x" }`, `{ finish = true }`."""


def verb(step: Step) -> str:
    """The one verb of a step: the one whose function takes all the other names; ValueError: there is none."""
    for name, do in VERBS.items():
        further = do.__code__.co_varnames[2 : 2 + do.__code__.co_kwonlyargcount]
        if name in step and set(step) <= {name, *further}:
            return name
    raise ValueError(f"not a step: {step}")


def load(path: str) -> list[Step]:
    """The script's turns, every name in them known; anything else ends the process with a line."""
    try:
        with open(path, encoding="utf-8") as file:
            data = file.read()
        if path.endswith(".toml"):
            import tomllib  # noqa: PLC0415  (as above)

            turns: list[Step] = tomllib.loads(data)["turn"]
        else:
            turns = json.loads(data)["turn"]
        for turn in turns:
            if strange := set(turn).difference(TURN):
                leave(127, f"cannot play {path}: a turn has no {', '.join(sorted(strange))}")
            for step in turn.get("do", []):
                verb(step)
    except (OSError, ValueError, LookupError, TypeError) as wrong:
        leave(127, f"cannot play {path}: {wrong!r}")
    return turns


def fits(turn: Step, play: Play) -> bool:
    """Whether this entry is meant."""
    resumed = bool(play.told.get("resume"))
    exact = (turn.get("turn", play.turn), turn.get("resumed", resumed)) == (play.turn, resumed)
    return exact and all(fnmatchcase(play.told.get(name, ""), turn[name]) for name in PATTERNS if name in turn)


def converse(play: Play, turn: Step) -> None:
    """Open or continue the conversation that was asked for and tell its id; refuse as the real programs do."""
    opened, continued = play.told.get("session", ""), play.told.get("resume", "")
    play.emit("started", session=turn.get("session", continued or opened))
    try:
        if asked := continued or opened:
            open(made(f"{play.state}/sessions/{asked}"), "r" if continued else "x", encoding="ascii").close()
    except FileNotFoundError:
        notice(play, "session_not_found", reason=f"no conversation found with session id {continued}")
    except FileExistsError:
        notice(play, "session_in_use", reason=f"session id {opened} is already in use")


def main(argv: list[str]) -> None:
    """Note the start, read the prompt to its end, find the entry, play it."""
    script, state = argv[:2]
    play = Play(os.path.abspath(state), dict(word.split("=", 1) for word in argv[2:]))
    play.prompt = sys.stdin.buffer.read()
    turn = next((turn for turn in load(script) if fits(turn, play)), None)
    if turn is None:
        leave(127, f"{script} has nothing for turn {play.turn} of {play.told.get('agent')} in seat {play.told.get('seat')}")
    converse(play, turn)
    for step in turn.get("do", []):
        name, words = verb(step), play.filled(step)
        VERBS[name](play, words.pop(name), **words)
    finish(play)


if __name__ == "__main__":
    main(sys.argv[1:])

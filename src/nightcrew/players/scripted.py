"""A program that sits in a seat and does what a script says: a model of an agent, with faults that can be set.

    scripted.py SCRIPT STATE [name=value ...]      names: run agent node seat label session resume n read_only

SCRIPT (TOML or JSON) is a list `turn`; `TURN` says what an entry holds and `VERBS` what can be done in it. Output: one JSON
event a line (started, text, notice, result). STATE is a folder for what outlives the process: see "what it remembers".
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from binascii import a2b_base64
from fnmatch import fnmatchcase

# Some modules take longer to load than a turn takes to play, `typing` among them.
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
DEAF = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TICK_S = 0.02


class Play:
    """One turn being played: what it was told, and what it will say at the end. Owns standard output."""

    def __init__(self, state: str, told: dict[str, str]) -> None:
        """Count this turn; its prompt is read, and its conversation opened, when the script is known."""
        self.state = state
        self.told = told
        self.prompt = b""
        self.turn = count(state, told)
        self.session = told.get("resume") or told.get("session", "")
        self.answer = "Done."
        self.usage: dict[str, Any] = {}
        self.finished = False

    def filled(self, value: Any) -> Any:
        """`value` with the placeholders in all its texts filled."""
        match value:
            case str():
                for name in ("run", "agent", "node", "seat", "label"):
                    value = value.replace("{" + name + "}", self.told.get(name, ""))
                return value.replace("{turn}", str(self.turn)).replace("{state}", self.state)
            case list():
                return [self.filled(item) for item in value]
            case dict():
                return {key: self.filled(item) for key, item in value.items()}
            case _:
                return value

    def emit(self, event: str, **fields: Any) -> None:
        """Write one event."""
        put(1, json.dumps({"event": event, **fields}, separators=(",", ":")).encode() + b"\n")

    def finish(self) -> None:
        """Write the closing event, once."""
        if not self.finished:
            self.finished = True
            self.emit("result", ok=True, text=self.answer, **self.usage)


def put(fd: int, data: bytes) -> None:
    """Write all of `data`; a reader that is gone does not matter."""
    while data:
        try:
            data = data[os.write(fd, data) :]
        except OSError:
            return


def leave(status: int, line: str = "") -> NoReturn:
    """End this process, with a line on stderr."""
    if line:
        put(2, line.encode() + b"\n")
    os._exit(status)


# ── what it remembers: turns/ counts, starts.jsonl has a line for each process, sessions/ the conversations ──────


def count(state: str, told: dict[str, str]) -> int:
    """Which turn of this agent in this seat and run it is, from 1; two processes never count the same."""
    name = "~".join(told.get(key, "") for key in ("run", "agent", "seat")).replace(os.sep, "_")
    os.makedirs(os.path.join(state, "turns"), exist_ok=True)
    with open(os.path.join(state, "turns", name), "a+", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        turn = int(file.read() or 0) + 1
        file.truncate(0)
        file.write(str(turn))
    return turn


def log(play: Play) -> None:
    """Add this process to `starts.jsonl`."""
    line = {"pid": os.getpid(), "at": time.time(), "turn": play.turn, **play.told}
    fd = os.open(os.path.join(play.state, "starts.jsonl"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    put(fd, json.dumps(line).encode() + b"\n")
    os.close(fd)


def converse(play: Play) -> None:
    """Open or continue the conversation that was asked for; refuse as the real programs do."""
    folder = os.path.join(play.state, "sessions")
    os.makedirs(folder, exist_ok=True)
    opened, continued = play.told.get("session", ""), play.told.get("resume", "")
    if continued and not os.path.exists(os.path.join(folder, continued)):
        fail(play, {"notice": "session_not_found", "reason": f"no conversation found with session id {continued}"})
    if opened and not continued:
        try:
            open(os.path.join(folder, opened), "x", encoding="ascii").close()
        except FileExistsError:
            fail(play, {"notice": "session_in_use", "reason": f"session id {opened} is already in use"})


# ── steps: files ──────────────────────────────────────────────────────────────────────────────────────────────────


def write(play: Play, step: Step) -> None:
    """Make or replace a file."""
    del play
    path = step["write"]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with open(path, "wb") as file:
        file.write(a2b_base64(step["base64"]) if "base64" in step else step.get("text", "").encode())
    if "mode" in step:
        os.chmod(path, int(step["mode"], 8))


def append(play: Play, step: Step) -> None:
    """Add to a file's end."""
    del play
    os.makedirs(os.path.dirname(step["append"]) or ".", exist_ok=True)
    with open(step["append"], "ab") as file:
        file.write(step.get("text", "").encode())


def replace(play: Play, step: Step) -> None:
    """Put one text in another's place; it must be there."""
    del play
    with open(step["replace"], encoding="utf-8") as file:
        text = file.read()
    if step["old"] not in text:
        leave(3, f"{step['replace']} does not hold {step['old']!r}")
    with open(step["replace"], "w", encoding="utf-8") as file:
        file.write(text.replace(step["old"], step["new"]))


def delete(play: Play, step: Step) -> None:
    """Remove a file, a link or a folder with all that is in it."""
    del play
    path = step["delete"]
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil  # noqa: PLC0415  (as above)

        shutil.rmtree(path)
    else:
        os.unlink(path)


def symlink(play: Play, step: Step) -> None:
    """Make a symbolic link."""
    del play
    os.makedirs(os.path.dirname(step["symlink"]) or ".", exist_ok=True)
    os.symlink(step["to"], step["symlink"])


# ── steps: processes ──────────────────────────────────────────────────────────────────────────────────────────────


def run(play: Play, step: Step) -> None:
    """Run a shell line in the workspace; what it prints goes to stderr, our stdout is for events."""
    del play
    where = [(os.POSIX_SPAWN_DUP2, 2, 1)]
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", step["run"]], os.environ, file_actions=where)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if status:
        put(2, f"ended with {status}: {step['run']}\n".encode())


def fork(play: Play, step: Step) -> None:
    """Leave a process behind that runs a shell line; it keeps standard output open."""
    del play
    how = step.get("how", "child")
    pid = os.fork()
    if pid:
        if how == "daemon":
            os.waitpid(pid, 0)
        return
    if how != "child":
        os.setsid()
    if how == "daemon":
        if os.fork():
            os._exit(0)
        for number in DEAF:
            signal.signal(number, signal.SIG_IGN)
    os.execv("/bin/sh", ["sh", "-c", step["fork"]])  # noqa: S606  (the shell is the program)


def hang(play: Play, step: Step) -> None:
    """Never go on."""
    del play
    if step["hang"] == "deaf":
        for number in DEAF:
            signal.signal(number, signal.SIG_IGN)
    while True:
        signal.pause()


def sleep(play: Play, step: Step) -> None:
    """Go on later."""
    del play
    time.sleep(step["sleep"])


def wait_for(play: Play, step: Step) -> None:
    """Go on when a file exists."""
    del play
    while not os.path.exists(step["wait_for"]):
        time.sleep(TICK_S)


def kill(play: Play, step: Step) -> NoReturn:
    """Die of a signal; the first process of a namespace cannot, it leaves with the status a shell would show."""
    del play
    number = signal.Signals[f"SIG{step['kill']}"]
    if number not in {signal.SIGKILL, signal.SIGSTOP}:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    leave(128 + number)


def quit_(play: Play, step: Step) -> NoReturn:
    """End at once, without a closing event."""
    del play
    leave(step["exit"])


# ── steps: words ──────────────────────────────────────────────────────────────────────────────────────────────────


def say(play: Play, step: Step) -> None:
    """Say something; the last word is the answer."""
    words = step["say"]
    play.answer = words if isinstance(words, str) else json.dumps(words, indent=1)
    play.emit("text", text=play.answer)


def usage(play: Play, step: Step) -> None:
    """Tell tokens and money in the closing event."""
    play.usage = step["usage"]


def finish(play: Play, step: Step) -> None:
    """Write the closing event now, and go on."""
    del step
    play.finish()


def fail(play: Play, step: Step) -> NoReturn:
    """Tell why nothing can be done, and end badly."""
    fields = {"class": step["notice"], "reason": step.get("reason", f"scripted: {step['notice']}")}
    if "reset_in" in step:
        fields["reset_at"] = time.time() + step["reset_in"]
    fields |= {name: step[name] for name in ("reset_at", "window") if name in step}
    if "retry_after" in step:
        fields["retry_after_s"] = step["retry_after"]
    play.emit("notice", **fields)
    play.emit("result", ok=False, text="", **play.usage)
    leave(step.get("exit", 1))


def stderr(play: Play, step: Step) -> None:
    """Write to stderr."""
    del play
    put(2, step["stderr"].encode())


def raw(play: Play, step: Step) -> None:
    """Write bytes to stdout that need not be an event, a line or text."""
    del play
    put(1, step["raw"].encode("latin-1"))


def flood(play: Play, step: Step) -> None:
    """Write many bytes to stdout, in lines of 80 or in one."""
    del play
    chunk = (b"x" * 79 + (b"\n" if step.get("newline", True) else b"x")) * 819
    left = int(step["flood"])
    while left > 0:
        put(1, chunk[:left])
        left -= len(chunk)


def close_stdout(play: Play, step: Step) -> None:
    """Close standard output; what is said later is lost."""
    del play, step
    os.close(1)


def must_read(play: Play, step: Step) -> None:
    """Hold the prompt to a text."""
    if step["must_read"].encode() not in play.prompt:
        leave(3, f"the prompt does not hold {step['must_read']!r}")


def must_not_read(play: Play, step: Step) -> None:
    """Hold the prompt to the absence of a text."""
    if step["must_not_read"].encode() in play.prompt:
        leave(3, f"the prompt holds {step['must_not_read']!r}")


VERBS: dict[str, tuple[Callable[[Play, Step], None], tuple[str, ...]]] = {
    "write": (write, ("text", "base64", "mode")),
    "append": (append, ("text",)),
    "replace": (replace, ("old", "new")),
    "delete": (delete, ()),
    "symlink": (symlink, ("to",)),
    "run": (run, ()),
    "say": (say, ()),
    "usage": (usage, ()),
    "stderr": (stderr, ()),
    "raw": (raw, ()),
    "flood": (flood, ("newline",)),
    "must_read": (must_read, ()),
    "must_not_read": (must_not_read, ()),
    "sleep": (sleep, ()),
    "wait_for": (wait_for, ()),
    "hang": (hang, ()),
    "fork": (fork, ("how",)),
    "close_stdout": (close_stdout, ()),
    "finish": (finish, ()),
    "notice": (fail, ("reset_in", "reset_at", "window", "retry_after", "reason", "exit")),
    "exit": (quit_, ()),
    "kill": (kill, ()),
}
"""What a step can be: the function, and the further names it takes.

    write = PATH      text, or base64; mode ("755"). Folders are made.
    append = PATH     text
    replace = PATH    old, new
    delete = PATH     a file or a whole folder
    symlink = PATH    to
    run = SHELL       its output goes to stderr, its status does not matter
    say = WORDS       the final answer; anything that is no text is said as JSON. Without it the answer is "Done."
    usage             {tokens, usd}
    stderr = TEXT     raw = TEXT (bytes: one for each character up to U+00FF)     flood = BYTES, newline (true or false)
    must_read = TEXT  must_not_read = TEXT: else exit 3, with a line
    sleep = SECONDS   wait_for = PATH     hang = "deaf" (to TERM, INT, HUP) or "plain"
    fork = SHELL      how = "child", "setsid" or "daemon" (twice forked, deaf)
    close_stdout      true
    finish            true: the closing event now; later steps still happen
    notice = CLASS    reset_in or reset_at, window, retry_after, reason; ends the turn badly, with status `exit` (1)
    exit = STATUS     ends at once, without a closing event
    kill = SIGNAL     dies of it: "KILL", "SEGV" ...
"""


# ── the script ────────────────────────────────────────────────────────────────────────────────────────────────────


def load(path: str) -> list[Step]:
    """The script's turns, every name in them known; anything else ends the process with a line."""
    try:
        with open(path, "rb") as file:
            data = file.read()
        if path.endswith(".toml"):
            import tomllib  # noqa: PLC0415  (as above)

            turns: list[Step] = tomllib.loads(data.decode())["turn"]
        else:
            turns = json.loads(data)["turn"]
        for turn in turns:
            check(turn)
    except (OSError, ValueError, LookupError, TypeError) as wrong:
        leave(127, f"cannot play {path}: {wrong!r}")
    return turns


def check(turn: Step) -> None:
    """Hold one entry of a script to the words there are.

    Raises:
        ValueError: It uses a word that means nothing.
    """
    strange = set(turn).difference(TURN)
    if strange:
        raise ValueError(f"a turn has no {', '.join(sorted(strange))}")
    for step in turn.get("do", []):
        verb(step)


def verb(step: Step) -> str:
    """The one verb of a step: the first name of it in the table of verbs whose further names the others are.

    Raises:
        ValueError: There is none.
    """
    for name in step:
        if name in VERBS and set(step) <= {name, *VERBS[name][1]}:
            return name
    raise ValueError(f"not a step: {step}")


def fits(turn: Step, play: Play) -> bool:
    """Whether this entry is meant."""
    if turn.get("turn", play.turn) != play.turn:
        return False
    resumed = bool(play.told.get("resume"))
    if turn.get("resumed", resumed) != resumed:
        return False
    return all(fnmatchcase(play.told.get(name, ""), turn[name]) for name in PATTERNS if name in turn)


def main(argv: list[str]) -> None:
    """Note the start, read the prompt to its end, find the entry, play it."""
    script, state = argv[:2]
    told = dict(word.split("=", 1) for word in argv[2:])
    play = Play(os.path.abspath(state), told)
    log(play)
    play.prompt = sys.stdin.buffer.read()
    turn = next((turn for turn in load(script) if fits(turn, play)), None)
    if turn is None:
        leave(127, f"{script} has nothing for turn {play.turn} of {told.get('agent')} in seat {told.get('seat')}")
    play.session = turn.get("session", play.session)
    play.emit("started", session=play.session)
    converse(play)
    for step in turn.get("do", []):
        VERBS[verb(step)][0](play, play.filled(step))
    play.finish()


if __name__ == "__main__":
    main(sys.argv[1:])

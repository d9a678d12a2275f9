"""What an adapter is: the turn it is given, the launch it names, the judgement it returns."""

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from nightcrew.core.work import Class


class Turn(Struct, frozen=True, kw_only=True):
    """One question to one agent; `command` and `env` are the roster's own argv and variables."""

    program: str  # as the catalog resolved it
    prompt_file: Path  # the whole prompt
    cwd: Path  # the workspace
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    model: str = ""
    session: str = ""  # a conversation to open …
    resume: str = ""  # … or to continue; at most one of the two
    read_only: bool = False
    prior_usd: float = 0.0  # what the continued conversation had cost before …
    prior_tokens: int = 0  # … and taken
    run: str = ""
    agent: str = ""
    node: str = ""
    seat: str = ""
    label: str = ""


class Launch(Struct, frozen=True):
    """How the turn's process is started and watched, its prompt on standard input; a path may begin with `~`, the HOME of the turn."""

    argv: tuple[str, ...]
    env: dict[str, str] = {}  # added to the environment
    login_paths: tuple[str, ...] = ()  # visible and writable in a sandbox
    session_paths: tuple[str, ...] = ()  # transcripts, which no other seat may read
    stop_signals: tuple[tuple[str, float], ...] = (("TERM", 5.0),)  # in this order, each with its grace in seconds
    quiet_s: float = 0.0  # it may print nothing for so long while it tries again
    closing: tuple[str, ...] = ()  # how its last line begins, and after a `*` what it holds too: after that it only lingers
    loops: tuple[str, int] = ("", 0)  # what it prints for ever when it goes in circles, and how often is often enough


class Judged(NamedTuple):
    """What a turn came to, in the words of `core.work.Outcome`; `answer` is the whole text (None = there is none)."""

    kind: Class
    reason: str = ""
    answer: str | None = None
    session: str = ""
    reset_at: float | None = None
    window: str = ""
    retry_after_s: float | None = None
    tokens: int | None = None
    usd: float | None = None


class Exit(NamedTuple):
    """How the process ended: its status as a shell shows it (128+n for a death by signal n, which is then named too)."""

    code: int = 0
    signal: int = 0
    stopped_by: str = ""  # what of ours ended it: a key of `classify.LIMITS`, or a wish


@runtime_checkable
class Adapter(Protocol):
    """A module that knows one agent program."""

    def command(self, turn: Turn, /) -> Launch:
        """How to start this turn."""

    def judge(self, turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str, /) -> Judged:
        """What the turn came to. `now` is the end in seconds since the epoch, `zone` the host's zone name (may be empty)."""

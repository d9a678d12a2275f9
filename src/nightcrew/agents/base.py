"""What an adapter is: the turn it is given, the launch it names, the signals it reads, the judgement it returns.

An adapter is a module that satisfies `Adapter`. What several adapters need to read a program's end lies in `classify`.
"""

from pathlib import Path
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from nightcrew.core.work import Class


class Turn(Struct, frozen=True, kw_only=True):
    """One question to one agent.

    `program` is what the catalog resolved; `command` and `env` are the roster's own argv and variables. `prompt_file`
    holds the whole prompt, `cwd` is the workspace. `session` is a conversation id to open, `resume` one to continue
    (at most one of the two is set). `prior_usd` is what the continued conversation had cost before, in US dollars.
    """

    program: str
    prompt_file: Path
    cwd: Path
    command: tuple[str, ...] = ()
    env: dict[str, str] = {}
    model: str = ""
    session: str = ""
    resume: str = ""
    read_only: bool = False
    prior_usd: float = 0.0
    run: str = ""
    agent: str = ""
    node: str = ""
    seat: str = ""
    label: str = ""
    n: int = 1


class Launch(Struct, frozen=True):
    """How the turn's process is started.

    `stdin` is a file to read from (None = /dev/null), `env` what the adapter adds to the environment. `stop_signals`
    are sent in order, each followed by its grace in seconds. A path may begin with `~`, the HOME the turn runs with:
    `login_paths` stay visible and writable in a sandbox, `session_paths` hold transcripts, which no other seat may
    read. `network` says whether the program is of any use without one.
    """

    argv: tuple[str, ...]
    stdin: Path | None
    env: dict[str, str] = {}
    stop_signals: tuple[tuple[str, float], ...] = (("TERM", 5.0), ("KILL", 0.0))
    login_paths: tuple[str, ...] = ()
    session_paths: tuple[str, ...] = ()
    network: bool = True


class Signals(NamedTuple):
    """What one line of output tells while the turn runs: a few words for a person, the conversation's id, the end."""

    activity: str = ""
    session: str = ""
    ended: bool = False
    """The closing event was seen: the turn is over even if the process lingers."""


class Judged(NamedTuple):
    """What a turn came to, in the words of `core.work.Outcome`.

    `reason` is one line of at most 160 characters; `answer` the whole text (None = there is none); `reset_at` seconds
    since the epoch; tokens and money are of this turn alone, None = unknown.
    """

    kind: Class
    reason: str = ""
    answer: str | None = None
    session: str = ""
    reset_at: float | None = None
    window: str = ""
    retry_after_s: float | None = None
    tokens: int | None = None
    usd: float | None = None


class Exit(Protocol):
    """How the process ended, as its supervisor recorded it.

    `code` follows the shell's convention, 128+n for a death by signal n, which `signal` repeats (0 = none). `stopped_by`
    names what of ours ended it (a limit: `total`, `idle`, `first_output`, `flood`; or `stop` …), empty when nothing did.
    """

    @property
    def code(self) -> int:
        """The exit status."""

    @property
    def signal(self) -> int:
        """The number of the signal it died of."""

    @property
    def stopped_by(self) -> str:
        """What of ours ended it."""


@runtime_checkable
class Adapter(Protocol):
    """A module that knows one agent program."""

    @property
    def chooses_session(self) -> bool:
        """Whether it accepts a conversation id of our choice."""

    @property
    def reports_session(self) -> bool:
        """Whether its output tells the conversation's id."""

    @property
    def folder_bound(self) -> bool:
        """Whether a conversation can only be continued in the folder where it began."""

    @property
    def passes(self) -> tuple[str, ...]:
        """Variables of the person's environment that the program needs: its login, its endpoint. Nothing else is passed on."""

    def version_argv(self, program: str) -> tuple[str, ...]:
        """The argv that prints the program's version; empty when it has none."""

    def command(self, turn: Turn) -> Launch:
        """How to start this turn."""

    def read(self, line: str) -> Signals:
        """What one line of standard output tells."""

    def judge(self, turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
        """What the turn came to. `now` is the end in seconds since the epoch, `zone` the host's zone name (may be empty)."""

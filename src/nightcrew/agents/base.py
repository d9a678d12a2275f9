"""What an adapter is: the turn it is given, the launch it names, the judgement it returns."""

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


class Launch(Struct, frozen=True):
    """How the turn's process is started; the prompt comes on its standard input.

    `env` is what the adapter adds to the environment. A path may begin with `~`, the HOME the turn runs with: `login_paths`
    stay visible and writable in a sandbox, `session_paths` hold transcripts, which no other seat may read.
    """

    argv: tuple[str, ...]
    env: dict[str, str] = {}
    login_paths: tuple[str, ...] = ()
    session_paths: tuple[str, ...] = ()


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
    """How the process ended: its status as a shell shows it (128+n for a death by signal n, which is then named too).

    `stopped_by` is what of ours ended it: a limit (`total`, `idle`, `first_output`, `flood`) or a wish; "" when nothing did.
    """

    code: int = 0
    signal: int = 0
    stopped_by: str = ""


@runtime_checkable
class Adapter(Protocol):
    """A module that knows one agent program."""

    def command(self, turn: Turn, /) -> Launch:
        """How to start this turn."""

    def judge(self, turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str, /) -> Judged:
        """What the turn came to. `now` is the end in seconds since the epoch, `zone` the host's zone name (may be empty)."""

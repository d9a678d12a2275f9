"""The table of verbs and the boundary of errors. `--help` and completion read the table and load no verb (decision 0014)."""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from io import TextIOWrapper

import click

from nightcrew import __version__
from nightcrew.cli.output import printable, unheard
from nightcrew.errors import UserError

MISTAKE, INTERRUPTED = 2, 130
DEAF = (errno.EPIPE, errno.ENOSPC, errno.EIO)  # whoever read our output left, its disk is full, its terminal is gone
TABLE = {  # verb: the module of this room where it lives, and its one line of help
    "run": ("driving", "hand off a task and see it through"),
    "resume": ("driving", "let a run go on, from wherever it was"),
    "list": ("listing", "the newest runs and where they stand"),
    "show": ("reading", "the whole story of a run"),
    "watch": ("reading", "follow a run as it goes on"),
    "logs": ("reading", "what agents and commands of a run printed"),
    "park": ("driving", "stop a run at the next safe point"),
    "cancel": ("driving", "end a run; its work is rescued"),
    "answer": ("driving", "answer a run's question"),
    "fix": ("driving", "have findings of a ready or blocked run fixed"),
    "diff": ("driving", "the work of a run as a patch"),
    "clean": ("driving", "clear away what is proven landed or rescued"),
    "agents": ("standing", "who could work here, and who cools down"),
    "doctor": ("standing", "what a run here would stand on, and every setting"),
    "init": ("standing", "write a first nightcrew.toml"),
    "trust": ("standing", "let this repository's settings execute what they name"),
    "demo": ("driving", "see a task land on a small project, with scripted agents"),
    "stats": ("reading", "what each agent was worth so far"),
    "replay": ("reading", "a run as it stood at an earlier fact"),
    "classify": ("standing", "what nightcrew makes of an agent's output"),
    "completion": ("standing", "a script that completes words in your shell"),
}
ELSEWHERE = {"ls": "list", "status": "show", "start": "run", "stop": "park", "kill": "cancel", "rm": "clean", "help": "--help"}


class Verbs(click.Group):
    """click's group over the table; only a verb that is called is loaded."""

    def list_commands(self, _ctx: click.Context) -> list[str]:
        """The verbs in the order of the table."""
        return list(TABLE)

    def get_command(self, _ctx: click.Context, cmd_name: str) -> click.Command:
        """What help and completion need of a verb."""
        return click.Command(cmd_name, short_help=TABLE[cmd_name][1])

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        """The verb; one that does not exist is a mistake with the nearest that does."""
        if args[0] not in TABLE:
            if ctx.resilient_parsing:
                return None, None, args[1:]
            raise unknown(args[0])
        return args[0], loaded(args[0]), args[1:]


def loaded(verb: str) -> click.Command:
    """A verb of the table, loaded now."""
    room = vars(import_module(f"nightcrew.cli.{TABLE[verb][0]}")).values()
    return next(found for found in room if isinstance(found, click.Command) and found.name == verb)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nightcrew", message="%(prog)s %(version)s")
def nightcrew() -> None:
    """Hand off a coding task in the evening; find it landed in the morning, or find out exactly why not."""


def unknown(word: str) -> UserError:
    """The mistake of a verb that does not exist, with what other programs call so or the nearest that does."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    near = ELSEWHERE.get(word) or "".join(get_close_matches(word, TABLE, 1, 0.6))
    help_ = f"did you mean: nightcrew {near}" if near else 'nightcrew --help lists them; for a task: nightcrew run "…"'
    return UserError(f"there is no verb '{word}'", help_)


def run(argv: Sequence[str]) -> int:
    """One command line from words to exit code. A person's mistake is one line; a bug is one line and a file."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a letter shows its number
    try:
        code = nightcrew.main(args=list(argv) or ["--help"], prog_name="nightcrew", standalone_mode=False)
        sys.stdout.flush()
    except UserError as error:
        return _said(str(error), MISTAKE)
    except click.ClickException as error:
        verb = f" {at.info_name}" if (at := getattr(error, "ctx", None)) and at.parent else ""
        return _said(f"{' '.join(error.format_message().split())} (nightcrew{verb} --help)", MISTAKE)
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the one boundary of this face
        if isinstance(error, OSError) and error.errno in DEAF and error.filename is None:
            unheard()  # what is still buffered must not fail once more when Python closes the stream
            return 1 if isinstance(error, BrokenPipeError) else _said(f"cannot print: {error.strerror}", 1)
        from nightcrew.app.home import fault  # noqa: PLC0415 - only a failure pays for it

        return _said(*fault(error, os.environ))
    return code if isinstance(code, int) else 0


def _said(text: str, code: int) -> int:
    click.echo(printable(f"nightcrew: {text}"), err=True)
    return code

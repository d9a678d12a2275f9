"""What `run`, `resume` and `answer` share: driving a run before the person's eyes, and saying how it ended."""

import signal
from collections.abc import Sequence

import click

from nightcrew.app import control
from nightcrew.app.views_journal import RunId
from nightcrew.app.views_story import ending, plain
from nightcrew.app.views_text import ending_told
from nightcrew.cli.output import as_json, environment, lines
from nightcrew.cli.screen import screen
from nightcrew.errors import UserError

FAILED = 1
no_wait = click.option("--no-wait", is_flag=True, help="Leave (exit 3) when only time is waited for.")
limit = click.option(
    "--limit", "limit_", multiple=True, metavar="NAME=VALUE", help="usd, tokens, turns or wall; `none` lifts it."
)


def limits(given: Sequence[str]) -> dict[str, str]:
    """`usd=5` and so on, by name. What the values mean is the configuration's to say."""
    pairs = [(text, *text.partition("=")) for text in given]
    for text, name, _, value in pairs:
        if not name.strip() or not value.strip():
            raise UserError(f"'{text}' is not a limit", "write it as --limit usd=5")
    return {name.strip(): value.strip() for _, name, _, value in pairs}


def drive(run: RunId, *, json_: bool, wait: bool, take_over: bool = False) -> int:
    """Drive it until it rests; the exit code says how it stands, or which signal ended the driving."""
    with screen(environment(), silent=json_) as show:
        left = control.drive(run, environment(), on_entry=show, wait=wait, take_over=take_over)
    end = ending(left.state)
    if json_:
        as_json(plain(end))
    else:
        lines(ending_told(end))
    if not left.signal or left.state.done:
        return end.exit_code
    return FAILED if left.signal == signal.SIGINT and end.word == "interrupted" else 128 + left.signal

"""`watch`: follow a run that another process drives."""

import click

from nightcrew.app.views_follow import follow
from nightcrew.app.views_journal import seen
from nightcrew.app.views_story import ending
from nightcrew.app.views_text import ending_told
from nightcrew.cli.output import environment, lines
from nightcrew.cli.screen import screen


@click.command("watch")
@click.argument("run", required=False, default="")
def verb(run: str) -> int:
    """Follow RUN (the newest if none is named) until it is over or nobody drives it."""
    with screen(environment()) as show:
        state = follow(seen(environment(), run), environment(), show)
    end = ending(state)
    lines(ending_told(end))
    return end.exit_code

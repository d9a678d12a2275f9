"""`park`: stop a run at the next safe point."""

import click

from nightcrew.app import control
from nightcrew.app.views_journal import seen
from nightcrew.cli.output import environment, lines


@click.command("park")
@click.argument("run", required=False, default="")
@click.option("--now", is_flag=True, help="Stop the turns in flight too; their work is rescued.")
def verb(*, run: str, now: bool) -> None:
    """Let what runs in RUN (the newest if none is named) come to its end, and begin nothing new."""
    found = seen(environment(), run).run
    control.park(found, environment(), now=now)
    lines([f"{found}: parking; go on with: nightcrew resume {found.rsplit('-', 1)[-1]}"])

"""`cancel`: end a run for good."""

import click

from nightcrew.app import control
from nightcrew.app.views_journal import seen
from nightcrew.cli.output import environment, lines


@click.command("cancel")
@click.argument("run")
def verb(run: str) -> None:
    """End RUN: its work is rescued, a failure marker is written."""
    found = seen(environment(), run).run
    control.cancel(found, environment())
    if control.driven(found, environment()):
        lines([f"{found}: cancelling"])
    else:
        lines([f"{found}: cancelled once it is driven: nightcrew resume {found.rsplit('-', 1)[-1]}"])

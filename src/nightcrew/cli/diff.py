"""`diff`: the work of a run as a patch."""

import click

from nightcrew.app import control
from nightcrew.app.views_journal import seen
from nightcrew.cli.output import environment


@click.command("diff")
@click.argument("run", required=False, default="")
def verb(run: str) -> None:
    """The patch of RUN (the newest if none is named): what lands, or what its candidate holds so far."""
    click.echo(control.diff(seen(environment(), run).run, environment()))

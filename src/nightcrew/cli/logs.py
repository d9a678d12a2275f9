"""`logs`: what agents and commands printed, as they printed it."""

import shutil
import sys

import click

from nightcrew.app.views import printable
from nightcrew.app.views_journal import seen
from nightcrew.app.views_logs import outputs
from nightcrew.cli.output import environment


@click.command("logs")
@click.argument("run", required=False, default="")
@click.argument("seat", required=False, default="")
def verb(run: str, seat: str) -> None:
    """Raw output of the turns and commands of RUN, of one SEAT or purpose (impl-A, gate …) if named."""
    for output in outputs(seen(environment(), run), environment(), seat):
        click.echo(f"── {output.title}")
        with output.path.open("rb") as file:
            if sys.stdout.isatty():
                # An agent's output may hold sequences that would steer the person's terminal.
                for raw in file:
                    click.echo(printable(raw.decode(errors="replace")), nl=False)
            else:
                sys.stdout.flush()
                shutil.copyfileobj(file, sys.stdout.buffer)
        click.echo()

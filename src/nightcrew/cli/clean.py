"""`clean`: clear away what is proven landed or rescued."""

from pathlib import Path

import click

from nightcrew.app import control
from nightcrew.cli.output import as_json, environment, json_option, lines


@click.command("clean")
@click.argument("run", required=False, default="")
@json_option
def verb(*, run: str, json_: bool) -> None:
    """Remove what RUN, or every run of this repository, left and nobody needs; list what is kept and why."""
    done = control.clean(Path.cwd(), environment(), run)
    if json_:
        as_json([one._asdict() for one in done])
        return
    for one in done:
        lines([f"{one.run}: removed {what}" for what in one.removed])
        lines([f"{one.run}: kept {what}" for what in one.kept])
    if not any(one.removed or one.kept for one in done):
        lines(["nothing to clear away"])

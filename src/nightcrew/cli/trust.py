"""`trust`: let this repository's settings execute what they name."""

from pathlib import Path

import click

from nightcrew.app import ground
from nightcrew.cli.output import environment, lines


@click.command("trust")
@click.option("--show", is_flag=True, help="Only say what would be executed.")
def verb(*, show: bool) -> None:
    """Trust what this repository's nightcrew.toml executes, as it is now; a change is asked about again."""
    named = (ground.executes if show else ground.trust_here)(Path.cwd(), environment())
    lines(named or ["nothing in this repository's settings is executed"])
    if named and not show:
        lines(["trusted"])

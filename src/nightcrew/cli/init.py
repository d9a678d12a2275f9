"""`init`: a first settings file."""

from pathlib import Path

import click

from nightcrew.app import ground
from nightcrew.cli.output import environment, lines


@click.command("init")
def verb() -> None:
    """Write a commented nightcrew.toml from what this repository shows; an existing one is kept."""
    lines([f"wrote {ground.init(Path.cwd(), environment())}; check it with: nightcrew doctor"])

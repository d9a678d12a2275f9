"""`list`: apart from the other verbs that read, because it loads nothing of what a run is."""

import time
from pathlib import Path

import click

from nightcrew.app.home import ALL, rows
from nightcrew.cli.output import environment, json_option, say

NEWEST = 20


@click.command("list")
@click.option("--all", "all_", is_flag=True, help=f"every run, not only the newest {NEWEST}")
@json_option
def listing(*, all_: bool, json_: bool) -> None:
    """The newest runs and where they stand."""
    found = rows(environment(), ALL if all_ else NEWEST)
    told = []
    for row in found:
        began = time.strftime("%Y-%m-%d %H:%M", time.localtime(row.created_at))
        told += [f"{row.short}  {began}  {Path(row.repo).name:<14}  {row.title[:60]}", f"      {row.headline}"]
    say([row._asdict() for row in found], told or ['no runs yet; start one: nightcrew run "…"'], json_=json_)

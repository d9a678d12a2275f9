"""`replay`: a run as it stood at an earlier fact."""

import click

from nightcrew.app.views_journal import seen
from nightcrew.app.views_replay import replayed, told
from nightcrew.app.views_story import plain
from nightcrew.cli.output import as_json, environment, json_option, lines


@click.command("replay")
@click.argument("run", required=False, default="")
@click.option("--at", type=int, help="The entry to stop after (the newest if none is named).")
@json_option
def verb(*, run: str, at: int | None, json_: bool) -> None:
    """Fold the facts of RUN up to an entry: what was known then, what was in flight, what was wanted."""
    found = replayed(seen(environment(), run).entries(), at)
    if json_:
        as_json(plain(found))
    else:
        lines(told(found))

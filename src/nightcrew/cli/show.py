"""`show`: the whole story of a run."""

import click

from nightcrew.app.views_journal import seen
from nightcrew.app.views_story import plain, story
from nightcrew.app.views_text import recovery_told, told
from nightcrew.cli.output import as_json, environment, json_option, lines


@click.command("show")
@click.argument("run", required=False, default="")
@click.option("--recovery", is_flag=True, help="only how it recovers")
@json_option
def verb(run: str, *, recovery: bool, json_: bool) -> None:
    """The whole story of RUN (the newest if none is named)."""
    found = story(seen(environment(), run).entries())
    if json_:
        as_json(plain(found.recovery if recovery else found))
    else:
        lines(recovery_told(found) if recovery else told(found))

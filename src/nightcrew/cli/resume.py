"""`resume`: let a run go on, from wherever it was."""

import click

from nightcrew.app import control
from nightcrew.app.views_journal import seen
from nightcrew.cli.driving import drive, limit, limits, no_wait
from nightcrew.cli.output import environment, json_option


@click.command("resume")
@click.argument("run", required=False, default="")
@limit
@click.option("--reconfigure", is_flag=True, help="Take the settings as they are written now.")
@click.option("--take-over", is_flag=True, help="Drive it in place of a process that is frozen.")
@no_wait
@json_option
def verb(*, run: str, limit_: tuple[str, ...], reconfigure: bool, take_over: bool, no_wait: bool, json_: bool) -> int:
    """Let RUN (the newest if none is named) go on where it was; nothing is paid twice."""
    found = seen(environment(), run).run
    control.resume(found, environment(), limits(limit_), reconfigure=reconfigure)
    return drive(found, json_=json_, wait=not no_wait, take_over=take_over)

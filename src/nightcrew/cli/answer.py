"""`answer`: a person's word on a run's question."""

import click

from nightcrew.app import control
from nightcrew.app.views_journal import seen
from nightcrew.cli.driving import drive
from nightcrew.cli.output import environment, json_option, lines


@click.command("answer")
@click.argument("run")
@click.argument("text", nargs=-1, required=True)
@click.option("--question", default="", help="Which question, when there are several.")
@json_option
def verb(*, run: str, text: tuple[str, ...], question: str, json_: bool) -> int:
    """Answer RUN's question with TEXT; a run that nobody drives goes on here."""
    found = seen(environment(), run).run
    which = control.answer(found, environment(), " ".join(text), question)
    if control.driven(found, environment()):
        lines([f"{found}: answered {which}"])
        return 0
    return drive(found, json_=json_, wait=True)

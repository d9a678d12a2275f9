"""`classify`: apart from the other verbs, because it needs no run and no repository."""

from typing import IO

import click

from nightcrew.app import failing
from nightcrew.cli.output import environment, json_option, say


@click.command
@click.argument("file", type=click.File(encoding="utf-8", errors="replace"), default="-")
@click.option("--exit-code", type=int, help="How the program ended; -9 for a death by signal 9.")
@click.option("--as-of", metavar="STAMP", help="When (ISO 8601); now if not given.")
@click.option("--zone", help="Zone of the clocks that name none; this machine's if not given.")
@click.option("--jsonl", is_flag=True, help="Rows of JSON in, answers of JSON out (docs/json.md).")
@json_option
def classify(*, file: IO[str], exit_code: int | None, as_of: str | None, zone: str | None, jsonl: bool, json_: bool) -> None:
    """What nightcrew makes of an agent's output in FILE (else on standard input), and what it would do."""
    if jsonl:
        for line in filter(str.strip, file):
            click.echo(failing.answer(line, environment()))
        return
    found = failing.verdict({"text": file.read(), "exit_code": exit_code, "as_of": as_of, "host_zone": zone}, environment())
    told = [found.label, f"nightcrew {found.does}", f"reset: {found.reset_at or 'not told'}", f"because of: {found.evidence}"]
    say(found, told, json_=json_)

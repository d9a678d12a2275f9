"""`agents`: who could work here."""

import time
from pathlib import Path

import click

from nightcrew.app import ground
from nightcrew.app.views import clock
from nightcrew.cli.output import as_json, environment, json_option, lines


@click.command("agents")
@click.option("--clear", metavar="AGENT", help="Forget that this agent cools down.")
@json_option
def verb(*, clear: str | None, json_: bool) -> None:
    """The roster: where each program is, what it sits for, who cools down and until when."""
    if clear:
        ground.warm(Path.cwd(), environment(), clear)
    rows = ground.agents(Path.cwd(), environment())
    if json_:
        as_json([row._asdict() for row in rows])
        return
    if not rows:
        lines(["no agents: none is configured and none was found on PATH (nightcrew doctor)"])
    for row in rows:
        stands = row.missing or (
            f"cools down until {clock(row.cooling_until, time.time())}" if row.cooling_until else "ready"
        )
        why = f" ({row.why})" if row.why else ""
        lines([f"{row.id:<12} {row.kind:<10} {stands}{why}", f"             {', '.join(row.roles) or 'no role'}"])

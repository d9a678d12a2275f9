"""`doctor`: what a run here would stand on."""

from pathlib import Path

import click

from nightcrew.app import ground
from nightcrew.cli.output import as_json, environment, json_option, lines

FAILED = 1


@click.command("doctor")
@json_option
def verb(*, json_: bool) -> int:
    """Look at machine, repository, agents and settings without starting anything; exit 1 if something will not do."""
    checks, settings = ground.doctor(Path.cwd(), environment())
    if json_:
        as_json({"checks": [c._asdict() for c in checks], "settings": [s._asdict() for s in settings]})
    else:
        for c in checks:
            lines([f"{'ok ' if c.ok else 'NO '} {c.name}: {c.text}" + (f" ({c.hint})" if c.hint else "")])
        lines([f"    {s.key} = {s.value}  [{s.origin}]" for s in settings if s.value])
    return 0 if all(c.ok for c in checks) else FAILED

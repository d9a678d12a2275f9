"""`demo`: a whole run before your eyes, without account or network."""

import click

from nightcrew.app import control, demo
from nightcrew.app.views_journal import seen
from nightcrew.app.views_story import ending, story
from nightcrew.app.views_text import told
from nightcrew.cli.output import environment, lines
from nightcrew.cli.screen import screen


@click.command("demo")
@click.option("--crash", is_flag=True, help="Kill nightcrew with -9 while an agent works, and resume.")
def verb(*, crash: bool) -> int:
    """Hand a task off on a small project; everything is real but the agents, which follow a script."""
    where = demo.stage(environment())
    lines(
        [
            f"A small project with a failing test is in {where.project}. The agents follow a script; the rest is real.",
            "",
        ]
    )
    run = demo.start(where)
    if crash:
        demo.crash(where, run)
        lines(["nightcrew was killed with -9 while an agent works. The agent works on; resuming.", ""])
    with screen(where.env) as show:
        left = control.drive(run, where.env, on_entry=demo.meddling(where, show))
    lines(["", *told(story(seen(where.env, run).entries())), "", *demo.history(where), ""])
    lines([f"Look around: cd {where.project}; NIGHTCREW_HOME={where.env['NIGHTCREW_HOME']} nightcrew show"])
    return ending(left.state).exit_code

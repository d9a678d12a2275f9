"""Verbs that read runs: `show`, `watch`, `logs`, `replay`, `stats`."""

import click

from nightcrew.app import live, seen, stats as counted, text
from nightcrew.app.views import conclusion
from nightcrew.cli.output import environment, json_option, printable, run_argument, say
from nightcrew.cli.screen import screen


@click.command
@run_argument
@click.option("--recovery", is_flag=True, help="only how it recovers")
@json_option
def show(run: str | None, *, recovery: bool, json_: bool) -> None:
    """The whole story of RUN (the newest if none is named)."""
    found = seen.shown(seen.seen(environment(), run))
    told = text.recovery_told(found) if recovery else text.told(found)
    say(found.recovery if recovery else found, told, json_=json_)


@click.command
@run_argument
def watch(run: str | None) -> int:
    """Follow RUN (the newest if none is named) until it is over or nobody drives it."""
    with screen(environment()) as show_it:
        end = conclusion(live.follow(seen.seen(environment(), run), show_it))
    say(end, text.ending_told(end), json_=False)
    return end.exit_code


@click.command
@run_argument
@click.argument("seat", required=False, default="")
def logs(run: str | None, seat: str) -> None:
    """Output of the turns and commands of RUN, without secrets, of one SEAT or purpose (impl-A, gate …) if named."""
    for title, said in seen.outputs(seen.seen(environment(), run), environment(), seat):
        click.echo(printable(f"── {title}\n{said.decode(errors='replace')}"))


@click.command
@run_argument
@click.option("--at", type=int, help="The entry to stop after (the newest if none is named).")
@json_option
def replay(run: str | None, *, at: int | None, json_: bool) -> None:
    """Fold the facts of RUN up to an entry: what was known then, what was in flight, what was wanted."""
    found = seen.replayed(seen.seen(environment(), run).entries(), at)
    say(found, seen.told(found), json_=json_)


@click.command
@json_option
def stats(*, json_: bool) -> None:
    """What each agent was worth over the runs of this machine: turns, handovers, fixes, findings that were taken up."""
    rows = counted.worth(seen.everything(environment()))
    say(rows, counted.told(rows), json_=json_)

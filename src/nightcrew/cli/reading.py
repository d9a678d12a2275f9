"""Verbs that read runs: `show`, `watch`, `logs`, `replay`, `stats`; and the screen on which a run goes on: a panel at a terminal, else plain lines."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from nightcrew.app import seen, stats as counted, text
from nightcrew.app.seen import Entry, RunState, Step, changes, panel
from nightcrew.app.views import conclusion
from nightcrew.cli.output import aside, environment, json_option, printable, run_argument, say

Show = Callable[[RunState, Entry], None]  # told of every new fact with the state it made


@contextmanager
def screen(env: Mapping[str, str], *, silent: bool = False) -> Iterator[Show]:
    """What to call with each fact while the block lasts; `env` tells where the run's files are."""
    gc.enable()
    if silent:
        yield lambda _state, _entry: None
        return
    if not sys.stdout.isatty():
        yield partial(_lines, [], set(), click.echo)
        return
    from rich.live import Live  # noqa: PLC0415 - heavy; only a terminal needs it
    from rich.text import Text  # noqa: PLC0415 - as above

    now: list[RunState] = []

    def drawn() -> Text:
        return Text(printable("\n".join(panel(now[0], time.time(), env) if now else ())), no_wrap=True, overflow="ellipsis")

    # Lines scroll by above a panel that is drawn anew every second, so that elapsed times move.
    with Live(get_renderable=drawn, refresh_per_second=1, transient=True) as live:
        yield partial(_lines, now, set(), lambda text: live.console.print(Text(text)))


def _lines(before: list[RunState], kept: set[str], say: Callable[[str], Any], state: RunState, entry: Entry) -> None:
    clock = time.strftime("%H:%M:%S", time.localtime(entry.at))
    with aside():
        for text in changes(Step(entry, before[0] if before else state, state)):
            if text not in kept:
                say(printable(f"{clock} {text}"))
            kept |= {text} if text.startswith("rescued: ") else set()  # a rescue that finds it safe already is no news
    before[:] = [state]


@click.command
@run_argument
@click.option("--recovery", is_flag=True, help="only how it recovers")
@json_option
def show(run: str | None, *, recovery: bool, json_: bool) -> None:
    """The whole story of RUN (the newest here if none is named)."""
    found = seen.shown(seen.seen(environment(), run), environment())
    told = text.recovery_told(found) if recovery else text.told(found)
    say(found.recovery if recovery else found, told, json_=json_)


@click.command
@run_argument
def watch(run: str | None) -> int:
    """Follow RUN (the newest here if none is named) until it is over or nobody drives it."""
    with screen(environment()) as show_it:
        end = conclusion(seen.follow(seen.seen(environment(), run), show_it))
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
    """What each agent was worth over the runs of this machine: turns, handovers, fixes, findings, competitions."""
    found = counted.stats(seen.everything(environment()))
    say(found, counted.told(found), json_=json_)

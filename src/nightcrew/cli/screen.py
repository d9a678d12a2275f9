"""A run on the screen while it goes on: a live panel at a terminal, plain lines elsewhere, nothing for `--json`."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import click

from nightcrew.app.live import Entry, RunState, Step, changes, panel
from nightcrew.cli.output import aside, printable

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
        told = panel(now[0], time.time(), env) if now else ()
        return Text(printable("\n".join(told)), no_wrap=True, overflow="ellipsis")

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

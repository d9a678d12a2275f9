"""A run on the screen while it goes on: a live panel at a terminal, plain lines elsewhere, nothing for `--json`."""

import gc
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import click

from nightcrew.app.live import Entry, RunState, Step, changes, panel

Show = Callable[[RunState, Entry], None]
"""Told of every new fact with the state it made."""


@contextmanager
def screen(env: Mapping[str, str], *, silent: bool = False) -> Iterator[Show]:
    """What to call with each fact while the block lasts; `env` tells where the run's files are."""
    gc.enable()
    if silent:
        yield lambda _state, _entry: None
    elif sys.stdout.isatty():
        with _live(env) as show:
            yield show
    else:
        yield _lines(click.echo)


def _lines(say: Callable[[str], Any]) -> Show:
    before: RunState | None = None

    def show(state: RunState, entry: Entry) -> None:
        nonlocal before
        clock = time.strftime("%H:%M:%S", time.localtime(entry.at))
        for text in changes(Step(entry, before or state, state)):
            say(f"{clock} {text}")
        before = state

    return show


@contextmanager
def _live(env: Mapping[str, str]) -> Iterator[Show]:
    """Lines scroll by above a panel that is drawn anew every second, so that elapsed times move."""
    from rich.live import Live  # noqa: PLC0415 - heavy; only a terminal needs it
    from rich.text import Text  # noqa: PLC0415 - as above

    now: RunState | None = None

    def drawn() -> Text:
        return Text("\n".join(panel(now, time.time(), env)) if now else "", no_wrap=True, overflow="ellipsis")

    with Live(get_renderable=drawn, refresh_per_second=1, transient=True) as live:
        lines = _lines(lambda text: live.console.print(Text(text)))

        def show(state: RunState, entry: Entry) -> None:
            nonlocal now
            now = state
            lines(state, entry)
            live.refresh()

        yield show

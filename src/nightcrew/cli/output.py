"""What several verbs ask and print in the same way."""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from nightcrew.errors import UserError

_STEERING = {n: None for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"}
run_argument = click.argument("run", required=False)
json_option = click.option("--json", "json_", is_flag=True, help="One JSON document (docs/json.md).")


def environment() -> dict[str, str]:
    """The person's environment, which everything below is given and does not look for itself."""
    return dict(os.environ)


def folder() -> Path:
    """The folder the person is in. Raises UserError when it was removed under them."""
    try:
        return Path.cwd()
    except FileNotFoundError:
        raise UserError("the folder you are in is gone", "cd to one that is there") from None


def printable(text: str) -> str:
    """Text from outside without the characters that steer a terminal."""
    return text.translate(_STEERING)


def unheard() -> None:
    """Drop what is printed from now on, and what was not written yet."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def aside() -> Iterator[None]:
    """What is printed here is beside the point: when nobody reads it any more, or its disk is full, the work goes on unheard."""
    try:
        yield
    except OSError:
        unheard()


def say(value: Any, text: Iterable[str], *, json_: bool) -> None:
    """Lines for people, or `value` (plain, or of structs) as one JSON document, as documented in docs/json.md."""
    if not json_:
        click.echo(printable("\n".join(text)))
        return
    import msgspec  # noqa: PLC0415 - only who asks for it pays

    click.echo(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())

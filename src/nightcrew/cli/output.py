"""What several verbs print in the same way."""

import os
from collections.abc import Iterable
from typing import Any

import click


def environment() -> dict[str, str]:
    """The person's environment, which everything below is given and does not look for itself."""
    return dict(os.environ)


def as_json(value: Any) -> None:
    """One JSON document, as documented in docs/json.md."""
    import json  # noqa: PLC0415 - only who asks for it pays

    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def lines(text: Iterable[str]) -> None:
    """Plain lines."""
    for line in text:
        click.echo(line)


json_option = click.option("--json", "json_", is_flag=True, help="One JSON document (docs/json.md).")

"""What several verbs ask and print in the same way."""

import os
from collections.abc import Iterable
from typing import Any

import click

run_argument = click.argument("run", required=False, default="")
json_option = click.option("--json", "json_", is_flag=True, help="One JSON document (docs/json.md).")


def environment() -> dict[str, str]:
    """The person's environment, which everything below is given and does not look for itself."""
    return dict(os.environ)


def as_json(value: Any) -> None:
    """One JSON document, as documented in docs/json.md: a struct, or rows."""
    import json  # noqa: PLC0415 - only who asks for it pays

    if hasattr(value, "__struct_fields__"):
        import msgspec  # noqa: PLC0415 - a list does without

        value = msgspec.to_builtins(value)
    elif isinstance(value, list):
        value = [row._asdict() for row in value]
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def lines(text: Iterable[str]) -> None:
    """Plain lines."""
    for line in text:
        click.echo(line)

"""The data of views as plain values for JSON: one documented shape a verb (docs/json.md)."""

from typing import Any

import msgspec
from msgspec import Struct


def plain(value: Struct) -> dict[str, Any]:
    """A view's data as dictionaries, lists, texts, numbers and None, every field present."""
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found

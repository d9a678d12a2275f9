"""The structured part of an agent's prose: how it is asked for, and how it is found. Of all balanced JSON objects the last fitting one counts."""

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")

LONGEST = 2_000_000
"""Characters from the end that are looked at; a structured answer stands at the end."""


def json_answer(shape: str) -> str:
    """How a structured answer is asked for."""
    return f"End your answer with one JSON object of exactly this shape, and nothing after it:\n\n{shape}"


def objects(text: str) -> Iterator[str]:
    """Every balanced `{…}` that is not inside another, in order; braces in strings do not count. Linear in the text."""
    text = text[-LONGEST:]
    depth = start = 0
    inside = escaped = False
    for i, char in enumerate(text):
        if inside:
            if escaped:
                escaped = False
            elif char == "\\":
                escaped = True
            elif char in {'"', "\n"}:
                inside = False
        elif char == '"' and depth:
            inside = True
        elif char == "{":
            start = i if depth == 0 else start
            depth += 1
        elif char == "}" and depth:
            depth -= 1
            if depth == 0:
                yield text[start : i + 1]


def last_fitting(text: str, shape: type[T]) -> T | None:
    """The last JSON object in `text` that has the shape; None when there is none."""
    found: T | None = None
    for raw in objects(text):
        try:
            value: Any = msgspec.json.decode(raw)
            found = msgspec.convert(value, shape, strict=True)
        except (msgspec.DecodeError, msgspec.ValidationError):
            continue
    return found

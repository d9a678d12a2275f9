"""The structured part of an agent's prose: how it is asked for, and how it is found. Of all balanced JSON objects the last fitting one counts."""

import re
from collections.abc import Iterator
from contextlib import suppress
from typing import TypeVar

import msgspec

T = TypeVar("T")
LONGEST = 2_000_000  # characters from the end that are looked at, where a structured answer stands
_TOKEN = re.compile(r'[{}]|"(?:\\.|[^"\\\n])*(?:["\n]|$)?', re.DOTALL)


def json_answer(shape: str) -> str:
    """How a structured answer is asked for."""
    return f"End your answer with one JSON object of exactly this shape, and nothing after it:\n\n{shape}"


def objects(text: str) -> Iterator[str]:
    """Every balanced `{…}` that is not inside another, in order; braces in strings do not count. Linear in the text."""
    text = text[-LONGEST:]
    depth, start, at = 0, 0, text.find("{")
    while at >= 0 and (token := _TOKEN.search(text, at)):
        at = token.end()
        if token[0] == "{":
            start = start if depth else token.start()
            depth += 1
        elif token[0] == "}":
            depth -= 1
            if depth == 0:
                yield text[start:at]
                at = text.find("{", at)


def last_fitting(text: str, shape: type[T]) -> T | None:
    """The last JSON object in `text` that has the shape; None when there is none."""
    found: T | None = None
    for raw in objects(text):
        with suppress(msgspec.DecodeError):
            found = msgspec.json.decode(raw, type=shape)
    return found

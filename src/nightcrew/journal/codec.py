"""Facts as bytes, and back: the schema number, the lifting of older facts, the range of every number, no secret in their prose."""

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Struct, structs

from nightcrew import __version__
from nightcrew.core.events import Event
from nightcrew.core.roster import Agent
from nightcrew.core.settings import Settings
from nightcrew.errors import UserError
from nightcrew.redact import Redactor

# The number written beside every fact. Raise it with each change of a fact that old bytes do not already satisfy, and add a lifter.
SCHEMA = 1
Raw = dict[str, Any]
Lifters = Mapping[int, Callable[[Raw], Raw]]
LIFTERS: Lifters = {}  # `LIFTERS[n]` turns a raw fact of schema `n` into one of schema `n + 1`

# The fields whose text comes from outside: secrets are taken out of them. Every other text is a name or is executed (a key, a
# branch, a command line): changing one would make the journal disagree with the world, so config keeps secrets out of those.
PROSE = frozenset(
    "approach body check detail error evidence files leaks naive note notes reason reasons rejected risks "  # noqa: SIM905
    "strengths subject summary tail text title tradeoff why".split()
)
TOLD = (Agent, Settings)  # what the operator told the run: all of it is executed, none of it is prose


def encode(event: Event) -> bytes:
    """The fact as JSON; equal facts give equal bytes."""
    return msgspec.json.encode(event, order="deterministic")


def decode(data: bytes, schema: int, lifters: Lifters = LIFTERS, newest: int = SCHEMA) -> Event:
    """The fact that was written under `schema`, lifted step by step to `newest`. Raises `UserError` for what cannot be read (rulings 32)."""
    if schema > newest:
        raise UserError(f"this run was written by a newer nightcrew ({schema}, known {newest})", "upgrade nightcrew")
    try:
        for step in range(schema, newest):
            data = msgspec.json.encode(lifters[step](msgspec.json.decode(data)))
        return _decoder().decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise UserError(f"a fact in the journal cannot be read: {error}") from error


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    union: Any = Event  # mypy knows a union as a form, not as a type; msgspec takes both
    return msgspec.json.Decoder(union)


@cache
def state_key(kind: type[Struct]) -> str:
    """A fingerprint of what `kind` looks like in this version of nightcrew. A snapshot under another key is no snapshot."""
    return sha256(msgspec.json.encode([__version__, msgspec.json.schema(kind)], order="sorted")).hexdigest()[:16]


def cleaned(value: Any, redactor: Redactor, field: str = "") -> Any:
    """A fact, or a part of it, as it may be written: no secret in its prose, no text that is not Unicode."""
    match value:
        case str():
            # A file name of the outside may hold bytes that are no UTF-8 (Python keeps them as lone surrogates); JSON cannot.
            sound = value if value.isascii() else value.encode(errors="backslashreplace").decode()
            return redactor.text(sound) if field in PROSE else sound
        case Struct() if not isinstance(value, TOLD):
            parts = {name: cleaned(getattr(value, name), redactor, name) for name in value.__struct_fields__}
            return structs.replace(value, **parts)
        case tuple():
            return tuple(cleaned(part, redactor, field) for part in value)
        case dict():
            return {name: cleaned(part, redactor, field) for name, part in value.items()}
        case _:
            return value

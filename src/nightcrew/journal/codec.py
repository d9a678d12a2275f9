"""Facts and folded states as bytes, and back: the schema number, the lifting of older facts, the range of every number.

It also takes secrets out of the prose of a fact. Where the bytes are kept is `store`'s business.
"""

from collections.abc import Callable, Mapping
from functools import cache
from hashlib import sha256
from typing import Any, TypeVar

import msgspec
from msgspec import Struct, structs

from nightcrew import __version__
from nightcrew.core.events import Event
from nightcrew.core.roster import Agent
from nightcrew.core.settings import Settings
from nightcrew.errors import UserError
from nightcrew.redact import Redactor

SCHEMA = 1
"""The number written beside every fact. Raise it with each change of a fact that old bytes do not already satisfy, and add a lifter."""

Raw = dict[str, Any]
Lifter = Callable[[Raw], Raw]
LIFTERS: Mapping[int, Lifter] = {}
"""`LIFTERS[n]` turns a raw fact of schema `n` into one of schema `n + 1`."""

PROSE = frozenset(
    {"body", "check", "detail", "error", "evidence", "note", "notes", "reason"}
    | {"rejected", "subject", "summary", "tail", "text", "title", "why"}
)
"""The fields whose text comes from outside: secrets are taken out of them.

Every other text is a name or is executed (a key, a branch, a command line); changing one would make the journal
disagree with the world, so config keeps secrets out of those.
"""

TOLD = (Agent, Settings)
"""What the operator told the run: all of it is executed, none of it is prose."""

S = TypeVar("S")


class Unreadable(UserError):  # noqa: N818 — says what the bytes are
    """Bytes in the journal are not a fact this nightcrew knows."""


def encode(event: Event) -> bytes:
    """The fact as JSON; equal facts give equal bytes."""
    return msgspec.json.encode(event, order="deterministic")


def decode(data: bytes, schema: int, lifters: Mapping[int, Lifter] = LIFTERS, newest: int = SCHEMA) -> Event:
    """The fact that was written under `schema`; an older one is lifted step by step to `newest`.

    Raises `Unreadable` for a newer schema, an unknown fact, a missing field or a number out of its range (rulings 32).
    """
    if schema > newest:
        raise Unreadable(
            f"this run was written by a newer nightcrew (schema {schema}, known {newest})", "upgrade nightcrew"
        )
    try:
        if schema == newest:
            event: Event = _decoder().decode(data)
        else:
            event = msgspec.convert(_lifted(data, schema, lifters, newest), _event())
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Unreadable(f"a fact in the journal cannot be read: {error}") from error
    return event


def _lifted(data: bytes, schema: int, lifters: Mapping[int, Lifter], newest: int) -> Raw:
    raw: Raw = msgspec.json.decode(data)
    for step in range(schema, newest):
        if step not in lifters:
            raise Unreadable(
                f"facts of schema {step} are not known any more", "resume the run with the nightcrew that wrote it"
            )
        raw = lifters[step](raw)
    return raw


def _event() -> Any:
    # mypy knows a union as a form, not as a type; msgspec takes both.
    return Event


@cache
def _decoder() -> msgspec.json.Decoder[Event]:
    return msgspec.json.Decoder(_event())


# ── states ────────────────────────────────────────────────────────────────────────────────────────────────────────


def encode_state(state: Struct) -> bytes:
    """A folded state as bytes, for the cache of snapshots only."""
    return msgspec.msgpack.encode(state)


def decode_state(data: bytes, kind: type[S]) -> S | None:
    """The state, or None when the bytes are not one of `kind`: a cache that cannot be read is folded anew."""
    try:
        return msgspec.msgpack.decode(data, type=kind)
    except msgspec.MsgspecError:
        return None


@cache
def state_key(kind: type[Struct]) -> str:
    """A fingerprint of what `kind` looks like in this version of nightcrew. A snapshot under another key is no snapshot."""
    shape = msgspec.json.encode([__version__, msgspec.json.schema(kind)], order="sorted")
    return sha256(shape).hexdigest()[:16]


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def cleaned(event: Event, redactor: Redactor) -> Event:
    """The fact as it may be written: no secret in its prose, no text that is not Unicode. The same object when nothing is to do."""
    clean: Event = _cleaned(event, "", redactor)
    return clean


def _cleaned(value: Any, field: str, redactor: Redactor) -> Any:
    match value:
        case str():
            sound = value if value.isascii() else _sound(value)
            return redactor.text(sound) if field in PROSE else sound
        case Struct() if not isinstance(value, TOLD):
            before = {name: getattr(value, name) for name in value.__struct_fields__}
            after = {name: _cleaned(part, name, redactor) for name, part in before.items()}
            changed = {name: part for name, part in after.items() if part is not before[name]}
            return structs.replace(value, **changed) if changed else value
        case tuple():
            parts = tuple(_cleaned(part, field, redactor) for part in value)
            return value if all(map(_same, parts, value)) else parts
        case dict():
            items = {name: _cleaned(part, field, redactor) for name, part in value.items()}
            return value if all(items[name] is part for name, part in value.items()) else items
        case _:
            return value


def _same(one: object, other: object) -> bool:
    return one is other


def _sound(text: str) -> str:
    # A file name of the outside may hold bytes that are no UTF-8 (Python keeps them as lone surrogates); JSON cannot.
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode(errors="backslashreplace").decode()
    return text

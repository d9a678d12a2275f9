"""A run as it stood at an earlier fact: what was known, what was in flight, what was wanted next. Pure."""

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Struct

from nightcrew.app.views import clock, headline, printable
from nightcrew.core.events import Entry, Record
from nightcrew.core.reducer import begin, reduce, wanted
from nightcrew.core.state import RunState, line
from nightcrew.errors import UserError


class Replayed(Struct, frozen=True, kw_only=True):
    """The state after entry `seq`; `fact` is that entry's, `open` and `wanted` are keys (a decision: `Record` and its name)."""

    run: str
    seq: int
    at: float
    fact: dict[str, Any]
    phase: str
    visit: int
    headline: str
    open: tuple[str, ...]
    wanted: tuple[str, ...]


def replayed(entries: Iterable[Entry], seq: int | None = None) -> Replayed:
    """The run after entry `seq`, or after the newest. Raises UserError when there is no such entry."""
    state: RunState | None = None
    last: Entry | None = None
    for entry in entries:
        if seq is not None and entry.seq > seq:
            break
        state, last = begin(entry) if state is None else reduce(state, entry), entry
    if state is None or last is None or (seq is not None and last.seq != seq):
        raise UserError(f"there is no entry {seq}", f"the last is {last.seq}" if last else "they begin with 1")
    return Replayed(
        run=state.started.run,
        seq=last.seq,
        at=last.at,
        fact=msgspec.to_builtins(last.event),
        phase=state.phase,
        visit=state.visit,
        headline=headline(state),
        open=tuple(state.open),
        wanted=tuple(f"Record {type(w.event).__name__}" if isinstance(w, Record) else w.key for w in wanted(state)),
    )


def told(seen: Replayed) -> list[str]:
    """The same in words."""
    name = seen.fact.get("type", "")
    rest = ", ".join(f"{key} {line(str(value), 60)}" for key, value in seen.fact.items() if key != "type")
    lines = [
        f"{seen.run} after entry {seen.seq}, {clock(seen.at, seen.at)}",
        f"  fact: {name}" + (f" ({line(rest, 200)})" if rest else ""),
        f"  stands: {seen.headline} · phase {seen.phase}, visit {seen.visit}",
        *(f"  in flight: {key}" for key in seen.open),
        *(f"  wanted: {key}" + (" (in flight)" if key in seen.open else "") for key in seen.wanted),
    ]
    return [printable(text) for text in lines]

"""What adapters of programs that print JSON lines share: the walk over the lines, and what the whole of them comes to."""

import io
from collections.abc import Iterator
from typing import Any

import msgspec

from nightcrew.agents import classify
from nightcrew.agents.base import Exit, Judged, Turn
from nightcrew.core.work import Class

Line = dict[str, Any]


class Told(msgspec.Struct):
    """What an output tells so far; an adapter fills it line by line."""

    began: bool = False  # there was an event
    last: bytes = b""  # the last line that is none
    session: str = ""
    answer: str = ""  # what was said last
    fresh: bool = True  # the next piece of text begins anew instead of going on
    closed: bool = False  # the event that means success came …
    failed: bool = False  # … or an error after which nothing good came
    error: str = ""  # its words, for people
    about: str = ""  # all that it says, codes and what came with it too
    kind: Class | None = None  # its class, where the adapter knows better than its words do
    tokens: int | None = None
    usd: float | None = None

    def say(self, piece: str) -> None:
        """A piece of text: it goes on with the one before unless something else came between."""
        self.answer, self.fresh = (piece, not piece) if self.fresh else (self.answer + piece, False)

    def fail(self, said: str, *about: object, kind: Class | None = None) -> None:
        """An error, which no closing event of success follows yet; `about` are fields and numbers that came with it."""
        self.closed, self.failed, self.error, self.kind = False, True, said, kind
        self.about = " ".join(str(part) for part in (*about, said) if part)

    def lines(self, out: bytes) -> Iterator[Line]:
        """The events of an output; lines that are cut, garbled or no event are passed over."""
        for raw in io.BytesIO(out):
            try:
                line = msgspec.json.decode(raw, type=Line)
            except (ValueError, RecursionError):
                self.last = raw if raw.strip() else self.last
                continue
            self.began |= isinstance(line.get("type", line.get("jsonrpc")), str)
            yield line


def rest(turn: Turn, told: Any, before: float) -> Any:
    """What this turn alone took, where a program adds up over a conversation that goes on."""
    return told - before if turn.resume and told >= before else told


def judged(told: Told, turn: Turn, end: Exit, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides, also over our own limits and the exit status; then the last error; then how the process ended."""
    if turn.resume and told.session not in {"", turn.resume}:
        return Judged(Class.SessionNotFound, "another conversation was begun than the one to go on")
    if told.closed:
        found, at = classify.answered(told.answer), None
    elif told.failed:
        kind, evidence, at = classify.failure(told.about, now, zone)
        kind = told.kind or kind
        found = Judged(kind, classify.one_line(told.error) or evidence or kind.value)
    else:
        found, at = _unfinished(told, end, err, now, zone)
    said = told.answer or None if end.stopped_by else None  # what our limit cut off is kept
    tokens = None if told.tokens is None else int(told.tokens)
    session = told.session if len(told.session) < 200 and told.session.isprintable() and told.session[:1] != "-" else ""
    return timed(found._replace(session=session, tokens=tokens, usd=told.usd, answer=found.answer or said), at, now)


def timed(found: Judged, at: float | None, now: float) -> Judged:
    """With when its limit ends: an allowance comes back then, anything else may be asked again after a span."""
    if at is None or found.kind is Class.Quota:
        return found._replace(reset_at=at)
    return found._replace(retry_after_s=at - now) if found.kind in {Class.RateLimit, Class.Overloaded} else found


def _unfinished(told: Told, end: Exit, err: bytes, now: float, zone: str) -> tuple[Judged, float | None]:
    """An end without closing event or error: our limits and signals first, then what was said on the way out. And when a limit ends."""
    found, last = classify.ended(end, err), classify.one_line(told.last[:2000].decode(errors="replace"))
    if found.kind is Class.InvalidOutput and told.began and not last.startswith("{"):
        return Judged(Class.Crashed, "left in the middle, without a closing event"), None
    if found.kind is not Class.Crashed or end.signal or end.stopped_by:
        return found, None
    said = classify.failure(f"{err[-4096:].decode(errors='replace')}\n{last}", now, zone)
    telling = classify.known(found.reason)[0] is said.kind
    return found._replace(kind=said.kind, reason=found.reason if telling or not said.evidence else said.evidence), said.reset_at

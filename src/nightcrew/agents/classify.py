"""From the fields, numbers and sentences of an error (never of an agent's answer) to a class of failure: `classify.toml`, and the order of belief.

Codes are words: `insufficient_quota`, `InsufficientQuota` and "insufficient quota" are read alike, so the table holds each meaning once.
"""

import io
import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nightcrew.agents import resets
from nightcrew.agents.base import Exit, Judged
from nightcrew.core.work import Class

SHORT_S = 600.0  # a limit that ends within this is waited for; one that lasts longer is an allowance
NOTICE = 400  # so long may an answer be that is nothing but a notice
VAGUE = frozenset({400, 401, 402, 403, 404, 429, 500, 503})  # these stand for several classes: the words beside them decide
UNSTARTED = frozenset({126, 127})  # how a shell ends that could not start the program
LIMITS = {  # our own bounds, by the supervisor's word for them
    "total": "ran into the time limit of a turn",
    "idle": "printed nothing for too long",
    "first_output": "printed nothing at all for too long",
    "flood": "printed more than a turn may",
    "loop": "went in circles",
}
_CLOSING = {"result", "turn.completed", "turn.failed", "turn/completed", "task_complete", "completion", "completion_result"}
_ANSWERS = frozenset({"assistant", "text", "agent_message", "agent_message_chunk", "message_end"})
_MARKS = frozenset({"type", "role", "jsonrpc", "response", "error", "event", "method"})
_WEAK = frozenset({Class.ConfigError, Class.Crashed, Class.InvalidOutput})  # what a wrapper says too, of whatever it was told


class Table(NamedTuple):
    """The file `classify.toml`, compiled."""

    telling: tuple[tuple[Class, re.Pattern[str]], ...]
    faint: tuple[tuple[Class, re.Pattern[str]], ...]
    statuses: dict[int, Class]
    exits: dict[int, Class]
    shapes: dict[str, re.Pattern[str]]


class Told(NamedTuple):
    """What an output tells: the class, the piece that decided, when the limit ends."""

    kind: Class
    evidence: str = ""
    reset_at: float | None = None


class Stream(NamedTuple):
    """What a stream of JSON events came to."""

    events: int = 0
    answer: str = ""  # so far
    good: str = ""  # the closing event that says so
    bad: tuple[str, ...] = ()  # the words of a bad end, and of what went before it …
    closed: bool = False  # … which was the last word
    refused: Any = None  # the fields of the window that a plan limit closed; empty if it did not
    rest: str = ""  # the lines that are no event


@cache
def table() -> Table:
    """What errors say."""
    told = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    telling, faint = (tuple((Class(kind), re.compile(said)) for kind, said in told[name]) for name in ("telling", "faint"))
    statuses, exits = ({n: Class(kind) for kind, group in told[name].items() for n in group} for name in ("statuses", "exits"))
    return Table(telling, faint, statuses, exits, {name: re.compile(shape) for name, shape in told["shapes"].items()})


def output(out: str | None, err: str, end: Exit | None, now: float, zone: str) -> Told:
    """What one whole turn printed, in the order of belief. `out` None: only standard error was kept. `end` None: how it ended is not known."""
    out, err = None if out is None else resets.unstyled(out), resets.unstyled(err)
    seen = _stream(out or "")
    trailer = table().shapes["trailer"].search(seen.answer[-resets.TAIL :])
    if seen.good and (trailer or _is_notice(seen.answer)):
        return failure(trailer[0] if trailer else seen.answer, now, zone)
    if seen.good and (seen.answer.strip() or (seen.good == "stopReason" and seen.events == 1)):
        return Told(Class.Ok, f"{seen.good}, and an answer")
    if seen.bad and seen.closed:
        return _failed(seen, err, end, now, zone)
    if end and end.stopped_by in LIMITS:
        return Told(Class.Timeout, f"it {LIMITS[end.stopped_by]}")
    if seen.good:
        return Told(Class.InvalidOutput, f"{seen.good}, and no answer")
    if end and (end.signal or end.stopped_by):
        return Told(Class.Crashed, f"died of signal {end.signal}")
    if seen.bad:
        return _failed(seen, err, end, now, zone)
    if seen.events and not (end and end.code):
        return _left(seen, end, now)
    return _printed(seen.rest if out is not None else None, err, end, now, zone)


def _failed(seen: Stream, err: str, end: Exit | None, now: float, zone: str) -> Told:
    """A stream with a bad end: the last of its words that tell anything, then what else was printed, then the exit status."""
    said = _telling(failure(words, now, zone) for words in reversed(seen.bad))
    if said is None or said.kind is Class.Crashed:
        said = _printed("\n".join((seen.rest, *seen.bad[-1:])), err, end or Exit(1), now, zone)
    if said.kind in {Class.Quota, Class.RateLimit} and said.reset_at is None:
        said = said._replace(reset_at=resets.told(err, now, zone))
    return said


def _telling(found: Iterator[Told]) -> Told | None:
    """The first that names a reason, rather than one that a wrapper may have put over it."""
    weak = None
    for told in found:
        if told.evidence and told.kind not in _WEAK:
            return told
        weak = weak or (told if told.evidence else None)
    return weak


def _left(seen: Stream, end: Exit | None, now: float) -> Told:
    """A stream without any end."""
    if seen.refused:
        return Told(Class.Quota, "rate_limit_event", resets.instant(seen.refused["resets_at"], now))
    if seen.rest.lstrip().startswith("{"):
        return Told(Class.InvalidOutput, "half a document")
    good = seen.answer.strip() or seen.refused is not None
    return Told(Class.Ok, "no error") if good else Told(Class.InvalidOutput if end else Class.Crashed, "left without an end")


def _printed(out: str | None, err: str, end: Exit | None, now: float, zone: str) -> Told:
    """Plain text: prose is believed where the end was bad, or where it is nothing but the frame of an error or a known notice."""
    if end and end.code in UNSTARTED:
        return Told(Class.ConfigError, last_line(f"{out or ''}\n{err}".encode()) or f"exit status {end.code}")
    texts = [text for text in (err, out or "") if text.strip()] if end is None or end.code or out is None else [out]
    if end is None:  # what was said after an error shows that it was overcome
        texts = [text[-resets.TAIL :] if len(text) > 2 * NOTICE else text for text in texts]
        texts = [text[max([0, *(at.start() for at in table().shapes["speaks"].finditer(text))]) :] for text in texts]
    if out is None and table().shapes["fine"].match(err) and not table().shapes["bad"].search(err[: resets.TAIL]):
        return Told(Class.Ok, "an answer without an error")
    if end and not end.code:  # what was said once a program's own tries were over
        last = [max(text.rfind(word) for word in ("etrying", "econnecting")) for text in texts]
        texts = [text[at:].partition("\n")[2] or text if at >= 0 else text for text, at in zip(texts, last, strict=True)]
    found = (failure(piece, now, zone, "" if out else err) for text in texts for piece in _pieces(text, end, alone=out is None))
    if told := _telling(found):
        return told
    if end and end.code:
        kind = table().statuses.get(end.code + 256, table().exits.get(end.code, Class.Crashed))
        return Told(kind, last_line("\n".join(texts).encode()) or f"exit status {end.code}")
    if end is None and any(text[start:].lstrip(" \n>│")[:1] != "⎿" for text in texts for start in _starts(text, end)):
        return Told(Class.Crashed, last_line("\n".join(texts).encode()))
    half = out is not None and (not out.strip() or out.lstrip().startswith('{"'))
    return Told(Class.InvalidOutput, "half a document, or nothing") if half else Told(Class.Ok, "no error")


def _pieces(text: str, end: Exit | None, *, alone: bool) -> Iterator[str]:
    """The pieces of a text that speak of an error: what follows each beginning of one, the last first; then all of it, if that may be."""
    tail = resets.unstyled(text[-resets.TAIL :])
    starts = _starts(tail, end)
    for start, stop in zip(starts[:-9:-1], [None, *starts[:0:-1]], strict=False):
        yield from (tail[start:], tail[start:stop])
    if trailer := table().shapes["trailer"].search(tail):
        yield trailer[0]
    lines = text.strip().splitlines() if len(text) <= NOTICE else []  # a notice may be the last; not what an answer quotes
    ends = ["\n".join(lines[n:]) for n in range(1, len(lines)) if lines[n][:1].isalpha() and not lines[n - 1].endswith(":")]
    if (end.code if end else alone) or any(map(_is_notice, (text, *ends))):
        yield tail
    elif end is None and len(text) <= 2 * NOTICE and not table().shapes["speaks"].match(text):
        yield text if table().shapes["bad"].search(text) else table().shapes["prose"].sub(" ", text)


def _starts(text: str, end: Exit | None) -> list[int]:
    """Where the words of errors begin; after a good end only at the very beginning."""
    frame, hard = table().shapes["frame"], table().shapes["hard"]
    first = None if end is None or end.code else re.match(r"\s*", text)
    return [at for at in (at.start() for at in frame.finditer(text)) if not first or (at <= first.end() and hard.match(text, at))]


def failure(text: str, now: float, zone: str, whole: str = "") -> Told:
    """What the words of an error tell, or `whole`, in which they stand, of its end. A limit that is over soon is one of rate, else an allowance."""
    kind, evidence = known(text)
    at = resets.told(text, now, zone) if kind in {Class.Quota, Class.RateLimit, Class.Billing} else None
    at = resets.told(whole, now, zone) if at is None and whole and kind in {Class.Quota, Class.RateLimit} else at
    if at is not None and (kind is Class.Billing or at - now > SHORT_S):
        kind = Class.Quota
    elif at is not None and table().shapes["rolling"].search(text.lower()):
        kind = Class.RateLimit
    return Told(kind or Class.Crashed, evidence, at)


def known(text: str) -> tuple[Class | None, str]:
    """The class of an error message and the words or the number that decided."""
    readings = plain(text)[: 1 if len(text) > 2000 else 2]  # what is long is not wrapped inside a word
    found = table().shapes["number"].search(readings[0])
    number = int(found[1] or found[2] or found[3]) if found else 0
    by_number = (table().statuses[number], found[0].strip()) if found and number in table().statuses else None
    said = (
        next(((kind, hit[0]) for kind, saying in sayings for text in readings if (hit := saying.search(text))), None)
        for sayings in (table().telling, table().faint)
    )
    return (by_number if number not in VAGUE else None) or next(said) or by_number or next(said) or (None, "")


def plain(text: str) -> tuple[str, ...]:
    """A text as the table is written: lower case, codes as words, no names of source files, quotes straight, blanks folded; once more without the wraps."""
    readings = (table().shapes["source"].sub(" ", one) for one in resets.readings(text))
    return tuple(" ".join(one.split()) for one in (re.sub(r"(?<=[a-z0-9])(?=[A-Z])|[_-]", " ", one).lower() for one in readings))


def _is_notice(answer: str) -> bool:
    """Whether an answer is nothing but a known notice."""
    opens = len(answer) <= NOTICE and table().shapes["opener"].match(plain(answer)[0])
    return bool(opens) and not table().shapes["speaks"].search(answer.lstrip(), 1) and known(answer)[0] is not None


def _stream(out: str) -> Stream:
    """What the lines of an output came to, or all of it as one document."""
    seen, rest, words, lines = Stream(), [], [""], io.StringIO(out).readlines()
    for raw in lines:
        event = _decoded(raw)
        if event is None:
            rest.append(raw)
        elif event.get("delta") is True and event.get("role") == "assistant":  # a word of an answer: there may be many thousands
            words.append(_text(event.get("content")))
        else:
            seen, words = _event(seen._replace(answer=seen.answer + "".join(words)) if words else seen, event), []
    seen = seen._replace(answer=seen.answer + "".join(words), events=len(lines) - len(rest), rest="".join(rest))
    whole = None if seen.events else _decoded(out)
    return _event(seen, whole)._replace(events=1, rest="") if whole else seen


def _decoded(text: str) -> dict[str, Any] | None:
    """An event, if this is one."""
    if text.lstrip()[:1] == "{":
        with suppress(ValueError, RecursionError):
            event: dict[str, Any] = msgspec.json.decode(text)
            return None if _MARKS.isdisjoint(event) else event
    return None


def _event(seen: Stream, event: dict[str, Any]) -> Stream:
    """The stream after one more event, of whichever program: the closing ones are known by their type and their fields."""
    event = _opened(event)
    sort, sub = _text(event.get("type")), fields(event.get("item") or event.get("part") or event.get("message"))
    if sort == "rate_limit_event":
        info = fields(event.get("rate_limit_info"))
        return seen._replace(refused={"resets_at": info.get("resetsAt")} if info.get("status") == "rejected" else {})
    if sort in _ANSWERS or sub.get("type") == "agent_message" or event.get("role") == "assistant":
        content = sub.get("content") or event.get("content") or sub.get("text") or event.get("text")
        parts = [_text(fields(part).get("text")) for part in content] if isinstance(content, list) else [_text(content)]
        seen = seen._replace(answer="\n".join(parts) or seen.answer)
    elif sort in {"tool_use", "tool_result"}:
        seen = seen._replace(answer="")
    stopped = _text(sub.get("stopReason") or sub.get("reason") or fields(event.get("result")).get("stopReason"))
    if window := spent(event.get("rate_limits")):
        seen = seen._replace(refused={"resets_at": window.get("resets_at")})
    if _is_bad(sort, event, stopped):
        telling, spoken = table().shapes["telling"], {**event, **(seen.refused or {})}
        words = {name: part for name, part in spoken.items() if telling.search(name.lower())}
        bare = sort == "result" and not words.keys() & {"error", "errors", "result", "message"}
        closed = sort in _CLOSING or "jsonrpc" in event or sort == "message_end"
        return seen._replace(good="", bad=seen.bad if bare and seen.bad else (*seen.bad, _flat(words)), closed=closed)
    if sort in _CLOSING or stopped in {"stop", "end_turn"} or "response" in event:
        told = (_text(event.get(name)) for name in ("result", "response", "finalText", "last_agent_message", "text"))
        answer = next(filter(None, told), "")
        answer = answer if "result" in event and sort else answer or seen.answer
        return seen._replace(good="stopReason" if "jsonrpc" in event else sort or "response", bad=(), closed=False, answer=answer)
    return seen


def _opened(event: dict[str, Any]) -> dict[str, Any]:
    """An event out of its envelope: a server's notification, a line of a transcript, a name with its fields."""
    name = _text(event.get("event") or event.get("method") or event.get("say"))
    inner = fields(event.get(name) or event.get("params") or event.get("payload"))
    update = fields(inner.get("update"))
    sort = _text(update.get("sessionUpdate")) or name or _text(event.get("type"))
    return {**event, "type": sort, **inner, **update, **fields(inner.get("turn"))}


def _is_bad(sort: str, event: dict[str, Any], stopped: str) -> bool:
    """Whether an event tells of an error of the whole turn."""
    if sort == "result":
        fine = event.get("subtype") in {None, "success"} and _text(event.get("status")).lower() in {"", "success"}
        return bool(event.get("is_error") or event.get("error") or not fine)
    told = isinstance(event.get("error"), dict) and "tool" not in sort and not sort.startswith(("item", "user"))
    return not event.get("willRetry") and (told or stopped == "error" or sort.endswith(("error", "turn.failed")))


def _flat(value: Any) -> str:
    """The fields of an error, one a line."""
    if isinstance(value, dict):
        return "\n".join(f"{name}: {_flat(part)}" for name, part in value.items() if part not in (None, "", [], {}))
    return "\n".join(map(_flat, value)) if isinstance(value, list) else str(value)


def fields(value: object) -> dict[str, Any]:
    """The fields of what should be an object; anything else has none."""
    return value if isinstance(value, dict) else {}


def total(counts: object, *names: str) -> Any:
    """The sum of some figures; what is no number counts nothing."""
    return sum(n for name in names if isinstance(n := fields(counts).get(name), int | float) and 0 <= n < 2**53)


def spent(limits: object) -> dict[str, Any]:
    """Of the windows of an allowance the one that is used up; of several the one that ends last."""
    used = [one for one in map(fields, fields(limits).values()) if total(one, "used_percent") >= 100]
    return max(used, key=lambda one: total(one, "resets_at"), default={})


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def one_line(text: str, width: int = 160) -> str:
    """`text` in one line of at most `width` printable characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"


def last_line(output: bytes) -> str:
    """The last line of some output that is not blank, for a reason; only the end of a long output is looked at."""
    return next((told for line in reversed(output[-8192:].decode(errors="replace").split("\n")) if (told := one_line(line))), "")


def answered(text: str) -> Judged:
    """A good end, if anything was said."""
    return Judged(Class.Ok, answer=text) if text.strip() else Judged(Class.InvalidOutput, "ended without an answer")


def ended(end: Exit, err: bytes) -> Judged:
    """What an end without a closing event means: our limits first, then the exit status, then the last words."""
    said = last_line(err)
    if end.stopped_by in LIMITS:
        return Judged(Class.Timeout, f"stopped: it {LIMITS[end.stopped_by]}")
    if end.stopped_by:
        return Judged(Class.Crashed, one_line(f"was told to end ({end.stopped_by})"))
    if end.code in UNSTARTED:
        return Judged(Class.ConfigError, said or f"could not be started (exit status {end.code})")
    if not end.code and not end.signal:
        return Judged(Class.InvalidOutput, said or "ended without an answer")
    how = f"died of signal {end.signal}" if end.signal else f"exit status {end.code}"
    return Judged(Class.Crashed, one_line(f"{how}: {said}" if said else how))

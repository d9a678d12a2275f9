"""When an allowance comes back, in seconds since the epoch: a time that is not understood is None, one that is past means now.

`resets.toml` holds how times are written. Fields outrank sentences, and of several windows the one that is used up decides. A text may be
wrapped anywhere, also inside a word: it is read with its lines joined by a blank and by nothing, and the reading that takes in more counts.
"""

import re
import tomllib
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple
from zoneinfo import ZoneInfo

TAIL = 4096  # so many characters of an error are read, a quarter of them from its beginning
OWN_S = 600.0  # what a program waits of itself is no reset; beyond this it only passes on what the service asked
LONGEST_S = 400 * 86400.0
_WEEK = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
Found = tuple[float, int]  # a time or a span, and how many characters it was read from


class Grammar(NamedTuple):
    """The file `resets.toml`, compiled."""

    words: dict[str, re.Pattern[str]]
    moments: dict[str, re.Pattern[str]]
    part: re.Pattern[str]
    units: tuple[float, ...]
    months: dict[str, int]
    zones: dict[str, str]
    same: dict[str, str]


@cache
def grammar() -> Grammar:
    """How times are written."""
    told = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
    parts = {**told["parts"], "months": "|".join(told["months"].values())}

    def pattern(text: str) -> re.Pattern[str]:
        while (filled := re.sub(r"(?<!\?P)<(\w+)>", lambda match: parts[match[1]], text)) != text:
            text = filled
        return re.compile(text, re.IGNORECASE | re.MULTILINE)

    units = "|".join(f"({unit})(?![a-z])" for unit in told["units"])
    part = pattern(rf"[\s,]*(?:and\s|y\s|e\s|et\s|und\s)?\s*(\d{{1,9}}(?:\.\d+)?)\s*(?:{units})")
    words, moments = ({name: pattern(text) for name, text in told[table].items()} for table in ("words", "moments"))
    months = {name: int(number) for number, names in told["months"].items() for name in names.split("|")}
    return Grammar(words, moments, part, tuple(told["units"].values()), months, told["zones"], told["same"])


def instant(value: object, now: float) -> float | None:
    """A time that stands alone in a field: Unix seconds or milliseconds, or an ISO 8601 stamp with its offset."""
    if isinstance(value, str):
        with suppress(ValueError, OverflowError):
            at = datetime.fromisoformat(re.sub(r"\s*(?:UTC|GMT)$", "Z", value.strip(" ,"), flags=re.IGNORECASE))
            return max(now, at.timestamp()) if at.tzinfo else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e14:
        return None
    return max(now, value / 1000 if value > 1e11 else float(value))


def told(text: str, now: float, zone: str) -> float | None:
    """When a limit notice says that it ends; the last of several notices decides. `zone` is the host's, for a bare clock."""
    found = [best for reading in readings(text) if (best := _fields(reading, now) or _notices(reading, now, zone))]
    return max(found, key=lambda one: one[1])[0] if found else None


def unstyled(text: str) -> str:
    """A text without a terminal's colours and cursor moves, also where the escape character was lost."""
    return grammar().words["style"].sub("", text) if len(text) <= TAIL or "\x1b" in text else text


def readings(text: str) -> tuple[str, ...]:
    """A text without quoting and frames, its wrapped lines joined by blanks; and once more joined by nothing."""
    text = text if len(text) <= TAIL else f"{text[: TAIL // 4]}\n{text[-TAIL * 3 // 4 :]}"
    text = unstyled(re.sub(r"\\+u([0-9a-f]{4})", lambda code: chr(int(code[1], 16)), text))
    for said, meant in grammar().same.items():
        text = re.sub(said, meant, text)
    plain = re.sub(r"\\+(?=[\"'])", "", text).translate({0x2019: "'", 0xA0: " ", 0x202F: " "})
    plain = grammar().words["noise"].sub(" ", re.sub(r"\\+[nrt]|'\s*\+\n\s*'|[│┃╭╮╰╯]", "\n", plain))
    lines = [line.strip() for line in plain.split("\n") if line.strip()]
    return (" ".join(lines), "".join(lines)) if len(lines) > 1 else (" ".join(lines),)


def _fields(text: str, now: float) -> Found | None:
    """What headers and JSON fields tell: the window that is used up, else a plain reset or wait, else a window with nothing left."""
    fields = {name.lower().replace("_", "-"): value.strip() for name, value in grammar().words["field"].findall(text)}
    told = {name: _value(name, value, now) for name, value in fields.items() if re.search("reset|retry", name)}
    times = {name: at for name, at in told.items() if at is not None}
    used = tuple(name[:-12] for name, value in fields.items() if name.endswith("used-percent") and re.match(r"1\d\d", value))
    window = partial(re.compile(r"-?(remaining|reset)(?![a-z])").sub, "")  # without the word that tells which figure it is
    spent = [window(name) for name, value in fields.items() if "remaining" in name and re.match(r"0(?![\d.])", value)]
    shut = [name[:-7] for name, value in fields.items() if re.fullmatch("(?!.*overage).*-status rejected", f"{name} {value[:8]}")]
    choices = (
        [name for name in times if name.removesuffix("-reset") in shut],
        [name for name in times if used and name.startswith(used)],
        [name for name in times if re.fullmatch(r"resets?-?(in|after)-?seconds|resets?-?at|quota-?reset-?time-?stamp", name)],
        [name for name in times if re.fullmatch(r"retry-?(after|delay)(-?(ms|seconds))?", name)],
        [name for name in times if window(name) in spent],
        [name for name in times if not spent and not used and not re.search(r"limit-|used", name)],
        [*times] if len(times) == 1 and not re.search("remaining|used", " ".join(fields)) else [],
    )
    name = max(next((names for names in choices if names), ()), key=lambda name: times[name], default="")
    return (times[name], TAIL + len(name + fields[name].split(maxsplit=1)[0])) if name else None


def _value(name: str, value: str, now: float) -> float | None:
    """The time in a field of that name: a span, an HTTP date, a stamp, an instant, or a number of seconds to wait."""
    if name.endswith("-ms") and (found := re.match(r"\d+(?!\d)", value)):
        return now + float(found[0]) / 1000
    if span := _span(value, 0):
        return now + span[0]
    if found := re.match(r"\d{1,20}(?:\.\d+)?(?![\w:/-])", value):
        number = float(found[0])
        return instant(number, now) if number > 1e8 else now + (number / 1000 if name.endswith("ms") else number)
    with suppress(ValueError, TypeError, IndexError):
        return max(now, parsedate_to_datetime(value).timestamp()) if value[:1].isalpha() else instant(value, now)
    return None


def _notices(text: str, now: float, host: str) -> Found | None:
    """The last sentence that tells when; else a full date or a weekday with a clock, or a clock beside a place, in whatever language."""
    words, moments = grammar().words, grammar().moments
    found = [(at, 12) for bar in words["bar"].findall(text) if (at := instant(int(bar), now))]
    found += [one for lead in words["lead"].finditer(text) if (one := _after(text, lead.end(), now, host))]
    waits = (_span(text, own.end()) for own in words["own"].finditer(text))
    found += [(now + wait[0], wait[1]) for wait in waits if wait and wait[0] > OWN_S]
    for back in words["behind"].finditer(text) if not found else ():
        begins = [max(0, back.start() - 40), *(stop.end() for stop in words["stop"].finditer(text, 0, back.start()))]
        found += [one] if (one := _after(text, max(begins), now, host)) else []
    if not found:
        patterns = [moments[name] for name in ("ymd", "mdy", "cjk", "month_day", "day_month", "weekday")]
        dated = [m for pattern in patterns for m in pattern.finditer(text) if m["hour"] and (m["year"] or m["zone"])]
        found = [one for match in (*moments["place"].finditer(text), *dated) if (one := _moment(match, now, host))]
    return found[-1] if found else None


def _after(text: str, start: int, now: float, host: str) -> Found | None:
    """The span or the moment that follows a word like "resets", in the same sentence."""
    stop = grammar().words["stop"].search(text, start, start + 90)
    for begin in grammar().words["start"].finditer(text, start, stop.start() if stop else start + 90):
        if span := _span(text, begin.start()):
            return now + span[0], span[1]
        for name, pattern in grammar().moments.items():
            # A bare number is no clock.
            if (match := pattern.match(text, begin.start())) and (name not in {"clock", "place"} or _clocked(match)):
                return _moment(match, now, host)
    return None


def _span(text: str, start: int) -> Found | None:
    """A span that begins there, in seconds: `1 day 2 hours`, `5h21m9s`, `640ms`."""
    total, end = 0.0, start
    while part := grammar().part.match(text, end):
        total += float(part[1]) * next(size for group, size in zip(part.groups()[1:], grammar().units, strict=True) if group)
        end = part.end()
    return (total, len("".join(text[start:end].split()))) if end > start and total <= LONGEST_S else None


def _clocked(match: re.Match[str]) -> bool:
    return bool(match["hour"] and (match["minute"] or match["after"] or match["before"]))


def _moment(match: re.Match[str], now: float, host: str) -> Found | None:
    """The next moment at which a calendar and a clock in that zone show what was written; a date up to half a year ago is past."""
    said = match.groupdict("")
    with suppress(ValueError, OverflowError):
        clock, zone = time(), _zone("", host)  # a day without a clock is that day where the reader is
        if _clocked(match):
            hour, half = int(said["hour"]), said["before"] or said["after"].lower()
            if half:
                hour = (hour % 12 if hour <= 12 else hour) + 12 * half.startswith(("p", "م", "午後", "下午", "오후"))
            clock = time(hour, int(said["minute"] or 0), int(said["second"] or 0))
            zone = _zone(said["zone"] or said["plain"], host)
        here = datetime.fromtimestamp(now, zone)
        for day, exact in _days(said, here.date()):
            at = datetime.combine(day, clock, zone)
            # Minutes are what was written: within this very minute the moment has come.
            if exact or at >= here.replace(second=0, microsecond=0):
                return max(now, at.timestamp()), len("".join(match[0].split()))
    return None


def _days(said: dict[str, str], today: date) -> Iterator[tuple[date, bool]]:
    """The days that may be meant, the next first, and whether each is named so exactly that it may be over."""
    if said.get("day"):
        month, day = int(said.get("num") or 0) or grammar().months[said["mon"].lower()], int(said["day"])
        month, day = (day, month) if month > 12 else (month, day)
        for year in (int(said["year"]),) if said["year"] else (today.year - 1, today.year, today.year + 1):
            with suppress(ValueError):
                if said["year"] or date(year, month, day) >= today - timedelta(days=180):
                    yield date(year, month, day), True
        return
    for ahead in range(1, 2) if said.get("next") else range(9):
        then = today + timedelta(days=ahead)
        if not said.get("week") or _WEEK[then.weekday()] == said["week"].lower():
            yield then, False


def _zone(name: str, host: str) -> tzinfo:
    """The zone of that name or offset, else the host's, else UTC: nobody's clock may crash a run."""
    if name and (offset := re.fullmatch(r"(?:utc|gmt|z)?\s*(?:([+-])(\d{1,2}):?(\d\d)?)?", name, re.IGNORECASE)):
        with suppress(ValueError):
            span = timedelta(hours=int(offset[2] or 0), minutes=int(offset[3] or 0))
            return timezone(-span if offset[1] == "-" else span)
    for candidate in (grammar().zones.get(name.lower(), name), host):
        with suppress(ValueError, OSError, LookupError):
            return ZoneInfo(candidate)
    return UTC

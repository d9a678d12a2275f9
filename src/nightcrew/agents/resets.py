"""When an allowance comes back: from the times that programs write to seconds since the epoch.

A time that is not understood is None, never a guess; one that is past means now.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}

_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d{2}))?\s*(?P<half>[ap]m)"
_DATE = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:,\s*(?P<year>\d{{4}}))?"
_DAY = rf"(?:{_DATE}|(?P<weekday>{'|'.join(_DAYS)})[a-z]*)(?:,?\s+(?:at\s+)?)?"
_RESETS = re.compile(
    rf"resets?\s+(?:at\s+|on\s+)?(?:{_DAY})?(?:{_CLOCK})?\s*(?:\((?P<zone>[\w/+-]+)\))?", re.IGNORECASE
)
_BAR = re.compile(r"limit reached\|(\d{9,13})", re.IGNORECASE)
_STAMP = re.compile(
    r"\d{4}-\d\d-\d\d(?:T| at | )\d\d:\d\d(?::\d\d)?(?:\.\d+)?\s*(?:Z|UTC|[+-]\d\d:?\d\d)", re.IGNORECASE
)
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def instant(value: object, now: float) -> float | None:
    """A time that stands alone in a field: Unix seconds or milliseconds, or an ISO 8601 stamp with its offset."""
    match value:
        case bool() | None:
            return None
        case int() | float():
            return max(now, value / 1000 if value > 1e11 else float(value)) if value > 0 else None
        case str():
            return _stamp(value, now)
        case _:
            return None


def span(value: object) -> float | None:
    """A wait that stands alone in a field, in seconds: a number of seconds, or units as in `2h30m` or `640ms`."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return max(0.0, float(value))
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _SPAN.findall(text)
    return sum(float(n) * _UNITS[unit] for n, unit in parts) if parts and not _SPAN.sub("", text).strip() else None


def told(text: str, now: float, zone: str) -> float | None:
    """When a limit notice says that it ends; the last of several notices decides. `zone` is the host's, for a bare clock."""
    flat = " ".join(text.split())
    bars = _BAR.findall(flat)
    if bars:
        return instant(int(bars[-1]), now)
    found = [at for match in _RESETS.finditer(flat) if (at := _moment(match, now, zone)) is not None]
    return found[-1] if found else _stamp(flat, now)


def _stamp(text: str, now: float) -> float | None:
    """The last date with time and offset in `text`."""
    found = _STAMP.findall(text)
    if not found:
        return None
    plain = re.sub(r"\s*(Z|UTC)$", "+00:00", found[-1].upper()).replace(" AT ", " ").replace("T", " ")
    try:
        return max(now, datetime.fromisoformat(plain).timestamp())
    except ValueError:
        return None


def _moment(match: re.Match[str], now: float, host: str) -> float | None:
    """The next moment at which a calendar and clock in that zone show what was written."""
    zone = _zone(match["zone"] or "", host)
    here = datetime.fromtimestamp(now, zone)
    clock = _clock(match)
    try:
        if match["month"]:
            # A day without a clock is that day where the reader is.
            return _dated(match, here if clock else datetime.fromtimestamp(now, _zone("", host)), clock or time())
        if match["weekday"] and clock:
            ahead = (_DAYS.index(match["weekday"].lower()) - here.weekday()) % 7
            return _next(here, here.date() + timedelta(days=ahead), clock, timedelta(days=7))
        return _next(here, here.date(), clock, timedelta(days=1)) if clock else None
    except ValueError:
        return None


def _clock(match: re.Match[str]) -> time | None:
    """The time of day that was written, if one was."""
    if not match["hour"] or not 1 <= int(match["hour"]) <= 12 or int(match["minute"] or 0) > 59:
        return None
    return time(int(match["hour"]) % 12 + (12 if match["half"].lower() == "pm" else 0), int(match["minute"] or 0))


def _dated(match: re.Match[str], here: datetime, clock: time) -> float:
    """A month and day, with their year or the next such date (a day that is only just past means now)."""
    month, day = _MONTHS.index(match["month"].lower()) + 1, int(match["day"])
    year = int(match["year"] or here.year)
    at = datetime.combine(date(year, month, day), clock, here.tzinfo)
    if not match["year"] and here - at > timedelta(days=180):
        at = datetime.combine(date(year + 1, month, day), clock, here.tzinfo)
    return max(here.timestamp(), at.timestamp())


def _next(here: datetime, day: date, clock: time, step: timedelta) -> float:
    """The first moment from `day` on, in steps, at which the clock shows that time and which is not past."""
    at = datetime.combine(day, clock, here.tzinfo)
    # Minutes are what was written: within this very minute the moment has come.
    if at < here.replace(second=0, microsecond=0):
        at = datetime.combine(day + step, clock, here.tzinfo)
    return max(here.timestamp(), at.timestamp())


def _zone(name: str, host: str) -> tzinfo:
    """The zone of that name, else the host's, else UTC: nobody's clock may crash a run."""
    for candidate in (name, host):
        if candidate.upper() in {"UTC", "GMT", "Z"}:
            return UTC
        try:
            return ZoneInfo(candidate)
        except (ValueError, OSError, LookupError):
            continue
    return UTC

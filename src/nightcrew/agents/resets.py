"""When an allowance comes back, in seconds since the epoch: a time that is not understood is None, one that is past means now."""

import re
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_DATE = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*\.?\s+(?P<day>\d{{1,2}})(?:,\s*(?P<year>\d{{4}}))?"
_DAY = rf"(?:{_DATE}|(?P<weekday>{'|'.join(_DAYS)})[a-z]*)(?:,?\s+(?:at\s+)?)?"
_CLOCK = r"(?P<hour>0?[1-9]|1[0-2])(?::(?P<minute>[0-5]\d))?\s*(?P<half>[ap]m)"
_RESETS = re.compile(rf"resets?\s+(?:at\s+|on\s+)?(?:{_DAY})?(?:{_CLOCK})?\s*(?:\((?P<zone>[\w/+-]+)\))?", re.IGNORECASE)
_BAR = re.compile(r"limit reached\|(\d{9,13})", re.IGNORECASE)
_STAMP = re.compile(r"(\d{4}-\d\d-\d\d)(?:T| at | )(\d\d:\d\d(?::\d\d)?(?:\.\d+)?)\s*(Z|UTC|[+-]\d\d:?\d\d)", re.IGNORECASE)


def instant(value: object, now: float) -> float | None:
    """A time that stands alone in a field: Unix seconds or milliseconds, or an ISO 8601 stamp with its offset."""
    if isinstance(value, str):
        return told(value, now, "")
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return None
    return max(now, value / 1000 if value > 1e11 else float(value))


def told(text: str, now: float, zone: str) -> float | None:
    """When a limit notice says that it ends; the last of several notices decides. `zone` is the host's, for a bare clock."""
    flat = " ".join(text.split())
    found = [instant(int(bar), now) for bar in _BAR.findall(flat)]
    found = found or [_moment(match, now, zone) for match in _RESETS.finditer(flat)]
    found = [at for at in found if at is not None] or [_stamp(stamp, now) for stamp in _STAMP.findall(flat)]
    return found[-1] if found else None


def _stamp(parts: tuple[str, str, str], now: float) -> float | None:
    with suppress(ValueError):
        return max(now, datetime.fromisoformat("{}T{}{}".format(*parts).upper().replace("UTC", "Z")).timestamp())
    return None


def _moment(match: re.Match[str], now: float, host: str) -> float | None:
    """The next moment at which a calendar and a clock in that zone show what was written; a date up to half a year ago is past."""
    if not match["month"] and not match["hour"]:
        return None
    clock, zone = time(), _zone("", host)  # a day without a clock is that day where the reader is
    if match["hour"]:
        clock = time(int(match["hour"]) % 12 + 12 * (match["half"].lower() == "pm"), int(match["minute"] or 0))
        zone = _zone(match["zone"], host)
    here = datetime.fromtimestamp(now, zone)
    for ahead in range(-180 if match["month"] else 0, 550):
        at = datetime.combine(here.date() + timedelta(days=ahead), clock, zone)
        # Minutes are what was written: within this very minute the moment has come.
        if _shows(match, at) and (match["month"] or at >= here.replace(second=0, microsecond=0)):
            return max(now, at.timestamp())
    return None


def _shows(match: re.Match[str], day: date) -> bool:
    if match["month"]:
        written = (_MONTHS.index(match["month"].lower()) + 1, int(match["day"]))
        return (day.month, day.day) == written and match["year"] in {None, str(day.year)}
    return match["weekday"] is None or match["weekday"].lower() == _DAYS[day.weekday()]


def _zone(name: str | None, host: str) -> tzinfo:
    """The zone of that name, else the host's, else UTC: nobody's clock may crash a run."""
    for candidate in (name or "", host):
        with suppress(ValueError, OSError, LookupError):
            return ZoneInfo(candidate)
    return UTC

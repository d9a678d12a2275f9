"""Times at which an allowance comes back."""

from datetime import datetime

import pytest
from hypothesis import given, strategies as st

from nightcrew.agents import resets


def at(stamp: str) -> float:
    """An ISO stamp in seconds since the epoch."""
    return datetime.fromisoformat(stamp).timestamp()


@pytest.mark.parametrize(
    ("text", "now", "host", "expected"),
    [
        ("You've hit your 5-hour limit · resets 9:19am (UTC)", "2026-11-30T08:00:00Z", "", "2026-11-30T09:19:00Z"),
        ("weekly limit · resets Dec 4, 11:48pm (UTC)", "2026-11-30T08:00:00Z", "", "2026-12-04T23:48:00Z"),
        # The next time the clock shows it: tomorrow's morning, the coming midnight, just past noon.
        ("resets 8am (America/Halifax)", "2026-10-14T11:47:00Z", "", "2026-10-15T11:00:00Z"),
        ("resets 12am (Africa/Nairobi)", "2026-12-08T19:10:00Z", "", "2026-12-08T21:00:00Z"),
        ("resets 12:03 PM (UTC)", "2026-12-08T11:10:00Z", "", "2026-12-08T12:03:00Z"),
        # Zones: reversed signs, quarters of an hour, beyond the date line, unknown, none.
        ("Your limit will reset at 4am (Etc/GMT+3).", "2026-10-20T22:15:00Z", "", "2026-10-21T07:00:00Z"),
        ("resets 7:15pm (Asia/Katmandu)", "2027-01-12T09:05:30Z", "", "2027-01-12T13:30:00Z"),
        ("resets 7am (Pacific/Apia)", "2026-11-04T12:30:00Z", "", "2026-11-04T18:00:00Z"),
        ("resets 10:45pm (Europe/Lyon)", "2026-10-09T16:20:00Z", "Europe/Paris", "2026-10-09T20:45:00Z"),
        ("5-hour limit reached · resets 1am · /upgrade", "2026-11-20T03:30:00Z", "America/Toronto", "2026-11-20T06:00:00Z"),
        # The clocks change in between.
        ("resets 8:05pm (Europe/Oslo)", "2026-10-24T18:40:00Z", "", "2026-10-25T19:05:00Z"),
        ("resets Nov 3 at 7am (America/Chicago)", "2026-10-30T17:00:00Z", "", "2026-11-03T13:00:00Z"),
        # Days: without a year, over the turn of the year, without a clock, a weekday.
        ("resets Jan 2, 5pm (Europe/Vienna)", "2026-12-30T21:40:11Z", "", "2027-01-02T16:00:00Z"),
        ("Sonnet weekly limit reached ∙ resets Feb 11", "2027-02-08T09:00:00Z", "Europe/Rome", "2027-02-10T23:00:00Z"),
        ("resets Sun 12:00am (America/Denver)", "2026-10-18T03:00:00Z", "", "2026-10-18T06:00:00Z"),
        ("resets Dec 4, 2027, 1pm (UTC)", "2026-12-30T21:40:11Z", "", "2027-12-04T13:00:00Z"),
        # Other shapes, wraps, and of two notices the later.
        ("Claude AI usage limit reached|1794502800", "2026-11-12T14:21:33Z", "", "2026-11-12T17:00:00Z"),
        ("regain access on 2026-12-01 at\n  00:00 UTC.", "2026-11-21T16:08:20Z", "", "2026-12-01T00:00:00Z"),
        ("limit · resets 3:10pm (UTC)\nlimit · resets\n 8:10pm (UTC)", "2026-12-02T15:00:00Z", "", "2026-12-02T20:10:00Z"),
    ],
)
def test_notices(text: str, now: str, host: str, expected: str) -> None:
    """Each shape of a notice is read as the moment it means."""
    assert resets.told(text, at(now), host) == at(expected)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Retrying in 9 seconds (attempt 5/10)",
        "resets",
        "resets 25:00",
        "resets Feb 31, 1pm (UTC)",
        "resets 13pm (UTC)",
        "5-hour limit",
    ],
)
def test_what_is_no_time_is_none(text: str) -> None:
    """A retry of the program's own, the name of a window and an impossible date give no time: a wrong one costs more than none."""
    assert resets.told(text, 1_796_027_000.0, "UTC") is None


def test_the_past_means_now() -> None:
    """A time that is over is now, not next year and not a negative wait."""
    now = at("2026-12-05T10:00:00Z")
    assert resets.told("resets Dec 4, 11:48pm (UTC)", now, "") == now
    assert resets.instant(now - 60, now) == now


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1796032728, 1796032728.0),
        (1796032728000, 1796032728.0),
        ("2026-11-30T09:58:48Z", 1796032728.0),
        ("2026-11-30T10:58:48.7+01:00", 1796032728.7),
        (0, None),
        (None, None),
        (True, None),
        ("soon", None),
        ([], None),
    ],
)
def test_instants_of_a_field(value: object, expected: float | None) -> None:
    """A field holds seconds, milliseconds or an ISO stamp; anything else is unknown."""
    assert resets.instant(value, 1796027000.0) == expected


@given(text=st.text(max_size=80), hour=st.integers(0, 99), zone=st.text(max_size=12))
def test_no_text_crashes_and_no_wait_is_negative(text: str, hour: int, zone: str) -> None:
    """Whatever stands there, the answer is None or not before now."""
    now = 1796027000.0
    for words in (text, f"resets {hour}pm ({zone})", f"resets {text} {hour}am", f"resets Feb {hour}, 3am"):
        found = resets.told(words, now, zone)
        assert found is None or found >= now

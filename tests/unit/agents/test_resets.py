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
        # Spans, other languages, offsets, other calendars.
        ("try again in 3 days 6 hours 41 minutes.", "2026-10-13T09:00:00Z", "", "2026-10-16T15:41:00Z"),
        ("Your quota will reset after 5h21m9s.", "2026-10-06T07:00:00Z", "", "2026-10-06T12:21:09Z"),
        ("Access resets at 6:35 AM GMT+9.", "2026-12-09T18:00:00Z", "", "2026-12-09T21:35:00Z"),
        ("tente novamente em 19 de nov. de 2026, 21:08.", "2026-11-17T12:00:00Z", "America/Sao_Paulo", "2026-11-20T00:08:00Z"),
        ("will reset when your monthly cycle ends on 2/3/2027", "2027-01-16T09:00:00Z", "Europe/London", "2027-02-03T00:00:00Z"),
        ("used up and will reset tomorrow", "2026-12-03T17:20:00Z", "Europe/Berlin", "2026-12-03T23:00:00Z"),
        ("限额将在 2026-10-06 22:41:44 重置", "2026-10-06T12:00:00Z", "Asia/Shanghai", "2026-10-06T14:41:44Z"),
        (
            "使用量の上限に達しました。11月13日 午前2:10 (Asia/Tokyo) にリセット",
            "2026-11-11T09:30:00Z",
            "",
            "2026-11-12T17:10:00Z",
        ),
        ("请在 2 小时 15 分钟后重试", "2026-11-11T09:30:00Z", "", "2026-11-11T11:45:00Z"),
        ("Resets at 18h30 (Europe/Paris)", "2026-11-11T09:30:00Z", "", "2026-11-11T17:30:00Z"),
        # Words for a time, a day without a year, zones as people write them, codes of characters; "about" is no month.
        ("resets at midnight UTC", "2026-11-11T09:30:00Z", "Asia/Tokyo", "2026-11-12T00:00:00Z"),
        ("try again in an hour", "2026-11-11T09:30:00Z", "", "2026-11-11T10:30:00Z"),
        ("try again in about 2 hours", "2026-11-11T09:30:00Z", "", "2026-11-11T11:30:00Z"),
        ("limit resets on 12/01", "2026-11-11T09:30:00Z", "", "2026-12-01T00:00:00Z"),
        ("resets at 11:30 PM PST", "2026-11-11T09:30:00Z", "", "2026-11-12T07:30:00Z"),
        (r"limit \u00b7 resets 2:20am (Africa/Lagos)", "2026-11-11T22:00:00Z", "", "2026-11-12T01:20:00Z"),
        ("x-ratelimit-reset: 90", "2026-11-11T09:30:00Z", "", "2026-11-11T09:31:30Z"),
        # Fields: the window that is used up, the one with nothing left, an HTTP date, a span.
        (
            "a-used-percent: 38\na-reset-after-seconds: 7\nb-used-percent: 100\nb-reset-after-seconds: 60",
            "2026-10-19T06:30:00Z",
            "",
            "2026-10-19T06:31:00Z",
        ),
        ("x-remaining: 9\nx-reset: 1\ny-remaining: 0\ny-reset: 30", "2026-10-19T06:30:00Z", "", "2026-10-19T06:30:30Z"),
        ("Retry-After: Tue, 17 Nov 2026 10:06:30 GMT", "2026-11-17T10:04:10Z", "", "2026-11-17T10:06:30Z"),
        ('{\\"retryDelay\\": \\"23s\\"}', "2026-10-21T12:00:00Z", "", "2026-10-21T12:00:23Z"),
        # Other shapes, wraps, and of two notices the later.
        ("Claude AI usage limit reached|1794502800", "2026-11-12T14:21:33Z", "", "2026-11-12T17:00:00Z"),
        ("regain access on 2026-12-01 at\n  00:00 UTC.", "2026-11-21T16:08:20Z", "", "2026-12-01T00:00:00Z"),
        ("limit · resets 3:10pm (UTC)\nlimit · resets\n 8:10pm (UTC)", "2026-12-02T15:00:00Z", "", "2026-12-02T20:10:00Z"),
    ],
)
def test_notices(text: str, now: str, host: str, expected: str) -> None:
    """Each shape of a notice is read as the moment it means (T193)."""
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
        "retry_delay_ms: 31877",
        "retried 3 times (total retry wait time: 71.2 seconds)",
        "INFO token refreshed, expires at 1793007000",
        "isRetryable: true, retryAfter=null",
        "try again later; 500000 tokens, version 4.20",
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


SURE = (
    ("You've hit your limit · resets 10:45pm (Australia/Adelaide)", "2026-11-25T12:15:00Z"),
    ("You've hit your usage limit. Upgrade to Pro or try again in 3 days 16 hours 41 minutes.", "2026-11-28T17:41:00Z"),
    ("try again at Nov 27th, 2026 12:03 PM.", "2026-11-27T12:03:00Z"),
    ('"message":"limit","resets_in_seconds":52220,"type":"usage_limit_reached"', "2026-11-25T15:30:20Z"),
    ("Individual quota reached. Resets in 71h14m55s.", "2026-11-28T00:14:55Z"),
)


@given(st.sampled_from(SURE), st.integers(1, 80), st.sampled_from(["\n", "\n   ", "\r\n", " │\n│ "]))
def test_a_wrap_anywhere_changes_nothing(sure: tuple[str, str], where: int, wrap: str) -> None:
    """A hard wrap inside a word, a number, a zone or a field's name is read as if it were not there."""
    text, expected = sure
    assert resets.told(text[:where] + wrap + text[where:], at("2026-11-25T01:00:00Z"), "UTC") == at(expected)


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_value_is_an_instant_or_none(value: object) -> None:
    """Whatever stands in a field, it is a time that is not over, or unknown."""
    found = resets.instant(value, 1796027000.0)
    assert found is None or found >= 1796027000.0

"""The tables from words, numbers and sentences to classes."""

import pytest
from hypothesis import given, strategies as st

from nightcrew.agents import classify
from nightcrew.core.work import Class
from unit.agents.ends import End, died


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("This request would exceed your organization's rate limit of 50,000 input tokens per minute", Class.RateLimit),
        ("This request would exceed your account\N{RIGHT SINGLE QUOTATION MARK}s\nrate limit.", Class.Quota),
        ("Number of request tokens has exceeded your per-minute rate limit", Class.RateLimit),
        ("Server is temporarily limiting requests (not your\n  usage limit) · Rate limited", Class.Overloaded),
        ("Claude Code is unable to respond to this request, which appears to violate our Usage Policy", Class.Refused),
        ("You've hit your monthly spend limit · an owner can raise it", Class.Billing),
        ("input length and `max_tokens` exceed context limit: 179204 + 32000 > 200000, try again", Class.ContextTooLong),
        ("Error: --session-id can only be used with --resume if --fork-session is also specified.", Class.ConfigError),
        ("Unable to connect to API: unable to get local issuer certificate", Class.Network),
        ("Everything went well.", None),
    ],
)
def test_sentences(said: str, kind: Class | None) -> None:
    """The more telling phrase wins over the word it contains, across wraps and typographic quotes."""
    assert classify.phrase(said) is kind


@pytest.mark.parametrize(
    ("number", "said", "kind"),
    [
        (529, "rate limit", Class.Overloaded),
        (429, "", Class.RateLimit),
        (429, "you have reached your weekly limit", Class.Quota),
        (400, "Credit balance is too low", Class.Billing),
        (400, "strange", None),
        (None, "fetch failed", Class.Network),
    ],
)
def test_numbers_outrank_sentences_where_they_are_clear(number: object, said: str, kind: Class | None) -> None:
    """A clear status needs no words; one that stands for several classes is decided by the sentence beside it."""
    assert classify.status(number, said) is kind


@pytest.mark.parametrize(
    ("end", "err", "kind", "reason"),
    [
        (died(15, "idle"), b"", Class.Timeout, "stopped: it printed nothing for too long"),
        (died(15, "stop"), b"", Class.Crashed, "was told to end (stop)"),
        (died(11), b"", Class.Crashed, "died of signal 11"),
        (End(127), b"sh: nope: not found\n\n", Class.ConfigError, "sh: nope: not found"),
        (End(126), b"", Class.ConfigError, "could not be started (exit status 126)"),
        (End(3), b"a\nwhy\n", Class.Crashed, "exit status 3: why"),
        (End(0), b"", Class.InvalidOutput, "ended without an answer"),
    ],
)
def test_ends_without_a_closing_event(end: End, err: bytes, kind: Class, reason: str) -> None:
    """Our limits come first, then the signal, then the status; the reason is the last line it said."""
    judged = classify.ended(end, err)
    assert (judged.kind, judged.reason) == (kind, reason)


@given(st.text(max_size=400), st.binary(max_size=400))
def test_reasons_are_always_one_line(text: str, data: bytes) -> None:
    """Whatever was printed, a reason is one printable line of at most 160 characters."""
    for line in (classify.one_line(text), classify.last_line(data)):
        assert len(line) <= 160
        assert line.isprintable()

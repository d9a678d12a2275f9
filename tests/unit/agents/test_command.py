"""Any program as an agent."""

from pathlib import Path

import pytest

from nightcrew.agents import command
from nightcrew.agents.base import Turn
from nightcrew.core.work import Class
from unit.agents.ends import End, died


def turn(*argv: str, session: str = "", resume: str = "") -> Turn:
    """A turn of that argv."""
    prompt, cwd = Path("/t/prompt"), Path("/slot")
    return Turn(program="/bin/tool", prompt_file=prompt, cwd=cwd, command=argv, label="A", session=session, resume=resume)


def test_placeholders_are_filled_and_other_braces_stay() -> None:
    """The four placeholders are replaced wherever they stand."""
    argv = ("tool", "--in={prompt_file}", "{cwd}/{label}", "{session}", "${HOME} {x}")
    launch = command.command(turn(*argv, session="s1"))
    assert launch.argv == ("/bin/tool", "--in=/t/prompt", "/slot/A", "s1", "${HOME} {x}")


def test_a_continued_session_is_the_one_that_is_named() -> None:
    """{session} is the conversation to go on with, when there is one."""
    assert command.command(turn("tool", "{session}", session="new", resume="old")).argv[1] == "old"


def test_exit_zero_is_an_answer_even_without_a_word() -> None:
    """Such a program answers by its edits: silence and status 0 are good; what it printed is the answer."""
    assert command.judge(turn("tool"), End(), b"", b"", 0.0, "").answer == ""
    found = command.judge(turn("tool"), End(), b"fixed 3 errors, 429 left, rate limit exceeded\n\xff", b"", 0.0, "")
    assert (found.kind, found.answer) == (Class.Ok, "fixed 3 errors, 429 left, rate limit exceeded\n\N{REPLACEMENT CHARACTER}")


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (End(1), Class.Crashed),
        (End(127), Class.ConfigError),
        (End(126), Class.ConfigError),
        (died(9), Class.Crashed),
        (died(15, "total"), Class.Timeout),
        (End(0, 0, "idle"), Class.Timeout),
    ],
)
def test_other_ends_are_failures(end: End, kind: Class) -> None:
    """A status, a signal or a limit of ours is never an answer, even if something was printed or it then left with 0."""
    found = command.judge(turn("tool"), end, b"some words\n", b"", 0.0, "")
    assert (found.kind, found.answer) == (kind, None)


NOON = 1_794_312_000.0  # 2026-11-10, in UTC


@pytest.mark.parametrize(
    ("out", "err", "kind", "reset_at"),
    [
        (b"You've hit your limit \xc2\xb7 resets 3pm (UTC)\n", b"", Class.Quota, NOON + 3 * 3600),
        (b"working ...\n", b"trace\nError: 429 quota exceeded for this month\n\n", Class.Quota, None),
        (b"", b"API Error: 529 Overloaded\n", Class.Overloaded, None),
        (b'{"type":"result","is_error":true,"result":"Credit balance is too low"}\n', b"", Class.Billing, None),
        (b"", b"Error: 401 Unauthorized\n", Class.Auth, None),
        (
            b"",
            b"Error: usage limit reached\nFAILED tests/test_quota.py::test_rate_limit - assert 429 == 200\n",
            Class.Crashed,
            None,
        ),
        (b"I wrote a test for 'Error: usage limit reached'.\n", b"", Class.Crashed, None),
        (b"", b"Error: cannot read config\n", Class.Crashed, None),
    ],
)
def test_its_last_line_may_say_that_it_must_wait(out: bytes, err: bytes, kind: Class, reset_at: float | None) -> None:
    """A last line that is an error or a notice of a quota, a login or money is believed after a bad end, and its reset; no other words are."""
    found = command.judge(turn("tool"), End(1), out, err, NOON, "UTC")
    assert (found.kind, found.reset_at, found.answer) == (kind, reset_at, None), found


def test_what_may_be_asked_again_tells_the_span() -> None:
    """A limit that ends soon is waited for; after a good end, a signal or a limit of ours the words do not count."""
    err = b"Error: rate limit exceeded, try again in 20 seconds\n"
    assert command.judge(turn("tool"), End(1), b"", err, NOON, "UTC").retry_after_s == 20
    ends = (End(), died(9), died(15, "total"), End(127))
    assert not {command.judge(turn("tool"), end, b"", err, NOON, "UTC").kind for end in ends} & {Class.RateLimit, Class.Quota}


def test_words_of_failure_do_not_decide() -> None:
    """A program of which nothing is known is not searched for phrases: a line that is no error by its form is a crash, whatever it says."""
    found = command.judge(turn("tool"), End(1), b"", b"rate limit exceeded, try again at 9am\n", 0.0, "")
    assert (found.kind, found.reset_at) == (Class.Crashed, None)
    assert found.reason == "exit status 1: rate limit exceeded, try again at 9am"

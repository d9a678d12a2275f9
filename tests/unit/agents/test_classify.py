"""From words, numbers, sentences and whole outputs to classes."""

import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from nightcrew.agents import classify
from nightcrew.core.work import Class
from unit.agents.ends import End, died, returned


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("This request would exceed your organization's rate limit of 50,000 input tokens per minute", Class.RateLimit),
        ("This request would exceed your account\N{RIGHT SINGLE QUOTATION MARK}s\nrate limit.", Class.Quota),
        (r"This request would exceed your account\u2019s rate limit.", Class.Quota),
        ("Number of request tokens has exceeded your per-minute rate limit", Class.RateLimit),
        ("Server is temporarily limiting requests (not your\n  usage limit) · Rate limited", Class.Overloaded),
        ("Claude Code is unable to respond to this request, which appears to violate our Usage Policy", Class.Refused),
        ("You've hit your monthly spend limit · an owner can raise it", Class.Billing),
        ("input length and `max_tokens` exceed context limit: 179204 + 32000 > 200000, try again", Class.ContextTooLong),
        ("Error: --session-id can only be used with --resume if --fork-session is also specified.", Class.ConfigError),
        ("Unable to connect to API: unable to get local issuer certificate", Class.Network),
        ("No auth type is selected. Please configure an auth type before running in non-interactive mode.", Class.Auth),
        ("Everything went well.", None),
    ],
)
def test_sentences(said: str, kind: Class | None) -> None:
    """The more telling phrase wins over the word it contains, across wraps and typographic quotes."""
    assert classify.known(said)[0] is kind


@pytest.mark.parametrize(
    ("number", "said", "kind"),
    [
        (529, "rate limit", Class.Overloaded),
        (429, "", Class.RateLimit),
        (401, "key not allowed to access model", Class.ModelUnavailable),
        (401, "", Class.Auth),
        (429, "you have reached your weekly limit", Class.Quota),
        (400, "Credit balance is too low", Class.Billing),
        (400, "strange", None),
        (None, "fetch failed", Class.Network),
    ],
)
def test_numbers_outrank_sentences_where_they_are_clear(number: object, said: str, kind: Class | None) -> None:
    """A clear status needs no words; one that stands for several classes is decided by the sentence beside it."""
    assert classify.known(f"status {number} {said}" if number else said)[0] is kind


@pytest.mark.parametrize(
    ("end", "err", "kind", "reason"),
    [
        (died(15, "idle"), b"", Class.Timeout, "stopped: it printed nothing for too long"),
        (died(15, "stop"), b"", Class.Crashed, "was told to end (stop)"),
        (died(11), b"", Class.Crashed, "died of signal 11"),
        (End(127), b"sh: nope: not found\n\n", Class.ConfigError, "sh: nope: not found"),
        (End(126), b"", Class.ConfigError, "could not be started (exit status 126)"),
        (End(3), b"a\nwhy\n", Class.Crashed, "exit status 3: why"),
        (End(126), b"sh: fix: Argument list too long\n", Class.ConfigError, "sh: fix: Argument list too long"),
        (End(0), b"", Class.InvalidOutput, "ended without an answer"),
    ],
)
def test_ends_without_a_closing_event(end: End, err: bytes, kind: Class, reason: str) -> None:
    """Our limits come first, then the signal, then the status; the reason is the last line it said (S178, S191)."""
    judged = classify.ended(end, err)
    assert (judged.kind, judged.reason) == (kind, reason)


@given(st.text(max_size=400), st.binary(max_size=400))
def test_reasons_are_always_one_line(text: str, data: bytes) -> None:
    """Whatever was printed, a reason is one printable line of at most 160 characters, not bytes (S190)."""
    for line in (classify.one_line(text), classify.last_line(data)):
        assert len(line) <= 160
        assert line.isprintable()


NOW = 1_796_027_000.0


BAD = End(1)


def output(out: str | None, err: str = "", end: End | None = BAD) -> Any:
    """What an output tells, read on a day of ours in UTC."""
    return classify.output(out, err, end, NOW, "UTC")


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Error: 403 Forbidden: quota exceeded for this month", Class.Quota),
        ("HTTP 403: rate limit exceeded, try again in 20 seconds", Class.RateLimit),
        ("Error: 403 Forbidden", Class.Auth),
        ("HTTP 401 Unauthorized", Class.Auth),
        ("Error: invalid token", Class.Auth),
        ("access denied", Class.Auth),
        ("HTTP 429 Too Many Requests", Class.RateLimit),
        ("status code: 429", Class.RateLimit),
        ("Error: the answer had 429 tokens and no end", Class.Crashed),
        ("API Error: 529 overloaded_error", Class.Overloaded),
        ("API Error: the API is overloaded", Class.Overloaded),
        ("Error: no such operator: system overload", Class.Crashed),
        ('{"error":{"code":"usage_limit_exceeded"}}', Class.Quota),
        ('{"error":{"code":"usage_limit_reached"}}', Class.Quota),
        ('{"error":{"code":"quota_exceeded"}}', Class.Quota),
        ('{"error":{"code":"insufficient_quota"}}', Class.Billing),
        ("No space left on device (os error 28)", Class.ConfigError),
        ("write /srv/log/usage_limit.log: no space left on device", Class.ConfigError),
    ],
)
def test_words_and_numbers_of_an_error(said: str, kind: Class) -> None:
    """A number counts as a status, not as a figure; a 403 that names a limit is one; a full disk is not the agent's fault (S182, S183, S184, S187, S238)."""
    assert output(None, said).kind is kind
    assert output(said).kind is kind


@pytest.mark.parametrize("end", ["rs", "go", "rb", "java", "cpp", "c", "php", "cs", "swift", "kt", "scala", "sh", "bash", "py"])
def test_a_source_file_named_after_a_limit_is_none(end: str) -> None:
    """What a compiler says of such a file is not what a service says (S185)."""
    assert output(None, f"error: cannot find value x in src/usage_limit.{end}:3:1").kind is Class.Crashed
    assert output(None, f"error: expected one of these in rate_limit.{end}").kind is Class.Crashed
    assert output(None, f"error: usage limit reached (src/errors.{end}:3)").kind is Class.Quota


@pytest.mark.parametrize(
    "code", ["insufficient_quota", "InsufficientQuota", "insufficient-quota", "INSUFFICIENT_QUOTA", "insufficient quota"]
)
def test_codes_are_words(code: str) -> None:
    """However a service writes a code, it is read as the words it is made of."""
    assert classify.known(f'{{"error": {{"code": "{code}"}}}}')[0] is Class.Billing


@pytest.mark.parametrize("times", [1, 2, 3])
def test_documents_in_documents_are_read(times: int) -> None:
    """An error's body may be quoted by a program that is quoted by another one."""
    text = '{"error": {"code": 429, "details": [{"quotaId": "RequestsPerMinutePerModel"}, {"retryDelay": "23s"}]}}'
    for _ in range(times):
        text = json.dumps({"message": text})
    told = output(text)
    assert (told.kind, told.reset_at) == (Class.RateLimit, NOW + 23)


def test_a_limit_is_named_by_how_long_it_lasts() -> None:
    """A limit of rate for hours is an allowance; one of a day that lets a request through in minutes is one of rate."""
    assert output("You've hit a rate limit. Please try again in 31 hours.").kind is Class.Quota
    assert output("Rate limit reached on requests per day (RPD): Limit 300. Please try again in 4m48s.").kind is Class.RateLimit
    assert output("You've hit your session limit · resets 8:05am (UTC)").kind is Class.Quota


def test_who_speaks_after_an_error_overcame_it() -> None:
    """A tool's error in the middle of a screen is no failure, if the agent went on to speak; one at its end is."""
    tool = "⏺ Bash(curl localhost)\n  ⎿  Error: connect ECONNREFUSED\n\n"
    assert output(f"{tool}⏺ The server was down; it runs now.", end=None).kind is Class.Ok
    assert output(f"{tool}⏺ API Error: Connection error.", end=None).kind is Class.Network
    assert output("⏺ Fixed: an invalid API key is told now.", end=None).kind is Class.Ok


def test_a_piece_of_a_document_is_searched_where_it_says_that_it_is_an_error() -> None:
    """What stands in quotes is no error's word, but for the fields of an event that was cut."""
    piece = r'ost":0,"result":"You\u2019ve hit your session limit","is_error":true,"type":"resu'
    assert output(piece, end=None).kind is Class.Quota
    assert output(piece.replace("true", "false"), end=None).kind is Class.Ok


def test_what_could_not_be_started_is_not_the_services_fault() -> None:
    """A shell's words about a program speak of permissions too."""
    assert output("", "exec /usr/local/bin/claude: permission denied", End(126)).kind is Class.ConfigError


@pytest.mark.parametrize(
    ("end", "kind"),
    [(None, Class.Ok), (End(0), Class.Ok), (End(1), Class.Quota), (died(9, "total"), Class.Timeout), (died(11), Class.Crashed)],
)
def test_prose_counts_only_where_the_end_was_bad(end: End | None, kind: Class) -> None:
    """Sentences of an answer decide nothing; our deadline and a signal come before all that was printed."""
    said = "I renamed two modules and moved their tests.\n" * 20 + "The text of the usage limit is translated now.\n"
    assert output(said, end=end).kind is kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [(173, Class.RateLimit), (41, Class.Auth), (53, Class.Timeout), (124, Class.Timeout), (127, Class.ConfigError)],
)
def test_exit_statuses_tell_where_nothing_was_said(code: int, kind: Class) -> None:
    """Some programs end with the status of HTTP, cut to a byte, or with statuses of their own."""
    assert output("", "", End(code)).kind is kind


STREAM = (
    '{"type":"system","subtype":"init","session_id":"s"}\n'
    '{"type":"assistant","message":{"content":[{"type":"text","text":"I look at it."}]}}\n'
    '{"type":"result","subtype":"success","is_error":true,"api_error_status":429,"result":"You\'ve hit your limit · resets 4pm (UTC)"}\n'
)


@given(st.integers(0, len(STREAM)), st.sampled_from([None, End(0), End(1), died(9), died(15, "total")]))
def test_a_stream_cut_anywhere_is_never_an_answer_with_a_limit(cut: int, end: End | None) -> None:
    """Whatever was lost of a stream, it is read without an error, and what is left of a bad end is not called good."""
    told = output(STREAM[:cut], end=end)
    assert told.kind is not Class.Ok or '"type":"result"' not in STREAM[:cut]
    assert told.reset_at is None or told.reset_at >= NOW


FIELDS = (
    *(
        "type",
        "subtype",
        "is_error",
        "result",
        "error",
        "errors",
        "message",
        "content",
        "item",
        "part",
        "status",
        "role",
        "delta",
        "text",
    ),
    *("rate_limit_info", "resetsAt", "stopReason", "reason", "jsonrpc", "response", "code", "data", "api_error_status"),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=5),
    max_leaves=12,
)


@given(st.lists(st.dictionaries(st.sampled_from(FIELDS), json_values, max_size=6), max_size=4), st.text(max_size=60))
def test_events_of_any_shape_are_read(events: list[dict[str, Any]], noise: str) -> None:
    """Known fields with values of any shape, among lines that are none, never raise; evidence and class are always there."""
    told = output("\n".join([*map(json.dumps, events), noise]), noise, End(0))
    assert isinstance(told.kind, Class)
    assert isinstance(told.evidence, str)


@given(st.text(max_size=600), st.text(max_size=300), st.integers(-20, 255) | st.none())
def test_any_text_is_read(out: str, err: str, code: int | None) -> None:
    """Garbage has a class too."""
    assert isinstance(output(out, err, None if code is None else returned(code)).kind, Class)


@pytest.mark.parametrize(
    "piece", ["a", "error ", "reset ", "1", "(", "/", "you've hit your ", "{", '{"error":"', "\\", "\n", "1 day ", "⎿ error: "]
)
def test_long_outputs_are_read_from_their_end(piece: str) -> None:
    """A megabyte of anything is read: no pattern looks back over more than the end."""
    told = output(piece * (1_000_000 // len(piece)) + "\nError: 529 Overloaded\n")
    assert told.kind is Class.Overloaded


def test_figures_beside_an_error_are_not_its_words() -> None:
    """How large a model's context is says nothing of why the turn ended."""
    usage = {"m": {"contextWindow": 200000, "maxOutputTokens": 64000}}
    event = {"type": "result", "is_error": True, "api_error": "connection_failed", "model_usage_since_last_result": usage}
    assert output(json.dumps(event)).kind is Class.Network

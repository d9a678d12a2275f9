"""From fields, numbers and sentences of an error (never of an agent's answer) to a class of failure: tables, and the order of belief."""

import re

from nightcrew.agents.base import Exit, Judged
from nightcrew.core.work import Class

WORDS: dict[Class, str] = {
    Class.Auth: "401 403 authentication_error authentication_failed permission_error oauth_org_not_allowed",
    Class.Billing: "402 billing_error error_max_budget_usd budget_exhausted",
    Class.ContextTooLong: "413 prompt_too_long request_too_large",
    Class.InvalidOutput: "max_output_tokens error_max_structured_output_retries",
    Class.ModelUnavailable: "404 not_found_error model_not_found",
    Class.Network: "407 408 connection_failed",
    Class.Overloaded: "503 529 overloaded overloaded_error",
    Class.Quota: "usage_limit_reached",
    Class.RateLimit: "429 rate_limit rate_limit_error",
    Class.Refused: "refusal",
    Class.ServerError: "500 502 504 api_error server_error timeout_error",
    Class.Timeout: "max_turns error_max_turns",
}
"""What programs and services write into a field made for machines: words and HTTP statuses."""
_KNOWN = {word: kind for kind, words in WORDS.items() for word in words.split()}

VAGUE = frozenset({400, 402, 403, 404, 429})  # these stand for several classes: the sentence beside them decides

PHRASES: tuple[tuple[Class, str], ...] = (
    # A denial in the sentence wins over the word it denies.
    (Class.Overloaded, r"not your usage limit"),
    (Class.SessionNotFound, r"no conversation found|does not match any session|requires a valid session id"),
    (Class.SessionInUse, r"session id \S+ is already in use"),
    (Class.Refused, r"usage policy|unable to respond to this request"),
    (Class.Billing, r"credit balance is too low|spend limit|payment required|out of credits"),
    (Class.ContextTooLong, r"prompt is too long|context limit|context window|maximum context length"),
    (Class.RateLimit, r"(limit|tokens|requests)[^.]{0,60}\bper[ -](minute|second)"),
    (Class.Quota, r"would exceed your account'?s rate limit|(hit|reached|exceeded) your .{0,40}limit|usage limit"),
    (Class.Quota, r"(session|weekly|daily|5-hour|five-hour) limit|out of extra usage|specified api usage limits"),
    (Class.Quota, r"quota exceeded|exceeded your .{0,20}quota"),
    (Class.Auth, r"not logged in|please run /login|invalid (api key|x-api-key|authentication)|token has expired"),
    (Class.Auth, r"failed to authenticate|organization has been disabled|login required"),
    (Class.ModelUnavailable, r"issue with the selected model|model\b.{0,60} (does not exist|not found|not available)"),
    (Class.InvalidOutput, r"empty or malformed response|not valid json"),
    (Class.Timeout, r"timed out|deadline exceeded"),
    (Class.Network, r"econnre|enotfound|etimedout|connection (error|dropped|refused|reset|to the api was lost)"),
    (Class.Network, r"unable to connect|fetch failed|certificate|proxy"),
    (Class.Overloaded, r"overloaded|at capacity"),
    (Class.RateLimit, r"rate.?limit|too many requests"),
    (Class.ServerError, r"internal server error|bad gateway|service unavailable"),
    (Class.ConfigError, r"unknown (option|argument|command)|cannot be used with|can only be used with|unrecognized"),
)
"""What errors say in words, the more telling first. Matched loosely: lower case, blanks folded, quotes straight."""

LIMITS = {  # our own bounds, by the supervisor's word for them
    "total": "ran into the time limit of a turn",
    "idle": "printed nothing for too long",
    "first_output": "printed nothing at all for too long",
    "flood": "printed more than a turn may",
}


def word(*fields: object) -> Class | None:
    """The class of the first of these field values that is known."""
    return next((_KNOWN[str(field)] for field in fields if str(field) in _KNOWN), None)


def phrase(text: str) -> Class | None:
    """The class that the words of an error message tell, if any do."""
    flat = " ".join(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    return next((kind for kind, pattern in PHRASES if re.search(pattern, flat)), None)


def status(number: object, said: str) -> Class | None:
    """The class of an HTTP status and the message that came with it; the message alone where there was no answer."""
    known = word(number)
    return known if known is not None and number not in VAGUE else phrase(said) or known


def one_line(text: str, width: int = 160) -> str:
    """`text` in one line of at most `width` printable characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"


def last_line(output: bytes) -> str:
    """The last line of some output that is not blank, for a reason; only the end of a long output is looked at."""
    lines = output[-8192:].decode(errors="replace").split("\n")
    return next((told for line in reversed(lines) if (told := one_line(line))), "")


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
    if end.code in {126, 127}:
        return Judged(Class.ConfigError, said or f"could not be started (exit status {end.code})")
    if not end.code and not end.signal:
        return Judged(Class.InvalidOutput, said or "ended without an answer")
    how = f"died of signal {end.signal}" if end.signal else f"exit status {end.code}"
    return Judged(Class.Crashed, one_line(f"{how}: {said}" if said else how))

"""From fields, status numbers and sentences of an error to a class of failure: tables, and the order of belief.

Sentences are looked at only where the caller knows that an error speaks, never in an agent's answer.
"""

import re
from typing import TYPE_CHECKING

from nightcrew.agents.base import Exit, Judged
from nightcrew.core.work import Class

if TYPE_CHECKING:
    from collections.abc import Iterable

WORDS: dict[str, Class] = {
    "authentication_error": Class.Auth,
    "authentication_failed": Class.Auth,
    "permission_error": Class.Auth,
    "oauth_org_not_allowed": Class.Auth,
    "billing_error": Class.Billing,
    "error_max_budget_usd": Class.Billing,
    "budget_exhausted": Class.Billing,
    "usage_limit_reached": Class.Quota,
    "rate_limit": Class.RateLimit,
    "rate_limit_error": Class.RateLimit,
    "overloaded": Class.Overloaded,
    "overloaded_error": Class.Overloaded,
    "prompt_too_long": Class.ContextTooLong,
    "request_too_large": Class.ContextTooLong,
    "connection_failed": Class.Network,
    "api_error": Class.ServerError,
    "server_error": Class.ServerError,
    "timeout_error": Class.ServerError,
    "not_found_error": Class.ModelUnavailable,
    "model_not_found": Class.ModelUnavailable,
    "refusal": Class.Refused,
    "max_turns": Class.Timeout,
    "error_max_turns": Class.Timeout,
    "max_output_tokens": Class.InvalidOutput,
    "error_max_structured_output_retries": Class.InvalidOutput,
}
"""What programs and services write into a field made for machines."""

STATUS: dict[int, Class] = {
    401: Class.Auth,
    402: Class.Billing,
    403: Class.Auth,
    404: Class.ModelUnavailable,
    407: Class.Network,
    408: Class.Network,
    413: Class.ContextTooLong,
    429: Class.RateLimit,
    500: Class.ServerError,
    502: Class.ServerError,
    503: Class.Overloaded,
    504: Class.ServerError,
    529: Class.Overloaded,
}
"""What an HTTP status alone says."""

VAGUE = frozenset({400, 402, 403, 404, 429})
"""Statuses that stand for several classes: the sentence beside them decides."""

PHRASES: tuple[tuple[str, Class], ...] = (
    # A denial in the sentence wins over the word it denies.
    (r"not your usage limit", Class.Overloaded),
    (r"no conversation found|does not match any session|requires a valid session id", Class.SessionNotFound),
    (r"session id \S+ is already in use", Class.SessionInUse),
    (r"usage policy|unable to respond to this request", Class.Refused),
    (r"credit balance is too low|spend limit|payment required|out of credits", Class.Billing),
    (r"prompt is too long|context limit|context window|maximum context length", Class.ContextTooLong),
    (r"(limit|tokens|requests)[^.]{0,60}\bper[ -](minute|second)", Class.RateLimit),
    (r"would exceed your account'?s rate limit", Class.Quota),
    (
        r"(hit|reached|exceeded) your .{0,40}limit|usage limit|(session|weekly|daily|5-hour|five-hour) limit",
        Class.Quota,
    ),
    (r"out of extra usage|specified api usage limits|quota exceeded|exceeded your .{0,20}quota", Class.Quota),
    (r"not logged in|please run /login|invalid (api key|x-api-key|authentication)|token has expired", Class.Auth),
    (r"failed to authenticate|organization has been disabled|login required", Class.Auth),
    (r"issue with the selected model|model\b.{0,60} (does not exist|not found|not available)", Class.ModelUnavailable),
    (r"empty or malformed response|not valid json", Class.InvalidOutput),
    (r"timed out|deadline exceeded", Class.Timeout),
    (r"econnre|enotfound|etimedout|connection (error|dropped|refused|reset|to the api was lost)", Class.Network),
    (r"unable to connect|fetch failed|certificate|proxy", Class.Network),
    (r"overloaded|at capacity", Class.Overloaded),
    (r"rate.?limit|too many requests", Class.RateLimit),
    (r"internal server error|bad gateway|service unavailable", Class.ServerError),
    (r"unknown (option|argument|command)|cannot be used with|can only be used with|unrecognized", Class.ConfigError),
)
"""What errors say in words, the more telling first. Matched loosely: lower case, blanks folded, quotes straight."""

LIMITS: dict[str, str] = {
    "total": "ran into the time limit of a turn",
    "idle": "printed nothing for too long",
    "first_output": "printed nothing at all for too long",
    "flood": "printed more than a turn may",
}
"""Our own bounds, by the supervisor's word for them."""


def word(*words: object) -> Class | None:
    """The class of the first of these field values that is known."""
    return next((WORDS[w] for w in words if isinstance(w, str) and w in WORDS), None)


def phrase(text: str) -> Class | None:
    """The class that the words of an error message tell, if any do."""
    flat = " ".join(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").split())
    return next((kind for pattern, kind in PHRASES if re.search(pattern, flat)), None)


def status(number: object, said: str) -> Class | None:
    """The class of an HTTP status and the message that came with it; the message alone where there was no answer."""
    known = STATUS.get(number) if isinstance(number, int) else None
    return known if known is not None and number not in VAGUE else phrase(said) or known


def one_line(text: str, width: int = 160) -> str:
    """`text` in one line of at most `width` printable characters."""
    flat = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return flat if len(flat) <= width else flat[: width - 1] + "\N{HORIZONTAL ELLIPSIS}"


def last_line(output: bytes) -> str:
    """The last line of some output that is not blank, for a reason; only the end of a long output is looked at."""
    lines = output[-8192:].decode(errors="replace").splitlines()
    return one_line(next((line for line in reversed(lines) if line.strip()), ""))


def first_of(kinds: "Iterable[Class | None]", default: Class) -> Class:
    """The first class that is known, in order of belief."""
    return next((kind for kind in kinds if kind is not None), default)


def ended(end: Exit, err: bytes) -> Judged:
    """What an end without a closing event means: our limits first, then the exit status, then the last words."""
    said = last_line(err)
    if end.stopped_by in LIMITS:
        return Judged(Class.Timeout, f"stopped: it {LIMITS[end.stopped_by]}")
    if end.stopped_by:
        return Judged(Class.Crashed, one_line(f"was told to end ({end.stopped_by})"))
    if end.signal:
        return Judged(Class.Crashed, one_line(f"died of signal {end.signal}" + (f": {said}" if said else "")))
    if end.code in {126, 127}:
        return Judged(Class.ConfigError, said or f"could not be started (exit status {end.code})")
    if end.code:
        return Judged(Class.Crashed, one_line(f"exit status {end.code}" + (f": {said}" if said else "")))
    return Judged(Class.InvalidOutput, said or "ended without an answer")

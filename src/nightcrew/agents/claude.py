"""Adapter for Claude Code: its command line, its stream of JSON lines, its ways to fail (measured on 2.1.332)."""

import os
from typing import NamedTuple

from nightcrew.agents import classify, reading, resets
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.agents.reading import Line
from nightcrew.core.work import Class

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # Ours are better informed: they know the reset, the other accounts and the run's limits.
    "CLAUDE_CODE_MAX_RETRIES": "2",
}

SILENCE_S = 290.0  # it gives a silent stream up after 300 s, and then calls it a lost connection
NAMES = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


class Seen(NamedTuple):
    """What a whole output tells: the closing event, the plan limit that was refused last and not lifted after, and more."""

    result: Line
    refused: Line
    error: object  # of the last answer
    retried_s: float  # waited to try again


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin, one JSON line per event; looking only is `plan` mode, anything else full rights."""
    argv = [turn.program, "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--model", turn.model] if turn.model else []
    argv += ["--permission-mode", "plan" if turn.read_only else "bypassPermissions"]
    if turn.resume:
        argv += ["--resume", turn.resume]
    elif turn.session:
        argv += ["--session-id", turn.session]
    # Without it the program refuses full rights as root.
    env = {**QUIET, "IS_SANDBOX": "1"} if os.geteuid() == 0 else QUIET
    login = (own,) if (own := turn.env.get("CLAUDE_CONFIG_DIR")) else ("~/.claude", "~/.claude.json")
    return Launch(tuple(argv), env, login_paths=login, session_paths=(f"{login[0]}/projects",), closing=('{"type":"result"',))


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides, also over our own deadline and the exit status; without one, how the process ended."""
    told = reading.Told()
    seen = _scan(told, out)
    if seen.result:
        _close(told, seen, turn)
    judged = reading.judged(told, turn, end, err, now, zone)
    if judged.kind is not Class.Quota:
        return judged
    at, window = resets.instant(seen.refused.get("resetsAt"), now), seen.refused.get("rateLimitType")
    return judged._replace(reset_at=at or judged.reset_at, window=str(window or ""))


def _scan(told: reading.Told, out: bytes) -> Seen:
    """One pass over the output. The conversation is as it was opened: the closing event of a refused one carries an id that never was."""
    events: dict[str, Line] = {}
    retried_s = 0.0
    for event in told.lines(out):
        retried_s += reading.total(event, "retry_delay_ms") / 1000
        sort = str(event.get("type"))
        events[f"system/{event.get('subtype')}" if sort == "system" else sort] = event
    info = events.get("rate_limit_event", {}).get("rate_limit_info")
    refused = info if isinstance(info, dict) and info.get("status") == "rejected" else {}
    told.session = str(events.get("system/init", {}).get("session_id") or "")
    return Seen(events.get("result", {}), refused, events.get("assistant", {}).get("error"), retried_s)


def _close(told: reading.Told, seen: Seen, turn: Turn) -> None:
    """What the closing event means. Money it adds up over a continued conversation, tokens it does not."""
    result, usage, spent = seen.result, seen.result.get("usage"), seen.result.get("total_cost_usd")
    told.tokens = reading.total(usage, *NAMES) if isinstance(usage, dict) else None
    told.usd = reading.rest(turn, spent, turn.prior_usd) if isinstance(spent, int | float) else None
    told.answer = answer if isinstance(answer := result.get("result"), str) else ""
    # A "good" answer may be nothing but a known notice: one short line, one turn, no cost.
    free = not spent and result.get("num_turns") in {0, 1, None}
    notice = free and len(told.answer) < 200 and "\n" not in told.answer.strip() and classify.known(told.answer)[0] is not None
    # Subtype `success` alone means nothing: service errors carry it too.
    told.closed = not notice and not result.get("is_error") and result.get("subtype") == "success"
    if not told.closed:
        said = told.answer or " ".join(map(str, result.get("errors") or ()))
        told.fail(said, kind=_kind(seen, result, said))


def _kind(seen: Seen, result: Line, said: str) -> Class:
    """The class of an error, in order of belief: fields that name a reason, its sentence, numbers, general fields."""
    number, ended = result.get("api_error_status"), result.get("terminal_reason")
    if seen.refused and number in {429, None}:
        return Class.Quota
    # A "lost connection" may be a stream that stayed silent: minutes on the first request, not spent on waiting to try again.
    lost = result.get("api_error") == "connection_failed" and reading.total(result, "num_turns") <= 1
    if lost and reading.total(result, "duration_ms") / 1000 - seen.retried_s >= SILENCE_S:
        return Class.Timeout
    return (
        # "api_error" is the reason of every service error; the fields after it say which.
        classify.word(ended if ended != "api_error" else None)
        or classify.word(result.get("subtype"), result.get("stop_reason"), result.get("api_error"))
        or classify.status(number, said)
        or classify.word(result.get("api_error_type"), seen.error)
        or Class.Crashed
    )

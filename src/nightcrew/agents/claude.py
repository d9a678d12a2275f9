"""Adapter for Claude Code: its command line, its stream of JSON lines, its ways to fail (measured on 2.1.332)."""

import io
import os
from typing import Any, NamedTuple

import msgspec

from nightcrew.agents import classify, resets
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.core.work import Class

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # Ours are better informed: they know the reset, the other accounts and the run's limits.
    "CLAUDE_CODE_MAX_RETRIES": "2",
}

SILENCE_S = 290.0  # it gives a silent stream up after 300 s, and then calls it a lost connection
Line = dict[str, Any]


class Seen(NamedTuple):
    """What a whole output tells: the closing event, the conversation, the plan limit that was refused last and not lifted after."""

    result: Line | None
    session: str  # as opened: the closing event of a refused one carries an id that never was
    refused: Line
    error: object  # of the last answer
    retried_s: float  # waited to try again
    last: str  # the last line that is no event


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
    return Launch(tuple(argv), env, login_paths=login, session_paths=(f"{login[0]}/projects",))


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides, also over our own deadline and the exit status; without one, how the process ended."""
    seen = _scan(out)
    judged, said = _unfinished(seen, end, err) if seen.result is None else _closed(seen, seen.result, turn)
    if judged.kind is not Class.Quota:
        return judged._replace(session=seen.session)
    at = resets.instant(seen.refused.get("resetsAt"), now) or resets.told(said, now, zone)
    return judged._replace(session=seen.session, reset_at=at, window=_text(seen.refused.get("rateLimitType")))


def _scan(out: bytes) -> Seen:
    """One pass over the output; lines that are cut, garbled or of no meaning here are passed over."""
    events: dict[str, Line] = {}
    retried_s, last = 0.0, b""
    for raw in io.BytesIO(out):
        try:
            event = msgspec.json.decode(raw, type=Line)
        except ValueError:
            last = raw if raw.strip() else last
            continue
        retried_s += _number(event.get("retry_delay_ms")) / 1000
        sort = event.get("type")
        events[f"system/{event.get('subtype')}" if sort == "system" else str(sort)] = event
    info = events.get("rate_limit_event", {}).get("rate_limit_info")
    refused = info if isinstance(info, dict) and info.get("status") == "rejected" else {}
    session, error = events.get("system/init", {}).get("session_id"), events.get("assistant", {}).get("error")
    said = classify.one_line(last[:2000].decode(errors="replace"))
    return Seen(events.get("result"), _text(session), refused, error, retried_s, said)


def _closed(seen: Seen, result: Line, turn: Turn) -> tuple[Judged, str]:
    """What the closing event means, and its words."""
    answer = _text(result.get("result"))
    said = answer or " ".join(map(str, result.get("errors") or ()))
    # A "good" answer may be nothing but a known notice: one short line, one turn, no cost.
    free = not result.get("total_cost_usd") and result.get("num_turns") in {0, 1, None}
    notice = free and len(answer) < 200 and "\n" not in answer.strip() and classify.phrase(answer) is not None
    judged = classify.answered(answer)
    # Subtype `success` alone means nothing: service errors carry it too.
    if notice or result.get("is_error") or result.get("subtype") != "success":
        kind = _kind(seen, result, said)
        judged = Judged(kind, classify.one_line(said) or kind.value)
    # The program adds up over a continued conversation: what was there before is taken off.
    told = result.get("total_cost_usd")
    total = _number(told)
    usd = total - turn.prior_usd if turn.resume and total >= turn.prior_usd else total
    return judged._replace(tokens=_tokens(result), usd=usd if isinstance(told, int | float) else None), said


def _kind(seen: Seen, result: Line, said: str) -> Class:
    """The class of an error, in order of belief: fields that name a reason, its sentence, numbers, general fields."""
    number, ended = result.get("api_error_status"), result.get("terminal_reason")
    if seen.refused and number in {429, None}:
        return Class.Quota
    # A "lost connection" may be a stream that stayed silent: minutes on the first request, not spent on waiting to try again.
    lost = result.get("api_error") == "connection_failed" and _number(result.get("num_turns")) <= 1
    if lost and _number(result.get("duration_ms")) / 1000 - seen.retried_s >= SILENCE_S:
        return Class.Timeout
    return (
        # "api_error" is the reason of every service error; the fields after it say which.
        classify.word(ended if ended != "api_error" else None)
        or classify.word(result.get("subtype"), result.get("stop_reason"), result.get("api_error"))
        or classify.status(number, said)
        or classify.word(result.get("api_error_type"), seen.error)
        or Class.Crashed
    )


def _unfinished(seen: Seen, end: Exit, err: bytes) -> tuple[Judged, str]:
    """An end without a closing event, and its last words: our limits and signals first, then what it said on the way out."""
    judged = classify.ended(end, err)
    said = err.decode(errors="replace")[-4096:] + "\n" + seen.last
    if judged.kind is Class.InvalidOutput and seen.session and not seen.last.startswith("{"):
        judged = Judged(Class.Crashed, "left in the middle, without a closing event")
    elif judged.kind is Class.Crashed and not end.signal and not end.stopped_by and (kind := classify.phrase(said)):
        judged = Judged(kind, judged.reason if classify.phrase(judged.reason) is kind else seen.last)
    return judged, said


def _tokens(result: Line) -> int | None:
    """All tokens that were read and written, the cached ones included; this process alone."""
    usage = result.get("usage")
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return int(sum(_number(usage.get(name)) for name in names)) if isinstance(usage, dict) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""

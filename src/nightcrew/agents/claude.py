"""Adapter for Claude Code: its command line, its stream of JSON lines, its ways to fail (measured on 2.1.332)."""

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from nightcrew.agents import classify, resets
from nightcrew.agents.base import Exit, Judged, Launch, Signals, Turn
from nightcrew.core.work import Class

chooses_session = True
reports_session = True
folder_bound = False
passes = (
    *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"),
    *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CONFIG_DIR"),
)

QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    # Ours are better informed: they know the reset, the other accounts and the run's limits.
    "CLAUDE_CODE_MAX_RETRIES": "2",
}

SILENCE_S = 290.0
"""It gives a silent stream up after 300 s, and then calls it a lost connection."""

Line = dict[str, Any]


class Seen(NamedTuple):
    """What a whole output tells: the last closing event, the limit that was refused, the words of its error lines."""

    result: Line | None = None
    rejected: Line | None = None
    session: str = ""
    error: str = ""
    retried_s: float = 0.0
    last: str = ""
    """The last line that is no JSON."""


def version_argv(program: str) -> tuple[str, ...]:
    """The argv that prints `2.1.332 (Claude Code)`."""
    return (program, "--version")


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin, one JSON line per event; looking only is `plan` mode, anything else full rights."""
    argv = [turn.program, "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--model", turn.model] if turn.model else []
    argv += ["--permission-mode", "plan" if turn.read_only else "bypassPermissions"]
    if turn.resume:
        argv += ["--resume", turn.resume]
    elif turn.session:
        argv += ["--session-id", turn.session]
    env = dict(QUIET)
    if os.geteuid() == 0:
        # Without it the program refuses full rights as root.
        env["IS_SANDBOX"] = "1"
    own = turn.env.get("CLAUDE_CONFIG_DIR")
    login = (own,) if own else ("~/.claude", "~/.claude.json")
    return Launch(
        tuple(argv),
        turn.prompt_file,
        env,
        stop_signals=(("TERM", 5.0), ("KILL", 0.0)),
        login_paths=login,
        session_paths=(f"{login[0]}/projects",),
    )


# ── while it runs ─────────────────────────────────────────────────────────────────────────────────────────────────


def read(line: str) -> Signals:
    """What one line tells: the model's words, the tool it uses, that it waits to try again, that it is done."""
    event = _event(line.encode(errors="replace"))
    if event is None:
        return Signals(activity=classify.one_line(line, 80))
    session = _text(event.get("session_id"))
    match event.get("type"):
        case "assistant":
            return Signals(_doing(event), session)
        case "result":
            return Signals(session=session, ended=True)
        case "system" if event.get("subtype") == "api_retry":
            what = event.get("error") or event.get("error_status")
            return Signals(f"tries again ({event.get('attempt')} of {event.get('max_retries')}): {what}", session)
        case _:
            return Signals(session=session)


def _doing(event: Line) -> str:
    """The last thing in an assistant's message, in a few words."""
    message = event.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    for block in reversed(content if isinstance(content, list) else []):
        match block:
            case {"type": "text", "text": str(text)} if text.strip():
                return classify.one_line(text, 80)
            case {"type": "tool_use", "name": str(name), "input": dict(told)}:
                on = next((told[key] for key in ("file_path", "path", "command", "pattern") if key in told), "")
                return classify.one_line(f"{name} {on}", 80)
            case _:
                pass
    return ""


# ── when it has ended ─────────────────────────────────────────────────────────────────────────────────────────────


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides, also over our own deadline and the exit status; without one, how the process ended.

    A good end is a `result` with `is_error` false, subtype `success` and words in it. Subtype `success` alone means
    nothing: service errors carry it too.
    """
    seen = _scan(out)
    if seen.result is None:
        return _unfinished(seen, end, err, now, zone)
    result, answer = seen.result, _text(seen.result.get("result"))
    judged = Judged(Class.Ok, answer=answer, session=seen.session, tokens=_tokens(result), usd=_usd(result, turn))
    if result.get("is_error") or result.get("subtype") != "success":
        return _failed(seen, judged, now, zone)
    if not answer.strip():
        return judged._replace(kind=Class.InvalidOutput, reason="ended without an answer", answer=None)
    notice = _notice(result, answer)
    return _failed(seen, judged, now, zone) if notice else judged


def _failed(seen: Seen, judged: Judged, now: float, zone: str) -> Judged:
    """The failure that a closing event tells, with the time at which an allowance comes back."""
    result = seen.result or {}
    said = _text(result.get("result")) or " ".join(map(str, result.get("errors") or ()))
    kind = _kind(seen, result, said)
    judged = judged._replace(kind=kind, reason=classify.one_line(said) or kind.value, answer=None)
    return _timed(judged, seen, said, now, zone) if kind is Class.Quota else judged


def _kind(seen: Seen, result: Line, said: str) -> Class:
    """The class of an error, in order of belief: fields that name a reason, its sentence, numbers, general fields."""
    if seen.rejected is not None and result.get("api_error_status") in {429, None}:
        return Class.Quota
    if _silent(seen, result):
        return Class.Timeout
    ended = result.get("terminal_reason")
    kinds = (
        # "api_error" is the reason of every service error; the fields after it say which.
        classify.word(ended if ended != "api_error" else None),
        classify.word(result.get("subtype"), result.get("stop_reason"), result.get("api_error")),
        classify.status(result.get("api_error_status"), said),
        classify.word(result.get("api_error_type"), seen.error),
    )
    return classify.first_of(kinds, Class.Crashed)


def _silent(seen: Seen, result: Line) -> bool:
    """Whether a "lost connection" was a stream that stayed silent until the program itself gave it up.

    The only trace is the time: minutes on the first request that were not spent on waiting to try again.
    """
    lost = result.get("api_error") == "connection_failed" and _number(result.get("num_turns")) <= 1
    return lost and _number(result.get("duration_ms")) / 1000 - seen.retried_s >= SILENCE_S


def _timed(judged: Judged, seen: Seen, said: str, now: float, zone: str) -> Judged:
    """With the reset of the window that was refused: from its event, else from the sentence."""
    refused = seen.rejected or {}
    at = resets.instant(refused.get("resetsAt"), now)
    return judged._replace(
        reset_at=resets.told(said, now, zone) if at is None else at, window=_text(refused.get("rateLimitType"))
    )


def _notice(result: Line, answer: str) -> bool:
    """Whether a "good" answer is nothing but a known notice: one short line, one turn, no cost."""
    free = not result.get("total_cost_usd") and result.get("num_turns") in {0, 1, None}
    return free and len(answer) < 200 and "\n" not in answer.strip() and classify.phrase(answer) is not None


def _unfinished(seen: Seen, end: Exit, err: bytes, now: float, zone: str) -> Judged:
    """An end without a closing event: our limits and signals first, then what it said on the way out."""
    judged = classify.ended(end, err)
    said = err.decode(errors="replace")[-4096:] + "\n" + seen.last
    spoke = end.code != 0 and not end.signal and not end.stopped_by
    kind = classify.phrase(said) if spoke and judged.kind is Class.Crashed else None
    if kind is not None:
        reason = judged.reason if classify.phrase(judged.reason) is kind else classify.one_line(seen.last)
        judged = judged._replace(kind=kind, reason=reason)
    if judged.kind is Class.InvalidOutput and seen.session and not seen.last.startswith("{"):
        judged = judged._replace(kind=Class.Crashed, reason="left in the middle, without a closing event")
    judged = judged._replace(session=seen.session)
    return _timed(judged, seen, said, now, zone) if judged.kind is Class.Quota else judged


def _scan(out: bytes) -> Seen:
    """One pass over the output; lines that are cut, garbled or of no meaning here are passed over."""
    seen = Seen()
    for raw in _lines(out):
        event = _event(raw)
        if event is None:
            seen = seen._replace(last=classify.one_line(raw[:2000].decode(errors="replace"))) if raw.strip() else seen
            continue
        match event.get("type"):
            case "result":
                seen = seen._replace(result=event)
            case "rate_limit_event":
                info = event.get("rate_limit_info")
                refused = isinstance(info, dict) and info.get("status") == "rejected"
                seen = seen._replace(rejected=info if refused else None)
            case "assistant":
                seen = seen._replace(error=_text(event.get("error")))
            case "system" if event.get("subtype") == "init":
                seen = seen._replace(session=_text(event.get("session_id")))
            case "system" if event.get("subtype") == "api_retry":
                seen = seen._replace(retried_s=seen.retried_s + _number(event.get("retry_delay_ms")) / 1000)
    return seen


def _lines(out: bytes) -> Iterator[bytes]:
    """The lines of `out`, one at a time: an output of 100 MB is not held twice."""
    at = 0
    while at < len(out):
        to = out.find(b"\n", at)
        to = len(out) if to < 0 else to
        yield out[at:to]
        at = to + 1


def _event(raw: bytes) -> Line | None:
    """One line as a JSON object; None when it is none."""
    if not raw.lstrip().startswith(b"{"):
        return None
    try:
        event = msgspec.json.decode(raw)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _number(value: object) -> float:
    """`value` if it is a number."""
    return float(value) if isinstance(value, int | float) else 0.0


def _text(value: object) -> str:
    """`value` if it is text."""
    return value if isinstance(value, str) else ""


def _tokens(result: Line) -> int | None:
    """All tokens that were read and written, the cached ones included; this process alone."""
    usage = result.get("usage")
    if not isinstance(usage, dict):
        return None
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(n for name in names if isinstance(n := usage.get(name), int))


def _usd(result: Line, turn: Turn) -> float | None:
    """What this turn cost: the program adds up over a continued conversation, so what was there before is taken off."""
    total = result.get("total_cost_usd")
    if not isinstance(total, int | float):
        return None
    before = turn.prior_usd if turn.resume and total >= turn.prior_usd else 0.0
    return max(0.0, float(total) - before)

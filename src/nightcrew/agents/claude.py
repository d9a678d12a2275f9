"""Adapter for Claude Code: its command line, its stream of JSON lines, its ways to fail (measured on 2.1.332)."""

import os

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
FIELDS = ("api_error_status", "terminal_reason", "subtype", "stop_reason", "api_error", "api_error_type")  # that tell the reason
NAMES = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin, one JSON line per event; looking only is `plan` mode, anything else full rights."""
    argv = [turn.program, "-p", "--output-format", "stream-json", "--verbose"]
    argv += ["--model", turn.model] if turn.model else []
    argv += ["--permission-mode", "plan" if turn.read_only else "bypassPermissions"]
    argv += ["--resume", turn.resume] if turn.resume else ["--session-id", turn.session] if turn.session else []
    # Without it the program refuses full rights as root.
    env = {**QUIET, "IS_SANDBOX": "1"} if os.geteuid() == 0 else QUIET
    login = (own,) if (own := turn.env.get("CLAUDE_CONFIG_DIR")) else ("~/.claude", "~/.claude.json")
    return Launch(tuple(argv), env, login_paths=login, session_paths=(f"{login[0]}/projects",), closing=('{"type":"result"',))


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides, also over our own deadline and the exit status; without one, how the process ended."""
    told = reading.Told()
    events, retried_s = _scan(told, out)
    info = events.get("rate_limit_event", {}).get("rate_limit_info")
    refused = info if isinstance(info, dict) and info.get("status") == "rejected" else {}
    if result := events.get("result"):
        _close(told, turn, result, _kind(result, refused, retried_s), events.get("assistant", {}).get("error"))
    judged = reading.judged(told, turn, end, err, now, zone)
    at, window = resets.instant(refused.get("resetsAt"), now) or judged.reset_at, str(refused.get("rateLimitType") or "")
    return judged._replace(reset_at=at, window=window) if judged.kind is Class.Quota else judged


def _scan(told: reading.Told, out: bytes) -> tuple[dict[str, Line], float]:
    """The last event of each sort, and the seconds waited to try again. The closing event of a refused conversation has an id that never was."""
    events: dict[str, Line] = {}
    retried_s = 0.0
    for event in told.lines(out):
        retried_s += classify.total(event, "retry_delay_ms") / 1000
        sort = str(event.get("type"))
        events[f"system/{event.get('subtype')}" if sort == "system" else sort] = event
    told.session = str(events.get("system/init", {}).get("session_id") or "")
    return events, retried_s


def _close(told: reading.Told, turn: Turn, result: Line, kind: Class | None, error: object) -> None:
    """What the closing event means. Money it adds up over a continued conversation, tokens it does not."""
    usage, spent = result.get("usage"), result.get("total_cost_usd")
    told.tokens = classify.total(usage, *NAMES) if isinstance(usage, dict) else None
    told.usd = reading.rest(turn, spent, turn.prior_usd) if isinstance(spent, int | float) else None
    told.answer = answer if isinstance(answer := result.get("result"), str) else ""
    # A "good" answer may be nothing but a known notice: one short line, one turn, no cost.
    free = not spent and result.get("num_turns") in {0, 1, None}
    notice = free and len(told.answer) < 200 and "\n" not in told.answer.strip() and classify.known(told.answer)[0] is not None
    # Subtype `success` alone means nothing: service errors carry it too.
    told.closed = not notice and not result.get("is_error") and result.get("subtype") == "success"
    if not told.closed:
        said = told.answer or " ".join(map(str, result.get("errors") or ()))
        told.fail(said, *(f"{name}: {result[name]}" for name in FIELDS if result.get(name)), error, kind=kind)


def _kind(result: Line, refused: Line, retried_s: float) -> Class | None:
    """The class of an error that its fields and its sentence do not tell by themselves."""
    if refused and result.get("api_error_status") in {429, None}:
        return Class.Quota
    # A "lost connection" may be a stream that stayed silent: minutes on the first request, not spent on waiting to try again.
    lost = result.get("api_error") == "connection_failed" and classify.total(result, "num_turns") <= 1
    return Class.Timeout if lost and classify.total(result, "duration_ms") / 1000 - retried_s >= SILENCE_S else None

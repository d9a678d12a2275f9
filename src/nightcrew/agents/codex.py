"""Adapter for Codex: its command line, its stream of JSON lines, its ways to fail (measured on 0.171.0)."""

from nightcrew.agents import classify, reading, resets
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.core.work import Class

# The first costs 5 s at every good end without a network.
QUIET = ("-c", "analytics.enabled=false", "-c", "check_for_update_on_startup=false")
# When a quota is back stands to the second only in what it keeps of a conversation: after a bad end the last such record is printed too.
SHELL = """trap : INT TERM; "$@"; code=$?; [ $code = 0 ] || { cd "${CODEX_HOME:-$HOME/.codex}/sessions" && ls -t */*/*/rollout-*.jsonl |
head -1 | xargs -r grep -h '"rate_limits":{' | tail -1; } 2>/dev/null; exit $code"""
WINDOWS = {300: "five_hour", 10080: "seven_day"}  # minutes
STOP = (("INT", 5.0), ("TERM", 2.0))  # at TERM alone it leaves what its tools started
LOOPS = ("Reconnecting... waiting for network", 5)  # about once a minute, for ever


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin. Options stand before `resume`, and the rights are told each time: they are not remembered."""
    argv = ["/bin/sh", "-c", SHELL, "sh", turn.program, "exec", "--json", "--skip-git-repo-check", "-C", str(turn.cwd)]
    argv += [*QUIET, "-m", turn.model] if turn.model else QUIET
    argv += ["-s", "read-only"] if turn.read_only else ["--dangerously-bypass-approvals-and-sandbox"]
    argv += ["resume", turn.resume, "-"] if turn.resume else ["-"]
    home = turn.env.get("CODEX_HOME") or "~/.codex"
    return Launch(
        tuple(argv), login_paths=(home,), session_paths=(f"{home}/sessions",), stop_signals=STOP, loops=LOOPS,
        closing=('{"type":"turn.completed"', '{"type":"turn.failed"'),
    )  # fmt: skip


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """`turn.completed` is the good end; its count is the whole conversation's. A malformed id silently begins another conversation."""
    told, spent = reading.Told(), reading.Line()
    for line in told.lines(out):
        match line:
            case {"type": "thread.started", "thread_id": str(session)}:
                told.session = session
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                told.answer = text
            case {"type": "turn.completed", "usage": dict(usage)}:
                told.closed = True
                told.tokens = reading.rest(turn, classify.total(usage, "input_tokens", "output_tokens"), turn.prior_tokens)
            case {"type": "turn.failed", "error": {"message": str(said)}}:
                told.fail(said)
            case {"type": "error", "message": str(said)} if end.stopped_by == "loop":
                told.fail(said)
            case {"type": "event_msg", "payload": {"rate_limits": dict(limits)}}:
                spent = classify.spent(limits) or spent
            case _:
                pass  # an `error` alone is only a try that is made again, an item of that type a warning
    found, at = reading.judged(told, turn, end, err, now, zone), resets.instant(spent.get("resets_at"), now) or now
    exact = found._replace(reset_at=at, window=WINDOWS.get(spent.get("window_minutes", 0), ""))
    return exact if found.kind is Class.Quota and at > now else found

"""Adapter for Codex: its command line, its stream of JSON lines, its ways to fail (measured on 0.171.0)."""

from nightcrew.agents import reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn

# The first costs 5 s at every good end without a network.
QUIET = ("analytics.enabled=false", "check_for_update_on_startup=false")
STOP = (("INT", 5.0), ("TERM", 2.0))  # at TERM alone it leaves what its tools started
LOOPS = ("Reconnecting... waiting for network", 5)  # about once a minute, for ever


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin. Options stand before `resume`, and the rights are told each time: they are not remembered."""
    argv = [turn.program, "exec", "--json", "--skip-git-repo-check", "-C", str(turn.cwd)]
    argv += [part for quiet in QUIET for part in ("-c", quiet)]
    argv += ["-m", turn.model] if turn.model else []
    argv += ["-s", "read-only"] if turn.read_only else ["--dangerously-bypass-approvals-and-sandbox"]
    argv += ["resume", turn.resume, "-"] if turn.resume else ["-"]
    home = turn.env.get("CODEX_HOME") or "~/.codex"
    return Launch(
        tuple(argv), login_paths=(home,), session_paths=(f"{home}/sessions",), stop_signals=STOP, loops=LOOPS,
        closing=('{"type":"turn.completed"', '{"type":"turn.failed"'),
    )  # fmt: skip


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """`turn.completed` is the good end; its count is the whole conversation's. A malformed id silently begins another conversation."""
    told = reading.Told()
    for line in told.lines(out):
        match line:
            case {"type": "thread.started", "thread_id": str(session)}:
                told.session = session
            case {"type": "item.completed", "item": {"type": "agent_message", "text": str(text)}}:
                told.answer = text
            case {"type": "turn.completed", "usage": dict(usage)}:
                told.closed = True
                told.tokens = reading.rest(turn, reading.total(usage, "input_tokens", "output_tokens"), turn.prior_tokens)
            case {"type": "turn.failed", "error": {"message": str(said)}}:
                told.fail(said)
            case {"type": "error", "message": str(said)} if end.stopped_by == "loop":
                told.fail(said)
            case _:
                pass  # an `error` alone is only a try that is made again, an item of that type a warning
    return reading.judged(told, turn, end, err, now, zone)

"""Adapter for opencode: its command line, its stream of JSON lines, its ways to fail (measured on 1.18.33)."""

import msgspec

from nightcrew.agents import classify, reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn

QUIET = {f"OPENCODE_DISABLE_{name}": "1" for name in ("AUTOUPDATE", "MODELS_FETCH", "LSP_DOWNLOAD")}
LOOK = {"OPENCODE_PERMISSION": '{"edit":"deny","bash":"deny"}'}  # its plan mode alone lets a shell write
LOOPS = ('"reason":"unknown"', 10)  # a stream that ended early is asked for again, a hundred times a minute
DATA = "~/.local/share/opencode"
LOGIN = (f"{DATA}/auth.json", "~/.config/opencode", "~/.cache/opencode", "~/.local/state/opencode")


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin; elsewhere than in its first folder a conversation would never end, so the folder is told."""
    argv = [turn.program, "run", "--format", "json", "--dir", str(turn.cwd)]
    argv += ["--model", turn.model] if turn.model else []
    argv += ["--agent", "plan"] if turn.read_only else ["--auto"]
    argv += ["--session", turn.resume] if turn.resume else []
    return Launch(
        tuple(argv), {**QUIET, **(LOOK if turn.read_only else {})}, login_paths=LOGIN, session_paths=(DATA,), loops=LOOPS,
        closing=('{"type":"step_finish"*"reason":"stop"', '{"type":"error"'),
        quiet_s=600.0,  # it tries again in silence: for over a minute, or as long as a service asked it to
    )  # fmt: skip


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """There is no closing event: the last step says `stop`. Tokens and money are told step by step."""
    told = reading.Told()
    for line in told.lines(out):
        told.session = told.session or str(line.get("sessionID") or "")
        match line:
            case {"type": "text", "part": {"text": str(text)}}:
                told.answer = text
            case {"type": "step_finish", "part": {"tokens": dict(tokens), **part}}:
                told.closed = part.get("reason") == "stop"
                counts = {**tokens, **classify.fields(tokens.get("cache"))}
                spent = classify.total(counts, "input", "output", "reasoning", "read", "write")
                told.tokens, told.usd = (told.tokens or 0) + spent, (told.usd or 0.0) + classify.total(part, "cost")
            case {"type": "error", "error": {"data": dict(data), **error}}:
                more = msgspec.json.encode([data.get("responseHeaders"), data.get("responseBody")]).decode()
                told.fail(str(data.get("message", "")), error.get("name"), f"status {data.get('statusCode')}", more)
            case _:
                pass
    told.usd = told.usd or None  # a model without a known price costs it nothing
    return reading.judged(told, turn, end, err, now, zone)

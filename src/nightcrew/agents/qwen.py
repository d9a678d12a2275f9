"""Adapter for Qwen Code: its command line, its stream of JSON lines, its ways to fail (measured on 0.24.4, faults also on 0.15.10)."""

from pathlib import Path

from nightcrew.agents import classify, reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn

DEFAULTS = Path(__file__).with_suffix(".json")  # below the person's own settings: quiet, and few tries of its own
QUIET = {"QWEN_CODE_SYSTEM_DEFAULTS_PATH": str(DEFAULTS), "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1"}
FAILED = "[API Error:"


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin, one JSON line per event."""
    argv = [turn.program, "-o", "stream-json", "--approval-mode", "plan" if turn.read_only else "yolo"]
    argv += ["-m", turn.model] if turn.model else []
    argv += ["--auth-type", "openai"] if "OPENAI_API_KEY" in turn.env else []
    argv += ["--resume", turn.resume] if turn.resume else ["--session-id", turn.session] if turn.session else []
    home = turn.env.get("QWEN_HOME") or "~/.qwen"
    return Launch(
        tuple(argv), QUIET, login_paths=(home,), session_paths=(f"{home}/projects",),
        closing=('{"type":"result"',), quiet_s=600.0,  # it tries again almost in silence, two minutes apart
    )  # fmt: skip


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides; older ones call everything a success, and only the end of the text tells. Tokens are the conversation's."""
    told = reading.Told()
    for line in told.lines(out):
        match line:
            case {"type": "system", "subtype": "init", "session_id": str(session)}:
                told.session = session
            case {"type": "result", **result}:
                text = str(result.get("result") or "")
                told.answer, told.closed = text, not result.get("is_error") and result.get("subtype") == "success"
                spent = classify.total(result.get("usage"), "input_tokens", "output_tokens")
                told.tokens = reading.rest(turn, spent, turn.prior_tokens)
                failed = FAILED in text and text.rstrip().endswith("]")
                if failed or not told.closed:
                    error = classify.fields(result.get("error"))
                    told.fail(text[text.rfind(FAILED) :] if failed else str(error.get("message", "")), error.get("type"))
            case _:
                pass
    return reading.judged(told, turn, end, err, now, zone)

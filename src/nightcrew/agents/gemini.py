"""Adapter for Gemini CLI: its command line, its stream of JSON lines, its ways to fail (measured on 0.61.0)."""

from pathlib import Path

from nightcrew.agents import classify, reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn

# Below the person's own settings; it reads such a file only where none but root may write it.
QUIET = {"GEMINI_CLI_SYSTEM_DEFAULTS_PATH": str(Path(__file__).with_suffix(".json")), "GEMINI_CLI_NO_RELAUNCH": "1"}


def command(turn: Turn) -> Launch:
    """One turn: prompt on stdin, one JSON line per event."""
    argv = [turn.program, "-o", "stream-json", "--skip-trust", "--approval-mode", "plan" if turn.read_only else "yolo"]
    argv += ["-m", turn.model] if turn.model else []
    argv += ["--resume", turn.resume] if turn.resume else ["--session-id", turn.session] if turn.session else []
    home = f"{turn.env.get('GEMINI_CLI_HOME') or '~'}/.gemini"
    return Launch(tuple(argv), QUIET, login_paths=(home,), session_paths=(f"{home}/tmp",), closing=('{"type":"result"',))  # noqa: S108


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """`status` of the closing event decides: an error may end with status 0. What failed before any answer is not stored."""
    told, opened = reading.Told(), ""
    for line in told.lines(out):
        match line:
            case {"type": "init", "session_id": str(opened)}:
                told.session = turn.resume and opened
            case {"type": "message", "role": "assistant", "content": str(text)}:
                told.session = opened
                told.say(text)
            case {"type": "tool_use" | "tool_result"}:
                told.session, told.fresh = opened, True
            case {"type": "error", "message": str(said)}:
                told.error = said
            case {"type": "result", **result}:
                told.closed, error = result.get("status") == "success", classify.fields(result.get("error"))
                told.tokens = classify.total(result.get("stats"), "total_tokens")
                if not told.closed:  # the exit code is the HTTP status modulo 256
                    http = f"status {end.code + 256}" if end.code >= 144 and not end.signal else ""
                    told.fail(str(error.get("message") or told.error), error.get("type"), http)
            case _:
                pass
    return reading.judged(told, turn, end, err, now, zone)

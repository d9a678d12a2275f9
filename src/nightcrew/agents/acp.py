"""Adapter for any agent of the Agent Client Protocol (version 1): a player of ours is its client and prints what it hears."""

import sys
from pathlib import Path

from nightcrew.agents import reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn

PLAYER = Path(__file__).resolve().parent.parent / "players" / "acp.py"
HOMES = {  # where the agents that speak it today keep login and conversations
    "claude": ("~/.claude", "~/.claude.json"),
    "codex": ("~/.codex",),
    "gemini": ("~/.gemini",),
    "opencode": ("~/.local/share/opencode", "~/.config/opencode", "~/.cache/opencode", "~/.local/state/opencode"),
    "qwen": ("~/.qwen",),
}
NAMES = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "input_tokens", "output_tokens")


def command(turn: Turn) -> Launch:
    """Our own interpreter with the player, which starts the roster's command and answers its questions by the seat's rights."""
    argv = (sys.executable, "-I", str(PLAYER), "look" if turn.read_only else "work", turn.resume, turn.program, *turn.command[1:])
    homes = next((homes for name, homes in HOMES.items() if name in " ".join(turn.command)), ())
    return Launch(argv, login_paths=homes, quiet_s=600.0)


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The answer to the prompt closes the turn; what went wrong is an error in its place. Text that is only replayed is not the answer."""
    told = reading.Told()
    for line in told.lines(out):
        match line:
            case {"method": "session/update", "params": {"update": dict(update), **params}}:
                told.session = str(params.get("sessionId") or told.session)
                _update(told, update)
            case {"result": {"stopReason": str(why)}}:
                _close(told, why, line["result"])
            case {"result": dict(result)}:
                told.session, told.fresh = str(result.get("sessionId") or told.session), True
            case {"error": {"code": code, "message": said, **error}} if not told.closed:
                data = error.get("data")
                data = data if isinstance(data, dict) else {}
                info = data.get("codex_error_info") or data.get("errorName")
                told.fail(str(data.get("message") or data.get("details") or said), info, str(code))
            case _:
                pass
    return reading.judged(told, turn, end, err, now, zone)


def _update(told: reading.Told, update: reading.Line) -> None:
    match update:
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": str(text)}}:
            told.say(text)
        case {"sessionUpdate": "usage_update", "cost": {"amount": float() | int() as amount, "currency": "USD"}}:
            told.usd = float(amount) or None
        case _:
            told.fresh = True


def _close(told: reading.Told, why: str, result: reading.Line) -> None:
    """An end without a mistake; after a refusal some agents call the whole turn cancelled. One that counted nothing was cut off."""
    told.closed, told.fresh = why in {"end_turn", "cancelled"}, True
    counted = result.get("usage") or ((result.get("_meta") or {}).get("quota") or {}).get("token_count")
    told.tokens = reading.total(counted, *NAMES) if counted else None
    if told.tokens == 0 and "usage" not in result:
        told.fail("the model's stream ended early", "connection_failed")
    elif not told.closed:
        told.fail(f"it stopped: {why}", why)

"""Adapter for any agent of the Agent Client Protocol (version 1): a player of ours is its client and prints what it hears."""

import sys
from pathlib import Path

from nightcrew.agents import catalog, classify, reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.core.work import Class

PLAYER = Path(__file__).resolve().parent.parent / "players" / "acp.py"
LOAD = 1  # the player's second request, counted from 0, opens or loads
NAMES = ("inputTokens", "outputTokens", "cachedReadTokens", "cachedWriteTokens", "input_tokens", "output_tokens")


def command(turn: Turn) -> Launch:
    """Our own interpreter with the player, which starts the roster's command; what else a known program needs, its own adapter tells."""
    argv = (sys.executable, "-I", str(PLAYER), "look" if turn.read_only else "work", turn.resume, turn.program, *turn.command[1:])
    speaks = (name for name, kind in catalog.kinds().items() if kind.runs == "program" and kind.sessions)
    name = next((name for name in speaks if name in " ".join(turn.command)), "")
    own = catalog.adapter(name).command(turn) if name else Launch(())
    return Launch(argv, own.env, own.login_paths, own.session_paths, quiet_s=600.0)


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The answer to the prompt closes the turn; what went wrong is an error in its place. Text that is only replayed is not the answer."""
    told = reading.Told()
    for line in told.lines(out):
        match line:
            case {"method": "session/update", "params": {"update": dict(update), **params}}:
                told.session = str(params.get("sessionId") or told.session)
                _update(told, turn, update)
            case {"method": str()}:
                told.fresh = True
            case {"result": {"stopReason": str(why)}}:
                _close(told, why, line["result"])
            case {"result": dict(result)}:
                told.session, told.fresh = str(result.get("sessionId") or told.session), True
                told.tokens = told.tokens if told.closed else None  # what was only replayed
            case {"error": {"code": code, "message": said, **error}} if not told.closed:
                data = classify.fields(error.get("data"))
                info = data.get("codex_error_info") or data.get("errorName")
                said = str(data.get("message") or data.get("details") or said)
                # A refusal to load that names no reason is one of the conversation.
                lost = turn.resume and line.get("id") == LOAD and classify.known(said)[0] in {None, Class.ServerError}
                told.fail(said, info, str(code), kind=Class.SessionNotFound if lost else None)
            case _:
                pass
    return reading.judged(told, turn, end, err, now, zone)


def _update(told: reading.Told, turn: Turn, update: reading.Line) -> None:
    """Money is told for the whole conversation; tokens, by some agents, request by request."""
    if usage := classify.fields(update.get("_meta")).get("usage"):
        told.tokens = (told.tokens or 0) + _count(usage)
    match update:
        case {"sessionUpdate": "agent_message_chunk", "content": {"text": str(text)}}:
            told.say(text)
        case {"sessionUpdate": "usage_update", "cost": {"amount": float() | int() as amount, "currency": "USD"}}:
            told.usd = reading.rest(turn, amount, turn.prior_usd) or None
        case _:
            told.fresh = True


def _count(usage: object) -> int:
    return int(classify.total(usage, "totalTokens") or classify.total(usage, *NAMES))


def _close(told: reading.Told, why: str, result: reading.Line) -> None:
    """An end without a mistake; after a refusal some agents call the whole turn cancelled. One that counted nothing was cut off."""
    told.closed, told.fresh = why in {"end_turn", "cancelled"}, True
    counted = result.get("usage") or classify.fields(classify.fields(result.get("_meta")).get("quota")).get("token_count")
    told.tokens = _count(counted) if counted else told.tokens
    if told.tokens == 0 and "usage" not in result:
        told.fail("the model's stream ended early", "connection_failed")
    elif not told.closed:
        told.fail(f"it stopped: {why}", why)

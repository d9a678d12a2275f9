"""Adapter for the scripted player: an agent that does what a script says, for tests and the demo."""

import io
import sys
from contextlib import suppress
from pathlib import Path

import msgspec

from nightcrew.agents import classify, resets
from nightcrew.agents.base import Exit, Judged, Launch, Turn
from nightcrew.core.work import Class

PLAYER = Path(__file__).resolve().parent.parent / "players" / "scripted.py"


class Line(msgspec.Struct, rename={"kind": "class"}):
    """One event of the player, of any sort."""

    event: str
    session: str = ""
    kind: Class = Class.Crashed
    reason: str = "ended badly and gave no reason"
    reset_at: float | str | None = None
    window: str = ""
    retry_after_s: float | None = None
    ok: bool = False
    text: str = ""
    tokens: int | None = None
    usd: float | None = None


def command(turn: Turn) -> Launch:
    """Our own interpreter, alone (no site packages, no environment: it starts at once), with the player, script and turn."""
    script, state = (*turn.command, f"{turn.command[0]}.state")[:2]  # the second: a folder for what the player remembers
    told = [f"{name}={getattr(turn, name)}" for name in ("run", "agent", "node", "seat", "label", "session", "resume")]
    argv = (turn.program or sys.executable, "-I", "-S", str(PLAYER), script, state, *told, f"read_only={turn.read_only:d}")
    return Launch(argv, login_paths=(script, state))


def judge(_turn: Turn, end: Exit, out: bytes, err: bytes, now: float, _zone: str) -> Judged:
    """The closing event decides, and the notice before it says why it is not good; without one, the end of the process."""
    last = {"started": Line("started")}
    for raw in io.BytesIO(out):
        with suppress(ValueError, RecursionError):
            line = msgspec.json.decode(raw, type=Line)
            last[line.event] = line
    result, session = last.get("result"), last["started"].session
    if result is None:
        return classify.ended(end, err)._replace(session=session)
    why, judged = last.get("notice", result), classify.answered(result.text)
    if not why.ok:
        at, reason = resets.instant(why.reset_at, now), classify.one_line(why.reason) or why.kind.value
        judged = Judged(why.kind, reason, reset_at=at, window=why.window, retry_after_s=why.retry_after_s)
    return judged._replace(session=session, tokens=result.tokens, usd=result.usd)

"""Adapter for the scripted player: an agent that does what a script says, for tests and the demo.

The roster's command is the script and, if it shall not lie beside it, the folder for what the player remembers.
"""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from nightcrew.agents import classify, resets
from nightcrew.agents.base import Exit, Judged, Launch, Signals, Turn
from nightcrew.core.work import Class

chooses_session = True
reports_session = True
folder_bound = False
passes: tuple[str, ...] = ()

PLAYER = Path(__file__).resolve().parent.parent / "players" / "scripted.py"

Line = dict[str, Any]


class Seen(NamedTuple):
    """The last event of each sort."""

    result: Line | None = None
    notice: Line | None = None
    session: str = ""


def version_argv(program: str) -> tuple[str, ...]:
    """Nothing: the player is part of nightcrew."""
    del program
    return ()


def command(turn: Turn) -> Launch:
    """Our own interpreter, alone (no site packages, no environment: it starts at once), with the player, script and turn."""
    script = turn.command[0]
    state = turn.command[1] if len(turn.command) > 1 else f"{script}.state"
    names = ("run", "agent", "node", "seat", "label", "session", "resume")
    told = [f"{name}={getattr(turn, name)}" for name in names]
    told += [f"n={turn.n}", f"read_only={int(turn.read_only)}"]
    program = turn.program or sys.executable
    return Launch(
        (program, "-I", "-S", str(PLAYER), script, state, *told),
        turn.prompt_file,
        login_paths=(script, state),
    )


def read(line: str) -> Signals:
    """What one line tells: words, the conversation, the closing event."""
    event = _event(line.encode(errors="replace"))
    if event is None:
        return Signals(activity=classify.one_line(line, 80))
    activity = classify.one_line(event["text"], 80) if isinstance(event.get("text"), str) else ""
    return Signals(activity, _text(event.get("session")), event.get("event") == "result")


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """The closing event decides, and the notice before it says why it is not good; without one, the end of the process."""
    del turn, zone
    seen = _scan(out)
    if seen.result is None:
        return classify.ended(end, err)._replace(session=seen.session)
    judged = Judged(
        Class.Ok,
        answer=_text(seen.result.get("text")),
        session=seen.session,
        tokens=None if (tokens := _number(seen.result.get("tokens"))) is None else int(tokens),
        usd=_number(seen.result.get("usd")),
    )
    if seen.notice is not None:
        return _noticed(judged, seen.notice, now)
    if not seen.result.get("ok"):
        return judged._replace(kind=Class.Crashed, reason="ended badly and gave no reason", answer=None)
    if not (judged.answer or "").strip():
        return judged._replace(kind=Class.InvalidOutput, reason="ended without an answer", answer=None)
    return judged


def _noticed(judged: Judged, notice: Line, now: float) -> Judged:
    """The failure that a notice names, with its times."""
    try:
        kind = Class(_text(notice.get("class")))
    except ValueError:
        kind = Class.Crashed
    return judged._replace(
        kind=kind,
        reason=classify.one_line(_text(notice.get("reason")) or kind.value),
        answer=None,
        reset_at=resets.instant(notice.get("reset_at"), now),
        window=_text(notice.get("window")),
        retry_after_s=resets.span(notice.get("retry_after_s")),
    )


def _scan(out: bytes) -> Seen:
    """One pass over the output; whatever is no event is noise."""
    seen = Seen()
    for raw in out.split(b"\n"):
        event = _event(raw)
        if event is None:
            continue
        match event.get("event"):
            case "started":
                seen = seen._replace(session=_text(event.get("session")))
            case "notice":
                seen = seen._replace(notice=event)
            case "result":
                seen = seen._replace(result=event)
            case _:
                pass
    return seen


def _event(raw: bytes) -> Line | None:
    """One line as an event; None when it is none."""
    if not raw.startswith(b'{"event":'):
        return None
    try:
        event = msgspec.json.decode(raw)
    except ValueError:
        return None
    return event if isinstance(event, dict) else None


def _text(value: object) -> str:
    """`value` if it is text."""
    return value if isinstance(value, str) else ""


def _number(value: object) -> float | None:
    """`value` if it is a number."""
    return float(value) if isinstance(value, int | float) else None

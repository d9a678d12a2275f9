"""Adapter for mini-swe-agent: its command line and what it leaves behind; no conversation goes on (measured on 2.4.6)."""

import re
from contextlib import suppress

import msgspec

from nightcrew.agents import classify, reading
from nightcrew.agents.base import Exit, Judged, Launch, Turn

ENV = {
    "MSWEA_CONFIGURED": "true",  # else it asks for a model at its first start
    "MSWEA_SILENT_STARTUP": "1",
    "MSWEA_COST_TRACKING": "ignore_errors",  # a model without a known price is no reason to end
    "MSWEA_MODEL_RETRY_STOP_AFTER_ATTEMPT": "3",
}
# It takes the task as an argument only (the kernel bounds one at 128 KiB); what it writes down of the turn is its answer to machines.
SHELL = '"$@" --task "$(cat)" -o "$TMPDIR/trajectory.json"; code=$?; cat "$TMPDIR/trajectory.json" 2>/dev/null; exit $code'
LEAF = b'\n{\n  "info": {'


class _Info(msgspec.Struct):
    exit_status: str = ""
    submission: str = ""
    model_stats: dict[str, float] = {}


class _Trajectory(msgspec.Struct):
    info: _Info
    messages: list[reading.Line] = []


def command(turn: Turn) -> Launch:
    """One turn, each a conversation of its own; it cannot be told to look only: the sandbox does that."""
    argv = ["/bin/sh", "-c", SHELL, "sh", turn.program, "--yolo", "--exit-immediately", "--cost-limit", "0"]
    argv += ["--model", turn.model] if turn.model else []
    return Launch(tuple(argv), ENV, login_paths=("~/.config/mini-swe-agent",), quiet_s=600.0)


def judge(turn: Turn, end: Exit, out: bytes, err: bytes, now: float, zone: str) -> Judged:
    """What it wrote down decides, else the last words on the screen; a submission is the only good end."""
    told, at = reading.Told(), out.rfind(LEAF)
    with suppress(ValueError, RecursionError):  # cut or garbled
        left = msgspec.json.decode(out[at:] if at >= 0 else b"", type=_Trajectory)
        usages = [m.get("extra", {}).get("response", {}).get("usage") or {} for m in left.messages]
        told.closed, told.answer = left.info.exit_status == "Submitted", left.info.submission
        told.tokens = sum(classify.total(u, "total_tokens") for u in usages)
        told.usd = left.info.model_stats.get("instance_cost") or None
    if said := re.search(rb"\nExit:\n(.*?)\n+Saved trajectory to ", out, re.DOTALL) if at < 0 else None:
        told.answer = said[1].decode(errors="replace").strip()
        told.closed = not re.fullmatch(r"[A-Z]\w*(Error|Exceeded)", told.answer)
    return reading.judged(told, turn, end, err, now, zone)

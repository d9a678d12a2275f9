"""What waits or tells: timers, questions, and the completion marker (rulings 10, 29, 31)."""

import asyncio
import os
from pathlib import Path

import msgspec

from nightcrew.core.effects import Ask, EmitCompletionMarkerAndTerminate, Timer
from nightcrew.core.events import (
    Asked,
    CompletionMarkerEmitted,
    CompletionMarkerWriteFailed,
    EffectAnswer,
    TimerFired,
)
from nightcrew.core.state import agent_of
from nightcrew.engine.clock import TICK_S
from nightcrew.engine.tools import Ctx, off
from nightcrew.notify import notify

MARKER = Path(".agent/tmp/completion_marker")
"""Below the top of the checkout where the run was started (seed)."""
TRIES = 3
"""How often the checkout's copy of a success marker may fail before the run's own file decides."""


async def wait(effect: Timer, ctx: Ctx) -> EffectAnswer:
    """Until the wall clock says so, but never longer than the span; early when an agent it waits for is free again."""
    clock, began = ctx.tools.clock, ctx.tools.clock.elapsed()
    while True:
        left = min(effect.fire_at - clock.now(), effect.span_s - (clock.elapsed() - began))
        if left <= 0:
            return TimerFired(key=effect.key)
        await clock.sleep(min(left, TICK_S))
        early = await off(_thawed, effect, ctx)
        if early:
            return TimerFired(key=effect.key, early=True)


def _thawed(effect: Timer, ctx: Ctx) -> bool:
    """Whether the ledger lets one of the agents work before the time that was known."""
    now = ctx.tools.clock.now()
    known = ctx.state().cooling
    for agent in effect.agents:
        cooling = ctx.tools.ledger.cooling_of(agent_of(ctx.state(), agent), now)
        if cooling is None and known.get(agent, 0.0) > now:
            return True
    return False


async def ask(effect: Ask, ctx: Ctx) -> EffectAnswer:
    """Tell a person once, then stay open: the answer comes through the inbox and ends this by cancelling it."""
    if not ctx.begun:
        await off(_notify, ctx, f"{ctx.run}: {effect.text}")
        ctx.tell(Asked(key=effect.key))
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets was set")


async def emit(
    effect: EmitCompletionMarkerAndTerminate, ctx: Ctx
) -> CompletionMarkerEmitted | CompletionMarkerWriteFailed:
    """Write the run's own marker, then the checkout's; then tell whoever wants to know."""
    state = ctx.state()
    failures = state.marker.failures if state.marker else 0
    told = {
        "run_id": ctx.run,
        "is_failure": effect.is_failure,
        "reason": effect.reason,
        "phase": str(state.trouble.failed_phase if state.trouble else state.phase),
        "finished_at": ctx.tools.clock.now(),
    }
    text = msgspec.json.format(msgspec.json.encode(told)) + b"\n"
    try:
        await off(write, ctx.tools.journal.folder(ctx.run) / "completion_marker", text)
        await off(_copy, ctx, text, effect.is_failure, failures)
    except OSError as error:
        return CompletionMarkerWriteFailed(
            is_failure=effect.is_failure, error=f"{error.strerror or error}: {error.filename or ''}".strip(": ")
        )
    await off(_notify, ctx, f"{ctx.run}: {effect.reason}: {state.started.task.title}")
    return CompletionMarkerEmitted(is_failure=effect.is_failure)


def _copy(ctx: Ctx, text: bytes, is_failure: bool, failures: int) -> None:  # noqa: FBT001 — a field of the marker, as in the seed
    try:
        write(ctx.tools.marker_folder / MARKER, text)
    except OSError:
        if is_failure or failures + 1 < TRIES:
            raise


def write(path: Path, text: bytes) -> None:
    """Write a marker atomically and durably, its folders made; raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        with open(fd, "wb") as file:
            file.write(text)
            file.flush()
            os.fsync(fd)
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def _notify(ctx: Ctx, summary: str) -> None:
    command = ctx.state().settings.notify
    if command:
        home = Path(ctx.tools.operator_env.get("HOME", "/"))
        notify(command, ctx.tools.redacted(summary), env=ctx.tools.operator_env, cwd=home)

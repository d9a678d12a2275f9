"""What waits or tells: timers, questions, and the completion marker (rulings 10, 29, 31)."""

import asyncio
import os
from collections.abc import Mapping
from contextlib import nullcontext, suppress
from pathlib import Path

import msgspec

from nightcrew.core import events as ev
from nightcrew.core.effects import Ask, EmitCompletionMarkerAndTerminate, Timer
from nightcrew.core.state import RunState, agent_of
from nightcrew.database import put
from nightcrew.engine.tools import Ctx, Tools, off
from nightcrew.git.repo import Repo
from nightcrew.git.sealed import Checkout, run
from nightcrew.proc.call import call

TICK_S = 30.0  # how long a wait goes on without a look at the wall clock (rulings 10)
MARKER = Path(".agent/tmp/completion_marker")  # below the top of the checkout where the run was started (seed)
TRIES = 3  # how often the checkout's copy of a success marker may fail before the run's own file decides


async def wait(effect: Timer, ctx: Ctx) -> ev.EffectAnswer:
    """Until the wall clock says so, but never longer than the span; early when an agent it waits for is free again."""
    clock, began = ctx.tools.clock, ctx.tools.clock.elapsed()
    if effect.agents and effect.span_s > ctx.state().settings.ladder.max_sleep_s and not ctx.begun:
        await off(tell, ctx.tools, ctx.state(), f"{effect.why}, for {effect.span_s / 3600:.0f} hours")
        ctx.tell(ev.EffectBegun(key=effect.key))
    while True:
        left = min(effect.fire_at - clock.now(), effect.span_s - (clock.elapsed() - began))
        if left <= 0:
            return ev.TimerFired(key=effect.key)
        await clock.sleep(min(left, TICK_S))
        now, state = clock.now(), ctx.state()
        for agent in effect.agents:  # the ledger may let one work before the time that was known
            if state.cooling.get(agent, 0.0) > now and not await off(ctx.tools.ledger.cooling_of, agent_of(state, agent), now):
                return ev.TimerFired(key=effect.key, early=True)


async def ask(effect: Ask, ctx: Ctx) -> ev.EffectAnswer:
    """Tell a person once for each question, then stay open: the answer comes through the inbox and ends this by cancelling it."""
    if not ctx.begun:
        known = ctx.state().questions.get(effect.question)
        if not (known and known.told):
            await off(tell, ctx.tools, ctx.state(), effect.text)
        ctx.tell(ev.Asked(key=effect.key))
    await asyncio.Event().wait()
    raise AssertionError("an event that nobody sets was set")


async def emit(effect: EmitCompletionMarkerAndTerminate, ctx: Ctx) -> ev.Event:
    """Write the run's own marker, then the checkout's; then tell whoever wants to know."""
    state, failed = ctx.state(), effect.is_failure
    phase, now = str(state.trouble.failed_phase if state.trouble else state.phase), ctx.tools.clock.now()
    told = {"run_id": ctx.run, "is_failure": failed, "reason": effect.reason, "phase": phase, "finished_at": now}
    text = msgspec.json.format(msgspec.json.encode(told)) + b"\n"
    last = not failed and (state.marker.failures if state.marker else 0) + 1 >= TRIES
    try:
        await off(put, ctx.tools.journal.folder(ctx.run) / "completion_marker", text)
        here, main = ctx.tools.marker_folder, ctx.tools.journal.place(state.started.repo)
        top = next((path for path in (here, main) if path.is_dir()), ctx.tools.repo.git_dir)
        if not await off(foreign, ctx.tools.repo, top):
            with suppress(OSError) if last else nullcontext():
                await off(put, top / MARKER, text, 0o666)
    except OSError as error:
        why = f"{error.strerror or error}: {error.filename or ''}".strip(": ")
        return ev.CompletionMarkerWriteFailed(is_failure=failed, error=why)
    await off(tell, ctx.tools, state, f"{effect.reason}: {state.started.task.title}")
    return ev.CompletionMarkerEmitted(is_failure=failed)


def foreign(repo: Repo, top: Path) -> str:
    """Why the marker below `top` is not ours to write or remove, so that the run's own decides alone; empty when it is."""
    path = top / MARKER
    for folder in (path.parents[1], path.parents[0]):
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            return f"{folder.relative_to(top)} is no folder"
    if top != repo.git_dir and run(Checkout(top, repo.env), "ls-files", "--", str(MARKER), ok=(0, 128)).out:
        return f"{MARKER} is tracked by git"
    ours = path.is_dir() or not os.path.lexists(path)
    with suppress(OSError, msgspec.MsgspecError):
        ours = ours or (path.is_file() and "run_id" in msgspec.json.decode(path.read_bytes(), type=dict))
    return "" if ours and not path.is_symlink() else f"{MARKER} is not one of ours"


def tell(tools: Tools, state: RunState, what: str) -> None:
    """Tell the person, who named a command for it, what happened in the run."""
    if command := state.settings.notify:
        env, told = tools.operator_env, tools.redacted(f"{state.started.run}: {what}")
        notify(command, told, env=env, cwd=Path(env.get("HOME", "/")))


def notify(command: tuple[str, ...], summary: str, *, env: Mapping[str, str], cwd: Path, timeout_s: float = 30.0) -> None:
    """Run `command` with `{summary}`, made one line, replaced in its arguments (no shell reads them); what goes wrong stops no run."""
    line = " ".join(summary.replace("\0", "").encode(errors="replace").decode().split())
    call((command[0], *(part.replace("{summary}", line) for part in command[1:])), cwd=cwd, env=env, timeout_s=timeout_s)

"""The table of handlers: each effect to what carries it out, and to what stops it. A handler probes first, then runs (law 4)."""

import errno
from collections.abc import Awaitable, Callable
from typing import Any

from nightcrew.core import effects as fx, events as ev
from nightcrew.core.ids import SlotId
from nightcrew.core.phases import landing
from nightcrew.core.state import line
from nightcrew.engine import commands, committing, jobs, steps, turns, waits
from nightcrew.engine.tools import Ctx, off
from nightcrew.errors import UserError
from nightcrew.git.sealed import GitError
from nightcrew.git.slots import WorkspaceLost

STEPS: dict[type[fx.Request], Callable[[Any, Ctx], ev.EffectAnswer]] = {
    fx.PrepareWorkspace: steps.prepare,
    fx.CollectWork: steps.collect,
    fx.SyncBase: steps.sync,
    fx.ContinueRebase: steps.sync,
    fx.UndoRebase: steps.sync,
    fx.ResetWorkspace: steps.reset,
    fx.RescueWork: steps.rescue,
    fx.DropWorkspaces: steps.drop,
}  # git alone: short, in a thread, not interrupted

WORK: dict[type[fx.Request], Callable[[Any, Ctx], Awaitable[ev.Event]]] = {
    fx.StartTurn: turns.run,
    fx.RunCommands: commands.run,
    fx.MakeCommit: committing.run,
    fx.Land: committing.land,
    fx.Timer: waits.wait,
    fx.Ask: waits.ask,
    fx.EmitCompletionMarkerAndTerminate: waits.emit,
}


async def run(effect: fx.Effect, ctx: Ctx) -> ev.Event:
    """The fact that the effect came to. What the outside refuses to a git step is an answer, not an error (rulings 7)."""
    commits = isinstance(effect, fx.MakeCommit | fx.Land)
    syncs = isinstance(effect, fx.SyncBase) and landing.queues(ctx.state())
    if syncs or (isinstance(effect, fx.Land) and effect.mode != "branch"):
        await ctx.tools.turnstile.enter(ctx.tools.clock)
    if commits and not ctx.begun:
        ctx.tell(ev.EffectBegun(key=effect.key))
    try:
        if step := STEPS.get(type(effect)):
            return await off(step, effect, ctx)
        return await WORK[type(effect)](effect, ctx)
    except WorkspaceLost as lost:
        return ev.WorkspaceLost(key=effect.key, slot=SlotId(lost.slot), reason=lost.reason)
    except (GitError, UserError, OSError) as error:
        if not commits and type(effect) not in STEPS:
            raise
        passing = isinstance(error, OSError) and error.errno in {errno.EAGAIN, errno.EINTR}
        transient = passing or (isinstance(error, GitError) and error.timed_out)
        return ev.StepFailed(key=effect.key, reason=line(str(error)), transient=transient)


async def stop(effect: fx.Effect, ctx: Ctx) -> str:
    """End whatever runs for the effect (turn, commands, hooks), with all it started; the name of the ref with its unsaved work."""
    turn = effect if isinstance(effect, fx.StartTurn) else None
    await jobs.stopped(*([ctx.folder] if turn else ctx.folder.glob("*/")))
    return await off(turns.left, turn, ctx) if turn else ""

"""The table of handlers: each effect to what carries it out, and to what stops it. A handler probes first, then runs (law 4)."""

from typing import assert_never

from nightcrew.core.effects import (
    Ask,
    CollectWork,
    ContinueRebase,
    DropWorkspaces,
    Effect,
    EmitCompletionMarkerAndTerminate,
    Land,
    MakeCommit,
    PrepareWorkspace,
    RescueWork,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    Timer,
    UndoRebase,
)
from nightcrew.core.events import Event
from nightcrew.core.phases import landing
from nightcrew.engine import commands, committing, steps, turns, waits
from nightcrew.engine.tools import Ctx


async def run(effect: Effect, ctx: Ctx) -> Event:  # noqa: C901, PLR0912 — one line a kind: the type checker says what is missing
    """The fact that the effect came to."""
    match effect:
        case StartTurn():
            return await turns.run(effect, ctx)
        case RunCommands():
            return await commands.run(effect, ctx)
        case PrepareWorkspace():
            return await steps.step(steps.prepare, effect, ctx)
        case CollectWork():
            return await steps.step(steps.collect, effect, ctx)
        case SyncBase():
            if landing.queues(ctx.state()):
                await ctx.tools.turnstile.enter(ctx.tools.clock)
            return await steps.step(steps.sync, effect, ctx)
        case ContinueRebase():
            return await steps.step(steps.continue_rebase, effect, ctx)
        case UndoRebase():
            return await steps.step(steps.undo_rebase, effect, ctx)
        case ResetWorkspace():
            return await steps.step(steps.reset, effect, ctx)
        case RescueWork():
            return await steps.step(steps.rescue, effect, ctx)
        case DropWorkspaces():
            return await steps.step(steps.drop, effect, ctx)
        case MakeCommit():
            return await committing.run(effect, ctx)
        case Land():
            if effect.mode != "branch":
                await ctx.tools.turnstile.enter(ctx.tools.clock)
            return await committing.land(effect, ctx)
        case Timer():
            return await waits.wait(effect, ctx)
        case Ask():
            return await waits.ask(effect, ctx)
        case EmitCompletionMarkerAndTerminate():
            return await waits.emit(effect, ctx)
        case _:
            assert_never(effect)


async def stop(effect: Effect, ctx: Ctx) -> str:
    """End whatever runs for the effect; the name of the ref with its unsaved work. Git steps are short and are not interrupted."""
    match effect:
        case StartTurn():
            return await turns.stop(effect, ctx)
        case RunCommands():
            return await commands.stop(effect, ctx)
        case MakeCommit() | Land():
            return await committing.stop(effect, ctx)
        case _:
            return ""

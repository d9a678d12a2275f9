"""The commands that decide (set-up, checks, gate): each under a supervisor, sandboxed, its output kept. Only green is remembered."""

import hashlib
import json
import os
import shutil
from pathlib import Path

import msgspec

from nightcrew.core.effects import RunCommands
from nightcrew.core.events import CommandsEnded, EffectAnswer, EffectBegun, StepFailed, WorkspaceLost
from nightcrew.core.ids import Tree
from nightcrew.core.work import Blob, CommandResult, Purpose
from nightcrew.engine import jobs, shelter
from nightcrew.engine.tools import Ctx, off
from nightcrew.git import slots, snapshot, workspace
from nightcrew.git.slots import Workspace
from nightcrew.git.sync import head_of
from nightcrew.proc.job import Exit, Job
from nightcrew.proc.sandbox import Sandbox

KEEPS = frozenset({Purpose.Setup, Purpose.PreGate})
"""What these leave in the workspace is wanted; what others leave is rescued and taken away, so that it never becomes work."""


async def run(effect: RunCommands, ctx: Ctx) -> EffectAnswer:
    """Run the lines in order; or adopt, line by line, what an earlier process of ours began."""
    ws = await off(slots.lookup, ctx.tools.pool.root, effect.slot, ctx.tools.operator_env)
    try:
        if not await off(ctx.folder.exists):  # an adopted command works in it: it is not to be tidied
            await off(slots.verify, ws)
    except slots.WorkspaceLost as lost:
        return WorkspaceLost(key=effect.key, slot=effect.slot, reason=str(lost))
    stamp = await off(_stamp, effect, ctx)
    green = await off(_known_green, ctx, stamp)
    if effect.tree and green:
        known = tuple(CommandResult(line, 0, Blob("", 0, "")) for line in effect.commands)
        return CommandsEnded(key=effect.key, results=known, tree=effect.tree, cached=True)
    if not ctx.begun:
        ctx.tell(EffectBegun(key=effect.key))
    results: list[CommandResult] = []
    for n, line in enumerate(effect.commands):
        end = await jobs.run(ctx.folder / str(n), _job(effect, ctx, ws, line, n))
        if not isinstance(end, Exit):
            return StepFailed(key=effect.key, reason=f"`{line}` vanished without a trace", transient=True)
        results.append(await off(_result, ctx, line, n, end))
        if not results[-1].green and not effect.keep_going:
            break
    tree = await off(_left, effect, ctx, ws)
    ended = CommandsEnded(key=effect.key, results=tuple(results), tree=tree)
    if effect.tree and ended.green:
        await off(_remember, ctx, stamp)
    return ended


async def stop(effect: RunCommands, ctx: Ctx) -> str:
    """End the command that runs, with all it started."""
    for n in range(len(effect.commands)):
        if (ctx.folder / str(n)).exists():
            await jobs.stopped(ctx.folder / str(n))
    return ""


def _job(effect: RunCommands, ctx: Ctx, ws: Workspace, line: str, n: int) -> Job:
    folder = ctx.folder / str(n)
    return Job(
        argv=("/bin/sh", "-c", f"exec 2>&1\n{line}"),
        cwd=ws.path,
        env=environment(ctx, folder, ws),
        mark=f"{effect.key}/{n}",
        sandbox=box(ctx, folder, ws),
        total_s=effect.timeout_s,
    )


def environment(ctx: Ctx, folder: Path, ws: Workspace) -> dict[str, str]:
    """What a command is started with: the scrubbed environment, the names `verify.env` lets through, and its lane's numbers."""
    lane = int(hashlib.sha256(ws.slot.encode()).hexdigest()[:4], 16) % 500
    numbers = {"NIGHTCREW_LANE": str(lane), "NIGHTCREW_PORT_BASE": str(20_000 + 20 * lane)}
    return shelter.environment(ctx.tools, folder, numbers, ctx.state().settings.verify.env)


def box(ctx: Ctx, folder: Path, ws: Workspace, *, seen: tuple[Path, ...] = ()) -> Sandbox:
    """The sandbox of a command: its workspace, and the caches that `verify.writable` names."""
    settings = ctx.state().settings
    home = ctx.tools.operator_env.get("HOME", "/")
    writable = [shelter.expand(path, home) for path in settings.verify.writable]
    return shelter.sandbox(
        ctx.tools, ws, folder, read_only=False, network=settings.shelter.network, writable=writable, seen=seen
    )


def _result(ctx: Ctx, line: str, n: int, end: Exit) -> CommandResult:
    said = jobs.output(ctx.folder / str(n) / "stdout")
    return CommandResult(
        command=line,
        code=end.code,
        output=ctx.tools.blobs.put(said),
        timed_out=end.stopped_by in {"total", "flood"},
        took_s=round(end.ended_at - end.began_at, 3),
    )


def _left(effect: RunCommands, ctx: Ctx, ws: Workspace) -> Tree:
    """Take away what the commands left that is not work, after a rescue; and the tree that stands there."""
    if effect.purpose not in KEEPS and snapshot.survey(ws).dirty:
        workspace.reset(ctx.tools.pool, ws, head_of(ws)[0])
    return effect.tree


# ── what is known to be green ─────────────────────────────────────────────────────────────────────────────────────


def _stamp(effect: RunCommands, ctx: Ctx) -> str:
    """All that a green answer depends on: the tree, the lines, the environment, the programs they begin with (rulings 19)."""
    path = ctx.tools.operator_env.get("PATH", "")
    programs = []
    for line in effect.commands:
        program = shutil.which(line.split()[0], path=path) if line.split() else None
        info = os.stat(program) if program else None
        programs.append([program, info.st_mtime_ns if info else 0, info.st_size if info else 0])
    passed = {name: ctx.tools.operator_env.get(name) for name in (*shelter.PASSED, *ctx.state().settings.verify.env)}
    told = [effect.tree, effect.commands, effect.timeout_s, sorted(passed.items()), programs]
    return hashlib.sha256(json.dumps(told, default=list).encode()).hexdigest()


def _greens(ctx: Ctx) -> Path:
    return ctx.tools.journal.folder(ctx.run) / "green.json"


def _known_green(ctx: Ctx, stamp: str) -> bool:
    try:
        return stamp in msgspec.json.decode(_greens(ctx).read_bytes(), type=list[str])
    except (FileNotFoundError, msgspec.MsgspecError):
        return False


def _remember(ctx: Ctx, stamp: str) -> None:
    path = _greens(ctx)
    known = msgspec.json.decode(path.read_bytes(), type=list[str]) if path.exists() else []
    aside = path.with_suffix(".part")
    aside.write_bytes(msgspec.json.encode([*known[-20:], stamp]))
    aside.rename(path)

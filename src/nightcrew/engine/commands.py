"""The commands that decide (set-up, checks, gate): each under a supervisor, sandboxed, its output kept. Only green is remembered."""

import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

from nightcrew.core.effects import Effect, RunCommands
from nightcrew.core.events import CommandsEnded, EffectAnswer, EffectBegun, StepFailed
from nightcrew.core.work import Blob, CommandResult, Purpose
from nightcrew.engine import jobs
from nightcrew.engine.tools import Ctx, off
from nightcrew.git import slots, snapshot, workspace
from nightcrew.git.collect import head_of
from nightcrew.git.sealed import GitError
from nightcrew.git.slots import Workspace, WorkspaceLost
from nightcrew.proc.job import Exit, Job

# What these leave in the workspace is wanted; what others leave is rescued and taken away, so that it never becomes work.
KEEPS = frozenset({Purpose.Setup, Purpose.PreGate})


async def run(effect: RunCommands, ctx: Ctx) -> EffectAnswer:
    """Run the lines in order; or adopt, line by line, what an earlier process of ours began."""
    ws = ctx.workspace(effect.slot)
    if not ctx.folder.exists():  # an adopted command works in it: it is not to be tidied
        await off(slots.verify, ws)
    stamp = await off(_stamp, effect, ctx) if effect.tree else ""
    greens = ctx.tools.journal.folder(ctx.run) / "greens"
    if stamp and stamp in await off(_names, greens):
        known = tuple(CommandResult(line, 0, Blob("", 0, "")) for line in effect.commands)
        return CommandsEnded(key=effect.key, results=known, tree=effect.tree, cached=True)
    if not ctx.begun:
        await off(_before, effect, ctx, ws)
        ctx.tell(EffectBegun(key=effect.key))
    results: list[CommandResult] = []
    for n, line in enumerate(effect.commands):
        argv = ("/bin/sh", "-c", f"exec 2>&1\n{line}")
        end = await jobs.run(ctx.folder / str(n), job(effect, ctx, ws, str(n), argv, effect.timeout_s))
        if not isinstance(end, Exit):
            return StepFailed(key=effect.key, reason=f"`{line}` vanished without a trace", transient=True)
        results.append(await off(_result, effect, ctx, line, n, end))
        if not results[-1].green and not effect.keep_going:
            break
    rescued = "" if effect.purpose in KEEPS else await off(_tidied, effect, ctx, ws)
    if effect.purpose in KEEPS:
        await off(spare_made, ctx, effect.slot)
    ended = CommandsEnded(key=effect.key, results=tuple(results), tree=effect.tree, rescued=rescued)
    if stamp and ended.green:
        await off(_note, greens, {stamp})  # a torn one is nobody's stamp
    return ended


def job(  # noqa: PLR0913 — one command, each of its sides by its name
    effect: Effect, ctx: Ctx, ws: Workspace, name: str, argv: tuple[str, ...], total_s: float, *,
    stdin: Path | None = None, seen: tuple[Path, ...] = (),
) -> Job:  # fmt: skip
    """A command or hook of the repository: its environment is scrubbed, `verify.env` and `verify.writable` open it, its lane has numbers of its own."""
    verify, folder = ctx.state().settings.verify, ctx.folder / name
    lane = int(hashlib.sha256(ws.slot.encode()).hexdigest()[:4], 16) % 500
    added = {"NIGHTCREW_LANE": str(lane), "NIGHTCREW_PORT_BASE": str(20_000 + 20 * lane), "GIT_EDITOR": ":"}
    env = jobs.environment(ctx, folder, added, verify.env)
    writable = [jobs.expand(path, env.get("HOME", "/")) for path in verify.writable]
    box = jobs.sandbox(ctx, ws, folder, read_only=False, writable=writable, seen=(*seen, jobs.door(env)))
    return Job(argv=argv, cwd=ws.path, env=env, mark=f"{effect.key}/{name}", stdin=stdin, sandbox=box, total_s=total_s)


def _before(effect: RunCommands, ctx: Ctx, ws: Workspace) -> None:
    """Note which files are ignored. A gate sees what will land and what was made for it: the others go, and are noted (decision 0031)."""
    if effect.purpose in KEEPS:
        look_before(ctx, effect.slot)
    if effect.purpose is not Purpose.Gate:
        return
    keep = ctx.state().settings.verify.keep
    spared = _names(_spared(ctx, effect.slot)).union(slots.verify(ws).copies, workspace.ignored(ws, keep) if keep else ())
    gone = workspace.ignored(ws) - spared
    for name in gone:
        slots.remove(ws.path / name)
        with suppress(OSError):  # which ends at the first folder with something in it
            os.removedirs((ws.path / name).parent)
    _note(ctx.folder / "ignored", gone)


def look_before(ctx: Ctx, slot: str) -> None:
    """Note which files are ignored before something begins whose own are wanted: set-up, formatters, a repair."""
    _note(ctx.folder / "ignored", workspace.ignored(ctx.workspace(slot)))


def spare_made(ctx: Ctx, slot: str) -> None:
    """Have the gate keep the ignored files that are new since `look_before`; none if the workspace went meanwhile."""
    with suppress(GitError):
        _note(_spared(ctx, slot), workspace.ignored(ctx.workspace(slot)) - _names(ctx.folder / "ignored"))


def _spared(ctx: Ctx, slot: str) -> Path:
    return ctx.tools.journal.folder(ctx.run) / f"ignored-{slot}"


def _note(path: Path, names: set[str]) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("ab") as file:
        file.write(os.fsencode("".join(f"{name}\0" for name in sorted(names))))


def _names(path: Path) -> set[str]:
    return set(filter(None, os.fsdecode(path.read_bytes()).split("\0"))) if path.exists() else set()


def _result(effect: RunCommands, ctx: Ctx, line: str, n: int, end: Exit) -> CommandResult:
    said, gone = jobs.output(ctx.folder / str(n) / "stdout"), sorted(_names(ctx.folder / "ignored"))
    if gone and end.code and effect.purpose is Purpose.Gate:  # it may be why
        names = f"{', '.join(gone[:9])}; {len(gone)} files"
        said = os.fsencode(f"(removed before this, since no set-up made it and it does not land: {names})\n") + said
    return CommandResult(
        command=line, code=end.code, output=ctx.tools.blobs.put(said), timed_out=end.stopped_by in {"total", "flood"},
        took_s=round(end.ended_at - end.began_at, 3),
    )  # fmt: skip


def _tidied(effect: RunCommands, ctx: Ctx, ws: Workspace) -> str:
    """Have the workspace hold the work again and nothing else, whatever the commands did to it; the ref with what they left."""
    state, space = ctx.state(), ctx.state().workspaces.get(effect.seat)
    heads = [c.change.head for c in state.candidates.values() if c.seat == effect.seat] or ([space.start] if space else [])
    work = heads[0] if heads else head_of(ws)[0]
    with suppress(WorkspaceLost):  # the next step that needs it has it made anew
        try:
            slots.verify(ws)
            if (seen := snapshot.survey(ws)).head == work and not seen.unsaved:
                return ""
        except (GitError, WorkspaceLost):
            if not ws.path.is_symlink():  # git cannot read what is left of it: all that was committed is ours already
                slots.remove(ws.git_dir)
        return workspace.reset(ctx.tools.pool, ws, work)[1].ref
    return ""


def _stamp(effect: RunCommands, ctx: Ctx) -> str:
    """All that a green answer depends on: the tree, the lines, the environment, the programs they begin with (rulings 19)."""
    env = ctx.tools.operator_env
    programs = []
    for line in effect.commands:
        program = shutil.which(line.split()[0], path=env.get("PATH", "")) if line.split() else None
        info = os.stat(program) if program else None
        programs.append([program, info.st_mtime_ns if info else 0, info.st_size if info else 0])
    passed = {name: env.get(name) for name in (*jobs.PASSED, *ctx.state().settings.verify.env)}
    told = [effect.tree, effect.commands, effect.timeout_s, sorted(passed.items()), programs]
    return hashlib.sha256(json.dumps(told, default=list).encode()).hexdigest()

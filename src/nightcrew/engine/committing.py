"""The one commit that lands, and its landing. The repository's hooks run sandboxed like any code; the commit and the push are made outside (decision 0017)."""

import os
from pathlib import Path

from nightcrew.core.effects import Effect, Land, MakeCommit
from nightcrew.core.events import (
    CommitMade,
    CommitRefused,
    EffectAnswer,
    EffectBegun,
    Landed,
    LandingRefused,
    WorkspaceLost,
)
from nightcrew.core.ids import Commit, Tree
from nightcrew.core.state import line
from nightcrew.core.work import Blob, Landing
from nightcrew.engine import commands, jobs, steps
from nightcrew.engine.tools import Ctx, off
from nightcrew.errors import UserError
from nightcrew.git import hooks, landing
from nightcrew.git.collect import put_branch
from nightcrew.git.hooks import Hook
from nightcrew.git.sealed import GitError, git
from nightcrew.git.slots import Workspace, verify
from nightcrew.git.slots import WorkspaceLost as SlotLost
from nightcrew.proc.job import Exit, Job


class Refused(Exception):  # noqa: N818 — what a hook said
    """A hook ended badly."""

    def __init__(self, hook: str, code: int, output: Blob) -> None:
        """Keep what is told to the core."""
        super().__init__(hook)
        self.hook, self.code, self.output = hook, code, output


async def run(effect: MakeCommit, ctx: Ctx) -> EffectAnswer:
    """Run the hooks on what is about to be committed, then commit exactly that."""
    if not ctx.begun:
        ctx.tell(EffectBegun(key=effect.key))
    try:
        return await _commit(effect, ctx)
    except Refused as no:
        return CommitRefused(key=effect.key, output=no.output, code=no.code, hook=no.hook)
    except SlotLost as lost:
        return WorkspaceLost(key=effect.key, slot=effect.slot, reason=lost.reason)
    except (GitError, UserError, OSError) as error:
        return steps.failed(effect, ctx.tools, error)


async def _commit(effect: MakeCommit, ctx: Ctx) -> EffectAnswer:
    ws = await off(steps.place, ctx, effect.slot)
    repo = ctx.tools.repo
    active = {hook.name: hook for hook in await off(hooks.hooks, repo, ctx.state().started.base)}
    message, tree = f"{effect.text.subject}\n\n{effect.text.body}".strip() + "\n", str(effect.tree)
    if "pre-commit" in active:
        await off(hooks.stage_for_hooks, repo, ws, effect.tip, tree)
        try:
            await _hook(effect, ctx, ws, active["pre-commit"])
        finally:
            tree = await off(hooks.after_hooks, ws)
    for name in ("prepare-commit-msg", "commit-msg"):
        if name in active:
            message = await _message(effect, ctx, ws, active[name], message)
    made = await off(landing.squash, repo, ws, ctx.run, effect.tip, tree, message, ctx.at)
    if tree != effect.tree:
        await off(lambda: put_branch(ws, verify(ws), made))
    return CommitMade(key=effect.key, commit=Commit(made), tree=Tree(tree))


async def _message(effect: MakeCommit, ctx: Ctx, ws: Workspace, hook: Hook, message: str) -> str:
    """The message after a hook looked at it, or wrote it anew."""
    path = ctx.folder / hook.name / "tmp" / "COMMIT_EDITMSG"
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.write_text(message)
    await _hook(effect, ctx, ws, hook, str(path), *(["message"] if hook.name == "prepare-commit-msg" else []))
    return path.read_text(errors="replace")


async def _hook(effect: Effect, ctx: Ctx, ws: Workspace, hook: Hook, *args: str, told: str = "") -> None:
    """Run one hook under the supervisor, sandboxed; raises `Refused` when it ends badly."""
    folder = ctx.folder / hook.name
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    program = await off(_program, ctx, hook, folder)
    stdin = folder / "stdin"
    stdin.write_text(told)
    order = Job(
        argv=(str(program), *args),
        cwd=ws.path,
        env={**commands.environment(ctx, folder, ws), "GIT_EDITOR": ":"},
        mark=f"{effect.key}/{hook.name}",
        stdin=stdin,
        sandbox=commands.box(ctx, folder, ws, seen=(program.parent,)),
        total_s=ctx.state().settings.verify.timeout_s,
    )
    end = await jobs.run(folder, order)
    if isinstance(end, Exit) and end.code == 0 and not end.stopped_by:
        return
    said = jobs.output(folder / "stdout") + jobs.output(folder / "stderr")
    code = end.code if isinstance(end, Exit) else 1
    late = isinstance(end, Exit) and end.stopped_by == "total"
    raise Refused(hook.name, 124 if late else code or 1, ctx.tools.blobs.put(said or b"(the hook printed nothing)"))


def _program(ctx: Ctx, hook: Hook, folder: Path) -> Path:
    """The hook's file; one that lies in the tree is taken from the base commit, never from what an agent wrote."""
    if not hook.in_tree:
        return Path(hook.path)
    path = folder / "program"
    text = git(ctx.tools.repo, "show", f"{ctx.state().started.base}:{hook.path}")
    path.write_bytes(os.fsencode(text) + b"\n")
    path.chmod(0o700)
    return path


async def land(effect: Land, ctx: Ctx) -> EffectAnswer:
    """Move the target, or leave the finished branch; whether it is there already is looked at first."""
    if not ctx.begun:
        ctx.tell(EffectBegun(key=effect.key))
    try:
        if effect.mode == "push":
            await _pre_push(effect, ctx)
        return await off(_land, effect, ctx)
    except Refused as no:
        return LandingRefused(
            key=effect.key, why="hook", detail=f"the {no.hook} hook refused (exit {no.code})", output=no.output
        )
    except SlotLost as lost:
        return WorkspaceLost(key=effect.key, slot=effect.slot, reason=lost.reason)
    except (GitError, UserError, OSError) as error:
        return steps.failed(effect, ctx.tools, error)


def _land(effect: Land, ctx: Ctx) -> EffectAnswer:
    repo, target = ctx.tools.repo, steps.target_of(ctx)
    if effect.mode == "branch":
        done, where, replaced = (
            landing.land_branch(repo, ctx.run, effect.branch, effect.commit),
            effect.branch,
            Commit(""),
        )
    else:
        where, replaced = target.branch, effect.tip
        with landing.target_lock(ctx.tools.home, repo, target.branch):
            if effect.mode == "push":
                done = landing.push(repo, target, effect.tip, effect.commit)
            else:
                done = landing.land_local(repo, target.branch, effect.tip, effect.commit)
    if done.state == "landed":
        return Landed(key=effect.key, landing=Landing(effect.mode, where, effect.commit, replaced))
    return LandingRefused(key=effect.key, why=done.state, detail=line(done.why))


async def _pre_push(effect: Land, ctx: Ctx) -> None:
    target = steps.target_of(ctx)
    active = [
        hook for hook in await off(hooks.hooks, ctx.tools.repo, ctx.state().started.base) if hook.name == "pre-push"
    ]
    for hook in active:
        ws = await off(steps.place, ctx, effect.slot)
        name = f"refs/heads/{target.branch}"
        url = ctx.tools.repo.setting(f"remote.{target.remote}.url".lower())
        await _hook(
            effect, ctx, ws, hook, target.remote or "", url, told=f"{name} {effect.commit} {name} {effect.tip}\n"
        )


async def stop(effect: MakeCommit | Land, ctx: Ctx) -> str:
    """End a hook that runs."""
    del effect
    for name in hooks.HOOKS:
        if (ctx.folder / name).exists():
            await jobs.stopped(ctx.folder / name)
    return ""

"""The one commit that lands, and its landing. The repository's hooks run sandboxed like any code; the commit and the push are made outside (decision 0017)."""

import errno
import os
from pathlib import Path

from nightcrew.core import events as ev
from nightcrew.core.effects import Land, MakeCommit
from nightcrew.core.ids import Commit, Tree
from nightcrew.core.state import line
from nightcrew.core.work import Landing
from nightcrew.engine import commands, jobs
from nightcrew.engine.tools import Ctx, off
from nightcrew.errors import UserError
from nightcrew.git import landing
from nightcrew.git.collect import put_branch
from nightcrew.git.sealed import GitError, git
from nightcrew.git.slots import Workspace, verify
from nightcrew.proc.job import Exit


class Refused(Exception):  # noqa: N818 — what a hook said
    """A hook, or the signing, ended badly: its name, its exit code, what it printed (a blob), which limit stopped it."""


async def run(effect: MakeCommit, ctx: Ctx) -> ev.EffectAnswer:
    """Run the hooks on what is about to be committed, then commit exactly that."""
    try:
        return await _commit(effect, ctx)
    except Refused as no:
        hook, code, said, by = no.args
        return ev.CommitRefused(key=effect.key, output=said, code=code, hook=hook, timed_out=by == "total")


async def _commit(effect: MakeCommit, ctx: Ctx) -> ev.CommitMade:
    ws, repo = await off(ctx.verified, effect.slot), ctx.tools.repo
    active = await off(landing.hooks, repo, ctx.state().started.base)
    message, tree = f"{effect.text.subject}\n\n{effect.text.body}".strip() + "\n", str(effect.tree)
    if "pre-commit" in active:
        await off(landing.stage_for_hooks, repo, ws, effect.tip, tree)
        try:
            await _hook(effect, ctx, ws, active["pre-commit"])
        finally:
            tree = await off(landing.after_hooks, ws)
    for name in ("prepare-commit-msg", "commit-msg"):
        if name in active:
            path = ctx.folder / name / "tmp" / "COMMIT_EDITMSG"
            if not (path.is_symlink() or path.exists()):
                path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                path.write_text(message)
            await _hook(effect, ctx, ws, active[name], str(path), *(["message"] if name == "prepare-commit-msg" else []))
            if not path.is_symlink():  # which may lead to what no hook may see
                message = path.read_text(errors="replace")
    made = await off(_squashed, effect, ctx, ws, tree, message)
    if tree != effect.tree:
        await off(lambda: put_branch(ws, verify(ws), made))
    return ev.CommitMade(key=effect.key, commit=Commit(made), tree=Tree(tree))


def _squashed(effect: MakeCommit, ctx: Ctx, ws: Workspace, tree: str, message: str) -> str:
    try:
        return landing.squash(ctx.tools.repo, ws, ctx.run, effect.tip, tree, message, ctx.at)
    except GitError as error:
        try:
            landing.try_signing(ctx.tools.repo)
        except UserError as unsigned:  # that is why, and nothing in the work mends it
            raise Refused("signing", error.code, ctx.tools.blobs.put(str(unsigned).encode()), "") from error
        raise


async def _hook(effect: MakeCommit | Land, ctx: Ctx, ws: Workspace, hook: Path, *args: str, told: str = "") -> None:
    """Run one hook under the supervisor, sandboxed; raises `Refused` when it ends badly."""
    folder, limit_s = ctx.folder / hook.name, ctx.state().settings.verify.timeout_s
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "stdin").write_text(told)
    program = hook
    if not hook.is_absolute():  # one that lies in the tree is taken from the base commit, never from what an agent wrote
        program, text = folder / "program", await off(git, ctx.tools.repo, "show", f"{ctx.state().started.base}:{hook}")
        program.write_bytes(os.fsencode(text) + b"\n")
        program.chmod(0o700)
    argv, seen = (str(program), *args), (program.parent,)
    end = await jobs.run(folder, commands.job(effect, ctx, ws, hook.name, argv, limit_s, stdin=folder / "stdin", seen=seen))
    if not isinstance(end, Exit):
        raise InterruptedError(errno.EINTR, f"the {hook.name} hook vanished without a trace")  # nobody's fault: once more
    code, by = end.code, end.stopped_by
    if code or by:
        said = jobs.output(folder / "stdout") + jobs.output(folder / "stderr") or b"(the hook printed nothing)"
        raise Refused(hook.name, 124 if by == "total" else code or 1, ctx.tools.blobs.put(said), by)


async def land(effect: Land, ctx: Ctx) -> ev.EffectAnswer:
    """Move the target, or leave the finished branch; whether it is there already is looked at first."""
    repo, target = ctx.tools.repo, ctx.target
    active = await off(landing.hooks, repo, ctx.state().started.base) if effect.mode == "push" else {}
    if "pre-push" in active:
        url = repo.setting(f"remote.{target.remote}.url".lower())
        ws, told = await off(ctx.verified, effect.slot), f"{target.ref} {effect.commit} {target.ref} {effect.tip}\n"
        try:
            await _hook(effect, ctx, ws, active["pre-push"], target.remote or "", url, told=told)
        except Refused as no:
            hook, code, said, by = no.args
            detail = f"the {hook} hook " + ("did not end in time" if by == "total" else f"refused (exit {code})")
            return ev.LandingRefused(key=effect.key, why="hook", detail=detail, output=said)
    return await off(_land, effect, ctx)


def _land(effect: Land, ctx: Ctx) -> ev.EffectAnswer:
    repo, target = ctx.tools.repo, ctx.target
    where, replaced = (effect.branch, Commit("")) if effect.mode == "branch" else (target.branch, effect.tip)
    ctx.tools.journal.check(ctx.lease)  # we may have been frozen while the hook ran, and the run been cancelled by another
    if effect.mode == "branch":
        done = landing.land_branch(repo, ctx.run, effect.branch, effect.commit)
    else:
        done = (landing.push if effect.mode == "push" else landing.land_local)(repo, target, effect.tip, effect.commit)
    if done.state == "landed":
        return ev.Landed(key=effect.key, landing=Landing(effect.mode, where, effect.commit, replaced))
    return ev.LandingRefused(key=effect.key, why=done.state, detail=line(done.why))

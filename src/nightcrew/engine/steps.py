"""Git steps on a run's workspaces: lease, collect, rebase, reset, rescue, give back. Each answers the same when it is made again."""

import errno
from collections.abc import Callable
from typing import TypeVar

from nightcrew.core.effects import (
    CollectWork,
    ContinueRebase,
    DropWorkspaces,
    Effect,
    PrepareWorkspace,
    RescueWork,
    ResetWorkspace,
    SyncBase,
    UndoRebase,
)
from nightcrew.core.events import (
    BaseSynced,
    EffectAnswer,
    StepFailed,
    WorkCollected,
    WorkRescued,
    WorkspaceLost,
    WorkspaceReady,
    WorkspaceReset,
    WorkspacesDropped,
)
from nightcrew.core.ids import Commit, SlotId, Tree
from nightcrew.core.state import line
from nightcrew.core.work import Change
from nightcrew.engine.tools import Ctx, Tools, off
from nightcrew.errors import UserError
from nightcrew.git import landing, slots, snapshot, workspace
from nightcrew.git import sync as syncing
from nightcrew.git.collect import Collected
from nightcrew.git.collect import collect as collect_work
from nightcrew.git.repo import Target
from nightcrew.git.sealed import GitError, dated, git, run
from nightcrew.git.slots import Workspace
from nightcrew.git.sync import Synced, head_of

E = TypeVar("E", bound=Effect)


async def step(work: Callable[[E, Ctx], EffectAnswer], effect: E, ctx: Ctx) -> EffectAnswer:
    """Carry a step out in a thread; what the outside refuses is an answer, not an error (rulings 7)."""
    try:
        return await off(work, effect, ctx)
    except slots.WorkspaceLost as lost:
        return WorkspaceLost(key=effect.key, slot=SlotId(lost.slot), reason=lost.reason)
    except (GitError, UserError, OSError) as error:
        return failed(effect, ctx.tools, error)


def failed(effect: Effect, tools: Tools, error: Exception) -> StepFailed:
    """A refusal of the outside in one line; `gone` when the repository itself is no longer there."""
    gone = not tools.repo.git_dir.is_dir()
    reason = f"the repository {tools.repo.git_dir} is gone" if gone else line(str(error))
    passing = (isinstance(error, GitError) and error.timed_out) or (
        isinstance(error, OSError) and error.errno in {errno.EAGAIN, errno.EINTR}
    )
    return StepFailed(key=effect.key, reason=reason, transient=passing, gone=gone)


def place(ctx: Ctx, slot: str) -> Workspace:
    """The workspace an effect names, verified to be ours; raises WorkspaceLost."""
    ws = slots.lookup(ctx.tools.pool.root, slot, ctx.tools.operator_env)
    slots.verify(ws)
    return ws


def target_of(ctx: Ctx) -> Target:
    """The branch the run lands on."""
    told = ctx.state().started
    return Target(told.target, told.remote or None)


def prepare(effect: PrepareWorkspace, ctx: Ctx) -> EffectAnswer:
    """Lease the seat's slot and set it to its start; copy the local files that the settings name."""
    verify = ctx.state().settings.verify
    ws = workspace.lease(ctx.tools.pool, ctx.run, effect.seat, effect.start, effect.branch or None, verify.keep)
    if verify.copy:
        workspace.copy_files(ctx.tools.pool, ws, verify.copy)
    tree = ws.tree if ws.head == effect.start else git(ws, "rev-parse", f"{effect.start}^{{tree}}")
    return WorkspaceReady(key=effect.key, slot=SlotId(ws.slot), head=Commit(ws.head), tree=Tree(tree))


def collect(effect: CollectWork, ctx: Ctx) -> EffectAnswer:
    """Commit what was left, mend the branch, tell the difference."""
    ws = slots.lookup(ctx.tools.pool.root, effect.slot, ctx.tools.operator_env)
    found = collect_work(ctx.tools.repo, ws, ctx.run, effect.label, effect.start, effect.message, ctx.at)
    return WorkCollected(
        key=effect.key, change=change(ctx, found), start_tree=Tree(found.start_tree), rescued=found.rescued
    )


def change(ctx: Ctx, found: Collected) -> Change:
    """A collection as the core keeps it: the patch goes by digest."""
    patch = ctx.tools.blobs.put(found.patch) if found.patch else None
    return Change(
        Commit(found.head), Tree(found.tree), found.commits, found.files, found.insertions, found.deletions, patch
    )


def sync(effect: SyncBase, ctx: Ctx) -> EffectAnswer:
    """Fetch the tip and put the work on it."""
    ws = place(ctx, effect.slot)
    found = syncing.sync(ctx.tools.repo, ws, ctx.run, effect.base, effect.head, target_of(ctx), ctx.at)
    return _synced(effect, ctx, found)


def continue_rebase(effect: ContinueRebase, ctx: Ctx) -> EffectAnswer:
    """Finish the rebase that a fixer worked on."""
    ws = place(ctx, effect.slot)
    return _synced(effect, ctx, syncing.resume_rebase(ctx.tools.repo, ws, ctx.run, effect.tip, effect.head, ctx.at))


def undo_rebase(effect: UndoRebase, ctx: Ctx) -> EffectAnswer:
    """The branch is back where it was; what the fixer did is in a rescue ref."""
    ws = slots.lookup(ctx.tools.pool.root, effect.slot, ctx.tools.operator_env)
    return _synced(effect, ctx, syncing.undo_rebase(ctx.tools.repo, ws, ctx.run, effect.head))


def _synced(effect: SyncBase | ContinueRebase | UndoRebase, ctx: Ctx, found: Synced) -> BaseSynced:
    tip_tree = git(ctx.tools.repo, "rev-parse", f"{found.tip}^{{tree}}") if found.tip != ctx.state().base else ""
    return BaseSynced(
        key=effect.key,
        state=found.state,
        tip=Commit(found.tip),
        tip_tree=Tree(tip_tree),
        head=Commit(found.head),
        tree=Tree(found.tree),
        paths=found.paths,
        note=line(found.note),
    )


def reset(effect: ResetWorkspace, ctx: Ctx) -> EffectAnswer:
    """Set a slot back, after a rescue; then each repair on top, where it fits."""
    ws = slots.lookup(ctx.tools.pool.root, effect.slot, ctx.tools.operator_env)
    again, saved = workspace.reset(ctx.tools.pool, ws, effect.start)
    skipped = tuple(repair for repair in effect.repairs if not _mended(again, repair, ctx.at))
    head, tree = head_of(again)
    if head != effect.start:
        snapshot.publish(ctx.tools.repo, again, ctx.run, effect.label, head)
    rescued = saved.ref if saved else ""
    return WorkspaceReset(key=effect.key, head=Commit(head), tree=Tree(tree), rescued=rescued, skipped=skipped)


def _mended(ws: Workspace, repair: Commit, at: float) -> bool:
    """Whether a repair is on the branch now; one that conflicts leaves no trace."""
    picked = run(ws, "cherry-pick", "--allow-empty", "--keep-redundant-commits", repair, ok=(0, 1, 128), env=dated(at))
    if picked.code:
        run(ws, "cherry-pick", "--abort", ok=(0, 128))
    return picked.code == 0


def rescue(effect: RescueWork, ctx: Ctx) -> EffectAnswer:
    """Make what is unsaved reachable."""
    ws = place(ctx, effect.slot)
    saved = snapshot.rescue(ctx.tools.repo, ws, ctx.run)
    return WorkRescued(key=effect.key, ref=saved.ref if saved else "")


def drop(effect: DropWorkspaces, ctx: Ctx) -> EffectAnswer:
    """Give every slot of the run back to the pool."""
    kept: list[str] = []
    for ws in workspace.leased(ctx.tools.pool, ctx.run):
        saved = workspace.release(ctx.tools.pool, ws)
        if saved and saved.ref:
            kept.append(f"{saved.ref}: {saved.files} unsaved files")
        kept += [f"too large to rescue: {path}" for path in (saved.large if saved else ())]
    landed = ctx.state().landing
    kept += landing.drop_run(ctx.tools.repo, ctx.run, landed.commit if landed else "")
    return WorkspacesDropped(key=effect.key, kept=tuple(kept))

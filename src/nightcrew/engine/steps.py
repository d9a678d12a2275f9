"""Git steps on a run's workspaces: lease, collect, rebase, reset, rescue, give back. Each answers the same when it is made again."""

from typing import assert_never

from nightcrew.core import effects as fx, events as ev
from nightcrew.core.ids import Commit, SlotId, Tree
from nightcrew.core.state import line
from nightcrew.core.trouble import NODE as DEV_FIX
from nightcrew.core.work import Change
from nightcrew.engine.tools import Ctx
from nightcrew.errors import UserError
from nightcrew.git import collect as work, landing, snapshot, workspace
from nightcrew.git.collect import commit_tree, head_of, put_branch, tree_of
from nightcrew.git.repo import Target
from nightcrew.git.sealed import dated, git, run
from nightcrew.git.slots import Workspace, verify
from nightcrew.git.workspace import Pool


def target_of(ctx: Ctx) -> Target:
    """The branch the run lands on."""
    told = ctx.state().started
    return Target(told.target, told.remote or None, ctx.state().settings.land.mode)


def prepare(effect: fx.PrepareWorkspace, ctx: Ctx) -> ev.WorkspaceReady:
    """Lease the seat's slot and set it to its start; copy the local files that the settings name."""
    verify = ctx.state().settings.verify
    ws = workspace.lease(ctx.tools.pool, ctx.run, effect.seat, effect.start, effect.branch or None, verify.keep)
    if verify.copy:
        workspace.copy_files(ctx.tools.pool, ws, verify.copy)
    tree = ws.tree if ws.head == effect.start else git(ws, "rev-parse", f"{effect.start}^{{tree}}")
    return ev.WorkspaceReady(key=effect.key, slot=SlotId(ws.slot), head=Commit(ws.head), tree=Tree(tree))


def collect(effect: fx.CollectWork, ctx: Ctx) -> ev.WorkCollected:
    """Commit what was left, mend the branch, tell the difference; the patch goes by digest."""
    ws = ctx.workspace(effect.slot)
    found = work.collect(ctx.tools.repo, ws, ctx.run, effect.label, effect.start, effect.message, ctx.at)
    if effect.node == DEV_FIX and _made_one(effect, ctx, ws, found.head):
        found = work.collect(ctx.tools.repo, ws, ctx.run, effect.label, effect.start, effect.message, ctx.at)
    patch = ctx.tools.blobs.put(found.patch) if found.patch else None
    size = found.commits, found.files, found.insertions, found.deletions
    change = Change(Commit(found.head), Tree(found.tree), *size, patch)
    return ev.WorkCollected(key=effect.key, change=change, start_tree=Tree(found.start_tree), rescued=found.rescued)


def _made_one(effect: fx.CollectWork, ctx: Ctx, ws: Workspace, head: str) -> bool:
    """Whether a repair of several commits had to be made one, which can be put on top of another start (rulings 27)."""
    candidate, space = ctx.state().candidates.get(effect.label), ctx.state().workspaces.get(effect.seat)
    before = candidate.change.head if candidate else space.start if space else effect.start
    if head == before or git(ws, "rev-list", "--parents", "-1", head).split()[1:] == [before]:
        return False
    _as_one(ws, head, before, effect.message, ctx.at)
    return True


def _as_one(ws: Workspace, head: str, parent: str, message: str, at: float) -> str:
    put_branch(ws, verify(ws), one := commit_tree(ws, tree_of(ws, head), parent, message, at))
    return one


def sync(effect: fx.SyncBase | fx.ContinueRebase | fx.UndoRebase, ctx: Ctx) -> ev.BaseSynced:
    """Fetch the tip and put the work on it; or finish the rebase that a fixer worked on; or give it up, what he did in a rescue ref."""
    repo = ctx.tools.repo
    match effect:
        case fx.SyncBase():
            try:
                found = work.sync(repo, ctx.verified(effect.slot), ctx.run, effect.base, effect.head, target_of(ctx), ctx.at)
            except UserError as gone:  # the target is not there any more
                found = work.Synced("gone", effect.base, effect.head, "", note=gone.message)
        case fx.ContinueRebase():
            found = work.resume_rebase(repo, ctx.verified(effect.slot), ctx.run, effect.tip, effect.head, ctx.at)
        case fx.UndoRebase():
            found = work.undo_rebase(repo, ctx.workspace(effect.slot), ctx.run, effect.head)
        case _:
            assert_never(effect)
    tip_tree = git(repo, "rev-parse", f"{found.tip}^{{tree}}") if found.tip != ctx.state().base else ""
    return ev.BaseSynced(key=effect.key, tip_tree=Tree(tip_tree), **found._replace(note=line(found.note))._asdict())


def reset(effect: fx.ResetWorkspace, ctx: Ctx) -> ev.WorkspaceReset:
    """Set a slot back, after a rescue; then each repair on top, where it fits."""
    ws = ctx.workspace(effect.slot)
    again, saved = workspace.reset(ctx.tools.pool, ws, effect.start)
    skipped = tuple(repair for repair in effect.repairs if not _mended(again, repair, ctx.at))
    head, tree = head_of(again)
    if effect.as_one and head != effect.start:
        head = _as_one(again, head, effect.start, "dev-fixes so far", ctx.at)
    if head != effect.start:
        snapshot.publish(ctx.tools.repo, again, ctx.run, effect.label, head)
    return ev.WorkspaceReset(key=effect.key, head=Commit(head), tree=Tree(tree), rescued=saved.ref, skipped=skipped)


def _mended(ws: Workspace, repair: Commit, at: float) -> bool:
    """Whether a repair is on the branch now; one that conflicts leaves no trace."""
    picked = run(ws, "cherry-pick", "--allow-empty", "--keep-redundant-commits", repair, ok=(0, 1, 128), env=dated(at))
    if picked.code:
        run(ws, "cherry-pick", "--abort", ok=(0, 128))
    return picked.code == 0


def rescue(effect: fx.RescueWork, ctx: Ctx) -> ev.WorkRescued:
    """Make what is unsaved reachable."""
    return ev.WorkRescued(key=effect.key, ref=snapshot.rescue(ctx.tools.repo, ctx.verified(effect.slot), ctx.run).ref)


def drop(effect: fx.DropWorkspaces, ctx: Ctx) -> ev.WorkspacesDropped:
    """Give every slot of the run back to the pool."""
    landed = ctx.state().landing
    return ev.WorkspacesDropped(key=effect.key, kept=give_back(ctx.tools.pool, ctx.run, landed.commit if landed else "")[1])


def give_back(pool: Pool, run_id: str, proven: str) -> tuple[list[str], tuple[str, ...]]:
    """A run's slots go back to its pool and its refs away; which slots, and what stays with the reason. `proven` is the commit that landed."""
    slots, kept = [], []
    for ws in workspace.leased(pool, run_id):
        saved = workspace.release(pool, ws)
        slots.append(ws.slot)
        kept += [f"{saved.ref}: {saved.files} unsaved files"] if saved.ref else []
        kept += [f"too large to rescue: {path}" for path in saved.large]
    return slots, (*kept, *landing.drop_run(pool.repo, run_id, proven))

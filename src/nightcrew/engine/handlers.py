"""What carries each effect out, and what stops it: a handler probes, then runs (law 4); a step of git made again answers the same."""

import errno
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, assert_never

from nightcrew.core import effects as fx, events as ev
from nightcrew.core.ids import Commit, SlotId, Tree
from nightcrew.core.phases import landing as landing_phase
from nightcrew.core.state import RunState, line
from nightcrew.core.trouble import NODE as DEV_FIX
from nightcrew.core.work import Change
from nightcrew.engine import commands, committing, jobs, turns, waits
from nightcrew.engine.tools import Ctx, off
from nightcrew.errors import UserError
from nightcrew.git import collect as work, landing, neutral, snapshot, workspace
from nightcrew.git.collect import commit_tree, head_of, put_branch, tree_of
from nightcrew.git.sealed import GitError, dated, git, run as run_git
from nightcrew.git.slots import Workspace, WorkspaceLost, verify
from nightcrew.git.workspace import Pool

Names = tuple[str, ...]


def prepare(effect: fx.PrepareWorkspace, ctx: Ctx) -> ev.WorkspaceReady:
    """Lease the seat's slot and set it to its start; copy the local files that the settings name."""
    verify = ctx.state().settings.verify
    ws = workspace.lease(ctx.tools.pool, ctx.run, effect.seat, effect.start, effect.branch, verify.keep, effect.sees)
    if verify.copy:
        workspace.copy_files(ctx.tools.pool, ws, verify.copy)
    tree = ws.tree if ws.head == effect.start else git(ws, "rev-parse", f"{effect.start}^{{tree}}")
    return ev.WorkspaceReady(key=effect.key, slot=SlotId(ws.slot), head=Commit(ws.head), tree=Tree(tree))


def collect(effect: fx.CollectWork, ctx: Ctx) -> ev.WorkCollected:
    """Commit what was left, mend the branch, tell the difference; the patch goes by digest."""
    ws = ctx.workspace(effect.slot)
    look = partial(work.collect, ctx.tools.repo, ws, ctx.run, effect.label, effect.start, effect.message, ctx.at)
    found = look()
    if effect.node == DEV_FIX:  # a repair is one commit, which can be put on top of another start (rulings 27)
        candidate, space = ctx.state().candidates.get(effect.label), ctx.state().workspaces.get(effect.seat)
        before = candidate.change.head if candidate else space.start if space else effect.start
        if found.head != before and git(ws, "rev-list", "--parents", "-1", found.head).split()[1:] != [before]:
            _as_one(ws, found.head, before, effect.message, ctx.at)
            found = look()
    made = ev.WorkCollected(key=effect.key, change=_change(found, ctx), start_tree=Tree(found.start_tree), rescued=found.rescued)
    left = f"left out of the work, as git cannot hold it or it is too large: {', '.join(found.left)}"
    return made.but(notes=(line(left, 600),)) if found.left else made


def _change(found: work.Collected, ctx: Ctx) -> Change:
    patch = ctx.tools.blobs.put(found.patch) if found.patch else None
    return Change(Commit(found.head), Tree(found.tree), found.commits, found.files, found.insertions, found.deletions, patch)


def _as_one(ws: Workspace, head: str, parent: str, message: str, at: float) -> str:
    put_branch(ws, verify(ws), one := commit_tree(ws, tree_of(ws, head), parent, message, at))
    return one


def sync(effect: fx.SyncBase | fx.ContinueRebase | fx.UndoRebase, ctx: Ctx) -> ev.BaseSynced:
    """Fetch the tip and put the work on it; or finish the rebase that a fixer worked on; or give it up, what he did in a rescue ref."""
    repo = ctx.tools.repo
    match effect:
        case fx.SyncBase():
            try:
                found = work.sync(repo, ctx.verified(effect.slot), ctx.run, effect.base, effect.head, ctx.target, ctx.at)
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
    skipped = []

    def repaired(ws: Workspace) -> None:
        for repair in effect.repairs:
            words = ("cherry-pick", "--allow-empty", "--keep-redundant-commits", repair)
            if run_git(ws, *words, ok=(0, 1, 128), env=dated(ctx.at)).code:  # one that conflicts leaves no trace
                run_git(ws, "cherry-pick", "--abort", ok=(0, 128))
                skipped.append(repair)
        head = head_of(ws)[0]
        if effect.as_one and head != effect.start:
            head = _as_one(ws, head, effect.start, "dev-fixes so far", ctx.at)
        if head != effect.start:
            snapshot.publish(ctx.tools.repo, ws, ctx.run, effect.label, head)

    ws, saved = workspace.reset(ctx.tools.pool, ctx.workspace(effect.slot), effect.start, repaired)
    head, tree = head_of(ws)
    return ev.WorkspaceReset(key=effect.key, head=Commit(head), tree=Tree(tree), rescued=saved.ref, skipped=tuple(skipped))


def neutralise(effect: fx.NeutraliseWork, ctx: Ctx) -> ev.WorkNeutralised:
    """Each candidate as one commit that says nothing of its author, its patch, and the names that it gives away."""
    repo, named, heads = ctx.tools.repo, turns.names_of(ctx), effect.heads.items()
    made = {k: neutral.squash(repo, ctx.run, k, effect.base, head, named, redact=effect.redact) for k, head in heads}
    changes, leaks = {k: _change(found, ctx) for k, (found, _) in made.items()}, {k: found for k, (_, found) in made.items()}
    return ev.WorkNeutralised(key=effect.key, neutral=changes, leaks=leaks)


def drop(effect: fx.DropWorkspaces, ctx: Ctx) -> ev.WorkspacesDropped:
    """Give slots of the run back to the pool."""
    landed = ctx.state().landing
    _, kept = give_back(ctx.tools.pool, ctx.run, landed.commit if landed else "", effect.seats, losers(ctx.state()))
    return ev.WorkspacesDropped(key=effect.key, kept=kept)


def losers(state: RunState) -> Names:
    """The labels of those whose work lost to another's."""
    return tuple(c.label for c in state.candidates.values() if c.changed and c.label != state.winner)


def give_back(pool: Pool, run_id: str, proven: str, seats: Names = (), lost: Names = ()) -> tuple[list[str], Names]:
    """A run's slots (of some seats, or all and its refs too) go back to the pool: which, and what stays and why. `proven` landed, `lost` did not."""
    slots, kept = [], []
    for ws in workspace.leased(pool, run_id, seats):
        saved = workspace.release(pool, ws)
        slots.append(ws.slot)
        kept += [f"{saved.ref}: {saved.files} unsaved files"] if saved.ref else []
        kept += [f"too large to rescue: {path}" for path in saved.large]
    kept += [] if seats else [f"{ref}: its work is nowhere else" for ref in landing.drop_run(pool.repo, run_id, proven, lost)]
    return slots, tuple(kept)


STEPS: dict[type[fx.Request], Callable[[Any, Ctx], ev.EffectAnswer]] = {
    fx.PrepareWorkspace: prepare,
    fx.CollectWork: collect,
    **dict.fromkeys((fx.SyncBase, fx.ContinueRebase, fx.UndoRebase), sync),
    fx.ResetWorkspace: reset,
    fx.RescueWork: lambda effect, ctx: ev.WorkRescued(
        key=effect.key, ref=snapshot.rescue(ctx.tools.repo, ctx.workspace(effect.slot), ctx.run).ref
    ),
    fx.DropWorkspaces: drop,
    fx.NeutraliseWork: neutralise,
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
    syncs = isinstance(effect, fx.SyncBase) and landing_phase.queues(ctx.state())
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
        slot = getattr(effect, "slot", "")
        broken = slot and isinstance(error, GitError | PermissionError)
        if broken and await off(snapshot.mended, ctx.tools.repo, ctx.workspace(slot)):
            return await run(effect, ctx)
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

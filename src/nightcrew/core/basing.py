"""Putting the work onto the target's tip: sync, conflict rounds by the fixer, undo. Used by Review and FinalValidation."""

from nightcrew.core import effects, events, fixer, rooms
from nightcrew.core.chain import FIX_SEAT
from nightcrew.core.ids import Tree
from nightcrew.core.state import Basing, RunState, Want, asking, on
from nightcrew.core.trouble import fails, leave
from nightcrew.core.work import Failure, Outcome, PipelinePhase

NODE = "rebase"


def at(state: RunState) -> Basing:
    """How far the present phase is with it."""
    return (state.reviewing if state.phase is PipelinePhase.Review else state.validating).basing


def _at(state: RunState, **changes: object) -> RunState:
    return state.within("reviewing" if state.phase is PipelinePhase.Review else "validating", basing=at(state).but(**changes))


def wants(state: RunState) -> tuple[Want, ...]:
    """What is due to put the winner onto the tip."""
    basing, winner = at(state), state.chosen
    base, head = state.base, winner.change.head
    match basing.step:
        case "fix":
            paths = "\n".join(f"- {path}" for path in basing.paths)
            now = (
                "The target branch moved while the work was done. A rebase onto it stopped with conflicts in:\n\n"
                f"{paths}\n\nResolve them in the files: keep what the task needs and what the target brought, and leave no conflict "
                "marker. Do not abort, continue or skip the rebase; that is done for you."
            )
            return fixer.ask(state, NODE, now, then=_mended)
        case "sync":
            due: effects.Effect = effects.SyncBase(node="sync", base=base, head=head)
        case "continue":
            due = effects.ContinueRebase(node=NODE, base=base, head=head, tip=basing.tip, paths=basing.paths)
        case "undo":
            due = effects.UndoRebase(node=NODE, head=head)
        case _:
            return ()
    return (Want(rooms.work(state, due, winner.label), on(events.BaseSynced, _synced)),)


def again(state: RunState) -> RunState:
    """From the sync on, with one more conflict round if they ran out (recovery level 1)."""
    rounds = min(at(state).rounds, max(0, state.settings.pipeline.conflict_rounds - 1))
    return _at(state, step=restarted(at(state)).step, rounds=rounds)


def restarted(basing: Basing) -> Basing:
    """From the sync on, since a rebase in progress went with its workspace; one that is done stays done."""
    return basing if basing.step == "done" else basing.but(step="sync")


def _mended(state: RunState, said: Outcome | Failure) -> RunState:
    return _at(state, step="undo", reason=said.reason) if isinstance(said, Failure) else _at(state, step="continue")


def _synced(state: RunState, event: events.BaseSynced) -> RunState:
    rounds = at(state).rounds
    match event.state:
        case "landed":
            return leave(state, PipelinePhase.Finalizing, already="already landed", base=event.tip)
        case "conflict":
            step = "fix" if rounds < state.settings.pipeline.conflict_rounds else "undo"
            reason = event.note or "conflicts remain"
            return _at(state, step=step, tip=event.tip, paths=event.paths, rounds=rounds + 1, reason=reason)
        case "gone":
            text = f"{event.note}. Put it there again (git branch {state.started.target} {state.base[:10]}) and go on?"
            return asking(state, "target", text, holds=True, how="go | stop")
        case "failed":
            return _at(state, step="undo", tip=event.tip, reason=event.note)
        case "undone":
            paths = ", ".join(at(state).paths[:5])
            reason = f"the rebase onto the moved target stays in conflict ({paths}): {at(state).reason}"
            return fails(_at(state, step="sync"), "conflict", reason, NODE, FIX_SEAT, sign=f"rebase conflict {paths}")
        case _:
            change = state.chosen.change.but(head=event.head, tree=event.tree)
            if event.tip != state.base:
                start = {"start": event.tip, "start_tree": event.tip_tree}
                state = rooms.with_candidate(state, state.chosen, **start).but(base=event.tip, gated=Tree(""))
            return _at(rooms.with_candidate(state, state.chosen, change=change), step="done", tip=event.tip)

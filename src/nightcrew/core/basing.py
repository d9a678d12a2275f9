"""Putting the work onto the target's tip: sync, conflict rounds by the fixer, undo. Used by Review and FinalValidation."""

from nightcrew.core import chain, effects, events, fixer, rooms
from nightcrew.core.ids import Tree
from nightcrew.core.state import Basing, RunState, branch_of, keyed
from nightcrew.core.trouble import fails, leave
from nightcrew.core.work import Failure, PipelinePhase

NODE = "rebase"


def at(state: RunState) -> Basing:
    """How far the present phase is with it."""
    return (state.reviewing if state.phase is PipelinePhase.Review else state.validating).basing


def _at(state: RunState, **changes: object) -> RunState:
    name = "reviewing" if state.phase is PipelinePhase.Review else "validating"
    basing = at(state).but(**changes)
    return state.but(**{name: getattr(state, name).but(basing=basing)})


def wants(state: RunState) -> tuple[effects.Effect, ...]:
    """What is due to put the winner onto the tip."""
    basing, winner = at(state), state.chosen
    missing = rooms.author(state, winner.label)
    if missing and basing.step != "done":
        return missing
    seat, slot, label, base, head = winner.seat, winner.slot, winner.label, state.base, winner.change.head
    branch, tip, paths = branch_of(state, label), basing.tip, basing.paths
    match basing.step:
        case "sync":
            due: effects.Effect = effects.SyncBase(
                node="sync", seat=seat, slot=slot, label=label, branch=branch, base=base, head=head
            )
        case "fix":
            return chain.ask(state, _wish(state))
        case "continue":
            due = effects.ContinueRebase(
                node=NODE, seat=seat, slot=slot, label=label, branch=branch, base=base, head=head, tip=tip, paths=paths,
            )  # fmt: skip
        case "undo":
            due = effects.UndoRebase(node=NODE, seat=seat, slot=slot, label=label, branch=branch, head=head)
        case _:
            return ()
    return (keyed(state, due),)


def again(state: RunState) -> RunState:
    """From the sync on, with one more conflict round if they ran out (recovery level 1)."""
    rounds = min(at(state).rounds, max(0, state.settings.pipeline.conflict_rounds - 1))
    return _at(state, step=restarted(at(state)).step, rounds=rounds)


def restarted(basing: Basing) -> Basing:
    """From the sync on, since a rebase in progress went with its workspace; one that is done stays done."""
    return basing if basing.step == "done" else basing.but(step="sync")


def _wish(state: RunState) -> chain.Wish:
    paths = "\n".join(f"- {path}" for path in at(state).paths)
    now = (
        "The target branch moved while the work was done. A rebase onto it stopped with conflicts in:\n\n"
        f"{paths}\n\nResolve them in the files: keep what the task needs and what the target brought, and leave no conflict "
        "marker. Do not abort, continue or skip the rebase; that is done for you."
    )
    return fixer.wish(state, NODE, now)


def answered(state: RunState, effect: effects.Effect, event: events.EffectAnswer) -> RunState:
    """What an answer means for the way onto the tip."""
    if isinstance(event, events.BaseSynced):
        return _synced(state, event)
    if not isinstance(effect, effects.StartTurn | effects.Timer):
        return state
    state, verdict = chain.answered(state, _wish(state), effect, event)
    if isinstance(verdict, Failure):
        return _at(state, step="undo", reason=verdict.reason)
    return _at(state, step="continue") if verdict else state


def _synced(state: RunState, event: events.BaseSynced) -> RunState:
    rounds = at(state).rounds
    match event.state:
        case "landed":
            return leave(state, PipelinePhase.Finalizing, already="already landed", base=event.tip)
        case "conflict":
            step = "fix" if rounds < state.settings.pipeline.conflict_rounds else "undo"
            reason = event.note or "conflicts remain"
            return _at(state, step=step, tip=event.tip, paths=event.paths, rounds=rounds + 1, reason=reason)
        case "failed":
            return _at(state, step="undo", tip=event.tip, reason=event.note)
        case "undone":
            paths = ", ".join(at(state).paths[:5])
            reason, sign = (
                f"the rebase onto the moved target stays in conflict ({paths}): {at(state).reason}",
                f"rebase conflict {paths}",
            )
            return fails(_at(state, step="sync"), "conflict", reason, NODE, fixer.FIX_SEAT, sign=sign)
        case _:
            change = state.chosen.change.but(head=event.head, tree=event.tree)
            if event.tip != state.base:
                start = {"start": event.tip, "start_tree": event.tip_tree}
                state = rooms.with_candidate(state, state.chosen, **start).but(base=event.tip, gated=Tree(""))
            return _at(rooms.with_candidate(state, state.chosen, change=change), step="done", tip=event.tip)

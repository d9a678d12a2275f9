"""Putting the work onto the target's tip: sync, conflict rounds by the fixer, undo. Used by three phases."""

from typing import NamedTuple

from msgspec import structs

from nightcrew.core import brief as b
from nightcrew.core import chain, fixer, rooms
from nightcrew.core.effects import ContinueRebase, Effect, StartTurn, SyncBase, Timer, UndoRebase
from nightcrew.core.events import BaseSynced, EffectAnswer
from nightcrew.core.ids import Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Basing, RunState, branch_of, key_for
from nightcrew.core.work import Brief, Candidate, Failure

NODE = "rebase"
SYNC = "sync"


class Based(NamedTuple):
    """How a step left things: `failure` when it cannot go on, `landed` when the change is on the target already."""

    state: RunState
    basing: Basing
    failure: Failure | None = None
    landed: bool = False


def wants(state: RunState, basing: Basing) -> tuple[Effect, ...]:
    """What is due to put the winner onto the tip."""
    winner = state.winning
    if winner is None:
        return ()
    missing = rooms.author(state, winner.label)
    if missing and basing.step != "done":
        return missing
    slot, branch, head = winner.slot, branch_of(state, winner.label), winner.change.head
    seat, label = winner.seat, winner.label
    match basing.step:
        case "sync":
            key = key_for(state, SyncBase, SYNC, seat)
            return (
                SyncBase(
                    key=key, node=SYNC, seat=seat, slot=slot, label=label, branch=branch, base=state.base, head=head
                ),
            )
        case "fix":
            return chain.ask(state, wish(state, winner, basing))
        case "continue":
            return (
                ContinueRebase(
                    key=key_for(state, ContinueRebase, NODE, seat), node=NODE, seat=seat, slot=slot, label=label,
                    branch=branch, base=state.base, head=head, tip=basing.tip, paths=basing.paths,
                ),
            )  # fmt: skip
        case "undo":
            key = key_for(state, UndoRebase, NODE, seat)
            return (UndoRebase(key=key, node=NODE, seat=seat, slot=slot, label=label, branch=branch, head=head),)
        case _:
            return ()


def again(state: RunState, basing: Basing) -> Basing:
    """From the sync on, with one more conflict round if they ran out (recovery level 1)."""
    limit = state.settings.pipeline.conflict_rounds
    return structs.replace(restarted(basing), rounds=min(basing.rounds, max(0, limit - 1)))


def restarted(basing: Basing) -> Basing:
    """From the sync on, since a rebase in progress went with its workspace; one that is done stays done."""
    return basing if basing.step == "done" else structs.replace(basing, step="sync")


def wish(state: RunState, winner: Candidate, basing: Basing) -> chain.Wish:
    """The conflict round: one seat `fix` for all four fixer nodes."""
    entries, before = fixer.attempts(state, winner)
    return chain.Wish(
        node=NODE,
        seat=fixer.FIX_SEAT,
        role=AgentRole.Fixer,
        entries=entries,
        before=before,
        slot=winner.slot,
        answers=Answers.Edit,
        reads="",
        label=winner.label,
        brief=lambda memory: _brief(state, basing, memory=memory),
    )


def _brief(state: RunState, basing: Basing, *, memory: bool) -> Brief:
    paths = "\n".join(f"- {path}" for path in basing.paths)
    now = (
        "The target branch moved while the work was done. A rebase onto it stopped with conflicts in:\n\n"
        f"{paths}\n\nResolve them in the files: keep what the task needs and what the target brought, and leave no conflict "
        "marker. Do not abort, continue or skip the rebase; that is done for you."
    )
    if memory:
        return b.brief(now)
    return b.brief(b.HOUSE, *b.task(state), *b.plan(state), now)


def answered(state: RunState, basing: Basing, effect: Effect, event: EffectAnswer) -> Based:
    """What an answer means for the way onto the tip."""
    winner = state.winning
    if winner is None:
        return Based(state, basing)
    if isinstance(event, BaseSynced):
        return _synced(state, winner, basing, event)
    if isinstance(effect, StartTurn | Timer):
        state, verdict = chain.answered(state, wish(state, winner, basing), effect, event)
        match verdict:
            case chain.Good():
                return Based(state, structs.replace(basing, step="continue"))
            case chain.Bad(failure):
                return Based(state, structs.replace(basing, step="undo", reason=failure.reason))
            case None:
                pass
    return Based(state, basing)


def _synced(state: RunState, winner: Candidate, basing: Basing, event: BaseSynced) -> Based:
    match event.state:
        case "landed":
            return Based(structs.replace(state, already="already landed", base=event.tip), basing, landed=True)
        case "conflict":
            rounds = basing.rounds
            step = "fix" if rounds < state.settings.pipeline.conflict_rounds else "undo"
            reason = event.note or "conflicts remain"
            after = structs.replace(
                basing, step=step, tip=event.tip, paths=event.paths, rounds=rounds + 1, reason=reason
            )
            return Based(state, after)
        case "failed":
            return Based(state, structs.replace(basing, step="undo", tip=event.tip, reason=event.note))
        case "undone":
            return Based(state, structs.replace(basing, step="sync"), _failure(state, basing))
        case _:
            change = structs.replace(winner.change, head=event.head, tree=event.tree)
            moved = structs.replace(winner, change=change)
            if event.tip != state.base:
                moved = structs.replace(moved, start=event.tip, start_tree=event.tip_tree)
                state = structs.replace(state, gated=Tree(""))
            state = rooms.with_candidate(structs.replace(state, base=event.tip), moved)
            return Based(state, structs.replace(basing, step="done", tip=event.tip))


def _failure(state: RunState, basing: Basing) -> Failure:
    paths = ", ".join(basing.paths[:5])
    return Failure(
        phase=state.phase,
        role=str(AgentRole.Fixer),
        kind="conflict",
        reason=f"the rebase onto the moved target stays in conflict ({paths}): {basing.reason}",
        node=NODE,
        seat=fixer.FIX_SEAT,
        signature=f"rebase conflict {paths}",
    )

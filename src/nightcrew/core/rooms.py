"""Workspaces as the core sees them: which slot a seat needs, and whether it is ready."""

from nightcrew.core import effects, events
from nightcrew.core.ids import AgentId, Commit, Label, SeatKey, SlotId, Tree
from nightcrew.core.state import RunState, Workspace, branch_of, iteration_base, keyed, without
from nightcrew.core.work import Candidate, Change, Purpose

NODE = "workspace"


def impl_seat(label: Label) -> SeatKey:
    """The seat of the implementer with that label."""
    return SeatKey(f"impl-{label}")


def author(state: RunState, label: Label) -> tuple[effects.Effect, ...]:
    """What a candidate's workspace still needs before it can be worked in; empty when it is ready."""
    seat, branch, candidate = impl_seat(label), branch_of(state, label), state.candidates.get(label)
    known, back = state.workspaces.get(seat), state.rewinds.get(seat)
    if known is None:
        start = candidate.change.head if candidate else iteration_base(state)
        return (keyed(state, effects.PrepareWorkspace(node=NODE, seat=seat, start=start, label=label, branch=branch)),)
    if back is not None:
        start, repairs = back
        reset = effects.ResetWorkspace(
            node=NODE, seat=seat, slot=known.slot, label=label, branch=branch, start=start, repairs=repairs
        )
        return (keyed(state, reset),)
    setup = state.settings.verify.setup
    return (commands(state, Purpose.Setup, seat, setup),) if setup and not known.set_up else ()


def rewound(state: RunState, label: Label, start: Commit) -> RunState:
    """The run with that workspace to be set back, and the trouble's repairs kept (decision 0022)."""
    repairs = tuple(r.commit for r in state.trouble.repairs if not r.left_out) if state.trouble else ()
    if impl_seat(label) not in state.workspaces and not repairs:
        return state
    return state.but(rewinds={**state.rewinds, impl_seat(label): (start, repairs)})


def was_reset(state: RunState, effect: effects.ResetWorkspace, event: events.WorkspaceReset) -> RunState:
    """The run after a workspace was set back; a reset that is no longer the one that is due means nothing."""
    due, space = state.rewinds.get(effect.seat), state.workspaces.get(effect.seat)
    if due is None or space is None or due != (effect.start, effect.repairs):
        return state
    state = with_space(state, effect.seat, space, start=event.head, tree=event.tree)
    state = state.but(rewinds=without(state.rewinds, effect.seat))
    if candidate := state.candidates.get(effect.label):
        change = candidate.change.but(head=event.head, tree=event.tree)
        state = with_candidate(state, candidate, change=change)
    if state.trouble is None or not event.skipped:
        return state
    repairs = tuple(r.but(left_out=r.left_out or r.commit in event.skipped) for r in state.trouble.repairs)
    return state.but(trouble=state.trouble.but(repairs=repairs))


def candidate(state: RunState, label: Label, agent: AgentId) -> Candidate | None:
    """The candidate with that label, else its workspace seen as the one it may become: no change yet, `agent` first asked."""
    seat, known = impl_seat(label), state.candidates.get(label)
    space = state.workspaces.get(seat)
    if known or space is None:
        return known
    start, tree = space.start, space.tree
    change = Change(start, tree)
    return Candidate(label=label, seat=seat, agent=agent, slot=space.slot, start=start, start_tree=tree, change=change)


def reader(state: RunState, seat: SeatKey, head: Commit) -> tuple[effects.Effect, ...]:
    """What a read-only seat's workspace needs to stand at `head`; empty when it does."""
    stands = seat in state.workspaces and state.workspaces[seat].start == head
    return () if stands else (keyed(state, effects.PrepareWorkspace(node=NODE, seat=seat, start=head)),)


def slot(state: RunState, seat: SeatKey) -> SlotId:
    """The slot a seat holds; empty while it holds none, which nothing that is wanted may show."""
    return state.workspaces[seat].slot if seat in state.workspaces else SlotId("")


def commands(state: RunState, purpose: Purpose, seat: SeatKey, lines: tuple[str, ...], *, cached: bool = False) -> effects.Effect:
    """The effect that runs those shell lines in the seat's workspace; `cached` = a gate that a known green tree may answer."""
    candidate = next((c for c in state.candidates.values() if c.seat == seat), None)
    run = effects.RunCommands(
        node=str(purpose), seat=seat, slot=slot(state, seat), purpose=purpose, commands=lines,
        timeout_s=state.settings.verify.timeout_s, tree=candidate.change.tree if cached and candidate else Tree(""),
        keep_going=purpose in {Purpose.Preflight, Purpose.PreGate},
    )  # fmt: skip
    return keyed(state, run)


def collect(state: RunState, node: str, label: Label, message: str) -> effects.Effect:
    """The effect that commits what stands in a candidate's workspace."""
    seat, candidate, space = impl_seat(label), state.candidates.get(label), state.workspaces.get(impl_seat(label))
    start = candidate.start if candidate else space.start if space else state.base
    work = effects.CollectWork(
        node=node, seat=seat, slot=slot(state, seat), label=label, branch=branch_of(state, label), start=start, message=message,
    )  # fmt: skip
    return keyed(state, work)


def ready(state: RunState, effect: effects.PrepareWorkspace, event: events.WorkspaceReady) -> RunState:
    """The run after a slot was leased and set."""
    state = with_space(state, effect.seat, Workspace(event.slot, effect.start, event.tree))
    candidate = state.candidates.get(effect.label)
    return with_candidate(state, candidate, slot=event.slot) if candidate else state


def with_space(state: RunState, seat: SeatKey, space: Workspace, **changes: object) -> RunState:
    """The run with that workspace as it is now."""
    return state.but(workspaces={**state.workspaces, seat: space.but(**changes)})


def at_its_slot(state: RunState, candidate: Candidate) -> Candidate:
    """A candidate remembered from before, in the workspace its seat has now."""
    return candidate.but(slot=slot(state, candidate.seat))


def collected(state: RunState, change: Change) -> tuple[RunState, bool]:
    """The run after work on the winner was collected, and whether it changed anything."""
    changed = change.tree != state.chosen.change.tree
    return with_candidate(state, state.chosen, change=change), changed


def with_candidate(state: RunState, candidate: Candidate, **changes: object) -> RunState:
    """The run with that candidate's newest account."""
    return state.but(candidates={**state.candidates, candidate.label: candidate.but(**changes)})

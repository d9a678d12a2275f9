"""Workspaces as the core sees them: which slot a seat needs, and whether it is ready."""

from collections.abc import Callable, Iterable

from nightcrew.core import effects, events
from nightcrew.core.ids import AgentId, Commit, Label, SeatKey, SlotId, Tree, fraction, impl_seat
from nightcrew.core.state import E, Means, RunState, Want, Workspace, began, branch_of, iteration_base, keyed, line, on, without
from nightcrew.core.work import Candidate, Change, Purpose

NODE = "workspace"
LETTERS = "ABCDEFGH"  # of the largest competition
BASE = Label("base")  # what is mended for several, in a workspace of its own


def labels(state: RunState) -> tuple[Label, ...]:
    """What the implementers' work is called, by the implementers' numbers: letters, shuffled by the run's seed."""
    letters = map(Label, LETTERS[: state.settings.pipeline.implementers])
    return tuple(sorted(letters, key=lambda label: fraction(f"{state.started.seed}/label/{label}")))


def all_rewound(state: RunState) -> RunState:
    """The run with every implementer's workspace to be set back to where the iteration starts."""
    for label in (*labels(state), *([BASE] if impl_seat(BASE) in state.workspaces else [])):
        state = rewound(state, label, iteration_base(state))
    return state


def author(state: RunState, label: Label) -> tuple[Want, ...]:
    """What a candidate's workspace still needs before it can be worked in; empty when it is ready."""
    seat, candidate = impl_seat(label), state.candidates.get(label)
    if seat not in state.workspaces:
        start = candidate.change.head if candidate else iteration_base(state)
        return (Want(work(state, effects.PrepareWorkspace(node=NODE, start=start), label)),)
    if seat in state.rewinds:
        start, repairs = state.rewinds[seat]
        as_one = state.trouble is not None and state.trouble.level >= 4
        return (Want(work(state, effects.ResetWorkspace(node=NODE, start=start, repairs=repairs, as_one=as_one), label)),)
    setup = state.settings.verify.setup
    return commands(state, Purpose.Setup, seat, setup) if setup and not state.workspaces[seat].set_up else ()


def work(state: RunState, effect: E, label: Label) -> E:
    """That effect on a candidate's work: in its workspace, on its branch."""
    seat = impl_seat(label)
    return keyed(state, effect.but(seat=seat, slot=state.slot(seat), label=label, branch=branch_of(state, label)))


def rewound(state: RunState, label: Label, start: Commit) -> RunState:
    """The run with that workspace to be set back, and the trouble's repairs kept (decision 0022)."""
    repairs = tuple(r.commit for r in state.trouble.repairs if not r.left_out) if state.trouble else ()
    if impl_seat(label) not in state.workspaces and not repairs:
        return state
    return state.but(rewinds={**state.rewinds, impl_seat(label): (start, repairs)})


def repaired(state: RunState, labels: Iterable[Label], repair: Commit) -> RunState:
    """The run with a repair of what is nobody's own to be put on top of the work of each of these (decision 0022)."""
    for label in labels:
        known, seat = candidate(state, label, AgentId("")), impl_seat(label)
        start, repairs = state.rewinds.get(seat, (known.change.head if known else iteration_base(state), ()))
        state = state.but(rewinds={**state.rewinds, seat: (start, (*repairs, repair))})
    return state


def was_reset(state: RunState, effect: effects.ResetWorkspace, event: events.WorkspaceReset) -> RunState:
    """The run after a workspace was set back; a reset that is no longer the one that is due means nothing."""
    due, space = state.rewinds.get(effect.seat), state.workspaces.get(effect.seat)
    if due is None or space is None or due != (effect.start, effect.repairs):
        return state
    # Of rivals that are all set back, one whose work a repair conflicts with is no reason to keep it from the others.
    first = state.winning is not None or not any(s.startswith("impl-") and s not in state.rewinds for s in state.workspaces)
    state = with_space(state, effect.seat, space, start=event.head, tree=event.tree)
    state = state.but(rewinds=without(state.rewinds, effect.seat))
    if candidate := state.candidates.get(effect.label):
        state = with_candidate(state, candidate, change=candidate.change.but(head=event.head, tree=event.tree))
    if state.trouble is None:
        return state
    repairs = tuple(
        r.but(left_out=(first or r.left_out) and r.commit in event.skipped) if r.commit in effect.repairs else r
        for r in state.trouble.repairs
    )
    if effect.as_one and first:  # those on top are one now; those that conflict this time are told of once more, then forgotten
        on_top = [r for r in repairs if r.commit in effect.repairs and not r.left_out]
        told = line("; ".join(r.summary for r in reversed(on_top)), 400)
        repairs = tuple(r for r in repairs if (r.commit in effect.repairs) == r.left_out)
        repairs += tuple(r.but(commit=event.head, summary=told) for r in on_top[:1])
    return state.within("trouble", repairs=repairs)


def candidate(state: RunState, label: Label, agent: AgentId) -> Candidate | None:
    """The candidate with that label, else its workspace seen as the one it may become: no change yet, `agent` first asked."""
    known, space = state.candidates.get(label), state.workspaces.get(impl_seat(label))
    space = space or (Workspace(SlotId(""), iteration_base(state), Tree("")) if label == BASE else None)
    if known or space is None:
        return known
    before = began(state)  # an iteration adds to the work of its winner
    start, tree = (before.start, before.start_tree) if before else (space.start, space.tree)
    return Candidate(label=label, agent=agent, start=start, start_tree=tree, change=Change(space.start, space.tree))


def reader(state: RunState, seat: SeatKey, head: Commit, sees: tuple[Commit, ...] = ()) -> tuple[Want, ...]:
    """What a read-only seat's workspace needs to stand at `head`; empty when it does."""
    stands = seat in state.workspaces and state.workspaces[seat].start == head
    return () if stands else (Want(keyed(state, effects.PrepareWorkspace(node=NODE, seat=seat, start=head, sees=sees))),)


def commands(
    state: RunState, purpose: Purpose, seat: SeatKey, lines: tuple[str, ...],
    then: Callable[[RunState, events.CommandsEnded], RunState] = lambda state, _event: state, *, cached: bool = False,
) -> tuple[Want, ...]:  # fmt: skip
    """Those shell lines to be run in the seat's workspace; `cached` = a gate that a known green tree may answer."""
    candidate = next((c for c in state.candidates.values() if c.seat == seat), None)
    run = effects.RunCommands(
        node=str(purpose), seat=seat, slot=state.slot(seat), purpose=purpose, commands=lines,
        timeout_s=state.settings.verify.timeout_s, tree=candidate.change.tree if cached and candidate else Tree(""),
        keep_going=purpose in {Purpose.Preflight, Purpose.PreGate},
    )  # fmt: skip
    return (Want(keyed(state, run), on(events.CommandsEnded, then)),)


def collect(state: RunState, node: str, label: Label, message: str, means: Means) -> tuple[Want, ...]:
    """What stands in a candidate's workspace to be committed."""
    known = candidate(state, label, AgentId(""))
    start = known.start if known else state.base
    return (Want(work(state, effects.CollectWork(node=node, start=start, message=message), label), means),)


def with_space(state: RunState, seat: SeatKey, space: Workspace, **changes: object) -> RunState:
    """The run with that workspace as it is now."""
    return state.but(workspaces={**state.workspaces, seat: space.but(**changes)})


def collected(state: RunState, change: Change) -> tuple[RunState, bool]:
    """The run after work on the winner was collected, and whether it changed anything."""
    return with_candidate(state, state.chosen, change=change), change.tree != state.chosen.change.tree


def with_candidate(state: RunState, candidate: Candidate, **changes: object) -> RunState:
    """The run with that candidate's newest account."""
    return state.but(candidates={**state.candidates, candidate.label: candidate.but(**changes)})

"""What a state is to the walk: all that routes, without seq, time, ordinals and names. States of one shape go on alike."""

import hashlib
from collections.abc import Callable

import msgspec

from nightcrew.core.effects import (
    ContinueRebase,
    Effect,
    Land,
    MakeCommit,
    PrepareWorkspace,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    UndoRebase,
)
from nightcrew.core.ids import SeatKey
from nightcrew.core.state import Basing, Call, Marker, RunState, Trouble
from nightcrew.core.trouble import NODES_OF
from nightcrew.core.work import Candidate, CommandResult, Failure, Handover

ATTEMPTS = 11
"""Attempts above this one differ in nothing but their number."""
TURNS = 6
"""So do turns that are left before a limit, when there are as many."""
NAMED: dict[type, tuple[str, ...]] = {
    PrepareWorkspace: ("start",),
    ResetWorkspace: ("start",),
    RunCommands: ("tree",),
    SyncBase: ("base", "head"),
    ContinueRebase: ("base", "head", "tip"),
    UndoRebase: ("head",),
    MakeCommit: ("tip", "head", "tree"),
    Land: ("commit", "tip"),
}
"""The commits and trees that each kind of effect is about."""
_encode = msgspec.msgpack.Encoder().encode

Namer = Callable[[str], int]
Offered = dict[SeatKey, str]
"""By seat, the conversation id that a turn in it offered last."""
Parts = tuple[object, ...]


def shape(state: RunState, offered: Offered) -> bytes:
    """A short digest of the state's shape. Names of commits, trees and slots count by who is equal to whom."""
    return hashlib.blake2b(_encode(parts(state, offered)), digest_size=16).digest()


def parts(state: RunState, offered: Offered) -> Parts:
    """The shape itself. Of a run that is over, or that only has its end before it, nothing else matters."""
    if state.done:
        return (state.phase, len(state.open))
    if state.marker is not None and state.marker.is_failure:
        return _ending(state, state.marker)
    names: dict[str, int] = {"": -1}

    def name(text: str) -> int:
        return names.setdefault(text, len(names))

    return (
        state.phase, state.parked, state.park_now, state.iteration, name(state.base), state.winner,
        [(name(state.slot(c.seat)), *_candidate(c, name)) for c in state.candidates.values()], _flags(state), name(state.gated), name(state.commit),
        [(seat, name(s.slot), name(s.start), name(s.tree), s.set_up) for seat, s in state.workspaces.items()],
        _open(state, name), _seats(state, name, offered), [_call(c, state.at) for c in state.calls.values()],
        _passed(state), [_handover(h) for h in state.owed], _money(state),
        sorted(agent for agent, until in state.cooling.items() if until > state.at),
        _progress(state, name), _memory(state, name), state.trouble and _trouble(state, state.trouble, name),
        sorted(state.crashes.items()), sorted((q.id, q.holds) for q in state.questions.values()),
    )  # fmt: skip


def _ending(state: RunState, marker: Marker) -> Parts:
    lanes = sorted((type(o.effect).__name__, o.effect.node, o.effect.seat, o.begun) for o in state.open.values())
    seats = (sorted(state.workspaces), sorted(state.rescued))
    return ("ending", state.phase, min(marker.failures, 5), marker.wait_until > 0, lanes, seats, bool(state.trouble))


def _flags(state: RunState) -> Parts:
    return (
        state.unreviewed, state.planned, state.plan is not None, state.contested, state.dropped, state.text is not None,
        state.landing is not None, bool(state.already), state.preflight and state.preflight.green, bool(state.marker),
        bool(state.open_findings),
    )  # fmt: skip


def _open(state: RunState, name: Namer) -> list[Parts]:
    return [
        (*_effect(o.effect, name), o.begun, o.visit == state.visit)
        for o in sorted(state.open.values(), key=lambda o: (o.effect.node, o.effect.seat))
    ]


def _effect(effect: Effect, name: Namer) -> Parts:
    kind = type(effect)
    about: Parts = tuple(name(getattr(effect, field)) for field in NAMED.get(kind, ()))
    if isinstance(effect, StartTurn):
        about = (effect.agent, effect.session != "", effect.resume != "")
    return (kind.__name__, effect.node, effect.seat, name(effect.slot), about)


def _seats(state: RunState, name: Namer, offered: Offered) -> list[Parts]:
    return [
        (s.key, s.agent, s.turns > 0, s.reported != "", name(s.slot), offered.get(s.key) == s.minted)
        for s in state.seats.values()
    ]


def _call(call: Call, at: float) -> Parts:
    failed = call.failed and (call.failed.kind, call.failed.reset_at is not None)
    wait = (call.wait_until > at) + (call.wait_until > 0.0)
    spent = (call.tries, call.lost, call.cold, call.reasked)
    return (call.node, call.seat, call.entries, call.at, call.first, call.before, spent, wait, call.sleeping, failed)


def _handover(handover: Handover) -> Parts:
    return (handover.node, handover.seat, handover.from_agent, handover.to_agent, handover.fail)


def _passed(state: RunState) -> list[Parts]:
    """Who holds each seat of a chain since that chain was reset."""
    found: dict[tuple[object, ...], str] = {}
    for role, nodes in NODES_OF.items():
        for handover in state.handovers[state.resets.get(str(role), 0) :]:
            if handover.node in nodes:
                found[role, handover.node, handover.seat] = handover.to_agent
    return [(*key, to) for key, to in found.items()]


def _money(state: RunState) -> Parts:
    """What is left of the turns, where their number is bounded."""
    turns = state.started.limits.turns.value
    return () if turns is None else (min(TURNS, max(0.0, turns - state.spend.turns)),)


def _candidate(c: Candidate, name: Namer) -> Parts:
    claim = c.claim and (c.claim.word, c.claim.evidence != "")
    trees = (name(c.start_tree), name(c.change.tree))
    return (c.label, c.agent, *trees, claim, c.failure != "")


def _results(results: tuple[CommandResult, ...] | None) -> object:
    return None if results is None else [(r.code, r.timed_out, r.output.size > 0) for r in results if not r.green]


def _basing(basing: Basing, name: Namer) -> Parts:
    return (basing.step, name(basing.tip), len(basing.paths), basing.rounds)


def _progress(state: RunState, name: Namer) -> Parts:
    """How far each phase is; rounds as what is left of them."""
    pipeline, r, v, t = state.settings.pipeline, state.reviewing, state.validating, state.trying
    lanes = [
        (la.label, name(la.began), la.step, min(la.turns, pipeline.continuations + 1), la.failure and _failure(la.failure))
        for la in state.lanes.values()
    ]
    votes = [(seat, v.vote, [f.severity for f in v.findings]) for seat, v in r.reviews.items()]
    reviewing = (
        _basing(r.basing, name), r.step, max(0, pipeline.review_rounds + r.granted - r.round), votes, _results(r.e2e),
        r.deferred, r.stalled, [f.severity for f in r.open],
    )  # fmt: skip
    validating = (
        _basing(v.basing, name), v.step, max(0, pipeline.gate_fix_rounds + v.granted - v.rounds), _results(v.red),
        v.hooked, v.fresh,
    )  # fmt: skip
    j = state.judging
    judging = (
        j.step, j.standing, sorted(j.leaks), [(s, r.order) for s, r in j.rankings.items()], j.spoken, [(s, b.choice) for s, b in j.turns],
        [(s, b.choice) for s, b in j.ballots.items()], [(s, _failure(f)) for s, f in j.absent.items()], j.tally and j.tally.winner,
        j.before and name(j.before.tree), sorted(state.advising.proposals), sorted(state.advising.absent),
    )  # fmt: skip
    left = max(0, pipeline.land_rounds + t.granted - t.rounds)
    trying = (t.step, min(t.moved, pipeline.land_rounds + 1), left, t.wait_until > state.at, t.refusal, t.as_branch != "")
    return (lanes, judging, reviewing, validating, trying)


def _memory(state: RunState, name: Namer) -> Parts:
    """What a reset goes back to."""
    return (
        [(c.label, name(c.change.head), name(c.change.tree)) for c in state.iterations],
        [(p, began.label, name(began.change.head), name(base)) for p, (began, base) in state.marks.items()],
        [(seat, name(start), bool(repairs)) for seat, (start, repairs) in state.rewinds.items()],
    )


def _failure(f: Failure) -> Parts:
    return (f.phase, f.role, f.kind, f.node, f.seat, f.signature, f.unavailable, f.exhausted, f.asked, f.internal)


def _trouble(state: RunState, t: Trouble, name: Namer) -> Parts:
    kept = [r for r in t.repairs if not r.left_out]
    return (
        _failure(t.failure), t.failed_phase, t.furthest, min(t.attempts, ATTEMPTS), t.level, t.attempted, t.triggered,
        t.finished, t.unavailable, min(t.waits, 2), (t.wait_until > state.at) + (t.wait_until > 0.0), t.reset, t.step,
        bool(kept), len(kept) == len(t.repairs), name(t.tree), t.iteration, min(t.same, 4), t.over,
    )  # fmt: skip

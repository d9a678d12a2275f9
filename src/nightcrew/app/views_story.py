"""The whole story of a run as data: what `show` tells and `show --json` prints. Pure; the words for people are in `views_text`."""

import shlex
from collections.abc import Sequence

from msgspec import Struct

from nightcrew.app.views import conclusion, headline
from nightcrew.app.views_steps import Closed, Step, closed, steps
from nightcrew.app.views_trouble import (
    Asking,
    Handed,
    Recovery,
    Rescued,
    Waited,
    asked,
    handed,
    recovery,
    rescued,
    waited,
)
from nightcrew.app.views_work import Offered, Ran, Round, candidates, ran, rounds
from nightcrew.core import events as ev
from nightcrew.core.effects import StartTurn
from nightcrew.core.ids import short
from nightcrew.core.limits import VALVES
from nightcrew.core.state import RunState, line
from nightcrew.core.work import Landing


class PhaseSpan(Struct, frozen=True, kw_only=True):
    """One visit of a phase; `ended_at` is None for the one the run is in."""

    phase: str
    began_at: float
    ended_at: float | None


class TurnTold(Struct, frozen=True, kw_only=True):
    """One turn of an agent. `kind` is how it ended (`ok`, `quota` …), "" while it runs; money and tokens are None when unknown."""

    key: str
    node: str
    seat: str
    agent: str
    began_at: float
    ended_at: float | None
    kind: str
    reason: str
    tokens: int | None
    usd: float | None


class SeatTold(Struct, frozen=True, kw_only=True):
    """A seat: who sat there last, its turns and their time; `running_since_at` is None when nothing runs; `last` is the last answer's line."""

    seat: str
    agent: str
    turns: int
    took_s: float
    running_since_at: float | None
    last: str


class Bound(Struct, frozen=True, kw_only=True):
    """A limit: `value` None = lifted; `origin` is `operator` or `default`; wall in seconds, usd in US dollars."""

    limit: str
    used: float
    value: float | None
    origin: str


class Cost(Struct, frozen=True, kw_only=True):
    """What was spent; `unpriced` turns have an unknown price, which is not nothing. `wall_s` counts busy seconds."""

    usd: float
    tokens: int
    turns: int
    unpriced: int
    wall_s: float
    limits: tuple[Bound, ...]


class LandingTold(Struct, frozen=True, kw_only=True):
    """Where the work went, and the shell line that undoes it."""

    mode: str
    branch: str
    commit: str
    replaced: str
    note: str
    undo: str


class Story(Struct, frozen=True, kw_only=True):
    """A run from its first fact to the newest, all times in seconds since the epoch."""

    run: str
    short: str
    title: str
    task: str
    target: str
    base: str
    started_at: float
    last_at: float
    seq: int
    word: str
    exit_code: int
    headline: str
    why: str
    next_command: str
    shelter: str
    version: str
    notes: tuple[str, ...]
    phases: tuple[PhaseSpan, ...]
    seats: tuple[SeatTold, ...]
    turns: tuple[TurnTold, ...]
    handovers: tuple[Handed, ...]
    candidates: tuple[Offered, ...]
    rounds: tuple[Round, ...]
    commands: tuple[Ran, ...]
    recovery: Recovery
    questions: tuple[Asking, ...]
    waits: tuple[Waited, ...]
    rescues: tuple[Rescued, ...]
    cost: Cost
    landing: LandingTold | None
    kept: tuple[str, ...]


def story(entries: Sequence[ev.Entry]) -> Story:
    """The story that these facts tell; they begin with a run's first."""
    told = tuple(steps(entries))
    state, ends = told[-1].after, tuple(closed(told))
    started, said = state.started, conclusion(state)
    turns = _turns(ends, state)
    return Story(
        run=started.run,
        short=short(started.run),
        title=started.task.title,
        task=started.task.text.tail,
        target=started.target,
        base=state.base,
        started_at=entries[0].at,
        last_at=state.at,
        seq=state.seq,
        word=said.word,
        exit_code=said.exit_code,
        headline=headline(state),
        why=said.why,
        next_command=said.next_command,
        shelter=started.shelter,
        version=started.version,
        notes=_notes(entries),
        phases=_phases(told),
        seats=_seats(turns, ends),
        turns=turns,
        handovers=handed(state),
        candidates=candidates(state),
        rounds=rounds(told),
        commands=ran(ends),
        recovery=recovery(told, state),
        questions=asked(told),
        waits=waited(ends, state),
        rescues=rescued(ends),
        cost=_cost(state),
        landing=_landing(state),
        kept=tuple(k for e in entries if isinstance(e.event, ev.WorkspacesDropped) for k in e.event.kept),
    )


def _notes(entries: Sequence[ev.Entry]) -> tuple[str, ...]:
    """What a reader should know, each once."""
    found: list[str] = []
    for entry in entries:
        match entry.event:
            case ev.RunStarted(notes=notes) | ev.WorkspaceReady(notes=notes) | ev.WorkCollected(notes=notes):
                found += notes
            case ev.Noted(text=text):
                found.append(text)
            case ev.WorkspaceLost(reason=reason):
                found.append(f"a workspace was lost: {reason}")
            case ev.HandlerCrashed(reason=reason):
                found.append(f"a fault of nightcrew itself: {reason}")
            case ev.ConfigChanged(why=why) if why:
                found.append(why)
            case ev.BaseSynced(state=how, tip=tip, note=note) if how == "rebased":
                found.append(note or f"put onto {tip[:10]}")
            case _:
                pass
    return tuple(dict.fromkeys(found))


def _phases(told: Sequence[Step]) -> tuple[PhaseSpan, ...]:
    begun = [
        told[0],
        *(step for step in told if step.before.visit != step.after.visit or step.before.phase != step.after.phase),
    ]
    spans = []
    for n, step in enumerate(begun):
        ended = begun[n + 1].entry.at if n + 1 < len(begun) else step.entry.at if step.after.done else None
        spans.append(PhaseSpan(phase=step.after.phase, began_at=step.entry.at, ended_at=ended))
    return tuple(spans)


def _turns(ends: Sequence[Closed], state: RunState) -> tuple[TurnTold, ...]:
    over = [
        _turn(e, e.effect)
        for e in ends
        if isinstance(e.effect, StartTurn) and not isinstance(e.step.entry.event, ev.AgentCooling)
    ]
    running = [
        TurnTold(
            key=key, node=o.effect.node, seat=o.effect.seat, agent=o.effect.agent, began_at=o.at, ended_at=None, kind="",
            reason="" if o.begun else "queued", tokens=None, usd=None,
        )
        for key, o in state.open.items()
        if isinstance(o.effect, StartTurn)
    ]  # fmt: skip
    return tuple(sorted((*over, *running), key=lambda turn: turn.began_at))


def _turn(end: Closed, effect: StartTurn) -> TurnTold:
    event = end.step.entry.event
    outcome = event.outcome if isinstance(event, ev.TurnEnded) else None
    kinds = {
        ev.Cancelled: "cancelled",
        ev.TurnLost: "lost",
        ev.StepFailed: "failed",
        ev.HandlerCrashed: "failed",
        ev.WorkspaceLost: "lost",
    }
    return TurnTold(
        key=effect.key,
        node=effect.node,
        seat=effect.seat,
        agent=effect.agent,
        began_at=end.started_at,
        ended_at=end.step.entry.at,
        kind=outcome.kind if outcome else kinds.get(type(event), ""),
        reason=outcome.reason if outcome else getattr(event, "reason", ""),
        tokens=outcome.tokens if outcome else None,
        usd=outcome.usd if outcome else None,
    )


def _seats(turns: Sequence[TurnTold], ends: Sequence[Closed]) -> tuple[SeatTold, ...]:
    answers = {
        str(e.effect.seat): line(" ".join(e.step.entry.event.outcome.answer.tail.split()), 80)
        for e in ends
        if isinstance(e.step.entry.event, ev.TurnEnded) and e.step.entry.event.outcome.answer
    }
    found = []
    for seat in dict.fromkeys(turn.seat for turn in turns):
        mine = [turn for turn in turns if turn.seat == seat]
        since = next((turn.began_at for turn in mine if turn.ended_at is None), None)
        took = sum(turn.ended_at - turn.began_at for turn in mine if turn.ended_at is not None)
        found.append(
            SeatTold(
                seat=seat,
                agent=mine[-1].agent,
                turns=len(mine),
                took_s=took,
                running_since_at=since,
                last=answers.get(seat, ""),
            )
        )
    return tuple(found)


def _cost(state: RunState) -> Cost:
    spend, limits = state.spend, state.started.limits
    bounds = tuple(
        Bound(limit=valve, used=spend.used(valve), value=limit.value, origin="operator" if limit.mine else "default")
        for valve in VALVES
        if (limit := getattr(limits, valve)) is not None
    )
    return Cost(
        usd=spend.usd, tokens=spend.tokens, turns=spend.turns, unpriced=spend.unpriced, wall_s=spend.wall_s, limits=bounds
    )  # fmt: skip


def _landing(state: RunState) -> LandingTold | None:
    landing = state.landing
    if landing is None:
        return None
    return LandingTold(
        mode=landing.mode, branch=landing.branch, commit=landing.commit, replaced=landing.replaced, note=landing.note,
        undo=undo(landing, state.started.remote),
    )  # fmt: skip


def undo(landing: Landing, remote: str) -> str:
    """The shell line that undoes a landing without rewriting anybody's history; for a branch, the one that removes it."""
    name = shlex.quote(landing.branch)
    match landing.mode:
        case "branch":
            return f"git branch -D {name}"
        case "push":
            there = shlex.quote(remote or "origin")
            fresh = f"git fetch {there} && git switch {name} && git merge --ff-only {there}/{name}"
            return f"{fresh} && git revert --no-edit {landing.commit} && git push {there} {name}"
        case _:
            return f"git switch {name} && git revert --no-edit {landing.commit}"


class Ending(Struct, frozen=True, kw_only=True):
    """How a run stands when its driver comes to rest; `undo` is the shell line that takes a landing back, "" when nothing landed."""

    run: str
    short: str
    word: str
    exit_code: int
    headline: str
    why: str
    next_command: str
    undo: str


def ending(state: RunState) -> Ending:
    """The end of `run` and `resume`, and their JSON."""
    said, landing = conclusion(state), _landing(state)
    return Ending(
        run=state.started.run,
        short=short(state.started.run),
        word=said.word,
        exit_code=said.exit_code,
        headline=headline(state),
        why=said.why,
        next_command=said.next_command,
        undo=landing.undo if landing else "",
    )

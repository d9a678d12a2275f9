"""The whole story of a run as data: what `show` tells and `show --json` prints. Pure; the words for people are in `views_text`.

Where a fact's own struct says it (a handover, a finding, a command's result), the story holds that struct.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from nightcrew.app.views import RunState, conclusion, count, headline
from nightcrew.core import events as ev
from nightcrew.core.effects import Effect, RunCommands, StartTurn, Timer
from nightcrew.core.ids import short
from nightcrew.core.limits import Limits, Spend
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.work import (
    Candidate,
    CommandResult,
    Failure,
    FixReport,
    Handover,
    Landing,
    Outcome,
    Question,
    Reviewed,
)


class Ending(Struct, frozen=True):
    """How a run stands; `undo` is the shell line that takes its landing back, "" when there is none."""

    run: str
    short: str
    word: str
    exit_code: int
    headline: str
    why: str
    next_command: str
    undo: str


class Visit(Struct, frozen=True):
    """One visit of a phase; `ended_at` is None for the one the run is in."""

    phase: str
    began_at: float
    ended_at: float | None


class Told(Struct, frozen=True):
    """One turn of an agent. `kind` is how it ended (`ok`, `quota`, `cancelled`, `lost` …), "" while it runs."""

    key: str
    node: str
    seat: str
    agent: str
    began_at: float
    ended_at: float | None
    kind: str
    outcome: Outcome | None = None


class Ran(Struct, frozen=True):
    """A batch of commands: why they ran (`preflight`, `check`, `gate` …), where; `cached` = known green already."""

    at: float
    purpose: str
    seat: str
    green: bool
    cached: bool
    results: tuple[CommandResult, ...]


class Round(Struct, frozen=True):
    """One reviewer's answer in one round, and what the fixer said to its findings."""

    at: float
    round: int
    seat: str
    review: Reviewed
    fixed: FixReport | None


class Asked(Struct, frozen=True):
    """A question; `answered_at` is None while it is open."""

    question: Question
    answered_at: float | None = None
    answer: str = ""


class Wait(Struct, frozen=True):
    """A pause or a wait: until when it was meant to last, and when it was over (None = it lasts)."""

    why: str
    began_at: float
    until_at: float
    ended_at: float | None


class Rescue(Struct, frozen=True):
    """Work kept safe under a ref, and whose seat it was in."""

    at: float
    ref: str
    seat: str


class Mended(Struct, frozen=True):
    """One line of the record of recovery."""

    at: float
    what: str


class Recovery(Struct, frozen=True):
    """The present trouble (None and zeros when there is none), and every line of the record so far."""

    failure: Failure | None
    attempts: int
    level: int
    next_at: float | None
    record: tuple[Mended, ...]


class Story(Struct, frozen=True, kw_only=True):
    """A run from its first fact to the newest, all times in seconds since the epoch."""

    stands: Ending
    title: str
    task: str
    target: str
    base: str
    started_at: float
    last_at: float
    seq: int
    shelter: str
    version: str
    notes: tuple[str, ...]
    phases: tuple[Visit, ...]
    turns: tuple[Told, ...]
    handovers: tuple[Handover, ...]
    candidates: tuple[Candidate, ...]
    winner: str
    rounds: tuple[Round, ...]
    commands: tuple[Ran, ...]
    recovery: Recovery
    questions: tuple[Asked, ...]
    waits: tuple[Wait, ...]
    rescues: tuple[Rescue, ...]
    spend: Spend
    limits: Limits
    landing: Landing | None
    kept: tuple[str, ...]


class Step(NamedTuple):
    """One fact, and the states it led from and to (for the first fact, `before` is `after`)."""

    entry: ev.Entry
    before: RunState
    after: RunState


class _End(NamedTuple):
    """The end of an effect: when it was started and ended, and by which fact."""

    effect: Effect
    began_at: float
    at: float
    event: ev.Event


def plain(value: Struct) -> dict[str, Any]:
    """A view's data for JSON (docs/json.md)."""
    found: dict[str, Any] = msgspec.to_builtins(value)
    return found


def ending(state: RunState) -> Ending:
    """How the run stands, for its end and for programs."""
    said, run = conclusion(state), state.started.run
    undone = undo(state.landing, state.started.remote) if state.landing else ""
    return Ending(
        run, short(run), said.word, said.exit_code, headline(state), said.why, said.next_command, undone
    )  # fmt: skip


def undo(landing: Landing, remote: str) -> str:
    """The shell line that undoes a landing without rewriting anybody's history; for a branch, the one that removes it."""
    name, revert = shlex.quote(landing.branch), f"git revert --no-edit {landing.commit}"
    if landing.mode == "branch":
        return f"git branch -D {name}"
    if landing.mode == "local":
        return f"git switch {name} && {revert}"
    there = shlex.quote(remote)
    return f"git fetch {there} && git switch {name} && git merge --ff-only {there}/{name} && {revert} && git push {there} {name}"


def steps(entries: Iterable[ev.Entry]) -> Iterator[Step]:
    """Every fact with its states, in order."""
    state: RunState | None = None
    for entry in entries:
        after = begin(entry) if state is None else reduce(state, entry)
        yield Step(entry, state or after, after)
        state = after


def story(entries: Sequence[ev.Entry]) -> Story:
    """The story that these facts tell; they begin with a run's first."""
    told = tuple(steps(entries))
    state, ends = told[-1].after, tuple(_ends(told))
    started = state.started
    return Story(
        stands=ending(state),
        title=started.task.title,
        task=started.task.text.tail,
        target=started.target,
        base=state.base,
        started_at=entries[0].at,
        last_at=state.at,
        seq=state.seq,
        shelter=started.shelter,
        version=started.version,
        notes=tuple(dict.fromkeys(note for entry in entries for note in _notes(entry.event))),
        phases=_phases(told),
        turns=_turns(ends, state),
        handovers=state.handovers,
        candidates=tuple(state.candidates.values()),
        winner=state.winner,
        rounds=tuple(_rounds(told)),
        commands=tuple(_ran(ends)),
        recovery=_recovery(told, state),
        questions=_questions(told),
        waits=_waits(ends, state),
        rescues=_rescues(ends),
        spend=state.spend,
        limits=started.limits,
        landing=state.landing,
        kept=tuple(kept for e in entries if isinstance(e.event, ev.WorkspacesDropped) for kept in e.event.kept),
    )


def _ends(told: Iterable[Step]) -> Iterator[_End]:
    for step in told:
        event = step.entry.event
        if isinstance(event, ev.Answer) and event.terminal and event.key in step.before.open:
            opened = step.before.open[event.key]
            yield _End(opened.effect, opened.at, step.entry.at, event)


def _notes(event: ev.Event) -> tuple[str, ...]:
    match event:
        case ev.RunStarted(notes=notes) | ev.WorkspaceReady(notes=notes) | ev.WorkCollected(notes=notes):
            return notes
        case ev.Noted(text=text):
            return (text,)
        case ev.WorkspaceLost(reason=reason) | ev.StepFailed(reason=reason):
            return (f"a step failed: {reason}",)
        case ev.HandlerCrashed(reason=reason):
            return (f"a fault of nightcrew itself: {reason}",)
        case ev.BaseSynced(state="rebased", tip=tip, note=note):
            return (note or f"put onto {tip[:10]}",)
        case _:
            return ()


def _phases(told: Sequence[Step]) -> tuple[Visit, ...]:
    begun = [told[0], *(s for s in told if (s.before.visit, s.before.phase) != (s.after.visit, s.after.phase))]
    ends = [*(step.entry.at for step in begun[1:]), begun[-1].entry.at if begun[-1].after.done else None]
    return tuple(Visit(step.after.phase, step.entry.at, end) for step, end in zip(begun, ends, strict=True))


def _turns(ends: Sequence[_End], state: RunState) -> tuple[Told, ...]:
    kinds = {ev.Cancelled: "cancelled", ev.TurnLost: "lost", ev.WorkspaceLost: "lost"}
    found = []
    for end in ends:
        if isinstance(end.effect, StartTurn) and not isinstance(end.event, ev.AgentCooling):
            outcome = end.event.outcome if isinstance(end.event, ev.TurnEnded) else None
            kind = outcome.kind if outcome else kinds.get(type(end.event), "failed")
            found.append(_turn(end.effect, end.began_at, end.at, kind, outcome))
    running = [_turn(o.effect, o.at, None, "") for o in state.open.values() if isinstance(o.effect, StartTurn)]
    return tuple(sorted((*found, *running), key=lambda turn: turn.began_at))


def _turn(
    effect: StartTurn, began_at: float, ended_at: float | None, kind: str, outcome: Outcome | None = None
) -> Told:
    return Told(effect.key, effect.node, effect.seat, effect.agent, began_at, ended_at, kind, outcome)


def _ran(ends: Iterable[_End]) -> Iterator[Ran]:
    for end in ends:
        if isinstance(end.event, ev.CommandsEnded) and isinstance(end.effect, RunCommands):
            event, effect = end.event, end.effect
            yield Ran(end.at, effect.purpose, effect.seat, event.green, event.cached, event.results)


def _rounds(told: Sequence[Step]) -> Iterator[Round]:
    for n, step in enumerate(told):
        before, after = step.before.reviewing, step.after.reviewing
        for seat, review in after.reviews.items():
            if before.reviews.get(seat) is not review:
                later = (s for s in told[n:] if s.after.reviewing.fixed is not s.before.reviewing.fixed)
                fixed = next((s.after.reviewing.fixed for s in later if s.after.reviewing.round == after.round), None)
                yield Round(step.entry.at, after.round, seat, review, fixed)


def _questions(told: Iterable[Step]) -> tuple[Asked, ...]:
    found: dict[tuple[str, float], Asked] = {}
    for step in told:
        for question in step.after.questions.values():
            found.setdefault((question.id, question.asked_at), Asked(question))
        event = step.entry.event
        if isinstance(event, ev.Answered) and (old := step.before.questions.get(event.question)):
            found[old.id, old.asked_at] = Asked(old, step.entry.at, event.text)
    return tuple(found.values())


def _waits(ends: Iterable[_End], state: RunState) -> tuple[Wait, ...]:
    over = [(e.effect, e.began_at, e.at) for e in ends]
    still = [(o.effect, o.at, None) for o in state.open.values()]
    timers = ((e, began, ended) for e, began, ended in (*over, *still) if isinstance(e, Timer))
    return tuple(Wait(timer.why, began, timer.fire_at, ended) for timer, began, ended in timers)


def _rescues(ends: Iterable[_End]) -> tuple[Rescue, ...]:
    found: dict[str, Rescue] = {}
    for end in ends:
        ref = end.event.ref if isinstance(end.event, ev.WorkRescued) else getattr(end.event, "rescued", "")
        if ref:
            found.setdefault(ref, Rescue(end.at, ref, end.effect.seat))
    return tuple(found.values())


# ── recovery ──────────────────────────────────────────────────────────────────────────────────────────────────────


def _recovery(told: Iterable[Step], state: RunState) -> Recovery:
    record = tuple(Mended(step.entry.at, what) for step in told for what in mended(step))
    trouble = state.trouble
    if trouble is None or trouble.over or state.done:
        return Recovery(None, 0, 0, None, record)
    return Recovery(trouble.failure, trouble.attempts, trouble.level, trouble.wait_until or None, record)


def mended(step: Step) -> Iterator[str]:
    """What a fact means for the recovery, in a line or none."""
    event, now, before = step.entry.event, step.after.trouble, step.before.trouble
    if now is not None and (before is None or before.failure is not now.failure):
        yield f"{now.failed_phase} failed: {now.failure.reason}"
    match event:
        case ev.DevFixSkipped(reason=reason):
            yield f"no dev-fix: {reason}"
        case ev.DevFixCompleted(success=success, summary=summary):
            yield f"dev-fix {'done' if success else 'failed'}" + (f": {summary}" if summary else "")
        case ev.DevFixAgentUnavailable(reason=reason):
            yield f"nobody can work now: {reason}"
        case ev.ChainReset(chain=chain):
            yield f"the {chain} chain starts at its front again"
        case ev.RecoveryEscalated(from_level=lower, to_level=higher):
            yield f"level {lower} becomes {higher}"
        case ev.RecoveryAttempted(target_phase=phase, level=level):
            yield f"back to {phase} at level {level}"
        case ev.RecoverySucceeded(total_attempts=attempts):
            yield f"recovered after {count(attempts, 'attempt')}"
        case ev.CompletionMarkerWriteFailed(error=error):
            yield f"the completion marker could not be written: {error}"
        case _:
            return

"""What happened in a run, as data: what each fact means in a line, and the whole story of `show`. Pure; its words are in `text`.

Where a fact's own struct says it (a handover, a finding, a command's result), the story holds that struct.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import Struct

from nightcrew.app.views import Conclusion, answer_command, clock, conclusion, count, span
from nightcrew.core import events as ev
from nightcrew.core import work
from nightcrew.core.effects import Effect, RunCommands, StartTurn, Timer
from nightcrew.core.limits import Spend
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.state import RunState

_ALONE = frozenset({"plan", "implement", "review", "commit", "dev-fix"})
"""Nodes whose seats say enough."""


class Step(NamedTuple):
    """One fact, and the states it led from and to (for the first fact, `before` is `after`)."""

    entry: ev.Entry
    before: RunState
    after: RunState


class Line(Struct, frozen=True):
    """What a fact meant; `topic` is turn, commands, work, review, recovery, wait, question, word, note, rescued, kept or phase."""

    at: float
    topic: str
    what: str


class Visit(Struct, frozen=True):
    """One visit of a phase; `ended_at` is None for the one the run is in."""

    phase: str
    began_at: float
    ended_at: float | None


class Turn(Struct, frozen=True):
    """One turn of an agent. `kind` is how it ended (`ok`, `quota`, `cancelled`, `lost` …), "" while it runs."""

    key: str
    node: str
    seat: str
    agent: str
    began_at: float
    ended_at: float | None
    kind: str
    outcome: work.Outcome | None


class Ran(Struct, frozen=True):
    """A batch of commands: why they ran (`preflight`, `check`, `gate` …), where; `cached` = known green already."""

    at: float
    purpose: str
    seat: str
    green: bool
    cached: bool
    results: tuple[work.CommandResult, ...]


class Round(Struct, frozen=True):
    """One reviewer's answer in one round, and what the fixer said to its findings."""

    at: float
    round: int
    seat: str
    review: work.Reviewed
    fixed: work.FixReport | None


class Recovery(Struct, frozen=True):
    """The present trouble (None and zeros when there is none), and every line about recovery so far."""

    failure: work.Failure | None
    attempts: int
    level: int
    next_at: float | None
    record: tuple[Line, ...]


class Story(Struct, frozen=True, kw_only=True):
    """A run from its first fact to the newest, all times in seconds since the epoch."""

    stands: Conclusion
    started: ev.RunStarted
    base: str
    began_at: float
    last_at: float
    seq: int
    phases: tuple[Visit, ...]
    turns: tuple[Turn, ...]
    handovers: tuple[work.Handover, ...]
    candidates: tuple[work.Candidate, ...]
    winner: str
    rounds: tuple[Round, ...]
    commands: tuple[Ran, ...]
    recovery: Recovery
    questions: tuple[work.Question, ...]
    lines: tuple[Line, ...]
    spend: Spend
    landing: work.Landing | None


def steps(entries: Iterable[ev.Entry], state: RunState | None = None) -> Iterator[Step]:
    """Every fact with its states, in order, after those that made `state`; without it they begin with a run's first."""
    for entry in entries:
        after = begin(entry) if state is None else reduce(state, entry)
        yield Step(entry, state or after, after)
        state = after


def story(entries: Sequence[ev.Entry]) -> Story:
    """The story that these facts tell; they begin with a run's first."""
    told = tuple(steps(entries))
    state, effects = told[-1].after, sorted(_effects(told), key=lambda e: e.began_at)
    lines = tuple(line for step in told for line in said(step))
    return Story(
        stands=conclusion(state),
        started=state.started,
        base=state.base,
        began_at=entries[0].at,
        last_at=state.at,
        seq=state.seq,
        phases=_phases(told),
        turns=tuple(_turns(effects)),
        handovers=state.handovers,
        candidates=tuple(state.candidates.values()),
        winner=state.winner,
        rounds=tuple(_rounds(told)),
        commands=tuple(_ran(effects)),
        recovery=_recovery(state, lines),
        questions=tuple(state.questions.values()),
        lines=lines,
        spend=state.spend,
        landing=state.landing,
    )


class _Life(NamedTuple):
    """An effect from its start to its end: None and None while it runs."""

    effect: Effect
    began_at: float
    ended_at: float | None = None
    end: ev.Event | None = None


def _effects(told: Sequence[Step]) -> Iterator[_Life]:
    for step in told:
        event = step.entry.event
        if isinstance(event, ev.Answer) and event.terminal and (opened := step.before.open.get(event.key)):
            yield _Life(opened.effect, opened.at, step.entry.at, event)
    yield from (_Life(opened.effect, opened.at) for opened in told[-1].after.open.values())


def _phases(told: Sequence[Step]) -> tuple[Visit, ...]:
    begun = [told[0], *(s for s in told if s.before.visit != s.after.visit or s.before.phase != s.after.phase)]
    ends = [*(step.entry.at for step in begun[1:]), begun[-1].entry.at if begun[-1].after.done else None]
    return tuple(Visit(step.after.phase, step.entry.at, end) for step, end in zip(begun, ends, strict=True))


def _turns(effects: Iterable[_Life]) -> Iterator[Turn]:
    kinds = {type(None): "", ev.Cancelled: "cancelled", ev.TurnLost: "lost", ev.WorkspaceLost: "lost"}
    for turn, began_at, ended_at, end in effects:
        if isinstance(turn, StartTurn) and not isinstance(end, ev.AgentCooling):
            outcome = end.outcome if isinstance(end, ev.TurnEnded) else None
            kind = outcome.kind if outcome else kinds.get(type(end), "failed")
            yield Turn(turn.key, turn.node, turn.seat, turn.agent, began_at, ended_at, kind, outcome)


def _ran(effects: Iterable[_Life]) -> Iterator[Ran]:
    for effect, _, ended_at, end in effects:
        if isinstance(effect, RunCommands) and isinstance(end, ev.CommandsEnded) and ended_at:
            yield Ran(ended_at, effect.purpose, effect.seat, end.green, end.cached, end.results)


def _rounds(told: Sequence[Step]) -> Iterator[Round]:
    for n, step in enumerate(told):
        for seat, review in _reviews(step):
            now = step.after.reviewing.round
            later = (s for s in told[n:] if s.after.reviewing.fixed is not s.before.reviewing.fixed)
            fixed = next((s.after.reviewing.fixed for s in later if s.after.reviewing.round == now), None)
            yield Round(step.entry.at, now, seat, review, fixed)


def _reviews(step: Step) -> Iterator[tuple[str, work.Reviewed]]:
    before = step.before.reviewing.reviews
    return ((seat, new) for seat, new in step.after.reviewing.reviews.items() if before.get(seat) is not new)


def _recovery(state: RunState, lines: Iterable[Line]) -> Recovery:
    record, trouble = tuple(line for line in lines if line.topic == "recovery"), state.trouble
    if trouble is None or trouble.over or state.done:
        return Recovery(None, 0, 0, None, record)
    return Recovery(trouble.failure, trouble.attempts, trouble.level, trouble.wait_until or None, record)


# ── one line for each fact that means something ───────────────────────────────────────────────────────────────────

WORDS: dict[type[ev.Event], tuple[str, str]] = {
    ev.ResumeAsked: ("word", "going on"),
    ev.CancelAsked: ("word", "{reason}"),
    ev.ConfigChanged: ("word", "settings changed: {why}"),
    ev.Answered: ("question", "answered {question}: {text}"),
    ev.Noted: ("note", "{text}"),
    ev.StepFailed: ("note", "a step failed: {reason}"),
    ev.WorkspaceLost: ("note", "a workspace was lost: {reason}"),
    ev.HandlerCrashed: ("note", "a fault of nightcrew itself: {reason}"),
    ev.CommitRefused: ("work", "the commit was refused with exit {code} {hook}"),
    ev.LandingRefused: ("work", "landing refused, {why}: {detail}"),
    ev.DevFixSkipped: ("recovery", "no dev-fix: {reason}"),
    ev.DevFixAgentUnavailable: ("recovery", "nobody can work now: {reason}"),
    ev.ChainReset: ("recovery", "the {chain} chain starts at its front again"),
    ev.RecoveryEscalated: ("recovery", "level {from_level} becomes {to_level}"),
    ev.RecoveryAttempted: ("recovery", "back to {target_phase} at level {level}"),
    ev.RecoverySucceeded: ("recovery", "recovered at attempt {total_attempts}"),
    ev.CompletionMarkerWriteFailed: ("recovery", "the completion marker could not be written: {error}"),
}
"""The facts that need no more than their own fields to be told."""


def said(step: Step) -> Iterator[Line]:
    """What a fact means to somebody who follows the run; nothing for most facts."""
    at, event, before, after = step.entry.at, step.entry.event, step.before, step.after
    topic, words = WORDS.get(type(event), ("", ""))
    told = [(topic, words.format_map({name: getattr(event, name) for name in event.__struct_fields__}))]
    opened = before.open.get(event.key) if isinstance(event, ev.Answer) else None
    if opened and isinstance(opened.effect, StartTurn):
        told.append(("turn", _of_turn(opened.effect, event, at - opened.at)))
    told += _of_work(step)
    told += [("note", note) for note in getattr(event, "notes", ())]
    told += [("kept", kept) for kept in getattr(event, "kept", ())]
    if opened and (ref := getattr(event, "ref", "") or getattr(event, "rescued", "")):
        told.append(("rescued", f"{ref} (from {opened.effect.seat})" if opened.effect.seat else ref))
    told += [("review", f"{seat}: {_of_review(review)}") for seat, review in _reviews(step)]
    asked = (q for name, q in after.questions.items() if name not in before.questions)
    told += [("question", f"asks: {q.text} [{q.how}] {answer_command(after, q)}") for q in asked]
    if after.trouble and (before.trouble is None or before.trouble.failure is not after.trouble.failure):
        told.append(("recovery", f"{after.trouble.failed_phase} failed: {after.trouble.failure.reason}"))
    if before.phase != after.phase and not after.done:
        told.append(("phase", f"→ {after.phase}" + (f", {rounds}" if (rounds := rounds_of(after)) else "")))
    return (Line(at, topic, words) for topic, words in told if words)


def _of_turn(turn: StartTurn, event: ev.Event, took_s: float) -> str:
    match event:
        case ev.EffectBegun():
            return f"{where(turn)}: {turn.agent} begins"
        case ev.TurnEnded(outcome=outcome):
            how = f"{outcome.kind}: {outcome.reason}" if outcome.reason else outcome.kind
            price = f", {outcome.usd:.2f} usd" if outcome.usd is not None else ""
            return f"{where(turn)}: {turn.agent} ended, {how} ({span(took_s)}{price})"
        case ev.TurnLost():
            return f"{where(turn)}: the turn of {turn.agent} vanished and is asked again"
        case ev.Cancelled():
            return f"{where(turn)}: {turn.agent} stopped"
        case _:
            return ""


def _of_work(step: Step) -> Iterator[tuple[str, str]]:
    match step.entry.event:
        case ev.ParkAsked(now=now):
            yield (
                "word",
                "stopping now" if now else "parking: what runs may end, nothing new begins (once more stops it now)",
            )
        case ev.HandedOver(handover=h):
            yield "turn", f"{h.seat}: {h.from_agent} → {h.to_agent} ({h.fail}: {reason(h)})"
        case ev.CommandsEnded(key=key, results=results) as event if opened := step.before.open.get(key):
            red = next((f"red, `{r.command}` {how(r)}" for r in results if not r.green), "green")
            yield "commands", f"{opened.effect.node} {red}" + (" (known)" if event.cached else "")
        case ev.WorkCollected(change=change) if change.files:
            yield "work", f"work collected: {size(change)}"
        case ev.BaseSynced(state="rebased", tip=tip, note=note):
            yield "work", f"the target moved to {tip[:10]}: {note or 'rebased'}"
        case ev.BaseSynced(state="conflict", tip=tip, paths=paths):
            yield "work", f"the target moved to {tip[:10]}: conflict in {', '.join(paths)}"
        case ev.EffectStarted(effect=Timer(fire_at=until, why=why)):
            yield "wait", f"waiting until {clock(until, step.entry.at)}: {why}"
        case ev.DevFixCompleted(success=success, summary=summary):
            yield "recovery", f"dev-fix {'done' if success else 'failed'}" + (f": {summary}" if summary else "")
        case _:
            return


def _of_review(review: work.Reviewed) -> str:
    found, blocking = count(len(review.findings), "finding"), sum(f.blocks for f in review.findings)
    vote = review.vote.replace("_", " ")
    return f"{vote}, {found}" + (f" ({blocking} blocking)" if blocking else "") if review.findings else vote


def where(turn: StartTurn) -> str:
    """The seat of a turn; with the node where a seat works at several."""
    return turn.seat if turn.node in _ALONE or turn.node == turn.seat else f"{turn.seat} at {turn.node}"


def how(result: work.CommandResult) -> str:
    """How a command ended."""
    return "ran out of time" if result.timed_out else f"exits with {result.code}"


def size(change: work.Change) -> str:
    """How big a change is."""
    return f"{count(change.files, 'file')}, +{change.insertions} -{change.deletions}"


def reason(handover: work.Handover) -> str:
    """Why a seat was handed over; a time in seconds since the epoch is told as a time of day."""
    words, _, number = handover.reason.rpartition(" ")
    is_time = words == "cools down until" and number.isdigit()
    return f"{words} {clock(float(number), handover.at)}" if is_time else handover.reason


def rounds_of(state: RunState) -> str:
    """Which round of how many the present phase is in; "" where none are counted."""
    told, landing = state.settings.pipeline, state.trying
    match state.phase:
        case work.PipelinePhase.Review:
            return f"round {state.reviewing.round} of {told.review_rounds + state.reviewing.granted}"
        case work.PipelinePhase.FinalValidation if state.validating.rounds:
            return f"gate fix {state.validating.rounds} of {told.gate_fix_rounds + state.validating.granted}"
        case work.PipelinePhase.Landing if landing.rounds:
            return f"landing fix {landing.rounds} of {told.land_rounds + landing.granted}"
        case _:
            return ""

"""What happened in a run, as data: what each fact means in a line, and the whole story of `show`. Pure; its words are in `text`."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from msgspec import Struct

from nightcrew.app.views import Conclusion, answer_command, clock, conclusion, count, span
from nightcrew.core import events as ev, work
from nightcrew.core.effects import StartTurn, Timer
from nightcrew.core.ids import SeatKey
from nightcrew.core.phases.review import asked_to_fix, seats
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.settings import Spend
from nightcrew.core.state import Judging, Reviewing, RunState, line

_ALONE = frozenset({"plan", "advise", "implement", "judge", "review", "commit", "dev-fix"})  # nodes whose seats say enough
# What a recovery forgets, by its level.
RESETS = (
    "nothing reset", "nothing reset", "reset: the progress, chains and conversations of that phase",
    "reset: plan, work, reviews and commit of an iteration, all conversations", "reset: everything since the run began",
)  # fmt: skip
TAIL_LINES = 12  # of a red command's output
Said = tuple[str, ...]  # a topic, a line, and further lines that belong to it


class Step(NamedTuple):
    """One fact, and the states it led from and to (for the first fact, `before` is `after`)."""

    entry: ev.Entry
    before: RunState
    after: RunState

    def reviewed(self) -> dict[SeatKey, work.Reviewed]:
        """The reviews that came with it, by seat."""
        was = self.before.reviewing.reviews
        return {seat: review for seat, review in self.after.reviewing.reviews.items() if was.get(seat) is not review}


class Line(Struct, frozen=True):
    """What entry `seq` meant, in one line and what belongs to it (findings, output); the topics are those of `said`."""

    seq: int
    at: float
    topic: str
    what: str
    more: tuple[str, ...] = ()


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


class Recovery(Struct, frozen=True):
    """The present trouble (None and zeros when there is none), and every line about recovery so far."""

    failure: work.Failure | None
    attempts: int
    level: int
    next_at: float | None
    since_at: float | None
    record: tuple[Line, ...]


class Story(Struct, frozen=True):
    """A run from its first fact to the newest, all times in seconds since the epoch."""

    stands: Conclusion
    started: ev.RunStarted
    base: str
    began_at: float
    last_at: float
    seq: int
    turns: tuple[Turn, ...]
    handovers: tuple[work.Handover, ...]
    cooling: dict[str, float]
    quota_losses: tuple[work.QuotaLoss, ...]
    candidates: tuple[work.Candidate, ...]
    winner: str
    judging: Judging
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
    state, lines = told[-1].after, tuple(line for step in told for line in said(step))
    taken, candidates = sorted(turns(told), key=lambda turn: turn.began_at), tuple(state.candidates.values())
    record, t = tuple(line for line in lines if line.topic == "recovery"), state.trouble
    recovery = Recovery(None, 0, 0, None, None, record)
    if t and not (t.over or state.done):
        recovery = Recovery(t.failure, t.attempts, t.level, t.wait_until or None, t.since, record)
    cooling = {str(agent): until for agent, until in state.cooling.items() if until > state.at}
    return Story(
        conclusion(state), state.started, state.base, entries[0].at, state.at, state.seq, tuple(taken), state.handovers, cooling,
        state.quota_losses, candidates, state.winner, state.judging, recovery, tuple(state.questions.values()), lines, state.spend, state.landing,
    )  # fmt: skip


def turns(told: Sequence[Step]) -> Iterator[Turn]:
    """Every turn of these facts: those that ended in the order of their ends, then those that run."""
    answers = [(step, e) for step in told if isinstance(e := step.entry.event, ev.Answer) and not isinstance(e, ev.Ongoing)]
    ended = [(step.before.open.get(e.key), step.entry.at, e) for step, e in answers]
    running = [(opened, None, None) for opened in told[-1].after.open.values()]
    kinds = {type(None): "", ev.Cancelled: "cancelled", ev.TurnLost: "lost", ev.WorkspaceLost: "lost"}
    for opened, ended_at, end in (*ended, *running):
        if opened and isinstance(turn := opened.effect, StartTurn) and not isinstance(end, ev.AgentCooling):
            outcome = end.outcome if isinstance(end, ev.TurnEnded) else None
            kind = outcome.kind if outcome else kinds.get(type(end), "failed")
            yield Turn(turn.key, turn.node, turn.seat, turn.agent, opened.at, ended_at, kind, outcome)


# The facts that need no more than their own fields to be told.
WORDS: dict[type[ev.Event], tuple[str, str]] = {
    ev.ResumeAsked: ("word", "going on"), ev.CancelAsked: ("word", "{reason}"), ev.ConfigChanged: ("word", "settings changed: {why}"),
    ev.Answered: ("question", "answered {question}: {text}"),
    ev.Noted: ("note", "{text}"), ev.StepFailed: ("note", "a step failed: {reason}"),
    ev.WorkspaceLost: ("note", "a workspace was lost: {reason}"), ev.HandlerCrashed: ("note", "a fault of nightcrew itself: {reason}"),
    ev.CommitRefused: ("work", "the commit was refused, {hook} exit {code}"),
    ev.LandingRefused: ("work", "landing refused, {why}: {detail}"),
    ev.DevFixSkipped: ("recovery", "no dev-fix: {reason}"), ev.DevFixAgentUnavailable: ("recovery", "nobody can work now: {reason}"),
    ev.ChainReset: ("recovery", "the {chain} chain starts at its front again"),
    ev.RecoveryEscalated: ("recovery", "level {from_level} becomes {to_level}"),
    ev.RecoverySucceeded: ("recovery", "recovered at attempt {total_attempts}"),
    ev.CompletionMarkerWriteFailed: ("recovery", "the completion marker could not be written: {error}"),
}  # fmt: skip
JUDGED: tuple[tuple[str, str, str, Callable[[str, Any], Said]], ...] = (  # how each entry of these fields is told, under which topic
    ("advice", "advising", "proposals", lambda seat, advice: (f"{seat} proposes: {line(advice.approach)}",)),
    ("advice", "advising", "absent", lambda seat, why: (f"{seat}: no advice, {why.reason}",)),
    ("judging", "judging", "out", lambda label, why: (f"{label} is not judged: {why}",)),
    ("judging", "judging", "leaks", lambda label, words: (f"{label} names {', '.join(words)} (an agent or a vendor)" if words else "",)),
    ("judging", "judging", "rankings", lambda seat, r: (f"{seat} ranks {', '.join(r.order)}", *(f"{k}: {w}" for k, w in r.reasons.items() if w))),
    ("judging", "judging", "absent", lambda seat, why: (f"{seat}: no answer, {why.reason}",)),
)  # fmt: skip


def said(step: Step) -> Iterator[Line]:
    """What a fact means to somebody who follows the run; nothing for most facts."""
    seq, at, event, before, after = step.entry.seq, step.entry.at, step.entry.event, step.before, step.after
    topic, words = WORDS.get(type(event), ("", ""))
    told: list[Said] = [(topic, words.format_map({name: getattr(event, name) for name in event.__struct_fields__}))]
    opened = before.open.get(event.key) if isinstance(event, ev.Answer) else None
    if opened and isinstance(opened.effect, StartTurn):
        told += _of_turn(opened.effect, step.entry, opened.at)
        if (before.reviewing.step, after.reviewing.step) == ("fix", "collect"):
            told += _of_fix(opened.effect.agent, after.reviewing)
    told += (*_of_work(step), *_of_recovery(step))
    told += [(name, text) for name, field in (("note", "notes"), ("kept", "kept")) for text in getattr(event, field, ())]
    if opened and (ref := getattr(event, "ref", "") or getattr(event, "rescued", "")):
        told.append(("rescued", f"{ref} (from {opened.effect.seat})" if opened.effect.seat else ref))
    told += (*_of_panel(step), *_of_judges(before, after))
    told += [("note", "no plan came of it: the task is the plan")] if after.planned > before.planned and not after.plan else []
    asked = (q for name, q in after.questions.items() if name not in before.questions)
    told += [("question", f"asks: {q.text} [{q.how}] {answer_command(after, q)}") for q in asked]
    if after.trouble and (before.trouble is None or before.trouble.failure is not after.trouble.failure):
        told.append(("recovery", f"{after.trouble.failed_phase} failed: {after.trouble.failure.reason}"))
    rounds, reviewing = rounds_of(after), after.phase is work.PipelinePhase.Review
    if (before.phase != after.phase or before is after) and not after.done and (rounds or not reviewing):
        told.append(("phase", f"→ {after.phase}" + (f", {rounds}" if rounds else "")))
    # What came from outside breaks no line: it could pass for one of ours.
    flat = ((topic, *(" ".join(text.splitlines()) for text in texts)) for topic, *texts in told)
    return (Line(seq, at, topic, words, tuple(more)) for topic, words, *more in flat if words)


def _of_turn(turn: StartTurn, entry: ev.Entry, began_at: float) -> Iterator[Said]:
    at, cools = where(turn.node, turn.seat), f"{turn.agent} cools down until "
    match entry.event:
        case ev.EffectBegun():
            yield "turn", f"{at}: {turn.agent} begins"
        case ev.TurnEnded(outcome=outcome):
            how = f"{outcome.kind}: {outcome.reason}" if outcome.reason else outcome.kind
            price = f", {outcome.usd:.2f} usd" if outcome.usd is not None else ""
            yield "turn", f"{at}: {turn.agent} ended, {how} ({span(entry.at - began_at)}{price})"
            if outcome.kind is work.Class.Quota and outcome.reset_at:
                yield "cooling", f"{cools}{clock(outcome.reset_at, entry.at)}: {outcome.reason}"
        case ev.TurnLost():
            yield "turn", f"{at}: the turn of {turn.agent} vanished and is asked again"
        case ev.Cancelled():
            yield "turn", f"{at}: {turn.agent} stopped"
        case ev.AgentCooling(until=until, window=window, source=source, why=why):
            told = ", ".join(filter(None, (why, window, source)))
            yield "cooling", f"{cools}{clock(until, entry.at)}" + (f": {told}" if told else "")
        case _:
            return


def _of_work(step: Step) -> Iterator[Said]:
    event, rivals = step.entry.event, step.before.settings.pipeline.implementers > 1
    opened = step.before.open.get(event.key) if isinstance(event, ev.Answer) else None
    whose = f"{opened.effect.seat}: " if opened and rivals and step.before.phase is work.PipelinePhase.Development else ""
    match event:
        case ev.ParkAsked(now=now):
            yield "word", "stopping now" if now else "parking: what runs may end (once more stops it now)"
        case ev.FixAsked(findings=findings, reason=reason, stale=stale):
            yield "word", f"a fix of {', '.join(f.id for f in findings)} is asked for: {reason}{' (stale, allowed)' * stale}"
        case ev.HandedOver(handover=h):
            words, _, number = h.reason.rpartition(" ")  # seconds since the epoch are told as a time of day
            why = f"{words} {clock(float(number), h.at)}" if words == "cools down until" and number.isdigit() else h.reason
            why = why if h.fail is work.FailClass.Other else f"{h.fail}: {why}"
            yield "handover", f"{where(h.node, h.seat)}: {h.from_agent} → {h.to_agent} ({why})"
        case ev.CommandsEnded(results=results, cached=cached) if opened:
            ends = [(r, "ran out of time" if r.timed_out else f"exits with {r.code}") for r in results]
            red = next((f"red, `{r.command}` {how}" for r, how in ends if not r.green), "green")
            more = [f"`{r.command}` {'ok' if r.green else how}, {span(r.took_s)}" for r, how in ends]
            more += [f"  | {text}" for r in results for text in r.output.tail.splitlines()[-TAIL_LINES:] if not r.green]
            yield "commands", f"{whose}{opened.effect.node} {red}" + (" (known)" if cached else ""), *more
        case ev.WorkCollected(change=change) if change.files:
            same = (was := step.before.winning) and was.change.tree == change.tree
            yield "work", f"{whose}work collected: {size(change)} {'as before' if same else 'in all'}"
        case ev.BaseSynced(state="rebased" | "conflict" as state, tip=tip, paths=paths, note=note):
            how = f"conflict in {', '.join(paths)}" if state == "conflict" else note or "rebased"
            yield "work", f"the target moved to {tip[:10]}: {how}"
        case ev.EffectStarted(effect=Timer(fire_at=until, why=why)):
            yield "wait", f"waiting until {clock(until, step.entry.at)}: {why}"
        case _:
            return


def _of_recovery(step: Step) -> Iterator[Said]:
    """How an attempt ended, what it reset, and where the work that was there is."""
    match step.entry.event:
        case ev.DevFixCompleted(success=success, summary=summary):
            yield "recovery", f"dev-fix {'done' if success else 'failed'}" + (f": {summary}" if summary else "")
        case ev.RecoveryAttempted(level=level, attempt_count=n, target_phase=phase):
            yield "recovery", f"{f'attempt {n}: ' if n else ''}back to {phase} at level {level}, {RESETS[level]}"
        case ev.WorkspaceReset(key=key, head=head, rescued=ref, skipped=skipped) if opened := step.before.open.get(key):
            more = (f", {count(len(skipped), 'repair')} left out" if skipped else "") + (f", rescued: {ref}" if ref else "")
            yield "recovery", f"{opened.effect.seat} is set back to {head[:10]}{more}"
        case _:
            return


def _of_fix(who: str, at: Reviewing) -> Iterator[Said]:
    """What the fixer says of each finding it was given, and of nothing else."""
    asked, said = [f.id for f in asked_to_fix(at)], at.fixed or work.FixReport(())
    words = dict.fromkeys(said.addressed, f"addressed, says {who}")
    words |= {name: f"rejected, {why}" for name, why in said.rejected.items()}
    yield from (("review", f"{name}: {words.get(name, f'unreported, {who} says nothing of it')}") for name in asked)
    if strange := [name for name in words if name not in asked]:
        yield "note", f"{who} speaks of {', '.join(strange)}, which it was not given"


def _of_panel(step: Step) -> Iterator[Said]:
    """What a reviewer found, how it voted in the end, or that it did not answer."""
    was, now = step.before.reviewing, step.after.reviewing
    for seat, review in step.reviewed().items():
        found, blocking = count(len(review.findings), "finding"), sum(f.blocks for f in review.findings)
        vote = review.vote.replace("_with_findings", "") + (f", {found}" if review.findings else "")
        places = ((f, f" {f.file}:{f.line}" if f.line else f" {f.file}" if f.file else "") for f in review.findings)
        more = (f"{f.id} {f.severity}{place}: {f.why}" for f, place in places)
        yield "review", f"{seat}: {vote}" + (f" ({blocking} blocking)" if blocking else ""), *more
    for seat, final in now.second.items():
        if was.second.get(seat) is not final:
            yield "review", f"{seat}: finally {final.vote.replace('_', ' ')}" + (f", {final.why}" if final.why else "")
    missed = {seat: failure.reason for seat, failure in now.absent.items() if seat not in was.absent}
    yield from (("review", f"{seat}: no answer, so the review is incomplete: {why}") for seat, why in missed.items())
    if now.deferred > was.deferred:
        yield "review", "e2e is put off while a finding blocks"


def _of_judges(before: RunState, after: RunState) -> Iterator[Said]:
    """What was advised; what a judge ranked or argued, who did not answer, who is not judged, and how it was decided."""
    for topic, part, field, words in JUDGED:
        old, new = (getattr(getattr(state, part), field) for state in (before, after))
        yield from ((topic, *words(key, told)) for key, told in new.items() if old.get(key) is not told)
    was, now = before.judging, after.judging
    for seat, turn in now.turns[len(was.turns) :]:
        yield "judging", f"{seat} leans to {turn.choice}: {line(turn.why, 400)}"
    if (tally := now.tally) and tally is not was.tally:
        votes = ", ".join(f"{label} {n}" for label, n in tally.votes.items())
        votes = f"{tally.present} of {count(tally.judges, 'judge')}, votes {votes}"
        how = f"{tally.winner} wins: {tally.reason} ({votes})" if tally.winner else f"no decision: {tally.reason}"
        yield "judging", how, *(f"{seat} votes for {b.choice}" for seat, b in sorted(now.ballots.items()) if now.spoken)
    elif now.step == "drop" != was.step and not tally and after.settings.pipeline.implementers > 1:
        yield "judging", f"{after.winner} alone is left, and nobody has to judge"


def rivals(candidates: Iterable[work.Candidate], winner: str, at: Judging) -> Iterator[str]:
    """The candidates side by side; while it is not decided which is the best, nothing is said of their authors."""
    told = sorted(candidates, key=lambda c: c.label)
    for c in told:
        checks = f"checks {sum(r.green for r in c.checks)} of {len(c.checks)}" if c.checks else "no checks"
        judged = at.tally if at.tally and c.label in at.tally.votes else None
        points = f"{judged.borda[c.label]} points, {count(judged.votes[c.label], 'vote')}" if judged else ""
        out, by = at.out.get(c.label, ""), f"by {c.agent}" if winner or not told[1:] else ""
        more = ", ".join(filter(None, ("wins" if c.label == winner else "", out and f"not judged: {out}", c.failure, by)))
        yield f"{c.label}  {size(c.change):<20} {checks:<14} {points:<20}  {more}".rstrip()


def where(node: str, seat: str) -> str:
    """A seat; with the node where a seat works at several."""
    return seat if node in _ALONE or node == seat else f"{seat} at {node}"


def size(change: work.Change) -> str:
    """How big a change is."""
    return f"{count(change.files, 'file')}, +{change.insertions} -{change.deletions}"


def rounds_of(state: RunState) -> str:
    """Which round of how many the present phase is in; "" where none are counted, and in Review by nobody."""
    told, review, gate, landing = state.settings.pipeline, state.reviewing, state.validating, state.trying
    word, n, most = {
        work.PipelinePhase.Review: ("round", review.round if seats(state) else 0, told.review_rounds + review.granted),
        work.PipelinePhase.FinalValidation: ("gate fix", gate.rounds, told.gate_fix_rounds + gate.granted),
        work.PipelinePhase.Landing: ("landing fix", landing.rounds, told.land_rounds + landing.granted),
    }.get(state.phase, ("", 0, 0))
    return f"{word} {n} of {most}" if n else ""

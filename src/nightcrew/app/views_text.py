"""A story in words for a terminal: plain lines, no colour. What is told comes from `views_story`."""

from collections.abc import Iterator

from nightcrew.app.views import clock, count, printable, span
from nightcrew.app.views_story import Ending, Ran, Round, Story
from nightcrew.core.limits import VALVES, Limit
from nightcrew.core.state import line
from nightcrew.core.work import Handover

ENDS = frozenset({"Complete", "Interrupted"})
TAIL_LINES = 12
"""Lines of a red command's output that a story shows."""


def told(story: Story) -> list[str]:
    """The whole story."""
    parts = (
        _head, _questions, _notes, _phases, _seats, _handovers, _candidates, _rounds, _commands, _recovery, _waits,
        _rescues, _cost, _end,
    )  # fmt: skip
    return [printable(text) for part in parts for text in part(story)]


def recovery_told(story: Story) -> list[str]:
    """The recovery alone: where it stands and its record."""
    lines = [
        f"{story.stands.short} · {story.title}",
        f"  {story.stands.headline}",
        *_recovery(story),
        *_waits(story),
        *_rescues(story),
    ]
    if not story.recovery.record:
        lines.append("  nothing went wrong for good, so nothing was recovered")
    return [printable(text) for text in lines]


def ending_told(end: Ending) -> list[str]:
    """The last words of `run`, `resume` and `watch`: how it stands, what comes next, how to undo it, where the story is."""
    lines = [f"{end.short} {end.headline}"]
    lines += [f"  next: {end.next_command}"] if end.next_command else []
    lines += [f"  undo: {end.undo}"] if end.undo and end.word == "landed" else []
    return [printable(text) for text in (*lines, f"  the whole story: nightcrew show {end.short}")]


def _head(story: Story) -> Iterator[str]:
    stands = story.stands
    yield f"{stands.short} · {story.title}"
    yield f"  {stands.headline}"
    if stands.next_command:
        yield f"  next: {stands.next_command}"
    began = f"began {clock(story.started_at, story.last_at)}, {span(story.last_at - story.started_at)}"
    yield f"  run {stands.run} · {began} · target {story.target} · base {story.base[:10]} · sandbox {story.shelter}"


def _questions(story: Story) -> Iterator[str]:
    if story.questions:
        yield "Questions"
    for asked in story.questions:
        q = asked.question
        if asked.answered_at is not None:
            said = f" (answered: {asked.answer})"
        else:
            said = f" [{q.how}]" + (" (open, the run waits)" if q.holds else " (open, the run goes on)")
        yield f"  {clock(q.asked_at, story.last_at)} {q.text}{said}"


def _notes(story: Story) -> Iterator[str]:
    if story.notes:
        yield "Notes"
    yield from (f"  {note}" for note in story.notes)


def _phases(story: Story) -> Iterator[str]:
    yield "Phases"
    for visit in story.phases:
        if visit.phase not in ENDS:
            took = "still" if visit.ended_at is None else span(visit.ended_at - visit.began_at)
            yield f"  {clock(visit.began_at, story.last_at)} {visit.phase:<16} {took}"


def _seats(story: Story) -> Iterator[str]:
    if story.turns:
        yield "Seats"
    for seat in dict.fromkeys(turn.seat for turn in story.turns):
        mine = [turn for turn in story.turns if turn.seat == seat]
        took = sum(turn.ended_at - turn.began_at for turn in mine if turn.ended_at is not None)
        runs = [f", runs since {clock(turn.began_at, story.last_at)}" for turn in mine if turn.ended_at is None]
        said = [turn.outcome.answer.tail for turn in mine if turn.outcome and turn.outcome.answer]
        last = f" · {line(' '.join(said[-1].split()), 80)}" if said else ""
        yield f"  {seat:<10} {mine[-1].agent:<12} {count(len(mine), 'turn')}, {span(took)}{''.join(runs)}{last}"
        for turn in mine:
            if turn.kind not in {"ok", ""}:
                why = f": {turn.outcome.reason}" if turn.outcome and turn.outcome.reason else ""
                yield f"    {clock(turn.began_at, story.last_at)} {turn.agent} {turn.kind}{why}"


def _handovers(story: Story) -> Iterator[str]:
    if story.handovers:
        yield "Handovers"
    for h in story.handovers:
        where = h.seat if h.node == h.seat else f"{h.seat} at {h.node}"
        yield f"  {clock(h.at, story.last_at)} {where}: {h.from_agent} → {h.to_agent} ({h.fail}: {_reason(h, story.last_at)})"


def _reason(handover: Handover, now: float) -> str:
    """The reason; one that tells a time as seconds since the epoch tells it as a time of day."""
    words, _, number = handover.reason.rpartition(" ")
    is_time = words == "cools down until" and number.isdigit()
    return f"{words} {clock(float(number), now)}" if is_time else handover.reason


def _candidates(story: Story) -> Iterator[str]:
    if story.candidates:
        yield "Candidates"
    for c in story.candidates:
        size = f"{count(c.change.files, 'file')}, +{c.change.insertions} -{c.change.deletions}"
        checks = f"checks {'green' if all(r.green for r in c.checks) else 'red'}" if c.checks else ""
        more = (size, checks, "wins" if c.label == story.winner else "", c.failure)
        yield f"  {c.label} by {c.agent}: {', '.join(filter(None, more))}"


def _rounds(story: Story) -> Iterator[str]:
    if story.rounds:
        yield "Review"
    for r in story.rounds:
        yield from _round(r, story.last_at)


def _round(r: Round, now: float) -> Iterator[str]:
    found = count(len(r.review.findings), "finding") if r.review.findings else "no findings"
    yield f"  {clock(r.at, now)} round {r.round}, {r.seat}: {r.review.vote.replace('_', ' ')}, {found}"
    addressed, rejected = (r.fixed.addressed, r.fixed.rejected) if r.fixed else ((), {})
    for f in r.review.findings:
        where = f" {f.file}:{f.line}" if f.line else f" {f.file}" if f.file else ""
        became = f"rejected: {rejected[f.id]}" if f.id in rejected else "addressed" if f.id in addressed else "open"
        yield f"    {f.id} {f.severity}{where}: {f.why} ({became})"


def _commands(story: Story) -> Iterator[str]:
    if story.commands:
        yield "Commands"
    for batch in story.commands:
        yield from _batch(batch, story.last_at)


def _batch(batch: Ran, now: float) -> Iterator[str]:
    known = " (known green)" if batch.cached else ""
    yield f"  {clock(batch.at, now)} {batch.purpose} {'green' if batch.green else 'red'}{known}"
    for r in batch.results:
        how = "ok" if r.green else "out of time" if r.timed_out else f"exit {r.code}"
        yield f"    `{r.command}` {how}, {span(r.took_s)}"
        if not r.green:
            yield from (f"      | {line}" for line in r.output.tail.splitlines()[-TAIL_LINES:])


def _recovery(story: Story) -> Iterator[str]:
    at = story.recovery
    if at.record:
        yield "Recovery"
    yield from (f"  {clock(mended.at, story.last_at)} {mended.what}" for mended in at.record)
    if at.failure:
        after = f", next at {clock(at.next_at, story.last_at)}" if at.next_at else ""
        yield f"  now: level {max(1, at.level)}, {count(at.attempts, 'attempt')} made{after}"


def _waits(story: Story) -> Iterator[str]:
    if story.waits:
        yield "Waits"
    for w in story.waits:
        over = (
            f"until {clock(w.until_at, story.last_at)}"
            if w.ended_at is None
            else f"over after {span(w.ended_at - w.began_at)}"
        )
        yield f"  {clock(w.began_at, story.last_at)} {w.why}, {over}"


def _rescues(story: Story) -> Iterator[str]:
    if story.rescues:
        yield "Rescued work"
    for r in story.rescues:
        yield f"  {clock(r.at, story.last_at)} {r.ref}" + (f" (from {r.seat})" if r.seat else "")


def _cost(story: Story) -> Iterator[str]:
    c = story.spend
    unpriced = f", {c.unpriced} of {count(c.turns, 'turn')} without a price" if c.unpriced else ""
    yield "Cost"
    yield f"  {c.usd:.2f} usd{unpriced} · {c.tokens} tokens · {count(c.turns, 'turn')} · {span(c.wall_s)} busy"
    yield "  limits: " + " · ".join(_bound(valve, getattr(story.limits, valve)) for valve in VALVES)


def _bound(name: str, limit: Limit) -> str:
    if limit.value is None:
        return f"{name} none"
    amount = span(limit.value) if name == "wall" else f"{limit.value:g}"
    return f"{name} {amount}" + (" (yours)" if limit.mine else "")


def _end(story: Story) -> Iterator[str]:
    if story.kept:
        yield "Kept"
        yield from (f"  {kept}" for kept in story.kept)
    landing = story.landing
    if landing is not None:
        replaced = f", which replaced {landing.replaced[:10]}" if landing.replaced else ""
        note = f" ({landing.note})" if landing.note else ""
        yield "Landing"
        yield f"  {landing.mode}: {landing.commit[:10]} on {landing.branch}{replaced}{note}"
        yield f"  undo: {story.stands.undo}"

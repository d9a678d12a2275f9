"""A story in words for a terminal: plain lines, no colour. What is told comes from `views_story`."""

from collections.abc import Iterator

from nightcrew.app.views import clock, count, printable, span
from nightcrew.app.views_story import Ending, Story
from nightcrew.app.views_work import Ran, Round

ENDS = frozenset({"Complete", "Interrupted"})
TAIL_LINES = 12
"""Lines of a red command's output that a story shows."""


def told(story: Story) -> list[str]:
    """The whole story."""
    parts = (
        _head,
        _questions,
        _notes,
        _phases,
        _seats,
        _handovers,
        _candidates,
        _rounds,
        _commands,
        _recovery,
        _waits,
        _rescues,
    )
    lines = [line for part in parts for line in part(story)]
    return [printable(line) for line in (*lines, *_cost(story), *_end(story))]


def recovery_told(story: Story) -> list[str]:
    """The recovery alone: where it stands and its record."""
    lines = [
        f"{story.short} · {story.title}",
        f"  {story.headline}",
        *_recovery(story),
        *_waits(story),
        *_rescues(story),
    ]
    if not story.recovery.record:
        lines.append("  nothing went wrong for good, so nothing was recovered")
    return [printable(line) for line in lines]


def _head(story: Story) -> Iterator[str]:
    yield f"{story.short} · {story.title}"
    yield f"  {story.headline}"
    if story.next_command:
        yield f"  next: {story.next_command}"
    took = span(story.last_at - story.started_at)
    began = clock(story.started_at, story.last_at)
    yield f"  run {story.run} · began {began}, {took} · target {story.target} · base {story.base[:10]}"
    if story.shelter:
        yield f"  sandbox: {story.shelter}"


def _questions(story: Story) -> Iterator[str]:
    if story.questions:
        yield "Questions"
    for q in story.questions:
        how = f" [{q.how}]" if q.how and q.answered_at is None else ""
        said = (
            f"answered: {q.answer}"
            if q.answered_at is not None
            else "open, the run waits"
            if q.holds
            else "open, the run goes on"
        )
        yield f"  {clock(q.asked_at, story.last_at)} {q.text}{how} ({said})"


def _notes(story: Story) -> Iterator[str]:
    if story.notes:
        yield "Notes"
    yield from (f"  {note}" for note in story.notes)


def _phases(story: Story) -> Iterator[str]:
    yield "Phases"
    for phase in story.phases:
        if phase.phase not in ENDS:
            took = "still" if phase.ended_at is None else span(phase.ended_at - phase.began_at)
            yield f"  {clock(phase.began_at, story.last_at)} {phase.phase:<16} {took}"


def _seats(story: Story) -> Iterator[str]:
    if story.seats:
        yield "Seats"
    for seat in story.seats:
        took = f"{count(seat.turns, 'turn')}, {span(seat.took_s)}"
        since = seat.running_since_at
        runs = "" if since is None else f", runs since {clock(since, story.last_at)}"
        yield f"  {seat.seat:<10} {seat.agent:<12} {took}{runs}" + (f" · {seat.last}" if seat.last else "")
        bad = [turn for turn in story.turns if turn.seat == seat.seat and turn.kind not in {"ok", ""}]
        yield from (
            f"    {clock(t.began_at, story.last_at)} {t.agent} {t.kind}: {t.reason or 'no reason given'}" for t in bad
        )


def _handovers(story: Story) -> Iterator[str]:
    if story.handovers:
        yield "Handovers"
    for h in story.handovers:
        yield f"  {clock(h.at, story.last_at)} {h.seat} at {h.node}: {h.from_agent} → {h.to_agent} ({h.fail}: {h.reason})"


def _candidates(story: Story) -> Iterator[str]:
    if story.candidates:
        yield "Candidates"
    for c in story.candidates:
        size = f"{count(c.files, 'file')}, +{c.insertions} -{c.deletions}"
        more = [f"checks {c.checks}" if c.checks else "", "wins" if c.wins else "", c.failure]
        yield f"  {c.label} by {c.agent} on {c.branch}: " + ", ".join((size, *filter(None, more)))


def _rounds(story: Story) -> Iterator[str]:
    if story.rounds:
        yield "Review"
    for r in story.rounds:
        yield from _round(r, story.last_at)


def _round(r: Round, now: float) -> Iterator[str]:
    found = count(len(r.findings), "finding") if r.findings else "no findings"
    yield f"  {clock(r.at, now)} round {r.round}, {r.seat}: {r.vote.replace('_', ' ')}, {found}"
    for f in r.findings:
        where = f" {f.file}:{f.line}" if f.line else f" {f.file}" if f.file else ""
        became = f"{f.became}: {f.reason}" if f.reason else f.became
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
            yield from (f"      | {line}" for line in r.tail.splitlines()[-TAIL_LINES:])


def _recovery(story: Story) -> Iterator[str]:
    at = story.recovery
    if at.record:
        yield "Recovery"
    for line in at.record:
        yield f"  {clock(line.at, story.last_at)} {line.what}"
    if at.because:
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
    c = story.cost
    unpriced = f", {c.unpriced} of {c.turns} turns without a price" if c.unpriced else ""
    yield "Cost"
    yield f"  {c.usd:.2f} usd{unpriced} · {c.tokens} tokens · {count(c.turns, 'turn')} · {span(c.wall_s)} busy"
    yield "  limits: " + " · ".join(_bound(b.limit, b.value, b.origin) for b in c.limits)


def _bound(name: str, value: float | None, origin: str) -> str:
    if value is None:
        return f"{name} none"
    amount = span(value) if name == "wall" else f"{value:g}"
    return f"{name} {amount}" + (" (yours)" if origin == "operator" else "")


def _end(story: Story) -> Iterator[str]:
    if story.kept:
        yield "Kept"
        yield from (f"  {line}" for line in story.kept)
    landing = story.landing
    if landing is None:
        return
    yield "Landing"
    replaced = f", which replaced {landing.replaced[:10]}" if landing.replaced else ""
    yield f"  {landing.mode}: {landing.commit[:10]} on {landing.branch}{replaced}" + (
        f" ({landing.note})" if landing.note else ""
    )
    yield f"  undo: {landing.undo}"


def ending_told(end: Ending) -> list[str]:
    """The last words of `run`, `resume` and `watch`: how it stands, what comes next, how to undo it, where the story is."""
    lines = [f"{end.short} {end.headline}"]
    lines += [f"  next: {end.next_command}"] if end.next_command else []
    lines += [f"  undo: {end.undo}"] if end.undo and end.word == "landed" else []
    return [printable(line) for line in (*lines, f"  the whole story: nightcrew show {end.short}")]

"""A story in words for a terminal: plain lines, no colour. What is told comes from `story`."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from nightcrew.app.home import DRIVEN
from nightcrew.app.story import Story, rivals
from nightcrew.app.views import EXITS, Conclusion, clock, count, span
from nightcrew.core.settings import VALVES
from nightcrew.core.state import line
from nightcrew.core.work import Class


def recovery_told(story: Story) -> list[str]:
    """The recovery alone: where it stands and its record."""
    nothing = [] if story.recovery.record else ["  nothing went wrong for good, so nothing was recovered"]
    return told(story, ("Recovery", "Waits", "Rescued work")) + nothing


def ending_told(end: Conclusion) -> list[str]:
    """The last words of `run`, `resume` and `watch`: how it stands, what comes next, how to undo it, where the story is."""
    lines, show = [f"{end.short} {end.headline}{' (stopped)' * (end.word in DRIVEN)}"], f"nightcrew show {end.short}"
    lines += [f"  next: {end.next_command}"] if end.next_command not in {"", show} else []
    lines += [f"  undo: {end.undo}"] if end.undo and end.word == "landed" else []
    return [*lines, f"  the whole story: {show}"]


def told(story: Story, titles: Iterable[str] = ()) -> list[str]:
    """The whole story, or its sections with these titles."""
    stands, started = story.stands, story.started
    lines = [f"{stands.short} · {started.task.title}", f"  {stands.headline}"]
    lines += [f"  next: {stands.next_command}"] if stands.next_command not in {"", f"nightcrew show {stands.short}"} else []
    # How long a run that goes on has been at it, its facts do not tell.
    lasted = f", {span(story.last_at - story.began_at)}" if stands.exit_code != EXITS["running"] else ""
    where = f"target {started.target} · base {story.base[:10]} · sandbox {started.shelter}"
    lines.append(f"  run {stands.run} · began {clock(story.began_at, story.last_at)}{lasted} · {where}")
    for title in titles or SECTIONS:
        section = SECTIONS[title]
        found = [f"  {text}" for text in (_lines(section, story) if isinstance(section, str) else section(story))]
        lines += [title, *found] if found else []
    return lines


def _lines(topic: str, story: Story) -> list[str]:
    mine = [told for told in story.lines if told.topic == topic]
    if topic in ONCE:
        return list(dict.fromkeys(told.what for told in mine))
    return [text for t in mine for text in (f"{clock(t.at, story.last_at)} {t.what}", *(f"  {more}" for more in t.more))]


def _seats(story: Story) -> Iterator[str]:
    for seat in dict.fromkeys(turn.seat for turn in story.turns):
        mine = [turn for turn in story.turns if turn.seat == seat]
        took = sum(turn.ended_at - turn.began_at for turn in mine if turn.ended_at is not None)
        runs = [f", runs since {clock(turn.began_at, story.last_at)}" for turn in mine if turn.ended_at is None]
        end = next((turn.outcome for turn in reversed(mine) if turn.outcome), None)
        words = " ".join(end.answer.tail.split()) if end and end.answer else ""
        said = getattr(end.report, "subject", "") if end and end.report else line(words, 80)  # other lines tell the rest
        last, nodes = f" · {said}" if said else "", Counter(turn.node for turn in mine)
        rounds = f" ({', '.join(f'{node} {n}' for node, n in nodes.items())})" if len(nodes) > 1 else ""
        yield f"{seat:<10} {mine[-1].agent:<12} {count(len(mine), 'turn')}{rounds}, {span(took)}{''.join(runs)}{last}"
        for turn in mine:
            if turn.kind not in {"ok", ""}:
                why = f": {turn.outcome.reason}" if turn.outcome and turn.outcome.reason else ""
                yield f"  {clock(turn.began_at, story.last_at)} {turn.agent} {turn.kind}{why}"


def _cost(story: Story) -> Iterator[str]:
    c = story.spend
    unpriced = f", {c.unpriced} of {count(c.turns, 'turn')} without a price" if c.unpriced else ""
    yield f"{c.usd:.2f} usd{unpriced} · {c.tokens} tokens · {count(c.turns, 'turn')} · {span(c.wall_s)} busy"
    if spent := [turn.outcome for turn in story.turns if turn.outcome and turn.kind == Class.Quota]:
        usd, lost = sum(outcome.usd or 0.0 for outcome in spent), count(len(story.quota_losses), "call")
        yield f"quota: {count(len(spent), 'turn')} ended on it ({usd:.2f} usd), {lost} had nobody left to ask"
    bounds = []
    for name in VALVES:
        value, yours = getattr(story.started.limits, name).value, " (yours)" if getattr(story.started.limits, name).mine else ""
        bounds.append(f"{name} none" if value is None else f"{name} {span(value) if name == 'wall' else f'{value:g}'}{yours}")
    yield "limits: " + " · ".join(bounds)


def _landing(story: Story) -> Iterator[str]:
    if landing := story.landing:
        more = f", which replaced {landing.replaced[:10]}" if landing.replaced else ""
        more += f" ({landing.note})" if landing.note else ""
        yield f"{landing.mode}: {landing.commit[:10]} on {landing.branch}{more}"
        yield from [f"undo: {story.stands.undo}"] if story.stands.undo else []


# Title and contents of each part of a story, a topic of its lines or what makes them; a part without lines is left out.
SECTIONS: dict[str, str | Callable[[Story], Iterator[str]]] = {
    "Questions": "question", "Notes": "note", "Your words": "word", "Phases": "phase", "Seats": _seats,
    "Chains": lambda told: (f"{role:<12} {' → '.join(ids)}" for role, ids in told.started.roles.chains.items()),
    "Handovers": "handover", "Cooling": "cooling", "Candidates": lambda told: rivals(told.candidates, told.winner, told.judging),
    "Advice": "advice", "Judging": "judging", "Review": "review", "Commands": "commands", "Recovery": "recovery", "Waits": "wait",
    "Rescued work": "rescued", "Cost": _cost, "Kept": "kept", "Landing": _landing,
}  # fmt: skip
ONCE = {"note", "cooling", "rescued", "kept"}  # topics of which nobody asks when or how often

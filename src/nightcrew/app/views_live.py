"""A run while it goes on: what each new fact means in one line, and what a screen shows of the moment. Facts alone, but for `activity`."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from nightcrew.app.home import home_of
from nightcrew.app.views import (
    Entry,
    RunState,
    answer_command,
    clock,
    conclusion,
    count,
    doing_now,
    headline,
    printable,
    span,
    waits_for,
)
from nightcrew.app.views_journal import effect_folder
from nightcrew.app.views_story import Step, mended
from nightcrew.core import events as ev
from nightcrew.core.effects import Ask, RunCommands, StartTurn, Timer
from nightcrew.core.ids import EffectId, short
from nightcrew.core.state import line
from nightcrew.core.work import PipelinePhase

__all__ = ["Entry", "Panel", "Place", "RunState", "activity", "changes", "panel"]

_OWN = frozenset({"plan", "implement", "review", "commit", "dev-fix"})
"""Nodes whose seats say enough."""
_TELLING = ("text", "command", "file_path", "path", "pattern", "query")
"""Names under which the events of agent programs hold words for a person."""
TAIL = 16 * 1024
"""Bytes of an agent's output in which its newest words are looked for."""


class Place(NamedTuple):
    """Something that goes on now: a seat and who sits there, or commands; since when (seconds since the epoch)."""

    key: EffectId
    seat: str
    who: str
    since_at: float
    queued: bool


class Panel(NamedTuple):
    """What a screen shows of the moment, each part one line; times in `places` are left to the one who draws."""

    title: str
    stands: str
    rounds: str
    places: tuple[Place, ...]
    spend: str
    next: str


def panel(state: RunState) -> Panel:
    """The run at this moment."""
    return Panel(
        title=printable(f"{short(state.started.run)} · {state.started.task.title}"),
        stands=printable(headline(state)) if conclusion(state).word != "running" else str(state.phase),
        rounds=_rounds(state),
        places=tuple(_places(state)),
        spend=_spend(state),
        next=printable(_next(state)),
    )


def _places(state: RunState) -> Iterator[Place]:
    for key, opened in state.open.items():
        match opened.effect:
            case StartTurn() as turn:
                yield Place(key, _where(turn), turn.agent, opened.at, not opened.begun)
            case RunCommands() as batch:
                yield Place(key, batch.purpose, batch.commands[0], opened.at, not opened.begun)
            case Timer() | Ask():
                pass
            case other:
                yield Place(key, "", doing_now(other), opened.at, queued=False)


def _rounds(state: RunState) -> str:
    told = state.settings.pipeline
    match state.phase:
        case PipelinePhase.Review:
            return f"round {state.reviewing.round} of {told.review_rounds + state.reviewing.granted}"
        case PipelinePhase.FinalValidation if state.validating.rounds:
            return f"gate fix {state.validating.rounds} of {told.gate_fix_rounds + state.validating.granted}"
        case PipelinePhase.Landing if state.trying.rounds:
            return f"landing fix {state.trying.rounds} of {told.land_rounds + state.trying.granted}"
        case _:
            return ""


def _spend(state: RunState) -> str:
    spent = state.spend
    unpriced = f" + {spent.unpriced} unpriced" if spent.unpriced else ""
    return f"{spent.usd:.2f} usd{unpriced} · {count(spent.turns, 'turn')}"


def _next(state: RunState) -> str:
    question = next(iter(state.questions.values()), None)
    if question is not None:
        return f"{line(question.text)} {answer_command(state, question)}"
    timer = waits_for(state)
    return f"{clock(timer.fire_at, state.at)}, {timer.why}" if timer is not None else ""


# ── one line for each fact that means something ───────────────────────────────────────────────────────────────────


def changes(before: RunState | None, after: RunState, entry: Entry) -> list[str]:
    """What this fact means to somebody who follows the run; nothing for most facts."""
    step = Step(entry, before or after, after)
    lines = [*_of_turns(step), *_of_commands(step), *_of_people(step), *_of_work(step), *mended(step)]
    if step.before.phase != after.phase and not after.done:
        lines.append(f"→ {after.phase}" + (f", {rounds}" if (rounds := _rounds(after)) else ""))
    return [printable(text) for text in lines]


def _of_turns(step: Step) -> Iterator[str]:
    event = step.entry.event
    opened = step.before.open.get(event.key) if isinstance(event, ev.Answer) else None
    turn = opened.effect if opened and isinstance(opened.effect, StartTurn) else None
    match event:
        case ev.EffectBegun() if turn:
            yield f"{_where(turn)}: {turn.agent} begins"
        case ev.TurnEnded(outcome=outcome) if turn and opened:
            how = outcome.kind if not outcome.reason else f"{outcome.kind}: {outcome.reason}"
            price = f", {outcome.usd:.2f} usd" if outcome.usd is not None else ""
            yield f"{_where(turn)}: {turn.agent} ended, {how} ({span(step.entry.at - opened.at)}{price})"
        case ev.TurnLost() if turn:
            yield f"{_where(turn)}: the turn of {turn.agent} vanished and is asked again"
        case ev.Cancelled(rescued=ref) if turn:
            yield f"{_where(turn)}: {turn.agent} stopped" + (f", its work is kept as {ref}" if ref else "")
        case ev.HandedOver(handover=h):
            yield f"{h.seat}: {h.from_agent} → {h.to_agent} ({h.fail}: {h.reason})"
        case _:
            return


def _where(turn: StartTurn) -> str:
    """The seat; with the node where a seat works at several."""
    return turn.seat if turn.node in _OWN or turn.node == turn.seat else f"{turn.seat} at {turn.node}"


def _of_commands(step: Step) -> Iterator[str]:
    event = step.entry.event
    if not isinstance(event, ev.CommandsEnded) or event.key not in step.before.open:
        return
    effect = step.before.open[event.key].effect
    red = next((r for r in event.results if not r.green), None)
    how = (
        "green"
        if red is None
        else f"red, `{red.command}` " + ("ran out of time" if red.timed_out else f"exits with {red.code}")
    )
    yield f"{effect.node} {how}" + (" (known)" if event.cached else "")


def _of_people(step: Step) -> Iterator[str]:
    match step.entry.event:
        case ev.ParkAsked(now=now):
            yield "stopping now" if now else "parking: what runs may end, nothing new begins (once more stops it now)"
        case ev.ResumeAsked():
            yield "going on"
        case ev.CancelAsked(reason=reason):
            yield reason
        case ev.Answered(question=name, text=text):
            yield f"answered {name}: {text}"
        case ev.ConfigChanged(why=why):
            yield f"settings changed: {why}"
        case ev.Noted(text=text):
            yield f"note: {text}"
        case _:
            pass
    for name, question in step.after.questions.items():
        if name not in step.before.questions:
            yield f"asks: {question.text} {answer_command(step.after, question)}"


def _of_work(step: Step) -> Iterator[str]:
    match step.entry.event:
        case ev.WorkCollected(change=change) if change.files:
            yield f"work collected: {count(change.files, 'file')}, +{change.insertions} -{change.deletions}"
        case ev.BaseSynced(state=how, tip=tip, paths=paths) if how in {"rebased", "conflict"}:
            yield f"the target moved to {tip[:10]}: " + (
                "rebased" if how == "rebased" else f"conflict in {', '.join(paths)}"
            )
        case ev.CommitRefused(hook=hook, code=code):
            yield f"the commit was refused by {hook or 'git'} (exit {code})"
        case ev.LandingRefused(why=why, detail=detail):
            yield f"landing refused, {why}: {detail}"
        case ev.EffectStarted(effect=Timer() as timer):
            yield f"waiting until {clock(timer.fire_at, step.entry.at)}: {timer.why}"
        case ev.WorkspaceLost(reason=reason) | ev.StepFailed(reason=reason) | ev.HandlerCrashed(reason=reason):
            yield f"a step failed: {reason}"
        case _:
            pass
    now, old = step.after.reviewing.reviews, step.before.reviewing.reviews
    for seat, review in now.items():
        if old.get(seat) is not review:
            blocking = sum(f.blocks for f in review.findings)
            found = (
                f", {count(len(review.findings), 'finding')}" + (f" ({blocking} blocking)" if blocking else "")
                if review.findings
                else ""
            )
            yield f"{seat}: {review.vote.replace('_', ' ')}{found}"


# ── what an agent says while it works ─────────────────────────────────────────────────────────────────────────────


def activity(place: Place, env: Mapping[str, str]) -> str:
    """The newest words of an agent at work, or what it does; "" when it said nothing yet."""
    try:
        with (effect_folder(home_of(env), place.key) / "stdout").open("rb") as file:
            file.seek(max(0, file.seek(0, 2) - TAIL))
            text = file.read().decode(errors="replace")
    except OSError:
        return ""
    said = (line(_words(part), 70) for part in reversed(text.splitlines()))
    return printable(next(filter(None, said), ""))


def _words(said: str) -> str:
    """What a line of output tells a person; of an event in JSON, of whatever program, the words and names in it."""
    try:
        event = msgspec.json.decode(said)
    except msgspec.DecodeError:
        return said
    return " ".join(_told(event))


def _told(value: object) -> Iterator[str]:
    match value:
        case dict():
            yield from (value[key] for key in ("name", *_TELLING) if isinstance(value.get(key), str))
            yield from (words for part in value.values() for words in _told(part))
        case list():
            yield from (words for part in value for words in _told(part))
        case _:
            return

"""A run while it goes on: what a screen shows of the moment, and following a run that another process drives. Changes nothing."""

import re
import time
from collections.abc import Callable, Iterator, Mapping

import msgspec

from nightcrew.app.home import hide, home_of
from nightcrew.app.seen import Seen, effect_folder
from nightcrew.app.story import Step, rounds_of, said, steps, where
from nightcrew.app.views import answer_command, clock, conclusion, count, doing_now, span, waits_for
from nightcrew.core.effects import RunCommands, StartTurn
from nightcrew.core.events import Entry
from nightcrew.core.ids import EffectId
from nightcrew.core.state import RunState, line

__all__ = ["Entry", "RunState", "Step", "activity", "changes", "follow", "panel"]

# What the events of agent programs, in JSON of whatever shape, hold for a person.
_TELLING = re.compile(r'"(?:name|text|command|file_path|path|pattern|query)": ?("(?:[^"\\]|\\.)*+")')
TAIL = 16 * 1024  # bytes of an agent's output in which its newest words are looked for
LOOK_S = 0.1  # between two looks at a run that another process drives


def changes(step: Step) -> list[str]:
    """What a fact means to somebody who follows the run, in lines."""
    told = [found for found in said(step) if found.topic not in {"kept", "cooling"}]
    return [f"{t.topic}: {t.what}" if t.topic in {"note", "rescued"} else t.what for t in told]


def panel(state: RunState, now: float, env: Mapping[str, str]) -> list[str]:
    """The run at this moment, for a screen: where it stands, who works since when and on what, what comes next. `now` is a time."""
    stands, spent = conclusion(state), state.spend
    at = str(state.phase) if stands.word == "running" else stands.headline
    cost = f"{spent.usd:.2f} usd" + (f" + {spent.unpriced} unpriced" if spent.unpriced else "")
    stand = " · ".join(filter(None, (at, rounds_of(state), cost, count(spent.turns, "turn"))))
    lines = [f"── {stands.short} · {state.started.task.title}", stand, *_places(state, now, env)]
    if cools := [f"{agent} until {clock(until, now)}" for agent, until in state.cooling.items() if until > now]:
        lines.append(f"cooling: {', '.join(cools)}")
    if question := next(iter(state.questions.values()), None):
        lines.append(f"next: {line(question.text)} {answer_command(state, question)}")
    elif timer := waits_for(state):
        lines.append(f"next: {clock(timer.fire_at, state.at)}, {timer.why}")
    return lines


def _places(state: RunState, now: float, env: Mapping[str, str]) -> Iterator[str]:
    for key, opened in state.open.items():
        at, who, since, effect = "", doing_now(opened.effect), span(now - opened.at), opened.effect
        if isinstance(effect, StartTurn):
            at, who, since = where(effect.node, effect.seat), effect.agent, since if opened.begun else "queued"
        elif isinstance(effect, RunCommands):
            at, who = effect.purpose, effect.commands[0]
        if who:
            yield f"  {at:<12} {who:<14} {since:>7}  {activity(key, env)}".rstrip()


def activity(key: EffectId, env: Mapping[str, str]) -> str:
    """The newest words of an agent or a command at work, or what it does; "" when it said nothing yet."""
    folder = effect_folder(home_of(env), key)
    try:
        with max(folder.glob("[0-9]*/stdout"), default=folder / "stdout").open("rb") as file:
            if file.seek(max(0, file.seek(0, 2) - TAIL)):
                file.readline()  # its beginning is cut off: a secret in it might not be known as one
            text = hide(env).text(file.read().decode(errors="replace"))
    except OSError:
        return ""
    newest = reversed(text.splitlines())
    words = (" ".join(map(msgspec.json.decode, _TELLING.findall(said))) if said.startswith("{") else said for said in newest)
    return next(filter(None, (line(said, 70) for said in words)), "")


def follow(seen: Seen, show: Callable[[RunState, Entry], None]) -> RunState:
    """Show every fact from the first on, as it comes, until the run is over or nobody drives it; gives the last state."""
    state = None
    while True:
        driven = seen.journal.holder(seen.run) is not None
        for step in steps(seen.entries(state.seq if state else 0), state):
            state = step.after
            show(state, step.entry)
        if state is not None and (state.done or not driven):
            return state
        time.sleep(LOOK_S)

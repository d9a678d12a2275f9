"""A run while it goes on: what a screen shows of the moment, and following a run that another process drives. Changes nothing."""

import ctypes
import os
import select
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import msgspec

from nightcrew.app.home import home_of, known_secrets
from nightcrew.app.seen import Seen, effect_folder
from nightcrew.app.story import Step, rounds_of, said, steps, where
from nightcrew.app.views import answer_command, clock, conclusion, count, doing_now, printable, span, waits_for
from nightcrew.core.effects import Ask, RunCommands, StartTurn, Timer
from nightcrew.core.events import Entry
from nightcrew.core.ids import EffectId
from nightcrew.core.state import RunState, line
from nightcrew.redact import Redactor

__all__ = ["Entry", "RunState", "Step", "activity", "changes", "follow", "panel"]

_TELLING = ("name", "text", "command", "file_path", "path", "pattern", "query")
"""Names under which the events of agent programs hold words for a person."""
TAIL = 16 * 1024
"""Bytes of an agent's output in which its newest words are looked for."""
_WRITTEN = 0x2 | 0x8 | 0x80 | 0x100
"""IN_MODIFY, IN_CLOSE_WRITE, IN_MOVED_TO, IN_CREATE. A process that ends closes its lease: so a driver's death is heard too."""
_SOON_S, _LOOK_S, _QUIET_S = 0.02, 1.0, 30.0
"""Seconds to the look after a write was heard; between two looks where the system tells nothing of files (macOS), and where it does."""


def changes(step: Step) -> list[str]:
    """What a fact means to somebody who follows the run, in lines."""
    told = [found for found in said(step) if found.topic != "kept"]
    return [printable(f"{t.topic}: {t.what}" if t.topic in {"note", "rescued"} else t.what) for t in told]


def panel(state: RunState, now: float, env: Mapping[str, str]) -> list[str]:
    """The run at this moment, for a screen: where it stands, who works since when and on what, what comes next. `now` is a time."""
    stands, spent = conclusion(state), state.spend
    at = str(state.phase) if stands.word == "running" else stands.headline
    unpriced = f" + {spent.unpriced} unpriced" if spent.unpriced else ""
    cost = (f"{spent.usd:.2f} usd{unpriced}", count(spent.turns, "turn"))
    lines = [
        f"── {stands.short} · {state.started.task.title}",
        " · ".join(filter(None, (at, rounds_of(state), *cost))),
        *_places(state, now, env),
    ]
    question, timer = next(iter(state.questions.values()), None), waits_for(state)
    if question is not None:
        lines.append(f"next: {line(question.text)} {answer_command(state, question)}")
    elif timer is not None:
        lines.append(f"next: {clock(timer.fire_at, state.at)}, {timer.why}")
    return [printable(text) for text in lines]


def _places(state: RunState, now: float, env: Mapping[str, str]) -> Iterator[str]:
    for key, opened in state.open.items():
        since = span(now - opened.at)
        match opened.effect:
            case StartTurn() as turn:
                since = since if opened.begun else "queued"
                yield f"  {where(turn.node, turn.seat):<12} {turn.agent:<14} {since:>7}  {activity(key, env)}".rstrip()
            case RunCommands() as batch:
                yield f"  {batch.purpose:<12} {batch.commands[0]:<14} {since:>7}  {activity(key, env)}".rstrip()
            case Timer() | Ask():
                pass
            case other:
                yield f"  {'':<12} {doing_now(other):<14} {since:>7}"


def activity(key: EffectId, env: Mapping[str, str]) -> str:
    """The newest words of an agent or a command at work, or what it does; "" when it said nothing yet."""
    folder = effect_folder(home_of(env), key)
    try:
        with max(folder.glob("[0-9]*/stdout"), default=folder / "stdout").open("rb") as file:
            if file.seek(max(0, file.seek(0, 2) - TAIL)):
                file.readline()  # its beginning is cut off: a secret in it might not be known as one
            text = Redactor(known_secrets(env)).text(file.read().decode(errors="replace"))
    except OSError:
        return ""
    return next(filter(None, (line(_words(part), 70) for part in reversed(text.splitlines()))), "")


def _words(said: str) -> str:
    """What a line of output tells a person; of an event in JSON, of whatever program, the words and names in it."""
    try:
        return " ".join(_told(msgspec.json.decode(said)))
    except msgspec.DecodeError:
        return said


def _told(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (value[key] for key in _TELLING if isinstance(value.get(key), str))
        yield from _told(list(value.values()))
    elif isinstance(value, list):
        yield from (words for part in value for words in _told(part))


# ── following ─────────────────────────────────────────────────────────────────────────────────────────────────────


def follow(seen: Seen, env: Mapping[str, str], show: Callable[[RunState, Entry], None]) -> RunState:
    """Show every fact from the first on, as it comes, until the run is over or nobody drives it; gives the last state."""
    ear, pause, state = _listen(home_of(env), home_of(env) / "runs" / seen.run), _QUIET_S, None
    try:
        while True:
            driven = seen.journal.holder(seen.run) is not None
            for step in steps(seen.entries(state.seq if state else 0), state):
                state = step.after
                show(state, step.entry)
            if state is not None and (state.done or not driven):
                return state
            # A write is heard a moment before others can read it, so some looks follow, further and further apart.
            pause = _SOON_S if _heard(ear, pause) else min(_QUIET_S, 2 * pause)
    finally:
        if ear >= 0:
            os.close(ear)


def _listen(*folders: Path) -> int:
    """A descriptor that becomes readable when a file in one of the folders is written or closed; -1 where there is no such thing."""
    libc = ctypes.CDLL(None, use_errno=True)
    if not hasattr(libc, "inotify_init1"):
        return -1
    ear = int(libc.inotify_init1(os.O_CLOEXEC))
    for folder in folders:
        libc.inotify_add_watch(ear, os.fsencode(folder), _WRITTEN)
    return ear


def _heard(ear: int, at_most_s: float) -> bool:
    if ear < 0:
        time.sleep(min(_LOOK_S, at_most_s))
        return False
    # What exactly was written does not matter: the journal is read.
    return bool(select.select([ear], [], [], at_most_s)[0] and os.read(ear, 64 * 1024))

"""Where a run stands, in one line and as an exit code; what the other views share. Pure: from facts alone (laws 10 and 13).

The whole story of a run is `views_story`, lists are `views_list`, what changes on a screen is `views_live`.
"""

import time
from typing import NamedTuple

from nightcrew.core.effects import Ask, Effect, RunCommands, StartTurn, Timer
from nightcrew.core.events import Entry
from nightcrew.core.ids import short
from nightcrew.core.reducer import blocked, desired
from nightcrew.core.state import RunState, Trouble, line
from nightcrew.core.work import PipelinePhase, Question

__all__ = [
    "Conclusion",
    "Entry",
    "RunState",
    "clock",
    "conclusion",
    "count",
    "headline",
    "printable",
    "span",
    "waits_for",
]

OK, FAILED, REFUSED, LATER = 0, 1, 2, 3
"""Exit codes: done · blocked or interrupted · refused before anybody was paid · waiting or parked."""
_CONTROL = {n: None for n in (*range(32), *range(127, 160)) if chr(n) not in "\n\t"}


class Conclusion(NamedTuple):
    """How a run stands: one or two words, the exit code that says so, one line why, and the command that comes next ("" = none)."""

    word: str
    exit_code: int
    why: str = ""
    next_command: str = ""


def conclusion(state: RunState) -> Conclusion:
    """How the run stands, derived from its facts.

    One of landed, ready, already landed, already done, waiting, parked, recovering, blocked, interrupted, refused, running.
    """
    name = short(state.started.run)
    if state.phase is PipelinePhase.Complete:
        return _completed(state)
    if state.refused:
        return Conclusion("refused", REFUSED, state.refused)
    if state.phase is PipelinePhase.Interrupted:
        return Conclusion("interrupted", FAILED, state.ended, f"nightcrew show {name}")
    if state.marker is not None and state.marker.is_failure:
        return Conclusion(
            "interrupted", FAILED, f"{state.marker.reason}; still putting things in order", f"nightcrew resume {name}"
        )
    if state.parked:
        still = sum(o.begun for o in state.open.values())
        return Conclusion("parked", LATER, "once what runs has ended" if still else "", f"nightcrew resume {name}")
    question = blocked(state)
    if question is not None:
        return Conclusion("blocked", FAILED, question.text, answer_command(state, question))
    return _going_on(state)


def _completed(state: RunState) -> Conclusion:
    landing = state.landing
    if state.already:
        why = (
            f"{state.started.target} has the change"
            if state.already == "already landed"
            else "nothing was left to do, says every implementer"
        )
        return Conclusion(state.already, OK, why)
    if landing is None:
        return Conclusion("ready", OK)
    if landing.mode == "branch":
        return Conclusion("ready", OK, landing.note, f"git merge --ff-only {landing.branch}")
    return Conclusion("landed", OK, landing.note, f"git show {landing.commit[:12]}")


def _going_on(state: RunState) -> Conclusion:
    resume = f"nightcrew resume {short(state.started.run)}"
    timer = waits_for(state)
    trouble = state.trouble
    if trouble is not None and not trouble.over and not trouble.unavailable:
        return Conclusion("recovering", LATER, _recovering(state, trouble), resume)
    if timer is not None:
        why = f"until {clock(timer.fire_at, state.at)}, {timer.why}"
        return Conclusion(
            "waiting", LATER, f"{why}: {trouble.failure.reason}" if trouble and not trouble.over else why, resume
        )
    return Conclusion("running", LATER, _running(state), resume)


def _recovering(state: RunState, trouble: Trouble) -> str:
    parts = [f"level {max(1, trouble.level)}", f"attempt {trouble.attempts + (not trouble.finished)}"]
    if trouble.wait_until:
        parts.append(f"next at {clock(trouble.wait_until, state.at)}")
    elif state.phase is not PipelinePhase.AwaitingDevFix:
        parts.append(f"back in {state.phase}")
    return f"{', '.join(parts)}, because {trouble.failure.reason}"


def _running(state: RunState) -> str:
    doing = [doing_now(o.effect) for o in state.open.values() if o.begun or not isinstance(o.effect, StartTurn)]
    return f"{state.phase}: {', '.join(dict.fromkeys(filter(None, doing)))}" if any(doing) else str(state.phase)


def headline(state: RunState) -> str:
    """One line: the conclusion, or where the run stands and what it waits for."""
    said = conclusion(state)
    landing = state.landing
    if said.word == "landed" and landing is not None:
        where = f"landed on {landing.branch} as {landing.commit[:10]}"
        return f"{where}, {said.why}" if said.why else where
    if said.word == "ready" and landing is not None:
        return f"ready: branch {landing.branch}" + (f", not landed: {said.why}" if said.why else "")
    open_questions = [q for q in state.questions.values() if not q.holds]
    asks = f" (asks: {line(open_questions[0].text)})" if open_questions and not state.done else ""
    if said.word == "waiting":
        return f"waiting {said.why}{asks}"
    return f"{said.word}: {said.why}{asks}" if said.why else f"{said.word}{asks}"


def waits_for(state: RunState) -> Timer | None:
    """The timer whose end is the next thing to happen, when nothing else is going on; None otherwise."""
    effects = [e for e in desired(state) if not isinstance(e, Ask)]
    timers = [e for e in effects if isinstance(e, Timer)]
    if not timers or len(timers) < len(effects):
        return None
    # An open timer's own words count: those of `desired` are made anew with every look.
    held = [state.open[t.key].effect if t.key in state.open else t for t in timers]
    return min((t for t in held if isinstance(t, Timer)), key=lambda t: t.fire_at)


def answer_command(state: RunState, question: Question) -> str:
    """The command that answers a question."""
    words = question.how.split("|")[0].split("(")[0].strip() or "yes"
    return f"nightcrew answer {short(state.started.run)} {words}"


def doing_now(effect: Effect) -> str:
    """What an open effect does, in two or three words; "" for what is not worth a reader's time."""
    match effect:
        case StartTurn():
            return f"{effect.agent} in seat {effect.seat}"
        case RunCommands():
            return f"{effect.purpose} commands"
        case Timer() | Ask():
            return ""
        case _:
            return STEPS.get(type(effect).__name__, "")


STEPS = {
    "PrepareWorkspace": "making a workspace",
    "CollectWork": "collecting the work",
    "SyncBase": "looking at the target",
    "ContinueRebase": "rebasing",
    "UndoRebase": "undoing the rebase",
    "MakeCommit": "committing",
    "Land": "landing",
    "ResetWorkspace": "starting a workspace over",
    "RescueWork": "rescuing unsaved work",
    "DropWorkspaces": "cleaning up",
    "EmitCompletionMarkerAndTerminate": "writing the marker",
}


def clock(at: float, now: float) -> str:
    """A time of day in the reader's zone, with the date unless it is that of `now`."""
    there, here = time.localtime(at), time.localtime(now)
    return time.strftime("%H:%M" if there[:3] == here[:3] else "%Y-%m-%d %H:%M", there)


def span(seconds: float) -> str:
    """A span for people: `42s`, `3m05s`, `2h10m`."""
    whole = max(0, int(seconds))
    if whole < 60:
        return f"{whole}s"
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest:02}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def count(n: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"


def printable(text: str) -> str:
    """Text from outside without the characters that steer a terminal."""
    return text.translate(_CONTROL)

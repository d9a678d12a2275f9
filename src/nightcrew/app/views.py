"""Where a run stands, in one line and as an exit code; what the other views share. Pure: from facts alone (laws 10 and 13)."""

import re
import shlex
import time

from msgspec import Struct

from nightcrew.core.effects import Ask, Effect, RunCommands, StartTurn, Timer
from nightcrew.core.ids import short
from nightcrew.core.reducer import blocked, desired
from nightcrew.core.state import RunState, line
from nightcrew.core.work import Landing, PipelinePhase, Question

# What is exited with, by the word for how a run stands; a good end is 0.
EXITS = {"blocked": 1, "interrupted": 1, "refused": 2, "running": 3, "recovering": 3, "waiting": 3, "parked": 3}
SOON_S = 300  # a time to come that is nearer is told with its seconds


class Conclusion(Struct, frozen=True):
    """How a run stands: one or two words, the exit code that says so, and lines for people; what there is not is ""."""

    run: str
    short: str
    word: str
    exit_code: int
    headline: str
    why: str
    next_command: str
    undo: str


def conclusion(state: RunState) -> Conclusion:
    """How the run stands, derived from its facts; every `headline` begins with its `word`, which is one of `home.WORDS`."""
    word, why, command = _stands(state)
    run, landing, told, before_why = state.started.run, state.landing, word, " " if word == "waiting" else ": "
    if landing and word == "landed":
        told, before_why = f"landed on {landing.branch} as {landing.commit[:10]}", ", "
    elif landing and word == "ready":
        told, before_why = f"ready: branch {landing.branch}", ", not landed: "
    asked = [f" (asks: {line(q.text)})" for q in state.questions.values() if not q.holds and not state.done]
    headline = told + (before_why + why if why else "") + "".join(asked[:1])
    undone = undo(landing, state.started.remote) if landing else ""
    return Conclusion(run, short(run), word, EXITS.get(word, 0), headline, why, command, undone)


def _stands(state: RunState) -> tuple[str, str, str]:
    marker, question, resume = state.marker, blocked(state), f"nightcrew resume {short(state.started.run)}"
    if (landing := state.landing) and state.phase is PipelinePhase.Complete:
        ready = "ready", landing.note, f"git switch {shlex.quote(state.started.target)} && git merge --ff-only {landing.branch}"
        return ready if landing.mode == "branch" else ("landed", landing.note, f"git show {landing.commit[:12]}")
    if state.phase is PipelinePhase.Complete:
        done, there = "nothing was left to do, says every implementer", f"{state.started.target} has the change"
        return state.already, there if state.already == "already landed" else done, ""
    if state.refused:
        return "refused", state.refused, ""
    if state.phase is PipelinePhase.Interrupted:
        return "interrupted", state.ended, resume.replace("resume", "diff" if state.winning and state.winning.changed else "show")
    if marker is not None and marker.is_failure:
        return "interrupted", f"{marker.reason}; still putting things in order", resume
    if state.parked:
        return "parked", "once what runs has ended" if any(o.begun for o in state.open.values()) else "", resume
    if question is not None:
        return "blocked", question.text, answer_command(state, question)
    return *_goes_on(state), resume


def _goes_on(state: RunState) -> tuple[str, str]:
    timer, trouble = waits_for(state), state.trouble if state.trouble and not state.trouble.over else None
    if trouble and not trouble.unavailable:
        back = "" if state.phase is PipelinePhase.AwaitingDevFix else f", back in {state.phase}"
        then = f", next at {clock(trouble.wait_until, state.at)}" if trouble.wait_until else back
        attempt = f"level {max(1, trouble.level)}, attempt {trouble.attempts + (not trouble.finished)}"
        return "recovering", f"{attempt}{then}, because {trouble.failure.reason}, since {clock(trouble.since, state.at)}"
    if timer:
        why = f": {trouble.failure.reason}" if trouble else ""
        return "waiting", f"until {clock(timer.fire_at, state.at)}, {timer.why}{why}"
    doing = [doing_now(o.effect) for o in state.open.values() if o.begun or not isinstance(o.effect, StartTurn)]
    seats = ", ".join(dict.fromkeys(filter(None, doing)))
    return "running", f"{state.phase}: {seats}" if seats else str(state.phase)


def waits_for(state: RunState) -> Timer | None:
    """The timer whose end is the next thing to happen, when nothing else is going on; None otherwise."""
    effects = [e for e in desired(state) if not isinstance(e, Ask)]
    # An open timer's own words count: those of `desired` are made anew with every look.
    timers = [t for e in effects if isinstance(t := state.open[e.key].effect if e.key in state.open else e, Timer)]
    return min(timers, key=lambda t: t.fire_at) if timers and len(timers) == len(effects) else None


def answers(question: Question) -> list[str]:
    """The words that answer a question; the first goes on."""
    return [word.split("(")[0].strip() for word in question.how.split("|")]


def answer_command(state: RunState, question: Question) -> str:
    """The command that answers a question."""
    return f"nightcrew answer {short(state.started.run)} {answers(question)[0]}"


def undo(landing: Landing, remote: str) -> str:
    """The shell line that undoes a landing without rewriting anybody's history; for a branch, the one that removes it."""
    name, there, revert = shlex.quote(landing.branch), shlex.quote(remote), f"git revert --no-edit {landing.commit}"
    push = f"git fetch {there} && git switch {name} && git merge --ff-only {there}/{name} && {revert} && git push {there} {name}"
    return {"branch": f"git branch -D {name}", "local": f"git switch {name} && {revert}"}.get(landing.mode, push)


def doing_now(effect: Effect) -> str:
    """What an open effect does, in a few words; "" for what is not worth a reader's time."""
    if isinstance(effect, StartTurn):
        return f"{effect.agent} in seat {effect.seat}"
    if isinstance(effect, RunCommands):
        return f"{effect.purpose} commands"
    # else its own name, which is a verb and what it is done to.
    return "" if isinstance(effect, Timer | Ask) else re.sub(r"(?<!^)([A-Z])", r" \1", type(effect).__name__).lower()


def clock(at: float, now: float) -> str:
    """A time of day in the reader's zone, with the date unless it is that of `now`, and with seconds where they are waited for."""
    there, here = time.localtime(at), time.localtime(now)
    form = "%H:%M" if there[:3] == here[:3] else "%Y-%m-%d %H:%M"
    return time.strftime(form + ":%S" * (0 < at - now < SOON_S), there)


def span(seconds: float) -> str:
    """A span for people: `42s`, `3m05s`, `2h10m`."""
    minutes, rest = divmod(max(0, int(seconds)), 60)
    short = f"{minutes}m{rest:02}s" if minutes else f"{rest}s"
    return short if minutes < 60 else f"{minutes // 60}h{minutes % 60:02}m"


def count(n: int, noun: str) -> str:
    """`1 turn`, `2 turns`."""
    return f"{n} {noun}{'' if n == 1 else 's'}"

"""The parts of a story that are about trouble: handovers, recovery, questions, waits, rescues. Pure."""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from nightcrew.app.views import clock, count
from nightcrew.app.views_steps import Closed, Step
from nightcrew.core import events as ev
from nightcrew.core.effects import Timer
from nightcrew.core.recovery import SEAT as DEV_FIX
from nightcrew.core.state import RunState
from nightcrew.core.work import Handover


class Handed(Struct, frozen=True, kw_only=True):
    """A seat that went from one agent to the next, and why (`fail`: quota, timeout or other)."""

    at: float
    node: str
    seat: str
    from_agent: str
    to_agent: str
    fail: str
    reason: str


class Mended(Struct, frozen=True, kw_only=True):
    """One line of the recovery's record; `attempt` and `level` are those reached then."""

    at: float
    what: str
    attempt: int
    level: int


class Recovery(Struct, frozen=True, kw_only=True):
    """The present trouble ("" and zeros when there is none), and every line of the record so far."""

    failed_phase: str
    because: str
    attempts: int
    level: int
    next_at: float | None
    record: tuple[Mended, ...]


class Asking(Struct, frozen=True, kw_only=True):
    """A question and its answer. `holds` = the run waits for it; `answered_at` is None and `answer` "" while it is open."""

    id: str
    text: str
    holds: bool
    how: str
    asked_at: float
    answered_at: float | None
    answer: str


class Waited(Struct, frozen=True, kw_only=True):
    """A pause or a wait: why, since when, until when it was meant to last, and when it was over (None = it lasts)."""

    why: str
    began_at: float
    until_at: float
    ended_at: float | None


class Rescued(Struct, frozen=True, kw_only=True):
    """Work kept safe under a ref: when, and whose seat it was in."""

    at: float
    ref: str
    seat: str


def handed(state: RunState) -> tuple[Handed, ...]:
    """Every handover in order."""
    return tuple(
        Handed(
            at=h.at, node=h.node, seat=h.seat, from_agent=h.from_agent, to_agent=h.to_agent, fail=h.fail, reason=_dated(h, state)
        )
        for h in state.handovers
    )  # fmt: skip


def _dated(handover: Handover, state: RunState) -> str:
    """The reason; one that tells a time as seconds since the epoch tells it as a time of day."""
    words, _, number = handover.reason.rpartition(" ")
    is_time = words == "cools down until" and number.isdigit()
    return f"{words} {clock(float(number), state.at)}" if is_time else handover.reason


def recovery(told: Sequence[Step], state: RunState) -> Recovery:
    """How the run recovers, or recovered."""
    record = tuple(
        Mended(at=step.entry.at, what=what, attempt=trouble.attempts, level=trouble.level)
        for step in told
        for what in mended(step)
        if (trouble := step.after.trouble or step.before.trouble) is not None
    )
    trouble = None if state.trouble is None or state.trouble.over or state.done else state.trouble
    if trouble is None:
        return Recovery(failed_phase="", because="", attempts=0, level=0, next_at=None, record=record)
    return Recovery(
        failed_phase=trouble.failed_phase,
        because=trouble.failure.reason,
        attempts=trouble.attempts,
        level=trouble.level,
        next_at=trouble.wait_until or None,
        record=record,
    )


def mended(step: Step) -> Iterator[str]:
    """What a fact means for the recovery, in a line or none."""
    event, now = step.entry.event, step.after.trouble
    if now is not None and (step.before.trouble is None or step.before.trouble.failure is not now.failure):
        yield f"{now.failed_phase} failed: {now.failure.reason}"
    match event:
        case ev.DevFixSkipped(reason=reason):
            yield f"no dev-fix: {reason}"
        case ev.DevFixCompleted(success=success, summary=summary):
            yield f"dev-fix {'done' if success else 'failed'}" + (f": {summary}" if summary else "")
        case ev.DevFixAgentUnavailable(reason=reason):
            yield f"nobody can work now: {reason}"
        case ev.ChainReset(chain=chain):
            yield f"the {chain} chain starts at its front again"
        case ev.RecoveryEscalated(from_level=lower, to_level=higher):
            yield f"level {lower} becomes {higher}"
        case ev.RecoveryAttempted(target_phase=phase, level=level):
            yield f"back to {phase} at level {level}"
        case _:
            yield from _told(step)


def _told(step: Step) -> Iterator[str]:
    match event := step.entry.event:
        case ev.RecoverySucceeded(total_attempts=attempts):
            yield f"recovered after {count(attempts, 'attempt')}"
        case ev.CompletionMarkerWriteFailed(error=error):
            yield f"the completion marker could not be written: {error}"
        case ev.TurnEnded() if step.before.open.get(event.key) and step.before.open[event.key].effect.seat == DEV_FIX:
            yield f"dev-fix turn ended: {event.outcome.reason or event.outcome.kind}"
        case _:
            return


def asked(told: Sequence[Step]) -> tuple[Asking, ...]:
    """Every question, answered or not, in the order of asking."""
    found: dict[tuple[str, float], Asking] = {}
    for step in told:
        for question in step.after.questions.values():
            place = (question.id, question.asked_at)
            if place not in found:
                found[place] = Asking(
                    id=question.id, text=question.text, holds=question.holds, how=question.how,
                    asked_at=question.asked_at, answered_at=None, answer="",
                )  # fmt: skip
        event = step.entry.event
        if isinstance(event, ev.Answered) and event.question in step.before.questions:
            old = step.before.questions[event.question]
            was = found[old.id, old.asked_at]
            found[old.id, old.asked_at] = Asking(
                id=was.id, text=was.text, holds=was.holds, how=was.how,
                asked_at=was.asked_at, answered_at=step.entry.at, answer=event.text,
            )  # fmt: skip
    return tuple(found.values())


def waited(ends: Sequence[Closed], state: RunState) -> tuple[Waited, ...]:
    """Every pause and wait, those that last still at the end."""
    over = tuple(
        Waited(why=e.effect.why, began_at=e.started_at, until_at=e.effect.fire_at, ended_at=e.step.entry.at)
        for e in ends
        if isinstance(e.effect, Timer)
    )
    still = tuple(
        Waited(why=o.effect.why, began_at=o.at, until_at=o.effect.fire_at, ended_at=None)
        for o in state.open.values()
        if isinstance(o.effect, Timer)
    )
    return (*over, *still)


def rescued(ends: Sequence[Closed]) -> tuple[Rescued, ...]:
    """Every ref under which work was kept, each once."""
    found: dict[str, Rescued] = {}
    for end in ends:
        event = end.step.entry.event
        ref = event.ref if isinstance(event, ev.WorkRescued) else getattr(event, "rescued", "")
        if ref:
            found.setdefault(ref, Rescued(at=end.step.entry.at, ref=ref, seat=end.effect.seat))
    return tuple(found.values())

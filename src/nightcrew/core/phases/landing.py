"""Landing: the commit whose tree passed the gate on this very tip goes to where it was wanted (decision 0018); never by force."""

from nightcrew.core import brief as b, effects, events, fixer, rooms
from nightcrew.core.ids import Commit, Tree
from nightcrew.core.state import LandingTry, Phase, RunState, Validating, Want, asking, changing, enter, on, timer
from nightcrew.core.trouble import fails, leave, missing
from nightcrew.core.work import Blob, PipelinePhase

NODE = "land"
CONTESTED, PUSHING = "contested", "pushing"  # questions
_at = changing("trying")
FIRST_WAIT_S, LONGEST_WAIT_S = 30.0, 900.0
UNREACHED = 6  # times in a row that the remote may be out of reach, half an hour in all, before a person is asked


def _wants(state: RunState) -> tuple[Want, ...]:
    at = state.trying
    if at.step == "wait":
        back = on(events.TimerFired, lambda now, _event: _back_to_gate(now))
        return (Want(timer(state, NODE, state.chosen.seat, at.wait_until, at.refusal), back),)
    if at.step in {"fix", "collect"}:
        ask = f"# What you are asked\n\nThe finished work could not be landed: {at.refusal}. Mend the work so that it can."
        return fixer.mend(state, "trying", NODE, ask, b.quoted(at.output, b.OUTPUT_LIMIT), then=_mended)
    mode = "branch" if at.as_branch else state.settings.land.mode
    land = effects.Land(node=NODE, mode=mode, commit=state.commit, tip=state.base)
    return (Want(rooms.work(state, land, state.winner), _answered),)


def _arrived(state: RunState) -> RunState:
    if state.gated != state.chosen.change.tree:
        return _back_to_gate(state)
    if not state.commit:
        return missing(state, "the commit")
    moves = state.settings.land.mode != "branch" and not state.trying.as_branch
    if not moves or not state.contested or CONTESTED in state.questions:
        return state
    text = "A reviewer still rejects this work. Land it all the same?"
    return asking(state, CONTESTED, text, holds=True, how="yes | no (no leaves the finished branch)")


def _mended(state: RunState, event: events.WorkCollected) -> RunState:
    state, changed = rooms.collected(state, event.change)
    at = state.trying
    return _back_to_gate(state) if changed else _fails(state, "hook", f"{at.refusal}; the fixer changed nothing", at.output)


def _answered(state: RunState, _effect: effects.Effect, event: events.EffectAnswer) -> RunState:
    if isinstance(event, events.Landed):
        landing = event.landing.but(note=state.trying.as_branch or event.landing.note)
        return leave(state, PipelinePhase.Finalizing, landing=landing)
    return _refused(state, event) if isinstance(event, events.LandingRefused) else state


def queues(state: RunState) -> bool:
    """Whether the run has its target to itself: while it lands, and once it was refused by a moved tip, from there to the next try (decision 0030)."""
    if state.parked or state.marker is not None or any(q.holds for q in state.questions.values()):
        return False
    if state.phase is PipelinePhase.Landing:
        return state.trying.step == "land"
    at, again = state.validating, state.trying.moved > 0
    if state.phase is PipelinePhase.FinalValidation:
        return again and at.step in {"base", "pre_gate", "format", "gate"} and at.basing.step in {"sync", "done"}
    return again and state.phase is PipelinePhase.CommitMessage


def _again(state: RunState) -> RunState:
    at = state.trying
    return _at(state, step="land", granted=at.granted + (at.rounds >= state.settings.pipeline.land_rounds + at.granted))


def _refused(state: RunState, event: events.LandingRefused) -> RunState:
    at, limit = state.trying, state.settings.pipeline.land_rounds
    match event.why:
        case "moved":
            state = _at(state, moved=at.moved + 1)
            over = state.trying.moved - limit
            return _back_to_gate(state) if over <= 0 else _waits(state, over, "the target keeps moving")
        case "unreachable":
            state = _waits(_at(state, unreached=at.unreached + 1), at.unreached + 1, event.detail)
            if at.unreached < UNREACHED:
                return state
            text = f"{state.started.target} cannot be pushed to: {event.detail}. Try again?"
            return asking(_at(state, unreached=0, wait_until=state.at), PUSHING, text, holds=True, how="retry | stop")
        case "dirty" if not at.as_branch and state.settings.land.mode != "branch":
            return _at(state, as_branch=event.detail)
        case "hook" | "rejected" if at.rounds < limit + at.granted and fixer.can_fix(state):
            return _at(state, step="fix", rounds=at.rounds + 1, refusal=event.detail, output=event.output)
    return _fails(state, event.why, event.detail, event.output)


def _waits(state: RunState, times: int, why: str) -> RunState:
    return _at(state, step="wait", wait_until=state.at + min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(times - 1, 10)), refusal=why)


def _fails(state: RunState, why: str, detail: str, output: Blob | None) -> RunState:
    return fails(state, why, f"landing on {state.started.target} refused: {detail}", NODE, detail=output, sign=f"{why} {detail}")


def _back_to_gate(state: RunState) -> RunState:
    """What lands must have passed the gate on the new tip: not a failure, and no round of a budget."""
    return enter(state, PipelinePhase.FinalValidation, validating=Validating(), gated=Tree(""), commit=Commit(""))


PHASE = Phase(
    lambda state: state.but(trying=LandingTry(as_branch=state.trying.as_branch), gated=Tree(""), commit=Commit("")),
    _again, _arrived, _wants, winner=True,
)  # fmt: skip

"""Landing: the commit whose tree passed the gate on this very tip goes to where it was wanted (decision 0018); never by force."""

from msgspec import structs

from nightcrew.core import brief as b
from nightcrew.core import chain, fixer, rooms
from nightcrew.core.effects import CollectWork, Effect, Land
from nightcrew.core.events import EffectAnswer, Landed, LandingRefused, TimerFired, WorkCollected
from nightcrew.core.ids import Commit, Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import LandingTry, RunState, Validating, branch_of, enter, key_for, timer
from nightcrew.core.trouble import fail, leave, missing
from nightcrew.core.work import Brief, Candidate, Failure, Part, PipelinePhase, Question

NODE = "land"
CONTESTED = "contested"
FIRST_WAIT_S = 30.0
LONGEST_WAIT_S = 900.0


def wants(state: RunState) -> tuple[Effect, ...]:
    """The landing, a wait before the next try, or the fixer's round."""
    winner, at = state.winning, state.trying
    if winner is None or (not state.commit and at.step == "land"):
        return ()
    if at.step == "wait":
        return (timer(state, NODE, winner.seat, at.wait_until, "the target keeps moving"),)
    return rooms.author(state, winner.label) or _wants(state, winner)


def _wants(state: RunState, winner: Candidate) -> tuple[Effect, ...]:
    at = state.trying
    match at.step:
        case "land":
            return (_land(state, winner),)
        case "fix":
            return chain.ask(state, wish(state, winner))
        case "collect":
            return (rooms.collect(state, NODE, winner.label, f"landing fix {at.rounds}"),)
        case _:
            return ()


def _land(state: RunState, winner: Candidate) -> Land:
    return Land(
        key=key_for(state, Land, NODE, winner.seat),
        node=NODE,
        seat=winner.seat,
        mode="branch" if state.trying.as_branch else state.settings.land.mode,
        slot=winner.slot,
        branch=branch_of(state, winner.label),
        commit=state.commit,
        tip=state.base,
    )


def arrived(state: RunState) -> RunState:
    """A contested work lands only when a person says so; a finished branch is left in any case."""
    winner = state.winning
    if winner is None:
        return missing(state, "a winner", str(AgentRole.Fixer))
    if state.unreviewed:
        return enter(state, PipelinePhase.Review)
    if state.gated != winner.change.tree:
        return _back_to_gate(state)
    if not state.commit:
        return missing(state, "the commit", str(AgentRole.Fixer))
    asks = state.contested and state.settings.land.mode != "branch" and not state.trying.as_branch
    if asks and CONTESTED not in state.questions:
        text = "A reviewer rejects this work without a finding that blocks. Land it all the same?"
        question = Question(
            CONTESTED, text, holds=True, asked_at=state.at, how="yes | no (no leaves the finished branch)"
        )
        return structs.replace(state, questions={**state.questions, CONTESTED: question})
    return state


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    winner, at = state.winning, state.trying
    if winner is None:
        return state
    match event:
        case Landed(landing=landing):
            noted = structs.replace(landing, note=at.as_branch or landing.note)
            return leave(state, PipelinePhase.Finalizing, landing=noted)
        case LandingRefused():
            return _refused(state, winner, event)
        case TimerFired() if at.step == "wait":
            return _back_to_gate(state)
        case WorkCollected() if isinstance(effect, CollectWork):
            return _collected(state, winner, event)
    if at.step == "fix":
        return _told(state, winner, effect, event)
    return state


def queues(state: RunState) -> bool:
    """Whether the run has its target to itself: while it lands, and once it was refused by a moved tip, from there to the next try (decision 0030)."""
    if state.parked or state.marker is not None or any(q.holds for q in state.questions.values()):
        return False
    again = state.trying.moved > 0
    match state.phase:
        case PipelinePhase.FinalValidation:
            at = state.validating
            return again and at.step in {"base", "pre_gate", "format", "gate"} and at.basing.step in {"sync", "done"}
        case PipelinePhase.CommitMessage:
            return again
        case PipelinePhase.Landing:
            return state.trying.step == "land"
        case _:
            return False


def afresh(state: RunState) -> RunState:
    """From fetching the tip; the winner is kept (recovery level 2)."""
    return structs.replace(
        state, trying=LandingTry(as_branch=state.trying.as_branch), gated=Tree(""), commit=Commit("")
    )


def again(state: RunState) -> RunState:
    """What failed becomes due again, with one more round of what ran out (recovery level 1)."""
    at = state.trying
    spent = at.rounds >= state.settings.pipeline.land_rounds + at.granted
    return structs.replace(state, trying=structs.replace(at, step="land", granted=at.granted + (1 if spent else 0)))


def wish(state: RunState, winner: Candidate) -> chain.Wish:
    """One landing-fix round."""
    entries, before = fixer.attempts(state, winner)
    return chain.Wish(
        node=NODE,
        seat=fixer.FIX_SEAT,
        role=AgentRole.Fixer,
        entries=entries,
        before=before,
        slot=winner.slot,
        answers=Answers.Edit,
        reads="",
        label=winner.label,
        brief=lambda memory: _brief(state, winner, memory=memory),
    )


def _brief(state: RunState, winner: Candidate, *, memory: bool) -> Brief:
    ask = (
        Part(
            text=f"# What you are asked\n\nThe finished work could not be landed: {state.trying.refusal}. Mend the work so that it can."
        ),
        b.quoted(state.trying.output, b.OUTPUT_LIMIT),
    )
    if memory:
        return b.brief(*ask)
    change = (Part(text="# The change so far"), b.quoted(winner.change.patch, b.PATCH_LIMIT))
    return b.brief(b.HOUSE, *b.task(state), *b.plan(state), *change, *ask)


def _refused(state: RunState, winner: Candidate, event: LandingRefused) -> RunState:
    at = state.trying
    match event.why:
        case "moved":
            moved = structs.replace(at, moved=at.moved + 1)
            state = structs.replace(state, trying=moved)
            over = moved.moved - state.settings.pipeline.land_rounds
            if over <= 0:
                return _back_to_gate(state)
            wait = min(LONGEST_WAIT_S, FIRST_WAIT_S * 2 ** min(over - 1, 10))
            return structs.replace(state, trying=structs.replace(moved, step="wait", wait_until=state.at + wait))
        case "dirty":
            return structs.replace(state, trying=structs.replace(at, as_branch=event.detail))
        case "hook" | "rejected":
            limit = state.settings.pipeline.land_rounds + at.granted
            refused = structs.replace(at, refusal=event.detail, output=event.output)
            if at.rounds < limit and fixer.attempts(state, winner)[0]:
                return structs.replace(state, trying=structs.replace(refused, step="fix", rounds=at.rounds + 1))
            return fail(structs.replace(state, trying=refused), _failure(state, event))
        case _:
            return fail(state, _failure(state, event))


def _told(state: RunState, winner: Candidate, effect: Effect, event: EffectAnswer) -> RunState:
    state, verdict = chain.answered(state, wish(state, winner), effect, event)
    match verdict:
        case chain.Good():
            return structs.replace(state, trying=structs.replace(state.trying, step="collect"))
        case chain.Bad(failure):
            return fail(state, failure)
        case None:
            return state


def _collected(state: RunState, winner: Candidate, event: WorkCollected) -> RunState:
    changed = event.change.tree != winner.change.tree
    state = rooms.with_candidate(state, structs.replace(winner, change=event.change))
    if changed:
        return _back_to_gate(state)
    refused = LandingRefused(
        key=event.key,
        why="hook",
        detail=f"{state.trying.refusal}; the fixer changed nothing",
        output=state.trying.output,
    )
    return fail(state, _failure(state, refused))


def _back_to_gate(state: RunState) -> RunState:
    """What lands must have passed the gate on the new tip: not a failure, and no round of a budget."""
    return enter(state, PipelinePhase.FinalValidation, validating=Validating(), gated=Tree(""), commit=Commit(""))


def _failure(state: RunState, event: LandingRefused) -> Failure:
    return Failure(
        phase=state.phase,
        role=str(AgentRole.Fixer),
        kind=event.why,
        reason=f"landing on {state.started.target} refused: {event.detail}",
        node=NODE,
        signature=chain.signature_of(f"{event.why} {event.detail}"),
        detail=event.output,
    )

"""FinalValidation: on the target's tip, formatters, then the gate; a red gate is fixed in rounds. Only exit codes count."""

from msgspec import structs

from nightcrew.core import basing, chain, fixer, rooms
from nightcrew.core import brief as b
from nightcrew.core.effects import CollectWork, Effect, RunCommands
from nightcrew.core.events import BaseSynced, CommandsEnded, EffectAnswer, WorkCollected
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import RunState, Validating, enter, red_of
from nightcrew.core.trouble import fail, leave, missing
from nightcrew.core.work import Brief, Candidate, CommandResult, Failure, Part, PipelinePhase, Purpose

NODE = "gate-fix"
FORMAT = "pre_gate"


def wants(state: RunState) -> tuple[Effect, ...]:
    """The base, the formatters, the gate, its fix."""
    winner, at = state.winning, state.validating
    if winner is None:
        return ()
    if at.step == "base":
        return basing.wants(state, at.basing)
    missing_room = rooms.author(state, winner.label)
    if missing_room:
        return missing_room
    verify = state.settings.verify
    match at.step:
        case "pre_gate":
            return (rooms.commands(state, Purpose.PreGate, winner.seat, verify.pre_gate),)
        case "format":
            return (rooms.collect(state, FORMAT, winner.label, "pre-gate"),)
        case "gate":
            return (rooms.commands(state, Purpose.Gate, winner.seat, verify.gate, cached=not at.fresh),)
        case "fix":
            return chain.ask(state, wish(state, winner))
        case "collect":
            return (rooms.collect(state, NODE, winner.label, f"gate fix {at.rounds}"),)
        case "e2e":
            return (rooms.commands(state, Purpose.E2e, winner.seat, verify.e2e),)
        case _:
            return ()


def arrived(state: RunState) -> RunState:
    """Pass over the steps that have nothing to do."""
    winner, at, verify = state.winning, state.validating, state.settings.verify
    if winner is None:
        return missing(state, "a winner", str(AgentRole.Fixer))
    if state.unreviewed:
        return enter(state, PipelinePhase.Review)
    if at.step == "base" and at.basing.step == "done":
        return _at(state, step="pre_gate")
    if at.step == "pre_gate" and not verify.pre_gate:
        return _at(state, step="gate")
    if at.step == "e2e" and not verify.e2e:
        return _at(state, step="gate")
    if at.step == "gate" and not verify.gate:
        return leave(state, PipelinePhase.CommitMessage, gated=winner.change.tree)
    return state


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    winner, at = state.winning, state.validating
    if winner is None:
        return state
    if at.step == "base" and (isinstance(event, BaseSynced) or effect.node == basing.NODE):
        return _based(state, basing.answered(state, at.basing, effect, event))
    match event:
        case CommandsEnded() if isinstance(effect, RunCommands):
            return _ran(state, winner, effect.purpose, event)
        case WorkCollected() if isinstance(effect, CollectWork):
            return _collected(state, winner, event)
    if at.step == "fix":
        return _told(state, winner, effect, event)
    return state


def afresh(state: RunState) -> RunState:
    """The phase from its first effect (recovery level 2)."""
    return structs.replace(state, validating=Validating(fresh=True))


def again(state: RunState) -> RunState:
    """The gate is run again and one more fix round granted (recovery level 1)."""
    at = state.validating
    base = basing.again(state, at.basing)
    spent = at.rounds >= state.settings.pipeline.gate_fix_rounds + at.granted
    step = at.step if at.step in {"base", "pre_gate", "format", "e2e"} else "gate"
    return _at(state, basing=base, step=step, fresh=True, granted=at.granted + (1 if spent else 0))


def wish(state: RunState, winner: Candidate) -> chain.Wish:
    """One gate-fix round."""
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
        *b.outputs("The gate is red", state.validating.red),
        Part(text="Make these commands pass by mending the work, not the checks."),
    )
    if memory:
        return b.brief(*ask)
    change = (Part(text="# The change so far"), b.quoted(winner.change.patch, b.PATCH_LIMIT))
    return b.brief(b.HOUSE, *b.task(state), *b.plan(state), *change, *ask)


def _ran(state: RunState, winner: Candidate, purpose: Purpose, event: CommandsEnded) -> RunState:
    match purpose:
        case Purpose.PreGate:
            return _at(state, step="format")
        case Purpose.E2e:
            return _red(state, red_of(event.results)) if not event.green else _at(state, step="gate")
        case Purpose.Gate:
            if event.green:
                return leave(state, PipelinePhase.CommitMessage, gated=winner.change.tree)
            return _red(state, red_of(event.results))
        case _:
            return state


def _red(state: RunState, red: tuple[CommandResult, ...]) -> RunState:
    winner = state.winning
    state = _at(state, red=red, step="gate", fresh=False)
    if winner and fixer.gate_round_left(state, winner, red[0]):
        return _at(state, step="fix", rounds=state.validating.rounds + 1)
    return fail(state, _failure(state, red[0]))


def _told(state: RunState, winner: Candidate, effect: Effect, event: EffectAnswer) -> RunState:
    state, verdict = chain.answered(state, wish(state, winner), effect, event)
    match verdict:
        case chain.Good():
            return _at(state, step="collect")
        case chain.Bad(failure):
            return fail(_at(state, step="gate"), failure)
        case None:
            return state


def _collected(state: RunState, winner: Candidate, event: WorkCollected) -> RunState:
    at = state.validating
    changed = event.change.tree != winner.change.tree
    state = rooms.with_candidate(state, structs.replace(winner, change=event.change))
    if at.step == "format":
        return _at(state, step="gate")
    if not changed:
        return fail(_at(state, step="gate"), _failure(state, at.red[0]))
    return _at(state, step="e2e")


def _failure(state: RunState, red: CommandResult) -> Failure:
    how = "did not end in time" if red.timed_out else f"exit status {red.code}"
    reason = f"gate `{red.command}` is red: {how}"
    return Failure(
        phase=state.phase,
        role=str(AgentRole.Fixer),
        kind="red",
        reason=reason,
        node="gate",
        signature=chain.signature_of(f"{reason} {red.output.tail[-400:]}"),
        detail=red.output,
    )


def _based(state: RunState, based: basing.Based) -> RunState:
    state = structs.replace(based.state, validating=structs.replace(state.validating, basing=based.basing))
    if based.landed:
        return leave(state, PipelinePhase.Finalizing)
    return fail(state, based.failure) if based.failure else state


def _at(state: RunState, **changes: object) -> RunState:
    return structs.replace(state, validating=structs.replace(state.validating, **changes))

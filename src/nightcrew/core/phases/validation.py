"""FinalValidation: on the target's tip, formatters, then the gate; a red gate is fixed in rounds. Only exit codes count."""

from nightcrew.core import basing, brief as b, chain, effects, events, fixer, rooms
from nightcrew.core.state import Phase, RunState, Validating, red_of
from nightcrew.core.trouble import fail, fails, leave
from nightcrew.core.work import CommandResult, Failure, PipelinePhase, Purpose

NODE = "gate-fix"


def _wants(state: RunState) -> tuple[effects.Effect, ...]:
    winner, at, verify = state.chosen, state.validating, state.settings.verify
    if at.step == "base":
        return basing.wants(state)
    missing = rooms.author(state, winner.label)
    if missing or at.step == "fix":
        return missing or chain.ask(state, _wish(state))
    if at.step in {"format", "collect"}:
        node, why = (NODE, f"gate fix {at.rounds}") if at.step == "collect" else ("pre_gate", "pre-gate")
        return (rooms.collect(state, node, winner.label, why),)
    cached = at.step == "gate" and not at.fresh  # the other steps are named as what they run
    return (rooms.commands(state, Purpose(at.step), winner.seat, getattr(verify, at.step), cached=cached),)


def _arrived(state: RunState) -> RunState:
    at, verify = state.validating, state.settings.verify
    if at.step == "base" and at.basing.step == "done":
        return _at(state, step="pre_gate")
    if at.step in {"pre_gate", "e2e"} and not getattr(verify, at.step):
        return _at(state, step="gate")
    if at.step == "gate" and not verify.gate:
        return leave(state, PipelinePhase.CommitMessage, gated=state.chosen.change.tree)
    return state


def _answered(state: RunState, effect: effects.Effect, event: events.EffectAnswer) -> RunState:
    at = state.validating
    if at.step == "base" and (isinstance(event, events.BaseSynced) or effect.node == basing.NODE):
        return basing.answered(state, effect, event)
    match event:
        case events.CommandsEnded() if isinstance(effect, effects.RunCommands):
            return _ran(state, effect.purpose, event)
        case events.WorkCollected() if isinstance(effect, effects.CollectWork):
            state, changed = rooms.collected(state, event.change)
            if at.step == "format" or not at.red:
                return _at(state, step="gate")
            return _at(state, step="e2e") if changed else _fails(_at(state, step="gate"), at.red[0])
    if at.step != "fix":
        return state
    state, verdict = chain.answered(state, _wish(state), effect, event)
    if isinstance(verdict, Failure):
        return fail(_at(state, step="gate"), verdict)
    return _at(state, step="collect") if verdict else state


def _again(state: RunState) -> RunState:
    state = basing.again(state)
    at = state.validating
    spent = at.rounds >= state.settings.pipeline.gate_fix_rounds + at.granted
    step = at.step if at.step in {"base", "pre_gate", "format", "e2e"} else "gate"
    return _at(state, step=step, fresh=True, granted=at.granted + spent)


def _wish(state: RunState) -> chain.Wish:
    red = b.outputs("The gate is red", state.validating.red)
    return fixer.wish(state, NODE, *red, "Make these commands pass by mending the work, not the checks.")


def _ran(state: RunState, purpose: Purpose, event: events.CommandsEnded) -> RunState:
    if purpose is Purpose.PreGate:
        return _at(state, step="format")
    if event.green and purpose is Purpose.Gate:
        return leave(state, PipelinePhase.CommitMessage, gated=state.chosen.change.tree)
    if event.green:
        return _at(state, step="gate")
    red = red_of(event.results)
    state = _at(state, red=red, step="gate", fresh=False)
    if fixer.gate_round_left(state, red[0]):
        return _at(state, step="fix", rounds=state.validating.rounds + 1)
    return _fails(state, red[0])


def _fails(state: RunState, red: CommandResult) -> RunState:
    how = "did not end in time" if red.timed_out else f"exit status {red.code}"
    reason = f"gate `{red.command}` is red: {how}"
    return fails(state, "red", reason, "gate", detail=red.output, sign=f"{reason} {red.output.tail[-400:]}")


def _at(state: RunState, **changes: object) -> RunState:
    return state.but(validating=state.validating.but(**changes))


PHASE = Phase(lambda s: s.but(validating=Validating(fresh=True)), _again, _arrived, _wants, _answered, winner=True)

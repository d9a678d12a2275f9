"""FinalValidation: on the target's tip, formatters, then the gate; a red gate is fixed in rounds. Only exit codes count."""

from nightcrew.core import basing, brief as b, events, fixer, rooms
from nightcrew.core.state import Phase, RunState, Validating, Want, changing, on, red_of
from nightcrew.core.trouble import fails, leave
from nightcrew.core.work import CommandResult, PipelinePhase, Purpose

NODE = "gate-fix"
_at = changing("validating")


def _wants(state: RunState) -> tuple[Want, ...]:
    at, seat = state.validating, state.chosen.seat
    match at.step:
        case "base":
            return basing.wants(state)
        case "fix" | "collect":
            red, ask = b.outputs("The gate is red", at.red), "Make these commands pass by mending the work, not the checks."
            return fixer.mend(state, "validating", NODE, *red, ask, then=_mended)
        case "format":
            formatted = on(events.WorkCollected, lambda now, event: _at(rooms.collected(now, event.change)[0], step="gate"))
            return rooms.collect(state, "pre_gate", state.winner, "pre-gate", formatted)
        case step:  # named as what it runs
            cached, lines = step == "gate" and not at.fresh, getattr(state.settings.verify, step)
            return rooms.commands(state, Purpose(step), seat, lines, _ran, cached=cached)


def _arrived(state: RunState) -> RunState:
    at, verify = state.validating, state.settings.verify
    if at.step == "base" and at.basing.step == "done":
        return _at(state, step="pre_gate")
    if at.step in {"pre_gate", "e2e"} and not getattr(verify, at.step):
        return _at(state, step="gate")
    if at.step == "gate" and not verify.gate:
        return leave(state, PipelinePhase.CommitMessage, gated=state.chosen.change.tree)
    return state


def _mended(state: RunState, event: events.WorkCollected) -> RunState:
    state, changed = rooms.collected(state, event.change)
    return _at(state, step="e2e") if changed else _fails(_at(state, step="gate"), state.validating.red[0])


def _again(state: RunState) -> RunState:
    state = basing.again(state)
    at = state.validating
    spent = at.rounds >= state.settings.pipeline.gate_fix_rounds + at.granted
    step = at.step if at.step in {"base", "pre_gate", "format", "e2e"} else "gate"
    return _at(state, step=step, fresh=True, granted=at.granted + spent)


def _ran(state: RunState, event: events.CommandsEnded) -> RunState:
    at = state.validating
    if event.green and at.step == "gate":
        return leave(state, PipelinePhase.CommitMessage, gated=state.chosen.change.tree)
    if event.green or at.step == "pre_gate":
        return _at(state, step="format" if at.step == "pre_gate" else "gate")
    red = red_of(event.results)
    state = _at(state, red=red, step="gate", fresh=False)
    if fixer.gate_round_left(state, red[0]):
        return _at(state, step="fix", rounds=at.rounds + 1)
    return _fails(state, red[0])


def _fails(state: RunState, red: CommandResult) -> RunState:
    reason = f"gate `{red.command}` is red: {'did not end in time' if red.timed_out else f'exit status {red.code}'}"
    return fails(state, "red", reason, "gate", detail=red.output, sign=f"{reason} {red.output.tail[-400:]}")


PHASE = Phase(lambda s: s.but(validating=Validating(fresh=True)), _again, _arrived, _wants, winner=True)

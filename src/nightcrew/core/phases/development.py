"""Development: every implementer in a lane of its own; a turn, its work collected, its checks. "Done" is a diff, never a sentence."""

from nightcrew.core import brief as b, chain, effects, events, reading, rooms
from nightcrew.core.ids import Label, Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Lane, Phase, RunState, agent_of, iteration_base
from nightcrew.core.trouble import fail, fails, leave
from nightcrew.core.work import Brief, Claim, Failure, PipelinePhase, Purpose

NODE = "implement"
LABELS = (Label("A"),)
SHAPE = '{"word": "done" | "continue" | "already_done", "evidence": "…"}'
WORDS = '"continue" asks for another turn; "already_done" means that the base does what the task asks, with the evidence.'


def _wants(state: RunState) -> tuple[effects.Effect, ...]:
    return tuple(effect for label in LABELS for effect in _lane_wants(state, _lane(state, label)))


def _lane_wants(state: RunState, at: Lane) -> tuple[effects.Effect, ...]:
    missing = rooms.author(state, at.label) if at.step != "done" else ()
    if missing or at.step == "done":
        return missing
    if at.step == "ask":
        return chain.ask(state, _wish(state, at.label))
    if at.step == "collect":
        return (rooms.collect(state, NODE, at.label, f"work of {at.label}, turn {at.turns}"),)
    return (rooms.commands(state, Purpose.Check, rooms.impl_seat(at.label), state.settings.verify.check),)


def _arrived(state: RunState) -> RunState:
    lanes = [_lane(state, label) for label in LABELS]
    if any(at.step != "done" for at in lanes):
        return state
    if any(_viable(state, at) for at in lanes):
        return leave(state, PipelinePhase.Judging)
    if all(_already(state, at.label) for at in lanes):
        return leave(state, PipelinePhase.Finalizing, already="already done")
    failed = next((at.failure for at in lanes if at.failure is not None), None)
    if failed is not None:
        return fail(state, failed)
    return fails(state, "no candidate", "no implementer changed anything", NODE, rooms.impl_seat(lanes[0].label))


def _answered(state: RunState, effect: effects.Effect, event: events.EffectAnswer) -> RunState:
    label = next((la for la in LABELS if rooms.impl_seat(la) == effect.seat), None)
    if label is None:
        return state
    at = _lane(state, label)
    match event:
        case events.WorkCollected() if isinstance(effect, effects.CollectWork):
            return _collected(state, at, event)
        case events.WorkspaceLost() if isinstance(effect, effects.CollectWork):  # with it the work of a turn
            state, why = _keep(state, at, step="ask"), f"the work of {label} is gone: {event.reason}"
            return fail(state, at.failure) if at.failure else fails(state, "lost", why, NODE, effect.seat)
        case events.CommandsEnded() if isinstance(effect, effects.RunCommands):
            state = rooms.with_candidate(state, state.candidates[label], checks=event.results)
            return _keep(state, at, step="done")
    state, verdict = chain.answered(state, _wish(state, label), effect, event)
    if isinstance(verdict, Failure):
        return _keep(state, at, step="collect", failure=verdict, turns=at.turns + 1)
    if verdict is None:
        return state
    agent = state.seats[effect.seat].agent
    if candidate := rooms.candidate(state, label, agent):
        claim = verdict.report if isinstance(verdict.report, Claim) else None
        state = rooms.with_candidate(state, candidate, agent=agent, claim=claim)
    return _keep(state, at, step="collect", turns=at.turns + 1, failure=None)


def _afresh(state: RunState) -> RunState:
    state = state.but(lanes={}, candidates={}, winner=Label(""))
    if state.iteration and state.iterations:
        began = rooms.at_its_slot(state, state.iterations[state.iteration - 1])
        state = rooms.with_candidate(state.but(winner=began.label), began)
    return rooms.rewound(state, LABELS[0], iteration_base(state))


def _again(state: RunState) -> RunState:
    lanes = {label: at.but(step="ask", failure=None) for label, at in state.lanes.items()}
    return state.but(lanes=lanes)


def read(text: str) -> Claim | None:
    """An implementer's closing word, if it gave one."""
    claim = reading.last_fitting(text, Claim)
    return claim if claim is not None and claim.word in {"done", "continue", "already_done"} else None


def _wish(state: RunState, label: Label) -> chain.Wish:
    seat = rooms.impl_seat(label)
    wish = chain.Wish(
        NODE, seat, AgentRole.Developer, rooms.slot(state, seat), Answers.Edit,
        lambda memory: _brief(state, label, memory=memory), reads=NODE, label=label,
    )  # fmt: skip
    return chain.walked(state, wish)


def _brief(state: RunState, label: Label, *, memory: bool) -> Brief:
    closing = f"{reading.json_answer(SHAPE)}\n\n{WORDS}"
    candidate = state.candidates.get(label)
    if memory and candidate is not None and _lane(state, label).turns:
        return b.brief("Go on where you stopped, until the task is done.", closing)
    verify = state.settings.verify
    gate = "\n".join(f"- `{line}`" for line in dict.fromkeys((*verify.check, *verify.gate)))
    so_far = candidate.change.patch if candidate and candidate.changed else None
    return b.brief(
        b.HOUSE,
        *b.task(state),
        *b.plan(state),
        *b.preflight(state),
        f"# What decides\n\nThese commands must pass in the end:\n\n{gate}" if gate else None,
        *b.change(so_far, "The work so far (already in your folder)"),
        closing,
    )


def _collected(state: RunState, at: Lane, event: events.WorkCollected) -> RunState:
    candidate = rooms.candidate(state, at.label, state.started.roles.chain(AgentRole.Developer)[0])
    if candidate is None:
        return state
    why = at.failure.reason if at.failure else ""
    candidate = candidate.but(change=event.change, start_tree=event.start_tree, turns=at.turns, failure=why)
    state, word = rooms.with_candidate(state, candidate), candidate.claim.word if candidate.claim else ""
    if word == "continue" and at.failure is None and at.turns <= state.settings.pipeline.continuations:
        return _keep(state, at, step="ask")
    checks = bool(state.settings.verify.check) and candidate.changed
    return _keep(state, at, step="check" if checks else "done")


def _viable(state: RunState, at: Lane) -> bool:
    """Whether there is a change: this iteration's own, or, if nobody failed in it, that of the iterations before."""
    candidate = state.candidates.get(at.label)
    if candidate is None or not candidate.changed:
        return False
    return candidate.change.tree != at.began or (state.iteration > 0 and at.failure is None)


def _already(state: RunState, label: Label) -> bool:
    """Nothing changed, nothing failed, and there is evidence: the agent's, or, of a program that only edits, a green base."""
    candidate = state.candidates.get(label)
    if candidate is None or candidate.changed or candidate.failure:
        return False
    if candidate.claim is not None:
        return candidate.claim.word == "already_done" and bool(candidate.claim.evidence.strip())
    only_edits = agent_of(state, candidate.agent).answers == (Answers.Edit,)
    return only_edits and state.preflight is not None and state.preflight.green


def _lane(state: RunState, label: Label) -> Lane:
    candidate, space = state.candidates.get(label), state.workspaces.get(rooms.impl_seat(label))
    found = candidate.change.tree if candidate else space.tree if space else Tree("")
    return state.lanes.get(label) or Lane(label, found)


def _keep(state: RunState, at: Lane, **changes: object) -> RunState:
    return state.but(lanes={**state.lanes, at.label: at.but(**changes)})


PHASE = Phase(_afresh, _again, _arrived, _wants, _answered)

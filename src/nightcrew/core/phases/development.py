"""Development: every implementer in a lane of its own; a turn, its work collected, its checks. "Done" is a diff, never a sentence."""

from nightcrew.core import brief as b, chain, events, panel, reading, rooms
from nightcrew.core.ids import AgentId, Commit, Label, Tree, impl_seat
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Judging, Lane, Phase, RunState, Want, agent_of, began
from nightcrew.core.trouble import fail_of, fails, leave
from nightcrew.core.work import Brief, Claim, Failure, Outcome, PipelinePhase, Purpose

NODE = "implement"
SHAPE = '{"word": "done" | "continue" | "already_done", "evidence": "…"}'
WORDS = '"continue" asks for another turn; "already_done" means that the base does what the task asks, with the evidence.'


def _wants(state: RunState) -> tuple[Want, ...]:
    """What each lane asks for; one that sleeps takes no other's place, and who has begun goes before who wakes up."""
    asleep, busy = chain.asleep(state, NODE), {opened.effect.seat for opened in state.open.values()}
    going = [at for label in rooms.labels(state) if (at := _lane(state, label)).step != "done"]
    awake = sorted((at for at in going if impl_seat(at.label) not in asleep), key=lambda at: impl_seat(at.label) not in busy)
    lanes = awake[: state.settings.pipeline.max_parallel] + [at for at in going if at not in awake]
    return tuple(want for at in lanes for want in _lane_wants(state, at))


def _lane_wants(state: RunState, at: Lane) -> tuple[Want, ...]:
    if missing := rooms.author(state, at.label):
        return missing
    if at.step == "ask":
        return chain.ask(state, _wish(state, at))
    if at.step == "collect":
        message = f"work of {at.label}, turn {at.turns}"
        return rooms.collect(state, NODE, at.label, message, lambda now, _effect, event: _collected(now, at, event))
    return rooms.commands(
        state, Purpose.Check, impl_seat(at.label), state.settings.verify.check,
        lambda s, ran: _keep(rooms.with_candidate(s, s.candidates[at.label], checks=ran.results), at, step="done"),
    )  # fmt: skip


def _arrived(state: RunState) -> RunState:
    lanes = [_lane(state, label) for label in rooms.labels(state)]
    viable = sorted(at.label for at in lanes if at.step == "done" and _viable(state, at))
    if {impl_seat(at.label) for at in lanes if at.step != "done"}.difference(chain.asleep(state, NODE) if viable else ()):
        return state
    if viable:
        late = {at.label: "its agents cool down" for at in lanes if at.step != "done"}
        return leave(state, PipelinePhase.Judging, judging=Judging(entrants=tuple(viable), out=late))
    if all(_already(state, at.label) for at in lanes):
        return leave(state, PipelinePhase.Finalizing, already="already done")
    if failed := [at.failure for at in lanes if at.failure is not None]:
        return fail_of(state, failed)
    return fails(state, "no candidate", "no implementer changed anything", NODE, impl_seat(lanes[0].label))


def _afresh(state: RunState) -> RunState:
    before = began(state)
    candidates, winner = ({before.label: before}, before.label) if before else ({}, Label(""))
    return rooms.all_rewound(state.but(lanes={}, candidates=candidates, winner=winner))


def _again(state: RunState) -> RunState:
    """The run with every lane asked anew that came to nothing, or that holds a repair since."""
    repaired = {repair.commit for repair in state.trouble.repairs} if state.trouble else set[Commit]()
    good = [at for at in state.lanes.values() if at.step == "done" and at.failure is None and _viable(state, at)]
    good = [at for at in good if state.candidates[at.label].change.head not in repaired]
    return state.but(lanes={k: at if at in good else at.but(step="ask", failure=None) for k, at in state.lanes.items()})


def read(text: str) -> Claim | None:
    """An implementer's closing word, if it gave one."""
    claim = reading.last_fitting(text, Claim)
    return claim if claim is not None and claim.word in {"done", "continue", "already_done"} else None


def _wish(state: RunState, at: Lane) -> chain.Wish:
    return chain.Wish(
        NODE, impl_seat(at.label), AgentRole.Developer, Answers.Edit, lambda memory: _brief(state, at, memory=memory),
        lambda now, said: _told(now, at, said), reads=NODE, label=at.label, agents=_bench(state, at.label),
    )  # fmt: skip


def _bench(state: RunState, label: Label) -> tuple[AgentId, ...]:
    labels = rooms.labels(state)
    return panel.bench(state.started.roles.chain(AgentRole.Developer), len(labels), labels.index(label))


def _told(state: RunState, at: Lane, said: Outcome | Failure) -> RunState:
    failure = said if isinstance(said, Failure) else None
    if isinstance(said, Outcome):
        agent, claim = state.seats[impl_seat(at.label)].agent, said.report if isinstance(said.report, Claim) else None
        candidate = rooms.candidate(state, at.label, agent)
        state = rooms.with_candidate(state, candidate, agent=agent, claim=claim) if candidate else state
    return _keep(state, at, step="collect", failure=failure, turns=at.turns + 1)


def _brief(state: RunState, at: Lane, *, memory: bool) -> Brief:
    closing, candidate = f"{reading.json_answer(SHAPE)}\n\n{WORDS}", state.candidates.get(at.label)
    if memory and candidate is not None and at.turns:
        return b.brief("Go on where you stopped, until the task is done.", closing)
    verify = state.settings.verify
    gate = "\n".join(f"- `{line}`" for line in dict.fromkeys((*verify.check, *verify.gate)))
    so_far = candidate.change.patch if candidate and candidate.changed else None
    decides = f"# What decides\n\nThese commands must pass in the end:\n\n{gate}" if gate else None
    blind = "Others do the same task, and blind judges compare the files: let nothing in them tell who wrote them."
    known = (b.HOUSE, *b.task(state), *b.plan(state), *b.preflight(state), decides)
    done = b.change(so_far, "The work so far (already in your folder)")
    return b.brief(*known, *done, blind if state.settings.pipeline.implementers > 1 else None, closing)


def _collected(state: RunState, at: Lane, event: events.EffectAnswer) -> RunState:
    if isinstance(event, events.WorkspaceLost):  # with it the work of a turn, of this lane alone
        why, known = f"the work of {at.label} is gone: {event.reason}", state.candidates.get(at.label)
        lost = Failure(phase=state.phase, role=AgentRole.Developer, kind="lost", reason=why, node=NODE, seat=impl_seat(at.label))
        state = rooms.with_candidate(state, known, failure=why) if known else state
        return _checking(state, at.but(failure=at.failure or lost))
    candidate = rooms.candidate(state, at.label, _bench(state, at.label)[0])
    if candidate is None or not isinstance(event, events.WorkCollected):
        return state
    why = at.failure.reason if at.failure else ""
    candidate = candidate.but(change=event.change, start_tree=event.start_tree, turns=at.turns, failure=why)
    state, word = rooms.with_candidate(state, candidate), candidate.claim.word if candidate.claim else ""
    if word == "continue" and at.failure is None and at.turns <= state.settings.pipeline.continuations:
        return _keep(state, at, step="ask")
    return _checking(state, at)


def _checking(state: RunState, at: Lane) -> RunState:
    candidate = state.candidates.get(at.label)
    checks = bool(state.settings.verify.check) and candidate is not None and candidate.changed
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
    return agent_of(state, candidate.agent).answers == (Answers.Edit,) and state.preflight is not None and state.preflight.green


def _lane(state: RunState, label: Label) -> Lane:
    candidate, space = state.candidates.get(label), state.workspaces.get(impl_seat(label))
    return state.lanes.get(label) or Lane(label, candidate.change.tree if candidate else space.tree if space else Tree(""))


def _keep(state: RunState, at: Lane, **changes: object) -> RunState:
    return state.but(lanes={**state.lanes, at.label: at.but(**changes)})


PHASE = Phase(_afresh, _again, _arrived, _wants)

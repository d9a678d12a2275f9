"""AwaitingDevFix: what is due inside the phase, levels, pauses and the completion marker.

One thing is due at a time: a pending marker before everything; then the trigger; the dev-fix turn, or its skip, or the wait for
an agent; the pause; then, as records, the escalation, the chain's reset and the recovery itself, which leads back into the pipeline.
No number of attempts ends a run: only a pending marker does, and only a cancel, a safety valve or a catastrophe sets one.
"""

from nightcrew.core import brief as b, chain, effects as fx, events as ev, rooms, trouble as t
from nightcrew.core.ids import AgentId, Label, SeatKey, fraction, impl_seat
from nightcrew.core.phases.catalog import PHASES
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Marker, Repair, RunState, Trouble, Want, asking, enter, keyed, line, on, timer, without
from nightcrew.core.trouble import NODE, ORDER
from nightcrew.core.work import Brief, Candidate, Class, Failure, Outcome, PipelinePhase

SEAT = SeatKey("dev-fix")
PAUSE, MARKER = "recovery", "marker"  # nodes
LAST_LEVEL = 4  # which starts over from the first commit; reaching it is told to a person, once
FREE_ATTEMPTS = 3  # that follow each other without a pause
UNAVAILABLE_FIRST_S, UNAVAILABLE_LONGEST_S = 60.0, 1800.0
STUCK, LOGIN = "stuck", "login"  # questions
GO = "go (try again now) | stop"
STUCK_AFTER = 3  # times in a row that level 4 may end the same, with the same files, before a person is asked
SLOW_FIRST_S, SLOW_LONGEST_S = 900.0, 6 * 3600.0


def level_of(attempts: int) -> int:
    """The level that so many attempts call for: 1-3 → 1, 4-6 → 2, 7-9 → 3, from 10 on → 4."""
    return 0 if attempts == 0 else min(LAST_LEVEL, (attempts + 2) // 3)


def pause_s(state: RunState, attempts: int) -> float:
    """Seconds between this attempt and its recovery: none for the first three, then doubling with jitter up to the longest."""
    ladder = state.settings.ladder
    if attempts <= FREE_ATTEMPTS:
        return 0.0
    span = min(ladder.pause_max_s, ladder.pause_s * 2.0 ** min(attempts - FREE_ATTEMPTS - 1, 30))
    return span * (0.8 + 0.2 * fraction(f"{state.started.run}/pause/{attempts}"))


def _slow_s(times: int) -> float:
    """Of the slow schedule, for what only a person can change: 15 minutes doubling to 6 hours."""
    return min(SLOW_LONGEST_S, SLOW_FIRST_S * 2.0 ** min(times, 10))


def wants(state: RunState) -> tuple[Want, ...]:
    """What the phase asks for: the dev-fix turn, the collection of its work, or a pause."""
    trouble = state.trouble
    if trouble is None or not trouble.triggered:
        return ()
    if trouble.wait_until:
        agents = _chain(state, trouble) if trouble.unavailable else ()
        why = f"waiting for {', '.join(agents)}" if agents else f"pause before recovery attempt {trouble.attempts}"
        pause = timer(state, PAUSE, SeatKey(""), trouble.wait_until, why, agents)
        return (Want(pause, on(ev.TimerFired, lambda now, _event: _with(now, wait_until=0.0))),)
    host = _host(state)
    if host is None or trouble.finished or trouble.unavailable or trouble.step == "told" or _skipped(state, trouble, host):
        return ()
    if host.seat not in state.workspaces:
        return rooms.author(state, host.label)
    if trouble.step == "collect":
        collected = on(ev.WorkCollected, lambda now, event: _collected(now, trouble, host, event))
        return rooms.collect(state, NODE, host.label, f"dev-fix {trouble.attempts + 1}", collected)
    wish = chain.Wish(
        NODE, SEAT, AgentRole.Developer, Answers.Edit, lambda _memory: _brief(state, trouble, host), _mended, label=host.label
    )
    return chain.ask(state, wish)


def due(state: RunState) -> ev.Event | None:
    """The decision that must be written down now, if any (decision 0002); one at a time, in this order."""
    trouble, inside = state.trouble, state.phase is PipelinePhase.AwaitingDevFix and state.marker is None
    if trouble is None:  # nobody knows any more what failed
        return ev.RecoveryAttempted(level=1, attempt_count=0, target_phase=PipelinePhase.Development) if inside else None
    if trouble.over:
        return ev.RecoverySucceeded(level=max(1, trouble.level), total_attempts=trouble.attempts)
    if not inside:
        return None
    if not trouble.triggered:
        return ev.DevFixTriggered(failed_phase=trouble.failed_phase, failed_role=t.role_of(trouble))
    if not trouble.unavailable and not trouble.finished:
        return _told(state, trouble)
    return None if trouble.wait_until else _back(state, trouble, max(1, trouble.level))


def _told(state: RunState, trouble: Trouble) -> ev.Event | None:
    """How the attempt ended, once that is known."""
    failure = trouble.failure
    if failure.unavailable and failure.exhausted:
        return ev.DevFixAgentUnavailable(failed_phase=trouble.failed_phase, reason=failure.reason)
    if skipped := _skipped(state, trouble, _host(state)):
        return ev.DevFixSkipped(reason=skipped)
    return ev.DevFixCompleted(success=trouble.success, summary=trouble.summary or None) if trouble.step == "told" else None


def _skipped(state: RunState, trouble: Trouble, host: Candidate | None) -> str:
    """Why no repair is tried; empty when one is."""
    failure = trouble.failure
    reasons = (
        (failure.internal, f"internal error: {line(failure.reason, 120)}"),
        (not state.settings.ladder.dev_fix, "disabled"),
        (not state.started.roles.chain(AgentRole.Developer), "nobody can edit"),
        (host is None, "no workspace to work in"),
        (trouble.step == "unavailable", f"agent unavailable: {trouble.summary}"),
    )
    return next((reason for holds, reason in reasons if holds), "")


def _back(state: RunState, trouble: Trouble, level: int) -> ev.Event:
    """The way back into the pipeline: escalation, chain resets, recovery."""
    if trouble.attempted and level > trouble.attempted:
        reason = f"{trouble.attempts} attempts did not help: {trouble.failure.reason}"
        return ev.RecoveryEscalated(from_level=trouble.attempted, to_level=level, reason=line(reason))
    for name in _chains(state, trouble, level):
        if name not in trouble.reset:
            return ev.ChainReset(chain=name, handovers_before=len(state.handovers))
    target = t.first_phase(state) if level >= 3 else trouble.failed_phase
    return ev.RecoveryAttempted(level=level, attempt_count=trouble.attempts, target_phase=target)


def _chains(state: RunState, trouble: Trouble, level: int) -> tuple[str, ...]:
    """The chains that start at their front again: an exhausted one; from level 2 on those of the phase, from level 3 on all."""
    exhausted = (trouble.failure.exhausted,) if trouble.failure.exhausted else ()
    phases = ORDER if level >= 3 else (trouble.failed_phase,) if level == 2 else ()
    roles = dict.fromkeys(role for phase in phases for role in t.ASKS[phase].chains)
    moved = tuple(str(role) for role in roles if any(h.node in t.NODES_OF[role] for h in chain.counted(state, str(role))))
    return tuple(dict.fromkeys((*exhausted, *moved)))


def _mended(state: RunState, said: Outcome | Failure) -> RunState:
    if isinstance(said, Failure):
        return _with(state, step="unavailable" if said.unavailable else "collect", success=False, summary=said.reason)
    return _with(state, step="collect", success=True, summary=line(said.answer.tail if said.answer else ""))


def _collected(state: RunState, trouble: Trouble, host: Candidate, event: ev.WorkCollected) -> RunState:
    change = event.change
    if change.tree == host.change.tree:
        return _with(state, step="told")
    if host.label in state.candidates:
        late = ORDER.index(trouble.failed_phase) > ORDER.index(PipelinePhase.Review)
        state = rooms.with_candidate(state, host, change=change).but(unreviewed=state.unreviewed or late)
    else:  # a workspace that is only prepared now starts from a repair of the base
        state = rooms.with_space(state, host.seat, state.workspaces[host.seat], start=change.head, tree=change.tree)
    # What judges said of them holds, as the repair is the same for all.
    shared = {PipelinePhase.Planning: rooms.labels(state), PipelinePhase.Judging: state.judging.entrants}
    state = rooms.repaired(state, (label for label in shared.get(trouble.failed_phase, ()) if label != host.label), change.head)
    return _with(state, step="told", repairs=(*trouble.repairs, Repair(change.head, trouble.summary)))


def applied(state: RunState, event: ev.Event) -> RunState:
    """The meaning of each of the nine variants, and of the reset of a chain, in whatever phase it comes; total."""
    match event:
        case ev.ChainReset(chain=name, handovers_before=before):
            state = state.but(resets={**state.resets, name: max(before, state.resets.get(name, 0))})
            return _with(state, reset=(*(state.trouble.reset if state.trouble else ()), name))
        case ev.DevFixTriggered():
            return _with(state, triggered=True)
        case ev.DevFixSkipped() | ev.DevFixCompleted() if state.trouble:
            return _attempt_over(state, state.trouble)
        case ev.DevFixAgentUnavailable() if state.trouble and not state.trouble.unavailable:
            return _unavailable(state, state.trouble)
        case ev.RecoveryEscalated(to_level=to_level):
            level = max(state.trouble.level if state.trouble else 0, min(4, max(1, to_level)))
            return _with(state, level=level, attempted=level)
        case ev.RecoveryAttempted():
            return _attempted(state, event)
        case ev.RecoverySucceeded():
            return state.but(trouble=None, questions=without(state.questions, STUCK, LOGIN))
        case ev.CompletionMarkerEmitted():
            return _emitted(state)
        case ev.CompletionMarkerWriteFailed():
            return _write_failed(state, event)
        case _:
            return state


def _attempt_over(state: RunState, trouble: Trouble) -> RunState:
    attempts, ceiling = trouble.attempts + 1, state.settings.ladder.ceiling
    pause = pause_s(state, attempts)
    if trouble.same >= STUCK_AFTER:
        pause = _slow_s(trouble.same - STUCK_AFTER)
        text = f"Starting over ends the same way again and again: {trouble.failure.reason}"
        state = asking(state, STUCK, text, holds=False, how=GO)
    state = _with(
        state, attempts=attempts, level=max(trouble.level, level_of(attempts)), triggered=True, finished=True,
        wait_until=state.at + pause if pause else 0.0,
    )  # fmt: skip
    if not ceiling or attempts < ceiling or state.marker is not None:
        return state
    return state.but(marker=Marker(is_failure=True, reason=f"ceiling: {attempts} attempts: {trouble.failure.reason}"))


def _unavailable(state: RunState, trouble: Trouble) -> RunState:
    agents, waits = _chain(state, trouble), trouble.waits
    cooling = {agent: until for agent, until in state.cooling.items() if until > state.at}
    free = any(agent not in cooling and agent not in trouble.failure.asked for agent in agents)
    login = trouble.failure.kind in {Class.Auth, Class.Billing}
    guess = _slow_s(waits) if login else min(UNAVAILABLE_LONGEST_S, UNAVAILABLE_FIRST_S * 2.0 ** min(waits, 10))
    until = min((cooling.get(agent, state.at + guess) for agent in agents), default=state.at + guess)
    if login and not free:
        text = f"No agent of the role {t.role_of(trouble)} can work: {trouble.failure.reason}"
        state = asking(state, LOGIN, text, holds=False, how=GO)
    return _with(state, unavailable=True, waits=waits + 1, wait_until=0.0 if free else until)


def _attempted(state: RunState, event: ev.RecoveryAttempted) -> RunState:
    trouble = state.trouble
    target = event.target_phase if event.target_phase in ORDER else PipelinePhase.Development
    if state.done:
        return state
    if trouble is None:
        return enter(state, target)
    level = max(event.level, trouble.level, level_of(event.attempt_count))
    if level >= 3 > event.level:
        target = t.first_phase(state)
    state = _with(
        state, level=level, attempted=max(trouble.attempted, level), triggered=False, finished=False, unavailable=False,
        reset=(), step="ask", wait_until=0.0,
    )  # fmt: skip
    if level >= 3:  # what the level forgets beyond the target phase's own progress
        state = t.back_to_an_iteration(state, 0 if level == 4 else max(0, state.iteration - 1))
    elif level == 2:
        ours = (seat for seat in state.seats if seat.startswith(t.ASKS[target].seats))
        state = t.back_to_its_start(chain.forgotten(state, *ours), target)
    state = enter(state, target)
    return PHASES[target].again(state) if level < 2 else PHASES[target].afresh(state)


def _emitted(state: RunState) -> RunState:
    if state.phase is PipelinePhase.AwaitingDevFix:
        return enter(state, PipelinePhase.Interrupted, marker=None, ended=state.marker.reason if state.marker else "interrupted")
    over = state.phase is PipelinePhase.Finalizing
    return enter(state, PipelinePhase.Complete, marker=None) if over else state.but(marker=None)


def _write_failed(state: RunState, event: ev.CompletionMarkerWriteFailed) -> RunState:
    if state.done:
        return state
    marker = state.marker or Marker(is_failure=event.is_failure, reason="" if event.is_failure else "success")
    failures, reason = marker.failures + 1, marker.reason or event.error
    until = state.at + pause if (pause := pause_s(state, failures)) else 0.0
    return state.but(marker=marker.but(error=event.error, failures=failures, reason=reason, wait_until=until))


def marker_wants(state: RunState, marker: Marker) -> tuple[Want, ...]:
    """Of a pending marker: first the rescue of every slot, then its pause, then the marker itself (decision 0025)."""
    # A rescue that cannot be made does not hold the marker up for ever: any answer to it will do.
    unsaved = [(seat, space.slot) for seat, space in state.workspaces.items() if seat not in state.rescued]
    if marker.is_failure and unsaved:
        saves = (fx.RescueWork(node=MARKER, seat=seat, slot=slot) for seat, slot in unsaved)
        return tuple(Want(keyed(state, save), lambda now, s, _event: now.but(rescued=(*now.rescued, s.seat))) for save in saves)
    if marker.wait_until:
        pause = timer(state, MARKER, SeatKey(""), marker.wait_until, f"marker: {marker.error}")
        return (Want(pause, on(ev.TimerFired, lambda now, _event: now.within("marker", wait_until=0.0))),)
    emit = fx.EmitCompletionMarkerAndTerminate(node=MARKER, is_failure=marker.is_failure, reason=marker.reason)

    def unwritten(now: RunState, _effect: fx.Effect, event: ev.EffectAnswer) -> RunState:
        why = event.reason if isinstance(event, ev.StepFailed | ev.HandlerCrashed) else None
        return now if why is None else _write_failed(now, ev.CompletionMarkerWriteFailed(is_failure=True, error=why))

    return (Want(keyed(state, emit), unwritten),)


def ending(state: RunState, reason: str) -> RunState:
    """The run with a failure marker pending: a cancel, a valve or a catastrophe (decision 0025). The first reason is kept."""
    if state.done or (state.marker is not None and state.marker.is_failure):
        return state
    marker, here = Marker(is_failure=True, reason=reason), state.phase is PipelinePhase.AwaitingDevFix
    return state.but(marker=marker) if here else enter(state, PipelinePhase.AwaitingDevFix, marker=marker)


def _brief(state: RunState, trouble: Trouble, host: Candidate) -> Brief:
    failure = trouble.failure
    tried = f"This is attempt {trouble.attempts + 1}; level {max(1, trouble.level)} of 4." if trouble.attempts else ""
    before = "\n".join(f"- {r.summary}{' (left out: it conflicts)' if r.left_out else ''}" for r in trouble.repairs)
    findings = "\n".join(f"- {f.id}: {f.why}" for f in state.open_findings)
    failed = f"# What failed\n\nPhase {trouble.failed_phase}, role {failure.role}: {failure.reason}. {tried}"
    known = (b.HOUSE, *b.task(state), *b.plan(state), *b.change(host.change.patch))
    so_far = (f"# Repairs so far\n\n{before}" if before else None, f"# Open findings\n\n{findings}" if findings else None)
    ask = "# What you are asked\n\nFind the cause and mend it, in the work or in what it needs, so that the step can be made again. "
    seen = b.quoted(failure.detail, b.OUTPUT_LIMIT)
    return b.brief(*known, failed, seen, *so_far, ask + "Close with one line on what you did.")


def _host(state: RunState) -> Candidate | None:
    """Where a dev-fix works: the workspace that failed, else the winner's, else any; for rivals that are judged, on their base."""
    trouble, asked = state.trouble, state.started.roles.chain(AgentRole.Developer)
    if trouble is None or not asked:
        return None
    seats = (trouble.failure.seat, impl_seat(state.winner), *(c.seat for c in state.candidates.values()), *state.workspaces)
    labels = [Label(seat.removeprefix("impl-")) for seat in seats if seat.startswith("impl-")]
    labels = [rooms.BASE] if trouble.failed_phase is PipelinePhase.Judging else labels
    return next((host for label in labels if (host := rooms.candidate(state, label, asked[0]))), None)


def _chain(state: RunState, trouble: Trouble) -> tuple[AgentId, ...]:
    """Whom the failed role asks; fixers that nobody named are the winner's own agent."""
    role, winner = t.role_of(trouble), state.winning
    if role is AgentRole.Fixer and not state.started.roles.fixer_set and winner is not None:
        return (winner.agent,)
    return state.started.roles.chain(role) or tuple(agent.id for agent in state.started.roster)


def _with(state: RunState, **changes: object) -> RunState:
    return state.within("trouble", **changes) if state.trouble else state

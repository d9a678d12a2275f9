"""AwaitingDevFix: what is due inside the phase, levels, pauses and the completion marker.

Theory of operation. A terminal failure leaves a `Trouble` (module `trouble`). Inside the phase exactly one thing is due at a
time: a pending marker before everything; then the trigger; then the dev-fix turn, or its skip, or the wait for an agent; then
the pause; then, as records, the escalation, the chain's reset and the recovery itself, which leads back into the pipeline. No
number of attempts ends a run: only a pending marker does, and only a cancel, a safety valve or a catastrophe sets one.
"""

from msgspec import structs

from nightcrew.core import brief as b
from nightcrew.core import chain, rooms
from nightcrew.core.effects import CollectWork, Effect, EmitCompletionMarkerAndTerminate, RescueWork, StartTurn, Timer
from nightcrew.core.events import (
    ChainReset,
    CompletionMarkerEmitted,
    CompletionMarkerWriteFailed,
    DevFixAgentUnavailable,
    DevFixCompleted,
    DevFixSkipped,
    DevFixTriggered,
    EffectAnswer,
    Event,
    RecoveryAttempted,
    RecoveryEscalated,
    RecoverySucceeded,
    TimerFired,
    WorkCollected,
)
from nightcrew.core.ids import AgentId, Label, SeatKey, fraction
from nightcrew.core.phases.catalog import PHASES
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.seats import forget
from nightcrew.core.state import Marker, Repair, RunState, Trouble, enter, key_for, line, timer, without
from nightcrew.core.trouble import (
    CHAINS_OF,
    NODE,
    NODES_OF,
    ORDER,
    SEATS_OF,
    back_to_an_iteration,
    back_to_its_start,
    first_phase,
    role_of,
)
from nightcrew.core.work import Brief, Candidate, Class, Part, PipelinePhase, Question

SEAT = SeatKey("dev-fix")
PAUSE = "recovery"
MARKER = "marker"
FREE_ATTEMPTS = 3
"""Attempts that follow each other without a pause."""
UNAVAILABLE_FIRST_S = 60.0
UNAVAILABLE_LONGEST_S = 1800.0
CEILING = "ceiling"
STUCK = "stuck"
LOGIN = "login"
STUCK_AFTER = 3
"""How often in a row level 4 may end the same, with the same files, before a person is asked."""
SLOW_FIRST_S = 900.0
SLOW_LONGEST_S = 6 * 3600.0


def level_of(attempts: int) -> int:
    """The level that so many attempts call for: 1-3 → 1, 4-6 → 2, 7-9 → 3, from 10 on → 4."""
    return 0 if attempts == 0 else min(4, (attempts + 2) // 3)


def pause_s(state: RunState, attempts: int) -> float:
    """Seconds between this attempt and its recovery: none for the first three, then doubling with jitter up to the longest."""
    ladder = state.settings.ladder
    if attempts <= FREE_ATTEMPTS:
        return 0.0
    span = min(ladder.pause_max_s, ladder.pause_s * 2.0 ** min(attempts - FREE_ATTEMPTS - 1, 30))
    return span * (0.8 + 0.2 * fraction(f"{state.started.run}/pause/{attempts}"))


def slow_s(times: int) -> float:
    """Seconds of the slow schedule, for what only a person can change: 15 minutes doubling to 6 hours."""
    return min(SLOW_LONGEST_S, SLOW_FIRST_S * 2.0 ** min(times, 10))


# ── what is due ───────────────────────────────────────────────────────────────────────────────────────────────────


def wants(state: RunState) -> tuple[Effect, ...]:
    """The effects of the phase: the dev-fix turn, the collection of its work, or a pause."""
    trouble = state.trouble
    if trouble is None or not trouble.triggered:
        return ()
    if trouble.wait_until:
        return (_pause(state, trouble),)
    if trouble.finished or trouble.unavailable:
        return ()
    host = _host(state)
    if host is None or not _may_fix(state, trouble):
        return ()
    match trouble.step:
        case "ask":
            return (
                rooms.author(state, host.label) if _lost(state, host) else chain.ask(state, wish(state, trouble, host))
            )
        case "collect":
            collect = rooms.collect(state, NODE, host.label, f"dev-fix {trouble.attempts + 1}")
            return rooms.author(state, host.label) if _lost(state, host) else (collect,)
        case _:
            return ()


def due(state: RunState) -> Event | None:
    """The decision that must be written down now, if any (decision 0002); one at a time, in this order."""
    trouble = state.trouble
    if trouble is None:
        return _out(state)
    if trouble.over:
        return RecoverySucceeded(level=max(1, trouble.level), total_attempts=trouble.attempts)
    if state.phase is not PipelinePhase.AwaitingDevFix or state.marker is not None:
        return None
    if not trouble.triggered:
        return DevFixTriggered(failed_phase=trouble.failed_phase, failed_role=role_of(trouble))
    if trouble.unavailable:
        return None if trouble.wait_until else _back(state, trouble, max(1, trouble.level))
    if not trouble.finished:
        return _tell(state, trouble)
    if trouble.wait_until:
        return None
    return _back(state, trouble, trouble.level)


def _out(state: RunState) -> Event | None:
    """The way back when nobody knows any more what failed."""
    if state.phase is not PipelinePhase.AwaitingDevFix or state.marker is not None:
        return None
    return RecoveryAttempted(level=1, attempt_count=0, target_phase=PipelinePhase.Development)


def _tell(state: RunState, trouble: Trouble) -> Event | None:
    """How the attempt ended, once that is known."""
    failure = trouble.failure
    if failure.unavailable and failure.exhausted:
        return DevFixAgentUnavailable(failed_phase=trouble.failed_phase, reason=failure.reason)
    if failure.internal:
        return DevFixSkipped(reason=f"internal error: {line(failure.reason, 120)}")
    if not state.settings.ladder.dev_fix:
        return DevFixSkipped(reason="disabled")
    if not state.started.roles.chain(AgentRole.Developer):
        return DevFixSkipped(reason="nobody can edit")
    if _host(state) is None:
        return DevFixSkipped(reason="no workspace to work in")
    if trouble.step == "unavailable":
        return DevFixSkipped(reason=f"agent unavailable: {trouble.summary}")
    if trouble.step == "told":
        return DevFixCompleted(success=trouble.success, summary=trouble.summary or None)
    return None


def _back(state: RunState, trouble: Trouble, level: int) -> Event:
    """The way back into the pipeline: escalation, chain resets, recovery."""
    if trouble.attempted and level > trouble.attempted:
        reason = f"{trouble.attempts} attempts did not help: {trouble.failure.reason}"
        return RecoveryEscalated(from_level=trouble.attempted, to_level=level, reason=line(reason))
    for name in _chains(state, trouble, level):
        if name not in trouble.reset:
            return ChainReset(chain=name, handovers_before=len(state.handovers))
    target = first_phase(state) if level >= 3 else trouble.failed_phase
    return RecoveryAttempted(level=level, attempt_count=trouble.attempts, target_phase=target)


def _chains(state: RunState, trouble: Trouble, level: int) -> tuple[str, ...]:
    """The chains that start at their front again: an exhausted one; from level 2 on those of the phase, from level 3 on all."""
    exhausted = (trouble.failure.exhausted,) if trouble.failure.exhausted else ()
    phases = ORDER if level >= 3 else (trouble.failed_phase,) if level == 2 else ()
    roles = dict.fromkeys(role for phase in phases for role in CHAINS_OF[phase])
    moved = tuple(str(role) for role in roles if any(h.node in NODES_OF[role] for h in chain.counted(state, str(role))))
    return tuple(dict.fromkeys((*exhausted, *moved)))


def _may_fix(state: RunState, trouble: Trouble) -> bool:
    failure = trouble.failure
    if failure.internal or (failure.unavailable and failure.exhausted):
        return False
    return state.settings.ladder.dev_fix and bool(state.started.roles.chain(AgentRole.Developer))


def _pause(state: RunState, trouble: Trouble) -> Timer:
    agents: tuple[AgentId, ...] = ()
    if trouble.unavailable:
        agents = _chain(state, trouble)
    why = f"waiting for {', '.join(agents)}" if agents else f"pause before recovery attempt {trouble.attempts}"
    return timer(state, PAUSE, SeatKey(""), trouble.wait_until, why, agents)


# ── what facts mean ───────────────────────────────────────────────────────────────────────────────────────────────


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer to one of this phase's effects means."""
    trouble, host = state.trouble, _host(state)
    if trouble is None:
        return state
    if isinstance(effect, Timer) and effect.node == PAUSE and isinstance(event, TimerFired):
        return _with(state, wait_until=0.0)
    if isinstance(event, WorkCollected) and host is not None and isinstance(effect, CollectWork):
        return _collected(state, trouble, host, event)
    if host is None or not isinstance(effect, StartTurn | Timer):
        return state
    state, verdict = chain.answered(state, wish(state, trouble, host), effect, event)
    match verdict:
        case chain.Good(outcome):
            said = outcome.answer.tail if outcome.answer else ""
            return _with(state, step="collect", success=True, summary=line(said))
        case chain.Bad(failure) if failure.unavailable:
            return _with(state, step="unavailable", summary=failure.reason)
        case chain.Bad(failure):
            return _with(state, step="collect", success=False, summary=failure.reason)
        case None:
            return state


def _collected(state: RunState, trouble: Trouble, host: Candidate, event: WorkCollected) -> RunState:
    changed = event.change.tree != host.change.tree
    if not changed:
        return _with(state, step="told")
    repairs = (*trouble.repairs, Repair(event.change.head, trouble.summary))
    if host.label in state.candidates:
        state = rooms.with_candidate(state, structs.replace(host, change=event.change))
        late = ORDER.index(trouble.failed_phase) > ORDER.index(PipelinePhase.Review)
        state = structs.replace(state, unreviewed=state.unreviewed or late)
    else:
        state = rooms.moved_to(state, host.seat, event.change)
    return _with(state, step="told", repairs=repairs)


def applied(state: RunState, event: Event) -> RunState:
    """The meaning of each of the nine variants, in whatever phase it comes; total."""
    match event:
        case DevFixTriggered():
            return _with(state, triggered=True)
        case DevFixSkipped() | DevFixCompleted():
            return _attempt_over(state)
        case DevFixAgentUnavailable():
            return _unavailable(state)
        case RecoveryEscalated(to_level=to_level):
            trouble = state.trouble
            if trouble is None:
                return state
            level = max(trouble.level, min(4, max(1, to_level)))
            return _with(state, level=level, attempted=level)
        case RecoveryAttempted():
            return _attempted(state, event)
        case RecoverySucceeded():
            return structs.replace(state, trouble=None, questions=without(state.questions, STUCK, LOGIN))
        case CompletionMarkerEmitted():
            return _emitted(state)
        case CompletionMarkerWriteFailed():
            return _write_failed(state, event)
        case _:
            return state


def chain_reset(state: RunState, event: ChainReset) -> RunState:
    """The chain starts at its front again: handovers before that index no longer count."""
    resets = {**state.resets, event.chain: max(event.handovers_before, state.resets.get(event.chain, 0))}
    done = state.trouble.reset if state.trouble else ()
    return _with(structs.replace(state, resets=resets), reset=(*done, event.chain))


def step_failed(state: RunState, reason: str) -> RunState:
    """The run after a step of the dev-fix itself failed: the attempt is over, the first failure is kept."""
    return _with(state, step="told", success=False, summary=line(reason))


def _attempt_over(state: RunState) -> RunState:
    trouble = state.trouble
    if trouble is None:
        return state
    attempts = trouble.attempts + 1
    ceiling = state.settings.ladder.ceiling
    if trouble.same >= STUCK_AFTER:
        state = _asking(state, STUCK, f"Starting over ends the same way again and again: {trouble.failure.reason}")
    pause = slow_s(trouble.same - STUCK_AFTER) if trouble.same >= STUCK_AFTER else pause_s(state, attempts)
    state = _with(
        state, attempts=attempts, level=max(trouble.level, level_of(attempts)), triggered=True, finished=True,
        wait_until=state.at + pause if pause else 0.0,
    )  # fmt: skip
    if ceiling and attempts >= ceiling and state.marker is None:
        return structs.replace(
            state, marker=Marker(is_failure=True, reason=f"{CEILING}: {attempts} attempts: {trouble.failure.reason}")
        )
    return state


def _unavailable(state: RunState) -> RunState:
    trouble = state.trouble
    if trouble is None or trouble.unavailable:
        return state
    login = trouble.failure.kind in {Class.Auth, Class.Billing}
    chain_of = _chain(state, trouble)
    cooling = {agent: until for agent, until in state.cooling.items() if until > state.at}
    free = [agent for agent in chain_of if agent not in cooling and agent not in trouble.failure.asked]
    guess = (
        slow_s(trouble.waits)
        if login
        else min(UNAVAILABLE_LONGEST_S, UNAVAILABLE_FIRST_S * 2.0 ** min(trouble.waits, 10))
    )
    guess += state.at
    until = 0.0 if free else min((cooling.get(agent, guess) for agent in chain_of), default=guess)
    if login and not free:
        text = f"No agent of the role {role_of(trouble)} can work: {trouble.failure.reason}"
        state = _asking(state, LOGIN, text)
    return _with(state, unavailable=True, waits=trouble.waits + 1, wait_until=until)


def _asking(state: RunState, name: str, text: str) -> RunState:
    """The run with a question that holds nothing up; it is put once in a trouble."""
    if name in state.questions:
        return state
    question = Question(name, text, holds=False, asked_at=state.at, how="go (try again now) | stop")
    return structs.replace(state, questions={**state.questions, name: question})


def told(state: RunState, word: str) -> RunState:
    """The run after a person answered one of those questions: it ends, or tries again at once."""
    return ending(state, "stopped by the operator") if word in {"stop", "no"} else _with(state, wait_until=0.0)


def _attempted(state: RunState, event: RecoveryAttempted) -> RunState:
    trouble = state.trouble
    target = event.target_phase if event.target_phase in ORDER else PipelinePhase.Development
    if state.done:
        return state
    if trouble is None:
        return enter(state, target)
    level = max(event.level, trouble.level, level_of(event.attempt_count))
    if level >= 3 > event.level:
        target = first_phase(state)
    state = _with(
        state, level=level, attempted=max(trouble.attempted, level), triggered=False, finished=False, unavailable=False, reset=(),
        step="ask", wait_until=0.0,
    )  # fmt: skip
    state = enter(_starting_over(state, level, target), target)
    return PHASES[target].again(state) if level < 2 else PHASES[target].afresh(state)


def _starting_over(state: RunState, level: int, target: PipelinePhase) -> RunState:
    """What the level forgets beyond the target phase's own progress."""
    if level >= 3:
        return back_to_an_iteration(state, 0 if level == 4 else max(0, state.iteration - 1))
    if level == 2:
        for seat in SEATS_OF[target]:
            state = forget(state, seat)
        return back_to_its_start(state, target)
    return state


def _emitted(state: RunState) -> RunState:
    match state.phase:
        case PipelinePhase.AwaitingDevFix:
            ended = state.marker.reason if state.marker else "interrupted"
            return enter(state, PipelinePhase.Interrupted, marker=None, ended=ended)
        case PipelinePhase.Finalizing:
            return enter(state, PipelinePhase.Complete, marker=None)
        case _:
            return structs.replace(state, marker=None)


def _write_failed(state: RunState, event: CompletionMarkerWriteFailed) -> RunState:
    if state.done:
        return state
    marker = state.marker or Marker(is_failure=event.is_failure, reason="" if event.is_failure else "success")
    failures = marker.failures + 1
    pause = pause_s(state, failures)
    marker = structs.replace(
        marker, error=event.error, failures=failures, reason=marker.reason or event.error,
        wait_until=state.at + pause if pause else 0.0,
    )  # fmt: skip
    return structs.replace(state, marker=marker)


# ── the marker ────────────────────────────────────────────────────────────────────────────────────────────────────


def marker_wants(state: RunState, marker: Marker) -> tuple[Effect, ...]:
    """Of a pending marker: first the rescue of every slot, then its pause, then the marker itself (decision 0025)."""
    if marker.is_failure:
        unsaved = [(seat, space) for seat, space in state.workspaces.items() if seat not in state.rescued]
        if unsaved:
            return tuple(
                RescueWork(key=key_for(state, RescueWork, MARKER, seat), node=MARKER, seat=seat, slot=space.slot)
                for seat, space in unsaved
            )
    if marker.wait_until:
        return (timer(state, MARKER, SeatKey(""), marker.wait_until, f"marker: {marker.error}"),)
    key = key_for(state, EmitCompletionMarkerAndTerminate, MARKER)
    return (EmitCompletionMarkerAndTerminate(key=key, node=MARKER, is_failure=marker.is_failure, reason=marker.reason),)


def marker_answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means while a marker is pending. A rescue that cannot be made does not hold the marker up for ever."""
    if isinstance(effect, RescueWork):
        del event
        return structs.replace(state, rescued=(*state.rescued, effect.seat))
    if isinstance(event, TimerFired) and state.marker is not None and effect.node == MARKER:
        return structs.replace(state, marker=structs.replace(state.marker, wait_until=0.0))
    return state


def ending(state: RunState, reason: str) -> RunState:
    """The run with a failure marker pending: a cancel, a valve or a catastrophe (decision 0025). The first reason is kept."""
    if state.done or (state.marker is not None and state.marker.is_failure):
        return state
    marker = Marker(is_failure=True, reason=reason)
    if state.phase is PipelinePhase.AwaitingDevFix:
        return structs.replace(state, marker=marker)
    return enter(state, PipelinePhase.AwaitingDevFix, marker=marker)


# ── the dev-fix turn ──────────────────────────────────────────────────────────────────────────────────────────────


def wish(state: RunState, trouble: Trouble, host: Candidate) -> chain.Wish:
    """The dev-fix turn: the developer role in the workspace that failed."""
    entries, before = chain.walk(state, AgentRole.Developer, SEAT, (NODE,))
    return chain.Wish(
        node=NODE,
        seat=SEAT,
        role=AgentRole.Developer,
        entries=entries,
        before=before,
        slot=host.slot,
        answers=Answers.Edit,
        reads="",
        label=host.label,
        brief=lambda _memory: _brief(state, trouble, host),
    )


def _brief(state: RunState, trouble: Trouble, host: Candidate) -> Brief:
    failure = trouble.failure
    tried = f"This is attempt {trouble.attempts + 1}; level {max(1, trouble.level)} of 4." if trouble.attempts else ""
    before = "\n".join(f"- {r.summary}{' (left out: it conflicts)' if r.left_out else ''}" for r in trouble.repairs)
    findings = "\n".join(f"- {f.id}: {f.why}" for f in state.open_findings)
    return b.brief(
        b.HOUSE,
        *b.task(state),
        *b.plan(state),
        Part(text="# The change so far") if host.change.patch else None,
        b.quoted(host.change.patch, b.PATCH_LIMIT),
        f"# What failed\n\nPhase {trouble.failed_phase}, role {failure.role}: {failure.reason}. {tried}",
        b.quoted(failure.detail, b.OUTPUT_LIMIT),
        f"# Repairs so far\n\n{before}" if before else None,
        f"# Open findings\n\n{findings}" if findings else None,
        "# What you are asked\n\nFind the cause and mend it, in the work or in what it needs, so that the step can be made again. "
        "Close with one line on what you did.",
    )


def _host(state: RunState) -> Candidate | None:
    """Where a dev-fix works: the winner's workspace, else any candidate's, else one that is only prepared."""
    found = state.winning or next(iter(state.candidates.values()), None)
    asked = state.started.roles.chain(AgentRole.Developer)
    if found is not None or not asked:
        return found
    labels = (Label(seat.removeprefix("impl-")) for seat in state.workspaces if seat.startswith("impl-"))
    return next((host for label in labels if (host := rooms.untouched(state, label, asked[0]))), None)


def _chain(state: RunState, trouble: Trouble) -> tuple[AgentId, ...]:
    """Whom the failed role asks; fixers that nobody named are the winner's own agent."""
    role, winner = role_of(trouble), state.winning
    if role is AgentRole.Fixer and not state.started.roles.fixer_set and winner is not None:
        return (winner.agent,)
    return state.started.roles.chain(role) or tuple(agent.id for agent in state.started.roster)


def _lost(state: RunState, host: Candidate) -> bool:
    return host.seat not in state.workspaces


def _with(state: RunState, **changes: object) -> RunState:
    if state.trouble is None:
        return state
    return structs.replace(state, trouble=structs.replace(state.trouble, **changes))

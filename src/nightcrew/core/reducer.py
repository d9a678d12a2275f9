"""The whole of routing: `reduce` folds one fact, `wanted` says what should be in flight. Both are pure and total (decisions 0001 and 0002).

An answer belongs to an effect by its key. It is routed only while that key is open and was opened in the
present visit of the phase; else only its cost counts. After every fact, `arrived` moves on through steps that ask nothing, to
a fixed point. `desired` is what the phase asks for; `wanted` adds the decisions that must be written down: while one is due
nothing new starts, and nothing is cancelled because of it (decision 0002).
"""

from nightcrew.core import basing, chain, effects as fx, events as ev, recovery, rooms
from nightcrew.core.ids import EffectId, Label, SeatKey
from nightcrew.core.phases import landing, planning, review
from nightcrew.core.phases.catalog import PHASES
from nightcrew.core.settings import exceeded, raised
from nightcrew.core.state import Opened, RunState, Want, Workspace, asking, busy, enter, keyed, lane, red_of, without
from nightcrew.core.trouble import fails, missing
from nightcrew.core.work import Class, Outcome, PipelinePhase, Purpose, Question

CRASHES = 2  # times the same effect is run again after our own bug, or a fault that may pass (decision 0007)
MORE = "more"


def begin(entry: ev.Entry) -> RunState:
    """The state after a run's first fact; a journal that begins otherwise is a bug."""
    event = entry.event
    if not isinstance(event, ev.RunStarted):
        raise TypeError(f"the first fact of a run is RunStarted, not {type(event).__name__}")
    return _advance(RunState(started=event, seq=entry.seq, at=entry.at, phase=PipelinePhase.Planning, base=event.base))


def reduce(state: RunState, entry: ev.Entry) -> RunState:
    """The state after one more fact. Total: what is late, doubled or unknown changes nothing but the clock and the bill."""
    spend = state.spend.but(wall_s=state.spend.wall_s + (max(0.0, entry.at - state.at) if busy(state) else 0.0))
    state = state.but(seq=entry.seq, at=max(state.at, entry.at), behind_s=max(0.0, state.at - entry.at), spend=spend)
    return _advance(_fold(state, entry.event))


def _fold(state: RunState, event: ev.Event) -> RunState:
    match event:
        case ev.EffectStarted(key=key, effect=effect):
            known = state.done or key in state.open or key != keyed(state, effect).key
            return state if known else state.but(open={**state.open, key: Opened(effect, state.at, state.visit)})
        case ev.HandedOver(handover=handover):
            return chain.handed_over(state, handover)
        case ev.FixAsked():
            picked = review.pick(state, event)
            open_still = {name: q for name, q in state.questions.items() if picked is state or name.startswith("limit-")}
            return picked.but(questions=open_still)
        case ev.Answer():
            return _answer(state, event)
        case _ if isinstance(event, ev.ChainReset | ev.AwaitingDevFixEvent):
            return recovery.applied(_marker_closed(state, event), event)
        case _:
            return _told(state, event)


def _told(state: RunState, event: ev.Event) -> RunState:
    """What people said, and what a limit means."""
    if state.done:
        return state
    match event:
        case ev.ParkAsked(now=now) if state.marker is None:
            return state.but(parked=True, park_now=state.park_now or now or state.parked)
        case ev.ResumeAsked():
            return state.but(parked=False, park_now=False)
        case ev.CancelAsked(reason=reason):
            state = recovery.ending(state.but(parked=False, park_now=False), reason)
            return state.within("marker", wait_until=0.0) if state.marker else state  # somebody waits: tried now
        case ev.Answered():
            return _replied(state, event)
        case ev.LimitReached():
            if event.mine:
                return recovery.ending(state, f"budget: the limit {event.valve} = {event.value:g} is reached")
            text = f"The default limit {event.valve} = {event.value:g} is reached. Go on?"
            return asking(state, f"limit-{event.valve}", text, holds=True, how=f"{MORE} (adds as much again) | stop")
        case ev.ConfigChanged():
            new = {name: getattr(event, name) for name in ("limits", "roster", "roles", "settings")}
            return state.but(started=state.started.but(**{name: value for name, value in new.items() if value is not None}))
        case _:
            return state


def _answer(state: RunState, event: ev.EffectAnswer) -> RunState:
    opened = state.open.get(event.key)
    if opened is None:  # late: it routes nothing; its cost counts, once (decision 0006)
        if not isinstance(event, ev.TurnEnded) or event.key not in state.unbilled:
            return state
        return _pay(state.but(unbilled=without(state.unbilled, event.key)), event.outcome)
    if isinstance(event, ev.Ongoing):
        asked = state.questions.get(opened.effect.question) if isinstance(opened.effect, fx.Ask) else None
        told = {asked.id: asked.but(told=True)} if asked else {}
        return state.but(open={**state.open, event.key: opened.but(begun=True)}, questions={**state.questions, **told})
    before, state = state, _cut_off(_billed(_closed(state, event.key), opened, event), opened, event)
    if isinstance(event, ev.Cancelled):
        return state
    if isinstance(event, ev.WorkspaceLost):
        return _routed(before, _workspace_lost(state, event), opened, event)
    if isinstance(event, ev.HandlerCrashed | ev.StepFailed):
        return _step_failed(before, state, opened, event)
    state = state.but(crashes=without(state.crashes, lane(opened.effect)))
    match opened.effect, event:
        case fx.PrepareWorkspace() as effect, ev.WorkspaceReady():
            return rooms.with_space(state, effect.seat, Workspace(event.slot, effect.start, event.tree))
        case fx.ResetWorkspace() as effect, ev.WorkspaceReset():
            return rooms.was_reset(state, effect, event)
        case fx.RunCommands(purpose=Purpose.Setup) as effect, ev.CommandsEnded():
            return _set_up(state, effect, event)
        case _:
            return _routed(before, state, opened, event)


def _cut_off(state: RunState, opened: Opened, event: ev.EffectAnswer) -> RunState:
    """A turn that began and whose answer is not routed: the id it was offered may be taken, so it is not offered again."""
    unrouted = opened.visit != state.visit or state.marker is not None
    spoiled = unrouted or isinstance(event, ev.Cancelled | ev.WorkspaceLost | ev.HandlerCrashed | ev.StepFailed)
    if spoiled and opened.begun and isinstance(opened.effect, fx.StartTurn):
        return chain.interrupted(state, opened.effect, "")
    return state


def _workspace_lost(state: RunState, event: ev.WorkspaceLost) -> RunState:
    if state.winning is not None and state.slot(state.winning.seat) == event.slot:
        seen = state.reviewing.but(basing=basing.restarted(state.reviewing.basing))
        state = state.but(reviewing=seen, validating=state.validating.but(basing=basing.restarted(state.validating.basing)))
    return state.but(workspaces={seat: space for seat, space in state.workspaces.items() if space.slot != event.slot})


def _routed(before: RunState, state: RunState, opened: Opened, event: ev.EffectAnswer) -> RunState:
    """The run after an answer to something that is still wanted, as it was before its key was closed."""
    if state.done or (opened.visit != state.visit and state.marker is None):
        return state
    want = next((want for want in _wants(before) if want.effect.key == event.key), None)
    return want.means(state, opened.effect, event) if want else state


def _closed(state: RunState, key: EffectId) -> RunState:
    counted = lane(state.open[key].effect)
    return state.but(open=without(state.open, key), asked={**state.asked, counted: state.asked.get(counted, 0) + 1})


def _marker_closed(state: RunState, event: ev.Event) -> RunState:
    if not isinstance(event, ev.CompletionMarkerEmitted | ev.CompletionMarkerWriteFailed):
        return state
    key = next((key for key, o in state.open.items() if isinstance(o.effect, fx.EmitCompletionMarkerAndTerminate)), None)
    return state if key is None else _closed(state, key)


def _billed(state: RunState, opened: Opened, event: ev.EffectAnswer) -> RunState:
    effect = opened.effect
    if not isinstance(effect, fx.StartTurn) or isinstance(event, ev.AgentCooling):
        return state
    if isinstance(event, ev.TurnEnded):
        return _pay(state, event.outcome)
    return state.but(unbilled={**state.unbilled, event.key: effect.agent})


def _pay(state: RunState, outcome: Outcome) -> RunState:
    spend = state.spend
    spend = spend.but(
        usd=spend.usd + (outcome.usd or 0.0), tokens=spend.tokens + (outcome.tokens or 0),
        turns=spend.turns + 1, unpriced=spend.unpriced + (outcome.usd is None),
    )  # fmt: skip
    state = state.but(spend=spend)
    if outcome.kind is Class.Ok and state.trouble is not None and state.trouble.waits:
        return state.but(trouble=state.trouble.but(waits=0))
    return state


def _step_failed(before: RunState, state: RunState, opened: Opened, event: ev.HandlerCrashed | ev.StepFailed) -> RunState:
    effect, counted = opened.effect, lane(opened.effect)
    internal = isinstance(event, ev.HandlerCrashed)
    if state.marker is not None:
        return _routed(before, state, opened, event)
    if opened.visit != state.visit:
        return state
    times = state.crashes.get(counted, 0) + 1
    if times <= CRASHES and (internal or (isinstance(event, ev.StepFailed) and event.transient)):
        return state.but(crashes={**state.crashes, counted: times})
    state = state.but(crashes=without(state.crashes, counted))
    if state.phase is PipelinePhase.Finalizing and isinstance(effect, fx.DropWorkspaces):
        return _routed(before, state, opened, event)  # what landed is not done again for want of tidiness
    detail = event.traceback if isinstance(event, ev.HandlerCrashed) else event.detail
    reason, kind = f"{type(effect).__name__}: {event.reason}", "internal" if internal else "step"
    return fails(state, kind, reason, effect.node, effect.seat, detail=detail, sign=event.reason)


def _set_up(state: RunState, effect: fx.RunCommands, event: ev.CommandsEnded) -> RunState:
    if event.green:
        space = state.workspaces.get(effect.seat)
        return rooms.with_space(state, effect.seat, space, set_up=True) if space else state
    red = red_of(event.results)[0]
    reason = f"set-up `{red.command}` failed: exit status {red.code}"
    return fails(state, "setup", reason, "setup", effect.seat, detail=red.output)


def _replied(state: RunState, event: ev.Answered) -> RunState:
    if event.question not in state.questions:
        return state
    state = state.but(questions=without(state.questions, event.question))
    question, word = event.question, event.text.strip().lower()
    yes = word in {"yes", "y", "ok", MORE}
    if question.startswith("limit-"):
        valve = question.removeprefix("limit-")
        if not yes:
            return recovery.ending(state, f"stopped by the operator at the limit {valve}")
        return state.but(started=state.started.but(limits=raised(state.started.limits, valve, state.spend)))
    if question == landing.CONTESTED:
        why = "" if yes else "a reviewer rejects it and landing was declined"
        return state.within("trying", as_branch=why).but(contested=False)
    if question == planning.RED_BASE and not yes:
        return recovery.ending(state, "the base is red and the start was declined")
    if word in {"stop", "no"}:
        return recovery.ending(state, "stopped by the operator")
    again = state.trouble and question in {recovery.STUCK, recovery.LOGIN}  # at once, and what ends alike counts anew
    return state.within("trouble", wait_until=0.0, same=0) if again else state


def blocked(state: RunState) -> Question | None:
    """The question the whole run waits for: one that holds, while nothing is open but questions (decision 0023)."""
    holding = next((q for q in state.questions.values() if q.holds), None)
    idle = all(isinstance(o.effect, fx.Ask) for o in state.open.values())
    return holding if idle and not state.done and state.marker is None else None


def desired(state: RunState) -> tuple[fx.Effect, ...]:
    """What is asked for now; never a Record, and never depending on whether one is due (decision 0002)."""
    if state.done:
        return ()
    if state.parked and state.marker is None:
        still = () if state.park_now else tuple(o.effect for o in state.open.values() if o.begun)
        return tuple(e for e in still if not isinstance(e, fx.Timer | fx.Ask))
    if state.marker is not None:
        own = tuple(want.effect for want in _wants(state) if not _stale(state, want.effect))
        others = state.open.keys() - {effect.key for effect in own}
        return tuple(e for e in own if not others or e.key in state.open)
    questions = state.questions.values()
    asks = tuple(keyed(state, fx.Ask(node="ask", seat=SeatKey(q.id), question=q.id, text=q.text)) for q in questions)
    effects = tuple(want.effect for want in _wants(state) if not _stale(state, want.effect))
    holds = any(q.holds for q in questions)
    if holds or exceeded(state.started.limits, state.spend):  # what costs nothing may start, if nobody is asked
        effects = tuple(e for e in effects if e.key in state.open or not (holds or isinstance(e, fx.StartTurn)))
    return (*effects, *asks)


def _wants(state: RunState) -> tuple[Want, ...]:
    """What the phase asks for, whatever people say; a pending marker comes before it, and the workspaces that it works in."""
    if state.marker is not None:
        return recovery.marker_wants(state, state.marker)
    if state.phase is PipelinePhase.AwaitingDevFix:
        return recovery.wants(state)
    phase = PHASES[state.phase]
    labels = [Label(seat.removeprefix("impl-")) for seat in state.rewinds] + ([state.winner] if phase.winner else [])
    rooms_first = tuple(want for label in dict.fromkeys(labels) if label for want in rooms.author(state, label))
    return rooms_first or (() if phase.winner and state.winning is None else phase.wants(state))


def _stale(state: RunState, effect: fx.Effect) -> bool:
    """Whether what is open under that key was asked in an earlier visit: its answer would route nothing, so it is stopped."""
    opened = state.open.get(effect.key)
    setup = isinstance(effect, fx.RunCommands) and effect.purpose is Purpose.Setup
    lasting = setup or isinstance(effect, fx.Ask | fx.PrepareWorkspace)  # a workspace is a workspace
    return opened is not None and opened.visit != state.visit and not lasting


def due(state: RunState) -> ev.Event | None:
    """The one decision that must be written down next, if any."""
    if state.done or state.parked or state.marker is not None:
        return None
    if state.trouble is not None and state.trouble.over:
        return recovery.due(state)
    return chain.due(state) or _limit_due(state) or recovery.due(state)


def _limit_due(state: RunState) -> ev.LimitReached | None:
    valve, value, mine = exceeded(state.started.limits, state.spend) or ("", 0.0, False)
    if not valve or f"limit-{valve}" in state.questions:
        return None
    asks = any(isinstance(w.effect, fx.StartTurn) and w.effect.key not in state.open for w in _wants(state))
    return ev.LimitReached(valve=valve, value=value, mine=mine) if asks else None


def wanted(state: RunState) -> tuple[ev.Wanted, ...]:
    """What should be in flight: held effects, then either the one Record that is due, or what can start."""
    want = desired(state)
    keys = {effect.key for effect in want}
    held = tuple(o.effect for key, o in state.open.items() if key in keys)
    if (record := due(state)) is not None:
        return (*held, ev.Record(record))
    taken = {o.effect.slot for key, o in state.open.items() if key not in keys} - {""}
    return (*held, *(e for e in want if e.key not in state.open and e.slot not in taken))


def _advance(state: RunState) -> RunState:
    """Move on through steps that ask nothing, until there is something to ask or to record."""
    while state.phase in PHASES and not (state.marker or state.rewinds or (state.trouble and state.trouble.over)):
        before, state = state, _further(state)
        if state is before:
            break
    return state


def _further(state: RunState) -> RunState:
    phase = PHASES[state.phase]
    if phase.winner and state.winning is None:
        return missing(state, "a winner")
    if phase.winner and state.unreviewed and state.phase is not PipelinePhase.Review:
        return enter(state, PipelinePhase.Review)
    return phase.arrived(state)

"""What must hold at every fact and in every state that the walk comes to: recovery, the marker, chains. By name, so that a fault tells what it breaks."""

from collections.abc import Callable
from typing import NamedTuple

import msgspec

from nightcrew.core.chain import FIX_NODES
from nightcrew.core.effects import Effect, EmitCompletionMarkerAndTerminate, RescueWork, StartTurn, Timer
from nightcrew.core.events import (
    AgentCooling,
    Answer,
    CompletionMarkerEmitted,
    DevFixCompleted,
    DevFixSkipped,
    EffectStarted,
    Entry,
    Event,
    HandedOver,
    Ongoing,
    Record,
    RecoveryAttempted,
    RecoveryEscalated,
    RecoverySucceeded,
    TurnEnded,
    Wanted,
)
from nightcrew.core.phases import judging
from nightcrew.core.recovery import PAUSE, level_of
from nightcrew.core.reducer import blocked
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import RunState
from nightcrew.core.trouble import NODE, ORDER
from nightcrew.core.work import PipelinePhase
from support.laws import ROLE_AT
from support.shape import Offered, shape

Reduce = Callable[[RunState, Entry], RunState]
Want = Callable[[RunState], tuple[Wanted, ...]]


class Step(NamedTuple):
    """One edge: a fact between two states, what the second wants, and the conversation ids offered until then."""

    before: RunState
    entry: Entry
    after: RunState
    want: tuple[Wanted, ...]
    offered: Offered

    @property
    def event(self) -> Event:
        """The fact."""
        return self.entry.event

    @property
    def fresh(self) -> list[Effect]:
        """What would be started now."""
        return [w for w in self.want if not isinstance(w, Record) and w.key not in self.after.open]


def level_follows_count(step: Step) -> bool:
    """The level is a function of the count, but right after `RecoveryEscalated`; a wait for agents is level 1 at count 0."""
    trouble = step.after.trouble
    if trouble is None or isinstance(step.event, RecoveryEscalated):
        return True
    return trouble.level == level_of(trouble.attempts) or (trouble.level, trouble.attempts) == (1, 0)


def marker_interrupts(step: Step) -> bool:
    """A run is interrupted by a marker that is written, and by nothing else."""
    interrupted = step.after.phase is PipelinePhase.Interrupted and step.before.phase is not step.after.phase
    return not interrupted or isinstance(step.event, CompletionMarkerEmitted)


def marker_first(step: Step) -> bool:
    """While a marker is pending, only its rescues, its pause and itself are due."""
    if step.after.marker is None:
        return True
    kinds = (EmitCompletionMarkerAndTerminate, RescueWork)
    return all(isinstance(w, kinds) or (isinstance(w, Timer) and w.node == "marker") for w in step.want)


def recovery_goes_to_work(step: Step) -> bool:
    """A recovery targets a phase that does work, and the run is no longer where it came from."""
    if not isinstance(step.event, RecoveryAttempted):
        return True
    return step.event.target_phase in ORDER and step.after.visit > step.before.visit


def count_moves(step: Step) -> bool:
    """The count rises by one with a finished dev-fix, falls to nothing with a success, and is moved by nothing else."""
    was = step.before.trouble.attempts if step.before.trouble else 0
    now = step.after.trouble.attempts if step.after.trouble else 0
    if isinstance(step.event, RecoverySucceeded):
        return now == 0
    known = step.before.trouble is not None
    return now == was + (known and isinstance(step.event, DevFixCompleted | DevFixSkipped))


def recovery_leads_on(step: Step) -> bool:
    """After a recovery something of the target phase is due, and no recovery step."""
    if not isinstance(step.event, RecoveryAttempted) or step.after.parked or blocked(step.after):
        return True
    events = [w.event for w in step.want if isinstance(w, Record)]
    inside = step.after.phase is PipelinePhase.AwaitingDevFix
    recovering = any(isinstance(e, RecoveryAttempted | RecoveryEscalated) for e in events)
    again = any(not isinstance(w, Record) and w.node in {NODE, PAUSE} for w in step.want)
    return bool(step.want) and not (inside or recovering or again)


def level_says_what_is_kept(step: Step) -> bool:
    """Level 2 keeps the iteration, level 3 takes one off and never makes it negative, level 4 makes it 0."""
    if not isinstance(step.event, RecoveryAttempted):
        return True
    level = max(step.event.level, step.before.trouble.level) if step.before.trouble else 0
    kept = {3: max(0, step.before.iteration - 1), 4: 0}.get(level, step.before.iteration)
    return step.after.iteration == kept and step.after.recovery_epoch == step.before.recovery_epoch + (level >= 3)


def goes_on(step: Step) -> bool:
    """A run that is not over, parked or held by a question wants something, or waits for what is in flight."""
    still = step.after.done or step.after.parked or blocked(step.after) is not None
    return still or bool(step.want or step.after.open)


def decision_starts_nothing(step: Step) -> bool:
    """While a decision is due it is the only one, and nothing starts; once it is recorded it is due no more."""
    records = [w for w in step.want if isinstance(w, Record)]
    return len(records) <= 1 and not (records and step.fresh) and Record(step.event) not in records


def chain_goes_forward(step: Step) -> bool:
    """A seat passes down its chain, never back."""
    if not isinstance(step.event, HandedOver):
        return True
    agents = _chain(step.after, step.event.handover.node)
    return agents.index(step.event.handover.from_agent) < agents.index(step.event.handover.to_agent)


def nobody_asked_again(step: Step) -> bool:
    """Whoever passed a seat on is not asked there again before the chain is reset."""
    return all(_since_the_last(step.after, turn) for turn in step.fresh if isinstance(turn, StartTurn))


def _since_the_last(state: RunState, turn: StartTurn) -> bool:
    agents, fixes = state.started.roles.chain(turn.role), turn.node in FIX_NODES
    counted = state.handovers[state.resets.get(str(turn.role), 0) :]
    here = [h for h in counted if (h.node in FIX_NODES if fixes else (h.node, h.seat) == (turn.node, turn.seat))]
    own = turn.role is AgentRole.Fixer and not state.started.roles.fixer_set
    return own or not here or agents.index(turn.agent) >= agents.index(here[-1].to_agent)


def _chain(state: RunState, node: str) -> tuple[str, ...]:
    return state.started.roles.chain(ROLE_AT.get(node, AgentRole.Fixer))


def cooling_is_not_asked(step: Step) -> bool:
    """Whoever just said that he cools down is not asked again at once, and a sleep does not end before somebody is back."""
    cools = isinstance(step.event, AgentCooling) and step.event.until > step.after.at
    routed = cools and step.after.visit == step.before.visit
    if not routed or not isinstance(step.event, AgentCooling):
        return True
    agent, resets = step.event.agent, step.after.cooling.values()
    asked = any(isinstance(e, StartTurn) and e.agent == agent for e in step.fresh)
    early = any(isinstance(e, Timer) and e.agents and e.fire_at < min(resets) for e in step.fresh)
    return not (asked or early)


def generations_rise(step: Step) -> bool:
    """The generations of a seat are counted for ever, so that no id is minted twice."""
    now = step.after.seats
    if now is step.before.seats:
        return True
    return all(key in now and now[key].generation >= seat.generation for key, seat in step.before.seats.items())


def conversation_offered_once(step: Step) -> bool:
    """No conversation id is offered to a second turn."""
    turns = [e for e in step.fresh if isinstance(e, StartTurn) and e.session]
    return not any(step.offered.get(turn.seat) == turn.session for turn in turns)


def replay_is_the_same(step: Step, reduce: Reduce, want: Want) -> bool:
    """The fact as it comes back from the journal gives the same state, which wants the same."""
    copied = msgspec.json.decode(msgspec.json.encode(step.entry), type=Entry)
    again = reduce(step.before, copied)
    return copied == step.entry and again == step.after and want(again) == step.want


def late_answer_changes_nothing(step: Step, reduce: Reduce) -> bool:
    """The same answer once more routes nothing and is not paid again."""
    if not isinstance(step.event, Answer) or isinstance(step.event, Ongoing):
        return True
    again = reduce(step.after, Entry(step.after.seq + 1, step.after.at, step.event))
    if isinstance(step.event, TurnEnded) and again.spend != step.after.spend:
        return False
    return shape(again, step.offered) == shape(step.after, step.offered)


def started_once(step: Step) -> bool:
    """What was started is in flight and wanted; nothing else was closed or opened by it."""
    if not isinstance(step.event, EffectStarted):
        return True
    return set(step.after.open) == {*step.before.open, step.event.key}


def judges_are_no_authors(step: Step) -> bool:
    """Nobody judges what he made while there is anybody else, unless the seat had asked somebody else before."""
    others = set(step.after.started.roles.chain(AgentRole.Judge)) - judging.authors(step.after)
    turns = [e for e in step.fresh if isinstance(e, StartTurn) and e.role is AgentRole.Judge and e.agent not in others]
    calls = (step.after.calls.get(f"{turn.node}/{turn.seat}") for turn in turns)
    return not others or all(call and call.at for call in calls) or bool(step.after.handovers)


def winners_have_a_quorum(step: Step) -> bool:
    """A panel's winner has the quorum's ballots, each of a judge who ranked; who is absent has no vote."""
    at = step.after.judging
    if at.tally is None or not at.tally.winner:
        return True
    seats = set(at.ballots)
    return len(seats) == at.tally.present >= at.tally.judges // 2 + 1 and seats <= set(at.rankings) and not seats & set(at.absent)


Laws = dict[str, Callable[[Step], bool]]
FACTS: Laws = {
    "1 level follows count": level_follows_count,
    "2 marker interrupts": marker_interrupts,
    "4 recovery goes to work": recovery_goes_to_work,
    "5 count moves": count_moves,
    "7 level says what is kept": level_says_what_is_kept,
    "started once": started_once,
    "chain goes forward": chain_goes_forward,
    "generations rise": generations_rise,
    "winners have a quorum": winners_have_a_quorum,
}
"""What every fact is held to."""
REQUESTS: Laws = {
    "3 marker first": marker_first,
    "6 recovery leads on": recovery_leads_on,
    "goes on": goes_on,
    "decision starts nothing": decision_starts_nothing,
    "nobody asked again": nobody_asked_again,
    "judges are no authors": judges_are_no_authors,
    "cooling is not asked": cooling_is_not_asked,
    "conversation offered once": conversation_offered_once,
}
"""What the requests of every state are held to, and what must follow a fact of these kinds."""
FOLLOWED = (RecoveryAttempted, AgentCooling)

"""What people say and what limits mean: park, resume, cancel, questions and answers, the completion marker."""

from typing import Any

import pytest
from msgspec import structs

from nightcrew.core import reducer
from nightcrew.core.brief import small
from nightcrew.core.effects import Ask, EmitCompletionMarkerAndTerminate, RescueWork, RunCommands, StartTurn, Timer
from nightcrew.core.events import (
    Answered,
    CancelAsked,
    Cancelled,
    CommandsEnded,
    CompletionMarkerEmitted,
    CompletionMarkerWriteFailed,
    ConfigChanged,
    EffectBegun,
    LimitReached,
    ParkAsked,
    Record,
    RecoveryAttempted,
    ResumeAsked,
    StepFailed,
    TurnEnded,
    TurnLost,
)
from nightcrew.core.settings import Ladder, Limit, Limits, Pipeline, Spend, Verify, exceeded, raised
from nightcrew.core.work import Class, CommandResult, Outcome, PipelinePhase, Purpose, Question
from support.world import GATE, Sim, World, bad, good, story

P = PipelinePhase


def in_a_turn(**more: Any) -> Sim:
    """A run whose implementer really works."""
    sim = Sim(story(**more))
    sim.run(until=lambda s: any(isinstance(e, StartTurn) for e in s.open()))
    (turn,) = sim.open()
    sim.put(EffectBegun(key=turn.key))
    return sim


def keys(sim: Sim) -> set[str]:
    """What should be in flight."""
    return {w.key for w in sim.wanted() if not isinstance(w, Record)}


# ── parking ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_park_lets_what_runs_end() -> None:
    """T128, T131: the turn in flight ends and is paid; nothing else begins; resumed, the run goes on and ends the same."""
    sim = in_a_turn()
    (turn,) = sim.open()
    sim.put(ParkAsked())
    assert [e.key for e in reducer.desired(sim.state)] == [turn.key]
    sim.put(sim.world.answer(turn))
    sim.settle()
    assert sim.open() == []
    assert sim.state.spend.turns == 1
    sim.put(ResumeAsked())
    assert sim.run().state.phase is P.Complete


def test_a_queued_turn_is_not_waited_for() -> None:
    """Parked, a turn that has no slot yet is cancelled, under its own key; resumed, the next key asks again."""
    sim = Sim(story()).run(until=lambda s: any(isinstance(e, StartTurn) for e in s.open()))
    (turn,) = sim.open()
    sim.put(ParkAsked())
    sim.settle()
    assert sim.facts(Cancelled) == [Cancelled(key=turn.key)]
    sim.put(ResumeAsked())
    sim.settle()
    (again,) = sim.open()
    assert again.key == turn.key[: -len("0")] + "1"


def test_a_second_park_stops_now() -> None:
    """Asked twice, or asked for now, even what runs is stopped; its cost still counts once, when it comes."""
    for asked in ((ParkAsked(), ParkAsked()), (ParkAsked(now=True),)):
        sim = in_a_turn()
        (turn,) = sim.open()
        sim.put(*asked)
        assert reducer.desired(sim.state) == ()
        sim.settle()
        ended = TurnEnded(key=turn.key, outcome=good())
        sim.put(ended, ended)
        assert sim.state.spend.turns == 1


def test_nothing_is_decided_while_parked() -> None:
    """No record, pause or marker is due while parked."""
    sim = Sim(story(roster="alpha"))
    sim.fails("alpha", bad(Class.Refused), node="implement")
    sim.run(until=lambda s: s.state.trouble is not None)
    sim.put(ParkAsked())
    assert sim.wanted() == ()
    sim.put(ResumeAsked())
    assert sim.wanted() != ()


def test_what_an_earlier_visit_asked_is_stopped() -> None:
    """An answer to what an earlier visit of the phase asked would route nothing, so it is not waited for."""
    sim = in_a_turn()
    (turn,) = sim.open()
    sim.put(RecoveryAttempted(level=1, attempt_count=0, target_phase=P.Development))
    assert turn.key not in keys(sim)
    sim.settle()
    assert [e.key for e in sim.open()] == [turn.key[: -len("0")] + "1"]
    assert sim.run().state.phase is P.Complete


def test_busy_time_counts_and_waiting_does_not() -> None:
    """Wall time is the time in which a turn or command really runs; a park, a queue and a pause cost nothing."""
    sim = Sim(story()).run(until=lambda s: any(isinstance(e, StartTurn) for e in s.open()))
    (turn,) = sim.open()
    before = sim.state.spend.wall_s
    sim.world.at += 500.0
    sim.put(EffectBegun(key=turn.key))
    assert sim.state.spend.wall_s == before
    sim.world.at += 100.0
    sim.put(sim.world.answer(turn), ParkAsked())
    assert sim.state.spend.wall_s == before + 101.0
    sim.world.at += 9_000.0
    sim.put(ResumeAsked())
    assert sim.state.spend.wall_s == before + 101.0


def test_a_clock_that_goes_back_costs_nothing() -> None:
    """Time in state never runs backwards, whatever the wall clock does."""
    sim = in_a_turn()
    at, wall = sim.state.at, sim.state.spend.wall_s
    sim.world.at -= 5_000.0
    sim.put(ParkAsked(), ResumeAsked())
    assert (sim.state.at, sim.state.spend.wall_s) == (at, wall)


# ── cancel and the marker ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_cancel_stops_rescues_and_marks() -> None:
    """R19, S092: all else is cancelled first, then every workspace is rescued, then the failure marker ends the run."""
    sim = in_a_turn()
    sim.put(CancelAsked(reason="enough"))
    assert keys(sim) == set()
    sim.settle()
    assert [type(e) for e in sim.open()] == [RescueWork]
    sim.run()
    assert [type(e) for e in sim.started(RescueWork, EmitCompletionMarkerAndTerminate)] == [
        RescueWork,
        EmitCompletionMarkerAndTerminate,
    ]
    (marker,) = sim.started(EmitCompletionMarkerAndTerminate)
    assert (marker.is_failure, marker.reason) == (True, "enough")
    assert (sim.state.phase, sim.state.ended) == (P.Interrupted, "enough")
    assert sim.facts(Cancelled)


@pytest.mark.parametrize("level", [1, 3])
def test_a_cancel_in_the_middle_of_recovery(level: int) -> None:
    """R19: cancelled at level 3 too: rescue, marker, Interrupted, and no further attempt."""
    sim = Sim(story(roster="alpha", ladder=Ladder(dev_fix=False)))
    sim.fails("alpha", bad(Class.Refused), node="implement")
    sim.run(until=lambda s: bool(s.state.trouble and s.state.trouble.level == level))
    sim.put(CancelAsked())
    turns = len(sim.world.turns)
    assert sim.run().state.phase is P.Interrupted
    assert len(sim.world.turns) == turns


def test_a_park_does_not_hold_up_an_end() -> None:
    """Cancelled while parked, or parked after the cancel: the end comes all the same."""
    for words in ((ParkAsked(), CancelAsked()), (CancelAsked(), ParkAsked())):
        sim = in_a_turn()
        sim.put(*words)
        assert sim.run().state.phase is P.Interrupted


def test_a_marker_that_cannot_be_written_is_tried_on() -> None:
    """R10, R11, S115: five failures with changing errors, pauses from the fourth on, then one Emitted."""
    sim = Sim(story())
    sim.marker_fails("one", "two", "three", "four", "five")
    sim.put(CancelAsked(reason="enough"))
    sim.run()
    assert [f.error for f in sim.facts(CompletionMarkerWriteFailed)] == ["one", "two", "three", "four", "five"]
    assert len(sim.facts(CompletionMarkerEmitted)) == 1
    assert [m.reason for m in sim.started(EmitCompletionMarkerAndTerminate)] == ["enough"] * 6
    pauses = [t.span_s for t in sim.started(Timer)]
    assert len(pauses) == 2
    assert pauses[0] < pauses[1]


def test_a_success_marker_is_tried_on_too() -> None:
    """A finished run whose marker cannot be written stays in Finalizing, and completes once it can."""
    sim = Sim(story())
    sim.marker_fails("read-only", "read-only")
    sim.run(until=lambda s: s.state.marker is not None)
    assert sim.state.phase is P.Finalizing
    assert sim.run().state.phase is P.Complete
    assert {m.is_failure for m in sim.started(EmitCompletionMarkerAndTerminate)} == {False}


def test_a_cancel_of_a_finished_run_replaces_its_marker() -> None:
    """A cancel while the success marker is being tried ends as a failure: the old request is stopped first."""
    sim = Sim(story())
    sim.marker_fails("read-only")
    sim.run(until=lambda s: s.state.marker is not None)
    sim.put(CancelAsked())
    sim.run()
    assert sim.state.phase is P.Interrupted
    assert [m.is_failure for m in sim.started(EmitCompletionMarkerAndTerminate)][-1] is True


def test_a_rescue_that_fails_does_not_hold_the_end() -> None:
    """What cannot be rescued stays where it is; the marker is written."""
    sim = Sim(story())
    sim.run(until=lambda s: bool(s.state.candidates))
    sim.says(RescueWork, lambda effect: StepFailed(key=effect.key, reason="disk full"))
    sim.put(CancelAsked())
    assert sim.run().state.phase is P.Interrupted


def test_a_ceiling_ends_by_the_marker() -> None:
    """The operator's ceiling on attempts is a valve: the run ends at it, through the marker."""
    sim = Sim(story(roster="alpha", ladder=Ladder(ceiling=2)))
    sim.fails("alpha", bad(Class.Refused, "no"), node="implement")
    sim.fails("alpha", good(), node="dev-fix")
    sim.run()
    assert sim.state.phase is P.Interrupted
    assert sim.state.ended == "ceiling: 2 attempts: no"


@pytest.mark.parametrize(
    "result", [CommandResult(GATE, 127, small("no such command")), CommandResult(GATE, 1, small("x"), timed_out=True)]
)
def test_a_preflight_that_cannot_work_pays_nobody(result: CommandResult) -> None:
    """A gate that is not found or does not end is refused before the first turn."""
    sim = Sim(story())
    sim.says(RunCommands, lambda effect: CommandsEnded(key=effect.key, results=(result,)), purpose=Purpose.Preflight)
    sim.run()
    assert sim.state.phase is P.Interrupted
    assert sim.state.refused.startswith(f"preflight: `{GATE}`")
    assert sim.world.turns == []


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_default_limit_asks() -> None:
    """A default limit pauses the run with a question; `more` adds the default again, and the run goes on."""
    sim = Sim(story(limits=Limits(turns=Limit(2)))).run()
    assert len(sim.world.turns) == 2
    assert sim.facts(LimitReached) == [LimitReached(valve="turns", value=2, mine=False)]
    question = reducer.blocked(sim.state)
    assert question is not None
    assert question.id == "limit-turns"
    assert sim.run().world.turns == sim.world.turns
    sim.put(Answered(question="limit-turns", text="more"))
    assert sim.run().state.phase is P.Complete
    assert sim.state.started.limits.turns == Limit(202)


def test_more_is_enough_to_go_on() -> None:
    """However much one turn overshot a default limit, one `more` lets the run go on: it is not asked again at once."""
    limits = Limits()
    for spent in (25.0, 49.9, 50.0, 60.0, 1000.0):
        assert exceeded(raised(limits, "usd", Spend(usd=spent)), Spend(usd=spent)) is None
    assert raised(limits, "usd", Spend(usd=60.0)).usd == Limit(75.0)


def test_a_default_limit_declined_ends() -> None:
    """Any other answer ends the run by its marker."""
    sim = Sim(story(limits=Limits(turns=Limit(2)))).run()
    sim.put(Answered(question="limit-turns", text="stop"))
    assert sim.run().state.phase is P.Interrupted


def test_the_operators_limit_ends() -> None:
    """R20: the operator's own limit takes the marker path, reason budget, and no agent is asked again."""
    sim = Sim(story(limits=Limits(usd=Limit(0.02, mine=True)))).run()
    assert len(sim.world.turns) == 2
    assert sim.state.phase is P.Interrupted
    assert sim.state.ended == "budget: the limit usd = 0.02 is reached"


def test_a_limit_holds_no_command_up() -> None:
    """A limit that is reached by the last turn it needed stops nothing: gates and landings cost nothing."""
    sim = Sim(story(limits=Limits(turns=Limit(3)))).run()
    assert sim.state.phase is P.Complete
    assert sim.facts(LimitReached) == []


def test_limits_are_changed_by_a_fact() -> None:
    """`--limit` is a fact; a lifted limit never binds."""
    sim = Sim(story(limits=Limits(turns=Limit(1)))).run()
    sim.put(Answered(question="limit-turns", text="more"), ConfigChanged(limits=Limits(turns=Limit(None))))
    assert sim.run().state.phase is P.Complete


def test_the_operators_valve_goes_before_a_default() -> None:
    """Of two limits reached at once the operator's decides; unknown money is not zero, it is counted apart."""
    limits = Limits(turns=Limit(1), usd=Limit(1.0, mine=True))
    assert exceeded(limits, Spend(turns=2, usd=2.0)) == ("usd", 1.0, True)
    assert exceeded(limits, Spend()) is None
    sim = in_a_turn()
    (turn,) = sim.open()
    sim.put(TurnEnded(key=turn.key, outcome=Outcome(kind=Class.Crashed)))
    assert (sim.state.spend.usd, sim.state.spend.unpriced) == (0.0, 1)


@pytest.mark.parametrize("end", [TurnLost, Cancelled])
def test_a_late_answer_bills_once(end: type[TurnLost] | type[Cancelled]) -> None:
    """A turn that was given up and ends after all is paid once and decides nothing."""
    sim = in_a_turn()
    (turn,) = sim.open()
    sim.put(end(key=turn.key))
    before = sim.state
    ended = TurnEnded(key=turn.key, outcome=good())
    sim.put(ended, ended)
    assert sim.state.spend.turns == 1
    assert (sim.state.phase, sim.state.candidates, sim.state.asked) == (before.phase, before.candidates, before.asked)


# ── questions ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_red_base_asks_when_green_was_demanded() -> None:
    """Under `verify.base = "green"` a red preflight asks before the first turn; no ends the run, yes goes on."""
    for word, end in (("yes", P.Complete), ("no", P.Interrupted)):
        sim = Sim(story(verify=Verify(gate=(GATE,), base="green"))).run()
        assert sim.world.turns == []
        assert [e.question for e in sim.started(Ask)] == ["red-base"]
        sim.put(Answered(question="red-base", text=word))
        assert sim.run().state.phase is end


def test_a_red_base_is_no_obstacle_otherwise() -> None:
    """By default a red preflight is shown to the agents, and the gate at the end decides."""
    sim = Sim(story())
    assert sim.run().state.phase is P.Complete
    first = sim.started(StartTurn)[0]
    assert any("untouched base" in part.text for part in first.brief.parts)


def test_an_answer_to_nothing_is_nothing() -> None:
    """An answer to a question that was not asked, or was answered before, changes nothing."""
    sim = in_a_turn()
    before = sim.state.phase, sim.state.marker, sim.state.started.limits
    sim.put(Answered(question="limit-turns", text="stop"), Answered(question="red-base", text="no"))
    assert (sim.state.phase, sim.state.marker, sim.state.started.limits) == before


def test_blocked_is_derived() -> None:
    """A run is blocked only by a question that holds, and only while nothing but questions is open."""
    sim = in_a_turn()
    held = {"x": Question("x", "?", holds=True, asked_at=0.0)}
    assert reducer.blocked(sim.state) is None
    busy = structs.replace(sim.state, questions=held)
    assert reducer.blocked(busy) is None
    assert reducer.blocked(structs.replace(busy, open={})) == held["x"]


def test_parked_at_every_fact_it_is_the_same_run() -> None:
    """Parked after every single fact and resumed, a run ends as it would have, with the same turns."""
    plain = Sim(story(pipeline=Pipeline())).run()
    sim = Sim(story(pipeline=Pipeline()), World())
    while not sim.state.done:
        sim.put(ParkAsked(), ResumeAsked())
        sim.step()
    assert [t.node for t in sim.world.turns] == [t.node for t in plain.world.turns]
    assert sim.state.landing == plain.state.landing

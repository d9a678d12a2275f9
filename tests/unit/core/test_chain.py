"""Chains, seats and handovers: who is asked, who is not, and what the record says of it."""

import functools

import pytest
from msgspec import structs

from nightcrew.core import chain, fixer
from nightcrew.core.brief import small
from nightcrew.core.effects import Land, StartTurn, SyncBase, Timer
from nightcrew.core.events import BaseSynced, HandedOver, LandingRefused, ParkAsked, RecoveryAttempted, ResumeAsked, TurnLost
from nightcrew.core.ids import AgentId, Commit, SeatKey, SlotId, Tree
from nightcrew.core.settings import Pipeline, Verify
from nightcrew.core.state import RunState, SeatState
from nightcrew.core.work import (
    Class,
    FailClass,
    Finding,
    FixReport,
    Handover,
    Outcome,
    PipelinePhase,
    Purpose,
    Reviewed,
    Severity,
    Vote,
)
from support.world import GATE, Sim, World, bad, good, story

BLOCKER = Reviewed(Vote.Reject, (Finding(Severity.Blocker, "it is wrong"),))


def red_until(fixes: int) -> World:
    """A world whose gate is red until that many fix rounds changed something."""
    seen: list[Tree] = []

    def code(tree: Tree) -> int:
        if tree not in seen:
            seen.append(tree)
        return 1 if seen.index(tree) < fixes else 0

    return World(red={Purpose.Gate: code})


def passed(sim: Sim) -> list[tuple[str, str, str, FailClass]]:
    """The handovers of a run: node, from, to, class."""
    told = [fact.handover for fact in sim.facts(HandedOver)]
    return [(h.node, h.from_agent, h.to_agent, h.fail) for h in told]


def after(*lines: str) -> RunState:
    """A finished run of alpha with fixers a, b, c and these handovers: `node from to`."""
    sim = Sim(story(roster="alpha a b c", fixer="a b c")).run(until=lambda s: s.state.winning is not None)
    handovers = []
    for line in lines:
        node, from_agent, to_agent = line.split()
        pair = AgentId(from_agent), AgentId(to_agent)
        handovers.append(Handover(1.0, node, SeatKey("fix"), *pair, FailClass.Other, "failed"))
    return structs.replace(sim.state, handovers=tuple(handovers))


@pytest.mark.parametrize(
    ("lines", "asked"),
    [
        ((), "a b c"),
        (("review b c",), "a b c"),
        (("fix a z",), "a b c"),
        (("fix a b", "rebase b c"), "c"),
        (("fix b c", "land b a"), "a b c"),
        (("gate-fix a b",), "b c"),
    ],
    ids=["F06", "F07", "F08", "F09", "F10", "one"],
)
def test_the_start_is_sticky(lines: tuple[str, ...], asked: str) -> None:
    """F06-F10: the last handover on a fixer node whose taker is on the chain decides who is asked first."""
    state = after(*lines)
    assert state.winning is not None
    entries, before = fixer.attempts(state, state.winning)
    assert " ".join(agent for agent, _ in entries) == asked
    assert (*before, *(agent for agent, _ in entries)) == ("a", "b", "c")


def test_a_reset_forgets_the_start() -> None:
    """R22: handovers before the chain's last reset do not count."""
    state = structs.replace(after("fix a c"), resets={"fixer": 1})
    assert state.winning is not None
    assert [agent for agent, _ in fixer.attempts(state, state.winning)[0]] == ["a", "b", "c"]


def test_the_winners_own_agent_sits_in_its_own_seat() -> None:
    """F12: named on the chain, the winner's implementer fixes where it implemented, and its conversation goes on."""
    sim = Sim(story(fixer="alpha beta"), red_until(1)).run()
    fix = next(t for t in sim.started(StartTurn) if t.node == "gate-fix")
    first = next(t for t in sim.started(StartTurn) if t.node == "implement")
    assert (fix.seat, fix.resume, fix.session) == ("impl-A", first.session, "")
    assert len(fix.brief.parts) < len(first.brief.parts)


def test_a_quota_is_billed_once_a_run() -> None:
    """F02, F04: both gate-fix rounds go to the fallback, in one seat with a session of its own and the full context first."""
    sim = Sim(story(fixer="beta gamma"), red_until(2))
    sim.fails("beta", bad(Class.Quota))
    sim.run()
    fixes = [t for t in sim.started(StartTurn) if t.node == "gate-fix"]
    assert [t.agent for t in fixes] == ["beta", "gamma", "gamma"]
    assert passed(sim) == [("gate-fix", "beta", "gamma", FailClass.Quota)]
    assert sim.state.quota_losses == ()
    assert {t.seat for t in fixes} == {"fix"}
    assert fixes[1].session not in {"", fixes[0].session}
    assert fixes[2].resume == fixes[1].session
    assert len(fixes[1].brief.parts) == len(fixes[0].brief.parts) > len(fixes[2].brief.parts)


def test_a_chain_of_one_on_quota_is_a_loss_without_handover() -> None:
    """F05: one QuotaLoss, no handover, and the failure is the agent's own."""
    sim = Sim(story(fixer="beta"), red_until(1))
    sim.fails("beta", bad(Class.Quota, "usage limit"), times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert passed(sim) == []
    assert [(q.node, q.agent) for q in sim.state.quota_losses] == [("gate-fix", "beta")]
    assert sim.state.trouble is not None
    assert sim.state.trouble.failure.reason == "usage limit"


def test_a_call_goes_forward_to_the_end() -> None:
    """F11: from the second entry on; the first is not asked again, and the last failure ends the call."""
    sim = Sim(story(fixer="alpha beta gamma"), red_until(3))
    sim.fails("alpha", bad(Class.Timeout), node="gate-fix", times=1)
    sim.fails("beta", bad(Class.Refused, "beta will not"), node="gate-fix", times=1)
    sim.fails("gamma", bad(Class.Refused, "gamma will not"), node="gate-fix", times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.asked("gate-fix") == ["alpha", "beta", "gamma"]
    assert sim.state.trouble is not None
    assert sim.state.trouble.failure.reason == "gamma will not"
    assert sim.state.trouble.failure.asked == ("alpha", "beta", "gamma")


def test_a_fallback_keeps_its_seat_across_nodes() -> None:
    """F13: who took over in a review fix makes the gate-fix too, in the same conversation, without another handover."""
    sim = Sim(story(fixer="beta gamma"), red_until(1))
    sim.fails("beta", bad(Class.Timeout))
    sim.fails("alpha", good(BLOCKER), node="review", times=1)
    sim.run()
    fixes = [t for t in sim.started(StartTurn) if t.node in chain.FIX_NODES and t.agent == "gamma"]
    assert [t.node for t in fixes] == ["fix", "gate-fix"]
    assert fixes[1].resume == fixes[0].session
    assert passed(sim) == [("fix", "beta", "gamma", FailClass.Timeout)]


def test_a_fallback_fixes_at_all_four_nodes() -> None:
    """F13: review fix, gate-fix, landing and rebase in one run: the first is asked once, then one seat and one conversation, with short prompts."""
    sim = Sim(story(fixer="beta gamma"), red_until(1))
    sim.fails("beta", bad(Class.Timeout))
    sim.fails("alpha", good(BLOCKER), node="review", times=1)
    refused = functools.partial(LandingRefused, why="rejected", detail="no licence")
    sim.says(Land, lambda effect: refused(key=effect.key), times=1)
    sim.run(until=lambda s: bool(s.facts(LandingRefused)))
    tip = functools.partial(BaseSynced, tip=Commit("tip"), tip_tree=Tree("tree of tip"), tree=Tree("t"))
    clash = functools.partial(tip, state="conflict", paths=("a.txt",))
    sim.says(SyncBase, lambda effect: clash(key=effect.key, head=effect.head), times=1)
    sim.run()
    fixes = [t for t in sim.started(StartTurn) if t.node in chain.FIX_NODES]
    assert [(t.node, t.agent) for t in fixes] == [
        ("fix", "beta"), ("fix", "gamma"), ("gate-fix", "gamma"), ("land", "gamma"), ("rebase", "gamma")
    ]  # fmt: skip
    assert {t.seat for t in fixes} == {"fix"}
    assert {t.resume for t in fixes[2:]} == {fixes[1].session}
    assert max(len(t.brief.parts) for t in fixes[2:]) < len(fixes[1].brief.parts)
    assert passed(sim) == [("fix", "beta", "gamma", FailClass.Timeout)]
    assert sim.state.phase is PipelinePhase.Complete


def test_a_reply_that_changes_nothing_does_not_advance() -> None:
    """F14, T080: a fixer that claims and changes nothing is no failed agent; after two such rounds the review goes on."""
    sim = Sim(story(fixer="beta gamma", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", good(BLOCKER), node="review")
    sim.fails("beta", good(FixReport(("R1-1-1",)), session="s"), node="fix")
    sim.run()
    assert sim.asked("fix") == ["beta", "beta"]
    assert passed(sim) == []
    assert [f.id for f in sim.state.open_findings] == ["R2-1-1"]


def test_a_missing_report_is_asked_for_twice_more() -> None:
    """F15, T094: the same seat goes on at most twice with a quarter of the time; then the fix stands without a report."""
    sim = Sim(story(fixer="beta gamma", pipeline=Pipeline(plan=False, review_rounds=2)))
    sim.fails("alpha", good(BLOCKER), node="review", times=1)
    sim.fails("beta", good(session="s"), node="fix")
    sim.run(until=lambda s: s.state.reviewing.round == 2)
    fixes = [t for t in sim.started(StartTurn) if t.node == "fix"]
    assert [t.agent for t in fixes] == ["beta"] * 3
    assert [t.total_s for t in fixes] == [3600.0, 900.0, 900.0]
    assert passed(sim) == []
    assert sim.state.reviewing.fixed is None


def test_an_agent_without_memory_is_not_asked_to_repeat() -> None:
    """A fixer that keeps no conversation could only do its work again: its missing report is unreported, at once."""
    sim = Sim(story(fixer="beta", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", good(BLOCKER), node="review", times=1)
    sim.fails("beta", good(), node="fix", times=1)
    assert sim.run().asked("fix") == ["beta"]
    assert sim.state.phase is PipelinePhase.Complete


@pytest.mark.parametrize(
    ("kind", "fail"),
    [(Class.Timeout, FailClass.Timeout), (Class.Quota, FailClass.Quota), (Class.Auth, FailClass.Other)],
    ids=["F18", "F19", "auth"],
)
def test_a_handover_tells_the_class(kind: Class, fail: FailClass) -> None:
    """F18, F19, T023, T027, T028: class and reason of the failure are in the record; the round is not spent."""
    sim = Sim(story())
    sim.fails("alpha", bad(kind, "first line\nsecond", answer=small("You hit your limit")), node="implement")
    sim.run()
    assert passed(sim) == [("implement", "alpha", "beta", fail)]
    assert sim.facts(HandedOver)[0].handover.reason == "first line"
    assert sim.state.candidates[next(iter(sim.state.candidates))].agent == "beta"
    assert sim.state.landing is not None


def test_prose_about_limits_is_no_limit() -> None:
    """F20: an answer that classified as usable does not advance, whatever it says."""
    sim = Sim(story())
    told = Outcome(kind=Class.Ok, answer=small("rate limit exceeded"), session="s")
    sim.fails("alpha", told, node="implement", times=1)
    sim.run(until=lambda s: bool(s.state.candidates))
    assert sim.asked("implement") == ["alpha"]


def test_all_cooling_sleeps_until_the_first_reset() -> None:
    """F21: with resets at two times nobody is asked before the earlier; then exactly that agent is, once."""
    world = World()
    world.cooling = {AgentId("alpha"): world.at + 7_200, AgentId("beta"): world.at + 1_800}
    sim = Sim(story(roster="alpha beta"), world)
    sim.run(until=lambda s: bool(s.world.turns))
    assert sim.asked() == ["beta"]
    assert world.at >= 1_000 + 1_800
    assert sim.state.trouble is None


def test_a_call_sleeps_for_whom_it_may_still_ask() -> None:
    """Who passed the seat on in this very call is not waited for, though its reset comes first; and is not named as if it were."""
    sim = Sim(story(roster="alpha beta"), World(cooling={AgentId("beta"): 9_000.0}))
    sim.fails("alpha", bad(Class.Quota, reset_at=5_000.0), node="implement", times=1)
    sim.run(until=lambda s: s.asked() == ["alpha", "beta"])
    (sleep,) = (timer for timer in sim.started(Timer) if timer.agents)
    assert (sleep.agents, sleep.fire_at, sleep.why) == (("beta",), 9_000.0, "waiting for beta")


def test_a_restart_changes_no_sleep() -> None:
    """F21: parked and resumed while it sleeps, the run waits for the same time and still asks once."""
    world = World(cooling={AgentId("alpha"): 9_000.0})
    sim = Sim(story(roster="alpha"), world)
    sim.run(until=lambda s: any(call.sleeping for call in s.state.calls.values()))
    sim.settle()
    (first,) = sim.open()
    sim.put(ParkAsked())
    sim.settle()
    assert sim.open() == []
    sim.put(ResumeAsked())
    sim.settle()
    (again,) = sim.open()
    assert isinstance(first, Timer)
    assert isinstance(again, Timer)
    assert (again.fire_at, again.agents) == (first.fire_at, first.agents)
    assert again.span_s < first.span_s
    sim.run(until=lambda s: bool(s.world.turns))
    assert (sim.asked(), world.at >= 9_000.0) == (["alpha"], True)


def test_the_skipped_are_recorded_when_somebody_is_asked() -> None:
    """Cooling agents are passed over without a process, and each becomes one handover once the next really runs."""
    world = World(cooling={AgentId("alpha"): 1e9, AgentId("beta"): 1e9})
    sim = Sim(story(), world).run(until=lambda s: bool(s.state.candidates))
    quota = FailClass.Quota
    assert passed(sim) == [("implement", "alpha", "beta", quota), ("implement", "beta", "gamma", quota)]
    assert sim.asked("implement") == ["gamma"]


def test_the_skipped_are_recorded_even_of_a_turn_that_ends_at_once() -> None:
    """A turn whose end is known before its beginning was seen still owes the record its handovers."""
    sim = Sim(story(), World(cooling={AgentId("alpha"): 1e9}))
    sim.run(until=lambda s: any(call.at == 1 for call in s.state.calls.values()))
    sim.settle()
    (effect,) = sim.open()
    sim.put(sim.world.answer(effect))
    assert sim.record() is not None
    assert passed(sim) == [("implement", "alpha", "beta", FailClass.Quota)]


def test_neighbours_that_fail_alike_stop_the_walk() -> None:
    """F24, T029: a fault of the prompt must not burn the roster: one handover, the third is never asked."""
    sim = Sim(story())
    for agent in ("alpha", "beta"):
        sim.fails(agent, bad(Class.Refused, f"the prompt /tmp/{agent}/7 is refused"), node="implement")
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.asked("implement") == ["alpha", "beta"]
    assert len(passed(sim)) == 1


@pytest.mark.parametrize("node", ["gate-fix", "commit", "synthesize"])
def test_other_chains_are_walked_to_their_end(node: str) -> None:
    """Fixers, committers and synthesizers have no such stop: neighbours that fail alike do not keep the third from being asked."""
    told = story(fixer="alpha beta gamma", advisor="gamma", synthesizer="alpha beta gamma", pipeline=Pipeline(advisors=2))
    sim = Sim(told, red_until(1))
    for agent in ("alpha", "beta"):
        sim.fails(agent, bad(Class.Refused, f"the prompt /tmp/{agent}/7 is refused"), node=node)
    sim.run()
    assert sim.asked(node) == ["alpha", "beta", "gamma"]
    assert sim.state.phase is PipelinePhase.Complete


def test_neighbours_that_fail_differently_do_not() -> None:
    """F25, T030: two handovers, three asks."""
    sim = Sim(story())
    sim.fails("alpha", bad(Class.Refused, "no"), node="implement")
    sim.fails("beta", bad(Class.Timeout, "no"), node="implement")
    sim.fails("gamma", bad(Class.Refused, "no"), node="implement")
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.asked("implement") == ["alpha", "beta", "gamma"]
    assert [fail for *_, fail in passed(sim)] == [FailClass.Other, FailClass.Timeout]


def test_a_whole_roster_on_quota_is_one_loss() -> None:
    """T024: everybody on quota at implement: one loss, the candidate keeps the one first assigned."""
    sim = Sim(story())
    for agent in ("alpha", "beta", "gamma"):
        sim.fails(agent, bad(Class.Quota, f"{agent} is spent"), node="implement", times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert [(q.node, q.agent) for q in sim.state.quota_losses] == [("implement", "gamma")]
    (candidate,) = sim.state.candidates.values()
    assert (candidate.agent, candidate.failure) == ("alpha", "gamma is spent")


def test_a_shape_that_never_comes_costs_three_calls_an_agent() -> None:
    """R29: one missing field for ever: three calls of one agent, then the next, then recovery with its pauses."""
    sim = Sim(story(roster="alpha beta"))
    for agent in ("alpha", "beta"):
        sim.fails(agent, good(session="s"), node="review")
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.asked("review") == ["alpha"] * 3 + ["beta"] * 3
    sim.run(until=lambda s: len(s.facts(RecoveryAttempted)) == 6)
    assert len([turn for turn in sim.asked("review") if turn == "alpha"]) <= 3 * 6
    assert [pause.span_s > 20.0 * 2**n for n, pause in enumerate(sim.started(Timer))] == [True] * 3


@pytest.mark.parametrize(
    ("kind", "asks"),
    [
        (Class.Crashed, 2),
        (Class.Network, 4),
        (Class.RateLimit, 4),
        (Class.SessionNotFound, 2),
        (Class.ContextTooLong, 2),
        (Class.ConfigError, 1),
        (Class.ModelUnavailable, 1),
        (Class.Billing, 1),
    ],
)
def test_how_often_one_agent_is_asked(kind: Class, asks: int) -> None:
    """S148-S154 in our terms: second chances of each class before the seat goes on."""
    sim = Sim(story(roster="alpha beta"))
    sim.fails("alpha", bad(kind), node="implement")
    sim.run(until=lambda s: bool(s.state.candidates))
    assert sim.asked("implement") == ["alpha"] * asks + ["beta"]


def test_a_lost_conversation_is_opened_anew() -> None:
    """S250: the same agent once more, with another session id, full context and no handover."""
    sim = Sim(story(fixer="beta"), red_until(2))
    sim.run(until=lambda s: s.asked("gate-fix") == ["beta"])
    sim.fails("beta", bad(Class.SessionNotFound), times=1)
    sim.run()
    first, resumed, cold = (t for t in sim.started(StartTurn) if t.node == "gate-fix")
    assert resumed.resume == first.session
    assert (cold.resume, cold.agent) == ("", "beta")
    assert cold.session not in {"", first.session}
    assert len(cold.brief.parts) == len(first.brief.parts)
    assert passed(sim) == []


def test_a_lost_turn_is_nobodys_fault() -> None:
    """A turn whose guard vanished is asked again of the same agent; three in a row are a failure of it."""
    sim = Sim(story(roster="alpha beta"))
    sim.says(StartTurn, lambda effect: TurnLost(key=effect.key), times=3, agent="alpha", node="implement")
    sim.run(until=lambda s: bool(s.state.candidates))
    asked = [t.agent for t in sim.started(StartTurn) if t.node == "implement"]
    assert asked == ["alpha"] * 3 + ["beta"]


def test_pauses_between_tries_grow_and_obey_the_provider() -> None:
    """Back-off is 5 s, 20 s, 80 s with a little jitter, and never shorter than the provider says."""
    sim = Sim(story(roster="alpha beta"))
    sim.fails("alpha", bad(Class.Overloaded), node="implement", times=2)
    sim.fails("alpha", bad(Class.RateLimit, retry_after_s=1_000.0), node="implement", times=1)
    sim.run(until=lambda s: bool(s.state.candidates))
    first, second, third = (timer.span_s for timer in sim.started(Timer))
    assert 5 <= first <= 6
    assert 20 <= second <= 24
    assert third == 1_000.0


def test_a_signature_folds_what_varies() -> None:
    """Case, digits and paths do not make two failures different; it is at most 120 characters."""
    one = chain.signature_of("Crash 17 in /home/a/x.py:3\nmore")
    assert one == chain.signature_of("crash 4 in ~/b/y.py:99")
    assert chain.signature_of("gate `test -e /srv/never` is red") == "gate `test -e <path>` is red"
    assert len(chain.signature_of("x" * 500)) == 120


@pytest.mark.parametrize(
    ("turns", "reported", "slot", "remembers"),
    [(1, "s", "here", True), (0, "s", "here", False), (1, "", "here", False), (1, "s", "there", False)],
)
def test_who_remembers(turns: int, reported: str, slot: str, remembers: bool) -> None:  # noqa: FBT001 - a table
    """A prompt relies on memory only of one that took a turn, reported its conversation, and sits in the same slot (rulings 17, 43)."""
    seat = SeatState(
        key=SeatKey("fix"), agent=AgentId("a"), generation=1, minted="m", turns=turns, reported=reported, slot=SlotId(slot)
    )
    assert chain.has_session(seat, SlotId("here")) is remembers


def test_a_seat_never_goes_to_another_agent_with_its_conversation() -> None:
    """Another agent gets a fresh seat: another id, another generation, no memory; and an id is never offered twice."""
    sim = Sim(story(fixer="beta gamma", verify=Verify(gate=(GATE,))), red_until(2))
    sim.fails("beta", bad(Class.Timeout), times=1)
    sim.run()
    offered = [t.session for t in sim.started(StartTurn) if t.session]
    assert len(offered) == len(set(offered))
    fix: SeatState = sim.state.seats[SeatKey("fix")]
    assert fix.agent == "gamma"
    assert fix.generation > 1

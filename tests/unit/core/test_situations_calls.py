"""Situations of calls: conversations, second chances, continuations, answers in prose, chains that are short or empty."""

import pytest
from msgspec import structs

from nightcrew.core import chain, reading
from nightcrew.core.effects import RunCommands, StartTurn, Timer
from nightcrew.core.events import AgentCooling, ChainReset, HandedOver, TurnEnded, TurnLost
from nightcrew.core.ids import AgentId, SeatKey, Tree
from nightcrew.core.phases import review
from nightcrew.core.phases.catalog import READERS
from nightcrew.core.settings import Pipeline, Verify
from nightcrew.core.work import (
    Claim,
    Class,
    FailClass,
    Finding,
    FixReport,
    Handover,
    PipelinePhase,
    Purpose,
    Reviewed,
    Severity,
    Vote,
)
from support.world import GATE, Sim, World, bad, good, story

P = PipelinePhase
SOLO = Pipeline(plan=False)
BLOCKER = Reviewed(Vote.Reject, (Finding(Severity.Blocker, "it is wrong"),))


def turns(sim: Sim, node: str) -> list[StartTurn]:
    """The turns that were started at that node."""
    return [turn for turn in sim.started(StartTurn) if turn.node == node]


def passed(sim: Sim) -> list[tuple[str, str, str, FailClass]]:
    """The handovers of a run: node, from, to, class."""
    told = [fact.handover for fact in sim.facts(HandedOver)]
    return [(h.node, h.from_agent, h.to_agent, h.fail) for h in told]


def failed(sim: Sim) -> bool:
    """Whether the run is in trouble."""
    return sim.state.trouble is not None


def red(_tree: Tree) -> int:
    """A command that always fails."""
    return 1


def red_for(fixes: int) -> World:
    """A world whose gate is red until that many fix rounds changed something."""
    seen: list[Tree] = []

    def code(tree: Tree) -> int:
        if tree not in seen:
            seen.append(tree)
        return 1 if seen.index(tree) < fixes else 0

    return World(red={Purpose.Gate: code})


def red_on(*trees: str) -> World:
    """A world whose gate fails on those trees."""
    return World(red={Purpose.Gate: lambda tree: 1 if tree in trees else 0})


# ── conversations ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_id_is_offered_or_continued_never_both() -> None:
    """T181: the minted id is offered on a seat's first turn and resumed on the later ones; no turn has both."""
    sim = Sim(story(pipeline=Pipeline(), fixer="beta"), World(red={Purpose.Gate: red}))
    sim.fails("alpha", good(BLOCKER, session="r"), node="review", times=2)
    sim.run(until=failed)
    all_turns = sim.started(StartTurn)
    assert all(bool(turn.session) != bool(turn.resume) for turn in all_turns)
    fixes = [turn for turn in all_turns if turn.seat == "fix"]
    assert len(fixes) == 4
    assert {turn.resume for turn in fixes[1:]} == {fixes[0].session}


def test_a_turn_that_vanished_goes_on() -> None:
    """S251: cut off with its conversation known it is resumed, and the prompt does not repeat the task."""
    sim = Sim(story(roster="alpha", pipeline=SOLO), red_on("tree of c2"))
    sim.run(until=lambda s: s.asked("implement") == ["alpha"])
    sim.says(StartTurn, lambda effect: TurnLost(key=effect.key, session="told"), times=1, node="gate-fix")
    sim.run()
    _, again = turns(sim, "gate-fix")
    assert (again.resume, again.session) == ("told", "")
    assert all(part.blob != sim.state.started.task.text for part in again.brief.parts)
    assert passed(sim) == []


def test_a_turn_that_vanished_without_a_word_begins_again() -> None:
    """S251: cut off before it told of a conversation it starts fresh: another id, the whole context."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.says(StartTurn, lambda effect: TurnLost(key=effect.key), times=1, node="implement")
    sim.run()
    first, again = turns(sim, "implement")
    assert again.resume == ""
    assert again.session not in {"", first.session}
    assert again.brief == first.brief


@pytest.mark.parametrize("kind", [Class.Auth, Class.Timeout, Class.Quota])
def test_the_next_agent_starts_afresh(kind: Class) -> None:
    """S149, S154, S156: whoever takes over has an id of its own, no memory, and the full context; at once."""
    sim = Sim(story(fixer="beta gamma"), red_on("tree of c2"))
    sim.fails("beta", bad(kind, session="half"), node="gate-fix")
    sim.run()
    first, second = turns(sim, "gate-fix")
    assert (second.agent, second.resume) == ("gamma", "")
    assert second.session not in {"", first.session, "half"}
    assert second.brief == first.brief
    assert sim.started(Timer) == []


def test_what_a_timed_out_agent_left_is_kept() -> None:
    """S156: the last agent of a chain hits its limit after it changed files: they are collected and count."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.run(until=lambda s: bool(s.open()) and isinstance(s.open()[0], StartTurn))
    sim.world.edited.add(sim.state.workspaces[SeatKey("impl-A")].slot)
    sim.fails("alpha", bad(Class.Timeout, "no end in time"), node="implement", times=1)
    assert sim.run().state.phase is P.Complete
    assert [c.failure for c in sim.state.candidates.values()] == ["no end in time"]


# ── second chances ────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_rate_limit_is_waited_out_first() -> None:
    """S144, S239: the same agent is asked three times more, pauses growing; then the next one, with the full context."""
    sim = Sim(story(roster="alpha beta", pipeline=SOLO))
    sim.fails("alpha", bad(Class.RateLimit), node="implement")
    sim.run(until=lambda s: bool(s.state.candidates))
    asked = turns(sim, "implement")
    assert [turn.agent for turn in asked] == ["alpha"] * 4 + ["beta"]
    assert asked[-1].brief == asked[0].brief
    spans = [timer.span_s for timer in sim.started(Timer)]
    assert [low <= span <= 1.2 * low for low, span in zip((5.0, 20.0, 80.0), spans, strict=True)] == [True] * 3


@pytest.mark.parametrize("kind", [Class.InvalidOutput, Class.Crashed])
def test_an_unknown_fault_is_forgiven_once(kind: Class) -> None:
    """S152, S234: once more, then the next agent without a conversation; the count of an agent ends with its turn at it."""
    sim = Sim(story(roster="alpha beta gamma", pipeline=SOLO))
    for agent in ("alpha", "beta"):
        sim.fails(agent, bad(kind, f"{agent} broke"), node="implement")
    sim.run(until=lambda s: bool(s.state.candidates))
    asked = turns(sim, "implement")
    assert [turn.agent for turn in asked] == ["alpha"] * 2 + ["beta"] * 2 + ["gamma"]
    assert [turn.resume for turn in asked] == [""] * 5
    assert [fail for *_, fail in passed(sim)] == [FailClass.Other] * 2


def test_nothing_is_carried_from_one_call_to_the_next() -> None:
    """S148: the brief after a timeout, a crash and a switch is the one the state gives, word for word."""
    sim = Sim(story(roster="alpha beta gamma", pipeline=SOLO))
    sim.fails("alpha", bad(Class.Timeout), node="implement")
    sim.fails("beta", bad(Class.Crashed), node="implement")
    sim.run(until=lambda s: bool(s.state.candidates))
    assert len({turn.brief for turn in turns(sim, "implement")}) == 1
    assert len(turns(sim, "implement")) == 4


def test_a_program_that_is_not_there_passes_the_seat_on() -> None:
    """S072: of two agents the first cannot be started: the second is asked, and no trouble comes of it."""
    sim = Sim(story(roster="alpha beta", pipeline=SOLO))
    sim.fails("alpha", bad(Class.ConfigError, "no such program"), node="implement")
    sim.run()
    assert sim.asked("implement") == ["alpha", "beta"]
    assert (sim.state.phase, sim.state.trouble) == (P.Complete, None)


def test_three_vanished_turns_in_a_row() -> None:
    """S245: three in a row are a failure of the agent, and the next one is asked."""
    sim = Sim(story(roster="alpha beta", fixer="alpha beta"), red_for(2))
    sim.says(StartTurn, lambda effect: TurnLost(key=effect.key), times=3, node="gate-fix")
    sim.run()
    assert sim.asked("gate-fix") == ["beta", "beta"]
    assert [line[:3] for line in passed(sim)] == [("gate-fix", "alpha", "beta")]


def test_vanished_turns_with_an_answer_between() -> None:
    """S245, S236: two, an answer, and two more are held against nobody: no handover, no attempt of recovery."""
    sim = Sim(story(roster="alpha beta", fixer="alpha beta"), red_for(2))
    for rounds in (1, 2):
        sim.says(StartTurn, lambda effect: TurnLost(key=effect.key), times=2, node="gate-fix")
        sim.run(until=lambda s, rounds=rounds: len(s.asked("gate-fix")) == rounds)  # type: ignore[misc]
    sim.run()
    assert sim.asked("gate-fix") == ["alpha", "alpha"]
    assert (passed(sim), sim.state.trouble, sim.state.phase) == ([], None, P.Complete)


def test_a_failure_always_has_a_sentence() -> None:
    """S235: an outcome without a word still gives the failure and the handover a reason that can be read."""
    sim = Sim(story(roster="alpha beta", pipeline=SOLO))
    for agent in ("alpha", "beta"):
        sim.fails(agent, structs.replace(bad(Class.Refused), reason=""), node="implement")
    sim.run(until=failed)
    assert sim.state.trouble is not None
    reasons = [sim.state.trouble.failure.reason, sim.facts(HandedOver)[0].handover.reason]
    assert all(reason.strip() and reason not in {"None", "unknown failure"} for reason in reasons)


# ── who is asked ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_both_fixers_on_quota() -> None:
    """F03: one round allowed: one failed round, one quota loss, one handover, then recovery."""
    sim = Sim(story(fixer="beta gamma", pipeline=Pipeline(plan=False, gate_fix_rounds=1)), World(red={Purpose.Gate: red}))
    for agent in ("beta", "gamma"):
        sim.fails(agent, bad(Class.Quota, f"{agent} is spent"), node="gate-fix", times=1)
    sim.run(until=failed)
    assert sim.asked("gate-fix") == ["beta", "gamma"]
    assert passed(sim) == [("gate-fix", "beta", "gamma", FailClass.Quota)]
    assert [(q.node, q.agent) for q in sim.state.quota_losses] == [("gate-fix", "gamma")]
    assert sim.state.validating.rounds == 1
    assert sim.state.phase is P.AwaitingDevFix


@pytest.mark.parametrize(
    ("moves", "start"),
    [
        ((("review", "c"),), 0),
        ((("fix", "z"),), 0),
        ((("fix", "b"), ("rebase", "c")), 2),
        ((("fix", "c"), ("land", "a")), 0),
        ((("fix", "b"), ("review", "a"), ("gate-fix", "z")), 1),
    ],
)
def test_each_start_of_the_fixer_chain(moves: tuple[tuple[str, str], ...], start: int) -> None:
    """F07, F08, F09, F10: only handovers on fixer nodes to an id on the chain move its start; the last of them counts."""
    handovers = [Handover(1.0, node, SeatKey("fix"), AgentId("x"), AgentId(to), FailClass.Other, "failed") for node, to in moves]
    abc = (AgentId("a"), AgentId("b"), AgentId("c"))
    assert chain.sticky_start(abc, handovers, chain.FIX_NODES) == start


def test_a_reviewers_handover_moves_no_fixer() -> None:
    """F07: a reviewer that failed passes its own seat on; the fixer chain is asked from its front."""
    sim = Sim(story(fixer="alpha beta gamma"), red_for(1))
    sim.fails("alpha", bad(Class.Timeout), node="review")
    sim.run()
    assert [line[:3] for line in passed(sim)] == [("review", "alpha", "beta")]
    assert sim.asked("gate-fix") == ["alpha"]


def test_a_handover_is_recorded_once_and_the_next_asked_once() -> None:
    """F23: cut between the handover's fact and the next call: the replayed run records none again and asks one agent."""
    sim = Sim(story(fixer="beta gamma"), red_on("tree of c2"))
    sim.fails("beta", bad(Class.Quota), node="gate-fix")
    sim.run(until=lambda s: bool(s.facts(HandedOver)))
    cut = next(i for i, entry in enumerate(sim.entries) if isinstance(entry.event, HandedOver))
    again = Sim(sim.entries[0].event, sim.world)  # type: ignore[arg-type]
    again.put(*(entry.event for entry in sim.entries[1 : cut + 1]))
    assert again.record() is None
    again.settle()
    assert [(t.agent, t.node) for t in again.open() if isinstance(t, StartTurn)] == [("gamma", "gate-fix")]
    again.run()
    assert passed(again) == [("gate-fix", "beta", "gamma", FailClass.Quota)]
    assert again.state.phase is P.Complete


def test_a_reviewer_that_fails_keeps_away() -> None:
    """T035: alpha always fails to review, findings never clear: one handover in the first round, later ones begin with beta."""
    sim = Sim(story(roster="alpha beta", fixer="beta", pipeline=Pipeline(plan=False, review_rounds=3)))
    sim.fails("alpha", bad(Class.Refused, "alpha will not"), node="review")
    sim.fails("beta", good(BLOCKER, session="r"), node="review")
    sim.run(until=lambda s: s.state.phase is not P.Review and s.state.reviewing.round == 3)
    assert sim.asked("review") == ["alpha", "beta", "beta", "beta"]
    assert [line for line in passed(sim) if line[0] == "review"] == [("review", "alpha", "beta", FailClass.Other)]
    assert sim.state.seats[SeatKey("review-1")].agent == "beta"


def test_who_took_over_keeps_the_seat() -> None:
    """S242: alpha cools down and beta takes over; when alpha is well again the run's later rounds are still beta's."""
    sim = Sim(story(fixer="beta gamma"), red_for(2))
    sim.world.cooling[AgentId("beta")] = sim.world.at + 60.0
    sim.run(until=lambda s: s.asked("gate-fix") == ["gamma"])
    sim.world.at += 3_600.0
    sim.run()
    assert sim.asked("gate-fix") == ["gamma", "gamma"]
    assert [line[:3] for line in passed(sim)] == [("gate-fix", "beta", "gamma")]


@pytest.mark.parametrize("role", ["planner", "reviewer", "committer"])
def test_an_empty_chain_is_passed_over(role: str) -> None:
    """S169: nobody who could plan, review or write the message: the step is passed over and the run lands."""
    told = dict.fromkeys((role,), "-")
    sim = Sim(story(pipeline=Pipeline(), **told)).run()  # type: ignore[arg-type]
    assert sim.state.phase is P.Complete
    node = {"planner": "plan", "reviewer": "review", "committer": "commit"}[role]
    assert node not in {turn.node for turn in sim.world.turns}


def test_each_phase_asks_its_own_chain_from_the_front() -> None:
    """S174: what a call of one phase had reached is nothing to the next phase."""
    sim = Sim(story(roster="alpha beta", reviewer="beta alpha", pipeline=SOLO))
    sim.fails("alpha", bad(Class.Timeout), node="implement")
    sim.run(until=lambda s: s.state.phase is P.Review)
    assert sim.state.calls == {}
    sim.run()
    assert sim.asked("review") == ["beta"]
    assert sim.asked("commit") == ["alpha"]


def test_a_pause_that_is_over_is_not_waited_for_again() -> None:
    """S166: after its timer fired the agent is asked; the same pause is never wanted twice."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.fails("alpha", bad(Class.Overloaded), node="implement", times=1)
    sim.run(until=lambda s: bool(s.started(Timer)))
    (timer,) = sim.open()
    assert isinstance(timer, Timer)
    sim.respond()
    sim.settle()
    assert [type(effect) for effect in sim.open()] == [StartTurn]
    sim.run()
    assert len(sim.started(Timer)) == 1


def test_a_cooling_agent_is_a_chain_that_can_be_asked_again() -> None:
    """S022: a chain of one is exhausted; at level 1 it is reset, and its agent is asked in Development again."""
    sim = Sim(story(roster="alpha", pipeline=SOLO))
    sim.fails("alpha", bad(Class.Refused), node="implement", times=1)
    sim.fails("alpha", good(), node="dev-fix", times=1)
    sim.run(until=lambda s: len(s.asked("implement")) == 2)
    assert [fact.chain for fact in sim.facts(ChainReset)] == ["developer"]
    assert sim.state.resets["developer"] == 0
    assert sim.facts(AgentCooling) == []


# ── continuations ─────────────────────────────────────────────────────────────────────────────────────────────────


def goes_on(pipeline: Pipeline) -> Sim:
    """A run whose implementer changes something each time and always asks for another turn."""
    sim = Sim(story(roster="alpha", pipeline=pipeline))

    def more(effect: StartTurn) -> TurnEnded:
        sim.world.edited.add(effect.slot)
        return TurnEnded(key=effect.key, outcome=good(Claim("continue"), session=f"s{sim.state.iteration}"))

    sim.says(StartTurn, more, node="implement")
    return sim


def test_continuations_end() -> None:
    """S199, S201, S075: three by default and never a fourth; with work done the run goes on with it, and nobody failed."""
    sim = goes_on(SOLO).run()
    assert sim.asked("implement") == ["alpha"] * 4
    assert (sim.state.phase, sim.facts(ChainReset)) == (P.Complete, [])


def test_continuations_never_raise_the_iteration() -> None:
    """S202, S205: three iterations are planned three times, however often each goes on; each begins its count anew."""
    sim = goes_on(Pipeline(iterations=3, continuations=1)).run()
    assert sim.asked("plan") == ["alpha"] * 3
    assert sim.asked("implement") == ["alpha"] * 6
    assert sim.state.settings.pipeline.continuations == 1


def test_a_fix_without_a_report_is_taken_as_it_stands() -> None:
    """S203: the fixer's two continuations are spent: its diff counts, the next round reviews it."""
    sim = Sim(story(fixer="beta", pipeline=SOLO))
    sim.fails("alpha", good(BLOCKER), node="review", times=1)

    def works(effect: StartTurn) -> TurnEnded:
        sim.world.edited.add(effect.slot)
        return TurnEnded(key=effect.key, outcome=good(session="s"))

    sim.says(StartTurn, works, node="fix")
    sim.run()
    assert sim.asked("fix") == ["beta"] * 3
    assert (sim.state.reviewing.round, sim.state.phase) == (2, P.Complete)


def test_the_last_round_and_the_last_iteration_are_made() -> None:
    """S225: two rounds allowed are two reviews, one iteration is one: the last is made, and none beyond it."""
    sim = Sim(story(pipeline=Pipeline(review_rounds=2, iterations=1), land="branch"))
    sim.fails("alpha", good(BLOCKER), node="review")
    sim.run()
    assert (len(sim.asked("plan")), len(sim.asked("implement")), len(sim.asked("review"))) == (1, 1, 2)
    assert sim.state.phase is P.Complete


def test_e2e_that_stays_red_is_a_failure_of_review() -> None:
    """T066: findings never clear and e2e is red after three rounds: a failure of Review, one put-off at most, no gate."""
    verify = Verify(gate=(GATE,), e2e=("make e2e",))
    sim = Sim(story(verify=verify, pipeline=Pipeline(plan=False, review_rounds=3)), World(red={Purpose.E2e: red}))
    sim.fails("alpha", good(BLOCKER), node="review")
    sim.run(until=failed)
    assert sim.state.trouble is not None
    assert (sim.state.trouble.failed_phase, sim.state.reviewing.round) == (P.Review, 3)
    assert [e.purpose for e in sim.started(RunCommands) if e.purpose is not Purpose.Preflight] == [Purpose.E2e]


# ── answers in prose ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "addressed"),
    [
        ('first {"addressed": ["a"]} then {"addressed": ["b"]}', ("b",)),
        ('{"addressed": ["}{"]} and {"other": 1}', ("}{",)),
        ('{"addressed": ["a"]} but {"addressed": 7}', ("a",)),
        ('{"note": {"addressed": ["inner"]}} {"addressed": ["a"]}', ("a",)),
        ('a quote " before {"addressed": ["a"]}', ("a",)),
    ],
    ids=["last", "braces", "shape", "nested", "quote"],
)
def test_the_last_fitting_object_counts(text: str, addressed: tuple[str, ...]) -> None:
    """T189: of several objects the last that fits; braces in strings do not count; other shapes are passed over."""
    assert READERS[review.FIX](text) == FixReport(addressed)


@pytest.mark.parametrize("text", ["", "no object", '{"addressed": ["a"', "}{", '{"addressed": "a"}', "{" * 50_000])
def test_no_object_is_no_answer(text: str) -> None:
    """T189: none, the wrong one, or one that is cut off is no answer, and nothing hangs."""
    assert reading.last_fitting(text, FixReport) is None or text == "}{"
    assert list(reading.objects(text)) in ([], [text])


def test_a_wrong_shape_is_asked_again_and_costs_the_seat() -> None:
    """T189: prose without the object is asked for twice more in the same conversation; then the next reviewer."""
    sim = Sim(story(roster="alpha beta", pipeline=SOLO))
    sim.fails("alpha", good(session="s"), node="review")
    sim.run()
    asked = turns(sim, "review")
    assert [turn.agent for turn in asked] == ["alpha"] * 3 + ["beta"]
    assert [turn.resume for turn in asked[:3]] == ["", "s", "s"]

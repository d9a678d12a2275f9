"""A competition: several implement it, a blind panel ranks, deliberates and votes; the winner alone goes on."""

import json
from typing import Any

import pytest

from nightcrew.core.brief import small
from nightcrew.core.effects import (
    CollectWork,
    DropWorkspaces,
    Land,
    NeutraliseWork,
    PrepareWorkspace,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    Timer,
)
from nightcrew.core.events import (
    AgentCooling,
    Cancelled,
    CommandsEnded,
    DevFixCompleted,
    DevFixSkipped,
    HandedOver,
    StepFailed,
    TimerFired,
    TurnEnded,
    WorkCollected,
    WorkNeutralised,
    WorkspaceLost,
)
from nightcrew.core.ids import AgentId, Label, SeatKey, impl_seat
from nightcrew.core.phases import judging
from nightcrew.core.rooms import BASE, labels
from nightcrew.core.settings import Pipeline, Verify
from nightcrew.core.state import Judging
from nightcrew.core.work import Ballot, Blob, Class, CommandResult, PipelinePhase, Purpose, Ranking
from support.world import GATE, Fault, Sim, bad, good, story

EVERYBODY = "alpha beta gamma"
ROTATED = "beta gamma alpha"


def contest(n: int = 3, roster: str = EVERYBODY, judge: str = ROTATED, verify: Verify | None = None, **told: Any) -> Sim:
    """A run with so many implementers and three judges."""
    pipeline = Pipeline(**{"plan": False, "reviewers": 0, "implementers": n, **told})
    return Sim(story(roster=roster, judge=judge, pipeline=pipeline, land="branch", verify=verify))


def judged(sim: Sim) -> Sim:
    """The run until Judging is over."""
    return sim.run(until=lambda s: s.state.phase in {PipelinePhase.Review, PipelinePhase.FinalValidation})


def text(turn: StartTurn) -> str:
    """What a turn was told."""
    return "\n".join(part.text or (part.blob.tail if part.blob else "") for part in turn.brief.parts)


def turns(sim: Sim, node: str, seat: str = "") -> list[StartTurn]:
    """The turns at that node that were started."""
    return [turn for turn in sim.started(StartTurn) if turn.node == node and seat in {"", turn.seat}]


def says(sim: Sim, node: str, seat: str, report: Any, times: int = 1_000_000) -> None:
    """That seat's answers at that node."""
    sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=good(report, session="s")), times, seat=seat, node=node)


def handovers(sim: Sim) -> list[tuple[str, str, str, str]]:
    """Who gave what to whom."""
    return [(h.handover.node, h.handover.seat, h.handover.from_agent, h.handover.to_agent) for h in sim.facts(HandedOver)]


# ── several implement it ─────────────────────────────────────────────────────────────────────────────────────────


def test_three_candidates_and_three_judges() -> None:
    """T052, T058: three viable candidates under labels that name nobody; judges agree, so nobody deliberates; the winner lands."""
    sim = contest().run()
    assert sorted(sim.state.candidates) == ["A", "B", "C"]
    assert {c.agent for c in sim.state.candidates.values()} == set(EVERYBODY.split())
    assert (turns(sim, "deliberate"), turns(sim, "vote")) == ([], [])
    tally = sim.state.judging.tally
    assert tally is not None
    assert (tally.judges, tally.present, tally.quorum, tally.winner, tally.decided_by) == (3, 3, 2, "A", "votes")
    assert sim.state.phase is PipelinePhase.Complete
    assert sim.started(Land)[-1].commit == sim.state.commit


def test_labels_are_a_permutation_stable_for_a_seed() -> None:
    """T191: whose label is which follows from the seed alone, and another seed gives another order."""
    pipeline = Pipeline(implementers=8)
    found = set()
    for n in range(20):
        state = Sim(story(pipeline=pipeline).but(seed=f"seed {n}")).state
        assert sorted(labels(state)) == list("ABCDEFGH")
        assert labels(state) == labels(Sim(story(pipeline=pipeline).but(seed=f"seed {n}")).state)
        found.add(labels(state))
    assert len(found) > 15


def test_lanes_run_in_parallel_as_many_as_allowed() -> None:
    """Eight implementers, three at once: never more turns than that are in flight, and all of them are asked in the end."""
    sim, most = contest(8, max_parallel=3), 0

    def watched(s: Sim) -> bool:
        nonlocal most
        most = max(most, sum(isinstance(e, StartTurn) and e.node == "implement" for e in s.open()))
        return s.state.phase is PipelinePhase.Judging

    sim.run(until=watched)
    assert most == 3
    assert len(sim.state.candidates) == 8
    assert [sim.asked("implement").count(agent) for agent in EVERYBODY.split()] == [3, 3, 2]


def sleeps(sim: Sim, node: str, seat: str) -> None:
    """All whom that seat may ask cool down for a day."""
    sim.says(StartTurn, lambda e: AgentCooling(key=e.key, agent=e.agent, until=90_000.0), node=node, seat=seat)


def test_a_lane_that_sleeps_holds_nobody_up() -> None:
    """All that one lane may ask cool down for a day: the others are judged without it; alone it would be waited for."""
    sim = contest()
    last = labels(sim.state)[2]
    sleeps(sim, "implement", f"impl-{last}")
    judged(sim)
    assert (sim.state.at < 90_000.0, last in sim.state.judging.entrants, len(sim.state.judging.entrants)) == (True, False, 2)
    assert list(sim.state.judging.out) == [last]
    lone = contest(1)
    lone.says(StartTurn, lambda e: AgentCooling(key=e.key, agent=e.agent, until=90_000.0), times=3, node="implement")
    assert judged(lone).state.at >= 90_000.0


def test_a_lane_that_wakes_up_stops_nobody() -> None:
    """One at a time: the second works while the first lane's agents cool down, and ends first when they are free again."""
    sim = contest(2, max_parallel=1)
    first, second = labels(sim.state)
    sim.says(StartTurn, lambda e: AgentCooling(key=e.key, agent=e.agent, until=sim.state.at + 50), times=3, seat=f"impl-{first}")
    sim.run(until=lambda s: any(e.seat == f"impl-{second}" for e in s.open() if isinstance(e, StartTurn)))
    (timer,) = (e for e in sim.open() if isinstance(e, Timer))
    sim.put(TimerFired(key=timer.key))
    sim.settle()
    assert [e.seat for e in sim.open() if isinstance(e, StartTurn)] == [f"impl-{second}"]
    assert sorted(judged(sim).state.judging.entrants) == ["A", "B"]


def test_a_lane_that_loses_its_work_is_out_alone() -> None:
    """A deleted workspace is that implementer's failure: nobody else is stopped or asked again, and nothing is recovered."""
    sim = contest()
    lost = labels(sim.state)[0]
    sim.says(CollectWork, lambda e: WorkspaceLost(key=e.key, slot=e.slot, reason="gone"), times=1, seat=f"impl-{lost}")
    judged(sim)
    assert (len(turns(sim, "implement")), sim.facts(Cancelled, DevFixCompleted, DevFixSkipped)) == (3, [])
    assert (lost in sim.state.judging.entrants, len(sim.state.judging.entrants)) == (False, 2)
    assert "is gone" in sim.state.candidates[lost].failure


def test_what_is_finished_is_not_made_again() -> None:
    """A git step fails for good in one lane while the others are done: after the recovery that lane alone is asked again."""
    sim = contest()
    last = labels(sim.state)[2]
    sim.says(CollectWork, lambda e: StepFailed(key=e.key, reason="broken"), times=1, seat=f"impl-{last}", node="implement")
    judged(sim)
    asked: list[str] = [turn.seat for turn in turns(sim, "implement")]
    assert [asked.count(f"impl-{label}") for label in labels(sim.state)] == [1, 1, 2]
    assert {turn.label for turn in turns(sim, "dev-fix")} == {last}


def test_a_spent_second_implementer_gives_way_to_a_spare() -> None:
    """T025, F26: of two candidates the second starts at beta, on quota: gamma is asked, never alpha; the first is untouched."""
    sim = contest(2)
    sim.fails("beta", bad(Class.Quota), node="implement")
    judged(sim)
    first, second = labels(sim.state)
    assert handovers(sim) == [("implement", f"impl-{second}", "beta", "gamma")]
    assert (sim.state.candidates[first].agent, sim.state.candidates[second].agent) == ("alpha", "gamma")


def test_a_candidate_that_fails_its_checks_is_out_while_another_passes() -> None:
    """Checks decide before judges do; where all are red, all are judged and the results are facts."""
    sim = contest(verify=Verify(gate=(GATE,), check=("make unit",)))
    sim.world.red[Purpose.Check] = lambda tree: int(sim.state.candidates[Label("B")].change.tree == tree)
    judged(sim)
    assert sim.state.judging.out == {"B": "`make unit` is red"}
    assert "# Candidate B" not in text(turns(sim, "judge")[0])


def test_where_all_checks_are_red_all_are_judged() -> None:
    """Nobody is out for what everybody fails; the judges are told what the checks say."""
    sim = contest(verify=Verify(gate=(GATE,), check=("make unit",)))
    sim.world.red[Purpose.Check] = lambda _tree: 1
    judged(sim)
    assert sim.state.judging.out == {}
    assert "`make unit` (exit status 1):" in text(turns(sim, "judge")[0])


def same_trees(sim: Sim, *same: str) -> None:
    """The work of those implementers has one and the same tree."""
    ordinary = sim.world.collected

    def collected(effect: Any) -> Any:
        found = ordinary(effect)
        if effect.label not in same:
            return found
        tree = "tree of twins"
        sim.world.known[found.change.head] = tree  # type: ignore[assignment]
        return found.but(change=found.change.but(tree=tree))

    sim.world.collected = collected  # type: ignore[method-assign]


def test_identical_candidates_are_one() -> None:
    """Two with the same files are judged once, and the second is noted as the same."""
    sim = contest()
    same_trees(sim, "A", "C")
    judged(sim)
    assert sim.state.judging.out == {"C": "the same as A"}
    assert sim.state.judging.standing == ("A", "B")


def test_all_identical_candidates_need_no_judge() -> None:
    """Nothing is left to choose: no panel is shown, the losers' workspaces are given back all the same."""
    sim = contest()
    same_trees(sim, "A", "B", "C")
    judged(sim)
    assert (sim.state.judging.tally, turns(sim, "judge"), sim.state.winner) == (None, [], "A")
    assert len(sim.started(DropWorkspaces)[0].seats) == 2


def test_all_empty_is_no_candidate() -> None:
    """Nobody changed anything: a failure that recovery is for, never an empty winner."""
    sim = contest()
    sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=good(session="s")), node="implement")
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.state.trouble is not None
    assert sim.state.trouble.failure.kind == "no candidate"


# ── who judges, and what is seen ─────────────────────────────────────────────────────────────────────────────────


def test_each_candidate_is_seen_first_equally_often() -> None:
    """T053: three rankings of three labels in three orders, a rotation: position decides nothing."""
    sim = judged(contest())
    orders = list(sim.state.judging.orders.values())
    assert sorted(order[0] for order in orders) == ["A", "B", "C"]
    assert all(sorted(order) == ["A", "B", "C"] for order in orders)
    shown = [
        [text(turn).index(f"# Candidate {label}") for label in order]
        for turn, order in zip(turns(sim, "judge"), orders, strict=True)
    ]
    assert all(places == sorted(places) for places in shown)


def test_more_than_three_are_shuffled_for_each_judge() -> None:
    """Orders of many candidates differ from judge to judge."""
    sim = contest(6, judges=5)
    sim.world.prefer = {f"judge-{n}": "ABCDEF" for n in range(1, 6)}
    judged(sim)
    assert len(set(sim.state.judging.orders.values())) > 2


def test_judges_know_no_author() -> None:
    """Prompts name labels and neutral commits, never an agent; each judge has a workspace that sees these commits alone."""
    sim = contest()
    sim.world.prefer = {"judge-1": "ABC", "judge-2": "BAC", "judge-3": "CAB", "vote": "B"}
    judged(sim)
    told = "".join(text(t) for node in ("judge", "deliberate", "vote") for t in turns(sim, node))
    assert not any(name in told for name in EVERYBODY.split())
    (neutral,) = sim.started(NeutraliseWork)
    assert (neutral.base, sorted(neutral.heads), neutral.redact) == ("c0", ["A", "B", "C"], False)
    rooms = [e for e in sim.started(PrepareWorkspace) if e.seat.startswith("judge-")]
    seen = {change.head for change in sim.state.judging.neutral.values()}
    assert len(rooms) == 3
    assert all((set(e.sees), e.start, e.label) == (seen, "c0", "") for e in rooms)
    assert all(t.read_only for t in turns(sim, "judge"))


@pytest.mark.parametrize(
    ("change", "told", "cut"),
    [
        ({"insertions": 100_000, "patch": Blob("d", 9_000_000, "end")}, "1 files, 100000 lines added", True),
        ({"insertions": 0, "patch": Blob("d", 90, "Binary files differ")}, "only binary files or modes changed", False),
    ],
)
def test_what_is_too_much_to_show_is_said(change: dict[str, Any], told: str, cut: bool) -> None:  # noqa: FBT001
    """100,000 lines: a summary, the end, and where to look; binary files alone: said so."""
    sim = contest()

    def neutral(e: NeutraliseWork) -> WorkNeutralised:
        found = sim.world.neutralised(e)
        return found.but(neutral={**found.neutral, Label("B"): found.neutral[Label("B")].but(**change)})

    sim.says(NeutraliseWork, neutral)
    judged(sim)
    asked = turns(sim, "judge")[0]
    at = next(n for n, part in enumerate(asked.brief.parts) if part.text.startswith("# Candidate B"))
    head, patch = asked.brief.parts[at : at + 2]
    assert told in head.text
    assert ("too long" in head.text) is cut
    assert "`git diff c0 neutral" in head.text
    assert 0 < patch.limit <= 60_000


def test_no_author_judges_while_there_is_anybody_else() -> None:
    """Of five agents two implement: the other three judge, also where a judge gives way."""
    sim = contest(2, roster="alpha beta gamma delta eps", judge="alpha beta gamma delta eps")
    sim.fails("gamma", bad(Class.Refused), node="judge")
    judged(sim)
    assert set(sim.asked("judge")) == {"gamma", "delta", "eps"}
    assert judging.authors(sim.state).isdisjoint({"gamma", "delta", "eps"})


def test_a_judge_moves_forward_only() -> None:
    """T034: judge 1 is beta and fails, gamma is fine: one handover. T033: judge 3 sits at the end of the list: no handover for it."""
    sim = contest()
    sim.fails("beta", bad(Class.Refused), node="judge")
    judged(sim)
    assert handovers(sim) == [("judge", "judge-1", "beta", "gamma")]
    assert sim.asked("judge", "judge-3") == ["alpha"]
    assert len(sim.asked("judge", "judge-1")) == 2


def test_one_agent_judges_alone() -> None:
    """T032: a roster of one: a judge's passing faults are tried again as often as set, and nothing is handed over."""
    for retries in (0, 2):
        sim = contest(2, roster="alpha", judge="alpha", retries=retries)
        sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=bad(Class.Network)), seat="judge-2", node="judge")
        judged(sim)
        assert (handovers(sim), len(sim.asked("judge", "judge-2"))) == ([], 1 + retries)
        assert sim.state.judging.tally is not None
        assert sim.state.judging.tally.present == 2


# ── rankings, deliberation, votes ────────────────────────────────────────────────────────────────────────────────


def split(**told: Any) -> Sim:
    """Three judges with three favourites, who all vote for B."""
    sim = contest(**told)
    sim.world.prefer = {"judge-1": "ABC", "judge-2": "BAC", "judge-3": "CAB"}
    for n in (1, 2, 3):
        says(sim, "deliberate", f"judge-{n}", Ballot(Label("B"), f"point {n}"))
        says(sim, "vote", f"judge-{n}", Ballot(Label("B"), "so"))
    return sim


def test_a_split_panel_deliberates_and_votes() -> None:
    """T061, T063: one round of three turns, one after the other by number; then a vote that says it is private; two change their minds."""
    sim = judged(split())
    at = sim.state.judging
    assert [(seat, turn.choice) for seat, turn in at.turns] == [(f"judge-{n}", "B") for n in (1, 2, 3)]
    first, second, third = turns(sim, "deliberate")
    assert "Judge 2: B, A, C" in text(first)
    assert ("point 1" in text(second), "point 3" in text(second), "point 2" in text(third)) == (True, False, True)
    assert all("not shown to the others" in text(vote) for vote in turns(sim, "vote"))
    assert at.tally is not None
    assert (at.tally.winner, at.tally.votes, at.tally.changed, at.tally.decided_by) == ("B", {"A": 0, "B": 3, "C": 0}, 2, "votes")
    assert sim.state.chosen.label == "B"


def test_votes_are_given_at_once() -> None:
    """Nobody's vote waits for another's."""
    sim = split().run(until=lambda s: len([e for e in s.open() if isinstance(e, StartTurn) and e.node == "vote"]) == 3)
    assert sim.state.judging.ballots == {}


def test_a_judge_that_drops_out_of_the_deliberation() -> None:
    """T071: judge 1's turn comes to nothing: two turns only, no trace of it in what others are told; it still votes."""
    sim = split()
    sim.world.faults.insert(0, sim.world.faults[0]._replace(
        fits=lambda e: isinstance(e, StartTurn) and (e.seat, e.node) == ("judge-1", "deliberate"),
        says=lambda e, _: TurnEnded(key=e.key, outcome=bad(Class.Refused, '{"error": 7}')),
    ))  # fmt: skip
    judged(sim)
    assert [seat for seat, _ in sim.state.judging.turns] == ["judge-2", "judge-3"]
    assert not any('"error"' in text(t) for node in ("deliberate", "vote") for t in turns(sim, node))
    assert sim.state.judging.tally is not None
    assert sim.state.judging.tally.present == 3


@pytest.mark.parametrize("kind", [Class.Refused, Class.Timeout, Class.Quota])
def test_a_vote_is_handed_over(kind: Class) -> None:
    """T037, T038, T039: beta fails only its vote: one handover, gamma gets task, candidates, the seat's ranking and argument; no quota loss."""
    sim = split()
    sim.world.faults.insert(0, sim.world.faults[0]._replace(
        fits=lambda e: isinstance(e, StartTurn) and (e.agent, e.node) == ("beta", "vote"),
        says=lambda e, _: TurnEnded(key=e.key, outcome=bad(kind)),
    ))  # fmt: skip
    judged(sim)
    assert handovers(sim) == [("vote", "judge-1", "beta", "gamma")]
    short, whole = turns(sim, "vote", "judge-1")
    assert ("# Task" in text(short), "# Task" in text(whole)) == (False, True)
    assert all(part in text(whole) for part in ("# Candidate A", "You (judge 1): A, B, C", "point 1"))
    assert sim.state.judging.ballots[SeatKey("judge-1")].choice == "B"
    assert sim.state.quota_losses == ()


@pytest.mark.parametrize("order", ["AB", "AAB", "ABCD"])
def test_a_ranking_of_the_wrong_labels_is_asked_for_once_more(order: str) -> None:
    """T190: a missing, a doubled or a strange label is no ranking: one short re-ask with a quarter of the time, then the seat moves on."""
    sim = contest()
    says(sim, "judge", "judge-3", Ranking(tuple(map(Label, order))))
    judged(sim)
    first, again = turns(sim, "judge", "judge-3")
    assert again.total_s == first.total_s / 4
    assert len(text(again)) < 500
    assert tuple(sim.state.judging.absent) == ("judge-3",)
    assert sim.state.judging.tally is not None
    assert (sim.state.judging.tally.present, sum(sim.state.judging.tally.votes.values())) == (2, 2), "an abstention is no vote"


def test_labels_are_read_as_they_are_meant() -> None:
    """T190: lower case and blanks do not matter; the last object of the right shape counts; prose is no answer."""
    told = 'first {"order": ["C"]} then {"order": [" b", "a ", "C"], "reasons": {"b": "best"}, "confidence": 7}'
    assert judging.read(told) == Ranking((Label("B"), Label("A"), Label("C")), {Label("B"): "best"}, {}, 1.0)
    assert judging.read_ballot('{"choice": " b ", "why": "it works"}') == Ballot(Label("B"), "it works")
    assert (judging.read("B is best"), judging.read_ballot("B")) == (None, None)


def test_words_of_a_judge_are_bounded() -> None:
    """What is said of each label is a line, of labels that were not ranked nothing; an endless order is no ranking, an argument has 2,000 letters."""
    said = json.dumps({"order": ["A", "B"], "reasons": {"A": "x" * 9_000, "Z": "y"}, "strengths": {" b": " z\nmore"}})
    found = judging.read(said)
    assert found is not None
    assert ({k: len(v) for k, v in found.reasons.items()}, found.strengths) == ({"A": 400}, {"B": "z"})
    assert judging.read(json.dumps({"order": ["A"] * 9})) is None
    ballot = judging.read_ballot(json.dumps({"choice": "a", "why": "x" * 9_000}))
    assert ballot is not None
    assert (ballot.choice, len(ballot.why)) == ("A", 2_000)


def test_a_vote_for_an_agent_by_name_is_no_vote() -> None:
    """Judges know labels; whoever votes for a name is asked again and then has no vote."""
    sim = split()
    says_first(sim, "vote", "judge-3", Ballot(Label("ALPHA")))
    judged(sim)
    assert tuple(sim.state.judging.ballots) == ("judge-1", "judge-2")


def says_first(sim: Sim, node: str, seat: str, report: Any) -> None:
    """The same as `says`, before whatever was said already."""
    says(sim, node, seat, report)
    sim.world.faults.insert(0, sim.world.faults.pop())


# ── quorum ───────────────────────────────────────────────────────────────────────────────────────────────────────


def below(kind: Class, **more: Any) -> Sim:
    """Judges 1 and 2 cannot answer."""
    sim = contest(roster="alpha beta gamma delta", judge="beta gamma delta")
    for agent in ("beta", "gamma"):
        sim.fails(agent, bad(kind, f"{agent} cannot", **more), node="judge")
    sim.fails("delta", bad(kind, "delta cannot", **more), node="judge")
    sim.world.faults[-1] = sim.world.faults[-1]._replace(
        fits=lambda e: isinstance(e, StartTurn) and e.seat in {"judge-1", "judge-2"}
    )
    return sim


@pytest.mark.parametrize("kind", [Class.Quota, Class.Refused])
def test_below_the_quorum_nothing_is_decided(kind: Class) -> None:
    """T044, T048: one of three present, two needed: no winner, the losers keep their workspaces, nothing is reviewed or gated."""
    sim = below(kind).run(until=lambda s: s.state.trouble is not None)
    tally = sim.state.judging.tally
    assert tally is not None
    assert (tally.judges, tally.present, tally.quorum, tally.winner) == (3, 1, 2, "")
    assert "1 of 3 judges answered" in tally.reason
    assert (sim.state.winner, sim.started(DropWorkspaces), tuple(sim.state.judging.rankings)) == ("", [], ("judge-3",))


@pytest.mark.parametrize("kind", [Class.Quota, Class.Refused])
def test_the_absent_alone_are_asked_again(kind: Class) -> None:
    """T047, T049: once they can, the two absent seats are asked, the third is not; the quorum is met and the run goes on."""
    sim = below(kind).run(until=lambda s: s.state.trouble is not None)
    sim.world.faults.clear()
    sim.run()
    assert len(turns(sim, "judge", "judge-3")) == 1
    assert sim.state.judging.tally is not None
    assert (sim.state.judging.tally.present, sim.state.phase) == (3, PipelinePhase.Complete)
    assert sim.state.trouble is None


def test_a_loss_to_quota_with_a_known_reset_is_waited_for() -> None:
    """T044: with a known reset the run waits for it and counts no attempt."""
    sim = below(Class.Quota, reset_at=50_000.0)
    sim.run(until=lambda s: s.state.trouble is not None)
    sim.world.faults.clear()
    sim.world.cooling[AgentId("delta")] = 50_000.0
    sim.run()
    assert sim.state.at >= 50_000.0
    assert (sim.state.phase, sim.facts(DevFixCompleted, DevFixSkipped)) == (PipelinePhase.Complete, [])


def test_a_quorum_does_not_wait_for_one_that_sleeps() -> None:
    """Two of three agree while the third's agents cool down for hours: the two decide, and nothing waits."""
    sim = contest(roster="alpha beta gamma delta", judge="delta")
    sim.says(StartTurn, lambda e: AgentCooling(key=e.key, agent=e.agent, until=90_000.0), node="judge", seat="judge-2")
    judged(sim)
    assert sim.state.at < 90_000.0
    assert sim.state.judging.tally is not None
    assert (sim.state.judging.tally.present, sim.state.judging.tally.judges, sim.state.winner) == (2, 3, "A")


def test_nobody_waits_for_a_word_in_a_debate() -> None:
    """A judge whose agents cool down for a day does not speak; the others do, in each round, and vote."""
    sim = split(deliberate_rounds=2)
    sim.world.faults.clear()
    for node in ("deliberate", "vote"):
        sleeps(sim, node, "judge-2")
        for n in (1, 3):
            says(sim, node, f"judge-{n}", Ballot(Label("B"), "so"))
    judged(sim)
    assert sim.state.at < 90_000.0
    assert [seat for seat, _ in sim.state.judging.turns] == ["judge-1", "judge-3"] * 2
    assert sim.state.judging.tally is not None
    assert (sim.state.judging.tally.present, sim.state.winner) == (2, "B")


def test_a_vote_below_the_quorum_asks_those_who_did_not_vote() -> None:
    """Below the quorum after the votes: those who did not vote are asked again, who did is not, and the quorum is met."""
    sim = split()
    for seat in ("judge-1", "judge-2"):
        says_first(sim, "vote", seat, None)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.state.judging.tally is not None
    assert (sim.state.judging.tally.present, list(sim.state.judging.ballots)) == (1, ["judge-3"])
    sim.world.faults = [f for f in sim.world.faults if f.says(turns(sim, "vote")[0], sim.world).outcome.report]  # type: ignore[union-attr]
    sim.run()
    assert sim.state.judging.tally.present == 3
    assert len(turns(sim, "vote", "judge-3")) == 1


def test_back_from_a_stall_a_seat_is_handed_over_twice() -> None:
    """T043: two judges lost to quota; back again one's ranking is handed over, then its vote with the full context; the quorum is met."""
    sim = split()

    def fails(kind: Class, **where: str) -> None:
        fits = lambda e: isinstance(e, StartTurn) and all(getattr(e, name) == value for name, value in where.items())  # noqa: E731
        sim.world.faults.insert(0, Fault(fits, lambda e, _: TurnEnded(key=e.key, outcome=bad(kind)), 1_000_000))

    for seat in ("judge-1", "judge-3"):
        fails(Class.Quota, seat=seat, node="judge")
    sim.run(until=lambda s: s.state.trouble is not None)
    stalled = len(handovers(sim))
    del sim.world.faults[:2]
    fails(Class.Refused, agent="beta", node="judge")
    fails(Class.Refused, agent="gamma", node="vote", seat="judge-1")
    judged(sim)
    assert handovers(sim)[stalled:] == [("judge", "judge-1", "beta", "gamma"), ("vote", "judge-1", "gamma", "alpha")]
    last = turns(sim, "vote", "judge-1")[-1]
    assert (last.agent, last.resume, "# Task" in text(last), "# Candidate A" in text(last)) == ("alpha", "", True, True)
    assert sim.state.judging.tally is not None
    assert (sim.state.judging.tally.present, len(turns(sim, "judge", "judge-2"))) == (3, 1)


def test_no_dev_fix_mends_one_of_rivals() -> None:
    """Whom candidates wait for is repaired on the base, and the repair goes on top of each; what judges said of them holds."""
    sim = below(Class.Refused).run(until=lambda s: bool(s.state.trouble and s.state.trouble.attempts))
    before = {c.seat: c.change for c in sim.state.candidates.values()}
    (turn,) = turns(sim, "dev-fix")
    assert (turn.slot, turn.label) == (sim.state.slot(impl_seat(BASE)), BASE)
    assert turn.slot not in {sim.state.slot(seat) for seat in before}
    sim.world.faults.clear()
    judged(sim)
    (mended,) = [event.change.head for event in sim.facts(WorkCollected) if "/dev-fix/" in event.key]
    resets = {reset.seat: (reset.start, reset.repairs) for reset in sim.started(ResetWorkspace)}
    assert resets == {seat: (change.head, (mended,)) for seat, change in before.items()}
    assert {c.change.tree for c in sim.state.candidates.values()}.isdisjoint(change.tree for change in before.values())
    assert (len(sim.started(NeutraliseWork)), len(turns(sim, "judge", "judge-3"))) == (1, 1)
    assert impl_seat(BASE) not in sim.state.workspaces


def test_a_repair_before_the_competition_is_everybodys() -> None:
    """What made the first set-up work is below the work of every implementer, and is paid for once."""
    sim = contest(verify=Verify(setup=("make deps",), gate=(GATE,)))
    sim.world.red[Purpose.Setup] = lambda tree: 1 if tree == "tree of c0" else 0
    judged(sim)
    assert len(turns(sim, "dev-fix")) == 1
    (mended,) = [event.change.head for event in sim.facts(WorkCollected) if "/dev-fix/" in event.key]
    assert {reset.seat: reset.repairs for reset in sim.started(ResetWorkspace)} == {"impl-B": (mended,), "impl-C": (mended,)}
    assert "c0" not in {c.start for c in sim.state.candidates.values()}


def test_a_set_up_that_fails_for_one_is_mended_there() -> None:
    """While implementers work a set-up that fails in one workspace is mended in that one, whoever else has work already."""
    sim = contest(verify=Verify(setup=("make deps",), gate=(GATE,)))
    sim.says(
        RunCommands,
        lambda e: CommandsEnded(key=e.key, results=(CommandResult("make deps", 1, small("no")),)),
        1,
        seat="impl-C",
        node="setup",
    )
    sim.run(until=lambda s: bool(turns(s, "dev-fix")))
    assert [turn.label for turn in turns(sim, "dev-fix")] == ["C"]


# ── afterwards ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_losers_workspaces_are_given_back() -> None:
    """T055, T060: after a trustworthy tally the losers' and judges' workspaces go, the winner's stays until the end."""
    sim = judged(contest())
    (drop,) = sim.started(DropWorkspaces)
    assert sorted(drop.seats) == ["impl-B", "impl-C", "judge-1", "judge-2", "judge-3"]
    assert list(sim.state.workspaces) == [impl_seat(Label("A"))]
    assert sorted(sim.state.candidates) == ["A", "B", "C"]
    sim.run()
    assert sim.state.workspaces == {}


@pytest.mark.parametrize(("leaks", "out"), [({"A": ("Claude",)}, ["A"]), ({}, [])])
def test_a_leak_may_put_a_candidate_out(leaks: dict[str, tuple[str, ...]], out: list[str]) -> None:
    """`on_leak = "fail"`: a candidate that names a vendor is out like one with red checks."""
    sim = contest(on_leak="fail")
    told = {Label(k): v for k, v in leaks.items()}
    sim.says(NeutraliseWork, lambda e: sim.world.neutralised(e).but(leaks=told))
    sim.world.prefer = {f"judge-{n}": "BC" if out else "ABC" for n in (1, 2, 3)}
    judged(sim)
    assert list(sim.state.judging.out) == out
    assert len(sim.state.judging.standing) == 3 - len(out)


def test_where_everybody_leaks_nobody_is_judged() -> None:
    """`on_leak = "fail"` and no candidate without a name: a failure."""
    sim = contest(on_leak="fail")
    sim.says(NeutraliseWork, lambda e: WorkNeutralised(key=e.key, neutral={}, leaks=dict.fromkeys(e.heads, ("Codex",))))
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.state.trouble is not None
    assert (sim.state.trouble.failure.kind, turns(sim, "judge")) == ("leak", [])


def test_a_leak_is_redacted_or_only_told() -> None:
    """`redact` is asked of the handler; `warn` leaves the patch and keeps what was found."""
    assert judged(contest(on_leak="redact")).started(NeutraliseWork)[0].redact
    sim = contest()
    sim.says(NeutraliseWork, lambda e: sim.world.neutralised(e).but(leaks={Label("B"): ("Gemini",)}))
    judged(sim)
    assert (sim.state.judging.leaks, sim.state.judging.out) == ({"B": ("Gemini",)}, {})


def test_iterations_compete_again_on_top_of_the_winner() -> None:
    """The winner of iteration 1 is where all of iteration 2 start; their whole work since the base is judged."""
    sim = contest(iterations=2)
    sim.world.prefer = {"judge-1": "BAC", "judge-2": "BAC", "judge-3": "BAC"}
    sim.run(until=lambda s: s.state.iteration == 1)
    won = sim.state.chosen
    assert (won.label, list(sim.state.candidates), list(sim.state.workspaces)) == ("B", ["B"], ["impl-B"])
    judged(sim)
    starts = {e.label: e.start for e in sim.started(PrepareWorkspace)[-5:] if e.label}
    assert starts == {"A": won.change.head, "C": won.change.head}
    assert {c.start for c in sim.state.candidates.values()} == {"c0"}
    assert len(sim.started(NeutraliseWork)) == 2
    assert [e.base for e in sim.started(NeutraliseWork)] == ["c0", "c0"]
    sim.run()
    assert sim.state.phase is PipelinePhase.Complete


def test_one_implementer_is_judged_by_nobody() -> None:
    """One implementer: Judging is skipped, and no panel is shown."""
    sim = contest(1).run()
    assert sim.state.judging == Judging(entrants=(Label("A"),), step="over")
    assert not any(t.role == "judge" for t in sim.started(StartTurn))


def test_a_level_that_starts_over_starts_all_lanes_over() -> None:
    """Level 3 goes back to the iteration's start: every lane that is still there is set back, judges and rankings are forgotten."""
    sim = contest()
    says(sim, "judge", "judge-1", None)
    says(sim, "judge", "judge-2", None)
    sim.run(until=lambda s: s.state.recovery_epoch == 1)
    sim.world.faults.clear()
    judged(sim)
    assert sim.state.judging.tally is not None
    assert sim.state.judging.tally.present == 3
    assert all(
        branch.endswith(label) for label, branch in ((e.label, e.branch) for e in sim.started(PrepareWorkspace) if e.label)
    )
    assert len(turns(sim, "implement")) == 6


# ── the graft ────────────────────────────────────────────────────────────────────────────────────────────────────

PRAISE = Ranking((Label("A"), Label("B"), Label("C")), {}, {Label("B"): "it has a test", Label("A"): "short"})


@pytest.mark.parametrize("worse", [False, True])
def test_what_judges_praise_is_grafted(worse: bool) -> None:  # noqa: FBT001
    """One fixer's round after the tally ports what judges credit to losers; where tests get worse the winner is as it was."""
    sim = contest(graft=True, verify=Verify(gate=(GATE,), check=("make unit",), e2e=("make e2e",)))
    says(sim, "judge", "judge-2", PRAISE)
    sim.run(until=lambda s: s.state.judging.step == "graft")
    before = sim.state.chosen.change
    sim.world.red[Purpose.E2e] = lambda tree: int(worse and tree != before.tree)
    sim.run(until=lambda s: s.state.phase is PipelinePhase.FinalValidation)
    (graft,) = turns(sim, "fix")
    assert ("- B: it has a test" in text(graft), "- A" in text(graft)) == (True, False)
    assert (sim.state.chosen.change.tree == before.tree) is worse
    sim.world.red.clear()
    sim.run()
    assert sim.state.phase is PipelinePhase.Complete


def test_no_graft_unless_it_is_wanted_and_there_is_praise() -> None:
    """Off by default; and with nothing to port nothing is asked."""
    sim = contest()
    says(sim, "judge", "judge-2", PRAISE)
    assert turns(judged(sim), "fix") == []
    assert turns(judged(contest(graft=True)), "fix") == []


# ── advisors ─────────────────────────────────────────────────────────────────────────────────────────────────────


def advised(advisors: int, *, advise: bool = False) -> Sim:
    """A run with so many advisors."""
    pipeline = Pipeline(advisors=advisors, advise=advise, reviewers=0)
    return Sim(story(roster=EVERYBODY, pipeline=pipeline, advisor=EVERYBODY, synthesizer="gamma", land="branch"))


def test_advisors_propose_and_one_blends() -> None:
    """Each proposes in a seat of its own, at once; the synthesizer is shown all; its brief reaches the implementers."""
    sim = advised(3).run()
    assert sim.asked("advise") == EVERYBODY.split()
    assert (sim.asked("synthesize"), sim.asked("plan")) == (["gamma"], [])
    (blend,) = turns(sim, "synthesize")
    assert all(f"## Proposal {n}" in text(blend) for n in (1, 2, 3))
    assert "# Plan" in text(turns(sim, "implement")[0])


def test_advice_is_three_unless_the_number_is_said() -> None:
    """`advise = true` alone asks three; a number goes before it."""
    assert [len(advised(n, advise=True).run().state.advising.proposals) for n in (0, 2)] == [3, 2]
    assert advised(0).run().state.advising.proposals == {}


def test_one_advisor_is_one_advice() -> None:
    """T074: exactly one record."""
    assert list(advised(1).run().state.advising.proposals) == ["advisor-1"]


def test_without_usable_advice_one_plans() -> None:
    """T076: nobody's proposal is usable: it is known who was asked, one planner writes the plan, and the run goes on."""
    sim = advised(2)
    sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=bad(Class.ConfigError, "no such model")), node="advise")
    sim.run()
    assert (sim.state.advising.proposals, sorted(sim.state.advising.absent)) == ({}, ["advisor-1", "advisor-2"])
    assert sim.asked("plan") == ["alpha"]
    assert sim.state.phase is PipelinePhase.Complete


def test_nobody_waits_for_advice() -> None:
    """Advisors whose agents cool down for a day are done without."""
    sim = advised(2)
    sleeps(sim, "advise", "advisor-1")
    sim.run(until=lambda s: s.state.phase is PipelinePhase.Development)
    assert (sim.state.at < 90_000.0, list(sim.state.advising.proposals)) == (True, ["advisor-2"])


def test_authors_are_whoever_answered() -> None:
    """A candidate's author is who did the work at last, not who was asked first."""
    sim = contest(1)
    sim.fails("alpha", bad(Class.Refused), node="implement")
    sim.run()
    assert sim.state.chosen.agent == AgentId("beta")

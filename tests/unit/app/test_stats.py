"""What agents were worth, from facts alone."""

from functools import partial

import pytest

from nightcrew.app.stats import kendall, share, stats, told
from nightcrew.core.effects import StartTurn
from nightcrew.core.events import TurnEnded
from nightcrew.core.settings import Pipeline
from nightcrew.core.work import Ballot, Class, Finding, FixReport, Ranking, Reviewed, Severity, Vote
from support.world import Sim, bad, good, story

FOUND = Reviewed(Vote.Reject, (Finding(Severity.Blocker, "wrong"), Finding(Severity.Major, "slow")))


def played() -> Sim:
    """Two runs' worth of one: alpha reviews twice, beta fails on quota as a fixer, gamma fixes one of two findings."""
    sim = Sim(story(fixer="beta gamma", reviewer="alpha", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", good(FOUND, session="r"), node="review", times=1)
    sim.fails("beta", bad(Class.Quota, reset_at=9e9), node="fix", times=1)

    def fixes(effect: StartTurn) -> TurnEnded:
        sim.world.edited.add(effect.slot)
        return TurnEnded(key=effect.key, outcome=good(FixReport(("R1-1-1", "R9-9-9")), session="f"))

    sim.says(StartTurn, fixes, 1, node="fix", agent="gamma")
    return sim.run()


def test_what_each_agent_was_worth() -> None:
    """Turns, handovers, the cost of quota, fixes by node; of two findings one was adopted, an id nobody raised counts for nobody."""
    entries = played().entries
    alpha, beta, gamma = stats([entries, entries]).agents
    assert (alpha.agent, alpha.reviews, alpha.silent, alpha.submitted, alpha.adopted) == ("alpha", 4, 2, 4, 2)
    assert (beta.handovers_from, beta.quota_turns, round(beta.quota_usd, 2), beta.fixes) == (2, 2, 0.02, {"fix": 2})
    assert (gamma.handovers_to, gamma.fixes, gamma.quota_turns) == (2, {"fix": 2}, 0)


def test_a_claim_without_a_change_adopts_nothing() -> None:
    """A fixer that says "addressed" and changes no file took nothing up."""
    sim = Sim(story(reviewer="alpha", fixer="beta", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", good(FOUND, session="r"), node="review", times=1)
    sim.fails("beta", good(FixReport(("R1-1-1",)), session="f"), node="fix", times=1)
    rows = {row.agent: row for row in stats([sim.run().entries]).agents}
    assert (rows["alpha"].submitted, rows["alpha"].adopted) == (2, 0)


def test_too_few_are_not_told_as_a_share() -> None:
    """Below five findings no share is told; from five on it is, with what it may be."""
    entries = played().entries
    assert "2 findings adopted (too few to say)" in "\n".join(told(stats([entries])))
    assert told(stats([entries]))[-3:-1] == ["gamma: 1 turn, handed over 0, took over 1", "  turns as a fixer: fix 1"]
    assert "6 findings adopted (50%, 19% to 81% likely)" in "\n".join(told(stats([entries] * 3)))
    assert told(stats([])) == ["no agent took a turn yet"]


@pytest.mark.parametrize(
    ("orders", "w"),
    [
        (["ABC", "ABC", "ABC"], 1.0),
        (["ABC", "CBA"], 0.0),
        (["ABC", "BCA", "CAB"], 0.0),
        (["ABCDEF", "BADCEF", "ABDCFE"], 0.924),
        (["ABC"], None),
        (["A", "A"], None),
        ([], None),
    ],
)
def test_kendalls_w(orders: list[str], w: float | None) -> None:
    """The agreement of a panel: 1 where all say the same, 0 where they cancel out, unknown of one judge or one candidate."""
    found = kendall(orders)
    assert found == (w if w is None else pytest.approx(w, abs=0.001))


@pytest.mark.parametrize(
    ("k", "n", "told"),
    [
        (5, 10, "50%, 24% to 76%"),
        (0, 10, "0%, 0% to 28%"),
        (10, 10, "100%, 72% to 100%"),
        (1, 100, "1%, 0% to 5%"),
        (81, 263, "31%, 26% to 37%"),
    ],
)
def test_wilson_intervals(k: int, n: int, told: str) -> None:
    """As tables of the score interval have them, also where nothing or all was seen."""
    assert share(k, n) == f"{told} likely"


def test_only_what_was_decided_is_counted_and_all_of_it() -> None:
    """A competition that goes on has nobody who lost it; in a run of two iterations both count; a ranking is its author's, whoever votes."""
    pipeline = Pipeline(plan=False, reviewers=0, implementers=2, iterations=2, deliberate_rounds=0)
    sim = Sim(story(roster="alpha beta j1 j2", developer="alpha beta", judge="j1 j2", pipeline=pipeline))
    sim.world.prefer = {"judge-1": "BA"}
    sim.fails("j1", bad(Class.Refused, "no"), node="vote")
    sim.run(until=lambda s: s.state.judging.step == "vote")
    assert [(row.entered, row.won, row.ranked) for row in stats([sim.entries]).agents] == [(0, 0, 0)] * 4
    found = stats([sim.run().entries])
    rows = {row.agent: row for row in found.agents}
    assert (rows["alpha"].entered, rows["beta"].entered, rows["alpha"].won + rows["beta"].won) == (2, 2, 2)
    assert (rows["j1"].ranked, rows["j2"].ranked, sum(found.decided.values())) == (2, 4, 2)


def competed() -> Sim:
    """A run of three implementers, of whom gamma brings nothing, and three judges: two put A first, the third B."""
    pipeline = Pipeline(plan=False, reviewers=0, implementers=3)
    told = story(roster="alpha beta gamma delta", developer="alpha beta gamma", judge="delta", pipeline=pipeline)
    sim = Sim(told)
    sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=good(session="i")), node="implement", agent="gamma")
    while sim.state.judging.step != "rank":
        sim.step()
    first, second = sim.state.judging.standing
    for seat, order in zip(sim.state.judging.orders, ((first, second), (first, second), (second, first)), strict=True):
        sim.says(StartTurn, partial(ranks, Ranking(order)), seat=seat, node="judge")
    for seat in sim.state.judging.orders:
        sim.says(StartTurn, partial(ranks, Ballot(first, "so")), seat=seat)
    return sim.run()


def ranks(report: Ranking | Ballot, effect: StartTurn) -> TurnEnded:
    """A judge's answer."""
    return TurnEnded(key=effect.key, outcome=good(report, session="j"))


def test_how_competitions_went() -> None:
    """Who entered, won and brought nothing; whose first choice won; by what it was decided, what stood first, how far judges agreed, what a landing cost."""
    sim = competed()
    found = stats([sim.entries] * 4)
    rows = {row.agent: row for row in found.agents}
    winner = sim.state.chosen.agent
    assert {agent: (row.entered, row.empty) for agent, row in rows.items()} == {
        "alpha": (4, 0),
        "beta": (4, 0),
        "gamma": (4, 4),
        "delta": (0, 0),
    }
    assert [row.won for row in rows.values() if row.agent != winner] == [0, 0, 0]
    assert (rows[winner].won, rows["delta"].ranked, rows["delta"].agreed) == (4, 12, 8)
    assert (found.decided, found.counts["red_out"], found.counts["landed"]) == ({"votes": 4}, 0, 4)
    assert (found.counts["rankings"], found.counts["by_chance"]) == (12, 6.0)
    assert found.concord == pytest.approx((1 / 9,) * 4)
    lines = "\n".join(told(found))
    assert "judged 12, its first choice won 8 (67%, 39% to 86% likely)" in lines
    assert "won 4 of 4 competitions (too few to say)" in lines
    assert "won 0 of 4 competitions (too few to say), 4 empty" in lines
    assert "Kendall's W of 4: too few to say" in lines

"""What agents were worth, from facts alone."""

from nightcrew.app.stats import told, worth
from nightcrew.core.effects import StartTurn
from nightcrew.core.events import TurnEnded
from nightcrew.core.settings import Pipeline
from nightcrew.core.work import Class, Finding, FixReport, Reviewed, Severity, Vote
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
    alpha, beta, gamma = worth([entries, entries])
    assert (alpha.agent, alpha.reviews, alpha.silent, alpha.submitted, alpha.adopted) == ("alpha", 4, 2, 4, 2)
    assert (beta.handovers_from, beta.quota_turns, round(beta.quota_usd, 2), beta.fixes) == (2, 2, 0.02, {"fix": 2})
    assert (gamma.handovers_to, gamma.fixes, gamma.quota_turns) == (2, {"fix": 2}, 0)


def test_a_claim_without_a_change_adopts_nothing() -> None:
    """A fixer that says "addressed" and changes no file took nothing up."""
    sim = Sim(story(reviewer="alpha", fixer="beta", pipeline=Pipeline(plan=False)))
    sim.fails("alpha", good(FOUND, session="r"), node="review", times=1)
    sim.fails("beta", good(FixReport(("R1-1-1",)), session="f"), node="fix", times=1)
    rows = {row.agent: row for row in worth([sim.run().entries])}
    assert (rows["alpha"].submitted, rows["alpha"].adopted) == (2, 0)


def test_too_few_are_not_told_as_a_share() -> None:
    """Below five findings no share is told; from five on it is."""
    entries = played().entries
    assert "2 findings adopted (too few to say)" in "\n".join(told(worth([entries])))
    assert "6 findings adopted (50%)" in "\n".join(told(worth([entries] * 3)))
    assert told([]) == ["no agent took a turn yet"]

"""Random chains and random outcomes: how every call walks its chain."""

from collections.abc import Sequence

from hypothesis import given, strategies as st

from nightcrew.core.chain import FIX_NODES
from nightcrew.core.effects import Effect, StartTurn
from nightcrew.core.events import HandedOver, RunStarted, TurnEnded
from nightcrew.core.settings import Pipeline, Verify
from nightcrew.core.work import Class, Outcome, Purpose
from support.world import GATE, Fault, Sim, World, bad, story

AGENTS = ("alpha", "beta", "gamma", "delta")
ENDS = st.sampled_from([*Class, Class.Ok, Class.Ok, Class.Quota])
CHAINS = st.permutations(AGENTS).flatmap(lambda all_: st.integers(1, 4).map(lambda n: " ".join(all_[:n])))


def told(fixer: str, reviewer: str) -> RunStarted:
    """A run whose gate never passes, so that fixers are asked at several nodes and rounds."""
    pipeline = Pipeline(plan=False, reviewers=2, gate_fix_rounds=3)
    return story(roster=" ".join(AGENTS), fixer=fixer, reviewer=reviewer, pipeline=pipeline, verify=Verify(gate=(GATE,)))


@given(fixer=CHAINS, reviewer=CHAINS, ends=st.lists(ENDS, min_size=1, max_size=24), hours=st.integers(0, 3))
def test_every_walk_goes_forward(fixer: str, reviewer: str, ends: list[Class], hours: int) -> None:
    """Forward only, each id at most once a call, never asked while it cools, sticky, and n-1 handovers for n that sat there."""
    sim = Sim(told(fixer, reviewer), World(red={Purpose.Gate: lambda _tree: 1}))
    left, asked = list(ends), []

    def ended(effect: Effect) -> TurnEnded:
        assert isinstance(effect, StartTurn)
        assert sim.world.cooling.get(effect.agent, 0.0) <= sim.world.at, "asked while it cools"
        asked.append(effect)
        kind = left.pop() if left else Class.Ok
        if kind is Class.Ok:
            ordinary = sim.world.turn(effect)
            assert isinstance(ordinary, TurnEnded)
            return ordinary
        reset = sim.world.at + 3600.0 * hours if kind is Class.Quota else None
        if reset and hours:
            sim.world.cooling[effect.agent] = reset
        outcome: Outcome = bad(kind, f"{effect.agent} {kind}", reset_at=reset)
        return TurnEnded(key=effect.key, outcome=outcome)

    def fits(effect: Effect) -> bool:
        return isinstance(effect, StartTurn) and sim.world.cooling.get(effect.agent, 0.0) <= sim.world.at

    sim.world.faults.append(Fault(fits, lambda effect, _: ended(effect), 1_000_000))
    sim.run(until=lambda s: s.state.trouble is not None)
    fixing = [turn.agent for turn in asked if turn.node in FIX_NODES]
    goes_forward(fixing, fixer)
    for seat in ("review-1", "review-2"):
        goes_forward([turn.agent for turn in asked if turn.seat == seat], reviewer)
    handed = [fact.handover for fact in sim.facts(HandedOver) if fact.handover.node in FIX_NODES]
    sat = list(dict.fromkeys([handed[0].from_agent, *(h.to_agent for h in handed)])) if handed else fixing[:1]
    assert len(handed) == max(0, len(sat) - 1), "n-1 handovers"
    assert set(fixing) <= set(sat)


def goes_forward(agents: Sequence[str], chain: str) -> None:
    """The places of those agents in their chain never fall: no entry is asked again once another took over."""
    places = [chain.split().index(agent) for agent in agents]
    assert places == sorted(places)

"""Random chains and random outcomes, with the machine's real ledger: how every call walks its chain."""

from collections import defaultdict
from collections.abc import Sequence
from itertools import count, pairwise

import msgspec
import pytest
from hypothesis import given, strategies as st
from msgspec import structs

from nightcrew.core import chain, fixer, panel
from nightcrew.core.effects import Effect, StartTurn, Timer
from nightcrew.core.events import AgentCooling, EffectAnswer, Event, HandedOver, RunStarted, TurnEnded
from nightcrew.core.roster import AgentRole
from nightcrew.core.settings import Pipeline, Verify
from nightcrew.core.state import agent_of
from nightcrew.core.work import Class, Handover, Purpose
from nightcrew.ledger import Ledger
from support.world import GATE, Fault, Sim, World, bad, story

AGENTS = ("alpha", "beta", "gamma", "delta")
ENDS = st.sampled_from([*Class, Class.Ok, Class.Ok, Class.Quota, Class.Refused])
CHAINS = st.permutations(AGENTS).flatmap(lambda all_: st.sampled_from((4, 3, 2, 1)).map(lambda n: " ".join(all_[:n])))
CHANCE = chain.PASSING | chain.ONCE_MORE | chain.COLD | {Class.Ok}  # an answer without the asked shape is asked for again

DAYS = count(1e6, 1e6)


def told(fixer_: str, reviewer: str) -> RunStarted:
    """A run whose gate never passes, so that fixers are asked at several nodes and rounds."""
    pipeline = Pipeline(plan=False, reviewers=2, gate_fix_rounds=3)
    return story(roster=" ".join(AGENTS), fixer=fixer_, reviewer=reviewer, pipeline=pipeline, verify=Verify(gate=(GATE,)))


class Machine:
    """A run on a machine whose ledger is the real one, kept as the handler of a turn keeps it; what it saw of every call."""

    def __init__(self, first: RunStarted, ends: list[Class], hours: int, ledger: Ledger) -> None:
        """Nobody was asked yet; `hours` until each reset, 0 = none is told."""
        world = World(red={Purpose.Gate: lambda _tree: 1}, at=next(DAYS))  # whoever cooled in another run is well again
        self.sim = Sim(first, world)
        self.left, self.hours, self.ledger = list(ends), hours, ledger
        self.resets: dict[str, float] = {}
        self.calls: defaultdict[str, list[list[tuple[str, Class]]]] = defaultdict(list)
        turns = Fault(lambda effect: isinstance(effect, StartTurn), lambda effect, _: self.answer(effect), 1_000_000)
        sleeps = Fault(
            lambda effect: isinstance(effect, Timer) and bool(effect.agents), lambda effect, _: self.sleep(effect), 1_000_000
        )
        self.sim.world.faults += [turns, sleeps]

    def answer(self, effect: Effect) -> EffectAnswer:
        """The ledger first; who may be asked ends as it was drawn, and the ledger learns of it."""
        assert isinstance(effect, StartTurn)
        world, agent = self.sim.world, agent_of(self.sim.state, effect.agent)
        seat = chain.FIX_SEAT if effect.node in chain.FIX_NODES else effect.seat
        mine = self.calls[key := f"{effect.node}/{seat}"]
        mine += [] if key in self.sim.state.calls else [[]]
        if cooling := self.ledger.cooling_of(agent, world.at):
            return AgentCooling(key=effect.key, agent=agent.id, until=cooling.until)
        assert self.resets.get(agent.id, 0.0) <= world.at, "asked while it cools"
        drawn = self.left if effect.node in {"review", *chain.FIX_NODES} else None
        kind = drawn.pop() if drawn else Class.Ok
        mine[-1].append((agent.id, kind))
        if kind is Class.Ok:
            ended = world.turn(effect)
            assert isinstance(ended, TurnEnded)
            return ended
        reset = world.at + 3600.0 * self.hours if kind is Class.Quota and self.hours else None
        if kind is Class.Quota:
            self.resets[agent.id] = self.ledger.cool(agent, world.at, reset).until
        return TurnEnded(key=effect.key, outcome=bad(kind, f"{agent.id} {kind}", reset_at=reset))

    def sleep(self, effect: Effect) -> Event:
        """A call sleeps for whom it may still ask, until the first of them is back."""
        assert isinstance(effect, Timer)
        assert effect.fire_at == min(self.resets[agent] for agent in effect.agents), "the earliest reset"
        return self.sim.world.ordinary(effect)

    def of(self, *nodes: str, seat: str = "") -> list[list[tuple[str, Class]]]:
        """The calls at those nodes, each as who was asked and how that ended."""
        return [call for key, calls in self.calls.items() for call in calls if key.split("/")[0] in nodes and seat in key]


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Ledger:
    """A ledger for all runs, one after the other."""
    return Ledger(tmp_path_factory.mktemp("home"))


@given(
    fixers=CHAINS,
    reviewers=CHAINS,
    ends=st.lists(ENDS, min_size=8, max_size=24),
    hours=st.integers(0, 3),
    cold=st.dictionaries(st.sampled_from(AGENTS), st.integers(1, 9)),
)
def test_every_walk_goes_forward(
    ledger: Ledger, fixers: str, reviewers: str, ends: list[Class], hours: int, cold: dict[str, int]
) -> None:
    """Forward only, each id at most once a call, never asked while it cools, sticky, n-1 handovers for n, what was set stays as it is."""
    first = told(fixers, reviewers)
    settings = msgspec.json.encode(first)
    machine = Machine(first, ends, hours, ledger)
    for agent in first.roster:  # what other runs learned
        if agent.id in cold:
            at = machine.sim.world.at
            machine.resets[agent.id] = ledger.cool(agent, at, at + 3600.0 * cold[agent.id]).until
    sim = machine.sim.run(until=lambda s: s.state.trouble is not None)
    while sim.record() is not None:
        pass
    handed = [fact.handover for fact in sim.facts(HandedOver)]
    walked(fixers, machine.of(*chain.FIX_NODES), [h for h in handed if h.node in chain.FIX_NODES])
    for n in range(2):
        bench = panel.bench(first.roles.chain(AgentRole.Reviewer), 2, n)
        seat = f"review-{n + 1}"
        walked(" ".join(bench), machine.of("review", "revote", seat=seat), [h for h in handed if h.seat == seat])
    assert msgspec.json.encode(sim.state.started) == settings, "nothing is written to the settings"
    if sim.state.winning is not None:
        fresh, _ = fixer.attempts(structs.replace(sim.state, handovers=()), sim.state.chosen)
        assert [agent for agent, _ in fresh] == fixers.split(), "the handovers are the only memory"


def walked(line: str, calls: Sequence[Sequence[tuple[str, Class]]], handed: Sequence[Handover]) -> None:
    """All calls of one seat as one walk down that chain, from its front."""
    place, sitting = line.split().index, 0
    for call in calls:
        for (agent, kind), (following, _) in pairwise(call):
            assert place(agent) <= place(following), "forward only"
            assert agent != following or kind in CHANCE, "at most once a call, but for the second chances of a fault that passes"
    asked = [place(agent) for call in calls for agent, _ in call]
    assert asked == sorted(asked), "sticky: who passed a seat on is not asked again"
    for handover in handed:
        assert place(handover.from_agent) == sitting, "from who sat there"
        sitting += 1
        assert place(handover.to_agent) == sitting, "to the next entry"
    last = max(asked, default=sitting)
    due = calls and calls[-1] and calls[-1][-1][1] is not Class.Ok  # its handover is recorded before the next is asked
    assert last <= sitting <= last + bool(due), "n-1 handovers for n entries, up to the last that was asked"

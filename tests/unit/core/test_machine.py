"""One machine for all of core: it answers what is open in any way the world could, while people do as they like."""

from typing import Any, get_args

import msgspec
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from nightcrew.core.effects import Effect, StartTurn
from nightcrew.core.events import (
    AgentCooling,
    Answered,
    CancelAsked,
    Cancelled,
    ConfigChanged,
    EffectAnswer,
    EffectBegun,
    EffectStarted,
    Event,
    FixAsked,
    Noted,
    ParkAsked,
    Record,
    ResumeAsked,
    TurnEnded,
)
from nightcrew.core.ids import Commit, EffectId, Tree
from nightcrew.core.settings import Ladder, Limit, Limits, Pipeline, Review, Verify
from nightcrew.core.state import RunState
from nightcrew.core.work import Finding, Severity
from support.answers import possible
from support.world import BEGUN, GATE, Sim, good, story

STORIES: tuple[dict[str, Any], ...] = (
    {},
    {"pipeline": Pipeline(review_rounds=1, gate_fix_rounds=0), "verify": Verify(gate=(GATE,), e2e=("make e2e",))},
    {"fixer": "beta gamma alpha", "land": "push", "verify": Verify(gate=(GATE,), check=("make lint",), setup=("make",))},
    {"roster": "alpha", "land": "branch", "verify": Verify(gate=(), base="green", check=("make lint",))},
    {"pipeline": Pipeline(iterations=2, continuations=1), "verify": Verify(gate=(GATE,), pre_gate=("make fmt",))},
    {"pipeline": Pipeline(plan=False, reviewers=0), "committer": "-", "ladder": Ladder(dev_fix=False, pause_s=1.0)},
    {"ladder": Ladder(ceiling=6)},
    {"limits": Limits(turns=Limit(6))},
    {"limits": Limits(turns=Limit(9, mine=True)), "pipeline": Pipeline(review_rounds=2)},
    {"pipeline": Pipeline(plan=False, reviewers=3), "land": "branch", "fixer": "beta gamma"},
    {"pipeline": Pipeline(plan=False, reviewers=5), "roster": "alpha beta", "review": Review(incomplete="warn")},
    {
        "pipeline": Pipeline(reviewers=0, implementers=2, judges=2),
        "judge": "gamma beta alpha",
        "verify": Verify(gate=(GATE,), setup=("make",)),
    },
)


class Worlds(RuleBasedStateMachine):
    """A run in a world that does anything; `Sim` holds the laws at every fact."""

    sim: Sim

    @initialize(told=st.sampled_from(STORIES), ahead=st.integers(0, 14))
    def begins(self, told: dict[str, Any], ahead: int) -> None:
        """A run starts, and goes well for a while."""
        self.sim = Sim(story(**told))
        self.goes_well(ahead)

    def possible(self, effect: Effect) -> list[Event]:
        """How an open effect can end; a turn that began was asked, whoever cools."""
        begun = self.sim.state.open[effect.key].begun
        return [a for a in possible(effect, self.sim.world) if not (begun and isinstance(a, AgentCooling))]

    def goes_well(self, steps: int) -> None:
        """For a while nothing goes wrong."""
        for _ in range(steps):
            self.sim.step()

    @rule(steps=st.integers(1, 8))
    def goes_on(self, steps: int) -> None:
        """For a while all is well."""
        self.goes_well(steps)

    @rule(data=st.data())
    def starts(self, data: st.DataObject) -> None:
        """The engine does one thing only: a decision, a cancellation, a start or a beginning."""
        wanted, now = self.sim.wanted(), self.sim.state.open
        effects = {w.key: w for w in wanted if not isinstance(w, Record)}
        could: list[Any] = [Cancelled(key=key) for key in now if key not in effects]
        could += [EffectBegun(key=effect.key) for effect in self.sim.open() if isinstance(effect, BEGUN)]
        due = [w.event for w in wanted if isinstance(w, Record)]
        could += due or [EffectStarted(key=k, effect=e) for k, e in effects.items() if k not in now]
        if could:
            self.sim.put(data.draw(st.sampled_from(could)))

    @rule(data=st.data(), doubled=st.booleans())
    def answers(self, data: st.DataObject, doubled: bool) -> None:  # noqa: FBT001 - drawn
        """The world answers as it likes, at times twice."""
        self.sim.settle()
        if not self.sim.open():
            return
        effect = data.draw(st.sampled_from(self.sim.open()))
        answer = data.draw(st.sampled_from(self.possible(effect)))
        if isinstance(effect, BEGUN) and not isinstance(answer, AgentCooling):
            self.sim.put(EffectBegun(key=effect.key))
        self.sim.put(answer, *([answer] if doubled else []))

    @rule(data=st.data(), times=st.integers(1, 6))
    def fails_alike(self, data: st.DataObject, times: int) -> None:
        """One kind of effect fails in one way, again and again, while the rest is well."""
        self.sim.settle()
        if not self.sim.open():
            return
        first = data.draw(st.sampled_from(self.sim.open()))
        how = data.draw(st.integers(0, 30))
        for _ in range(times * 4):
            effect = next((e for e in self.sim.open() if type(e) is type(first)), None)
            if effect is None:
                self.sim.step()
                self.sim.settle()
                continue
            answers = self.possible(effect)
            self.sim.put(answers[how % len(answers)])
            self.sim.settle()

    @rule(data=st.data(), of_a_turn=st.booleans())
    def hears_again(self, data: st.DataObject, of_a_turn: bool) -> None:  # noqa: FBT001 - drawn
        """An answer comes to an effect that ended long ago, or that nobody knows."""
        known = [e for e in self.sim.started(StartTurn if of_a_turn else object) if e.key not in self.sim.state.open]
        if not known:
            return
        effect = data.draw(st.sampled_from(known[-12:]))
        if data.draw(st.booleans()):
            effect = msgspec.structs.replace(effect, key=EffectId(f"nobody/knows/{self.sim.state.seq}"))
            self.sim.put(EffectStarted(key=effect.key, effect=effect))
        answers = [a for a in possible(effect, self.sim.world) if isinstance(a, get_args(EffectAnswer))]
        answer = TurnEnded(key=effect.key, outcome=good()) if of_a_turn else data.draw(st.sampled_from(answers))
        self.sim.put(answer, answer)

    @rule(stale=st.booleans())
    def picks(self, stale: bool) -> None:  # noqa: FBT001 - drawn
        """The operator wants something fixed, whether the run is ready for it or not."""
        found = Finding(Severity.Minor, "ugly", id="R1-1-1")
        n = self.sim.world.number()
        head, tree = Commit(f"c{n}"), Tree(f"tree of c{n}")
        winner = self.sim.state.winning
        if winner and not stale:
            head, tree = winner.change.head, winner.change.tree
        self.sim.put(FixAsked(findings=(found,), reason="please", head=head, tree=tree, stale=stale))

    @rule(word=st.sampled_from(["resume", "park", "park", "now", "more", "yes", "no", "limit", "cancel"]), data=st.data())
    def hears_people(self, word: str, data: st.DataObject) -> None:
        """Somebody parks, resumes, answers (asked or not), changes a limit, or, seldom, cancels."""
        match word:
            case "park" | "now":
                self.sim.put(ParkAsked(now=word == "now"))
                self.sim.step()
                self.sim.put(ResumeAsked())
            case "resume":
                self.sim.put(ResumeAsked())
            case "limit":
                turns = data.draw(st.integers(0, 30))
                self.sim.put(ConfigChanged(limits=Limits(turns=Limit(turns or None))))
            case "cancel":
                if data.draw(st.integers(0, 5)) == 0:
                    self.sim.put(CancelAsked())
            case _:
                names = [*self.sim.state.questions, "limit-usd", "contested"]
                self.sim.put(Answered(question=data.draw(st.sampled_from(names)), text=word))

    @rule(by_s=st.sampled_from([-7200.0, -5.0, 30.0, 900.0, 86_400.0]), parked=st.booleans())
    def loses_time(self, by_s: float, parked: bool) -> None:  # noqa: FBT001 - drawn
        """The wall clock goes forward, or back; the run may stay parked over it."""
        self.sim.world.at += by_s
        self.sim.put(ParkAsked() if parked else Noted(text="tick"))
        self.sim.settle()
        self.sim.put(ResumeAsked())

    def teardown(self) -> None:
        """A state survives its JSON, and the run can always be brought to an end."""
        if not hasattr(self, "sim"):
            return
        state = self.sim.state
        assert msgspec.json.decode(msgspec.json.encode(state), type=RunState) == state
        self.sim.put(ResumeAsked(), CancelAsked())
        assert self.sim.run().state.done


TestMachine = Worlds.TestCase
TestMachine.settings = settings(max_examples=2_000 if settings().max_examples > 50 else 200, stateful_step_count=60)

"""A small simulated world for tests of core: it answers effects at once, with faults that can be set, and knows no git.

`Sim` drives a run by the rules of the engine: a Record is appended first and alone, nothing runs before its
`EffectStarted`, what is no longer wanted is cancelled. Every fact also goes through JSON into a second state, which must
stay equal to the first.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import msgspec

from nightcrew.core import reducer
from nightcrew.core.brief import small
from nightcrew.core.effects import (
    Ask,
    CollectWork,
    ContinueRebase,
    DropWorkspaces,
    Effect,
    EmitCompletionMarkerAndTerminate,
    Land,
    MakeCommit,
    NeutraliseWork,
    PrepareWorkspace,
    RescueWork,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    Timer,
    UndoRebase,
)
from nightcrew.core.events import (
    AgentCooling,
    Asked,
    BaseSynced,
    Cancelled,
    CommandsEnded,
    CommitMade,
    CompletionMarkerEmitted,
    CompletionMarkerWriteFailed,
    EffectBegun,
    EffectStarted,
    Entry,
    Event,
    Landed,
    Record,
    RunStarted,
    TimerFired,
    TurnEnded,
    Wanted,
    WorkCollected,
    WorkNeutralised,
    WorkRescued,
    WorkspaceReady,
    WorkspaceReset,
    WorkspacesDropped,
)
from nightcrew.core.ids import AgentId, Commit, EffectId, Label, RunId, SlotId, Tree
from nightcrew.core.roster import Agent, AgentRole, Answers, Roles
from nightcrew.core.settings import Ladder, Land as LandSettings, Limits, Pipeline, Review, Settings, Verify
from nightcrew.core.state import RunState
from nightcrew.core.work import (
    Advice,
    Ballot,
    Change,
    Claim,
    Class,
    CommandResult,
    CommitText,
    FixReport,
    Landing,
    Outcome,
    Purpose,
    Ranking,
    Report,
    Reviewed,
    Task,
    Vote,
)
from support import laws

ALL = (Answers.Edit, Answers.Text, Answers.Structured)
BEGUN = (StartTurn, RunCommands, CollectWork, SyncBase, ContinueRebase, UndoRebase, MakeCommit, Land)
RUN = RunId("20260830-153012-a1b2")
GATE = "make check"


def agents(*names: str) -> tuple[Agent, ...]:
    """Roster entries that can answer anything."""
    return tuple(Agent(id=AgentId(name), kind="scripted", answers=ALL) for name in names)


def chains(**roles: str) -> dict[AgentRole, tuple[AgentId, ...]]:
    """Chains by role name, each a line of ids: `chains(developer="alpha beta")`."""
    return {AgentRole(role): tuple(AgentId(name) for name in line.split()) for role, line in roles.items()}


def story(
    *,
    roster: str = "alpha beta gamma",
    fixer: str = "",
    pipeline: Pipeline | None = None,
    verify: Verify | None = None,
    review: Review | None = None,
    land: str = "local",
    ladder: Ladder | None = None,
    limits: Limits | None = None,
    **roles: str,
) -> RunStarted:
    """A run's first fact. Every role asks the whole roster unless it is given a line of its own; "-" = nobody."""
    usual = dict.fromkeys(("developer", "planner", "committer", "reviewer"), roster)
    named = {role: line for role, line in (usual | roles | {"fixer": fixer or roster}).items() if line != "-"}
    return RunStarted(
        run=RUN,
        repo="repo",
        task=Task("Do it", small("do it well")),
        target="main",
        remote="",
        base=Commit("c0"),
        seed="seed",
        roster=agents(*roster.split()),
        roles=Roles(chains(**named), bool(fixer)),
        settings=Settings(
            pipeline=pipeline or Pipeline(plan=False),
            verify=verify or Verify(gate=(GATE,)),
            review=review or Review(),
            land=LandSettings(mode=land),
            ladder=ladder or Ladder(),
        ),
        limits=limits or Limits(),
    )


def good(report: Report | None = None, session: str = "", **more: Any) -> Outcome:
    """A turn that went well."""
    return Outcome(kind=Class.Ok, answer=small("done"), report=report, session=session, usd=0.01, tokens=10, **more)


def bad(kind: Class, reason: str = "", **more: Any) -> Outcome:
    """A turn that did not."""
    return Outcome(kind=kind, reason=reason or f"it was {kind}", usd=0.01, tokens=10, **more)


class Fault(NamedTuple):
    """What happens instead of the ordinary to effects that `fits` says, `times` times."""

    fits: Callable[[Effect], bool]
    says: Callable[[Effect, "World"], Event]
    times: int


@dataclass
class World:
    """What answers: which trees are red, who cools down, what is faulty. Trees and commits are numbered."""

    red: dict[Purpose, Callable[[Tree], int]] = field(default_factory=dict)
    """By purpose, the exit status of a command on a tree; what is not named is green, preflight is red with 1."""
    cooling: dict[AgentId, float] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)
    at: float = 1_000.0
    tip: Commit = Commit("c0")
    numbers: int = 0
    edited: set[SlotId] = field(default_factory=set)
    trees: dict[SlotId, tuple[Commit, Tree]] = field(default_factory=dict)
    known: dict[Commit, Tree] = field(default_factory=dict)
    """The trees of commits whose tree is not the usual one."""
    prefer: dict[str, str] = field(default_factory=dict)
    """By the seat of a judge, or by what is asked ("vote"): the labels, best first; else as they are named."""
    sizes: dict[Tree, int] = field(default_factory=dict)
    """The lines that a tree adds, where it is not one."""
    turns: list[StartTurn] = field(default_factory=list)
    """Every turn that really asked somebody."""

    def number(self) -> int:
        """A number never used before."""
        self.numbers += 1
        return self.numbers

    def answer(self, effect: Effect) -> Event:
        """What the world says to an effect that runs now."""
        for i, fault in enumerate(self.faults):
            if fault.fits(effect):
                self.faults[i] = fault._replace(times=fault.times - 1)
                if fault.times <= 1:
                    del self.faults[i]
                told = fault.says(effect, self)
                if isinstance(effect, StartTurn) and isinstance(told, TurnEnded):
                    self.turns.append(effect)
                return told
        return self.ordinary(effect)

    def ordinary(self, effect: Effect) -> Event:
        """The answer of a world in which nothing goes wrong."""
        match effect:
            case StartTurn():
                return self.turn(effect)
            case RunCommands():
                return self.commands(effect)
            case PrepareWorkspace() | ResetWorkspace() | RescueWork() | DropWorkspaces():
                return self.housed(effect)
            case NeutraliseWork():
                return self.neutralised(effect)
            case Timer():
                self.at = max(self.at, effect.fire_at)
                return TimerFired(key=effect.key)
            case Ask():
                return Asked(key=effect.key)
            case EmitCompletionMarkerAndTerminate():
                return CompletionMarkerEmitted(is_failure=effect.is_failure)
            case _:
                return self.git(effect)

    def housed(self, effect: PrepareWorkspace | ResetWorkspace | RescueWork | DropWorkspaces) -> Event:
        """Workspaces are made, reset, saved and given back."""
        match effect:
            case PrepareWorkspace():
                slot, tree = SlotId(f"slot-{self.number()}"), self.tree_of(effect.start)
                self.trees[slot] = (effect.start, tree)
                return WorkspaceReady(key=effect.key, slot=slot, head=effect.start, tree=tree)
            case ResetWorkspace():
                head, tree = effect.start, self.tree_of(effect.start)
                if effect.repairs:
                    n = self.number()
                    head, tree = Commit(f"c{n}"), Tree(f"tree of {effect.start} and {' '.join(effect.repairs)}")
                self.trees[effect.slot] = (head, tree)
                self.known[head] = tree
                self.edited.discard(effect.slot)
                return WorkspaceReset(key=effect.key, head=head, tree=tree)
            case RescueWork():
                return WorkRescued(key=effect.key, ref="refs/nightcrew/rescue/a1b2/1")
            case DropWorkspaces():
                return WorkspacesDropped(key=effect.key)

    def git(self, effect: CollectWork | SyncBase | ContinueRebase | UndoRebase | MakeCommit | Land) -> Event:
        """Work is collected, rebased, committed and landed."""
        match effect:
            case CollectWork():
                return self.collected(effect)
            case MakeCommit():
                return CommitMade(key=effect.key, commit=Commit(f"final-{self.number()}"), tree=effect.tree)
            case Land():
                return Landed(key=effect.key, landing=Landing(effect.mode, effect.branch, effect.commit, effect.tip))
            case _:
                return self.synced(effect)

    def neutralised(self, effect: NeutraliseWork) -> WorkNeutralised:
        """Each candidate as one commit that says nothing of its author; nobody names a vendor."""
        trees = {label: self.tree_of(head) for label, head in effect.heads.items()}
        sizes = {label: self.sizes.get(tree, 1) for label, tree in trees.items()}
        neutral = {
            label: Change(Commit(f"neutral {tree}"), tree, 1, 1, sizes[label], 0, small(f"patch to {tree}"))
            for label, tree in trees.items()
        }
        return WorkNeutralised(key=effect.key, neutral=neutral)

    def turn(self, effect: StartTurn) -> Event:
        """The agent cools down, or it works: whoever may edit leaves a change, and every answer has its shape."""
        until = self.cooling.get(effect.agent, self.at)
        if until > self.at:
            return AgentCooling(key=effect.key, agent=effect.agent, until=until, source="ledger")
        self.turns.append(effect)
        if effect.answers is Answers.Edit:
            self.edited.add(effect.slot)
        return TurnEnded(key=effect.key, outcome=good(self.said(effect), session=effect.resume or effect.session))

    def said(self, effect: StartTurn) -> Report | None:
        """What a turn ends with: judges prefer the labels in their order, unless `prefer` says otherwise for their seat."""
        shown = sorted(part.text[12] for part in effect.brief.parts if part.text.startswith("# Candidate "))
        order = self.prefer.get(effect.reads) or self.prefer.get(effect.seat) or shown or "A"
        labels = tuple(map(Label, order))
        if effect.reads == "judge":
            return Ranking(labels, {labels[0]: f"{effect.seat} likes it"})
        return Ballot(labels[0], f"{effect.seat} says so") if effect.reads == "vote" else shaped(effect.reads)

    def commands(self, effect: RunCommands) -> CommandsEnded:
        """Each command's exit status, by purpose and tree; stops at the first that fails."""
        _, tree = self.trees[effect.slot]
        usual: Callable[[Tree], int] = lambda _tree: 1 if effect.purpose is Purpose.Preflight else 0  # noqa: E731
        code = self.red.get(effect.purpose, usual)(tree)
        lines = effect.commands if code == 0 else effect.commands[:1]
        results = tuple(CommandResult(line, code, small("what it printed")) for line in lines)
        return CommandsEnded(key=effect.key, results=results, tree=tree)

    def collected(self, effect: CollectWork) -> WorkCollected:
        """A new commit and tree when somebody edited since the last collection."""
        if effect.slot in self.edited:
            self.edited.discard(effect.slot)
            n = self.number()
            self.trees[effect.slot] = (Commit(f"c{n}"), Tree(f"tree of c{n}"))
        head, tree = self.trees[effect.slot]
        change = Change(head, tree, 1, 1, 1, 0, small(f"patch to {tree}"))
        return WorkCollected(key=effect.key, change=change, start_tree=self.tree_of(effect.start))

    def synced(self, effect: SyncBase | ContinueRebase | UndoRebase) -> BaseSynced:
        """The target stands where `tip` says; work on an older base is rebased without a conflict."""
        head, tree = self.trees[effect.slot]
        base = effect.base if isinstance(effect, SyncBase | ContinueRebase) else self.tip
        how = "undone" if isinstance(effect, UndoRebase) else "same" if base == self.tip else "rebased"
        if how == "rebased":
            n = self.number()
            head, tree = Commit(f"c{n}"), Tree(f"tree of c{n}")
            self.trees[effect.slot] = (head, tree)
        tip_tree = self.tree_of(self.tip)
        return BaseSynced(key=effect.key, state=how, tip=self.tip, tip_tree=tip_tree, head=head, tree=tree)

    def tree_of(self, commit: Commit) -> Tree:
        """The tree of a commit."""
        return self.known.get(commit, Tree(f"tree of {commit}"))


def shaped(reads: str) -> Report | None:
    """An answer that the reader of that name would have found."""
    by_name: dict[str, Report] = {
        "advise": Advice("do it so"),
        "implement": Claim("done"),
        "review": Reviewed(Vote.Approve),
        "revote": Reviewed(Vote.Approve, why="it is fine"),
        "fix": FixReport(()),
        "commit": CommitText("Do it"),
    }
    return by_name.get(reads)


@dataclass(init=False)
class Sim:
    """A run that is driven as the engine drives it, in a world."""

    world: World
    state: RunState
    twin: RunState
    """Folded from the JSON of each entry: what a restart would see."""
    entries: list[Entry]
    keys: set[EffectId]
    """Every key ever started."""
    paid: set[EffectId]
    """The keys of all turns that ended."""
    offered: dict[str, EffectId]
    """The turn in which each conversation id was offered."""
    cooled: set[EffectId]
    """The keys of all turns that were answered without asking anybody."""

    def __init__(self, start: RunStarted, world: World | None = None) -> None:
        """A run whose first fact is `start`."""
        self.world = world or World()
        first = Entry(1, self.world.at, start)
        self.entries = [first]
        self.state = reducer.begin(first)
        self.twin = reducer.begin(copied(first))
        self.keys = set()
        self.paid = set()
        self.offered = {}
        self.cooled = set()

    def put(self, *events: Event) -> None:
        """Append facts, one second apart, and hold the laws that hold at every fact."""
        for event in events:
            if isinstance(event, EffectStarted):
                assert event.key not in self.keys, f"{event.key} was started before"
                self.keys.add(event.key)
            if isinstance(event, EffectBegun):
                self.offer(event.key)
            self.world.at += 1.0
            entry = Entry(self.state.seq + 1, self.world.at, event)
            self.entries.append(entry)
            before, self.state = self.state, reducer.reduce(self.state, entry)
            self.twin = reducer.reduce(self.twin, copied(entry))
            assert self.state == self.twin, "a replay gives the same state"
            laws.at_a_fact(before, event, self.state)
            laws.in_a_state(self.state)
            assert self.state.spend.turns == self.billed(before, event), "every turn that ended is paid once"

    def offer(self, key: EffectId) -> None:
        """A turn begins: the conversation id it offers was never offered in another turn."""
        opened = self.state.open.get(key)
        if opened is not None and isinstance(opened.effect, StartTurn) and opened.effect.session:
            session = opened.effect.session
            assert self.offered.setdefault(session, key) == key, f"{session} was offered in {self.offered[session]}"

    def billed(self, before: RunState, event: Event) -> int:
        """How many turns ended so far, counting each key once; `event` is the newest fact."""
        if isinstance(event, AgentCooling) and event.key in before.open:
            self.cooled.add(event.key)
        if isinstance(event, TurnEnded) and "/StartTurn/" in event.key and event.key in self.keys - self.cooled:
            self.paid.add(event.key)
        return len(self.paid)

    def record(self) -> Event | None:
        """Append the one decision that is due; None when none is."""
        record = next((w.event for w in self.wanted() if isinstance(w, Record)), None)
        if record is not None:
            self.put(record)
            assert Record(record) not in self.wanted(), f"{record} is still due after it was recorded"
        return record

    def wanted(self) -> tuple[Wanted, ...]:
        """What should be in flight now; the replayed run wants the same."""
        wanted = reducer.wanted(self.state)
        assert wanted == reducer.wanted(self.twin)
        return wanted

    def settle(self) -> None:
        """Make the difference between wanted and open true: decisions first, then cancellations, then starts."""
        while self.record() is not None:
            pass
        wanted = [w for w in self.wanted() if not isinstance(w, Record)]
        keys = {w.key for w in wanted}
        gone = [key for key in self.state.open if key not in keys]
        if gone:
            self.put(*(Cancelled(key=key) for key in gone))
            self.settle()
            return
        for effect in wanted:
            if effect.key not in self.state.open:
                self.put(EffectStarted(key=effect.key, effect=effect))
                if isinstance(effect, Ask):
                    self.put(Asked(key=effect.key))

    def open(self) -> list[Effect]:
        """What is in flight, questions to people aside."""
        return [opened.effect for opened in self.state.open.values() if not isinstance(opened.effect, Ask)]

    def step(self) -> Effect | None:
        """Settle, then let the world answer the first effect in flight; None when nothing is."""
        self.settle()
        return self.respond()

    def respond(self) -> Effect | None:
        """Let the world answer the first effect in flight."""
        effect = next(iter(self.open()), None)
        if effect is None:
            return None
        answer = self.world.answer(effect)
        if isinstance(effect, BEGUN) and not isinstance(answer, AgentCooling):
            self.put(EffectBegun(key=effect.key))
            while self.record() is not None:
                pass
        self.put(answer)
        return effect

    def run(self, until: Callable[["Sim"], bool] = lambda _sim: False, limit: int = 2_000) -> "Sim":
        """Go on until the run is done or waits for a person, or `until` holds: right after an answer, or once settled."""
        for _ in range(limit):
            self.settle()
            if until(self) or self.respond() is None or until(self):
                return self
        raise AssertionError(f"still going after {limit} steps, in {self.state.phase}")

    # ── what a test asks afterwards ──────────────────────────────────────────────────────────────────────────────

    def facts(self, *kinds: type) -> list[Any]:
        """Every fact of those kinds, in order."""
        return [entry.event for entry in self.entries if isinstance(entry.event, kinds)]

    def started(self, *kinds: type) -> list[Any]:
        """Every effect of those kinds that was started, in order."""
        return [fact.effect for fact in self.facts(EffectStarted) if isinstance(fact.effect, kinds)]

    def asked(self, node: str = "", seat: str = "") -> list[str]:
        """The agents that were really asked, in order."""
        return [t.agent for t in self.world.turns if node in {"", t.node} and seat in {"", t.seat}]

    # ── faults ───────────────────────────────────────────────────────────────────────────────────────────────────

    def fails(self, agent: str, outcome: Outcome, node: str = "", times: int = 1_000_000) -> None:
        """From now on that agent's turns at that node end so."""

        def fits(effect: Effect) -> bool:
            return isinstance(effect, StartTurn) and effect.agent == agent and node in {"", effect.node}

        self.world.faults.append(Fault(fits, lambda effect, _: TurnEnded(key=effect.key, outcome=outcome), times))

    def says(self, kind: type, event: Callable[[Any], Event], times: int = 1_000_000, **where: object) -> None:
        """From now on effects of that kind, with those fields, are answered so."""

        def fits(effect: Effect) -> bool:
            return isinstance(effect, kind) and all(getattr(effect, name) == value for name, value in where.items())

        self.world.faults.append(Fault(fits, lambda effect, _: event(effect), times))

    def marker_fails(self, *errors: str) -> None:
        """The next writes of the completion marker fail with those errors, one after the other."""
        for error in errors:
            self.says(EmitCompletionMarkerAndTerminate, partial(unwritten, error), 1)


def unwritten(error: str, effect: EmitCompletionMarkerAndTerminate) -> Event:
    """A completion marker that could not be written."""
    return CompletionMarkerWriteFailed(is_failure=effect.is_failure, error=error)


def copied(entry: Entry) -> Entry:
    """An entry as it comes back from the journal's bytes."""
    return msgspec.json.decode(msgspec.json.encode(entry), type=Entry)

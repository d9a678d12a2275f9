"""What a run knows at one moment, as folded from its facts; and small pure helpers on it. No decision is made here."""

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from nightcrew.core import work as w
from nightcrew.core.effects import Effect, Request, RunCommands, StartTurn, Timer
from nightcrew.core.events import CommandsEnded, EffectAnswer, RunStarted
from nightcrew.core.ids import AgentId, Commit, Data, EffectId, Label, SeatKey, SlotId, Tree, short
from nightcrew.core.roster import Agent
from nightcrew.core.settings import Settings, Spend

A = TypeVar("A")
E = TypeVar("E", bound=Request)
K = TypeVar("K")
V = TypeVar("V")


class Opened(Data, frozen=True, omit_defaults=True):
    """An effect in flight: what its `EffectStarted` said, when, in which visit of a phase, and whether it really runs yet."""

    effect: Effect
    at: float
    visit: int
    begun: bool = False


class SeatState(Data, frozen=True, omit_defaults=True, kw_only=True):
    """Who sits in a seat and what its conversation is (decision 0004). `slot` is where the conversation began."""

    key: SeatKey
    agent: AgentId
    generation: int
    minted: str
    turns: int = 0
    reported: str = ""
    usd: float = 0.0  # what this conversation has cost and taken so far, for programs that only tell the sum
    tokens: int = 0
    slot: SlotId = SlotId("")


class Call(Data, frozen=True, omit_defaults=True, kw_only=True):
    """One question put to a chain: its entries from the start on, and how far it got."""

    node: str
    seat: SeatKey
    entries: tuple[tuple[AgentId, SeatKey], ...]
    at: int = 0
    before: str = ""  # the signature of the failure just before the current entry
    first: int = 0  # entries from here up to `at` were passed over, as the ledger knows them to be cooling
    tries: int = 0
    lost: int = 0
    cold: int = 0  # how often the current entry was restarted without its conversation
    reasked: int = 0
    wait_until: float = 0.0
    sleeping: bool = False
    failed: w.Outcome | None = None  # why the current entry failed for good; its handover is not recorded yet


class Workspace(Data, frozen=True, omit_defaults=True):
    """A leased slot: the commit it was set to, its tree, and whether the set-up commands ran there."""

    slot: SlotId
    start: Commit
    tree: Tree
    set_up: bool = False


class Basing(Data, frozen=True, omit_defaults=True):
    """How far the work is being put onto the target's tip: `sync`, `fix`, `continue`, `undo` or `done`."""

    step: str = "sync"
    tip: Commit = Commit("")
    paths: tuple[str, ...] = ()
    rounds: int = 0
    reason: str = ""


class Lane(Data, frozen=True, omit_defaults=True):
    """Progress of one implementer: `ask`, `collect`, `check` or `done`."""

    label: Label
    began: Tree = Tree("")  # the tree it found
    step: str = "ask"
    turns: int = 0
    failure: w.Failure | None = None


class Advising(Data, frozen=True, omit_defaults=True):
    """Progress of the advisors: what each proposed; whose call ended without a proposal."""

    proposals: dict[SeatKey, w.Advice] = {}
    absent: dict[SeatKey, w.Failure] = {}


class Judging(Data, frozen=True, omit_defaults=True, kw_only=True):
    """Progress of Judging: `neutral`, `rank`, `argue`, `vote`, `drop`, then for a graft `graft`, `collect`, `after`; `over`."""

    step: str = ""
    entrants: tuple[Label, ...] = ()  # the viable candidates, and why some of all are not judged
    out: dict[Label, str] = {}
    neutral: dict[Label, w.Change] = {}  # as judges see them
    leaks: dict[Label, tuple[str, ...]] = {}
    orders: dict[SeatKey, tuple[Label, ...]] = {}  # in which each judge of the panel is shown them
    rankings: dict[SeatKey, w.Ranking] = {}
    spoken: int = 0  # turns of the deliberation that are over, also those that said nothing
    turns: tuple[tuple[SeatKey, w.Ballot], ...] = ()  # and what the others said
    ballots: dict[SeatKey, w.Ballot] = {}
    absent: dict[SeatKey, w.Failure] = {}  # whose call of this wave ended without an answer
    tally: w.Tally | None = None
    before: w.Change | None = None  # the winner before the graft

    @property
    def standing(self) -> tuple[Label, ...]:
        """Those that are judged."""
        return tuple(label for label in self.entrants if label not in self.out)


class Reviewing(Data, frozen=True, omit_defaults=True, kw_only=True):
    """Progress of Review: `base`, `ask`, `revote`, `e2e`, `decide`, `fix`, `collect` within round `round` (from 1)."""

    basing: Basing = Basing()
    step: str = "base"
    round: int = 1
    expected: tuple[SeatKey, ...] = ()  # the panel of this round; who is not in `reviews` did not answer
    reviews: dict[SeatKey, w.Reviewed] = {}
    second: dict[SeatKey, w.Reviewed] = {}  # the final votes, after a split
    absent: dict[SeatKey, w.Failure] = {}  # whose call of this wave ended without an answer
    e2e: tuple[w.CommandResult, ...] | None = None
    deferred: bool = False
    stalled: int = 0
    granted: int = 0
    open: tuple[w.Finding, ...] = ()
    fixed: w.FixReport | None = None
    picked: tuple[w.Finding, ...] = ()  # what the operator wants fixed now, and why
    why: str = ""


class Validating(Data, frozen=True, omit_defaults=True, kw_only=True):
    """Progress of FinalValidation: `base`, `pre_gate`, `format`, `gate`, `fix`, `collect`, `e2e`."""

    basing: Basing = Basing()
    step: str = "base"
    rounds: int = 0
    granted: int = 0
    red: tuple[w.CommandResult, ...] = ()
    hooked: int = 0
    refused: bool = False  # a hook refused the commit: what fails here is over when the commit exists
    fresh: bool = False  # the cache of green gates is not to be believed (decision 0019)


class LandingTry(Data, frozen=True, omit_defaults=True, kw_only=True):
    """Progress of Landing: `land`, `fix`, `collect`; `moved` counts tips that moved under us, `unreached` tries that found no way to the remote."""

    step: str = "land"
    moved: int = 0
    unreached: int = 0
    rounds: int = 0
    granted: int = 0
    wait_until: float = 0.0
    refusal: str = ""
    output: w.Blob | None = None
    as_branch: str = ""  # why the result is left on a branch although landing was asked for


class Marker(Data, frozen=True, omit_defaults=True, kw_only=True):
    """A pending completion marker (decision 0025): the first reason is kept, the newest error beside it."""

    is_failure: bool
    reason: str
    error: str = ""
    failures: int = 0
    wait_until: float = 0.0


class Repair(Data, frozen=True, omit_defaults=True):
    """The commit a dev-fix left and what it said; `left_out` when a reset could not put it on top again."""

    commit: Commit
    summary: str
    left_out: bool = False


class Trouble(Data, frozen=True, omit_defaults=True, kw_only=True):
    """A terminal failure being recovered from, until the phase that failed completes."""

    failure: w.Failure
    failed_phase: w.PipelinePhase
    furthest: w.PipelinePhase
    attempts: int = 0
    level: int = 0
    attempted: int = 0  # the level of the last attempted recovery
    triggered: bool = False
    finished: bool = False  # an attempt is over and the recovery that follows from it is not yet made
    unavailable: bool = False  # no agent can work: the wait and the chain reset come next, no attempt is counted
    waits: int = 0
    wait_until: float = 0.0
    reset: tuple[str, ...] = ()  # the chains that were reset since the last failure
    step: str = "ask"  # of the dev-fix turn: `ask`, `collect` or `told`
    summary: str = ""
    success: bool = False
    repairs: tuple[Repair, ...] = ()
    tree: Tree = Tree("")  # of the work, when it failed last
    iteration: int = 0  # the furthest iteration in which it failed
    since: float = 0.0  # when it began to fail like this
    same: int = 0  # how often in a row it failed alike at level 4 with an unchanged tree
    over: bool = False  # the phase that failed completed; the success is recorded before anything else


class RunState(Data, frozen=True, omit_defaults=True, kw_only=True):
    """A run. Everything here follows from the journal; nothing else does."""

    started: RunStarted
    seq: int
    at: float
    phase: w.PipelinePhase
    visit: int = 0
    open: dict[EffectId, Opened] = {}
    asked: dict[str, int] = {}
    crashes: dict[str, int] = {}
    unbilled: dict[EffectId, AgentId] = {}
    calls: dict[str, Call] = {}
    seats: dict[SeatKey, SeatState] = {}
    handovers: tuple[w.Handover, ...] = ()
    resets: dict[str, int] = {}
    owed: tuple[w.Handover, ...] = ()  # handovers of a call that is over before they could be recorded
    quota_losses: tuple[w.QuotaLoss, ...] = ()
    cooling: dict[AgentId, float] = {}  # until then, on the run's clock, which is never set back
    behind_s: float = 0.0  # how far the machine's clock is behind it
    spend: Spend = Spend()
    workspaces: dict[SeatKey, Workspace] = {}
    base: Commit = Commit("")
    iteration: int = 0
    iterations: tuple[w.Candidate, ...] = ()  # the winner each iteration after the first began with
    marks: dict[w.PipelinePhase, tuple[w.Candidate, Commit]] = {}  # where each began: the winner as it was, and its base
    rewinds: dict[SeatKey, tuple[Commit, tuple[Commit, ...]]] = {}  # what they are set back to first, and the repairs on top
    unreviewed: bool = False  # a repair changed the winner after its review
    recovery_epoch: int = 0
    preflight: CommandsEnded | None = None
    plan: w.Blob | None = None
    candidates: dict[Label, w.Candidate] = {}
    winner: Label = Label("")
    open_findings: tuple[w.Finding, ...] = ()
    contested: bool = False
    gated: Tree = Tree("")  # the tree whose gate is green on top of `base`
    commit: Commit = Commit("")
    planned: bool = False
    lanes: dict[Label, Lane] = {}
    advising: Advising = Advising()
    judging: Judging = Judging()
    reviewing: Reviewing = Reviewing()
    validating: Validating = Validating()
    text: w.CommitText | None = None  # the commit message; it outlives a repeated landing
    trying: LandingTry = LandingTry()
    landing: w.Landing | None = None
    already: str = ""
    trouble: Trouble | None = None
    marker: Marker | None = None
    questions: dict[str, w.Question] = {}
    parked: bool = False
    park_now: bool = False
    refused: str = ""  # why the run never began to pay anybody: preflight could not work
    rescued: tuple[SeatKey, ...] = ()  # the seats whose unsaved work is safe, once a failure marker is pending
    ended: str = ""
    dropped: bool = False

    @property
    def settings(self) -> Settings:
        """What the run was told."""
        return self.started.settings

    def slot(self, seat: SeatKey) -> SlotId:
        """The slot a seat holds; empty while it holds none, which nothing that is wanted may show."""
        return self.workspaces[seat].slot if seat in self.workspaces else SlotId("")

    def within(self, part: str, **changes: object) -> "RunState":
        """The run with those fields changed in that part of it."""
        return self.but(**{part: getattr(self, part).but(**changes)})

    @property
    def done(self) -> bool:
        """Whether nothing can happen any more."""
        return self.phase in {w.PipelinePhase.Complete, w.PipelinePhase.Interrupted}

    @property
    def winning(self) -> w.Candidate | None:
        """The candidate that goes on to review and landing, once there is one."""
        return self.candidates.get(self.winner)

    @property
    def chosen(self) -> w.Candidate:
        """The same, in the phases that are never asked without one (see `reducer`)."""
        return self.candidates[self.winner]


Means = Callable[[RunState, Effect, EffectAnswer], RunState]


class Want(NamedTuple):
    """An effect that should be in flight, and the run after an answer to it. What every phase asks alike, `reducer` reads itself."""

    effect: Effect
    means: Means = lambda state, _effect, _event: state


class Phase(NamedTuple):
    """What the module of a phase offers, all of it pure; what it leaves out is nothing."""

    afresh: Callable[[RunState], RunState]  # its progress forgotten (recovery level 2 and above)
    again: Callable[[RunState], RunState] = lambda state: state  # what failed due once more, one round more (recovery level 1)
    arrived: Callable[[RunState], RunState] = lambda state: state  # a step further where nothing is asked, else the same state
    wants: Callable[[RunState], tuple[Want, ...]] = lambda _state: ()
    winner: bool = False  # it works on the winner, and is never asked without one


def on(kind: type[A], then: Callable[[RunState, A], RunState]) -> Means:
    """What an effect means that only answers of one kind move on."""
    return lambda state, _effect, event: then(state, event) if isinstance(event, kind) else state


def changing(part: str) -> Callable[..., RunState]:
    """How one part of a run is changed."""
    return lambda state, **changes: state.within(part, **changes)


def without(mapping: dict[K, V], *keys: K) -> dict[K, V]:
    """A copy of `mapping` that lacks `keys`."""
    return {k: v for k, v in mapping.items() if k not in keys}


def lane(effect: Request) -> str:
    """What effects are counted by."""
    return f"{type(effect).__name__}/{effect.node}/{effect.seat}"


def asking(state: RunState, name: str, text: str, *, holds: bool, how: str) -> RunState:
    """The run with a question to a person; one that is open already stays as it is."""
    question = w.Question(name, text, holds=holds, asked_at=state.at, how=how)
    return state.but(questions={**state.questions, name: state.questions.get(name, question)})


def keyed(state: RunState, effect: E) -> E:
    """The effect under the key that is next in its lane (decision 0003): that of the one in flight, until it has ended."""
    return effect.but(key=EffectId(f"{state.started.run}/{lane(effect)}/{state.asked.get(lane(effect), 0)}"))


def timer(state: RunState, node: str, seat: SeatKey, until: float, why: str, agents: tuple[AgentId, ...] = ()) -> Timer:
    """The effect that waits until then, bounded by the span that is left (decision 0010)."""
    return keyed(state, Timer(node=node, seat=seat, fire_at=until, span_s=max(0.0, until - state.at), why=why, agents=agents))


def agent_of(state: RunState, agent: AgentId) -> Agent:
    """The roster entry with that id; the roster of a run always holds every id its chains name."""
    return next(a for a in state.started.roster if a.id == agent)


def branch_of(state: RunState, label: Label) -> str:
    """The branch a candidate is published under; a new `recovery_epoch` never reuses an old name (decision 0003)."""
    epoch = f"e{state.recovery_epoch}-" if state.recovery_epoch else ""
    return f"nightcrew/{short(state.started.run)}/{epoch}{label}"


def enter(state: RunState, phase: w.PipelinePhase, **changes: object) -> RunState:
    """The same run in `phase`: a new visit, so that answers to what an earlier visit asked route nothing."""
    return state.but(phase=phase, visit=state.visit + 1, calls={}, **changes)


def busy(state: RunState) -> bool:
    """Whether time counts against the `wall` limit: a turn or command really runs (decision 0024)."""
    return any(o.begun and isinstance(o.effect, StartTurn | RunCommands) for o in state.open.values())


def began(state: RunState) -> w.Candidate | None:
    """The winner that this iteration began with, if it is not the first."""
    return state.iterations[state.iteration - 1] if state.iteration and state.iterations else None


def iteration_base(state: RunState) -> Commit:
    """Where this iteration starts from: the base, or the winner of the iteration before."""
    before = began(state)
    return before.change.head if before else state.base


def red_of(results: tuple[w.CommandResult, ...]) -> tuple[w.CommandResult, ...]:
    """Those that did not pass."""
    return tuple(result for result in results if not result.green)


def line(text: str, limit: int = 160) -> str:
    """The first line of a text that is not blank, cut to `limit` characters."""
    first = next((part.strip() for part in text.splitlines() if part.strip()), "")
    return first if len(first) <= limit else first[: limit - 1] + "…"

"""Every fact of a run. Facts are in the past tense; the journal holds nothing else (decision 0001)."""

from typing import Annotated

from msgspec import Meta

from nightcrew.core.effects import Effect
from nightcrew.core.ids import AgentId, Commit, Data, EffectId, Label, RunId, SlotId, Tree
from nightcrew.core.roster import Agent, AgentRole, Roles
from nightcrew.core.settings import Limits, Settings
from nightcrew.core.work import Blob, Change, CommandResult, Finding, Handover, Landing, Outcome, PipelinePhase, Task

Count = Annotated[int, Meta(ge=0, le=2**32 - 1)]
Level = Annotated[int, Meta(ge=0, le=4)]


class Fact(Data, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """What all facts have in common: nothing but being one."""


class Answer(Fact, frozen=True, tag=True):
    """A fact about an effect. It ends the effect's key, unless it is `Ongoing`."""

    key: EffectId


class RunStarted(Fact, frozen=True, tag=True):
    """All that the run needs of the world's settings. `repo` names a place; facts hold no paths (decision 0005)."""

    run: RunId
    repo: str
    task: Task
    target: str
    remote: str
    base: Commit
    seed: str
    roster: tuple[Agent, ...]
    roles: Roles
    settings: Settings
    limits: Limits
    notes: tuple[str, ...] = ()
    shelter: str = ""
    version: str = ""


class ConfigChanged(Fact, frozen=True, tag=True):
    """The operator changed what a run was told (decision 0012). Fields that are None stay."""

    limits: Limits | None = None
    roster: tuple[Agent, ...] | None = None
    roles: Roles | None = None
    settings: Settings | None = None
    why: str = ""


class ParkAsked(Fact, frozen=True, tag=True):
    """Somebody wants the run to stop at the next safe point; asked `now`, what runs is stopped and rescued too."""

    now: bool = False


class ResumeAsked(Fact, frozen=True, tag=True):
    """Somebody wants a parked run to go on."""


class CancelAsked(Fact, frozen=True, tag=True):
    """Somebody wants the run to end."""

    reason: str = "cancelled by the operator"


class FixAsked(Fact, frozen=True, tag=True):
    """The operator picked findings to be fixed in work that stands at `head`; `stale`: it changed since they were raised (decision 0032)."""

    findings: tuple[Finding, ...]
    reason: str
    head: Commit
    tree: Tree
    stale: bool = False


class Asked(Answer, frozen=True, tag=True):
    """A question was put to a person; it is open until `Answered`."""


class Answered(Fact, frozen=True, tag=True):
    """A person answered a question."""

    question: str
    text: str


class Noted(Fact, frozen=True, tag=True):
    """Something a reader of the story should know and no decision depends on."""

    text: str


class LimitReached(Fact, frozen=True, tag=True):
    """A limit forbids the next turn. A default asks a person, the operator's own ends the run (decision 0024)."""

    valve: str
    value: float
    mine: bool


class EffectStarted(Fact, frozen=True, tag=True):
    """An effect is about to run; nothing runs before this is on disk."""

    key: EffectId
    effect: Effect


class EffectBegun(Answer, frozen=True, tag=True):
    """A turn, command or git step got what it waited for (slot, ledger) and really runs."""


class Cancelled(Answer, frozen=True, tag=True):
    """An effect that was no longer wanted is stopped; `rescued` names the ref with its unsaved work."""

    rescued: str = ""


class StepFailed(Answer, frozen=True, tag=True):
    """A step failed in a way that is no ordinary outcome. `transient` = worth one more try."""

    reason: str
    detail: Blob | None = None
    transient: bool = False


class HandlerCrashed(Answer, frozen=True, tag=True):
    """Our own bug while an effect ran (decision 0007)."""

    reason: str
    traceback: Blob


class WorkspaceReady(Answer, frozen=True, tag=True):
    """A slot is leased and stands at `head`."""

    slot: SlotId
    head: Commit
    tree: Tree


class WorkspaceLost(Answer, frozen=True, tag=True):
    """The slot an effect needed is gone or no longer ours; it is made anew."""

    slot: SlotId
    reason: str


class TurnEnded(Answer, frozen=True, tag=True):
    """An agent's turn ended, well or badly."""

    outcome: Outcome


class TurnLost(Answer, frozen=True, tag=True):
    """A turn's supervisor vanished without a trace: nobody's fault, asked again in the `session` it told of (decision 0009)."""

    session: str = ""


class AgentCooling(Answer, frozen=True, tag=True):
    """The ledger knows that this agent cools down until `until`: it was not asked (decision 0021)."""

    agent: AgentId
    until: float
    window: str = ""
    source: str = ""
    why: str = ""  # what it said when that became known, maybe to another run


class CommandsEnded(Answer, frozen=True, tag=True):
    """Commands ran on `tree`, up to the first that failed; `cached` = known green already, `rescued` = the ref with what they left behind."""

    results: tuple[CommandResult, ...]
    tree: Tree = Tree("")
    cached: bool = False
    rescued: str = ""

    @property
    def green(self) -> bool:
        """Whether every one of them passed."""
        return all(result.green for result in self.results)


class WorkCollected(Answer, frozen=True, tag=True):
    """An agent's work is committed and safe."""

    change: Change
    start_tree: Tree
    rescued: str = ""
    notes: tuple[str, ...] = ()


class BaseSynced(Answer, frozen=True, tag=True):
    """How the work stands to the target's tip: `same`, `rebased`, `conflict` (in `paths`), `failed`, `landed` already, `undone`, or its target `gone`."""

    state: str
    tip: Commit
    tip_tree: Tree
    head: Commit
    tree: Tree
    paths: tuple[str, ...] = ()
    note: str = ""


class CommitMade(Answer, frozen=True, tag=True):
    """The commit that lands exists; its `tree` may differ from the one asked for, when a hook changed it."""

    commit: Commit
    tree: Tree


class CommitRefused(Answer, frozen=True, tag=True):
    """A hook of the repository, or its signing (`hook` = "signing"), refused the commit, or did not end in time."""

    output: Blob
    code: int
    hook: str = ""
    timed_out: bool = False


class Landed(Answer, frozen=True, tag=True):
    """The work is where it was wanted."""

    landing: Landing


class LandingRefused(Answer, frozen=True, tag=True):
    """The target was not moved: `moved`, `dirty`, `hook`, `rejected` or `unreachable`."""

    why: str
    detail: str
    output: Blob | None = None


class WorkspaceReset(Answer, frozen=True, tag=True):
    """A slot is back at its start with the repairs that fit on top; `rescued` names the ref that holds what was there."""

    head: Commit
    tree: Tree
    rescued: str = ""
    skipped: tuple[Commit, ...] = ()  # the repairs that conflicted and were left out


class WorkRescued(Answer, frozen=True, tag=True):
    """Unsaved work is reachable from `ref` (empty = there was none)."""

    ref: str = ""


class WorkspacesDropped(Answer, frozen=True, tag=True):
    """The run's slots are back in the pool; `kept` lists what was not removed and why."""

    kept: tuple[str, ...] = ()


class WorkNeutralised(Answer, frozen=True, tag=True):
    """Each candidate as judges see it, and the vendors' names that were found in what it adds."""

    neutral: dict[Label, Change]
    leaks: dict[Label, tuple[str, ...]] = {}


class TimerFired(Answer, frozen=True, tag=True):
    """A pause or wait is over; `early` when the ledger moved (decision 0021)."""

    early: bool = False


class HandedOver(Fact, frozen=True, tag=True):
    """A seat goes to the next agent of its chain."""

    handover: Handover


class ChainReset(Fact, frozen=True, tag=True):
    """Recovery lets a node's chain start at the front again; handovers before that index no longer count (decision 0021)."""

    chain: str
    handovers_before: Count


class DevFixTriggered(Fact, frozen=True, tag=True):
    """Dev-fix flow was triggered for this phase and role."""

    failed_phase: PipelinePhase
    failed_role: AgentRole


class DevFixSkipped(Fact, frozen=True, tag=True):
    """Dev-fix was not tried; counts as a finished attempt."""

    reason: str


class DevFixCompleted(Fact, frozen=True, tag=True):
    """A dev-fix turn ended; `success` is the agent's belief and decides nothing."""

    success: bool
    summary: str | None = None


class DevFixAgentUnavailable(Fact, frozen=True, tag=True):
    """No agent can work now; the loop goes on after a wait and no attempt is counted."""

    failed_phase: PipelinePhase
    reason: str


class CompletionMarkerEmitted(Fact, frozen=True, tag=True):
    """The completion marker is on disk; it ends the marker's open effect."""

    is_failure: bool


class CompletionMarkerWriteFailed(Fact, frozen=True, tag=True):
    """The completion marker could not be written; it is tried again."""

    is_failure: bool
    error: str


class RecoveryAttempted(Fact, frozen=True, tag=True):
    """The run goes back to work in `target_phase` after a recovery at `level`."""

    level: Level
    attempt_count: Count
    target_phase: PipelinePhase


class RecoveryEscalated(Fact, frozen=True, tag=True):
    """The level of recovery rose."""

    from_level: Level
    to_level: Level
    reason: str


class RecoverySucceeded(Fact, frozen=True, tag=True):
    """The phase that failed completed: the trouble is over."""

    level: Level
    total_attempts: Count


AwaitingDevFixEvent = (
    DevFixTriggered | DevFixSkipped | DevFixCompleted | DevFixAgentUnavailable | CompletionMarkerEmitted
    | CompletionMarkerWriteFailed | RecoveryAttempted | RecoveryEscalated | RecoverySucceeded
)  # fmt: skip
"""The nine facts of the recovery loop; the names of variants and fields are its wire form."""
Ongoing = Asked | EffectBegun
EffectAnswer = (
    Asked | EffectBegun | Cancelled | StepFailed | HandlerCrashed | WorkspaceReady | WorkspaceLost | TurnEnded | TurnLost
    | AgentCooling | CommandsEnded | WorkCollected | BaseSynced | CommitMade | CommitRefused | Landed | LandingRefused
    | WorkspaceReset | WorkRescued | WorkspacesDropped | WorkNeutralised | TimerFired
)  # fmt: skip
Event = (
    RunStarted | ConfigChanged | ParkAsked | ResumeAsked | CancelAsked | FixAsked | Answered | Noted | LimitReached | EffectStarted
    | HandedOver | ChainReset | EffectAnswer | AwaitingDevFixEvent
)  # fmt: skip


class Entry(Data, frozen=True):
    """One line of the journal: its place, the time it was written (seconds since the epoch), and the fact."""

    seq: int
    at: float
    event: Event


class Record(Data, frozen=True):
    """The request to write a decision down: the engine appends `event` itself, at the seq it was decided on (decision 0002)."""

    event: Event


Wanted = Effect | Record

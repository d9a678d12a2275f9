"""Every request the core can make, compared by key alone (decision 0002); `Record`, which carries an event, stands in `events`."""

from nightcrew.core.ids import AgentId, Commit, Data, EffectId, Label, SeatKey, SlotId, Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.work import Brief, CommitText, Purpose


class Request(Data, frozen=True, tag=True, omit_defaults=True, kw_only=True):
    """What every request has: its key (given by `state.keyed`), the node and seat it is for, and the slot it holds while open, if any."""

    key: EffectId = EffectId("")
    node: str
    seat: SeatKey = SeatKey("")
    slot: SlotId = SlotId("")
    label: Label = Label("")  # the candidate whose work is edited, on `branch`; a request without one only reads
    branch: str = ""


class PrepareWorkspace(Request, frozen=True, tag=True):
    """Lease a slot for `seat` and set it to `start`; `label` names the branch of an author and is empty for a reader."""

    start: Commit
    sees: tuple[Commit, ...] = ()  # not empty = a judge's: it holds the start's tree and these commits, and nothing else


class StartTurn(Request, frozen=True, tag=True):
    """Ask one agent once. `session` is the conversation id to open, `resume` the one to continue; `reads` names the reader of its answer."""

    role: AgentRole
    agent: AgentId
    brief: Brief
    answers: Answers
    reads: str
    session: str = ""
    resume: str = ""
    read_only: bool = False
    total_s: float = 0.0


class RunCommands(Request, frozen=True, tag=True):
    """Run shell lines one after the other in a slot, stopping at the first that fails. A known green `tree` answers a gate from the cache."""

    purpose: Purpose
    commands: tuple[str, ...]
    timeout_s: float
    tree: Tree = Tree("")
    keep_going: bool = False


class CollectWork(Request, frozen=True, tag=True):
    """Commit what an agent left uncommitted, repair the branch, and tell what changed since `start`."""

    start: Commit
    message: str


class SyncBase(Request, frozen=True, tag=True):
    """Look at the target's tip and put the work on it: `base` is what `head` stands on now."""

    base: Commit
    head: Commit


class ContinueRebase(Request, frozen=True, tag=True):
    """Finish a rebase after a fixer's round; `paths` were in conflict."""

    base: Commit
    head: Commit
    tip: Commit
    paths: tuple[str, ...]


class UndoRebase(Request, frozen=True, tag=True):
    """Give up a rebase: the branch is back at `head`, nothing in progress."""

    head: Commit


class MakeCommit(Request, frozen=True, tag=True):
    """Make the one commit that lands: `tree` on top of `tip`, through the repository's hooks, signed if configured."""

    tip: Commit
    head: Commit
    tree: Tree
    text: CommitText


class Land(Request, frozen=True, tag=True):
    """Move the target from `tip` to `commit` (modes `local`, `push`), or leave `commit` on `branch` (mode `branch`)."""

    mode: str
    commit: Commit
    tip: Commit


class ResetWorkspace(Request, frozen=True, tag=True):
    """Set a slot back to `start`, on `branch`, after everything in it was rescued; then each of `repairs` on top, where it fits."""

    start: Commit
    repairs: tuple[Commit, ...] = ()
    as_one: bool = False  # they become one commit


class RescueWork(Request, frozen=True, tag=True):
    """Make whatever is unsaved in a slot reachable from a rescue ref (decision 0020)."""


class DropWorkspaces(Request, frozen=True, tag=True):
    """Give slots of the run back to the pool, unsaved work rescued first: those of `seats`, or, without any, all and the run's refs."""

    seats: tuple[SeatKey, ...] = ()


class NeutraliseWork(Request, frozen=True, tag=True):
    """Make one commit that names nobody of each candidate, on top of `base`; `redact` takes vendors' names out of it."""

    base: Commit
    heads: dict[Label, Commit]
    redact: bool


class Timer(Request, frozen=True, tag=True):
    """Wait until `fire_at` (seconds since the epoch), but never longer than `span_s` of real time (decision 0010)."""

    fire_at: float
    span_s: float
    why: str
    agents: tuple[AgentId, ...] = ()  # fire early when the ledger says that one of them no longer cools


class Ask(Request, frozen=True, tag=True):
    """Put a question to a person, once, and keep it open until it is answered."""

    question: str
    text: str


class EmitCompletionMarkerAndTerminate(Request, frozen=True, tag=True):
    """Write the completion marker (decision 0025)."""

    is_failure: bool
    reason: str


Effect = (
    PrepareWorkspace | StartTurn | RunCommands | CollectWork | SyncBase | ContinueRebase | UndoRebase | MakeCommit | Land
    | ResetWorkspace | RescueWork | DropWorkspaces | NeutraliseWork | Timer | Ask | EmitCompletionMarkerAndTerminate
)  # fmt: skip

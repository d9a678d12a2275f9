"""The things passed on in a run: the task, what agents answered, candidates, findings, handovers, landings."""

from enum import StrEnum

from nightcrew.core.ids import AgentId, Commit, Data, Label, SeatKey, Tree, impl_seat

PipelinePhase = StrEnum(
    "PipelinePhase", {
        "Planning": "Planning", "Development": "Development", "Judging": "Judging", "Review": "Review",
        "FinalValidation": "FinalValidation", "CommitMessage": "CommitMessage", "Landing": "Landing", "Finalizing": "Finalizing",
        "Complete": "Complete", "AwaitingDevFix": "AwaitingDevFix", "Interrupted": "Interrupted",
    },
)  # fmt: skip
"""Where a run stands."""


class Blob(Data, frozen=True, omit_defaults=True):
    """A text that travels by digest (decision 0005): sha256 hex, size in bytes, and its last part (up to 2 KB; all of it when shorter)."""

    digest: str
    size: int
    tail: str = ""


class Task(Data, frozen=True):
    """What is to be done: a one-line title and the whole text."""

    title: str
    text: Blob


class Part(Data, frozen=True, omit_defaults=True):
    """One piece of a brief: a literal `text`, or a `blob` put in by the handler."""

    text: str = ""
    blob: Blob | None = None
    limit: int = 0  # of the blob's last bytes are shown; 0 = all
    quoted: bool = False  # words from outside, fenced as data


class Brief(Data, frozen=True):
    """What an agent is told in one turn: parts, put together in order."""

    parts: tuple[Part, ...]


Class = StrEnum(
    "Class", {
        "Ok": "ok", "Quota": "quota", "RateLimit": "rate_limit", "Overloaded": "overloaded", "Auth": "auth", "Billing": "billing",
        "ContextTooLong": "context_too_long", "Network": "network", "ServerError": "server_error", "Timeout": "timeout",
        "SessionNotFound": "session_not_found", "SessionInUse": "session_in_use", "ModelUnavailable": "model_unavailable",
        "Refused": "refused", "InvalidOutput": "invalid_output", "Crashed": "crashed", "ConfigError": "config_error",
    },
)  # fmt: skip
"""How a turn ended, as classified from structured signals first (the names of the failure corpus)."""
UNAVAILABLE = frozenset({Class.Quota, Class.Billing, Class.RateLimit, Class.Overloaded, Class.Auth})
"""The classes that say "this agent cannot work now" rather than "it worked badly" (decision 0022)."""
Severity = StrEnum("Severity", "Nit Minor Major Blocker")
"""How bad a finding is; only `major` and `blocker` block."""
Vote = StrEnum("Vote", {"Approve": "approve", "ApproveWithFindings": "approve_with_findings", "Reject": "reject"})
"""A reviewer's verdict."""


class Finding(Data, frozen=True, omit_defaults=True):
    """One thing a reviewer found. `id` is ours (`R<round>-<seat>-<n>`), empty until it is given."""

    severity: Severity
    why: str
    file: str = ""
    line: int = 0
    check: str = ""
    id: str = ""

    @property
    def blocks(self) -> bool:
        """Whether the work may not go on to the gate with this finding open."""
        return self.severity in {Severity.Major, Severity.Blocker}


class Reviewed(Data, frozen=True, tag=True):
    """A reviewer's structured answer."""

    vote: Vote
    findings: tuple[Finding, ...] = ()
    why: str = ""  # of a final vote, after the others were heard


class FixReport(Data, frozen=True, tag=True):
    """A fixer's word on each finding: ids addressed, and ids rejected with a checkable reason."""

    addressed: tuple[str, ...]
    rejected: dict[str, str] = {}


class CommitText(Data, frozen=True, tag=True):
    """A commit message that passed the format check."""

    subject: str
    body: str = ""


class Claim(Data, frozen=True, tag=True):
    """An implementer's word on its own turn: `continue`, or `already_done` with evidence."""

    word: str
    evidence: str = ""


class Advice(Data, frozen=True, tag=True, omit_defaults=True):
    """An advisor's proposal; `naive` says why not the obvious way."""

    approach: str
    tradeoff: str = ""
    naive: str = ""
    risks: str = ""
    files: str = ""


class Ranking(Data, frozen=True, tag=True, omit_defaults=True):
    """A judge's opening answer: the labels, best first; by label why, and what it has that the others lack; confidence from 0 to 1."""

    order: tuple[Label, ...]
    reasons: dict[Label, str] = {}
    strengths: dict[Label, str] = {}
    confidence: float = 0.0


class Ballot(Data, frozen=True, tag=True, omit_defaults=True):
    """A judge's vote, or its turn in the deliberation before it. Whoever does not answer has none: an abstention is never a vote."""

    choice: Label
    why: str = ""


class Tally(Data, frozen=True, omit_defaults=True):
    """What the ballots came to, in numbers and words. Below the quorum there is no winner."""

    judges: int
    present: int
    quorum: int
    votes: dict[Label, int]
    borda: dict[Label, int]  # points of the opening rankings: the last place has none
    changed: int = 0  # ballots that differ from their judge's first choice
    winner: Label = Label("")
    decided_by: str = ""  # `votes`, `borda`, `checks`, `size` or `label`
    reason: str = ""


Report = Reviewed | FixReport | CommitText | Claim | Advice | Ranking | Ballot


class Outcome(Data, frozen=True, omit_defaults=True, kw_only=True):
    """What one turn came to. `reason` is one line of at most 160 characters; tokens and money are of this turn alone, None = unknown."""

    kind: Class
    reason: str = ""
    answer: Blob | None = None
    report: Report | None = None
    session: str = ""  # the conversation id the CLI reported
    reset_at: float | None = None
    window: str = ""
    retry_after_s: float | None = None
    tokens: int | None = None
    usd: float | None = None
    exit_code: int | None = None
    stopped_by: str = ""
    took_s: float = 0.0
    violated: bool = False  # a read-only seat changed its workspace: the answer is void


FailClass = StrEnum("FailClass", "Quota Timeout Other")
"""How a call failed, as the handover record says it."""


class Handover(Data, frozen=True):
    """One line of the record: who gave a seat to whom, at which node, and why (`reason` is one line, at most 160 characters)."""

    at: float
    node: str
    seat: SeatKey
    from_agent: AgentId
    to_agent: AgentId
    fail: FailClass
    reason: str
    signature: str = ""


class QuotaLoss(Data, frozen=True):
    """A call that ended on a spent quota with nobody left to ask."""

    at: float
    node: str
    seat: SeatKey
    agent: AgentId
    reset_at: float | None = None


Purpose = StrEnum(
    "Purpose", {"Setup": "setup", "Preflight": "preflight", "Check": "check", "E2e": "e2e", "PreGate": "pre_gate", "Gate": "gate"}
)
"""Why commands are run."""


class CommandResult(Data, frozen=True, omit_defaults=True):
    """How one command ended: its exit status (128+n for a signal), whether our time limit ended it, its output and seconds."""

    command: str
    code: int
    output: Blob
    timed_out: bool = False
    took_s: float = 0.0

    @property
    def green(self) -> bool:
        """Whether it passed."""
        return self.code == 0 and not self.timed_out

    @property
    def ordinary(self) -> bool:
        """Whether it failed as a test fails: not missing, not unrunnable, not timed out, and with something to read."""
        return not self.timed_out and self.code not in {0, 126, 127} and self.output.size > 0


class Change(Data, frozen=True, omit_defaults=True):
    """What stands on a branch compared with where it started. Equal trees mean no change."""

    head: Commit
    tree: Tree
    commits: int = 0
    files: int = 0
    insertions: int = 0
    deletions: int = 0
    patch: Blob | None = None


class Candidate(Data, frozen=True, omit_defaults=True, kw_only=True):
    """One implementer's work, known by its label."""

    label: Label
    agent: AgentId
    start: Commit  # where its branch started: the base plus the repairs of recovery
    start_tree: Tree
    change: Change
    turns: int = 0
    claim: Claim | None = None
    checks: tuple[CommandResult, ...] = ()
    failure: str = ""

    @property
    def seat(self) -> SeatKey:
        """Where its implementer sits, and whose workspace holds it."""
        return impl_seat(self.label)

    @property
    def changed(self) -> bool:
        """Whether its tree differs from where it started."""
        return self.change.tree != self.start_tree


class Landing(Data, frozen=True, omit_defaults=True):
    """Where the work went: mode, branch or target, the commit, and the tip it replaced (empty for mode `branch`)."""

    mode: str
    branch: str
    commit: Commit
    replaced: Commit = Commit("")
    note: str = ""


class Failure(Data, frozen=True, omit_defaults=True, kw_only=True):
    """A terminal failure: what failed, where, and one line why."""

    phase: PipelinePhase
    role: str
    kind: str
    reason: str
    node: str = ""
    seat: SeatKey = SeatKey("")
    signature: str = ""
    detail: Blob | None = None
    unavailable: bool = False
    exhausted: str = ""  # the node whose chain was exhausted, if that is what failed
    asked: tuple[AgentId, ...] = ()  # whom the exhausted call had asked
    internal: bool = False  # our own bug: never a dev-fix turn (decision 0007)


class Question(Data, frozen=True, omit_defaults=True):
    """Something only a person can decide. `holds` = the run waits for the answer (decision 0023)."""

    id: str
    text: str
    holds: bool
    asked_at: float
    how: str = ""  # the words that `answer` takes, for the reader
    told: bool = False  # somebody was told of it, which a park or a resume does not repeat

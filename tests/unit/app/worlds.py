"""A world without git and processes: it answers each request at once, as a test says, and gives the facts that came of it."""

from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

from nightcrew.app.views import conclusion
from nightcrew.core import events as ev
from nightcrew.core.effects import (
    Ask,
    CollectWork,
    ContinueRebase,
    DropWorkspaces,
    Effect,
    EmitCompletionMarkerAndTerminate,
    Land,
    MakeCommit,
    PrepareWorkspace,
    RescueWork,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    Timer,
    UndoRebase,
)
from nightcrew.core.ids import AgentId, Commit, RunId, SlotId, Tree
from nightcrew.core.reducer import begin, reduce, wanted
from nightcrew.core.roster import Agent, AgentRole, Answers, Roles
from nightcrew.core.settings import Land as LandSettings, Limits, Settings, Verify
from nightcrew.core.state import RunState
from nightcrew.core.work import Blob, Change, Class, CommandResult, CommitText, Landing, Outcome, Reviewed, Task, Vote
from nightcrew.journal.store import Journal

RUN = RunId("20260830-153012-a1b2")
BEGAN_AT = 1_788_100_000.0
STEP_S = 10.0
"""Seconds between two facts of a world."""
OPUS, CODEX = AgentId("opus"), AgentId("codex")

Reply = Callable[[RunState, Effect], ev.Event | None]
"""What the world says to a request; None leaves it to `usual`."""


def blob(text: str) -> Blob:
    """A short text as facts hold it."""
    return Blob(sha256(text.encode()).hexdigest(), len(text.encode()), text)


def tree(text: str) -> Tree:
    """A tree named by what it stands for."""
    return Tree(sha256(text.encode()).hexdigest()[:40])


def commit(text: str) -> Commit:
    """A commit named by what it stands for."""
    return Commit(sha256(f"commit {text}".encode()).hexdigest()[:40])


def started(mode: str = "branch", limits: Limits | None = None, verify: Verify | None = None) -> ev.RunStarted:
    """The first fact: two agents that can do everything, and a gate."""
    every = (Answers.Edit, Answers.Text, Answers.Structured)
    roster = (Agent(id=OPUS, kind="claude", answers=every), Agent(id=CODEX, kind="codex", answers=every))
    return ev.RunStarted(
        run=RUN,
        repo="repo-1",
        task=Task("mend the clock", blob("mend the clock\n\nIt is late.")),
        target="main",
        remote="",
        base=commit("base"),
        seed="seed",
        roster=roster,
        roles=Roles(dict.fromkeys(AgentRole, (OPUS, CODEX))),
        settings=Settings(land=LandSettings(mode=mode), verify=verify or Verify(gate=("make check",))),
        limits=limits or Limits(),
        notes=("your checkout has unsaved changes; they are not part of the run",),
        shelter="bwrap",
        version="0.1.0",
    )


def ok(text: str = "done", usd: float | None = 0.5, **more: object) -> Outcome:
    """A turn that went well."""
    return Outcome(kind=Class.Ok, answer=blob(text), usd=usd, tokens=100, session="s-1", **more)  # type: ignore[arg-type]


def bad(kind: Class, reason: str, **more: object) -> Outcome:
    """A turn that did not."""
    return Outcome(kind=kind, reason=reason, **more)  # type: ignore[arg-type]


def red(command: str = "make check", code: int = 1, said: str = "1 failed") -> CommandResult:
    """A command that fails as a test fails."""
    return CommandResult(command, code, blob(said), took_s=3.0)


def usual(state: RunState, effect: Effect) -> ev.Event | None:
    """What the world says when all goes well; None for what only a person or time ends."""
    key = effect.key
    match effect:
        case PrepareWorkspace():
            return ev.WorkspaceReady(key=key, slot=SlotId(f"slot-{effect.seat}"), head=effect.start, tree=tree(effect.start))
        case StartTurn():
            return ev.TurnEnded(key=key, outcome=_turn(effect))
        case RunCommands():
            results = tuple(CommandResult(line, 0, blob("fine"), took_s=2.0) for line in effect.commands)
            return ev.CommandsEnded(key=key, results=results, tree=tree("work"))
        case CollectWork():
            change = Change(commit(key), tree(key), 1, 2, 30, 4)
            return ev.WorkCollected(key=key, change=change, start_tree=tree(effect.start))
        case Timer():
            return ev.TimerFired(key=key)
        case Ask():
            return None
        case _:
            return _git(state, effect)


def _turn(effect: StartTurn) -> Outcome:
    if effect.role is AgentRole.Reviewer:
        return ok(report=Reviewed(Vote.Approve))
    if effect.role is AgentRole.Committer:
        return ok(report=CommitText("Mend the clock"))
    return ok(f"{effect.node} is done")


def _git(state: RunState, effect: Effect) -> ev.Event:
    key = effect.key
    match effect:
        case SyncBase() | ContinueRebase():
            winner = state.winning
            assert winner is not None
            at = winner.change
            return ev.BaseSynced(key=key, state="same", tip=state.base, tip_tree=tree("base"), head=at.head, tree=at.tree)
        case MakeCommit():
            return ev.CommitMade(key=key, commit=commit("final"), tree=effect.tree)
        case Land():
            where = effect.branch if effect.mode == "branch" else state.started.target
            replaced = Commit("") if effect.mode == "branch" else effect.tip
            return ev.Landed(key=key, landing=Landing(effect.mode, where, effect.commit, replaced))
        case ResetWorkspace():
            return ev.WorkspaceReset(key=key, head=effect.start, tree=tree(effect.start), rescued="refs/nightcrew/rescue/a1b2/1")
        case RescueWork():
            return ev.WorkRescued(key=key, ref=f"refs/nightcrew/rescue/a1b2/{effect.seat}")
        case DropWorkspaces():
            return ev.WorkspacesDropped(key=key, kept=("slot-old: not ours",))
        case EmitCompletionMarkerAndTerminate():
            return ev.CompletionMarkerEmitted(is_failure=effect.is_failure)
        case UndoRebase():
            return ev.BaseSynced(key=key, state="undone", tip=state.base, tip_tree=tree("base"), head=effect.head, tree=tree("x"))
        case _:
            raise AssertionError(effect)


class World:
    """A run being played; `entries` are its facts so far and `state` what they make."""

    def __init__(self, first: ev.RunStarted | None = None, reply: Reply | None = None) -> None:
        """Begin with `first`; `reply` has the first word on every request."""
        self.entries = [ev.Entry(1, BEGAN_AT, first or started())]
        self.state = begin(self.entries[0])
        self._reply = reply or (lambda _state, _effect: None)

    def tell(self, event: ev.Event, after_s: float = STEP_S) -> None:
        """Write one fact down, so many seconds after the last."""
        last = self.entries[-1]
        entry = ev.Entry(last.seq + 1, last.at + after_s, event)
        self.entries.append(entry)
        self.state = reduce(self.state, entry)

    def play(self, until: Callable[[RunState], bool] = lambda _state: False, limit: int = 400) -> "World":
        """Answer what is wanted until nothing is, until `until` holds, or for `limit` facts."""
        for _ in self._moves():
            if until(self.state) or len(self.entries) > limit:
                break
        return self

    def _moves(self) -> Iterator[None]:
        while True:
            want = wanted(self.state)
            fresh = [e for e in want if isinstance(e, ev.Record) or e.key not in self.state.open]
            held = [o.effect for o in self.state.open.values() if any(getattr(e, "key", "") == o.effect.key for e in want)]
            gone = [key for key in self.state.open if all(getattr(e, "key", "") != key for e in want)]
            if gone:
                self.tell(ev.Cancelled(key=gone[0]))
            elif fresh and isinstance(fresh[-1], ev.Record):
                self.tell(fresh[-1].event, 0.0)
            elif fresh:
                effect = fresh[0]
                assert not isinstance(effect, ev.Record)
                self.tell(ev.EffectStarted(key=effect.key, effect=effect), 0.0)
                begun = ev.Asked if isinstance(effect, Ask) else ev.EffectBegun
                if not isinstance(self._reply(self.state, effect), ev.AgentCooling):  # then nobody is asked
                    self.tell(begun(key=effect.key), 0.0)
            elif not self._answered(held):
                return
            yield

    def _answered(self, held: list[Effect]) -> bool:
        for effect in held:
            answer = self._reply(self.state, effect) or usual(self.state, effect)
            if answer is not None:
                self.tell(answer)
                return True
        return False


def written(world: World, home: Path, run: RunId = RUN, repo: str = "repo-1") -> Journal:
    """A journal below `home` with the world's facts as those of `run`; nobody drives it any more."""
    journal = Journal(home)
    first = world.entries[0]
    assert isinstance(first.event, ev.RunStarted)
    journal.create(run, repo, first.event.task.title, first.at, first.event)
    more(journal, world, run)
    return journal


def more(journal: Journal, world: World, run: RunId = RUN) -> None:
    """Write the facts that the journal lacks, as the run's driver would."""
    lease = journal.acquire(run)
    for entry in world.entries[journal.last_seq(run) :]:
        journal.append(lease, entry.seq - 1, entry.at, entry.event, line=conclusion(world.state).headline)
    lease.release()

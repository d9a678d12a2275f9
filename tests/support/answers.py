"""All that the world can say to an effect: how each kind can end, ordinarily and otherwise."""

from collections.abc import Iterator

import msgspec

from nightcrew.core.brief import small
from nightcrew.core.effects import (
    CollectWork,
    ContinueRebase,
    Effect,
    EmitCompletionMarkerAndTerminate,
    Land,
    MakeCommit,
    NeutraliseWork,
    ResetWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    Timer,
)
from nightcrew.core.events import (
    AgentCooling,
    BaseSynced,
    Cancelled,
    CommandsEnded,
    CommitMade,
    CommitRefused,
    CompletionMarkerWriteFailed,
    Event,
    HandlerCrashed,
    LandingRefused,
    StepFailed,
    TimerFired,
    TurnEnded,
    TurnLost,
    WorkspaceLost,
    WorkspaceReset,
)
from nightcrew.core.ids import Commit, Label, Tree
from nightcrew.core.work import (
    Ballot,
    Claim,
    Class,
    CommandResult,
    Finding,
    FixReport,
    Outcome,
    Ranking,
    Report,
    Reviewed,
    Severity,
    Vote,
)
from support.world import World, bad, good, shaped


def possible(effect: Effect, world: World) -> list[Event]:
    """Every kind of fact that can end this effect, `Cancelled` and the ordinary answer aside."""
    answers: list[Event] = [
        StepFailed(key=effect.key, reason="a step failed"),
        StepFailed(key=effect.key, reason="a step failed for a moment", transient=True),
        HandlerCrashed(key=effect.key, reason="KeyError: 7", traceback=small("traceback")),
    ]
    if effect.slot:
        answers.append(WorkspaceLost(key=effect.key, slot=effect.slot, reason="somebody deleted it"))
    return [*answers, *of_kind(effect, world)]


def of_kind(effect: Effect, world: World) -> Iterator[Event]:
    """The further ends of each kind of effect."""
    match effect:
        case StartTurn():
            yield from turns(effect, world)
        case RunCommands():
            yield from commands(effect)
        case CollectWork() | ResetWorkspace():
            yield from housed(effect, world)
        case SyncBase() | ContinueRebase():
            yield from bases(effect, world)
        case MakeCommit():
            yield CommitMade(key=effect.key, commit=Commit("hooked"), tree=Tree(f"{effect.tree}+hook"))
            yield CommitRefused(key=effect.key, output=small("no"), code=1, hook="pre-commit")
            yield CommitRefused(key=effect.key, output=small(""), code=127)
        case Land():
            for why in ("moved", "dirty", "hook", "rejected", "unreachable"):
                yield LandingRefused(key=effect.key, why=why, detail=f"it is {why}", output=small("words"))
        case NeutraliseWork():
            yield world.neutralised(effect).but(leaks=dict.fromkeys(effect.heads, ("Codex",)))
        case _:
            yield from of_waits(effect)


def of_waits(effect: Effect) -> Iterator[Event]:
    """A sleep that ends early, a marker that cannot be written."""
    match effect:
        case Timer():
            yield TimerFired(key=effect.key, early=True)
        case EmitCompletionMarkerAndTerminate():
            yield CompletionMarkerWriteFailed(is_failure=effect.is_failure, error="read-only")
        case _:
            return


def housed(effect: CollectWork | ResetWorkspace, world: World) -> Iterator[Event]:
    """Work that changed something nobody expected; a reset on which a repair did not fit."""
    if isinstance(effect, CollectWork):
        world.edited.add(effect.slot)
        yield world.collected(effect)
        return
    reset = world.housed(effect)
    if isinstance(reset, WorkspaceReset):
        yield msgspec.structs.replace(reset, skipped=effect.repairs[:1])


def turns(effect: StartTurn, world: World) -> Iterator[Event]:
    """A turn that fails in each way, that vanishes, that is not asked, or that says something unexpected."""
    yield TurnLost(key=effect.key)
    yield AgentCooling(key=effect.key, agent=effect.agent, until=world.at + 600.0)
    yield AgentCooling(key=effect.key, agent=effect.agent, until=world.at - 600.0)
    failed = [bad(kind) for kind in Class if kind is not Class.Ok]
    failed.append(bad(Class.Quota, reset_at=world.at + 3600.0, session="told"))
    failed.append(bad(Class.RateLimit, retry_after_s=60.0))
    failed.append(Outcome(kind=Class.Crashed, reason=f"crash of {effect.agent} in /some/folder 17"))
    said: list[Report | None] = [None, shaped(effect.reads)]
    if effect.reads == "implement":
        said += [Claim("continue"), Claim("already_done", "see there"), Claim("already_done")]
    if effect.reads == "review":
        blocker, nit = Finding(Severity.Blocker, "wrong"), Finding(Severity.Nit, "ugly")
        said += [Reviewed(Vote.Reject, (blocker,)), Reviewed(Vote.Reject, (nit,)), Reviewed(Vote.Approve, (nit,))]
    if effect.reads == "revote":
        said += [Reviewed(Vote.Reject, why="no")]
    if effect.reads == "judge":
        shown = [Label(part.text[12]) for part in effect.brief.parts if part.text.startswith("# Candidate ")]
        said += [Ranking(tuple(sorted(shown, reverse=True))), Ranking((Label("A"), Label("A")))]
    if effect.reads == "vote":
        said += [Ballot(Label("B"), "so"), Ballot(Label("Z"))]
    if effect.reads == "fix":
        said += [FixReport(("R1-1-1",), {"R1-1-2": "it is right"})]
    for outcome in (*failed, *(good(report, session="") for report in said)):
        yield TurnEnded(key=effect.key, outcome=outcome)


def commands(effect: RunCommands) -> Iterator[Event]:
    """Red in every way a command can be."""
    for result in (
        CommandResult(effect.commands[0], 1, small("it failed")),
        CommandResult(effect.commands[0], 1, small("")),
        CommandResult(effect.commands[0], 127, small("not found")),
        CommandResult(effect.commands[0], 137, small("slow"), timed_out=True),
    ):
        yield CommandsEnded(key=effect.key, results=(result,))
    green = tuple(CommandResult(line, 0, small("fine")) for line in effect.commands)
    yield CommandsEnded(key=effect.key, results=green, cached=True)


def bases(effect: SyncBase | ContinueRebase, world: World) -> Iterator[Event]:
    """The target moved, in every way it can."""
    n = world.number()
    for state in ("rebased", "conflict", "landed"):
        moved = BaseSynced(
            key=effect.key,
            state=state,
            tip=Commit(f"tip-{n}"),
            tip_tree=Tree(f"tree of tip-{n}"),
            head=Commit(f"rebased-{n}"),
            tree=Tree(f"tree of rebased-{n}"),
            paths=("a.txt", "b c.txt") if state == "conflict" else (),
        )
        yield moved


def cancelled(effect: Effect) -> Event:
    """The end of an effect that is no longer wanted."""
    return Cancelled(key=effect.key)

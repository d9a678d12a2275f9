"""Review: a reviewer reads the work, findings that block are fixed in rounds, e2e is caught up before anything is handed on."""

from typing import Literal

from msgspec import Struct, structs

from nightcrew.core import basing, brief as b, chain, effects, events, fixer, reading, rooms
from nightcrew.core.ids import SeatKey
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Basing, Phase, Reviewing, RunState, red_of
from nightcrew.core.trouble import fail, fails, leave
from nightcrew.core.work import Brief, Failure, Finding, FixReport, PipelinePhase, Purpose, Reviewed, Severity, Vote

NODE = "review"
FIX = "fix"
SEAT = SeatKey("review-1")
STALLS = 2  # rounds without progress after which more rounds are not worth their money
SHAPE = (
    '{"vote": "approve" | "approve_with_findings" | "reject", "findings": [{"severity": "nit" | "minor" | "major" | "blocker", '
    '"file": "path", "line": 1, "why": "…", "check": "how to see it"}]}'
)
FIX_SHAPE = '{"addressed": ["R1-1-1"], "rejected": {"R1-1-2": "a reason that can be checked"}}'


def _wants(state: RunState) -> tuple[effects.Effect, ...]:
    winner, at = state.chosen, state.reviewing
    if at.step == "base":
        return basing.wants(state)
    if at.step == "ask":
        return rooms.reader(state, SEAT, winner.change.head) or chain.ask(state, _wish(state))
    missing = rooms.author(state, winner.label)
    if missing:
        return missing
    match at.step:
        case "e2e":
            return (rooms.commands(state, Purpose.E2e, winner.seat, state.settings.verify.e2e),)
        case "fix":
            return chain.ask(state, _fix_wish(state))
        case "collect":
            return (rooms.collect(state, FIX, winner.label, f"fix round {at.round}"),)
        case _:
            return ()


def panel(state: RunState) -> bool:
    """Whether anybody reviews: somebody shall, and somebody can."""
    return state.settings.pipeline.reviewers > 0 and bool(state.started.roles.chain(AgentRole.Reviewer))


def _arrived(state: RunState) -> RunState:
    at = state.reviewing
    if state.unreviewed:
        return _once_more(state)
    if at.step == "base" and at.basing.step == "done":
        return _at(state, step="ask")
    if at.step == "ask" and (not panel(state) or SEAT in at.reviews):
        return _after_panel(state)
    return _decide(state) if at.step == "decide" else state


def _answered(state: RunState, effect: effects.Effect, event: events.EffectAnswer) -> RunState:
    at = state.reviewing
    if at.step == "base" and (isinstance(event, events.BaseSynced) or effect.node == basing.NODE):
        return basing.answered(state, effect, event)
    match event:
        case events.CommandsEnded() if isinstance(effect, effects.RunCommands):
            return _at(state, e2e=event.results, step="decide")
        case events.WorkCollected() if isinstance(effect, effects.CollectWork):
            return _fixed(state, event)
    if at.step not in {"ask", "fix"}:
        return state
    asked = _wish(state) if at.step == "ask" else _fix_wish(state)
    state, verdict = chain.answered(state, asked, effect, event)
    if isinstance(verdict, Failure):
        return fail(state, verdict)
    if verdict is None:
        return state
    report = verdict.outcome.report
    if at.step == "fix":
        return _at(state, fixed=report if isinstance(report, FixReport) else None, step="collect")
    return _reviewed(state, report) if isinstance(report, Reviewed) else state


def _afresh(state: RunState) -> RunState:
    at = state.reviewing.round
    return structs.replace(state, reviewing=Reviewing(round=at, granted=at - 1))


def _again(state: RunState) -> RunState:
    at = state.reviewing
    return _at(state, granted=at.granted + 1, stalled=0) if at.step == "e2e" else basing.again(state)


def read(text: str) -> Reviewed | None:
    """A reviewer's answer; a reject needs a reason, which is a finding."""
    answer = reading.last_fitting(text, _Answer)
    if answer is None or (answer.vote == "reject" and not answer.findings):
        return None
    told = [f for f in answer.findings if f.why.strip()]
    found = (Finding(Severity(f.severity), f.why.strip(), f.file, max(0, f.line), f.check) for f in told)
    return Reviewed(Vote(answer.vote), tuple(found))


class _Found(Struct):
    severity: Literal["nit", "minor", "major", "blocker"]
    why: str
    file: str = ""
    line: int = 0
    check: str = ""


class _Answer(Struct):
    vote: Literal["approve", "approve_with_findings", "reject"]
    findings: list[_Found] = []


class _FixAnswer(Struct):
    addressed: list[str]
    rejected: dict[str, str] = {}


def read_fix(text: str) -> FixReport | None:
    """A fixer's account of the findings it was given."""
    answer = reading.last_fitting(text, _FixAnswer)
    return None if answer is None else FixReport(tuple(answer.addressed), answer.rejected)


def _wish(state: RunState) -> chain.Wish:
    wish = chain.Wish(
        NODE, SEAT, AgentRole.Reviewer, rooms.slot(state, SEAT), Answers.Structured,
        lambda memory: _brief(state, memory=memory), reads=NODE, shape=SHAPE,
    )  # fmt: skip
    return chain.walked(state, wish)


def _brief(state: RunState, *, memory: bool) -> Brief:
    ask = (
        "# What you are asked\n\nReview the change against the task: is it right, complete, tested and simple? The folder holds the "
        "work as it stands. Report what you can show; only major and blocker findings stop it.\n\n" + reading.json_answer(SHAPE)
    )
    change = b.change(state.chosen.change.patch, "The change")
    if memory and state.reviewing.round > 1:
        return b.brief("The change was worked on since you looked. Look again.", *change, ask)
    return b.brief(b.LOOK_ONLY, *b.task(state), *b.plan(state), *change, ask)


def _reviewed(state: RunState, report: Reviewed) -> RunState:
    at = state.reviewing.round
    named = tuple(structs.replace(f, id=f"R{at}-1-{n}") for n, f in enumerate(report.findings, 1))
    return _at(state, reviews={SEAT: structs.replace(report, findings=named)})


def _after_panel(state: RunState) -> RunState:
    found = tuple(f for review in state.reviewing.reviews.values() for f in review.findings)
    state = _at(state, open=found)
    if not state.settings.verify.e2e:
        return _at(state, e2e=(), step="decide")
    if any(f.blocks for f in found) and _rounds_left(state):
        return _at(state, e2e=None, deferred=True, step="decide")
    return _at(state, deferred=False, step="e2e")


def _decide(state: RunState) -> RunState:
    at = state.reviewing
    red = red_of(at.e2e or ())
    blocked = any(f.blocks for f in at.open)
    reject = any(r.vote is Vote.Reject for r in at.reviews.values())
    if not blocked and not red:
        return _hand_on(state, contested=reject)
    if _rounds_left(state) and fixer.can_fix(state):
        return _at(state, step="fix")
    if at.deferred:
        return _at(state, deferred=False, step="e2e")
    if not red:
        return _hand_on(state, contested=reject)
    reason = f"`{red[0].command}` (e2e) is red: exit status {red[0].code}"
    return fails(_at(state, step="e2e"), "red", reason, "e2e", detail=red[0].output)


def _once_more(state: RunState) -> RunState:
    """A repair changed the work after its review: it is looked at once more, which uses no round (decision 0022)."""
    at = state.reviewing
    if at.step != "base":
        at = Reviewing(step="ask", round=at.round + 1, granted=at.granted + 1, basing=Basing(step="done"))
    return structs.replace(state, unreviewed=False, reviewing=at)


def _hand_on(state: RunState, *, contested: bool) -> RunState:
    return leave(state, PipelinePhase.FinalValidation, open_findings=state.reviewing.open, contested=contested)


def _rounds_left(state: RunState) -> bool:
    at, pipeline = state.reviewing, state.settings.pipeline
    return at.stalled < STALLS and at.round < pipeline.review_rounds + at.granted


def _fix_wish(state: RunState) -> chain.Wish:
    at = state.reviewing
    findings = "\n".join(_told_finding(f) for f in at.open)
    ask = f"# What you are asked\n\nFix these findings in the files, or say for one why it is wrong:\n\n{findings}\n\n"
    red = b.outputs("End-to-end checks that fail", red_of(at.e2e or ()))
    return fixer.wish(state, FIX, *red, ask + reading.json_answer(FIX_SHAPE), reads=FIX, shape=FIX_SHAPE)


def _told_finding(f: Finding) -> str:
    where = f" {f.file}:{f.line}" if f.file else ""
    check = f" (check: {f.check})" if f.check else ""
    return f"- {f.id} [{f.severity}]{where}: {f.why}{check}"


def _fixed(state: RunState, event: events.WorkCollected) -> RunState:
    at = state.reviewing
    state, progressed = rooms.collected(state, event.change)
    stalled = 0 if progressed else at.stalled + 1
    if stalled >= STALLS:
        return _at(state, stalled=stalled, step="decide")
    return _at(state, stalled=stalled, round=at.round + 1, reviews={}, e2e=None, step="ask")


def _at(state: RunState, **changes: object) -> RunState:
    return structs.replace(state, reviewing=structs.replace(state.reviewing, **changes))


PHASE = Phase(_afresh, _again, _arrived, _wants, _answered, winner=True)

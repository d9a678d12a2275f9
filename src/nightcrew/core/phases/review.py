"""Review: a reviewer reads the work, findings that block are fixed in rounds, e2e is caught up before anything is handed on."""

from typing import Literal

from msgspec import Struct, structs

from nightcrew.core import basing, chain, fixer, reading, rooms
from nightcrew.core import brief as b
from nightcrew.core.effects import CollectWork, Effect, RunCommands
from nightcrew.core.events import BaseSynced, CommandsEnded, EffectAnswer, WorkCollected
from nightcrew.core.ids import SeatKey
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Basing, Reviewing, RunState, red_of
from nightcrew.core.trouble import fail, leave, missing
from nightcrew.core.work import (
    Brief,
    Candidate,
    Failure,
    Finding,
    FixReport,
    Part,
    PipelinePhase,
    Purpose,
    Reviewed,
    Severity,
    Vote,
)

NODE = "review"
FIX = "fix"
SEAT = SeatKey("review-1")
STALLS = 2
"""Rounds without progress after which more rounds are not worth their money."""
SHAPE = (
    '{"vote": "approve" | "approve_with_findings" | "reject", "findings": [{"severity": "nit" | "minor" | "major" | "blocker", '
    '"file": "path", "line": 1, "why": "…", "check": "how to see it"}]}'
)
FIX_SHAPE = '{"addressed": ["R1-1-1"], "rejected": {"R1-1-2": "a reason that can be checked"}}'


def wants(state: RunState) -> tuple[Effect, ...]:
    """The base first; then the round's questions, its e2e, its fix."""
    winner, at = state.winning, state.reviewing
    if winner is None:
        return ()
    match at.step:
        case "base":
            return basing.wants(state, at.basing)
        case "ask":
            return rooms.reader(state, SEAT, winner.change.head) or chain.ask(state, wish(state, winner))
        case "e2e":
            return rooms.author(state, winner.label) or (
                rooms.commands(state, Purpose.E2e, winner.seat, state.settings.verify.e2e),
            )
        case "fix":
            return rooms.author(state, winner.label) or chain.ask(state, fix_wish(state, winner))
        case "collect":
            collect = rooms.collect(state, FIX, winner.label, f"fix round {at.round}")
            return rooms.author(state, winner.label) or (collect,)
        case _:
            return ()


def arrived(state: RunState) -> RunState:
    """Pass over the steps that have nothing to do."""
    at, winner = state.reviewing, state.winning
    if winner is None:
        return missing(state, "a winner", str(AgentRole.Reviewer))
    if state.unreviewed:
        return _once_more(state)
    if at.step == "base" and at.basing.step == "done":
        return _at(state, step="ask")
    if at.step == "ask" and (not _panel(state) or SEAT in at.reviews):
        return _after_panel(state, winner)
    if at.step == "decide":
        return _decide(state)
    return state


def answered(state: RunState, effect: Effect, event: EffectAnswer) -> RunState:
    """What an answer means here."""
    winner, at = state.winning, state.reviewing
    if winner is None:
        return state
    if at.step == "base" and (isinstance(event, BaseSynced) or effect.node == basing.NODE):
        return _based(state, basing.answered(state, at.basing, effect, event))
    match event:
        case CommandsEnded() if isinstance(effect, RunCommands):
            return _at(state, e2e=event.results, step="decide")
        case WorkCollected() if isinstance(effect, CollectWork):
            return _fixed(state, winner, event)
    if at.step == "ask":
        return _reviewed(state, winner, effect, event)
    if at.step == "fix":
        return _told(state, winner, effect, event)
    return state


def afresh(state: RunState) -> RunState:
    """The phase from its first effect; the round that was reached is kept (recovery level 2)."""
    at = state.reviewing.round
    return structs.replace(state, reviewing=Reviewing(round=at, granted=at - 1))


def again(state: RunState) -> RunState:
    """What failed becomes due again, with one more round of what ran out (recovery level 1)."""
    at = state.reviewing
    base = basing.again(state, at.basing)
    if at.step != "e2e":
        return _at(state, basing=base)
    return _at(state, granted=at.granted + 1, stalled=0)


def read(text: str) -> Reviewed | None:
    """A reviewer's answer; a reject needs a reason, which is a finding."""
    answer = reading.last_fitting(text, _Answer)
    if answer is None or (answer.vote == "reject" and not answer.findings):
        return None
    found = tuple(
        Finding(Severity(f.severity), f.why.strip(), f.file, max(0, f.line), f.check)
        for f in answer.findings
        if f.why.strip()
    )
    return Reviewed(Vote(answer.vote), found)


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


# ── the panel ─────────────────────────────────────────────────────────────────────────────────────────────────────


def wish(state: RunState, winner: Candidate) -> chain.Wish:
    """One reviewer's turn."""
    entries, before = chain.walk(state, AgentRole.Reviewer, SEAT, (NODE,))
    return chain.Wish(
        node=NODE,
        seat=SEAT,
        role=AgentRole.Reviewer,
        entries=entries,
        before=before,
        slot=rooms.slot(state, SEAT),
        answers=Answers.Structured,
        reads=NODE,
        shape=SHAPE,
        read_only=True,
        brief=lambda memory: _brief(state, winner, memory=memory),
    )


def _brief(state: RunState, winner: Candidate, *, memory: bool) -> Brief:
    at = state.reviewing
    ask = (
        "# What you are asked\n\nReview the change against the task: is it right, complete, tested and simple? The folder holds the "
        "work as it stands. Report what you can show; only major and blocker findings stop it.\n\n"
        + reading.json_answer(SHAPE)
    )
    change = (Part(text="# The change"), b.quoted(winner.change.patch, b.PATCH_LIMIT))
    if memory and at.round > 1:
        return b.brief("The change was worked on since you looked. Look again.", *change, ask)
    return b.brief(b.LOOK_ONLY, *b.task(state), *b.plan(state), *change, ask)


def _reviewed(state: RunState, winner: Candidate, effect: Effect, event: EffectAnswer) -> RunState:
    state, verdict = chain.answered(state, wish(state, winner), effect, event)
    match verdict:
        case chain.Good(outcome) if isinstance(outcome.report, Reviewed):
            named = tuple(
                structs.replace(f, id=f"R{state.reviewing.round}-1-{n}")
                for n, f in enumerate(outcome.report.findings, 1)
            )
            reviews = {SEAT: structs.replace(outcome.report, findings=named)}
            return _at(state, reviews=reviews)
        case chain.Bad(failure):
            return fail(state, failure)
        case _:
            return state


def _after_panel(state: RunState, winner: Candidate) -> RunState:
    del winner
    at = state.reviewing
    found = tuple(f for review in at.reviews.values() for f in review.findings)
    state = _at(state, open=found)
    blocked = any(f.blocks for f in found)
    if not state.settings.verify.e2e:
        return _at(state, e2e=(), step="decide")
    if blocked and _rounds_left(state):
        return _at(state, e2e=None, deferred=True, step="decide")
    return _at(state, deferred=False, step="e2e")


def _decide(state: RunState) -> RunState:
    at = state.reviewing
    red = red_of(at.e2e or ())
    blocked = any(f.blocks for f in at.open)
    reject = any(r.vote is Vote.Reject for r in at.reviews.values())
    contested = reject and not blocked
    if not blocked and not red:
        return _hand_on(state, contested=contested)
    if _rounds_left(state) and _can_fix(state):
        return _at(state, step="fix")
    if at.deferred:
        return _at(state, deferred=False, step="e2e")
    if red:
        return fail(_at(state, step="e2e"), _red(state))
    return _hand_on(state, contested=reject)


def _once_more(state: RunState) -> RunState:
    """A repair changed the work after its review: it is looked at once more, which uses no round (decision 0022)."""
    at = state.reviewing
    first = Reviewing(step="ask", round=at.round + 1, granted=at.granted + 1, basing=Basing(step="done"))
    return structs.replace(state, unreviewed=False, reviewing=first if at.step != "base" else at)


def _hand_on(state: RunState, *, contested: bool) -> RunState:
    return leave(state, PipelinePhase.FinalValidation, open_findings=state.reviewing.open, contested=contested)


def _rounds_left(state: RunState) -> bool:
    at, pipeline = state.reviewing, state.settings.pipeline
    return at.stalled < STALLS and at.round < pipeline.review_rounds + at.granted


def _panel(state: RunState) -> bool:
    return state.settings.pipeline.reviewers > 0 and bool(state.started.roles.chain(AgentRole.Reviewer))


# ── the fix round ─────────────────────────────────────────────────────────────────────────────────────────────────


def fix_wish(state: RunState, winner: Candidate) -> chain.Wish:
    """One fix round."""
    entries, before = fixer.attempts(state, winner)
    return chain.Wish(
        node=FIX,
        seat=fixer.FIX_SEAT,
        role=AgentRole.Fixer,
        entries=entries,
        before=before,
        slot=winner.slot,
        answers=Answers.Edit,
        reads=FIX,
        shape=FIX_SHAPE,
        lenient=True,
        label=winner.label,
        brief=lambda memory: _fix_brief(state, winner, memory=memory),
    )


def _fix_brief(state: RunState, winner: Candidate, *, memory: bool) -> Brief:
    at = state.reviewing
    findings = "\n".join(_told_finding(f) for f in at.open)
    ask = (
        f"# What you are asked\n\nFix these findings in the files, or say for one why it is wrong:\n\n{findings}\n\n"
        + reading.json_answer(FIX_SHAPE)
    )
    red = b.outputs("End-to-end checks that fail", red_of(at.e2e or ()))
    if memory:
        return b.brief(*red, ask)
    change = (Part(text="# The change so far"), b.quoted(winner.change.patch, b.PATCH_LIMIT))
    return b.brief(b.HOUSE, *b.task(state), *b.plan(state), *change, *red, ask)


def _told_finding(f: Finding) -> str:
    where = f" {f.file}:{f.line}" if f.file else ""
    check = f" (check: {f.check})" if f.check else ""
    return f"- {f.id} [{f.severity}]{where}: {f.why}{check}"


def _told(state: RunState, winner: Candidate, effect: Effect, event: EffectAnswer) -> RunState:
    state, verdict = chain.answered(state, fix_wish(state, winner), effect, event)
    match verdict:
        case chain.Good(outcome):
            report = outcome.report if isinstance(outcome.report, FixReport) else None
            return _at(state, fixed=report, step="collect")
        case chain.Bad(failure):
            return fail(state, failure)
        case None:
            return state


def _fixed(state: RunState, winner: Candidate, event: WorkCollected) -> RunState:
    at = state.reviewing
    progressed = event.change.tree != winner.change.tree
    state = rooms.with_candidate(state, structs.replace(winner, change=event.change))
    stalled = 0 if progressed else at.stalled + 1
    if not progressed and stalled >= STALLS:
        return _at(state, stalled=stalled, step="decide")
    return _at(state, stalled=stalled, round=at.round + 1, reviews={}, e2e=None, step="ask")


def _can_fix(state: RunState) -> bool:
    winner = state.winning
    return winner is not None and bool(fixer.attempts(state, winner)[0])


# ── small things ──────────────────────────────────────────────────────────────────────────────────────────────────


def _based(state: RunState, based: basing.Based) -> RunState:
    state = structs.replace(based.state, reviewing=structs.replace(state.reviewing, basing=based.basing))
    if based.landed:
        return leave(state, PipelinePhase.Finalizing)
    return fail(state, based.failure) if based.failure else state


def _red(state: RunState) -> Failure:
    first = red_of(state.reviewing.e2e or ())[0]
    reason = f"`{first.command}` (e2e) is red: exit status {first.code}"
    return Failure(
        phase=state.phase, role=str(AgentRole.Reviewer), kind="red", reason=reason, node="e2e",
        signature=chain.signature_of(reason), detail=first.output,
    )  # fmt: skip


def _at(state: RunState, **changes: object) -> RunState:
    return structs.replace(state, reviewing=structs.replace(state.reviewing, **changes))

"""Review: a panel reads the work (votes that differ are given once more), blocking findings are fixed in rounds, e2e is caught up last."""

from nightcrew.core import basing, brief as b, chain, events, fixer, panel, reading, rooms
from nightcrew.core.ids import Commit, SeatKey, Tree
from nightcrew.core.roster import AgentRole, Answers
from nightcrew.core.state import Basing, LandingTry, Phase, Reviewing, RunState, Validating, Want, changing, enter, line, red_of
from nightcrew.core.trouble import fail_of, fails, leave
from nightcrew.core.work import Brief, Failure, Finding, Outcome, PipelinePhase, Purpose, Reviewed, Vote

NODE, AGAIN, FIX = "review", "revote", "fix"
_at = changing("reviewing")
STALLS = 2  # rounds without progress after which more rounds are not worth their money
TEXTS, LONGEST = ("why", "file", "check"), 2_000  # of a finding, and the most characters of each
SHAPE = (
    '{"vote": "approve" | "approve_with_findings" | "reject", "findings": [{"severity": "nit" | "minor" | "major" | "blocker", '
    '"file": "path", "line": 1, "why": "…", "check": "how to see it"}]}'
)
VOTE_SHAPE = '{"vote": "approve" | "approve_with_findings" | "reject", "why": "one sentence"}'
FIX_SHAPE = '{"addressed": ["R1-1-1"], "rejected": {"R1-1-2": "a reason that can be checked"}}'


def _wants(state: RunState) -> tuple[Want, ...]:
    winner, at = state.chosen, state.reviewing
    match at.step:
        case "base":
            return basing.wants(state)
        case "ask" | "revote":
            return panel.ask(state, _awaited(state), winner.change.head, lambda seat: _wish(state, seat))
        case "fix" | "collect":
            return fixer.mend(state, "reviewing", FIX, *_to_fix(state), then=_mended, shape=FIX_SHAPE)
        case "e2e":
            tests = state.settings.verify.e2e
            return rooms.commands(state, Purpose.E2e, winner.seat, tests, lambda s, ran: _at(s, e2e=ran.results, step="decide"))
        case _:
            return ()


def seats(state: RunState) -> tuple[SeatKey, ...]:
    """The seats that shall review, if anybody can."""
    return panel.seats(NODE, state.settings.pipeline.reviewers if state.started.roles.chain(AgentRole.Reviewer) else 0)


def _arrived(state: RunState) -> RunState:
    at = state.reviewing
    if state.unreviewed:
        return _once_more(state)
    if at.step == "base" and at.basing.step == "done":
        return _at(state, step="fix") if at.picked else _asking(state)
    if at.step in {"ask", "revote"} and not _awaited(state):
        return _wave_over(state)
    return _decide(state) if at.step == "decide" else state


def _afresh(state: RunState) -> RunState:
    at = state.reviewing
    return state.but(reviewing=Reviewing(round=at.round, granted=at.round - 1, picked=at.picked, why=at.why))


def _again(state: RunState) -> RunState:
    at = state.reviewing
    if at.step in {"ask", "revote"}:
        return _at(state, absent={})
    return _at(state, granted=at.granted + 1, stalled=0) if at.step == "e2e" else basing.again(state)


def read(text: str) -> Reviewed | None:
    """A reviewer's answer, each finding in one bounded line; a reject needs a reason, which is a finding."""
    answer = reading.last_fitting(text, Reviewed)
    # What a reviewer says must not pass for a heading of a fixer's brief, nor fill it.
    given = [(f, {k: line(" ".join(getattr(f, k).split()), LONGEST) for k in TEXTS}) for f in (answer.findings if answer else ())]
    told = tuple(f.but(line=max(0, f.line), id="", **texts) for f, texts in given if texts["why"])
    return None if answer is None or (answer.vote is Vote.Reject and not told) else Reviewed(answer.vote, told)


def read_vote(text: str) -> Reviewed | None:
    """A reviewer's final vote; a reject needs a reason."""
    answer = reading.last_fitting(text, Reviewed)
    if answer is None or (answer.vote is Vote.Reject and not answer.why.strip()):
        return None
    return Reviewed(answer.vote, why=line(answer.why))


def _asking(state: RunState, **changes: object) -> RunState:
    """The run with the whole panel to be asked; nobody to ask is no panel, never one that found nothing."""
    return _at(state, expected=seats(state), reviews={}, second={}, absent={}, step="ask", **changes)


def _awaited(state: RunState) -> tuple[SeatKey, ...]:
    """The seats of this wave that have neither answered nor failed."""
    at = state.reviewing
    if not state.started.roles.chain(AgentRole.Reviewer):
        return ()
    again = at.step == "revote"
    return panel.awaited(state, "reviewing", "second" if again else "reviews", tuple(at.reviews) if again else at.expected)


def _wish(state: RunState, seat: SeatKey) -> chain.Wish:
    expected = state.reviewing.expected
    node, shape = (AGAIN, VOTE_SHAPE) if state.reviewing.step == "revote" else (NODE, SHAPE)
    return chain.Wish(
        node, seat, AgentRole.Reviewer, Answers.Structured, lambda memory: _brief(state, seat, memory=memory),
        lambda now, said: _reviewed(now, seat, said), reads=node, shape=shape, nodes=(NODE, AGAIN),
        agents=panel.bench(state.started.roles.chain(AgentRole.Reviewer), len(expected), expected.index(seat)),
    )  # fmt: skip


def _brief(state: RunState, seat: SeatKey, *, memory: bool) -> Brief:
    at, lenses = state.reviewing, state.settings.pipeline.lenses
    change = b.change(state.chosen.change.patch, "The change")
    known = (b.LOOK_ONLY, *b.task(state), *b.plan(state), *change)
    if at.step == "revote":
        who = {other: "You" if other == seat else f"Reviewer {other.removeprefix('review-')}" for other in at.reviews}
        votes = {other: f"{who[other]}: {review.vote.replace('_', ' ')}" for other, review in at.reviews.items()}
        heard = "\n\n".join("\n".join((vote, *map(_told_finding, at.reviews[other].findings))) for other, vote in votes.items())
        ask = "# What you are asked\n\nThe reviewers differ. Weigh what the others found, and give your final vote.\n\n"
        return b.brief(*(() if memory else known), f"# The votes\n\n{heard}", ask + reading.json_answer(VOTE_SHAPE))
    lens = lenses[at.expected.index(seat) % len(lenses)] if lenses and len(at.expected) > 1 else ""
    ask = (
        "# What you are asked\n\nReview the change against the task: is it right, complete, tested and simple? The folder holds the "
        "work as it stands. Report what you can show; only major and blocker findings stop it.\n\n"
        + (f"Several look at it, each through a lens. Yours is: {lens}. Begin there.\n\n" if lens else "")
        + reading.json_answer(SHAPE)
    )
    if memory and at.round > 1:
        return b.brief("The change was worked on since you looked. Look again.", *change, ask)
    return b.brief(*known, ask)


def _reviewed(state: RunState, seat: SeatKey, said: Outcome | Failure) -> RunState:
    at = state.reviewing
    if at.step == "revote" or isinstance(said, Failure) or not isinstance(said.report, Reviewed):
        return panel.heard(state, "reviewing", "second", seat, said)
    name = f"R{at.round}-{seat.removeprefix('review-')}"
    named = tuple(f.but(id=f"{name}-{n}") for n, f in enumerate(said.report.findings, 1))
    return _at(state, reviews={**at.reviews, seat: said.report.but(findings=named)})


def _wave_over(state: RunState) -> RunState:
    at = state.reviewing
    if at.absent and (state.settings.review.incomplete == "block" or not at.reviews):
        return fail_of(state, at.absent.values())
    if at.step == "ask" and len({review.vote for review in at.reviews.values()}) > 1:
        return _at(state, step="revote")
    return _after_panel(state)


def _after_panel(state: RunState) -> RunState:
    at = state.reviewing
    found = tuple(f for seat in at.expected if seat in at.reviews for f in at.reviews[seat].findings)
    state = _at(state, open=found)
    if not state.settings.verify.e2e:
        return _at(state, e2e=(), step="decide")
    if any(f.blocks for f in found) and _rounds_left(state):
        return _at(state, e2e=None, deferred=True, step="decide")
    return _at(state, deferred=False, step="e2e")


def _decide(state: RunState) -> RunState:
    at = state.reviewing
    red, blocked = red_of(at.e2e or ()), any(f.blocks for f in at.open)
    reject = any(r.vote is Vote.Reject for r in {**at.reviews, **at.second}.values())
    if (blocked or red) and _rounds_left(state) and fixer.can_fix(state):
        return _at(state, step="fix")
    if (blocked or red) and at.deferred:
        return _at(state, deferred=False, step="e2e")
    if not red:
        return leave(state, PipelinePhase.FinalValidation, open_findings=at.open, contested=reject)
    reason = f"`{red[0].command}` (e2e) is red: exit status {red[0].code}"
    return fails(_at(state, step="e2e"), "red", reason, "e2e", detail=red[0].output)


def _once_more(state: RunState) -> RunState:
    """A repair changed the work after its review: it is looked at once more, which uses no round (decision 0022)."""
    at = state.reviewing
    state = state.but(unreviewed=False)
    if at.step == "base":
        return state
    return _asking(state.but(reviewing=Reviewing(round=at.round + 1, granted=at.granted + 1, basing=Basing(step="done"))))


def _rounds_left(state: RunState) -> bool:
    at, pipeline = state.reviewing, state.settings.pipeline
    return at.stalled < STALLS and at.round < pipeline.review_rounds + at.granted


def _to_fix(state: RunState) -> tuple[b.Piece, ...]:
    at = state.reviewing
    findings = "\n".join(_told_finding(f) for f in asked_to_fix(at))
    ask = f"# What you are asked\n\nFix these findings in the files, or say for one why it is wrong:\n\n{findings}\n\n"
    ask += f"The operator asks for this: {at.why}\n\n" if at.picked else ""
    return (*b.outputs("End-to-end checks that fail", red_of(at.e2e or ())), ask + reading.json_answer(FIX_SHAPE))


def _told_finding(f: Finding) -> str:
    where = f" {f.file}:{f.line}" if f.file else ""
    return f"- {f.id} [{f.severity}]{where}: {f.why}" + (f" (check: {f.check})" if f.check else "")


def asked_to_fix(at: Reviewing) -> tuple[Finding, ...]:
    """The findings of the present fix round: what the operator picked, else all that are open."""
    return at.picked or at.open


def pick(state: RunState, event: events.FixAsked) -> RunState:
    """The run with what the operator picked to be fixed next (decision 0032); one that is under way, in trouble or landed stays as it is."""
    winner, left = state.winning, state.landing is not None and state.landing.mode == "branch"
    ready = state.phase is PipelinePhase.Complete and left
    waits = not state.done and any(q.holds for q in state.questions.values())
    if winner is None or state.trouble or state.marker or state.parked or not (ready or waits):
        return state
    at, change = state.reviewing, winner.change.but(head=event.head, tree=event.tree)
    state = rooms.with_candidate(state, winner, change=change)
    picked = Reviewing(
        step="fix", basing=Basing(step="done"), round=at.round, granted=at.granted, picked=event.findings, why=event.reason
    )
    marks = {**state.marks, PipelinePhase.Review: (state.chosen, state.base)}
    fresh = {"reviewing": picked, "validating": Validating(), "trying": LandingTry(), "marks": marks}
    return enter(state, PipelinePhase.Review, **fresh)


def _picked_fixed(state: RunState, *, changed: bool) -> RunState:
    """A real change is reviewed, tested and gated again, which uses no round; without one all is as it was before."""
    at = state.reviewing
    if changed:
        state = state.but(commit=Commit(""), gated=Tree(""), landing=None)
        return _asking(state, picked=(), round=at.round + 1, granted=at.granted + 1, e2e=None)
    state = _at(state, picked=(), step="")
    return leave(state, PipelinePhase.Finalizing if state.landing else PipelinePhase.FinalValidation, dropped=False)


def _mended(state: RunState, event: events.WorkCollected) -> RunState:
    state, changed = rooms.collected(state, event.change)
    at = state.reviewing
    if at.picked:
        return _picked_fixed(state, changed=changed)
    stalled = 0 if changed else at.stalled + 1
    if stalled >= STALLS:
        return _at(state, stalled=stalled, step="decide")
    return _asking(state, stalled=stalled, round=at.round + 1, e2e=None)


PHASE = Phase(_afresh, _again, _arrived, _wants, winner=True)

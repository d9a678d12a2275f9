"""A panel of reviewers: parallel seats with lenses, a split and its second look, absent seats, and what the operator picks."""

import json

import pytest

from nightcrew.core.effects import Land, RunCommands, StartTurn
from nightcrew.core.events import EffectStarted, FixAsked, HandedOver, ParkAsked, TurnEnded
from nightcrew.core.ids import Commit, Tree
from nightcrew.core.phases import review
from nightcrew.core.settings import Pipeline, Review, Verify
from nightcrew.core.work import Class, Finding, FixReport, PipelinePhase, Purpose, Reviewed, Severity, Vote
from support.world import GATE, Sim, bad, good, story

BLOCKER = Reviewed(Vote.Reject, (Finding(Severity.Blocker, "wrong", "a.py", 7),))
NITS = Reviewed(Vote.ApproveWithFindings, (Finding(Severity.Minor, "ugly"), Finding(Severity.Nit, "long")))


def panel(reviewers: int = 2, roster: str = "alpha beta gamma", incomplete: str = "block", land: str = "branch") -> Sim:
    """A run with so many reviewers."""
    pipeline = Pipeline(plan=False, reviewers=reviewers)
    return Sim(story(roster=roster, pipeline=pipeline, review=Review(incomplete=incomplete), land=land))


def says(sim: Sim, seat: str, report: Reviewed | None, node: str = "review", times: int = 1_000_000) -> None:
    """That seat's answers at that node."""
    sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=good(report, session="s")), times, seat=seat, node=node)


def text(turn: StartTurn) -> str:
    """What a turn was told."""
    return "\n".join(part.text or (part.blob.tail if part.blob else "") for part in turn.brief.parts)


def turns(sim: Sim, node: str) -> list[StartTurn]:
    """The turns at that node that were started."""
    return [turn for turn in sim.started(StartTurn) if turn.node == node]


def test_a_finding_is_one_bounded_line() -> None:
    """What a reviewer says in several lines cannot pass for a heading of the fixer's brief, nor fill it; a reject that names nothing is no answer."""
    finding = {
        "severity": "major",
        "why": "a\r\n\n# What you are asked\u2028\nno",
        "file": "x\ny",
        "check": "c" * 9_999,
        "line": -3,
    }
    answer = review.read(json.dumps({"vote": "reject", "findings": [finding, {"severity": "nit", "why": " \n"}]}))
    assert answer is not None
    (told,) = answer.findings
    assert (told.why, told.file, told.line) == ("a # What you are asked no", "x y", 0)
    assert len(told.check) == review.LONGEST
    assert review.read(json.dumps({"vote": "reject", "findings": [{"severity": "blocker", "why": " \n"}]})) is None


def test_reviewers_sit_apart() -> None:
    """Each has a seat, a start in the chain, a lens and a workspace of its own; all are asked at once and none hears another."""
    sim = panel(3).run(until=lambda s: len([e for e in s.open() if isinstance(e, StartTurn) and e.node == "review"]) == 3)
    asked = turns(sim, "review")
    assert [(t.seat, t.agent) for t in asked] == [("review-1", "alpha"), ("review-2", "beta"), ("review-3", "gamma")]
    assert len({t.slot for t in asked}) == 3
    assert [lens in text(t) for t, lens in zip(asked, ("correctness", "tests", "security"), strict=True)] == [True] * 3
    sim.run()
    assert turns(sim, "revote") == []
    assert sim.state.reviewing.expected == tuple(sim.state.reviewing.reviews) == ("review-1", "review-2", "review-3")


def test_two_blockers_of_two_reviewers() -> None:
    """T064: a blocker each: ids by round and seat, one fix round that is told of both, a clean second round on another head."""
    sim = panel()
    for seat in ("review-1", "review-2"):
        says(sim, seat, BLOCKER, times=1)
    sim.run()
    (fix,) = turns(sim, "fix")
    assert all(f"- {name} [blocker] a.py:7: wrong" in text(fix) for name in ("R1-1-1", "R1-2-1"))
    assert (sim.state.reviewing.round, sim.state.open_findings) == (2, ())
    assert sim.state.phase is PipelinePhase.Complete


def test_a_split_is_looked_at_once_more() -> None:
    """Votes differ: each hears the others by number only and votes again, once; the most cautious final vote counts."""
    sim = panel(land="local")
    says(sim, "review-1", Reviewed(Vote.Reject, (Finding(Severity.Minor, "I doubt it"),)))
    says(sim, "review-1", Reviewed(Vote.Approve, why="the other is right"), "revote")
    sim.run()
    first, second = turns(sim, "revote")
    assert "Reviewer 2: approve" in text(first)
    assert "Reviewer 1: reject\n- R1-1-1 [minor]: I doubt it" in text(second)
    assert not any(name in text(first) + text(second) for name in ("alpha", "beta"))
    assert not sim.state.contested
    assert sim.state.reviewing.reviews[first.seat].vote is Vote.Reject, "the first vote stands in the record"


@pytest.mark.parametrize("final", [Vote.Approve, Vote.Reject])
def test_the_most_cautious_final_vote_counts(final: Vote) -> None:
    """After a split one final reject is enough to contest the work; with none left it is not."""
    sim = panel()
    says(sim, "review-2", Reviewed(Vote.Reject, (Finding(Severity.Nit, "hm"),)))
    says(sim, "review-2", Reviewed(final, why="so"), "revote")
    sim.run()
    assert sim.state.contested is (final is Vote.Reject)


def test_a_second_look_that_fails() -> None:
    """T042: one fails only its second look: a handover, the next is told everything with the patch, and its vote counts."""
    sim = panel(roster="alpha beta")
    says(sim, "review-1", NITS)
    sim.fails("alpha", bad(Class.Refused), node="revote")
    sim.run()
    told = [h.handover for h in sim.facts(HandedOver)]
    assert [(h.node, h.seat, h.from_agent, h.to_agent) for h in told] == [("revote", "review-1", "alpha", "beta")]
    cold = next(t for t in turns(sim, "revote") if t.seat == "review-1" and t.agent == "beta")
    assert "patch to" in text(cold)
    assert cold.resume == ""
    assert set(sim.state.reviewing.second) == {"review-1", "review-2"}
    assert sim.state.reviewing.absent == {}


def test_a_spare_reviewer_is_asked_first() -> None:
    """T036: alpha fails in seat 1 while beta sits in seat 2: gamma, who sits nowhere, takes over; later rounds begin with it."""
    sim = panel()
    sim.fails("alpha", bad(Class.Refused), node="review")
    says(sim, "review-2", BLOCKER, times=1)
    sim.run()
    assert sim.asked("review", "review-1") == ["alpha", "gamma", "gamma"]
    assert sim.asked("review", "review-2") == ["beta", "beta"]


def test_without_a_spare_one_sits_twice() -> None:
    """Nobody is spare: the next of the chain sits in two seats, each with a conversation of its own."""
    sim = panel(roster="alpha beta")
    sim.fails("alpha", bad(Class.Refused), node="review")
    sim.run()
    assert sorted(sim.asked("review")) == ["alpha", "beta", "beta"]
    assert len({t.session for t in turns(sim, "review")}) == 3


def test_a_panel_with_an_absent_seat_blocks() -> None:
    """T092: one of two never answers: incomplete, no fix, no gate; recovery asks the absent seat alone."""
    sim = panel(roster="alpha beta")
    says(sim, "review-1", BLOCKER, times=1)
    sim.fails("beta", bad(Class.Refused), node="review", times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert (tuple(sim.state.reviewing.reviews), tuple(sim.state.reviewing.absent)) == (("review-1",), ("review-2",))
    assert (turns(sim, "fix"), [e for e in sim.started(RunCommands) if e.purpose is Purpose.Gate]) == ([], [])
    sim.run(until=lambda s: s.state.reviewing.round == 2)
    assert sim.asked("review", "review-1") == ["alpha"]
    assert sim.asked("review", "review-2") == ["beta", "beta"]


@pytest.mark.parametrize("node", ["review", "revote"])
def test_who_answers_in_the_wrong_shape_is_absent(node: str) -> None:
    """T088, T091: a shape that never fits, or a second reject without a reason: incomplete and told so, but `warn` goes on."""
    sim = panel(incomplete="warn", roster="alpha beta")
    says(sim, "review-1", NITS)
    says(sim, "review-2", None, node)
    sim.run()
    assert sim.state.phase is PipelinePhase.Complete
    assert tuple(sim.state.reviewing.absent) == ("review-2",)
    assert sim.asked(node, "review-2") == ["beta"] * 3


def test_a_panel_of_nobody_never_passes() -> None:
    """A missing reviewer is never one that found nothing: when none answers it is a failure, whatever the policy."""
    sim = panel(1, incomplete="warn", roster="alpha")
    sim.fails("alpha", bad(Class.Refused), node="review", times=1)
    sim.run(until=lambda s: s.state.trouble is not None)
    assert sim.state.trouble is not None


def test_a_final_reject_needs_a_reason() -> None:
    """T091: the last fitting object counts; a reject without a reason fits nothing."""
    assert review.read_vote('{"vote": "reject", "why": " "}') is None
    assert review.read_vote('{"vote": "reject", "why": "no test"}') == Reviewed(Vote.Reject, why="no test")
    assert review.read_vote('{"vote": "approve"}') == Reviewed(Vote.Approve)


# ── what the operator picks ───────────────────────────────────────────────────────────────────────────────────────


def picked(sim: Sim, **more: object) -> FixAsked:
    """The operator picks the first finding of the work as it stands."""
    change = sim.state.chosen.change
    found = Finding(Severity.Minor, "ugly", id="R1-1-1")
    told = {"findings": (found,), "reason": "it hurts", "head": change.head, "tree": change.tree} | more
    return FixAsked(**told)  # type: ignore[arg-type]  # as it would be said


def ready() -> Sim:
    """A run that ended ready, with two small findings."""
    verify = Verify(gate=(GATE,), e2e=("make e2e",))
    sim = Sim(story(land="branch", pipeline=Pipeline(plan=False), verify=verify, fixer="beta"))
    says(sim, "review-1", NITS, times=1)
    sim.run()
    assert sim.state.phase is PipelinePhase.Complete
    return sim


def test_a_picked_finding_is_fixed_reviewed_and_gated() -> None:
    """T099: of two findings one is picked: only that is told, with the reason; then review, e2e, gate and a new commit, at no round's cost."""
    sim = ready()
    before, landed = len(sim.entries), sim.state.landing
    sim.says(StartTurn, lambda e: _fixes(sim, e), 1, node="fix")
    sim.put(picked(sim))
    sim.run()
    after = [e.event.effect for e in sim.entries[before:] if isinstance(e.event, EffectStarted)]
    asked = [e.node for e in after if isinstance(e, StartTurn | RunCommands | Land)]
    assert asked == ["fix", "review", "e2e", "gate", "land"]
    (fix,) = turns(sim, "fix")
    assert ("ugly" in text(fix), "long" in text(fix), "it hurts" in text(fix)) == (True, False, True)
    assert sim.state.phase is PipelinePhase.Complete
    assert sim.state.landing != landed
    at = sim.state.reviewing
    assert (at.round - at.granted, at.fixed) == (1, FixReport(("R1-1-1",)))


def _fixes(sim: Sim, effect: StartTurn) -> TurnEnded:
    sim.world.edited.add(effect.slot)
    return TurnEnded(key=effect.key, outcome=good(FixReport(("R1-1-1",)), session="f"))


def test_a_fix_that_changes_nothing_leaves_all_as_it_was() -> None:
    """A fixer that only says why not: no review, no gate, no commit; the same branch is ready again."""
    sim = ready()
    landed, gates = sim.state.landing, len(sim.started(RunCommands))
    sim.says(StartTurn, lambda e: TurnEnded(key=e.key, outcome=good(FixReport((), {"R1-1-1": "it is right"}))), node="fix")
    sim.put(picked(sim))
    sim.run()
    assert (sim.state.phase, sim.state.landing) == (PipelinePhase.Complete, landed)
    assert len(sim.started(RunCommands)) == gates


def test_a_stale_pick_works_on_what_is_there() -> None:
    """T106: allowed although the branch moved: the fixer works on the branch as it is, with what others put there."""
    sim = ready()
    sim.put(picked(sim, head=Commit("theirs"), tree=Tree("tree of theirs"), stale=True))
    sim.run(until=lambda s: bool(turns(s, "fix")))
    assert sim.state.chosen.change.head == "theirs"
    assert next(reversed(sim.state.workspaces.values())).start == "theirs"


@pytest.mark.parametrize("how", ["under way", "landed", "in trouble", "parked"])
def test_a_pick_at_the_wrong_time_means_nothing(how: str) -> None:
    """F27: a run that is under way, landed, in trouble or parked stays as it is; of two picks the second means nothing."""
    sim = Sim(story(roster="alpha", land="local" if how == "landed" else "branch", pipeline=Pipeline(plan=False)))
    if how == "in trouble":
        sim.fails("alpha", bad(Class.Refused), node="review")
    sim.run(until=lambda s: bool(s.state.trouble or (s.state.winner and how in {"under way", "parked"})))
    if how == "parked":
        sim.put(ParkAsked())
    before = sim.state
    sim.put(FixAsked(findings=(), reason="now", head=Commit("x"), tree=Tree("y")))
    assert (sim.state.phase, sim.state.visit, sim.state.candidates) == (before.phase, before.visit, before.candidates)


def test_two_picks_at_once() -> None:
    """F27: the first is under way: the second changes nothing."""
    sim = ready()
    sim.put(picked(sim))
    visit = sim.state.visit
    sim.put(picked(sim))
    assert sim.state.visit == visit


def test_a_contested_run_can_be_fixed() -> None:
    """T099 of a blocked run: a contested landing waits for a person, who picks a finding instead of answering; then it lands."""
    sim = Sim(story(land="local", pipeline=Pipeline(plan=False), fixer="beta"))
    says(sim, "review-1", Reviewed(Vote.Reject, (Finding(Severity.Minor, "ugly"),)), times=1)
    sim.run()
    assert list(sim.state.questions) == ["contested"]
    sim.put(picked(sim))
    sim.run()
    assert (sim.state.phase, sim.state.questions) == (PipelinePhase.Complete, {})
    assert sim.state.landing is not None
    assert sim.state.landing.mode == "local"

"""The whole story of a run, as data and in words."""

from string import Formatter

import pytest

from nightcrew.app.story import WORDS, Line, Story, rivals, story
from nightcrew.app.text import recovery_told, told
from nightcrew.app.views import clock, undo
from nightcrew.core import events as ev
from nightcrew.core.effects import Effect, RunCommands, StartTurn
from nightcrew.core.ids import Commit, Label
from nightcrew.core.roster import AgentRole
from nightcrew.core.settings import Limit, Limits, Verify
from nightcrew.core.state import Judging, RunState
from nightcrew.core.work import (
    Candidate,
    Change,
    Class,
    Finding,
    FixReport,
    Landing,
    PipelinePhase,
    Purpose,
    Reviewed,
    Severity,
    Vote,
)
from unit.app.worlds import BEGAN_AT, CODEX, OPUS, STEP_S, World, bad, commit, ok, red, started, tree

BLOCKER = Finding(Severity.Blocker, "loses the last second", "clock.py", 12)


def eventful(state: RunState, effect: Effect) -> ev.Event | None:
    """A world of one of everything: a quota, a finding that is fixed, a gate that is red once, a turn without a price."""
    if isinstance(effect, RunCommands) and effect.purpose is Purpose.Gate and state.validating.rounds == 0:
        return ev.CommandsEnded(key=effect.key, results=(red(said="E   assert 59 == 60\n1 failed"),))
    if not isinstance(effect, StartTurn):
        return None
    if effect.node == "implement" and effect.agent == "opus":
        return ev.TurnEnded(key=effect.key, outcome=bad(Class.Quota, "weekly limit reached"))
    if effect.role is AgentRole.Reviewer and state.reviewing.round == 1:
        return ev.TurnEnded(key=effect.key, outcome=ok(usd=None, report=Reviewed(Vote.Reject, (BLOCKER,))))
    if effect.node == "fix":
        return ev.TurnEnded(key=effect.key, outcome=ok(report=FixReport(addressed=("R1-1-1",))))
    return None


def stays_red(_state: RunState, effect: Effect) -> ev.Event | None:
    """A world in which the gate never passes."""
    if isinstance(effect, RunCommands) and effect.purpose is Purpose.Gate:
        return ev.CommandsEnded(key=effect.key, results=(red(),))
    return None


def of(seen: Story, topic: str) -> list[Line]:
    """The lines of one topic."""
    return [line for line in seen.lines if line.topic == topic]


def test_a_story_has_everything_that_happened() -> None:
    """Phases, seats, handovers, findings with what became of them, commands with their output and the landing are all told."""
    entries = World(started("local"), eventful).play().entries
    seen = story(entries)
    phases = [line.what for line in of(seen, "phase")]
    assert phases[:3] == ["→ Planning", "→ Development", "→ Review, round 1 of 6"]
    assert [(h.seat, h.from_agent, h.to_agent, h.fail) for h in seen.handovers] == [("impl-A", "opus", "codex", "quota")]
    assert [(line.what, line.more) for line in of(seen, "review")] == [
        ("review-1: reject, 1 finding (1 blocking)", ("R1-1-1 blocker clock.py:12: loses the last second",)),
        ("R1-1-1: addressed, says codex", ()),
        ("review-1: approve", ()),
    ]
    gates = [line for line in of(seen, "commands") if line.what.startswith("gate")]
    assert [(line.what, line.more[0]) for line in gates] == [
        ("gate red, `make check` exits with 1", "`make check` exits with 1, 3s"),
        ("gate green", "`make check` ok, 2s"),
    ]
    assert gates[0].more[1:] == ("  | E   assert 59 == 60", "  | 1 failed")
    assert isinstance(entries[gates[0].seq - 1].event, ev.CommandsEnded)
    assert [(c.label, c.agent) for c in seen.candidates] == [(seen.winner, "codex")]
    assert seen.landing is not None
    assert seen.stands.word == "landed"


def test_end_to_end_checks_that_are_put_off_are_told() -> None:
    """Put off is not green: that e2e waits for a fix is said once, and its result once it ran."""
    first = started("local", verify=Verify(gate=("make check",), e2e=("make e2e",)))
    seen = story(World(first, eventful).play().entries)
    assert [line.what for line in of(seen, "review") if "e2e" in line.what] == ["e2e is put off while a finding blocks"]
    assert [line.what for line in of(seen, "commands") if line.what.startswith("e2e")][:1] == ["e2e green"]


def test_a_plan_that_nobody_gave_is_noted() -> None:
    """Planning is best effort: that no plan came of it is said, once, and nothing of the kind where one did."""

    def refuses(_state: RunState, effect: Effect) -> ev.Event | None:
        mine = isinstance(effect, StartTurn) and effect.node == "plan"
        return ev.TurnEnded(key=effect.key, outcome=bad(Class.Refused, "no")) if mine else None

    told = [
        [line.what for line in of(story(World(started("local"), reply).play().entries), "note")] for reply in (refuses, eventful)
    ]
    assert [sum("the task is the plan" in what for what in notes) for notes in told] == [1, 0]


def test_a_turn_without_a_price_is_counted_as_unpriced() -> None:
    """An unknown price is not nothing: it is told beside the money (rulings 30)."""
    seen = story(World(started("local"), eventful).play().entries)
    assert seen.spend.unpriced == 2
    assert seen.spend.turns == len(seen.turns)
    assert any("2 of" in line and "without a price" in line for line in told(seen))


def test_the_words_are_those_of_the_data() -> None:
    """What `show` prints names the handover, the finding, the red gate's last lines and the command that undoes the landing."""
    text = "\n".join(told(story(World(started("local"), eventful).play().entries)))
    for words in (
        "opus → codex (quota: weekly limit reached)",
        "R1-1-1 blocker clock.py:12: loses the last second",
        "R1-1-1: addressed, says codex",
        "| E   assert 59 == 60",
        "undo: git switch main && git revert --no-edit",
        "your checkout has unsaved changes",
        "sandbox bwrap",
    ):
        assert words in text


def test_a_seat_shows_words_for_people() -> None:
    """A seat's line ends with what it said or the subject it wrote, never with the form it answered in."""
    seats = [text for text in told(story(World(started("local")).play().entries)) if " turn" in text and text.startswith("  ")]
    assert [text for text in seats if text.endswith("· Mend the clock")]
    assert [text for text in seats if text.startswith("  review-1") and "·" not in text]


def test_recovery_is_told_attempt_by_attempt() -> None:
    """The record has the failure, each attempt and each escalation, with the present level and the time of the next attempt."""
    world = World(reply=stays_red).play(lambda s: s.trouble is not None and s.trouble.attempts == 4 and s.trouble.wait_until > 0)
    at = story(world.entries).recovery
    assert at.failure is not None
    assert (at.attempts, at.level, at.failure.phase) == (4, 2, "FinalValidation")
    assert at.next_at is not None
    said = [line.what for line in at.record]
    assert said[0] == "FinalValidation failed: gate `make check` is red: exit status 1"
    assert [text for text in said if text.startswith("attempt ")] == [
        f"attempt {n}: back to FinalValidation at level 1, nothing reset" for n in (1, 2, 3)
    ]
    assert any("level 2" in line for line in recovery_told(story(world.entries)))


def test_an_attempt_tells_what_it_reset_and_what_it_rescued() -> None:
    """R21: a deeper level says what it forgets; each workspace that is set back, to which commit, and where what stood there is."""
    world = World(reply=stays_red).play(lambda s: s.trouble is not None and s.trouble.attempts == 10, limit=900)
    said = [line.what for line in story(world.entries).recovery.record]
    fourth = said.index(
        "attempt 4: back to FinalValidation at level 2, reset: the progress, chains and conversations of that phase"
    )
    back = next(e.event for e in world.entries if isinstance(e.event, ev.WorkspaceReset))
    assert said[fourth + 1] == f"impl-A is set back to {back.head[:10]}, rescued: refs/nightcrew/rescue/a1b2/1"
    assert "attempt 7: back to Planning at level 3, reset: plan, work, reviews" in "\n".join(said)
    assert said[fourth + 1] in "\n".join(recovery_told(story(world.entries)))


def test_a_failure_is_told_with_the_time_it_began() -> None:
    """`since` is when the run first failed like this: it stays while that repeats, and begins anew with another failure."""
    first = World(reply=stays_red).play(lambda s: s.trouble is not None)
    began = first.entries[-1].at
    later = World(reply=stays_red).play(lambda s: s.trouble is not None and s.trouble.attempts == 3)
    assert story(later.entries).recovery.since_at == began

    def then_otherwise(state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, RunCommands) and effect.purpose is Purpose.Gate:
            said = "1 failed" if state.trouble is None else "another thing"
            return ev.CommandsEnded(key=effect.key, results=(red(said=said),))
        return None

    other = World(reply=then_otherwise).play(lambda s: s.trouble is not None and s.trouble.attempts == 1)
    assert story(other.entries).recovery.since_at == began
    again = other.play(lambda s: s.trouble is not None and s.trouble.attempts == 2)
    assert (story(again.entries).recovery.since_at or 0.0) > began


def test_who_cools_down_until_when_and_why_is_told_once() -> None:
    """A spent quota, and an agent that is passed over because the machine knows it cools, are told with time and reason, and in data."""

    def cools(state: RunState, effect: Effect) -> ev.Event | None:
        if not isinstance(effect, StartTurn) or effect.agent != "opus":
            return None
        if state.cooling:
            return ev.AgentCooling(
                key=effect.key, agent=effect.agent, until=state.cooling[OPUS], window="week", why="weekly limit"
            )
        return ev.TurnEnded(key=effect.key, outcome=bad(Class.Quota, "weekly limit", reset_at=BEGAN_AT + 86_400, usd=0.25))

    seen = story(World(reply=cools).play().entries)
    assert seen.cooling == {"opus": BEGAN_AT + 86_400}
    until = clock(BEGAN_AT + 86_400, seen.last_at)
    assert [text for text in told(seen) if text.startswith("  opus cools")] == [
        f"  opus cools down until {until}: weekly limit",
        f"  opus cools down until {until}: weekly limit, week",
    ]
    assert "  quota: 1 turn ended on it (0.25 usd), 0 calls had nobody left to ask" in told(seen)
    assert f"opus → codex (quota: cools down until {until})" in "\n".join(h.what for h in of(seen, "handover"))


def test_a_seat_at_several_nodes_tells_its_rounds_by_node() -> None:
    """The fixer's rounds at review, gate and landing are counted one by one; a seat with one place needs no such count."""
    seats = told(story(World(started("local"), eventful).play().entries))
    mine = [text for text in seats if text.startswith(("  impl-A", "  fix", "  review-1"))]
    assert any("(implement 2, fix 1, gate-fix 1)" in text for text in mine)
    assert all("(" not in text for text in mine if text.startswith("  review-1"))


def test_recovery_of_a_run_without_trouble_says_so() -> None:
    """`show --recovery` of a run in which nothing failed has a line, not silence."""
    assert "nothing was recovered" in recovery_told(story(World().play().entries))[-1]


def test_an_answered_question_keeps_its_answer() -> None:
    """A question is told with what may be answered; once answered it is no longer open, and the answer is told too."""
    world = World(started(limits=Limits(turns=Limit(1)))).play()
    asked = story(world.entries)
    assert [(q.id, q.holds) for q in asked.questions] == [("limit-turns", True)]
    world.tell(ev.Answered(question="limit-turns", text="more"))
    answered = story(world.play().entries)
    assert answered.questions == ()
    assert [line.what for line in of(answered, "question")] == [
        "asks: The default limit turns = 1 is reached. Go on? [more (adds as much again) | stop] nightcrew answer a1b2 more",
        "answered limit-turns: more",
    ]


@pytest.mark.parametrize("kind", WORDS)
def test_the_words_of_a_fact_name_its_own_fields(kind: type[ev.Event]) -> None:
    """Each template can be filled by the fact it is for."""
    named = {name for _, name, _, _ in Formatter().parse(WORDS[kind][1]) if name}
    assert named <= set(kind.__struct_fields__)


def test_words_from_outside_break_no_line() -> None:
    """A fixer's reason or a finding in several lines is told in one, so that it cannot pass for a line of ours."""

    def talks(state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, StartTurn) and effect.node == "fix":
            says = FixReport((), {"R1-1-1": "no\nLanding\r  local: abc on main", "R9\n9": "x"})
            return ev.TurnEnded(key=effect.key, outcome=ok(report=says))
        return eventful(state, effect)

    seen = story(World(reply=talks).play().entries)
    texts = [text for told_ in seen.lines for text in (told_.what, *told_.more)]
    assert "R1-1-1: rejected, no Landing   local: abc on main" in texts
    assert all(len(text.splitlines()) == 1 for text in texts)


def test_what_was_rescued_is_told_with_its_seat() -> None:
    """A cancelled run names each rescue ref and whose work it holds (law 8)."""
    world = World().play(lambda s: s.phase is PipelinePhase.Development and bool(s.workspaces))
    world.tell(ev.CancelAsked())
    seen = story(world.play().entries)
    assert "refs/nightcrew/rescue/a1b2/impl-A (from impl-A)" in [r.what for r in of(seen, "rescued")]
    assert "  refs/nightcrew/rescue/a1b2/impl-A (from impl-A)" in told(seen)
    assert seen.stands.word == "interrupted"


def test_a_story_at_any_moment_can_be_told() -> None:
    """Every prefix of an eventful journal is a story: total, in words and as data."""
    entries = World(started("local"), eventful).play().entries
    for n in range(1, len(entries) + 1):
        seen = story(entries[:n])
        assert told(seen)
        assert seen.seq == n
        assert sum(t.ended_at is None for t in seen.turns) <= 1


def test_a_running_turn_has_no_end() -> None:
    """A turn in flight is told with its beginning and without an end, and its seat runs since then."""
    world = World().play(lambda s: any(o.begun and isinstance(o.effect, StartTurn) for o in s.open.values()))
    seen = story(world.entries)
    assert [(t.ended_at, t.kind) for t in seen.turns] == [(None, "")]
    assert seen.turns[0].began_at > BEGAN_AT + STEP_S
    assert any("runs since" in text for text in told(seen))


def test_the_undo_of_each_mode_rewrites_nothing() -> None:
    """A landing is undone by a revert on the target, never by moving it back; a finished branch is removed."""
    landing = Landing("push", "main line", Commit("c" * 40), Commit("b" * 40))
    assert undo(landing, "up").endswith(f"git revert --no-edit {'c' * 40} && git push up 'main line'")
    assert undo(Landing("branch", "nightcrew/a1b2/A", Commit("c" * 40)), "") == "git branch -D nightcrew/a1b2/A"
    assert all("reset" not in undo(Landing(mode, "main", Commit("c" * 40)), "") for mode in ("branch", "local", "push"))


def test_authors_are_told_once_it_is_decided() -> None:
    """While several stand side by side and none has won, nothing is said of who made them; one alone hides nothing."""
    change = Change(commit("head"), tree("tree"), files=1, insertions=2)
    made = [
        Candidate(label=Label(label), agent=agent, start=commit("base"), start_tree=tree("base"), change=change)
        for label, agent in (("B", CODEX), ("A", OPUS))
    ]
    at = Judging(out={Label("B"): "the same as A"})
    rows = [" ".join(row.split()) for row in rivals(made, "", at)]
    assert rows == ["A 1 file, +2 -0 no checks", "B 1 file, +2 -0 no checks not judged: the same as A"]
    rows = [" ".join(row.split()) for row in rivals(made, "A", at)]
    assert rows == ["A 1 file, +2 -0 no checks wins, by opus", "B 1 file, +2 -0 no checks not judged: the same as A, by codex"]
    assert [" ".join(row.split()) for row in rivals(made[:1], "", Judging())] == ["B 1 file, +2 -0 no checks by codex"]
    assert list(rivals([], "", Judging())) == []

"""The pipeline phase by phase: what each asks, what each answer means, and that only what was tested lands."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec import structs

from nightcrew.core import reducer, rooms
from nightcrew.core.brief import small
from nightcrew.core.effects import (
    CollectWork,
    ContinueRebase,
    Effect,
    Land,
    MakeCommit,
    PrepareWorkspace,
    RunCommands,
    StartTurn,
    SyncBase,
    Timer,
    UndoRebase,
)
from nightcrew.core.events import (
    Answered,
    BaseSynced,
    CommandsEnded,
    CommitMade,
    CommitRefused,
    EffectStarted,
    Entry,
    Event,
    LandingRefused,
    RecoverySucceeded,
    WorkspaceLost,
)
from nightcrew.core.ids import Commit, EffectId, Tree
from nightcrew.core.phases import committing
from nightcrew.core.roster import Answers
from nightcrew.core.settings import Pipeline, Verify
from nightcrew.core.work import (
    Claim,
    Class,
    CommandResult,
    CommitText,
    Finding,
    FixReport,
    PipelinePhase,
    Purpose,
    Reviewed,
    Severity,
    Vote,
)
from support.world import GATE, Sim, World, bad, good, story

P = PipelinePhase
BLOCKER = Reviewed(Vote.Reject, (Finding(Severity.Blocker, "wrong"),))
NIT = Reviewed(Vote.Reject, (Finding(Severity.Nit, "ugly"),))
E2E = Verify(gate=(GATE,), e2e=("make e2e",))


def red(purpose: Purpose, fits: Callable[[Tree], bool] = lambda _tree: True, code: int = 1) -> World:
    """A world in which those commands fail on those trees."""
    return World(red={purpose: lambda tree: code if fits(tree) else 0})


def ran(sim: Sim, purpose: Purpose) -> int:
    """How often those commands ran."""
    return len([e for e in sim.started(RunCommands) if e.purpose is purpose])


def fixes(sim: Sim, node: str = "gate-fix") -> int:
    """How many fix rounds were asked."""
    return len([t for t in sim.started(StartTurn) if t.node == node])


def failed(sim: Sim) -> bool:
    """Whether the run is in trouble."""
    return sim.state.trouble is not None


# ── planning and development ──────────────────────────────────────────────────────────────────────────────────────


def test_the_whole_way() -> None:
    """Every phase in order, one turn each, one commit that lands on the tip it was tested on."""
    sim = Sim(story(pipeline=Pipeline())).run()
    assert [t.node for t in sim.world.turns] == ["plan", "implement", "review", "commit"]
    assert sim.state.landing is not None
    assert (sim.state.landing.commit, sim.state.landing.replaced) == (sim.state.commit, "c0")
    assert sim.state.gated == sim.state.candidates[sim.state.winner].change.tree


def test_planning_is_best_effort() -> None:
    """Without a plan the task is the plan: a planner that fails is no failure of the run."""
    sim = Sim(story(pipeline=Pipeline(), roster="alpha"))
    sim.fails("alpha", bad(Class.Refused), node="plan")
    assert sim.run().state.phase is P.Complete
    assert (sim.state.plan, sim.state.trouble) == (None, None)


def test_readers_change_nothing() -> None:
    """Planner, reviewer and committer are asked read-only, each in a workspace of its own; implementers are not."""
    sim = Sim(story(pipeline=Pipeline())).run()
    turns = {t.node: t for t in sim.world.turns}
    assert [turns[node].read_only for node in ("plan", "implement", "review", "commit")] == [True, False, True, True]
    assert len({turn.slot for turn in turns.values()}) == 4


def test_an_implementer_may_go_on() -> None:
    """A turn that ends with "continue" is continued, at most so often, in its conversation."""
    sim = Sim(story(pipeline=Pipeline(plan=False, continuations=2), roster="alpha"))
    sim.fails("alpha", good(Claim("continue"), session="s"), node="implement")
    sim.world.edited.add(slot_of_first(sim))
    sim.run(until=lambda s: s.state.phase is not P.Development and bool(s.state.candidates))
    turns = [t for t in sim.started(StartTurn) if t.node == "implement"]
    assert [t.resume for t in turns] == ["", "s", "s"]


def test_no_change_and_no_claim_is_a_failure() -> None:
    """Done is a diff: an implementer that says done and changed nothing leaves no candidate."""
    sim = Sim(story(roster="alpha"))
    sim.fails("alpha", good(Claim("done")), node="implement")
    sim.run(until=failed)
    assert sim.state.trouble is not None
    assert sim.state.trouble.failure.reason == "no implementer changed anything"


@pytest.mark.parametrize(("evidence", "end"), [("see the test that passes", "already done"), ("", "")])
def test_already_done_needs_evidence(evidence: str, end: str) -> None:
    """A claim of "already done" with evidence and an empty tree ends the run; without evidence it is a failure."""
    sim = Sim(story(roster="alpha"))
    sim.fails("alpha", good(Claim("already_done", evidence)), node="implement")
    sim.run(until=failed)
    assert sim.state.already == end
    assert (sim.state.phase is P.Complete) == bool(evidence)


def test_a_program_that_only_edits_finds_a_green_base_done() -> None:
    """A plain command that changed nothing where the gate was green from the start had nothing to do."""
    for code, end in ((0, "already done"), (1, "")):
        told = story(roster="alpha")
        plain = told.roster[0].__class__(id=told.roster[0].id, kind="command", answers=(Answers.Edit,))
        sim = Sim(replaced(told, roster=(plain,)), World(red={Purpose.Preflight: lambda _t, code=code: code}))  # type: ignore[misc]
        sim.fails("alpha", good(), node="implement")
        assert sim.run(until=failed).state.already == end


def test_a_failed_agent_that_left_a_change_stays_in() -> None:
    """A crashed implementer's files are collected and count; its failure is noted."""
    sim = Sim(story(roster="alpha"))
    sim.fails("alpha", bad(Class.Crashed, "segfault"), node="implement")
    sim.world.edited.add(slot_of_first(sim))
    assert sim.run().state.phase is P.Complete
    assert sim.state.candidates[sim.state.winner].failure == "segfault"


def test_checks_are_facts_of_a_candidate() -> None:
    """The check commands run on every candidate that changed something; red is told, not fatal with one candidate."""
    sim = Sim(story(verify=Verify(gate=(GATE,), check=("make lint",))), red(Purpose.Check)).run()
    assert ran(sim, Purpose.Check) == 1
    assert sim.state.candidates[sim.state.winner].checks[0].code == 1
    assert sim.state.phase is P.Complete


def test_iterations_build_on_the_winner() -> None:
    """Three iterations are three times planning and development; review and landing come once, at the end."""
    sim = Sim(story(pipeline=Pipeline(iterations=3))).run()
    nodes = [t.node for t in sim.world.turns]
    assert nodes == ["plan", "implement"] * 3 + ["review", "commit"]
    assert sim.state.iteration == 2


def test_an_iteration_that_fails_is_not_covered_by_the_one_before() -> None:
    """Whoever fails in the second iteration leaves no candidate, though the first one's work is still there."""
    sim = Sim(story(pipeline=Pipeline(iterations=2), roster="alpha"))
    sim.run(until=lambda s: s.state.iteration == 1)
    sim.fails("alpha", bad(Class.Refused), node="implement")
    sim.run(until=failed)
    assert sim.state.trouble is not None
    assert sim.state.trouble.failed_phase is P.Development


# ── review ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_blocker_then_fixed() -> None:
    """T081, T083: a blocking round, a fix, a clean round; e2e is put off in the first and runs once in the second."""
    sim = Sim(story(verify=E2E, roster="alpha beta", reviewer="beta"))
    sim.fails("beta", good(BLOCKER), node="review", times=1)
    sim.run()
    assert (sim.state.reviewing.round, fixes(sim, "fix"), ran(sim, Purpose.E2e)) == (2, 1, 1)
    assert sim.state.open_findings == ()


def test_e2e_waits_for_a_fix() -> None:
    """T082: a blocking round with rounds left does not run e2e; it is deferred, which is not green."""
    sim = Sim(story(verify=E2E))
    sim.fails("alpha", good(BLOCKER), node="review")
    sim.run(until=lambda s: fixes(s, "fix") == 1)
    assert (ran(sim, Purpose.E2e), sim.state.reviewing.deferred, sim.state.reviewing.e2e) == (0, True, None)


@pytest.mark.parametrize("code", [0, 1])
def test_what_was_put_off_is_caught_up_before_any_hand_off(code: int) -> None:
    """Put off is not green: fixers that change nothing end the rounds early, and e2e runs once before the work is handed on; red, it is a failure."""
    world = World(red={Purpose.E2e: lambda _tree: code})
    sim = Sim(story(verify=E2E, pipeline=Pipeline(plan=False), fixer="beta"), world)
    sim.fails("alpha", good(BLOCKER), node="review")
    sim.fails("beta", good(FixReport(()), session="f"), node="fix")
    sim.run(until=lambda s: failed(s) or s.state.phase is P.FinalValidation)
    assert (fixes(sim, "fix"), ran(sim, Purpose.E2e), failed(sim)) == (2, 1, code == 1)


def test_findings_that_never_clear_are_handed_on() -> None:
    """T077: rounds spent with e2e green: on to the gate with the open findings readable, and a reject asks at the landing."""
    sim = Sim(story(verify=E2E, pipeline=Pipeline(plan=False, review_rounds=2)))
    sim.fails("alpha", good(BLOCKER), node="review")
    sim.run()
    assert (sim.state.reviewing.round, fixes(sim, "fix"), ran(sim, Purpose.E2e)) == (2, 1, 1)
    assert [f.id for f in sim.state.open_findings] == ["R2-1-1"]
    assert sim.state.contested


def test_red_e2e_without_rounds_is_a_failure() -> None:
    """e2e red after the last round is a terminal failure of Review."""
    sim = Sim(story(verify=E2E, pipeline=Pipeline(plan=False, review_rounds=1)), red(Purpose.E2e))
    sim.run(until=failed)
    assert sim.state.trouble is not None
    assert sim.state.trouble.failed_phase is P.Review


@pytest.mark.parametrize(("word", "mode"), [("yes", "local"), ("no", "branch")])
def test_a_contested_reject_asks_where_landing_was_asked(word: str, mode: str) -> None:
    """T090: a reject without a blocking finding gets no fixer; the landing waits for a person."""
    sim = Sim(story())
    sim.fails("alpha", good(NIT), node="review")
    sim.run()
    assert fixes(sim, "fix") == 0
    question = reducer.blocked(sim.state)
    assert question is not None
    assert question.id == "contested"
    sim.put(Answered(question="contested", text=word))
    assert sim.run().state.phase is P.Complete
    assert sim.state.landing is not None
    assert sim.state.landing.mode == mode


def test_a_contested_reject_of_a_branch_is_ready() -> None:
    """T090: in mode `branch` nobody asked for a landing, so nobody is asked."""
    sim = Sim(story(land="branch"))
    sim.fails("alpha", good(NIT), node="review")
    assert sim.run().state.phase is P.Complete


def test_without_reviewers_only_e2e_decides() -> None:
    """No panel: straight to e2e and on; it is never shown as a review that found nothing."""
    sim = Sim(story(verify=E2E, pipeline=Pipeline(plan=False, reviewers=0))).run()
    assert [t.node for t in sim.world.turns] == ["implement", "commit"]
    assert (sim.state.reviewing.reviews, ran(sim, Purpose.E2e)) == ({}, 1)


# ── the target's tip ──────────────────────────────────────────────────────────────────────────────────────────────


def synced(state: str, **more: Any) -> Callable[[Effect], BaseSynced]:
    """An answer of a base sync."""
    return lambda effect: BaseSynced(
        key=effect.key,
        state=state,
        tip=Commit("tip"),
        tip_tree=Tree("tree of tip"),
        head=Commit("moved"),
        tree=Tree("tree of moved"),
        **more,
    )


def test_a_moved_tip_is_rebased_onto() -> None:
    """The work goes onto the new tip, and the gate's green is that of the new base."""
    sim = Sim(story())
    sim.says(SyncBase, synced("rebased"), times=1)
    sim.says(SyncBase, synced("same"))
    sim.run()
    assert (sim.state.base, sim.state.phase) == ("tip", P.Complete)
    (land,) = sim.started(Land)
    assert land.tip == "tip"


def test_what_is_landed_already_ends_the_run() -> None:
    """T116: the same change on the target already: already landed, nothing reviewed, nothing landed again."""
    sim = Sim(story())
    sim.says(SyncBase, synced("landed"))
    sim.run()
    assert (sim.state.phase, sim.state.already, sim.started(Land)) == (P.Complete, "already landed", [])


def test_a_conflict_is_resolved_by_the_fixer() -> None:
    """T108: one conflict round at node `rebase`, then the rebase is finished and the review goes on."""
    sim = Sim(story(fixer="beta"))
    sim.says(SyncBase, synced("conflict", paths=("a.txt",)), times=1)
    sim.says(ContinueRebase, synced("rebased"))
    sim.says(SyncBase, synced("same"))
    sim.run()
    assert [t.seat for t in sim.started(StartTurn) if t.node == "rebase"] == ["fix"]
    assert sim.state.phase is P.Complete


def test_conflict_rounds_are_counted() -> None:
    """T113 in our terms: with the rounds spent the rebase is undone and it is a failure with paths and words."""
    sim = Sim(story(pipeline=Pipeline(plan=False, conflict_rounds=2)))
    sim.says(SyncBase, synced("conflict", paths=("a.txt",)))
    sim.says(ContinueRebase, synced("conflict", paths=("a.txt",), note="marker left"))
    sim.run(until=failed)
    assert fixes(sim, "rebase") == 2
    assert len(sim.started(UndoRebase)) == 1
    assert sim.state.trouble is not None
    assert "a.txt" in sim.state.trouble.failure.reason


def test_a_lost_workspace_begins_its_rebase_again() -> None:
    """A workspace that vanishes in the middle of a rebase takes the rebase with it: a new one, and the sync from the start."""
    sim = Sim(story())
    sim.says(SyncBase, synced("conflict", paths=("a.txt",)), times=1)
    sim.says(ContinueRebase, lambda e: WorkspaceLost(key=e.key, slot=e.slot, reason="deleted"), times=1)
    sim.run()
    assert sim.state.phase is P.Complete
    assert len(sim.started(SyncBase)) == 3


# ── the gate ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gate_red_for_ever() -> None:
    """T014: exactly two fix rounds, then a failure with the output."""
    sim = Sim(story(), red(Purpose.Gate)).run(until=failed)
    assert (fixes(sim), ran(sim, Purpose.Gate)) == (2, 3)
    assert sim.state.trouble is not None
    assert sim.state.trouble.failure.detail == small("what it printed")


@pytest.mark.parametrize(
    "result",
    [
        CommandResult(GATE, 137, small("slow"), timed_out=True),
        CommandResult(GATE, 127, small("not found")),
        CommandResult(GATE, 1, small("")),
    ],
)
def test_only_an_ordinary_red_is_fixed(result: CommandResult) -> None:
    """T015: a timeout, a missing command or silence is nothing a fixer could mend by editing: no round is spent."""
    sim = Sim(story())
    sim.says(RunCommands, lambda effect: CommandsEnded(key=effect.key, results=(result,)), times=1, purpose=Purpose.Gate)
    sim.run(until=failed)
    assert fixes(sim) == 0


def test_a_fixer_that_changes_nothing_gets_no_second_try() -> None:
    """T016: with two rounds allowed only one is made, and the failure is the gate's."""
    sim = Sim(story(), red(Purpose.Gate))
    sim.fails("alpha", good(session="s"), node="gate-fix")
    sim.run(until=failed)
    assert (fixes(sim), ran(sim, Purpose.Gate)) == (1, 1)


def test_a_fix_is_followed_by_e2e_and_the_gate() -> None:
    """T012: the fix's tree is tested end to end and then by the gate, whose green is what lands."""
    sim = Sim(story(verify=E2E), red(Purpose.Gate, lambda tree: tree == "tree of c2")).run()
    purposes = [e.purpose for e in sim.started(RunCommands)]
    assert purposes[1:] == [Purpose.E2e, Purpose.Gate, Purpose.E2e, Purpose.Gate]
    assert sim.state.phase is P.Complete


def test_formatters_come_first_and_never_fail() -> None:
    """T017, T019: pre-gate runs before the gate, its changes become work; its failure does not stop the gate."""
    verify = Verify(gate=(GATE,), pre_gate=("make fmt",))
    sim = Sim(story(verify=verify), red(Purpose.PreGate, code=3))
    sim.run()
    purposes = [e.purpose for e in sim.started(RunCommands)]
    assert purposes[1:] == [Purpose.PreGate, Purpose.Gate]
    assert len([e for e in sim.started(CollectWork) if e.node == "pre_gate"]) == 1
    assert sim.state.phase is P.Complete


def test_without_formatters_nothing_of_them_is_seen() -> None:
    """T020: no pre-gate commands, no effect of that node."""
    sim = Sim(story()).run()
    assert [e for e in sim.started(RunCommands, CollectWork) if e.node == "pre_gate"] == []


def test_the_cache_is_believed_only_while_nothing_was_repaired() -> None:
    """The gate's effect names the tree that may answer it; after a recovery it names none."""
    sim = Sim(story(pipeline=Pipeline(plan=False, gate_fix_rounds=0)), red(Purpose.Gate))
    sim.fails("alpha", good(session="s"), node="dev-fix")
    sim.run(until=lambda s: ran(s, Purpose.Gate) == 2)
    first, second = (e for e in sim.started(RunCommands) if e.purpose is Purpose.Gate)
    assert (first.tree, second.tree) == ("tree of c2", "")


# ── commit and landing ────────────────────────────────────────────────────────────────────────────────────────────


def test_a_missing_message_is_the_title() -> None:
    """A committer that fails, or gives no fitting message, is no failure: the task's title is the subject."""
    sim = Sim(story(roster="alpha"))
    sim.fails("alpha", bad(Class.Refused), node="commit")
    sim.run()
    assert sim.started(MakeCommit)[0].text == CommitText("Do it")


@pytest.mark.parametrize(
    ("subject", "body"), [("a\0b", ""), ("a", "b\0"), ("a\x1b[2Jb", ""), ("a", "b\n\x9b2J"), ("a\nb", ""), ("a\rb", "")]
)
def test_a_message_that_git_or_a_terminal_cannot_take(subject: str, body: str) -> None:
    """NUL, which git refuses for ever, and what steers a terminal: no fitting message, so that the title is the subject."""
    assert committing.read(json.dumps({"subject": subject, "body": body})) is None
    assert committing.read('{"subject": "ü a", "body": "b\\n\\n\\tc\\r\\n"}') == CommitText("ü a", "b\n\n        c")


def test_a_title_of_one_long_word_still_says_something() -> None:
    """A title that is too long for a subject is cut at 72 characters, in the middle of a word if it must."""
    told = story(committer="-")
    sim = Sim(structs.replace(told, task=structs.replace(told.task, title="https://localhost/" + "x" * 100)))
    sim.run()
    assert sim.started(MakeCommit)[0].text.subject == "https://localhost/" + "x" * 53 + "…"


def test_a_hook_that_refuses_is_a_red_gate() -> None:
    """The hook's output goes to a gate-fix round; then gate and commit again."""
    sim = Sim(story())
    sim.says(MakeCommit, lambda e: CommitRefused(key=e.key, output=small("lint"), code=1, hook="pre-commit"), times=1)
    sim.run()
    assert (fixes(sim), ran(sim, Purpose.Gate), sim.state.phase) == (1, 2, P.Complete)
    (turn,) = (t for t in sim.started(StartTurn) if t.node == "gate-fix")
    assert any("pre-commit hook" in part.text for part in turn.brief.parts)


def test_a_hook_that_changes_the_tree_is_tested_again() -> None:
    """What lands is what was tested: the changed tree passes the gate before it lands; a second change is the hook's failure."""
    sim = Sim(story())
    changed = Tree("formatted")
    sim.says(MakeCommit, lambda e: CommitMade(key=e.key, commit=Commit("f1"), tree=changed), times=1)
    sim.says(SyncBase, synced("same"), times=2)
    sim.run(until=lambda s: ran(s, Purpose.Gate) == 2)
    assert sim.state.phase in {P.FinalValidation, P.CommitMessage}
    assert sim.started(Land) == []
    sim.run(until=lambda s: bool(s.started(Land)))
    assert sim.state.gated == sim.state.candidates[sim.state.winner].change.tree
    twice = Sim(story(pipeline=Pipeline(plan=False, gate_fix_rounds=0)))
    twice.says(MakeCommit, lambda e: CommitMade(key=e.key, commit=Commit("f"), tree=Tree(f"{e.tree}+")))
    twice.run(until=failed)
    assert twice.state.trouble is not None
    assert twice.state.trouble.failed_phase is P.CommitMessage


def refused(why: str) -> Callable[[Effect], LandingRefused]:
    """An answer of a landing."""
    return lambda effect: LandingRefused(key=effect.key, why=why, detail=f"it is {why}", output=small("words"))


def test_a_moved_target_goes_back_to_the_gate() -> None:
    """A tip that moved costs no round and is no failure: sync, gate, commit, land again; past some, with waits."""
    sim = Sim(story(land="push"))
    sim.says(Land, refused("moved"), times=6)
    sim.run()
    assert len(sim.started(Land)) == 7
    assert ran(sim, Purpose.Gate) == 7
    assert [t.span_s for t in sim.started(Timer)] == [30.0, 60.0]
    assert (sim.state.phase, sim.facts(RecoverySucceeded)) == (P.Complete, [])
    assert len([t for t in sim.world.turns if t.node == "commit"]) == 1


def test_a_dirty_checkout_gets_a_branch_and_a_note() -> None:
    """Mode `local` with a dirty checkout on the target: the finished branch is left, one line why, no failure."""
    sim = Sim(story())
    sim.says(Land, refused("dirty"), times=1)
    sim.run()
    assert sim.state.landing is not None
    assert (sim.state.landing.mode, sim.state.landing.note) == ("branch", "it is dirty")
    assert [m.reason for m in sim.started(object) if m.node == "marker"] == ["ready"]


def test_a_refused_landing_is_fixed_and_tested_again() -> None:
    """A rejected push gets a landing fix; the changed work passes the gate before the next try."""
    sim = Sim(story(land="push", fixer="beta"))
    sim.says(Land, refused("rejected"), times=1)
    sim.run()
    assert [t.seat for t in sim.started(StartTurn) if t.node == "land"] == ["fix"]
    assert ran(sim, Purpose.Gate) == 2
    assert sim.state.phase is P.Complete


def test_landing_rounds_end() -> None:
    """With the rounds spent a refusal is a terminal failure."""
    sim = Sim(story(land="push", pipeline=Pipeline(plan=False, land_rounds=1)))
    sim.says(Land, refused("rejected"))
    sim.run(until=failed)
    assert fixes(sim, "land") == 1


def test_a_remote_out_of_reach_is_waited_for_then_asked_about() -> None:
    """Rulings 29: no agent can mend the way to a remote: longer and longer waits, then a question that holds; nothing is paid for it."""
    sim = Sim(story(land="push", pipeline=Pipeline(plan=False)))
    sim.says(Land, refused("unreachable"), times=8)
    sim.run(until=lambda s: "pushing" in s.state.questions)
    assert [e.span_s for e in sim.started(Timer)] == [30.0, 60.0, 120.0, 240.0, 480.0, 900.0]
    paid = len(sim.started(StartTurn))
    assert reducer.blocked(sim.run().state) is not None
    sim.put(Answered(question="pushing", text="retry"))
    assert sim.run().state.phase is P.Complete
    assert [e.span_s for e in sim.started(Timer)][6:] == [0.0, 30.0]
    assert (len(sim.started(StartTurn)), sim.state.trouble) == (paid, None)


def unsigned(effect: MakeCommit) -> CommitRefused:
    """A commit that could not be signed."""
    return CommitRefused(key=effect.key, output=small("no secret key"), code=128, hook="signing")


def test_a_signature_that_breaks_is_asked_about() -> None:
    """Rulings 29: a signature that cannot work any more is a question that holds, not a failure of the work; nothing is paid for it."""
    for word, phase, tries in (("retry", P.Complete, 2), ("stop", P.Interrupted, 1)):
        sim = Sim(story())
        sim.says(MakeCommit, unsigned, times=1)
        blocked = reducer.blocked(sim.run().state)
        assert blocked is not None
        assert "no secret key" in blocked.text
        sim.put(Answered(question="signing", text=word))
        assert sim.run().state.phase is phase
        assert (fixes(sim), len(sim.started(MakeCommit)), sim.state.trouble) == (0, tries, None)


def test_a_hook_that_cannot_work_is_asked_about() -> None:
    """Rulings 29: no edit mends a hook that does not end or cannot run: a question that holds; nothing is paid for it."""
    for code, told in ((124, "did not end in time"), (127, "cannot run")):
        sim = Sim(story())
        no = CommitRefused(key=EffectId(""), output=small("no node"), code=code, hook="pre-commit", timed_out=code == 124)
        sim.says(MakeCommit, lambda e, no=no: replaced(no, key=e.key), times=1)  # type: ignore[misc]
        blocked = reducer.blocked(sim.run().state)
        assert blocked is not None
        assert blocked.text.startswith(f"The commit is not made: the pre-commit hook {told}")
        sim.put(Answered(question="hook", text="retry"))
        assert sim.run().state.phase is P.Complete
        assert (fixes(sim), sim.state.trouble) == (0, None)


def test_a_lost_workspace_is_made_anew() -> None:
    """Wherever a slot is lost, another is prepared at the work's head, and the step is made there."""
    for kind in (StartTurn, RunCommands, CollectWork, SyncBase, MakeCommit, Land):
        sim = Sim(story())
        sim.says(kind, lambda e: WorkspaceLost(key=e.key, slot=e.slot, reason="deleted"), times=1)
        if kind is CollectWork:
            sim.says(CollectWork, lambda e, sim=sim: sim.world.collected(e), times=1)  # type: ignore[misc]
        sim.run()
        assert sim.state.phase is P.Complete, kind
        slots = [e for e in sim.started(PrepareWorkspace) if e.seat == "impl-A"]
        assert len(slots) == 2, kind


def test_work_that_vanished_is_a_failure_of_its_turn() -> None:
    """An agent that deletes its workspace has not shown that nothing was to be done, and what it did is unknown: the turn failed."""
    sim = Sim(story(roster="alpha", developer="alpha"))
    sim.says(CollectWork, lambda e: WorkspaceLost(key=e.key, slot=e.slot, reason="its folder is gone"), times=1)
    sim.run(until=failed)
    assert sim.state.trouble is not None
    assert (sim.state.trouble.failure.kind, sim.state.trouble.failed_phase) == ("lost", P.Development)
    assert sim.run().state.already == ""
    assert fixes(sim, "implement") == 2


def test_a_collection_that_nobody_asked_for_is_harmless() -> None:
    """`reduce` is total: work collected in FinalValidation while no check was red leaves the gate due."""
    sim = Sim(story()).run(until=lambda s: s.state.phase is P.FinalValidation and s.state.validating.step == "gate")
    state = sim.state
    stray = rooms.collect(state, "gate-fix", state.winner, "stray", lambda state, _effect, _event: state)[0].effect
    assert isinstance(stray, CollectWork)
    answer = sim.world.collected(stray)
    told: tuple[Event, ...] = (EffectStarted(key=stray.key, effect=stray), answer)
    for n, event in enumerate(told, 1):
        state = reducer.reduce(state, Entry(sim.state.seq + n, sim.state.at + n, event))
    assert (state.phase, state.validating.step) == (P.FinalValidation, "gate")


@pytest.mark.parametrize("node", ["fix", "land", "gate-fix"])
def test_a_workspace_lost_before_the_collection(node: str) -> None:
    """A slot that is lost while a fixer's work is collected is made anew; the work of that round is lost, the run is not."""
    sim = Sim(story(land="push"), red(Purpose.Gate, lambda tree: tree == "tree of c2") if node == "gate-fix" else World())
    if node == "fix":
        sim.fails("alpha", good(BLOCKER), node="review", times=1)
    if node == "land":
        sim.says(Land, refused("rejected"), times=1)
    sim.says(CollectWork, lambda e: WorkspaceLost(key=e.key, slot=e.slot, reason="deleted"), times=1, node=node)
    sim.run()
    assert sim.state.phase is P.Complete
    assert len([e for e in sim.started(CollectWork) if e.node == node]) >= 2


def slot_of_first(sim: Sim) -> Any:
    """The slot of the first implementer, once it has one."""
    sim.run(until=lambda s: "impl-A" in s.state.workspaces)
    return sim.state.workspaces[next(iter(sim.state.workspaces))].slot


def replaced(told: Any, **fields: Any) -> Any:
    """The same fact with other fields."""
    return type(told)(**{name: getattr(told, name) for name in told.__struct_fields__} | fields)

"""Competitions with strange candidates and strange judges, in whole runs; and what people see of one."""

import json
import re
from typing import Any

import pytest

from nightcrew.core.effects import StartTurn
from nightcrew.core.events import DevFixTriggered, EffectStarted, RecoveryAttempted, RecoverySucceeded, WorkspaceReset
from nightcrew.journal.blobs import Blobs
from nightcrew.redact import NAMELESS
from support.crew import LOCAL, Crew, Turn

NAMES = ("alpha", "beta", "gamma")
DONE = {"say": "Done."}


def ranks(*order: str) -> Turn:
    """The step of a judge that ranks so."""
    return {"say": json.dumps({"order": order, "reasons": {order[0]: "it is short"}, "confidence": 0.5})}


def votes(choice: str) -> Turn:
    """The step of a judge that votes so."""
    return {"say": json.dumps({"choice": choice, "why": "so"})}


def makes(label: str, *steps: Turn) -> Turn:
    """What the implementer of that label does, besides the note."""
    return {"node": "implement", "label": label, "do": [*steps, DONE]}


NOTE = {"write": "note.txt", "text": "four, {label}\n"}
JUDGES: tuple[Turn, ...] = (
    {"node": "judge", "do": [ranks("A", "B", "C")]},
    {"node": "deliberate", "do": [votes("A")]},
    {"node": "vote", "do": [votes("A")]},
)


def competing(crew: Crew, *turns: Turn, pipeline: Turn | None = None, **tables: Any) -> None:
    """Three agents compete for a note, and are the judges."""
    told = {"plan": False, "reviewers": 0, "implementers": 3, **(pipeline or {})}
    verify = {"gate": ["grep -q four note.txt"], "check": ["true"]}
    crew.settle(*crew.agents(*NAMES), pipeline=told, land=LOCAL, verify=verify, **tables)
    crew.git("switch", "-qc", "mine")
    crew.play(*turns, *JUDGES, {"node": "implement", "do": [NOTE, DONE]})


def prompts(crew: Crew, node: str) -> list[str]:
    """What the judges were told at that node, whole."""
    blobs = Blobs(crew.journal().folder(crew.run) / "blobs")
    turns = [e.effect for e in crew.facts(EffectStarted) if isinstance(e.effect, StartTurn) and e.effect.node == node]
    parts = [
        [part.text or (blobs.get(part.blob)[-part.limit :].decode() if part.blob else "") for part in t.brief.parts]
        for t in turns
    ]
    return ["\n".join(told) for told in parts]


def landed(crew: Crew) -> str:
    """The note on main after a run that must land."""
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    return crew.shown("main", "note.txt")


STRANGE: dict[str, list[Turn]] = {
    "a missing label": [ranks("A", "B")],
    "a label twice": [ranks("A", "B", "B")],
    "agents instead of labels": [ranks("alpha", "beta", "gamma")],
    "prose": [{"say": "I like A best, then B; C is no good."}],
    "a flood": [{"flood": 3_000_000}, {"say": "A"}],
    "half a JSON": [{"say": '{"order": ["A", "B", "C"'}],
}


@pytest.mark.parametrize("how", STRANGE)
def test_a_judge_that_gives_no_ranking(crew: Crew, how: str) -> None:
    """T190: it is asked once more, then it has abstained, which is no vote: the other two are a quorum and decide."""
    competing(crew, {"node": "judge", "seat": "judge-1", "do": STRANGE[how]})
    assert landed(crew) == "four, A\n"
    at = crew.state().judging
    assert at.tally is not None
    assert (sorted(at.rankings), at.tally.present, at.tally.judges) == (["judge-2", "judge-3"], 2, 3)


def test_a_judge_that_votes_for_itself_by_name(crew: Crew) -> None:
    """T191: a vote for what is no label is none; what a judge says of itself the others read without its name."""
    split: Turn = {"node": "judge", "seat": "judge-2", "do": [ranks("B", "A", "C")]}
    says: Turn = {
        "node": "deliberate",
        "seat": "judge-1",
        "do": [{"say": json.dumps({"choice": "A", "why": "I, Beta, a Claude, like it"})}],
    }
    competing(
        crew, split, says, {"node": "vote", "seat": "judge-1", "do": [votes("alpha")]}, {"node": "deliberate", "do": [votes("B")]}
    )
    assert landed(crew) == "four, A\n"
    at = crew.state().judging
    assert at.tally is not None
    assert (sorted(at.ballots), at.tally.present) == (["judge-2", "judge-3"], 2)
    told = "".join(prompts(crew, "deliberate") + prompts(crew, "vote"))
    assert f"I, {NAMELESS}, a {NAMELESS}, like it" in told
    assert not any(name in told.lower() for name in ("claude", *NAMES))


def test_what_judges_need_is_mended_on_the_base(crew: Crew) -> None:
    """A repair while candidates are judged is made beside them and lands with the winner; nobody implements or ranks twice."""
    lame = {"turn": 1, "do": [{"notice": "refused", "reason": "the tool is missing"}]}
    mend = {"node": "dev-fix", "do": [{"write": "tool", "text": "mended"}, {"say": "Made the tool."}]}
    competing(crew, *({"node": "judge", "seat": f"judge-{n}", **lame} for n in (1, 2)), mend)
    assert landed(crew) == "four, A\n"
    assert crew.shown("main", "tool") == "mended\n"
    assert [fact.level for fact in crew.facts(RecoverySucceeded)] == [1]
    assert sorted(start["seat"] for start in crew.starts() if start["node"] == "implement") == ["impl-A", "impl-B", "impl-C"]
    assert [start["seat"] for start in crew.starts()].count("judge-3") == 1
    assert crew.git("for-each-ref", "--format=%(refname)", "refs/nightcrew").split() == [
        f"refs/nightcrew/{crew.run}/{x}" for x in "BC"
    ]


def test_a_repair_that_one_rival_cannot_take(crew: Crew) -> None:
    """Rulings 27: a repair that conflicts with one candidate is kept from that one alone; once all start over, all begin with it."""
    lame = [{"node": "judge", "turn": n, "do": [{"notice": "refused", "reason": "no tool"}]} for n in range(1, 9)]
    mend = {"node": "dev-fix", "turn": 1, "do": [{"write": "tool", "text": "mended"}, {"say": "Made the tool."}]}
    mine = {"node": "implement", "label": "A", "turn": 1, "do": [NOTE, {"write": "tool", "text": "mine"}, DONE]}
    competing(crew, mine, *lame, mend, recovery={"pause": "0.01s", "pause_max": "0.02s"}, limits={"turns": 300})

    assert landed(crew) == "four, A\n"

    assert max(fact.level for fact in crew.facts(RecoveryAttempted)) >= 3
    assert [len(fact.skipped) for fact in crew.facts(WorkspaceReset)][:3].count(1) == 1
    assert crew.shown("main", "tool") == "mended\n"


@pytest.mark.parametrize("mode", ["bwrap", "off"])
def test_a_judge_that_edits_its_workspace(crew: Crew, mode: str) -> None:
    """Under bwrap it cannot; elsewhere git finds it, and its answer is void."""
    competing(
        crew,
        {"node": "judge", "seat": "judge-1", "do": [{"run": "echo me > note.txt"}, ranks("C", "B", "A")]},
        sandbox={"mode": mode},
    )
    assert landed(crew) == "four, A\n"
    at = crew.state().judging
    assert at.tally is not None
    assert at.tally.present == (3 if mode == "bwrap" else 2)
    noted = [note for note in crew.entries()[0].event.notes if "blindness" in note]  # type: ignore[union-attr]
    assert bool(noted) == (mode == "off")


def test_all_candidates_are_empty(crew: Crew) -> None:
    """Nobody changed anything: the run does not go to judges, it fails for recovery."""
    competing(crew, {"node": "implement", "do": [DONE]}, recovery={"dev_fix": False, "ceiling": 1})
    assert crew.call("run", "write the note").code == 1
    assert crew.facts(DevFixTriggered)
    assert prompts(crew, "judge") == []


def test_all_candidates_are_the_same(crew: Crew) -> None:
    """One is left, which nobody has to judge; the others are told as its doubles."""
    competing(crew, {"node": "implement", "do": [{"write": "note.txt", "text": "four\n"}, DONE]})
    assert landed(crew) == "four\n"
    assert sorted(crew.state().judging.out.values()) == ["the same as A", "the same as A"]
    assert "A alone is left, and nobody has to judge" in crew.call("show").out
    assert prompts(crew, "judge") == []


def test_more_implementers_than_agents(crew: Crew) -> None:
    """Five of three agents: some work twice, and it is noted."""
    order = [chr(ord("A") + n) for n in range(5)]
    competing(crew, {"node": "judge", "do": [ranks(*order)]}, pipeline={"implementers": 5})
    assert landed(crew) == "four, A\n"
    assert len(crew.state().candidates) == 5
    assert "work more than once" in crew.call("show").out


def test_candidates_that_no_patch_can_show(crew: Crew) -> None:
    """A has 100,000 lines, B a binary file alone, C deletes everything: judges are told so, in a prompt that is not too long."""
    competing(
        crew,
        makes("A", NOTE, {"run": "seq 100000 > many.txt"}),
        makes("B", {"run": "printf 'a\\000b' > one.bin"}),
        makes("C", {"run": "git rm -rq ."}),
    )
    assert landed(crew) == "four, A\n"
    told = prompts(crew, "judge")[0]
    assert "100001 lines added" in told
    assert "too long to be shown whole" in told
    assert "only binary files or modes changed" in told
    assert len(told) < 250_000


@pytest.mark.parametrize("policy", ["warn", "redact", "fail"])
def test_a_candidate_that_names_a_vendor(crew: Crew, policy: str) -> None:
    """`warn` tells it; `redact` takes the word out of what judges see, not of what lands; `fail` leaves the candidate out."""
    named = makes("A", {"write": "note.txt", "text": "four, by Claude\n"})
    few = [{"node": "judge", "do": [ranks("B", "C")]}, {"node": "vote", "do": [votes("B")]}] if policy == "fail" else []
    competing(crew, named, *few, pipeline={"on_leak": policy})
    note = landed(crew)
    assert note == ("four, B\n" if policy == "fail" else "four, by Claude\n")
    assert ("by Claude" in "".join(prompts(crew, "judge"))) == (policy == "warn")
    assert "A names claude (an agent or a vendor)" in crew.call("show").out


def test_every_candidate_names_a_vendor(crew: Crew) -> None:
    """Under `fail` nobody is judged and the run fails; what each made can be seen by its label, and without one is not guessed."""
    named = {"node": "implement", "do": [{"write": "note.txt", "text": "four, {label} by Claude\n"}, DONE]}
    competing(crew, named, pipeline={"on_leak": "fail"}, recovery={"ceiling": 1})
    assert crew.call("run", "write the note").code == 1
    assert "every candidate names a vendor: A names claude; B names claude; C names claude" in crew.call("show").out
    assert prompts(crew, "judge") == []
    told = crew.call("diff", crew.run)
    assert (told.code, "name one of A, B, C" in told.line) == (2, True)
    assert "+four, B by Claude" in crew.call("diff", crew.run, "b").out


def test_what_people_see_of_a_competition(crew: Crew) -> None:
    """Candidates stand side by side, with their authors once it is decided; the patch of each can be had by its label."""
    competing(crew, {"node": "judge", "seat": "judge-2", "do": [ranks("B", "C", "A")]})
    done = crew.call("run", "write the note")
    assert done.code == 0
    shown, state = crew.call("show").out, crew.state()
    for label in "ABC":
        (row,) = [line for line in shown.splitlines() if line.startswith(f"  {label}  1 file, +1 -3")]
        assert f"by {state.candidates[label].agent}" in row  # type: ignore[index]
        assert f"+four, {label}" in crew.call("diff", crew.run, label.lower()).out
        assert f"impl-{label}: work collected: 1 file, +1 -3" in done.out
        assert f"impl-{label}: check green" in done.out
    assert (
        "A wins: it has the most votes (3 of 3 judges, votes A 3, B 0, C 0)\n    judge-1 votes for A\n    judge-2 votes for A"
        in shown
    )
    assert re.search(r"judge-2 ranks B, C, A\n    B: it is short\n", shown)
    assert "judge-2 leans to A: so" in shown
    assert "has no candidate D" in crew.call("diff", crew.run, "D").line
    counted = json.loads(crew.call("stats", "--json").out)
    assert (counted["decided"], counted["counts"]["rankings"]) == ({"votes": 1}, 3)

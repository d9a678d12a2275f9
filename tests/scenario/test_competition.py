"""A competition in whole runs: three implement, three judge blind, the winner lands; judges that are lost, and what becomes of the run."""

import json
from typing import Any

import pytest

from nightcrew.core.effects import StartTurn
from nightcrew.core.events import (
    DevFixAgentUnavailable,
    DevFixTriggered,
    EffectStarted,
    HandedOver,
    RecoveryAttempted,
    WorkspaceLost,
)
from nightcrew.core.work import FailClass
from support.crew import LOCAL, Crew, Turn

NAMES = ("alpha", "beta", "gamma")


def ranks(order: str, **more: Any) -> str:
    """A judge's opening answer, as it is said."""
    reasons = {label: f"reason for {label}" for label in order}
    return json.dumps({"order": list(order), "reasons": reasons, "confidence": 0.7, **more})


def votes(choice: str, why: str = "it is the best") -> str:
    """A vote, or a turn of the deliberation."""
    return json.dumps({"choice": choice, "why": why})


WORK: Turn = {
    "node": "implement",
    "do": [{"write": "note.txt", "text": "four\n"}, {"write": "by.txt", "text": "{label}\n"}, {"say": "Done."}],
}
USUAL = (
    WORK,
    {"node": "judge", "do": [{"say": ranks("ABC")}]},
    {"node": "deliberate", "do": [{"say": votes("B", "B has the point of {seat}")}]},
    {"node": "vote", "do": [{"must_read": "not shown to the others"}, {"say": votes("B")}]},
)
SPLIT = tuple(
    {"node": "judge", "seat": f"judge-{n}", "do": [{"say": ranks(order)}]} for n, order in enumerate(("ABC", "BAC", "CAB"), 1)
)


def competing(
    crew: Crew,
    *turns: Any,
    names: tuple[str, ...] = NAMES,
    roles: Any = None,
    recovery: Any = None,
    limits: Any = None,
    **pipeline: Any,
) -> None:
    """Three agents, three implementers, three judges; the note decides."""
    told = {"plan": False, "reviewers": 0, "implementers": 3, **pipeline}
    verify = {"gate": ["grep -q four note.txt"], "check": ["test -e by.txt"]}
    tables = {"roles": roles or {}, "recovery": recovery or {}, "limits": limits or {}}
    crew.settle(*crew.agents(*names), pipeline=told, land=LOCAL, verify=verify, **tables)
    crew.git("switch", "-qc", "mine")
    crew.play(*turns, *USUAL)


def asked(crew: Crew, node: str, seat: str = "") -> list[str]:
    """Who was started there, in order."""
    return [start["agent"] for start in crew.starts() if start["node"] == node and seat in {"", start["seat"]}]


def refs(crew: Crew) -> dict[str, str]:
    """What nightcrew holds in the person's repository, by name."""
    lines = crew.git("for-each-ref", "--format=%(refname) %(objectname)", "refs/nightcrew/").splitlines()
    return dict(line.split(" ") for line in lines)


def handed(crew: Crew) -> list[tuple[str, str, str, str, str]]:
    """The handovers."""
    records = [e.handover for e in crew.facts(HandedOver)]
    return [(h.node, h.seat, h.from_agent, h.to_agent, str(h.fail)) for h in records]


def prompt(crew: Crew, node: str, seat: str) -> list[str]:
    """What that seat was told, turn by turn, as far as it is written in the facts."""
    turns = [e.effect for e in crew.facts(EffectStarted) if isinstance(e.effect, StartTurn)]
    return ["\n".join(p.text for p in t.brief.parts) for t in turns if (t.node, t.seat) == (node, seat)]


def test_three_compete_and_judges_agree(crew: Crew) -> None:
    """T051, T052, T053, T055, T058: three candidates of a commit each, three rankings in different orders, the winner lands, all slots are free.

    The losers' work keeps its refs until the run is cleaned.
    """
    competing(crew)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert sorted(asked(crew, "implement")) == sorted(asked(crew, "judge")) == list(NAMES)
    assert asked(crew, "deliberate") == asked(crew, "vote") == []
    state = crew.state()
    assert {label: c.change.commits for label, c in state.candidates.items()} == {"A": 1, "B": 1, "C": 1}
    assert len(set(state.judging.orders.values())) == 3
    tally = state.judging.tally
    assert tally is not None
    assert (tally.present, tally.quorum, tally.winner) == (3, 2, "A")
    assert crew.shown("main", "by.txt") == "A\n"
    assert state.workspaces == {}
    losers = {f"refs/nightcrew/{crew.run}/{label}": state.candidates[label].change.head for label in ("B", "C")}  # type: ignore[index]
    assert refs(crew) == losers
    cleaned = crew.call("clean").out
    assert [name for name in losers if f"removed {name}" in cleaned] == list(losers)
    assert refs(crew) == {}
    crew.git("gc", "-q", "--prune=now")
    told = crew.call("diff", crew.run, "B")
    assert (told.code, "the work of B is not there any more" in told.line) == (2, True)
    assert {start["run"] for start in crew.starts()} == {crew.run}
    assert crew.call("show", crew.run).code == 0


def test_who_lost_stays_while_the_winner_waits(crew: Crew) -> None:
    """A winner that is left on its branch is not landed: `clean` keeps it and those who lost to it; once it is, they go."""
    competing(crew)
    assert crew.call("run", "--mode", "branch", "write the note").code == 0
    losers = refs(crew)
    assert [name[-1] for name in losers] == ["B", "C"]
    assert f"kept {next(iter(losers))}" in crew.call("clean").out
    assert refs(crew) == losers

    landing = crew.state().landing
    assert landing is not None
    crew.git("update-ref", "refs/heads/main", landing.commit)

    assert f"removed {next(iter(losers))}" in crew.call("clean").out
    assert refs(crew) == {}


def test_a_split_panel(crew: Crew) -> None:
    """T061, T063: three first choices: a round of three turns by number, a private vote, B lands with three votes, two of them changed."""
    competing(crew, *SPLIT)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    at = crew.state().judging
    assert [(seat, turn.choice, turn.why) for seat, turn in at.turns] == [
        (f"judge-{n}", "B", f"B has the point of judge-{n}") for n in (1, 2, 3)
    ]
    assert at.tally is not None
    assert (at.tally.winner, at.tally.votes[at.tally.winner], at.tally.changed, at.tally.decided_by) == ("B", 3, 2, "votes")
    told = "".join(prompt(crew, "deliberate", "judge-3") + prompt(crew, "vote", "judge-1"))
    assert "Judge 1" in told
    assert not any(name in told for name in NAMES)
    assert crew.shown("main", "by.txt") == "B\n"


@pytest.mark.parametrize(
    ("how", "fail"),
    [
        ([{"stderr": "broken\n"}, {"exit": 1}], FailClass.Other),
        ([{"hang": "plain"}], FailClass.Timeout),
        ([{"notice": "quota", "reset_in": 3600}], FailClass.Quota),
    ],
)
def test_a_judge_that_fails_only_its_vote(crew: Crew, how: Any, fail: FailClass) -> None:
    """T037, T038, T039: beta fails only its vote: one handover to gamma, told task, candidates, ranking and argument; no quota loss."""
    competing(crew, {"agent": "beta", "node": "vote", "do": how}, *SPLIT, limits={"idle": "4s"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert handed(crew) == [("vote", "judge-1", "beta", "gamma", fail)]
    short, whole = prompt(crew, "vote", "judge-1")[0], prompt(crew, "vote", "judge-1")[-1]
    assert ("# Task" in short, "# Task" in whole, "You (judge 1): A, B, C" in whole) == (False, True, True)
    assert crew.state().quota_losses == ()


def test_a_judge_whose_deliberation_drops(crew: Crew) -> None:
    """T071: judge 1's turn ends with an error whoever is asked: two turns, none of its words in the others' prompts, and the run lands."""
    drops = {"node": "deliberate", "seat": "judge-1", "do": [{"stderr": '{"error": "boom"}\n'}, {"exit": 1}]}
    competing(crew, drops, *SPLIT)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert [seat for seat, _ in crew.state().judging.turns] == ["judge-2", "judge-3"]
    assert "boom" not in "".join(prompt(crew, "deliberate", "judge-2") + prompt(crew, "vote", "judge-3"))


def test_two_judges_out_of_quota(crew: Crew) -> None:
    """T044, T047: two of three lost: below the quorum nothing is reviewed or landed; once the quota is back only they are asked again."""
    lost = [{"notice": "quota", "reset_in": 2}]
    gone = [{"node": "judge", "seat": f"judge-{n}", "turn": 1, "do": lost} for n in (1, 2)]
    competing(crew, *gone, names=(*NAMES, "delta"), roles={"judge": ["delta"]})
    process = crew.start("run", "write the note")
    crew.until(lambda e: isinstance(e, DevFixAgentUnavailable | DevFixTriggered), process)
    tally = crew.state().judging.tally
    assert tally is not None
    assert (tally.judges, tally.present, tally.quorum, tally.winner) == (3, 1, 2, "")

    done = crew.end(process)

    assert done.code == 0, done
    assert len(asked(crew, "judge", "judge-3")) == 1
    tally = crew.state().judging.tally
    assert tally is not None
    assert tally.present == 3
    assert crew.facts(RecoveryAttempted)[0].attempt_count == 0


def test_two_judges_that_fail(crew: Crew) -> None:
    """T048, T049: two of three fail plainly: below the quorum, no quota lost; recovery asks the two alone, and the quorum is met."""
    broken = [{"stderr": "broken {agent}\n"}, {"exit": 1}]
    gone = [{"node": "judge", "seat": f"judge-{n}", "turn": turn, "do": broken} for n in (1, 2) for turn in (1, 2)]
    competing(crew, *gone)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    state = crew.state()
    assert (len(asked(crew, "judge", "judge-3")), state.quota_losses) == (1, ())
    assert crew.facts(RecoveryAttempted)[0].level == 1
    assert state.judging.tally is not None
    assert state.judging.tally.present == 3


def test_an_implementer_that_removes_its_workspace(crew: Crew) -> None:
    """Its lane alone is lost: who works goes on, who has finished is not asked again, and the two are judged."""
    wipes = {"node": "implement", "label": "B", "do": [{"run": 'rm -rf "$PWD" 2>/dev/null; rm -rf "$PWD"/.git'}]}
    waits = {"node": "implement", "label": "A", "do": [{"wait_for": str(crew.home / "go")}, *WORK["do"]]}
    two = {"node": "judge", "do": [{"say": ranks("AC")}]}
    competing(crew, wipes, waits, two)
    with (crew.home / ".config/nightcrew/config.toml").open("a") as file:
        file.write('[sandbox]\nmode = "off"\n')
    process = crew.start("run", "write the note")
    crew.until(lambda e: isinstance(e, WorkspaceLost), process)
    (crew.home / "go").touch()

    done = crew.end(process)

    assert done.code == 0, done
    assert sorted(asked(crew, "implement")) == list(NAMES)
    assert (asked(crew, "dev-fix"), crew.state().judging.entrants) == ([], ("A", "C"))
    assert "the work of B is gone" in crew.call("show").out


def test_a_cooling_agent_holds_no_competition_up(crew: Crew) -> None:
    """Known to be spent for hours from a run before: its lane is not waited for, the other's work lands."""
    spent = {"agent": "gamma", "node": "implement", "do": [{"notice": "quota", "reset_in": 7200}]}
    competing(crew, spent, implementers=2, roles={"developer": ["gamma"]})
    assert crew.call("run", "--no-wait", "spend it").code == 3
    told = crew.home / ".config/nightcrew/config.toml"
    told.write_text(told.read_text().replace('developer = ["gamma"]', 'developer = ["alpha", "gamma"]'))
    before = len(asked(crew, "implement"))

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert asked(crew, "implement")[before:] == ["alpha"]
    shown = crew.call("show").out
    assert "is not judged: its agents cool down" in shown
    assert "alone is left, and nobody has to judge" in shown


def test_an_implementer_whose_stream_drops(crew: Crew) -> None:
    """T069, T025: one drops once and goes on, the other is out of quota: a spare takes over, and both candidates are whole."""
    drops = {"agent": "alpha", "node": "implement", "turn": 1, "do": [{"stderr": "connection reset\n"}, {"exit": 1}]}
    spent = {"agent": "beta", "node": "implement", "do": [{"notice": "quota", "reset_in": 3600}]}
    two = {"node": "judge", "do": [{"say": ranks("AB")}]}
    competing(crew, drops, spent, two, implementers=2)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert sorted(c.agent for c in crew.state().candidates.values()) == ["alpha", "gamma"]
    assert [h[2:4] for h in handed(crew) if h[0] == "implement"] == [("beta", "gamma")]


def test_advisors_that_cannot_start(crew: Crew) -> None:
    """T074, T076: one advisor's proposal is one record; one whose program is unknown gives none, is known, and the run goes on."""
    good = {"node": "advise", "seat": "advisor-1", "do": [{"say": json.dumps({"approach": "just write it"})}]}
    none = {"node": "advise", "seat": "advisor-2", "do": [{"exit": 127}]}
    blend = {"node": "synthesize", "do": [{"must_read": "just write it"}, {"say": "Write it."}]}
    competing(crew, good, none, blend, plan=True, advisors=2, implementers=1)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    advising = crew.state().advising
    assert (list(advising.proposals), list(advising.absent)) == (["advisor-1"], ["advisor-2"])
    assert "# Plan" in prompt(crew, "implement", "impl-A")[0]


def test_a_second_iteration_competes_on_top_of_the_winner(crew: Crew) -> None:
    """Two iterations: all three begin the second with the winner's files, whose work is the base of what lands; losers keep their commits."""
    more = {"node": "implement", "turn": 2, "do": [{"append": "note.txt", "text": "more of {label}\n"}, {"say": "Done."}]}
    fresh = {"node": "judge", "do": [{"say": ranks("BAC")}]}
    competing(crew, more, fresh, iterations=2)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    state = crew.state()
    assert (state.iteration, [c.label for c in state.iterations], state.winner) == (1, ["B"], "B")
    assert len(asked(crew, "implement")) == len(asked(crew, "judge")) == 6
    for candidate in state.candidates.values():
        assert crew.shown(candidate.change.head, "by.txt") == "B\n"
    assert crew.shown("main", "note.txt") == "four\nmore of B\n"
    assert crew.git("rev-list", "--count", "main~1..main").strip() == "1"


@pytest.mark.parametrize("spoils", [False, True])
def test_a_graft_in_a_whole_run(crew: Crew, spoils: bool) -> None:  # noqa: FBT001
    """What judges credit a loser with is ported by one fixer's round, and lands; a port that breaks a check is undone."""
    praise = {"node": "judge", "do": [{"say": ranks("ABC", strengths={"C": "it says when"})}]}
    ported = [{"must_read": "it says when"}, {"write": "when.txt", "text": "now\n"}, {"run": "rm by.txt" if spoils else "true"}]
    competing(crew, praise, {"node": "fix", "do": [*ported, {"say": "Ported."}]}, graft=True)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert len(asked(crew, "fix")) == 1
    assert ("when.txt" in crew.git("ls-tree", "-r", "--name-only", "main")) is not spoils
    assert crew.shown("main", "by.txt") == "A\n"


def test_a_panel_that_fails_until_level_three(crew: Crew) -> None:
    """Prose from every judge, time after time: level 2 judges afresh, level 3 has everything made anew on branches of its own; then it lands."""
    prose = [{"node": "judge", "turn": n, "do": [{"say": "B is the best, I think."}]} for n in range(1, 15)]
    competing(crew, *prose, names=(*NAMES, "delta"), roles={"judge": ["delta"]}, recovery={"pause": "0.01s"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    state = crew.state()
    assert [event.level for event in crew.facts(RecoveryAttempted)] == [1, 1, 1, 2, 2, 2, 3]
    assert (state.recovery_epoch, len(asked(crew, "implement")), state.trouble) == (1, 6, None)
    assert asked(crew, "dev-fix") == ["alpha"] * 7  # on their base, where nothing is found to mend
    assert crew.shown("main", "by.txt") == "A\n"

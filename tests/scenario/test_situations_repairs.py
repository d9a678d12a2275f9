"""What a dev-fix mended is kept when a workspace is set back: on top where it fits, told of and rescued where it does not."""

import pytest

from nightcrew.core.events import EffectStarted, RecoveryAttempted, RecoverySucceeded, WorkspaceReset
from support import repos
from support.crew import Crew, Turn

QUICK = {"pause": "1s", "pause_max": "1s", "ceiling": 6}
NO_ROUNDS = {"plan": False, "reviewers": 0, "gate_fix_rounds": 0}


def repair(turn: int, *steps: dict[str, str]) -> Turn:
    """The n-th dev-fix."""
    return {"node": "dev-fix", "turn": turn, "do": list(steps)}


def test_repairs_go_on_top_of_a_reset(crew: Crew) -> None:
    """R03: four repairs that only help together: set back at the fourth attempt, all four are there, and the gate passes."""
    turns = [repair(n, {"write": f"cure{n}.txt", "text": "x\n"}) for n in (1, 2, 3, 4)]
    gate = "for n in 1 2 3 4; do test -e cure$n.txt || { echo ill $n; exit 1; }; done; test -e back.txt || { echo ill; exit 1; }"
    spoils = repair(4, {"write": "cure4.txt", "text": "x\n"}, {"write": "back.txt", "text": "x\n"})
    crew.solo(*turns[:3], spoils, pipeline=NO_ROUNDS, recovery=QUICK, gate=gate)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert [e.level for e in crew.facts(RecoveryAttempted)] == [1, 1, 1, 2]
    (reset,) = crew.facts(WorkspaceReset)
    assert reset.skipped == ()
    assert {"note.txt", "cure1.txt", "cure4.txt"} <= set(crew.git("ls-tree", "--name-only", "main").splitlines())
    assert crew.facts(RecoverySucceeded) == [RecoverySucceeded(level=2, total_attempts=4)]


def test_at_the_last_level_all_repairs_are_one(crew: Crew) -> None:
    """Rulings 27: from level 4 on the repairs of a trouble are one commit on its first commit, however many there were; none is lost."""
    several: Turn = {"node": "dev-fix", "do": [{"write": "cure{turn}.txt", "text": "x\n"}]}
    gate = "test $(ls | grep -c cure) -ge 12 || { echo ill; exit 1; }"
    crew.solo(several, pipeline=NO_ROUNDS, recovery={"pause": "0.01s", "pause_max": "0.01s"}, gate=gate)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    resets = [e.effect for e in crew.facts(EffectStarted) if "/ResetWorkspace/" in e.key]
    assert [len(reset.repairs) for reset in resets if reset.as_one] == [10, 2, 2]
    one = resets[-1].repairs[0]
    assert crew.git("rev-parse", f"{one}^") == resets[-1].start == crew.git("merge-base", one, "main~1")
    assert crew.git("diff", "--name-only", f"{one}^", one).splitlines() == sorted(f"cure{n}.txt" for n in range(1, 12))
    names = crew.git("ls-tree", "--name-only", "main").splitlines()
    assert {"note.txt", *(f"cure{n}.txt" for n in range(1, 13))} <= set(names)
    assert crew.facts(RecoverySucceeded) == [RecoverySucceeded(level=4, total_attempts=12)]


def test_a_repair_that_conflicts_is_left_out(crew: Crew) -> None:
    """R03, R21: a repair of a gate-fix's line does not fit without it: left out, the later ones are on top, all of it rescued."""
    fixes: Turn = {"node": "gate-fix", "turn": 2, "do": [{"write": "line.txt", "text": "theirs\n"}]}
    turns = [repair(1, {"write": "line.txt", "text": "mine\n"}), repair(4, {"write": "cure.txt", "text": "x\n"})]
    pipeline = {**NO_ROUNDS, "gate_fix_rounds": 1}
    crew.solo(
        fixes, *turns, pipeline=pipeline, recovery=QUICK, gate="test -e cure.txt && ! test -e line.txt || { echo ill; exit 1; }"
    )

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    (reset,) = crew.facts(WorkspaceReset)
    resets = [e.effect for e in crew.facts(EffectStarted) if "/ResetWorkspace/" in e.key]
    assert reset.skipped == resets[0].repairs[:1]
    assert crew.shown(reset.skipped[0], "line.txt") == "mine\n"
    names = crew.git("ls-tree", "--name-only", "main").splitlines()
    assert ("cure.txt" in names, "line.txt" in names) == (True, False)


@pytest.mark.parametrize(
    "rude",
    [
        'rm -rf "$PWD" 2>/dev/null; rm -rf "$PWD"/.git',
        "rm -rf .git",
        "git switch -qc elsewhere; git commit -qam there; git branch -qD $(git branch --format='%(refname:short)' | grep nightcrew)",
        "git reset -q --soft HEAD~1",
        "git update-ref -d refs/heads/main; git update-ref refs/heads/main HEAD",
    ],
)
def test_a_dev_fix_that_is_rude_loses_nothing(crew: Crew, rude: str) -> None:
    """A dev-fix that deletes its workspace, or its git folder, or moves branches: set right, and the run lands."""
    cures: Turn = {"node": "dev-fix", "do": [{"write": "cure.txt", "text": "x\n"}, {"say": "Cured."}]}
    gate = "test -e cure.txt && grep -q four note.txt || { echo ill; exit 1; }"
    crew.solo(repair(1, {"run": rude}), cures, pipeline=NO_ROUNDS, recovery=QUICK, gate=gate, sandbox={"mode": "off"})
    tip = crew.git("rev-parse", "main")

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.git("rev-parse", "main~1") == tip
    assert crew.shown("main", "note.txt").endswith("four\n")
    assert "cure.txt" in crew.git("ls-tree", "--name-only", "main")


@pytest.mark.parametrize("who", ["gate", "dev-fix"])
def test_a_link_to_the_persons_checkout_is_not_followed(crew: Crew, who: str) -> None:
    """Law 8: where no sandbox holds files, a command or an agent may put a link in its workspace's place: what lies behind it is not touched."""
    links = f"cd /; rm -rf $W; ln -s {crew.repo} $W"
    gate = f"W=$PWD; {links}; exit 1" if who == "gate" else "echo ill; exit 1"
    recovery = {"pause": "0.01s", "pause_max": "0.01s", "ceiling": 4}
    crew.solo(repair(1, {"run": f"W=$PWD; {links}"}), pipeline=NO_ROUNDS, recovery=recovery, gate=gate, sandbox={"mode": "off"})
    refs, head, status, files = repos.state(crew.repo)

    done = crew.call("run", "write the note")

    assert done.code == 1, done
    refs_now, head_now, status_now, files_now = repos.state(crew.repo)
    assert {name: commit for name, commit in refs_now.items() if "nightcrew" not in name} == refs
    assert (head_now, status_now) == (head, status)
    assert {name: data for name, data in files_now.items() if not name.startswith(".agent/")} == files


def test_a_repair_is_one_commit(crew: Crew) -> None:
    """Rulings 27: what a dev-fix committed in several steps is one commit, so that set back at the fourth attempt all of it is there."""
    steps = (
        "echo x > cure1.txt; git add .; git commit -qm one; echo x > cure2.txt; git add .; git commit -qm two; echo x > cure3.txt"
    )
    gate = "for n in 1 2 3; do test -e cure$n.txt || { echo ill $n; exit 1; }; done; test -e back.txt || { echo ill; exit 1; }"
    turns: list[Turn] = [repair(1, {"run": steps}), repair(4, {"write": "back.txt", "text": "x\n"})]
    crew.solo(*turns, pipeline=NO_ROUNDS, recovery=QUICK, gate=gate)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    (reset,) = [e.effect for e in crew.facts(EffectStarted) if "/ResetWorkspace/" in e.key]
    assert [crew.git("log", "-1", "--format=%s", repair) for repair in reset.repairs] == ["dev-fix 1", "dev-fix 4"]
    assert {"cure1.txt", "cure2.txt", "cure3.txt"} <= set(crew.git("ls-tree", "--name-only", "main").splitlines())


def test_every_rescue_is_shown(crew: Crew) -> None:
    """R21, law 8: whatever was put under a rescue ref, on the way to a landing too or by somebody who died before he told, `show` names."""
    several: Turn = {"node": "dev-fix", "do": [{"run": "rm -rf .git"}, {"write": "cure{turn}.txt", "text": "x\n"}]}
    crew.solo(
        several, pipeline=NO_ROUNDS, recovery={"pause": "0.01s", "pause_max": "0.01s", "ceiling": 7}, gate="echo ill; exit 1"
    )

    done = crew.call("run", "write the note")

    assert done.code == 1, done
    saved = crew.git("for-each-ref", "--format=%(refname)", f"refs/nightcrew/rescue/{crew.run}/").split()
    assert saved
    assert set(saved) <= set(crew.call("show", crew.run).out.split())
    late = [f"refs/nightcrew/rescue/{crew.run}/{n}" for n in (99, 100)]
    for name in late:
        crew.git("update-ref", name, "main")
    assert [word for word in crew.call("show", crew.run).out.split() if word in late] == late
    crew.repo.rename(crew.repo.with_name("elsewhere"))
    assert crew.call("show", crew.run, cwd=crew.folder).code == 0

"""The fixer chain in whole runs, counted by agent processes: who takes the seat, what it is told, and that nobody is billed twice."""

import pytest

from nightcrew.core.events import AgentCooling, DevFixTriggered, HandedOver, HandlerCrashed, StepFailed, WorkCollected
from support.crew import LOCAL, Crew, Turn, carriers, until

SPENT: Turn = {"agent": "beta", "do": [{"notice": "quota", "reason": "weekly limit reached", "reset_in": 3600}]}
ILL = "{ echo ill; exit 1; }"


def fixed(crew: Crew, *turns: Turn, gate: str, rounds: int = 2, **land: str) -> None:
    """alpha implements, beta and then gamma fix; no plan, no review."""
    crew.settle(
        *crew.agents("alpha", "beta", "gamma"),
        roles={"developer": "alpha", "fixer": ["beta", "gamma"], "committer": "alpha"},
        pipeline={"plan": False, "reviewers": 0, "gate_fix_rounds": rounds},
        land=LOCAL | land,
        verify={"gate": [gate]},
    )
    crew.git("switch", "-qc", "mine")
    crew.play(SPENT, *turns)


def handed(crew: Crew) -> list[tuple[str, str, str, str]]:
    """The newest run's handovers."""
    return [(h.node, h.from_agent, h.to_agent, str(h.fail)) for h in (e.handover for e in crew.facts(HandedOver))]


def fixers(crew: Crew) -> list[str]:
    """Who was started for a gate-fix."""
    return [seat for seat in crew.seats() if seat.endswith("@gate-fix")]


def test_the_first_fixer_is_spent(crew: Crew) -> None:
    """F01, F02, F19: beta's quota is spent at the gate-fix: gamma fixes, told everything, in a session of its own; one handover, no loss, one round."""
    mends: Turn = {"agent": "gamma", "node": "gate-fix", "resumed": False}
    mends["do"] = [{"must_read": "write the note"}, {"must_read": "four"}, {"must_read": "ill"}, {"write": "well.txt"}]
    fixed(crew, mends, gate=f"test -e well.txt || {ILL}")

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert fixers(crew) == ["beta@gate-fix", "gamma@gate-fix"]
    assert handed(crew) == [("gate-fix", "beta", "gamma", "quota")]
    assert (crew.state().quota_losses, crew.state().validating.rounds) == ((), 1)
    beta, gamma = (start for start in crew.starts() if start["node"] == "gate-fix")
    assert (beta["seat"], gamma["seat"]) == ("fix", "fix")
    assert gamma["session"] not in {"", beta["session"]}
    assert "well.txt" in crew.git("ls-tree", "--name-only", "main")


def test_a_spent_fixer_is_started_once(crew: Crew) -> None:
    """F04: beta is spent and the gate red for two rounds: both are gamma's, the second in its conversation; beta is started once."""
    rounds: list[Turn] = [
        {"agent": "gamma", "node": "gate-fix", "turn": n, "do": [{"append": "round.txt", "text": f"{n}\n"}]} for n in (1, 2)
    ]
    fixed(crew, *rounds, {"node": "dev-fix", "do": [{"hang": "plain"}]}, gate="echo ill; exit 1")
    process = crew.start("run", "write the note")
    crew.until(lambda e: isinstance(e, DevFixTriggered), process)
    crew.call("cancel", crew.run)
    assert crew.end(process).code == 1

    assert fixers(crew) == ["beta@gate-fix", "gamma@gate-fix", "gamma@gate-fix"]
    assert handed(crew) == [("gate-fix", "beta", "gamma", "quota")]
    first, second = (start for start in crew.starts() if start["agent"] == "gamma")
    assert second["resume"] == first["session"]


def test_a_new_run_begins_at_the_front(crew: Crew) -> None:
    """F16: what one run learned about its fixers is that run's: the next asks the first again, and no settings file was written to."""
    mends: Turn = {"node": "gate-fix", "do": [{"append": "well.txt", "text": "x\n"}]}
    refuses: Turn = {"agent": "beta", "node": "gate-fix", "do": [{"notice": "refused", "reason": "I will not"}]}
    fixed(crew, gate=f"test $(cat well.txt | wc -l) = $(grep -c four note.txt) || {ILL}")
    settings = crew.home / ".config/nightcrew/config.toml"
    before = settings.read_bytes()
    crew.play(refuses, mends)
    assert crew.call("run", "write the note").code == 0
    assert handed(crew) == [("gate-fix", "beta", "gamma", "other")]

    crew.play(mends)
    done = crew.call("run", "write it again")

    assert done.code == 0, done
    assert fixers(crew) == ["beta@gate-fix", "gamma@gate-fix", "beta@gate-fix"]
    assert handed(crew) == []
    assert settings.read_bytes() == before


def test_what_one_run_learns_the_other_knows(crew: Crew) -> None:
    """F22: two runs at once, both before their gate; the first learns that beta is spent, the second passes beta over without asking."""
    works: Turn = {
        "node": "implement",
        "do": [{"write": "{run}.txt"}, {"write": "{state}/there/{run}"}, {"wait_for": "{state}/go/{run}"}],
    }
    fixed(
        crew,
        works,
        {"agent": "gamma", "node": "gate-fix", "do": [{"write": "well.txt"}]},
        gate=f"test -e well.txt || {ILL}",
        mode="branch",
    )
    both, there = [crew.start("run", "write a file") for _ in range(2)], crew.played / "there"
    until(lambda: there.is_dir() and len(list(there.iterdir())) == 2)
    (crew.played / "go").mkdir()

    for process in both:
        (crew.played / "go" / crew.run_of(process)).touch()
        assert crew.end(process).code == 0

    assert fixers(crew) == ["beta@gate-fix", "gamma@gate-fix", "gamma@gate-fix"]
    first, second = crew.runs()
    assert len({start["run"] for start in crew.starts() if start["agent"] == "beta"}) == 1
    for run in (first, second):
        told = [e.handover for e in crew.facts(HandedOver, run)]
        assert [(h.node, h.from_agent, h.to_agent, str(h.fail)) for h in told] == [("gate-fix", "beta", "gamma", "quota")]
    assert [e.agent for run in (first, second) for e in crew.facts(AgentCooling, run)] == ["beta"]


def test_a_fixer_that_hangs_is_ended_with_all_it_started(crew: Crew) -> None:
    """F18: beta hangs with a deaf child: both are gone at the limit, the handover says timeout, what it had printed is kept."""
    hangs: Turn = {"agent": "beta", "node": "gate-fix"}
    hangs["do"] = [{"say": "half a thought"}, {"fork": "exec sleep 654321", "how": "daemon"}, {"hang": "deaf"}]
    fixed(crew, gate=f"test -e well.txt || {ILL}")
    with (crew.home / ".config/nightcrew/config.toml").open("a") as settings:
        settings.write('[limits]\nturn = "2s"\n')
    crew.play(hangs, {"agent": "gamma", "node": "gate-fix", "do": [{"write": "well.txt"}]})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert handed(crew) == [("gate-fix", "beta", "gamma", "timeout")]
    assert not carriers("654321")
    assert "half a thought" in crew.call("logs", crew.run, "fix").out


def test_a_fixer_whose_program_is_gone(crew: Crew) -> None:
    """A program that vanishes in mid-run: nobody is started in its place; the handover says what is missing, and the next one fixes."""
    program = crew.home / "mender"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    gone: Turn = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"run": f"rm {program}"}]}
    crew.settle(
        *crew.agents("alpha", "gamma"),
        {"id": "beta", "kind": "command", "command": [str(program)]},
        roles={"developer": "alpha", "fixer": ["beta", "gamma"], "committer": "alpha"},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": [f"test -e well.txt || {ILL}"]},
        sandbox={"mode": "off"},
    )
    crew.git("switch", "-qc", "mine")
    crew.play(gone, {"agent": "gamma", "node": "gate-fix", "do": [{"write": "well.txt"}]})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert handed(crew) == [("gate-fix", "beta", "gamma", "other")]
    assert str(program) in crew.facts(HandedOver)[0].handover.reason
    assert fixers(crew) == ["gamma@gate-fix"]


SHUT = ["chmod 000 s.txt d note.txt", "chmod 000 .", "chmod -R 000 .git", "git switch -qc x; chmod 000 .git/index s.txt"]


@pytest.mark.parametrize("shut", SHUT)
def test_a_fixer_that_shuts_files(crew: Crew, shut: str) -> None:
    """What nobody but root may read any more is opened again, and is in the work: nothing is passed over, and no step fails."""
    crew.as_anybody()
    shuts: Turn = {"node": "gate-fix", "agent": "gamma"}
    shuts["do"] = [{"write": "well.txt"}, {"write": "s.txt"}, {"write": "d/f.txt"}, {"run": shut}]
    fixed(crew, shuts, gate=f"test -e well.txt || {ILL}", rounds=1)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert {"d/f.txt", "s.txt", "note.txt"} < set(crew.git("ls-tree", "-r", "--name-only", "main").splitlines())
    assert crew.facts(StepFailed) == crew.facts(HandlerCrashed) == []


@pytest.mark.parametrize("branch", ["", "git switch -qc x; "])
def test_a_fixer_that_makes_what_git_takes_from_nobody(crew: Crew, branch: str) -> None:
    """A file that git refuses (`.GIT/config`, a link `.gitmodules`) stops nothing: it is left out of the work, and that is told."""
    makes: Turn = {"node": "gate-fix", "agent": "gamma", "do": [{"write": "well.txt"}, {"write": "in/.GIT/config"}]}
    makes["do"].append({"run": f"{branch}ln -s note.txt .gitmodules"})
    fixed(crew, makes, gate=f"test -e well.txt || {ILL}", rounds=1)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.git("ls-tree", "-r", "--name-only", "main").splitlines() == ["note.txt", "src/code.py", "well.txt"]
    assert "in/.GIT/config" in crew.facts(WorkCollected)[-1].notes[0]
    assert ".gitmodules" in crew.call("show").out
    assert crew.facts(StepFailed) == []


@pytest.mark.parametrize("odd", [".GIT/error: x", ".GIT/a\nerror: b'"])
def test_a_fixer_whose_file_reads_like_an_error(crew: Crew, odd: str) -> None:
    """Whatever the name looks like of what git refuses, only that is left out."""
    makes: Turn = {"node": "gate-fix", "agent": "gamma", "do": [{"write": "well.txt"}, {"write": odd}]}
    fixed(crew, makes, gate=f"test -e well.txt || {ILL}", rounds=1)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert "well.txt" in crew.git("ls-tree", "-r", "--name-only", "main").splitlines()
    assert crew.facts(WorkCollected)[-1].notes
    assert crew.facts(StepFailed) == []


def test_a_fixer_that_digs_too_deep(crew: Crew) -> None:
    """Folders so deep that no call reaches the file in them are left out, which is told, and cleared away, so that the slot serves the next run."""
    digs = "import os\nfor _ in range(40):\n os.mkdir('d' * 200)\n os.chdir('d' * 200)\nopen('f', 'w').close()"
    makes: Turn = {"node": "gate-fix", "agent": "gamma", "do": [{"write": "well.txt"}, {"run": f'python3 -c "{digs}"'}]}
    fixed(crew, makes, gate=f"test -e well.txt || {ILL}", rounds=1)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.git("ls-tree", "-r", "--name-only", "main").splitlines() == ["note.txt", "src/code.py", "well.txt"]
    assert "dddd" in crew.facts(WorkCollected)[-1].notes[0]
    assert crew.call("run", "once more").code == 0
    assert crew.facts(StepFailed) == crew.facts(HandlerCrashed) == []

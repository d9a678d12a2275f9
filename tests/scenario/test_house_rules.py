"""What holds whatever is done: machine slots, secrets, local files, each sandbox mode, sets of commands."""

import pytest

from nightcrew.core.events import CommandsEnded
from nightcrew.core.work import Purpose
from support import repos
from support.crew import Crew, Turn, until

HOLDS: Turn = {
    "node": "implement",
    "do": [{"append": "note.txt", "text": "four\n"}, {"write": "{state}/there/{run}"}, {"wait_for": "{state}/go"}],
}
SECRET = "s3cr3t-value-0123456789"


@pytest.mark.parametrize("mode", ["bwrap", "unshare", "off"])
def test_every_sandbox_lands(crew: Crew, mode: str) -> None:
    """Rulings 34: the same night in each mode; the first fact says which."""
    crew.solo(sandbox={"mode": mode})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.state().started.shelter == ("mark" if mode == "off" else mode)


def test_a_turn_sees_no_state_of_ours(crew: Crew) -> None:
    """Rulings 34: under bwrap a turn reads neither our journal nor a key of the person, and writes nowhere but its own."""
    (crew.home / ".ssh").mkdir()
    (crew.home / ".ssh/id").write_text(SECRET)
    looks = [
        {"run": f"cat {crew.home}/.ssh/id > seen.txt 2>/dev/null"},
        {"run": f"ls {crew.state_home}/journal.db > state.txt 2>/dev/null"},
        {"run": f"echo x > {crew.home}/outside.txt"},
        {"run": f"git -C {crew.repo} branch stolen"},
    ]
    crew.solo({"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, *looks]}, sandbox={"mode": "bwrap"})

    assert crew.call("run", "write the note").code == 0

    assert crew.shown("main", "seen.txt").strip() == ""
    assert crew.shown("main", "state.txt").strip() == ""
    assert not (crew.home / "outside.txt").exists()
    assert "refs/heads/stolen" not in repos.refs(crew.repo)


def test_one_slot_for_the_machine(crew: Crew) -> None:
    """Rulings 36: with one slot the second run's turn waits as queued; the slot is the supervisor's, whoever drives dies."""
    crew.solo(HOLDS, machine={"max_turns": 1})
    first = crew.start("run", "write the note")
    crew.begun(first, "impl-A")
    crew.kill(first)
    second = crew.start("run", "a second one")
    run = crew.run_of(second)
    crew.until(lambda e: type(e).__name__ == "EffectStarted" and "/StartTurn/" in getattr(e, "key", ""), second, run)
    assert len(crew.starts()) == 1
    (crew.played / "go").touch()

    crew.until(lambda e: type(e).__name__ == "EffectBegun" and "/StartTurn/" in getattr(e, "key", ""), second, run)
    assert [start["run"] for start in crew.starts()][:1] != [run]
    assert crew.end(second).code == 0
    assert crew.call("resume", next(r for r in crew.runs() if r != run)).code == 0


def test_secrets_stay_out(crew: Crew) -> None:
    """Law 14: what an agent prints of its own environment is in no fact, no kept text and not on the screen; settings hold its name."""
    agent = {**crew.agents("alpha")[0], "env": {"SERVICE_TOKEN": {"env": "MINE"}}}
    crew.settle(agent, pipeline={"plan": False, "reviewers": 0}, verify={"gate": ["grep -q four note.txt"]})
    tells = [{"run": "echo $SERVICE_TOKEN >&2"}, {"append": "note.txt", "text": "four\n"}, {"say": f"the token is {SECRET}"}]
    crew.play({"node": "implement", "do": tells})

    done = crew.call("run", "write the note", env={**crew.env, "MINE": SECRET})

    assert done.code == 0, done
    assert SECRET not in done.out
    kept = [p for p in crew.state_home.rglob("*") if p.is_file() and p.name not in {"stdout", "stderr"}]
    assert kept
    assert [p for p in kept if SECRET.encode() in p.read_bytes()] == []


def test_local_files_are_lent(crew: Crew) -> None:
    """Rulings 21: `verify.copy` brings an ignored file into the workspace; it is used by the gate and never committed."""
    repos.commit(crew.repo, {".gitignore": ".env\n"})
    (crew.repo / ".env").write_text("KEY=local\n")
    crew.solo(verify={"gate": ["grep -q local .env"], "copy": [".env"]})

    assert crew.call("run", "write the note").code == 0

    assert ".env" not in crew.git("ls-tree", "-r", "--name-only", "main").splitlines()


def test_all_kinds_of_commands(crew: Crew) -> None:
    """Set-up, check, e2e and gate run where they belong; what they leave lying about is no work."""
    verify = {
        "setup": ["echo made > made.tmp"],
        "check": ["test -e made.tmp", "touch litter.txt"],
        "gate": ["test -e made.tmp", 'test -n "$NIGHTCREW_PORT_BASE"'],
    }
    repos.commit(crew.repo, {".gitignore": "*.tmp\n"})
    crew.solo(verify=verify)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    purposes = [e.key.split("/")[2] for e in crew.facts(CommandsEnded)]
    assert [p for p in purposes if p != "setup"] == [Purpose.Preflight, Purpose.Check, Purpose.Gate]
    assert "litter.txt" not in crew.git("ls-tree", "-r", "--name-only", "main")


def test_a_notice_is_sent_and_never_stops_a_run(crew: Crew) -> None:
    """`notify.command` is told once how the run ended; a command that fails changes nothing."""
    told = crew.home / "told.txt"
    crew.solo(notify={"command": ["sh", "-c", f'echo "$1" >> {told}; exit 3', "sh", "{summary}"]})

    assert crew.call("run", "write the note").code == 0

    until(told.exists)
    assert "landed" in told.read_text()
    assert len(told.read_text().splitlines()) == 1

"""Mistakes of a person: one line, exit 2, nothing begun, nothing lost; never a traceback."""

import contextlib
import subprocess
import sys
from pathlib import Path

import pytest

from nightcrew.core.events import CommandsEnded, WorkspaceLost
from nightcrew.core.work import PipelinePhase
from support import repos
from support.crew import LOCAL, Crew, Turn, until

HOLDS: Turn = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"wait_for": "{state}/go"}]}


def refused(crew: Crew, *args: str, says: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    """The line of a start that is refused: exit 2, one line that holds `says`, no run, no agent, no ref of ours."""
    done = crew.call("run", *args, cwd=cwd, env=env)
    assert done.code == 2, done
    assert says in done.line
    assert crew.runs() == []
    assert crew.starts() == []
    return done.line


def test_no_repository(crew: Crew) -> None:
    """A folder that is no git repository."""
    crew.solo()
    refused(crew, "write the note", says="no git repository", cwd=crew.home)


def test_no_commit_yet(crew: Crew, tmp_path: Path) -> None:
    """A repository without a commit."""
    crew.solo()
    repos.git(tmp_path, "init", "-q", "-b", "main", "empty")
    refused(crew, "write the note", says="no commit", cwd=tmp_path / "empty")


def test_unknown_target(crew: Crew) -> None:
    """A target branch that is not there is named."""
    crew.solo()
    refused(crew, "--target", "nowhere", "write the note", says="nowhere")


def test_a_folder_where_the_marker_goes(crew: Crew) -> None:
    """S113: what cannot be removed from the marker's place, such as a folder, is said before anybody is paid; it is no bug of ours."""
    crew.solo()
    (crew.repo / ".agent/tmp/completion_marker").mkdir(parents=True)
    refused(crew, "write the note", says=".agent/tmp/completion_marker")
    assert not list(crew.state_home.glob("runs/*"))


@pytest.mark.parametrize("text", ["", "  \n "])
def test_empty_task(crew: Crew, text: str) -> None:
    """Nothing to do."""
    crew.solo()
    refused(crew, text, says="empty")


def test_no_task_at_all(crew: Crew) -> None:
    """`run` alone."""
    crew.solo()
    refused(crew, says="empty")


def test_a_verb_for_a_task(crew: Crew) -> None:
    """Rulings 47: one word that is a verb is a mistyped verb."""
    crew.solo()
    refused(crew, "list", says="verb")


def test_task_files(crew: Crew, tmp_path: Path) -> None:
    """A task file that is missing, a folder, not UTF-8 or empty is named."""
    crew.solo()
    latin = tmp_path / "latin.txt"
    latin.write_bytes("grün".encode("latin-1"))
    empty = tmp_path / "empty.txt"
    empty.write_text(" \n")
    refused(crew, "--file", str(tmp_path / "absent.txt"), says="absent.txt")
    refused(crew, "--file", str(tmp_path), says=tmp_path.name)
    refused(crew, "--file", str(latin), says="UTF-8")
    refused(crew, "--file", str(empty), says="empty")
    refused(crew, "--file", str(latin), "write the note", says="twice")


def test_a_task_that_no_commit_can_hold(crew: Crew, tmp_path: Path) -> None:
    """A NUL byte in the task, or one that was typed and is no UTF-8: said before anybody is paid."""
    crew.solo()
    (tmp_path / "nul.txt").write_bytes(b"write\0the note")
    refused(crew, "--file", str(tmp_path / "nul.txt"), says="NUL")
    refused(crew, "write the n\udcffte", says="UTF-8")


def test_a_branch_in_the_way_of_ours(crew: Crew) -> None:
    """A branch `nightcrew` makes every branch of ours impossible: said before anybody is paid."""
    crew.solo()
    crew.git("branch", "nightcrew")
    refused(crew, "write the note", says="git branch -m nightcrew")


def test_a_home_that_depends_on_where_one_is(crew: Crew) -> None:
    """NIGHTCREW_HOME from the folder one is in would be another one each time: refused, nothing made."""
    crew.solo()
    refused(crew, "write the note", says="NIGHTCREW_HOME", env={**crew.env, "NIGHTCREW_HOME": "rel"})
    assert not (crew.repo / "rel").exists()


def test_a_folder_that_is_gone(crew: Crew, tmp_path: Path) -> None:
    """The folder one is in was removed: one line."""
    crew.solo()
    (tmp_path / "gone").mkdir()
    words = ["sh", "-c", 'rmdir "$PWD"; exec "$@"', "sh", sys.executable, "-m", "nightcrew", "run", "write the note"]
    done = subprocess.run(words, cwd=tmp_path / "gone", env=crew.env, capture_output=True, text=True, check=False)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done
    assert "gone" in done.stderr


def test_a_path_with_a_line_break(crew: Crew) -> None:
    """A repository whose path git cannot tell in one line."""
    crew.solo()
    broken = crew.repo.with_name("a\nb")
    crew.repo.rename(broken)
    refused(crew, "write the note", says="line break", cwd=broken)


def test_a_limit_that_does_not_exist(crew: Crew) -> None:
    """The four that there are are named."""
    crew.solo()
    refused(crew, "--limit", "money=3", "write the note", says="usd, tokens, turns, wall")


def test_a_task_from_a_pipe(crew: Crew) -> None:
    """`nightcrew run -` takes the task from its standard input."""
    crew.solo({"node": "implement", "do": [{"must_read": "second line"}, {"append": "note.txt", "text": "four\n"}]})
    words, text = [sys.executable, "-m", "nightcrew", "run", "-"], "write the note\nsecond line\n"

    assert subprocess.run(words, cwd=crew.repo, env=crew.env, input=text, text=True, check=False).returncode == 0

    assert crew.state().started.task.title == "write the note"


def test_a_task_from_a_file(crew: Crew, tmp_path: Path) -> None:
    """The whole text reaches the agent, whatever it holds; the title is its first line that says something."""
    text = '\n\nGrüße: `$(touch /tmp/no)` {braces} "quoted"\nsecond line\n'
    (tmp_path / "task.md").write_text(text)
    crew.solo({"node": "implement", "do": [{"must_read": text.strip()}, {"append": "note.txt", "text": "four\n"}]})

    assert crew.call("run", "--file", str(tmp_path / "task.md")).code == 0

    assert crew.state().started.task.title.startswith("Grüße")


def test_no_usable_agent(crew: Crew) -> None:
    """Nothing configured and nothing on PATH: what was looked for is said, and how to configure one."""
    bare = crew.home / "bin"
    bare.mkdir()
    (bare / "git").symlink_to(subprocess.run(["which", "git"], capture_output=True, text=True, check=True).stdout.strip())
    said = refused(crew, "write the note", says="no usable agent", env={**crew.env, "PATH": str(bare)})
    assert "claude" in said
    assert "config.toml" in said


def test_a_program_that_is_not_there(crew: Crew) -> None:
    """An agent's program that does not exist is named."""
    crew.settle({"id": "ghost", "kind": "command", "command": ["no-such-program-here"]})
    refused(crew, "write the note", says="no-such-program-here")


def test_a_program_that_goes_away(crew: Crew) -> None:
    """Rulings 12: at resume no agent of the run is there any more: one line, exit 2; put back, the run goes on."""
    program = crew.home / "bin/agent"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho four >> note.txt\n")
    program.chmod(0o755)
    crew.settle(
        {"id": "mine", "kind": "command", "command": [str(program)]},
        pipeline={"plan": False, "reviewers": 0},
        verify={"gate": ["grep -q four note.txt"]},
    )
    process = crew.start("run", "write the note")
    until(crew.runs)
    crew.kill(process)
    program.rename(program.with_name("aside"))

    refused = crew.call("resume", crew.run)

    assert refused.code == 2
    assert str(program) in refused.line
    program.with_name("aside").rename(program)
    assert crew.call("resume", crew.run).code == 0


def test_a_program_that_is_not_executable(crew: Crew, tmp_path: Path) -> None:
    """An agent's program without the right to be executed is named."""
    program = tmp_path / "agent"
    program.write_text("#!/bin/sh\n")
    crew.settle({"id": "lame", "kind": "command", "command": [str(program)]})
    refused(crew, "write the note", says="not executable")


def test_an_unknown_agent_in_a_role(crew: Crew) -> None:
    """Named with file and line."""
    crew.settle(roles={"developer": ["nobody"]})
    said = refused(crew, "write the note", says="nobody")
    assert "config.toml:" in said


def test_a_repository_that_nobody_trusted(crew: Crew) -> None:
    """Rulings 35: nothing of the repository's file runs before it is trusted; the line names the command. Then it runs."""
    crew.solo()
    repos.commit(crew.repo, {"nightcrew.toml": '[verify]\ngate = ["touch /tmp/never; true"]\n'})
    refused(crew, "write the note", says="nightcrew trust")

    repos.commit(crew.repo, {"nightcrew.toml": '[verify]\ngate = ["grep -q one note.txt"]\n'})
    assert crew.call("run", "--trust", "write the note").code == 0
    assert crew.call("run", "write the note again").code == 0


def test_a_gate_that_does_not_exist(crew: Crew) -> None:
    """Rulings 45: 127 in preflight: one line, exit 2, before the first turn."""
    crew.solo(gate="no-such-checker .")

    done = crew.call("run", "write the note")

    assert done.code == 2, done
    assert "no-such-checker" in done.out + done.err
    assert "127" in done.out + done.err
    assert crew.starts() == []


def test_a_preflight_that_does_not_end(crew: Crew) -> None:
    """Rulings 45: a timeout in preflight: exit 2 before the first turn."""
    crew.solo(verify={"gate": ["sleep 600"], "timeout": "1s"})

    done = crew.call("run", "write the note")

    assert done.code == 2, done
    assert "did not end in time" in done.out + done.err
    assert crew.starts() == []


def test_a_red_base_goes_on(crew: Crew) -> None:
    """Rulings 45: red by an ordinary exit is told and given to the agents; the gate decides at the end."""
    gate = "grep -q four note.txt || { echo four is missing; exit 1; }"
    crew.solo(
        {"node": "implement", "do": [{"must_read": "four is missing"}, {"append": "note.txt", "text": "four\n"}]}, gate=gate
    )

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert len([line for line in done.out.splitlines() if "preflight red" in line]) == 1
    assert crew.facts(CommandsEnded)[0].results[0].code == 1


def test_a_red_base_under_green_asks(crew: Crew) -> None:
    """Rulings 29, 45: `base = "green"` and a red base: blocked with the question; `no` ends it, `--allow-red-base` does not ask."""
    crew.solo(verify={"gate": ["grep -q four note.txt"], "base": "green"})
    done = crew.call("run", "write the note")
    assert done.code == 1, done
    assert "nightcrew answer" in done.out
    assert crew.starts() == []

    assert crew.answer("no").code == 0
    assert crew.state().phase is PipelinePhase.Interrupted

    assert crew.call("run", "--allow-red-base", "write the note").code == 0


def test_a_workspace_deleted_by_hand(crew: Crew) -> None:
    """Nothing is lost but what was deleted: the workspace is made again and the run lands."""
    crew.solo(
        {"node": "gate-fix", "do": [{"write": "cured.txt"}]},
        gate="test -e cured.txt || { echo ill; exit 1; }",
        sandbox={"mode": "off"},
    )
    process = crew.start("run", "write the note")
    crew.until(lambda e: "/sync/" in getattr(e, "key", ""), process)
    crew.kill(process)
    (slot,) = [path.parent for path in (crew.state_home / "worktrees").rglob("note.txt")]
    repos.forget(slot)

    done = crew.call("resume", crew.run)

    assert done.code == 0, done
    assert crew.facts(WorkspaceLost)
    assert crew.shown("main", "note.txt").endswith("four\n")
    assert crew.seats() == ["alpha@implement", "alpha@gate-fix", "alpha@commit"]


def test_a_workspace_deleted_under_the_agent(crew: Crew) -> None:
    """The folder goes while the agent works in it: asked again in a new one, and landed."""
    wipes = {"node": "implement", "turn": 1, "do": [{"run": 'rm -rf "$PWD" 2>/dev/null; rm -rf "$PWD"/.git'}]}
    crew.solo(wipes, sandbox={"mode": "off"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.shown("main", "note.txt").endswith("four\n")


@pytest.mark.parametrize("seat", ["agent", "gate"])
def test_the_repository_is_away_for_a_moment(crew: Crew, seat: str) -> None:
    """Rulings 31: without the repository: one line, exit 1, nothing recorded, nothing made in its place. Back, the run goes on and pays nothing twice."""
    waits = f"until test -e {crew.played}/go; do sleep 0.02; done"
    gate = f"grep -q four note.txt || exit 1; touch {crew.played}/there; {waits}; git status" if seat == "gate" else "true"
    if seat == "agent":
        crew.solo(HOLDS, gate=gate)
    else:
        crew.solo(gate=gate, sandbox={"mode": "off"})
    process, away = crew.start("run", "write the note"), crew.folder / "away"
    until((crew.played / "there").exists) if seat == "gate" else crew.begun(process, "impl-A")
    crew.repo.rename(away)
    last = crew.journal().last_seq(crew.run)
    (crew.played / "go").touch()

    done = crew.end(process)

    assert done.code == 1, done
    assert "gone" in done.line
    assert crew.journal().last_seq(crew.run) == last
    assert not crew.repo.exists()
    assert crew.call("resume", crew.run, cwd=crew.home).code in {1, 2}
    crew.repo.mkdir()
    repos.make_repo(crew.folder)
    assert "not at" in crew.call("resume", crew.run, cwd=crew.home).line
    crew.repo.rmdir()
    away.rename(crew.repo)
    assert crew.call("resume", crew.run).code == 0
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_no_home(crew: Crew) -> None:
    """Without HOME: a run works on, or says so in one line; never a traceback."""
    crew.solo()
    env = {name: value for name, value in crew.env.items() if not name.startswith("XDG") and name != "HOME"}

    done = crew.call("run", "write the note", env=env)

    assert done.code in {0, 1, 2}, done
    assert len(done.err.splitlines()) <= 1


def fill(path: Path) -> None:
    """Take all the room there is, to the last byte."""
    with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        for size in (1 << 20, 1 << 12, 1):
            with contextlib.suppress(OSError):
                while True:
                    file.write(b"x" * size)


def test_a_full_disk(crew: Crew, small: Path) -> None:
    """The disk fills while the agent works: one line, nothing lost; with room again, resume lands without a second turn."""
    crew.solo(HOLDS, sandbox={"mode": "off"})
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    filler = small / "filler"
    fill(filler)
    (crew.played / "go").touch()
    done = crew.end(process)
    assert done.code == 1, done
    assert len(done.err.splitlines()) == 1
    filler.unlink()

    again = crew.call("resume", crew.run)

    assert again.code == 0, again
    assert crew.shown("main", "note.txt").endswith("four\n")
    assert crew.seats().count("alpha@implement") == 1
    assert LOCAL["target"] == crew.state().started.target

"""What a run leaves behind when it ends, recovers, or is set back: the marker on disk, the rescue refs, one bill."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

import pytest

from nightcrew.core.events import (
    CompletionMarkerEmitted,
    CompletionMarkerWriteFailed,
    DevFixTriggered,
    Landed,
    RecoveryAttempted,
    RecoveryEscalated,
    WorkspaceReset,
)
from nightcrew.core.work import PipelinePhase
from support import dying, repos
from support.crew import Crew, Turn, until

UNTROUBLED = {PipelinePhase.Planning, PipelinePhase.Development, PipelinePhase.CommitMessage, PipelinePhase.Landing}
HOLDS: Turn = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"wait_for": "{state}/go"}]}


def marker(crew: Crew) -> Path:
    """Where the checkout's completion marker lies."""
    return crew.repo / ".agent/tmp/completion_marker"


def held(crew: Crew, pause: str = "1s") -> subprocess.Popen[str]:
    """A run whose implementer works until it may go on; each pause of recovery and marker lasts so long."""
    crew.solo(HOLDS, recovery={"pause": pause, "pause_max": pause})
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    return process


def told(path: Path) -> dict[str, object]:
    """What a marker says."""
    found: dict[str, object] = json.loads(path.read_text())
    return found


# ── the completion marker ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("whose", ["the checkout's", "the run's"])
def test_a_marker_that_cannot_be_written(crew: Crew, whose: str) -> None:
    """R10, S113: a folder in its place, in the checkout or in the run's own folder: told as a fact, still AwaitingDevFix; then one end."""
    process = held(crew)
    place = marker(crew) if "checkout" in whose else crew.state_home / "runs" / crew.run / "completion_marker"
    place.mkdir(parents=True)
    crew.call("cancel", crew.run)
    crew.until(lambda e: isinstance(e, CompletionMarkerWriteFailed), process)
    assert crew.state().phase is PipelinePhase.AwaitingDevFix
    place.rmdir()

    done = crew.end(process)

    assert done.code == 1, done
    assert crew.state().phase is PipelinePhase.Interrupted
    assert len(crew.facts(CompletionMarkerEmitted)) == 1
    assert told(marker(crew))["is_failure"] is True


@pytest.mark.parametrize("word", ["cancel", "Ctrl-C"])
def test_who_will_not_wait_for_a_marker_leaves(crew: Crew, word: str) -> None:
    """Rulings 31: while a failure marker cannot be written, a second cancel or SIGINT leaves with exit 1, the marker pending; `resume` writes it."""
    process = held(crew)
    marker(crew).mkdir(parents=True)
    crew.call("cancel", crew.run)
    crew.until(lambda e: isinstance(e, CompletionMarkerWriteFailed), process)
    if word == "cancel":
        assert crew.call("cancel", crew.run).code == 0
    else:
        process.send_signal(signal.SIGINT)

    done = crew.end(process)

    assert done.code == 1, done
    assert crew.state().marker is not None
    assert crew.facts(CompletionMarkerEmitted) == []
    assert "nightcrew resume" in crew.call("show", crew.run).out
    marker(crew).rmdir()
    assert crew.call("resume", crew.run).code == 1
    assert len(crew.facts(CompletionMarkerEmitted)) == 1
    assert told(marker(crew))["run_id"] == crew.run


def test_a_cancel_tries_a_marker_that_could_not_be_written(crew: Crew) -> None:
    """Rulings 31: its driver gone and its place free again, `cancel` ends the run there and then; it neither leaves at once nor waits the pause."""
    process = held(crew, "1h")
    marker(crew).mkdir(parents=True)
    crew.call("cancel", crew.run)
    crew.until(lambda e: isinstance(e, CompletionMarkerWriteFailed), process)
    crew.kill(process)
    marker(crew).rmdir()

    done = crew.call("cancel", crew.run)

    assert done.code == 0, done
    assert crew.state().phase is PipelinePhase.Interrupted
    assert len(crew.facts(CompletionMarkerEmitted)) == 1
    assert told(marker(crew))["run_id"] == crew.run


@contextmanager
def full(folder: Path) -> Iterator[None]:
    """A folder on a disk of its own, full to the last byte with `filler`."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=16k", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs a file system of its own, which only root may mount")
    try:
        with suppress(OSError), (folder / "filler").open("wb", buffering=0) as file:
            while True:
                file.write(b"x" * 4096)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder in which nobody can make or remove anything: by its mode, and for root by the file system's own flag."""
    mode = folder.stat().st_mode
    folder.chmod(0o500)
    flagged = subprocess.run(["chattr", "+i", str(folder)], capture_output=True, check=False).returncode == 0
    try:
        if os.geteuid() == 0 and not flagged:
            pytest.skip("no folder is read-only for root on this file system")
        yield
    finally:
        subprocess.run(["chattr", "-i", str(folder)], capture_output=True, check=False)
        folder.chmod(mode)


@pytest.mark.parametrize(("broken", "left"), [(read_only, []), (full, ["filler"])])
def test_a_marker_that_its_place_does_not_take(
    crew: Crew, broken: Callable[[Path], AbstractContextManager[None]], left: list[str]
) -> None:
    """R10: its folder is read-only, or its disk is full: told as a fact, still AwaitingDevFix, no half file; in order again, there is one end."""
    process = held(crew)
    folder = marker(crew).parent
    folder.mkdir(parents=True, exist_ok=True)
    with broken(folder):
        crew.call("cancel", crew.run)
        crew.until(lambda e: isinstance(e, CompletionMarkerWriteFailed), process)
        assert crew.state().phase is PipelinePhase.AwaitingDevFix
        assert [path.name for path in folder.iterdir()] == left

    assert crew.end(process).code == 1
    assert len(crew.facts(CompletionMarkerEmitted)) == 1
    assert told(marker(crew))["is_failure"] is True


def test_a_linked_worktree_that_is_gone(crew: Crew) -> None:
    """Rulings 31: the checkout where a run was started may go, also while nobody drives it: it goes on, and its marker is in the main checkout."""
    crew.solo(HOLDS, HOLDS | {"node": "dev-fix"}, gate="echo ill; exit 1", recovery={"ceiling": 1})
    linked = crew.folder / "linked"
    crew.git("worktree", "add", "-q", "-b", "theirs", str(linked))
    process = crew.start("run", "write the note", cwd=linked)
    crew.begun(process, "impl-A")
    crew.kill(process)
    shutil.rmtree(linked)
    assert crew.call("show", crew.run).code == 0
    (crew.played / "go").touch()

    done = crew.call("resume", crew.run)

    assert done.code == 1, done
    assert crew.state().phase is PipelinePhase.Interrupted
    assert told(marker(crew))["run_id"] == crew.run


def test_a_linked_worktree_of_a_bare_repository_that_is_gone(crew: Crew) -> None:
    """Rulings 31: with nothing but linked worktrees (a bare `.bare` beside them) the run goes on in the bare repository itself."""
    crew.solo(HOLDS)
    bare, linked = crew.folder / "project/.bare", crew.folder / "project/mine"
    crew.git("clone", "-q", "--bare", str(crew.repo), str(bare))
    crew.git("-C", str(bare), "worktree", "add", "-q", str(linked), "mine")
    process = crew.start("run", "write the note", cwd=linked)
    crew.begun(process, "impl-A")
    crew.kill(process)
    shutil.rmtree(linked)
    (crew.played / "go").touch()

    done = crew.call("resume", crew.run)

    assert done.code == 0, done
    assert told(bare / ".agent/tmp/completion_marker")["run_id"] == crew.run


def test_the_marker_is_there_before_its_fact(crew: Crew) -> None:
    """R18, S111, S112: its folder is made; killed after every fact of the end, the marker is whole, and Emitted comes once."""
    crew.solo()
    crew.start("run", "--no-wait", "write the note")
    until(crew.runs)
    crew.kill(crew.driven[0])
    own = crew.state_home / "runs" / crew.run / "completion_marker"
    while not crew.state().done:
        dying.dies(crew, 1 if crew.state().phase in {PipelinePhase.Landing, PipelinePhase.Finalizing} else 4)
        assert not own.exists() or told(own)["run_id"] == crew.run
        assert not crew.facts(CompletionMarkerEmitted) or own.exists()
    assert told(marker(crew)) == told(own)
    assert len(crew.facts(CompletionMarkerEmitted)) == 1
    assert [path.name for path in marker(crew).parent.iterdir()] == ["completion_marker"]


def test_an_old_marker_is_gone(crew: Crew) -> None:
    """R30, S116, S117: a live run shows no marker of an earlier one; its own, as JSON, takes that one's place."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    crew.call("cancel", crew.run)
    crew.end(process)
    assert told(marker(crew))["is_failure"] is True
    failed = crew.run

    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    assert not marker(crew).exists()
    (crew.played / "go").touch()
    done = crew.end(process)

    assert done.code == 0, done
    now = told(marker(crew))
    assert set(now) == {"run_id", "is_failure", "reason", "phase", "finished_at"}
    assert (now["is_failure"], now["run_id"] != failed) == (False, True)


def is_a_file(crew: Crew) -> None:
    """A file of the person's where our folder would be."""
    (crew.repo / ".agent").write_text("mine\n")


def is_tracked(crew: Crew) -> None:
    """A marker that somebody committed."""
    repos.commit(crew.repo, {".agent/tmp/completion_marker": '{"run_id": "an old one"}\n'})


def is_untracked(crew: Crew) -> None:
    """A file of the person's at the marker's own place."""
    repos.write(crew.repo, {".agent/tmp/completion_marker": "mine\n"})


def is_a_link(crew: Crew) -> None:
    """A folder of the person's, outside the repository, under our name."""
    (crew.home / "elsewhere").mkdir()
    (crew.repo / ".agent").symlink_to(crew.home / "elsewhere")


def dangles(crew: Crew) -> None:
    """A link of the person's at the marker's own place, to nothing."""
    (crew.repo / ".agent/tmp").mkdir(parents=True)
    marker(crew).symlink_to(crew.home / "elsewhere")


def is_a_pipe(crew: Crew) -> None:
    """A pipe at the marker's own place, which nobody ever writes to."""
    (crew.repo / ".agent/tmp").mkdir(parents=True)
    os.mkfifo(marker(crew))


@pytest.mark.parametrize("there", [is_a_file, is_tracked, is_untracked, is_a_link, dangles, is_a_pipe])
def test_what_is_the_persons_stays_so(crew: Crew, there: Callable[[Crew], None]) -> None:
    """S114, rulings 31, law 8: where the marker's place is the person's, nothing is written there; the run's own file decides, and a note says so."""
    crew.solo(land={"mode": "local", "target": "main"})
    crew.git("switch", "-q", "main")
    there(crew)
    before = repos.state(crew.repo)[3]

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    after = repos.state(crew.repo)[3]
    assert {**after, "note.txt": b""} == {**before, "note.txt": b""}
    assert not list((crew.home / "elsewhere").glob("*"))
    assert crew.git("log", "-1", "--format=%s", "main") == "Write the note"
    assert [note for note in crew.state().started.notes if "completion marker" in note]
    assert told(crew.state_home / "runs" / crew.run / "completion_marker")["run_id"] == crew.run


# ── recovery ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_what_the_dev_fix_installs_is_enough(crew: Crew) -> None:
    """R23: the gate lacks something outside the work; the dev-fix brings it, and the same gate passes at level 1."""
    cure: Turn = {"node": "dev-fix", "do": [{"write": ".tool/well"}, {"say": "Installed."}]}
    repos.commit(crew.repo, {".gitignore": ".tool/\n"})
    crew.solo({"node": "gate-fix", "do": [{"say": "Nothing to edit."}]}, cure, gate="test -e .tool/well || { echo ill; exit 1; }")

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert [(e.level, e.attempt_count) for e in crew.facts(RecoveryAttempted)] == [(1, 1)]
    assert crew.seats() == ["alpha@implement", "alpha@gate-fix", "alpha@dev-fix", "alpha@commit"]
    assert ".tool" not in crew.git("ls-tree", "-r", "--name-only", "main")


def test_a_reset_loses_nothing(crew: Crew) -> None:
    """R03, R21: at the fourth attempt the workspace is set back; what a cut-off dev-fix left there is in a rescue ref that `show` names."""
    half: Turn = {"node": "dev-fix", "turn": 4, "do": [{"write": "half.txt", "text": "half\n"}, {"notice": "quota"}]}
    crew.solo(
        half,
        pipeline={"plan": False, "reviewers": 0, "gate_fix_rounds": 0},
        recovery={"pause": "1s", "pause_max": "1s"},
        gate="echo ill; exit 1",
    )
    process = crew.start("run", "write the note")
    reset = crew.until(lambda e: isinstance(e, WorkspaceReset), process).event
    state = crew.state()
    said = [e.event for e in crew.entries() if isinstance(e.event, RecoveryEscalated | RecoveryAttempted)]
    crew.call("cancel", crew.run)

    assert crew.end(process).code == 1

    assert [(type(e), getattr(e, "level", 2)) for e in said] == [
        *[(RecoveryAttempted, 1)] * 3,
        (RecoveryEscalated, 2),
        (RecoveryAttempted, 2),
    ]
    assert (getattr(said[-1], "target_phase", ""), state.phase, state.iteration) == (
        PipelinePhase.FinalValidation,
        PipelinePhase.FinalValidation,
        0,
    )
    assert isinstance(reset, WorkspaceReset)
    assert crew.shown(reset.rescued, "half.txt") == "half\n"
    assert crew.shown(reset.rescued, "note.txt").endswith("four\n")
    assert reset.rescued in crew.call("show", crew.run).out


def test_a_kill_between_repair_and_recovery(crew: Crew) -> None:
    """R17: nightcrew dies after every fact of a trouble: one dev-fix process, one recovery, the same end."""
    cure: Turn = {"node": "dev-fix", "do": [{"write": "cured.txt"}, {"say": "Cured."}]}
    crew.solo({"node": "gate-fix", "do": [{"say": "No."}]}, cure, gate="test -e cured.txt || { echo ill; exit 1; }")
    crew.start("run", "--no-wait", "write the note")
    until(crew.runs)
    crew.kill(crew.driven[0])
    while not crew.state().done:
        dying.dies(crew, 5 if crew.state().phase in UNTROUBLED else 1)
    assert crew.seats() == ["alpha@implement", "alpha@gate-fix", "alpha@dev-fix", "alpha@commit"]
    assert len(crew.facts(DevFixTriggered)) == len(crew.facts(RecoveryAttempted)) == 1
    assert len(crew.facts(Landed)) == 1


def test_killed_while_everything_is_set_back(crew: Crew) -> None:
    """R06, R17: nightcrew dies after every fact of the tenth attempt: one recovery at level 4, no repair paid twice or lost, and it lands."""
    cure: Turn = {"node": "dev-fix", "do": [{"write": "cure{turn}.txt", "text": "x\n"}]}
    crew.solo(
        cure,
        pipeline={"plan": False, "reviewers": 0, "gate_fix_rounds": 0},
        recovery={"pause": "0.01s", "pause_max": "0.01s"},
        gate="test $(ls | grep -c cure) -ge 10 || { echo ill; exit 1; }",
    )
    crew.start("run", "--no-wait", "write the note")
    until(crew.runs)
    crew.kill(crew.driven[0])
    while not crew.state().done:
        trouble = crew.state().trouble
        dying.dies(crew, 1 if trouble and trouble.attempts >= 10 else 12)
    assert [(e.attempt_count, e.level) for e in crew.facts(RecoveryAttempted)][8:] == [(9, 3), (10, 4)]
    assert crew.seats().count("alpha@dev-fix") == 10
    assert len(crew.facts(Landed)) == 1
    names = crew.git("ls-tree", "--name-only", "main").splitlines()
    assert {"note.txt", *(f"cure{n}.txt" for n in range(1, 11))} <= set(names)


def test_cancelled_in_the_middle_of_recovery(crew: Crew) -> None:
    """R19, R20: cancelled at level 3: the failure marker names the reason, the exit code is 1, the work is in a rescue ref or on its branch."""
    stays: Turn = {
        "node": "dev-fix",
        "turn": 8,
        "do": [{"write": "half.txt", "text": "half\n"}, {"write": "{state}/there"}, {"hang": "plain"}],
    }
    crew.solo(
        stays,
        pipeline={"plan": False, "reviewers": 0, "gate_fix_rounds": 0},
        recovery={"pause": "0.01s", "pause_max": "0.01s"},
        gate="echo ill; exit 1",
    )
    process = crew.start("run", "write the note")
    until(lambda: (crew.played / "there").exists() or process.poll() is not None)
    trouble = crew.state().trouble
    crew.call("cancel", crew.run)

    done = crew.end(process)

    assert done.code == 1, done
    assert trouble is not None
    assert (trouble.attempts, trouble.level) == (7, 3)
    assert crew.state().phase is PipelinePhase.Interrupted
    assert "cancelled" in str(told(marker(crew))["reason"])
    kept = repos.refs(crew.repo, "refs/nightcrew/rescue")
    assert any("half.txt" in crew.git("ls-tree", "--name-only", ref) for ref in kept)
    assert any(ref in crew.call("show", crew.run).out for ref in kept)

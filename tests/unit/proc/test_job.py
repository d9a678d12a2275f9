"""One job's life: begun once, adopted by whoever asks next, and over with a record; or lost, and said to be."""

import fcntl
import os
import select
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from nightcrew.errors import UserError
from nightcrew.proc import processes
from nightcrew.proc.call import call
from nightcrew.proc.job import Absent, Exit, Lost, Running, _launch, look, start, stop
from nightcrew.proc.sandbox import Mode, Sandbox
from support.disk import unplaced
from unit.proc.yard import ENV, ended, job, output, running, until, wait

STARTER = """
import sys, time
from pathlib import Path
from unit.proc.yard import job
from nightcrew.proc.job import start
folder = Path(sys.argv[1])
print(start(folder, job(folder, sys.argv[2])).pid, flush=True)
time.sleep(600)
"""

# A file system of 256 KB that the job fills to the last byte.
FULL_DISK = """
import os, subprocess, sys
from pathlib import Path
from unit.proc.yard import ended, job
from nightcrew.errors import UserError
from nightcrew.proc.job import start
disk = Path(sys.argv[1])
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(disk)], check=True)
start(disk / "turn", job(disk / "turn", "echo said; cat /dev/zero > fill; exit 7"))
print(ended(disk / "turn").code, (disk / "turn/stdout").read_text(), end="")
try:
    start(disk / "next", job(disk / "next", "echo ran > next-ran"))
except UserError as error:
    print(error)
print((disk / "next-ran").exists())
"""


def python(program: str, *args: str) -> list[str]:
    """A program in this interpreter that can import what this test can."""
    return [sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{program}", *args]


def test_nothing_is_absent(folder: Path) -> None:
    """A look starts and makes nothing."""
    assert look(folder) == Absent()
    assert not folder.exists()


def test_exit_record(folder: Path, mode: Mode) -> None:
    """The record says how and when it ended, and both outputs are in files."""
    begun = running(start(folder, job(folder, "while [ ! -e go ]; do sleep 0.01; done; echo out; echo err >&2; exit 3", mode)))
    (folder.parent / "go").touch()
    record = ended(folder)
    assert (record.code, record.signal, record.stopped_by) == (3, 0, "")
    assert 0 < record.began_at <= record.ended_at
    assert (output(folder), (folder / "stderr").read_text()) == ("out\n", "err\n")

    def over() -> bool:
        if (held := begun.open_pidfd()) is not None:
            os.close(held)
        return held is None

    until(over, "its supervisor is gone")


def test_death_by_signal(folder: Path, mode: Mode) -> None:
    """128+n in every mode, whoever stands between the job and its supervisor."""
    start(folder, job(folder, "kill -USR2 $$", mode))
    record = ended(folder)
    assert (record.code, record.signal, record.stopped_by) == (140, 12, "")


def test_end_can_be_waited_for(folder: Path) -> None:
    """The descriptor that an event loop waits on is quiet while the job runs and readable afterwards."""
    held = running(start(folder, job(folder, "while [ ! -e go ]; do sleep 0.01; done"))).open_pidfd()
    assert held is not None
    poll = select.poll()
    poll.register(held, select.POLLIN)
    assert poll.poll(50) == []
    (folder.parent / "go").touch()
    assert poll.poll(30_000)
    os.close(held)
    assert isinstance(look(folder), Exit), "the record is there before the supervisor is gone"


def test_adoption_after_kill_of_the_starter(folder: Path) -> None:
    """kill -9 of who started it: the same process runs on, and the next start finds it (design, section 5)."""
    script = "echo $$ >> pids; while [ ! -e go ]; do sleep 0.01; done; exit 4"
    with subprocess.Popen(python(STARTER, str(folder), script), stdout=subprocess.PIPE, start_new_session=True) as first:
        assert first.stdout is not None
        pid = int(first.stdout.readline())
        os.killpg(first.pid, signal.SIGKILL)
    until((folder.parent / "pids").exists, "the job has begun")
    again = running(start(folder, job(folder, script)))
    assert again.pid == pid
    (folder.parent / "go").touch()
    assert ended(folder).code == 4
    assert len((folder.parent / "pids").read_text().split()) == 1


def test_many_starters_one_winner(folder: Path) -> None:
    """However many start the same folder at once, one job runs and all are told who guards it."""
    plan = job(folder, "echo run >> runs; while [ ! -e go ]; do sleep 0.01; done")
    found: list[object] = []
    starters = [threading.Thread(target=lambda: found.append(start(folder, plan))) for _ in range(8)]
    for one in starters:
        one.start()
    for one in starters:
        one.join()
    (folder.parent / "go").touch()
    ended(folder)
    assert len(found) == 8
    assert len({running(one) for one in found}) == 1
    assert (folder.parent / "runs").read_text() == "run\n"


def test_a_folder_begins_once(folder: Path) -> None:
    """A start after the end is answered with the record; nothing runs again."""
    plan = job(folder, "echo run >> runs")
    start(folder, plan)
    first = ended(folder)
    assert start(folder, plan) == first
    assert (folder.parent / "runs").read_text() == "run\n"


def test_killed_supervisor_is_lost(folder: Path) -> None:
    """No record and no living owner: lost; a further start says so and begins nothing (ruling 9)."""
    plan, runs = job(folder, "echo run >> runs; sleep 600"), folder.parent / "runs"
    begun = running(start(folder, plan))
    until(lambda: runs.exists() and runs.read_text() != "", "the job has begun")
    os.kill(begun.pid, signal.SIGKILL)
    until(lambda: look(folder) == Lost(), "lost")
    assert start(folder, plan) == Lost()
    stop(folder)
    assert _launch(folder, plan) == Lost(), "a supervisor that comes too late sees the same"
    assert runs.read_text() == "run\n"
    assert not (folder / "exit.json").exists()


@pytest.mark.parametrize("left", [b"", b'{"code":0,"sig', b"{}"])
def test_a_damaged_record_is_lost(folder: Path, left: bytes) -> None:
    """A record that a power cut emptied or cut off tells nothing: nobody knows how the job ended (ruling 9)."""
    start(folder, job(folder, "echo run"))
    ended(folder)
    (folder / "exit.json").write_bytes(left)
    until(lambda: look(folder) == Lost(), "lost")


def test_a_look_waits_for_the_name(folder: Path) -> None:
    """A supervisor that holds its folder and has not said yet who it is has lost nothing."""
    me = processes.identity(os.getpid())
    folder.mkdir()
    (folder / "spawned").touch()
    found: list[object] = []
    with (folder / "owner").open("wb", buffering=0) as owner:
        fcntl.flock(owner, fcntl.LOCK_EX)
        looker = threading.Thread(target=lambda: found.append(look(folder)))
        looker.start()
        looker.join(0.2)
        assert found == []
        owner.write(me)
        looker.join()
    (folder / "owner").unlink()  # or this very process would be stopped at the end
    assert found == [Running(os.getpid(), me)]


def test_killed_before_it_began_is_simply_started(folder: Path) -> None:
    """An owner that died without `spawned` ran nothing: the same folder is started (ruling 9)."""
    folder.mkdir()
    (folder / "owner").touch()
    assert look(folder) == Absent()
    start(folder, job(folder, "exit 6"))
    assert ended(folder).code == 6


@pytest.mark.parametrize("change", ["start", "boot"])
def test_recycled_pid_is_nobody(folder: Path, change: str) -> None:
    """A living process with the remembered pid, but of another start or boot, is not the owner."""
    pid, own = os.getpid(), processes.identity(os.getpid())
    folder.mkdir()
    (folder / "spawned").touch()
    (folder / "owner").write_bytes(own)
    assert look(folder) == Running(pid, own)
    _, begun, boot = own.split()
    other = b"%d %d %b\n" % (pid, int(begun) + 1, boot) if change == "start" else b"%d %b another-boot\n" % (pid, begun)
    (folder / "owner").write_bytes(other)
    assert look(folder) == Lost()
    assert Running(pid, other).open_pidfd() is None


def test_a_look_never_misses_the_record(tmp_path: Path) -> None:
    """Looking again and again while jobs end: running, then ended; never lost or absent in between."""
    for n in range(15):
        place = tmp_path / str(n)
        start(place, job(place, "exit 0"))
        while not isinstance(found := look(place), Exit):
            assert isinstance(found, Running), found


def test_a_megabyte_of_prompt_then_the_end(folder: Path, mode: Mode) -> None:
    """stdin is a file: read whole, then end of file; no pipe that somebody must keep open."""
    prompt = folder.parent / "prompt"
    prompt.write_bytes(b"x" * 1_000_000)
    start(folder, job(folder, "wc -c", mode, stdin=prompt))
    assert ended(folder).code == 0
    assert output(folder).strip() == "1000000"


def test_without_a_prompt_stdin_is_empty(folder: Path, mode: Mode) -> None:
    """An agent that asks gets the end of file, not our terminal."""
    start(folder, job(folder, "cat; echo end", mode))
    ended(folder)
    assert output(folder) == "end\n"


@pytest.mark.parametrize(("program", "code"), [("no-such-program", 127), ("./plain-file", 126)])
def test_program_that_cannot_run(folder: Path, mode: Mode, program: str, code: int) -> None:
    """Missing is 127, not executable 126, in every mode, with a line that names the program."""
    (folder.parent / "plain-file").write_text("#!/bin/sh\n")
    start(folder, job(folder, "", mode, argv=(program,)))
    assert ended(folder).code == code
    assert program in (folder / "stderr").read_text()


def test_environment_and_descriptors_are_the_jobs_own(folder: Path, mode: Mode) -> None:
    """Exactly the given environment and the mark; no descriptor of the starter or the supervisor (its lock above all)."""
    ours = os.open(folder.parent, os.O_RDONLY)
    os.set_inheritable(ours, True)  # noqa: FBT003 - it takes no name
    start(folder, job(folder, "env; ls /proc/$$/fd", mode, env={**ENV, "GIVEN": "1"}))
    os.close(ours)
    ended(folder)
    lines = output(folder).split()
    names = {line.partition("=")[0] for line in lines if "=" in line}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {"PATH", "GIVEN", "NIGHTCREW_TURN"}
    # The shell itself may hold one more than the three it is given.
    assert {line for line in lines if line.isdecimal() and int(line) < 10} == {"0", "1", "2"}


def test_signals_are_as_in_a_login(folder: Path, mode: Mode) -> None:
    """A job begins with no signal blocked or ignored, whatever its supervisor does with its own; two belong to the C library alone."""
    start(folder, job(folder, "", mode, argv=("grep", "-E", "^Sig(Blk|Ign)", "/proc/self/status")))
    ended(folder)
    library = 1 << 31 | 1 << 32  # signals 32 and 33: no program can set them back, so they come as the starter of all has them
    assert [int(line.split()[1], 16) & ~library for line in output(folder).splitlines()] == [0, 0]


def test_secrets_stay_off_the_disk(folder: Path) -> None:
    """The environment reaches the job through the supervisor's memory; the folder is for this user only (law 14)."""
    start(folder, job(folder, "true", env={**ENV, "KEY": "s3cr3t-value"}))
    ended(folder)
    assert not [file.name for file in folder.iterdir() if b"s3cr3t-value" in file.read_bytes()]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_bytes_that_are_not_utf8(folder: Path) -> None:
    """Arguments and paths that are no text arrive unchanged."""
    start(folder, job(folder, 'printf %s "$0" | od -An -tx1', argv=("sh", "-c", 'printf %s "$0" | od -An -tx1', "\udcff")))
    ended(folder)
    assert output(folder).split() == ["ff"]


def test_a_missing_prompt_is_refused(folder: Path) -> None:
    """What cannot be begun is a user error in one line, and nothing is noted as begun."""
    with pytest.raises(UserError, match="no-prompt"):
        start(folder, job(folder, "true", stdin=folder / "no-prompt"))
    assert look(folder) == Absent()


def test_stop_before_the_start(folder: Path) -> None:
    """A folder that was told to stop begins nothing any more, also when the start comes late."""
    folder.mkdir()
    stop(folder)
    found = start(folder, job(folder, "touch ran"))
    assert isinstance(found, Exit)
    assert found.stopped_by == "stop"
    assert not (folder.parent / "ran").exists()


def test_stop_of_nothing(tmp_path: Path) -> None:
    """No folder, nothing to stop, nothing made."""
    stop(tmp_path / "never")
    assert not (tmp_path / "never").exists()


def test_wait_gives_up(folder: Path) -> None:
    """A wait that is over before the job says that it runs."""
    start(folder, job(folder, "sleep 600"))
    assert isinstance(wait(folder, 0.05), Running)


def test_full_disk_loses_no_record(tmp_path: Path) -> None:
    """A job that fills the disk still gets its exit record; the next start is refused in one line."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    argv = ["unshare", *user, "--mount", *python(FULL_DISK, str(tmp_path))]
    if call(["unshare", *user, "--mount", "true"], cwd=tmp_path, env=ENV, timeout_s=30).code:
        pytest.skip("no mount namespaces here")
    done = call(argv, cwd=tmp_path, env=ENV, timeout_s=60)
    lines = done.out.decode().splitlines()
    assert lines[:1] == ["7 said"], done.err.decode()
    assert "No space left on device" in lines[1]
    assert lines[2:] == ["False"]


def test_work_is_on_the_disk_before_its_record(folder: Path) -> None:
    """Whoever reads the record finds the work after a power cut too: files the job wrote have a place on the disk (law 4)."""
    control = folder.parent / "control"
    control.write_bytes(b"x" * 10_000)
    if not unplaced(control):
        pytest.skip("this file system places files at once, or does not tell")
    start(folder, job(folder, "mkdir deep; head -c 10000 /dev/zero > deep/work; head -c 10000 /dev/zero"))
    ended(folder)
    assert not unplaced(folder.parent / "deep/work")
    assert not unplaced(folder / "stdout")


def test_nothing_stays_open(folder: Path) -> None:
    """Starting, looking and stopping leave no descriptor in the caller."""
    before = len(os.listdir("/proc/self/fd"))
    start(folder, job(folder, "sleep 600"))
    look(folder)
    wait(folder, 0.01)
    stop(folder)
    ended(folder)
    assert len(os.listdir("/proc/self/fd")) == before


def test_sandbox_is_part_of_the_job(folder: Path, bwrap: Mode) -> None:
    """The private folder of a sandbox is made by the start, for this user only."""
    private, shared = folder / "mine", folder.parent / "shared"
    shared.mkdir()
    sandbox = Sandbox(mode=bwrap, private=((private, shared),))
    start(folder, job(folder, "echo x > shared/mine", sandbox=sandbox))
    assert ended(folder).code == 0
    assert (private / "mine").read_text() == "x\n"
    assert stat.S_IMODE(private.stat().st_mode) == 0o700

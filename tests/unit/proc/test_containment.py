"""Whatever a job started dies with it, and nothing else does."""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightcrew.proc import processes
from nightcrew.proc.call import call
from nightcrew.proc.job import Lost, look, start, stop
from nightcrew.proc.sandbox import Mode
from unit.proc.yard import ENV, VICTIM, ended, holders, job, output, running, token, until

NOBODY = 65534

AS_NOBODY = """
import sys
from pathlib import Path
from nightcrew.proc.job import start, stop
from nightcrew.proc.sandbox import why_not
from unit.proc.yard import VICTIM, ended, holders, job, output, until
folder, mode, nap = Path(sys.argv[1]), sys.argv[2], sys.argv[3].removeprefix("nap")
print(why_not(mode) or "works")
if not why_not(mode):
    start(folder, job(folder, "id -u;" + VICTIM.format(token=nap), mode, stop_signals=(("TERM", 0.2),)))
    until(lambda: "ready" in output(folder) and len(holders(nap)) >= 4, "ready")
    stop(folder)
    print(ended(folder).stopped_by, output(folder).split()[0], len(holders(nap)))
"""


def begin(folder: Path, mode: Mode, script: str = VICTIM) -> tuple[int, str]:
    """Start a victim and wait until all of it is there: its supervisor's pid, and the word its processes carry."""
    nap = token(folder)
    plan = job(folder, script.format(token=nap), mode, stop_signals=(("TERM", 0.2),))
    begun = running(start(folder, plan))
    until(lambda: "ready" in output(folder) and len(holders(nap)) >= script.count("sleep {token}"), "all are there")
    return begun.pid, nap


def test_stop_leaves_nothing(folder: Path, mode: Mode) -> None:
    """Daemons deaf to TERM, in sessions of their own, without the mark: all gone when the record is there (T083)."""
    _, nap = begin(folder, mode)
    stop(folder)
    assert ended(folder).stopped_by == "stop"
    assert holders(nap) == []


def test_an_end_by_itself_leaves_nothing(folder: Path, mode: Mode) -> None:
    """Also what a job leaves in the background when it is done."""
    nap = token(folder)
    script = VICTIM.format(token=nap).replace("wait; wait; wait", "while [ ! -e go ]; do sleep 0.01; done; exit 0")
    start(folder, job(folder, script, mode))
    until(lambda: len(holders(nap)) >= 4, "all are there")
    (folder.parent / "go").touch()
    record = ended(folder)
    assert (record.code, record.stopped_by, holders(nap)) == (0, "", [])


def test_kill_of_the_supervisor_leaves_nothing(folder: Path, mode: Mode) -> None:
    """A namespace dies with the supervisor; by the mark, what is left goes at the next stop or start."""
    script = VICTIM if mode != "mark" else VICTIM.replace("env -i", "env")
    pid, nap = begin(folder, mode, script)
    os.kill(pid, signal.SIGKILL)
    until(lambda: look(folder) == Lost(), "lost")
    if mode == "mark":
        stop(folder)
        assert holders(nap) == []
    until(lambda: not holders(nap), "all are gone")


def test_start_of_a_lost_job_sweeps(folder: Path) -> None:
    """Whoever is told that a job is lost may rely on nothing of it being left."""
    pid, nap = begin(folder, "mark", VICTIM.replace("env -i", "env"))
    os.kill(pid, signal.SIGKILL)
    until(lambda: look(folder) == Lost(), "lost")
    assert start(folder, job(folder, "touch ran")) == Lost()
    assert holders(nap) == []
    assert not (folder.parent / "ran").exists()


def test_a_sweep_touches_nobody_else(folder: Path) -> None:
    """Another job's mark, a longer one, and the mark as part of another variable are left alone."""
    nap = token(folder)
    mark = processes.MARK
    others = [{mark: "other"}, {mark: f"{folder}-longer"}, {"X": f"{mark}={folder}"}, {}]
    alive = [subprocess.Popen(["sleep", nap], env={**ENV, **more}) for more in others]
    ours = subprocess.Popen(["sleep", nap], env={**ENV, mark: str(folder)})
    try:
        until(lambda: len(holders(nap)) == 5, "all are there")
        processes.sweep(str(folder))
        assert ours.wait(30) == -signal.SIGKILL
        assert [one.poll() for one in alive] == [None] * 4
    finally:
        for one in (*alive, ours):
            one.kill()
            one.wait()


def test_orphans_are_reaped_while_the_job_runs(folder: Path) -> None:
    """A job that leaves thousands of dead orphans does not fill the process table."""
    script = "for n in 1 2 3 4 5; do (sh -c 'sleep 0.02 & :' &); done; sleep 0.5; echo ready; sleep 600"
    begun = running(start(folder, job(folder, script)))
    until(lambda: output(folder), "ready")

    def kept() -> int:
        return len(Path(f"/proc/{begun.pid}/task/{begun.pid}/children").read_text().split())

    until(lambda: kept() == 1, "only the job is left")


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that anybody may enter and write, unlike pytest's own."""
    place = Path(tempfile.mkdtemp(prefix="nightcrew-open-"))
    place.chmod(0o777)
    yield place
    shutil.rmtree(place, ignore_errors=True)


def outsider(program: str, *args: str) -> list[str]:
    """argv of a Python program that an ordinary user can start with what this test can import."""
    libraries = f"import sys; sys.path[:0] = {[*sys.path, str(Path(__file__).parents[2])]!r}\n"
    release = f"python{sys.version_info.major}.{sys.version_info.minor}"
    # `env` stands between since setpriv itself may still pass where the user may not.
    for python in (sys.executable, f"/usr/bin/{release}", f"/usr/local/bin/{release}"):
        argv = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env", python, "-c"]
        if call([*argv, libraries + "import msgspec"], cwd=Path("/"), env=ENV, timeout_s=30).code == 0:
            return [*argv, libraries + program, *args]
    pytest.skip("no Python that an ordinary user can start")


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests run as an ordinary user already")
def test_as_an_ordinary_user(open_folder: Path, mode: Mode) -> None:
    """Every mode holds the same without root (ruling 34)."""
    argv = outsider(AS_NOBODY, str(open_folder / "turn"), mode, f"nap{token(open_folder)}")
    done = call(argv, cwd=open_folder, env=ENV, timeout_s=120)
    assert done.out.decode().splitlines() == ["works", f"stop {NOBODY} 0"], done.err.decode()

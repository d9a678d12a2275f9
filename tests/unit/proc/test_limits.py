"""The limits that the supervisor keeps, and how a job is asked to stop."""

import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import pytest

from nightcrew.proc.call import call
from nightcrew.proc.job import start, stop
from nightcrew.proc.sandbox import Mode
from unit.proc.yard import ENV, PATIENCE_S, ended, job, output, running, until


@pytest.mark.parametrize(
    ("limit", "script"),
    [("total", "while :; do echo on; sleep 0.05; done"), ("idle", "echo once; sleep 600"), ("first_output", "sleep 600")],
)
def test_each_limit_fires_and_is_named(folder: Path, limit: str, script: str) -> None:
    """The record says which limit ended the job, also with the others set (further away)."""
    plan = job(folder, script, total_s=100.0, idle_s=50.0, first_output_s=50.0)
    start(folder, msgspec.structs.replace(plan, **{f"{limit}_s": 0.5}))
    record = ended(folder)
    assert (record.stopped_by, record.code, record.signal) == (limit, 143, 15)


def test_limits_hold_in_every_mode_and_keep_the_output(folder: Path, mode: Mode) -> None:
    """Partial output survives a limit, whatever contains the job."""
    start(folder, job(folder, "printf half; exec sleep 600", mode, idle_s=0.4, first_output_s=PATIENCE_S))
    assert ended(folder).stopped_by == "idle"
    assert output(folder) == "half"


def test_output_puts_the_idle_limit_off(folder: Path) -> None:
    """A job that runs longer than the idle limit, but is never silent that long, ends by itself."""
    start(folder, job(folder, "for n in $(seq 40); do echo $n >&2; sleep 0.1; done", idle_s=2.0))
    record = ended(folder)
    assert record.stopped_by == ""
    assert record.ended_at - record.began_at > 2.0, "the limit must have been reachable"


def test_until_the_first_output_only_its_own_limit_counts(folder: Path) -> None:
    """A slow start is not idleness where a limit for the start is set."""
    start(folder, job(folder, "sleep 1.2; echo late; exit 0", idle_s=0.4, first_output_s=60.0))
    assert ended(folder).stopped_by == ""


def test_flood_is_stopped(folder: Path) -> None:
    """Output without end does not fill the disk; a limit of 100 MB is far below the default and passes."""
    start(folder, job(folder, "yes", output_cap=1_000_000))
    assert ended(folder).stopped_by == "flood"


def test_who_has_said_all_may_not_linger(folder: Path, mode: Mode) -> None:
    """A job whose last line is its closing one is given a short grace and stopped, whatever the other limits are."""
    script = """echo '{"type":"end","of":"work"}'; exec sleep 600"""
    start(folder, job(folder, script, mode, closing=('{"type":"end"*"of":"work"',), linger_s=0.3))
    assert ended(folder).stopped_by == "closed"


@pytest.mark.parametrize(
    "line", ['{"type":"end","of":"step"}', 'they say {"type":"end","of":"work"}', '{"type":"end","of":"work"}\\n{"type":"more"}']
)
def test_what_only_looks_like_the_end_is_none(folder: Path, line: str) -> None:
    """Another line of that type, words about it, or something said after it: the job goes on to its own end."""
    script = f"""printf '{line}\\n'; sleep 1; exit 3"""
    start(folder, job(folder, script, closing=('{"type":"end"*"of":"work"',), linger_s=0.2))
    record = ended(folder)
    assert (record.stopped_by, record.code) == ("", 3)


def test_going_in_circles_is_stopped(folder: Path) -> None:
    """A job that prints the same again and again, never silent, is stopped long before its time is over."""
    start(folder, job(folder, "while :; do echo once more; sleep 0.05; done", loops=("once more", 5)))
    assert ended(folder).stopped_by == "loop"


def test_a_hundred_megabytes_pass(folder: Path) -> None:
    """Much is not without end."""
    start(folder, job(folder, "head -c 100000000 /dev/zero"))
    assert (ended(folder).stopped_by, (folder / "stdout").stat().st_size) == ("", 100_000_000)


def test_stop_lets_the_job_say_goodbye(folder: Path, mode: Mode) -> None:
    """The signal reaches the job itself, not the sandbox around it, and the grace lets it end in its own way."""
    script = "trap 'echo goodbye; exit 7' TERM; echo ready; while :; do sleep 0.01; done"
    start(folder, job(folder, script, mode, stop_signals=(("TERM", PATIENCE_S),)))
    until(lambda: output(folder), "ready")
    stop(folder)
    record = ended(folder)
    assert (record.code, record.stopped_by) == (7, "stop")
    assert output(folder) == "ready\ngoodbye\n"


def test_signals_come_in_order(folder: Path, mode: Mode) -> None:
    """Each signal has its grace; the last word is a kill."""
    script = "trap 'echo int' INT; trap 'echo term' TERM; echo ready; while :; do sleep 0.01; done"
    start(folder, job(folder, script, mode, stop_signals=(("INT", 1.0), ("TERM", 1.0))))
    until(lambda: output(folder), "ready")
    stop(folder)
    record = ended(folder)
    assert (record.code, record.stopped_by) == (137, "stop")
    assert output(folder).split() == ["ready", "int", "term"]


def test_the_stop_file_is_enough(folder: Path) -> None:
    """A wish that is on the disk is noticed without a signal, also by a supervisor that waits for nothing."""
    start(folder, job(folder, "sleep 600"))
    (folder / "stop").touch()
    assert ended(folder).stopped_by == "stop"


def test_a_shutdown_is_not_our_stop(folder: Path) -> None:
    """A supervisor told to end by somebody else ends its job in order and says that nobody asked."""
    begun = running(start(folder, job(folder, "echo ready; sleep 600")))
    until(lambda: output(folder), "ready")
    os.kill(begun.pid, signal.SIGTERM)
    assert ended(folder).stopped_by == "shutdown"


def test_silence_costs_nothing(folder: Path) -> None:
    """While a job is silent its supervisor is not woken once, limits or not (ruling 44)."""
    begun = running(start(folder, job(folder, "sleep 600", idle_s=500.0, total_s=500.0, first_output_s=500.0)))

    def switches() -> str:
        status = Path(f"/proc/{begun.pid}/status").read_text()
        return next(line for line in status.splitlines() if line.startswith("voluntary_ctxt"))

    def asleep() -> bool:
        before = switches()
        time.sleep(1.0)
        return switches() == before

    until(asleep, "a second of sleep")


WITHOUT_NOTICES = """
import os, sys
from nightcrew.proc import supervise
from pathlib import Path
from nightcrew.proc.job import _orders
from unit.proc.yard import job
os.chdir(sys.argv[1])
script = "for n in 1 2 3 4; do echo $n; sleep 0.5; done; sleep 600"
orders = _orders(job(Path(sys.argv[1], "turn"), script, idle_s=1.4))
supervise.signal.pthread_sigmask(supervise.signal.SIG_BLOCK, supervise._WAITED)
outputs = [os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) for name in ("stdout", "stderr")]
child = supervise._spawn(orders, outputs, os.open(".", os.O_RDONLY))
watch = supervise._Watch(orders, child, outputs, outputs[0])  # the kernel gives no notice about what is no folder
print(watch._arm(0.0) < supervise._NEVER, watch.until_due(), flush=True)
watch.end_all()
"""


def test_limits_hold_without_the_kernels_notices(tmp_path: Path) -> None:
    """Where the kernel does not report output it is looked at now and then: put off by it, and fired without it."""
    program = f"import sys; sys.path[:0] = {sys.path!r}\n{WITHOUT_NOTICES}"
    done = call([sys.executable, "-c", program, str(tmp_path)], cwd=tmp_path, env=ENV, timeout_s=PATIENCE_S)
    assert done.out == b"True idle\n", done.err.decode()
    assert (tmp_path / "stdout").read_text().split() == ["1", "2", "3", "4"]

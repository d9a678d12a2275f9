"""Short programs run to their end, whatever they do to their output."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nightcrew.proc import call as room
from nightcrew.proc.call import Ended, call, end_all
from unit.proc.yard import ENV, holders, token, until


def shell(tmp_path: Path, script: str, *, stdin: bytes = b"", timeout_s: float = 30) -> Ended:
    """A shell script as a short program."""
    return call(["sh", "-c", script], cwd=tmp_path, env=ENV, stdin=stdin, timeout_s=timeout_s)


def test_code_and_both_outputs(tmp_path: Path) -> None:
    """Code, stdout and stderr come back apart, bytes as they are."""
    assert shell(tmp_path, r"printf 'a\377'; echo b >&2; exit 3") == (3, b"a\xff", b"b\n", False)


def test_input_is_given_whole_then_ends(tmp_path: Path) -> None:
    """A megabyte in and out at once does not get stuck; without input there is the end of file."""
    data = bytes(range(256)) * 4096
    assert shell(tmp_path, "cat", stdin=data).out == data
    assert shell(tmp_path, "cat").out == b""


def test_unread_input_is_no_error(tmp_path: Path) -> None:
    """A program need not read what it is given."""
    assert shell(tmp_path, "exit 0", stdin=b"x" * 1_000_000).code == 0


def test_environment_is_what_was_given(tmp_path: Path) -> None:
    """Nothing of ours is inherited."""
    env = call(["/usr/bin/env"], cwd=tmp_path, env={"ONLY": "this"}, timeout_s=30).out
    assert env == b"ONLY=this\n"


def test_limit_kills_the_group_and_keeps_output(tmp_path: Path) -> None:
    """At the limit nothing of the group is left, and what was printed before is there."""
    nap = token(tmp_path)
    ended = shell(tmp_path, f"echo early; sleep {nap} & sleep {nap}", timeout_s=0.3)
    assert ended == (137, b"early\n", b"", True)
    until(lambda: not holders(nap), "the group is gone")


@pytest.mark.parametrize("deaf", ["", "trap '' TERM; "])
def test_all_that_run_can_be_ended(tmp_path: Path, deaf: str) -> None:
    """A program that hangs in another thread ends with its whole group: asked first, killed when it is told again."""
    nap = token(tmp_path)
    with ThreadPoolExecutor() as pool:
        hangs = pool.submit(shell, tmp_path, f"{deaf}sleep {nap} & sleep {nap}; sleep {nap}", timeout_s=60)
        until(lambda: len(holders(nap)) == 2 and room._RUNNING, "it hangs, and is known to run")
        end_all()
        if deaf:
            assert len(holders(nap)) == 2, "asked only"
            end_all()
        assert hangs.result(30).code == (137 if deaf else 143)
    until(lambda: not holders(nap), "the group is gone")


def test_daemon_with_our_output_open_holds_nobody_up(tmp_path: Path) -> None:
    """The wait is for the exit, never for the end of the output."""
    nap = token(tmp_path)
    ended = shell(tmp_path, f"setsid sleep {nap} & echo done")
    until(lambda: holders(nap), "the daemon has outlived the call")
    for pid in holders(nap):
        os.kill(pid, 9)
    assert ended == (0, b"done\n", b"", False)


def test_death_by_signal_is_128_and_the_number(tmp_path: Path) -> None:
    """The shell's convention, as in an exit record."""
    assert shell(tmp_path, "kill -TERM $$").code == 143


def test_missing_program_is_127(tmp_path: Path) -> None:
    """Not found is told apart from failed, with a line."""
    ended = call(["no-such-program"], cwd=tmp_path, env=ENV, timeout_s=30)
    assert (ended.code, ended.err) == (127, b"nightcrew: cannot run no-such-program: No such file or directory\n")


def test_what_cannot_run_is_126(tmp_path: Path) -> None:
    """A file without the executable bit, and a folder to run in that is not there."""
    script = tmp_path / "script"
    script.write_text("#!/bin/sh\n")
    assert call([str(script)], cwd=tmp_path, env=ENV, timeout_s=30).code == 126
    gone = call(["true"], cwd=tmp_path / "gone", env=ENV, timeout_s=30)
    assert gone.code == 126
    assert b"no folder" in gone.err


def test_own_session(tmp_path: Path) -> None:
    """A key pressed at our terminal does not reach the program."""
    pid, session = shell(tmp_path, "cut -d' ' -f1,6 /proc/self/stat; :").out.split()
    assert int(session) != os.getsid(0)
    assert pid != session, "the shell, not cut, leads the session"


def test_nothing_stays_open(tmp_path: Path) -> None:
    """A run calls git a thousand times: descriptors do not add up, on no path."""
    before = os.listdir("/proc/self/fd")
    shell(tmp_path, "echo x")
    shell(tmp_path, "sleep 60", timeout_s=0.05)
    call(["no-such-program"], cwd=tmp_path, env=ENV, timeout_s=30)
    assert len(os.listdir("/proc/self/fd")) == len(before)

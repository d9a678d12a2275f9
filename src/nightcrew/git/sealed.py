"""How git is started: a sealed environment in two profiles, locks waited for, failures as `GitError`. Knows no verb of ours."""

import os
import re
import time
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from types import MappingProxyType
from typing import NamedTuple, Protocol

from nightcrew.proc.call import Ended, call

Env = Mapping[str, str]
Codes = tuple[int, ...]  # exit statuses
AS_IS: Env = MappingProxyType({})

LOCK_WAIT_S = 10.0  # how long a lock that somebody else holds is waited for
NEUTRAL = ("nightcrew", "nightcrew@localhost")  # name and mail of the identity that stands for nobody
Where = tuple[tuple[str, ...], Path, Env]  # the options that name the repository, the folder to work in, the caller's environment


class Place(Protocol):
    """Anything git can be called on."""

    @property
    def where(self) -> Where:
        """How git is told to work here."""


class Checkout(NamedTuple):
    """A folder in which git looks for the repository by itself; for checkouts that are not ours."""

    path: Path
    env: Env

    @property
    def where(self) -> Where:
        """No option: git discovers."""
        return (), self.path, self.env


class GitError(Exception):
    """A git call ended in a way the caller did not expect; `words` are git's own in one line, `timed_out` is our limit."""

    def __init__(self, args: tuple[str, ...], ended: Ended) -> None:
        """Keep what the call said; its words are all of the remote's, else the first complaint it made."""
        self.code, self.timed_out, self.err = ended.code, ended.timed_out, os.fsdecode(ended.err)
        lines = [line.strip() for line in self.err.replace(":\n\t", ": ").splitlines() if line.strip()]
        remote = " ".join(line.removeprefix("remote: ") for line in lines if line.startswith("remote: "))
        own = [line[len("fatal: ") :] for line in lines if line.startswith(("fatal: ", "error: "))]
        said = remote[:300] or next(iter(own or lines), f"exit status {ended.code}")
        self.words = "it did not end in time" if ended.timed_out else said
        super().__init__(f"git {args[0]}: {self.words}")


FIXED = {
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    # A program that refuses: whatever asks for a password gets an error instead of a person.
    **dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS"), "false"),
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
# A fetch that brings what is named, and touches nothing else.
FETCH = ("fetch", "-q", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-prune", "--no-recurse-submodules")
SEALED = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    **dict.fromkeys(("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME"), NEUTRAL[0]),
    **dict.fromkeys(("GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"), NEUTRAL[1]),
}
ALWAYS = (
    # Hooks are the engine's business, in the sandbox (rulings 16 and 18); git itself never runs one.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.untrackedCache", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    # "Done" in a journal must not outlive its commit in a power cut.
    ("core.fsync", "committed,reference"),
    ("core.fsyncMethod", "batch"),
    ("core.filesRefLockTimeout", "10000"),
    ("core.packedRefsTimeout", "10000"),
)
OURS = (
    *ALWAYS,
    ("core.quotePath", "false"),
    # Whether the operator may use this repository was asked in the operator's profile when it was opened.
    ("safe.directory", "*"),
)


class Profile(NamedTuple):
    """Whose configuration counts (rulings 16): what we set on top of it, and the longest a call may take, in seconds."""

    settings: tuple[tuple[str, str], ...]
    limit_s: float


# Ours alone, for all work: the person's global and system configuration is not read. A checkout can take minutes.
PLAIN = Profile(OURS, 600.0)
# The person's, never interactive: for fetch, the final commit, push, and what touches the person's own checkout.
OPERATOR = Profile(ALWAYS, 180.0)
# What the plain profile keeps: programs of filters are found, a global ignore file counts.
PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "LD_LIBRARY_PATH")
# The git variables of a person's environment that say how, not where; all others (GIT_DIR and its friends) are dropped.
OPERATORS_GIT = re.compile(
    r"GIT_((AUTHOR|COMMITTER)_(NAME|EMAIL)|SSH(_VARIANT)?|SSH_COMMAND|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|SSL_\w+|PROXY_\w+|HTTP_\w+"
    r"|CONFIG_(COUNT|KEY_\d+|VALUE_\d+)|ALLOW_PROTOCOL|EXEC_PATH|LFS_\w+)"
)
LOCKED = re.compile(r"\.lock': File exists|could not lock config file")


def run(place: Place, *args: str, profile: Profile = PLAIN, stdin: bytes = b"", ok: Codes = (0,), env: Env = AS_IS) -> Ended:
    """One git call; its exit status is one of `ok`, else `GitError`. A lock that somebody holds is waited for."""
    options, cwd, theirs = place.where
    bounds: tuple[str, ...] = ()
    # The environment is built whole: ours from the little that it keeps of the person's; theirs sealed against questions and strays.
    if profile is PLAIN:
        full = {**{key: theirs[key] for key in PASSED if key in theirs}, **FIXED, **SEALED, **env}
    else:
        kept = {key: value for key, value in theirs.items() if not key.startswith("GIT_") or OPERATORS_GIT.fullmatch(key)}
        full = {**kept, **FIXED, **env}
        # A remote or a signing program may hang, and we may be dead by then: the system's own `timeout`, where there is one, ends
        # it a little after we would have.
        if timeout := which("timeout", path=full.get("PATH")):
            bounds = (timeout, "-k", "5", f"{profile.limit_s * 1.1 + 1:.0f}")
    # Settings on the command line are stronger than any file.
    words = (*bounds, "git", *(word for key, value in profile.settings for word in ("-c", f"{key}={value}")), *options, *args)
    until, pause = time.monotonic() + LOCK_WAIT_S, 0.02
    while True:
        ended = call(words, cwd=cwd, env=full, stdin=stdin, timeout_s=profile.limit_s)
        if not ended.timed_out and ended.code in ok:
            return ended
        if not LOCKED.search(os.fsdecode(ended.err)) or time.monotonic() > until:
            raise GitError(args, ended)
        time.sleep(pause)
        pause = min(1.0, pause * 2)


def git(place: Place, *args: str, profile: Profile = PLAIN, stdin: bytes = b"", ok: Codes = (0,), env: Env = AS_IS) -> str:
    """What a git call wrote, its last line ends cut off; see `run`. Names that are not UTF-8 keep their bytes (surrogates)."""
    return os.fsdecode(run(place, *args, profile=profile, stdin=stdin, ok=ok, env=env).out).rstrip("\n")


def dated(at: float) -> dict[str, str]:
    """Author's and committer's date as variables: the same `at` (seconds since the epoch) gives the same commit."""
    return dict.fromkeys(("GIT_AUTHOR_DATE", "GIT_COMMITTER_DATE"), f"@{int(at)} +0000")

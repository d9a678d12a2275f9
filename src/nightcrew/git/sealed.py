"""How git is started: a sealed environment in two profiles, locks waited for, failures as `GitError`. Knows no verb of ours."""

import os
import re
import time
from collections.abc import Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import NamedTuple, Protocol

from nightcrew.proc.call import Ended, call

LOCK_WAIT_S = 10.0
"""How long a lock that somebody else holds is waited for."""

LOCAL_S = 600.0
"""The longest a git call on local disks may take; a checkout of a large repository is minutes on a slow one."""

NETWORK_S = 180.0
"""The longest a fetch or push may take."""

NEUTRAL = ("nightcrew", "nightcrew@localhost")
"""Name and mail of the identity that stands for nobody."""


class Profile(Enum):
    """Whose configuration counts (rulings 16)."""

    PLAIN = "plain"
    """Ours alone: for all work. The person's global and system configuration is not read."""
    OPERATOR = "operator"
    """The person's: for fetch, the final commit, push, and what touches the person's own checkout; never interactive."""


PLAIN = Profile.PLAIN
OPERATOR = Profile.OPERATOR


class Where(NamedTuple):
    """Where a git call works: the options that name the repository, its folder, and the caller's environment."""

    options: tuple[str, ...]
    cwd: Path
    env: Mapping[str, str]


class Place(Protocol):
    """Anything git can be called on."""

    @property
    def where(self) -> Where:
        """How git is told to work here."""


class Checkout(NamedTuple):
    """A folder in which git looks for the repository by itself; for checkouts that are not ours."""

    path: Path
    operator_env: Mapping[str, str]

    @property
    def where(self) -> Where:
        """No option: git discovers."""
        return Where((), self.path, self.operator_env)


class GitError(Exception):
    """A git call ended in a way the caller did not expect.

    `code` is the exit status (negative for a signal); `timed_out` tells our limit from git's own failure.
    """

    def __init__(self, args: tuple[str, ...], ended: Ended) -> None:
        """Keep the call and all it said."""
        super().__init__(args, ended)
        self.call = args
        self.code = ended.code
        self.timed_out = ended.timed_out
        self.out = os.fsdecode(ended.out)
        self.err = os.fsdecode(ended.err)

    @property
    def words(self) -> str:
        """Git's own words in one line: the first complaint it made."""
        if self.timed_out:
            return f"git {self.call[0]} did not end in time"
        lines = [line.strip() for line in self.err.splitlines() if line.strip()]
        complaints = [line for line in lines if line.startswith(("fatal: ", "error: ", "remote: "))]
        line = next(iter(complaints or lines), f"exit status {self.code}")
        return re.sub(r"^(fatal|error|remote): ", "", line)

    def __str__(self) -> str:
        """The call and git's words."""
        return f"git {self.call[0]}: {self.words}"


FIXED = {
    "LC_ALL": "C",
    "LANGUAGE": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_EDITOR": "true",
    "GIT_SEQUENCE_EDITOR": "true",
    # A program that refuses: whatever asks for a password gets an error instead of a person.
    "GIT_ASKPASS": "false",
    "SSH_ASKPASS": "false",
    "SSH_ASKPASS_REQUIRE": "never",
    "GCM_INTERACTIVE": "never",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_MERGE_AUTOEDIT": "no",
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
    ("commit.gpgSign", "false"),
    ("tag.gpgSign", "false"),
    ("protocol.version", "2"),
    ("core.quotePath", "false"),
    ("advice.detachedHead", "false"),
    ("rerere.enabled", "false"),
    ("diff.renames", "true"),
    ("merge.conflictStyle", "merge"),
    # Whether the operator may use this repository was asked in the operator's profile when it was opened.
    ("safe.directory", "*"),
)

PASSED = ("PATH", "HOME", "XDG_CONFIG_HOME", "TMPDIR", "LD_LIBRARY_PATH")
"""What the plain profile keeps: programs of filters are found, a global ignore file counts."""

OPERATORS_GIT = re.compile(
    r"GIT_((AUTHOR|COMMITTER)_(NAME|EMAIL)|SSH(_VARIANT)?|SSH_COMMAND|CONFIG_(GLOBAL|SYSTEM|NOSYSTEM)|SSL_\w+|PROXY_\w+|HTTP_\w+"
    r"|CONFIG_(COUNT|KEY_\d+|VALUE_\d+)|ALLOW_PROTOCOL|EXEC_PATH|LFS_\w+)"
)
"""The git variables of a person's environment that say how, not where; all others (GIT_DIR and its friends) are dropped."""

LOCKED = re.compile(r"\.lock': File exists|could not lock config file")


def settings_env(pairs: Iterable[tuple[str, str]], first: int = 0) -> dict[str, str]:
    """Configuration as environment variables, numbered from `first`; stronger than any file."""
    env: dict[str, str] = {}
    count = first
    for key, value in pairs:
        env[f"GIT_CONFIG_KEY_{count}"], env[f"GIT_CONFIG_VALUE_{count}"] = key, value
        count += 1
    return env | {"GIT_CONFIG_COUNT": str(count)}


def plain_env(env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a call in the plain profile, built from the little that it keeps of `env`."""
    name, mail = NEUTRAL
    return {
        **{key: env[key] for key in PASSED if key in env},
        **FIXED,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": name,
        "GIT_AUTHOR_EMAIL": mail,
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
        **settings_env(OURS),
    }


def operator_env(env: Mapping[str, str]) -> dict[str, str]:
    """The whole environment of a call in the operator's profile: theirs, but sealed against questions and stray variables."""
    kept = {key: value for key, value in env.items() if not key.startswith("GIT_") or OPERATORS_GIT.fullmatch(key)}
    count = kept.get("GIT_CONFIG_COUNT", "0")
    return kept | FIXED | settings_env(ALWAYS, int(count) if count.isdigit() else 0)


ENVIRONMENT = {PLAIN: plain_env, OPERATOR: operator_env}


def run(
    place: Place,
    *args: str,
    profile: Profile = PLAIN,
    stdin: bytes = b"",
    timeout_s: float = LOCAL_S,
    ok: tuple[int, ...] = (0,),
    env: Mapping[str, str] | None = None,
) -> Ended:
    """One git call; its exit status is one of `ok`, else `GitError`. A lock that somebody holds is waited for."""
    where = place.where
    argv = ("git", *where.options, *args)
    full = {**ENVIRONMENT[profile](where.env), **(env or {})}
    until, pause = time.monotonic() + LOCK_WAIT_S, 0.02
    while True:
        ended = call(argv, cwd=where.cwd, env=full, stdin=stdin, timeout_s=timeout_s)
        if not ended.timed_out and ended.code in ok:
            return ended
        if not LOCKED.search(os.fsdecode(ended.err)) or time.monotonic() > until:
            raise GitError(args, ended)
        time.sleep(pause)
        pause = min(1.0, pause * 2)


def git(
    place: Place,
    *args: str,
    profile: Profile = PLAIN,
    stdin: bytes = b"",
    timeout_s: float = LOCAL_S,
    ok: tuple[int, ...] = (0,),
    env: Mapping[str, str] | None = None,
) -> str:
    """What a git call wrote, its last line ends cut off; see `run`. Names that are not UTF-8 keep their bytes (surrogates)."""
    ended = run(place, *args, profile=profile, stdin=stdin, timeout_s=timeout_s, ok=ok, env=env)
    return os.fsdecode(ended.out).rstrip("\n")


def dated(at: float) -> dict[str, str]:
    """Author's and committer's date as variables: the same `at` (seconds since the epoch) gives the same commit."""
    stamp = f"@{int(at)} +0000"
    return {"GIT_AUTHOR_DATE": stamp, "GIT_COMMITTER_DATE": stamp}

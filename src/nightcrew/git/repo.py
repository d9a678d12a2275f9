"""The person's repository: opening it, its target branch and that branch's tip, pins that keep commits from gc. Never writes its branches."""

import hashlib
import os
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import NamedTuple

from nightcrew.errors import UserError
from nightcrew.git.sealed import ALWAYS, AS_IS, FETCH, OPERATOR, Checkout, Env, GitError, Place, Where, git, run

OLDEST = (2, 38)
NOTHING = "0" * 40


class Repo(NamedTuple):
    """A person's repository: the git folder its worktrees share, this one's files (None: bare), its settings by lower-case key, all values."""

    git_dir: Path
    work_tree: Path | None
    env: Env
    settings: Mapping[str, tuple[str, ...]] = {}

    @property
    def where(self) -> Where:
        """The repository by its own folder, so that no checkout is in the way."""
        return (f"--git-dir={self.git_dir}",), self.git_dir, self.env

    @property
    def top(self) -> Place:
        """Where the person's own git works: the url of a remote may be relative to it."""
        return Checkout(self.work_tree, self.env) if self.work_tree and self.work_tree.is_dir() else self

    def setting(self, key: str) -> str:
        """The value that counts for `key` (lower case), or the empty word."""
        return self.settings.get(key, ("",))[-1]


class Target(NamedTuple):
    """The branch a run lands on, and how; without a remote only the local one exists."""

    branch: str
    remote: str | None
    mode: str = ""

    @property
    def ref(self) -> str:
        """The branch's full name."""
        return f"refs/heads/{self.branch}"

    @property
    def fetched(self) -> str:
        """Our ref for where the remote has the branch."""
        return f"refs/nightcrew/fetched/{self.remote}/{self.branch}"

    @property
    def theirs(self) -> tuple[str, ...]:
        """Every ref that says where the remote has the branch, the freshest after a fetch first."""
        return (self.fetched, f"refs/remotes/{self.remote}/{self.branch}") if self.remote else ()


class Tip(NamedTuple):
    """Where a target stands, one line if that is second best, and the ids of other names that were asked for."""

    commit: str
    note: str
    others: tuple[str, ...] = ()


def open_repo(path: Path, env: Env) -> Repo:
    """The repository around `path`. Raises UserError: none, no commit yet, git missing or older than 2.38, another user's."""
    if not path.is_dir():
        raise UserError(f"no such folder: {path}")
    if "\n" in os.path.realpath(path):
        raise UserError(f"the path of {path.name.splitlines()[0]} holds a line break", "move the repository")
    here = Checkout(path, env)
    _check_version(env.get("PATH", ""))
    folders = ("--path-format=absolute", "--git-common-dir", "--show-toplevel")
    try:
        found = run(here, "rev-parse", *folders, "HEAD", profile=OPERATOR, ok=(0, 128))
    except GitError as error:
        raise UserError(f"git cannot read {path}: {error.words}") from error
    if b"dubious ownership" in found.err:
        hint = f"if you trust it: git config --global --add safe.directory {path}"
        raise UserError(f"the repository at {path} is owned by another user", hint)
    if not found.out:
        raise UserError(f"no git repository at {path}", "start inside one, or make one: git init")
    # A bare repository says only the first; one whose HEAD has no commit may have branches.
    said = os.fsdecode(found.out).splitlines()
    repo = Repo(Path(said[0]), Path(said[1]) if len(said) > 1 else None, env)
    if found.code and not git(repo, "for-each-ref", "--count=1", "refs/heads", "refs/remotes"):
        raise UserError(f"no commit yet in {path}", "commit something first: git commit")
    return _configured(repo)


@cache
def _check_version(path: str) -> None:
    # Asked once. `merge-tree --write-tree` came with 2.38.
    found = re.search(r"(\d+)\.(\d+)", git(Checkout(Path("/"), {"PATH": path}), "version", ok=(0, 126, 127)))
    if not found:
        raise UserError("git cannot be started", "install git 2.38 or newer")
    if (int(found[1]), int(found[2])) < OLDEST:
        raise UserError(f"git {found[0]} is too old", "nightcrew needs git 2.38 or newer")


def _configured(repo: Repo) -> Repo:
    found: dict[str, tuple[str, ...]] = {}
    for item in git(repo, "config", "--list", "-z", profile=OPERATOR).rstrip("\0").split("\0"):
        key, _, value = item.partition("\n")
        found[key] = (*found.get(key, ()), value)
    # The last word on some is ours for the length of a call; the settings tell the person's.
    own = {key.lower(): found[key.lower()][:-1] for key, _ in ALWAYS}
    repo, env = repo._replace(settings={key: values for key, values in (found | own).items() if values}), repo.env
    if "GIT_SSH" in env and "GIT_SSH_COMMAND" not in env:
        return repo
    # An ssh that never asks; a person's own program is kept.
    ssh = (env.get("GIT_SSH_COMMAND") or repo.setting("core.sshcommand")).strip() or "ssh"
    quiet = " -oBatchMode=yes" if os.path.basename(ssh.split()[0]) == "ssh" else ""
    return repo._replace(env={**env, "GIT_SSH_COMMAND": ssh + quiet})


def repo_id(repo: Repo) -> str:
    """A short name for the repository that depends on nothing but where its git folder is."""
    return hashlib.sha256(os.fsencode(os.path.realpath(repo.git_dir))).hexdigest()[:16]


def identity(repo: Repo) -> str:
    """Name and mail with which the operator commits here. Raises UserError when git does not know them."""
    return as_operator(repo, "var", "GIT_COMMITTER_IDENT").rsplit(">", 1)[0] + ">"


def as_operator(repo: Repo, *args: str, stdin: bytes = b"", env: Env = AS_IS) -> str:
    """A call that needs to know who the operator is. Raises UserError when git does not."""
    try:
        return git(repo, *args, profile=OPERATOR, stdin=stdin, env=env)
    except GitError as error:
        if not re.search("tell me who you are|empty ident|auto-detect", error.err):
            raise
        raise UserError("git does not know who you are", 'git config --global user.name "…" and user.email "…"') from error


def target(repo: Repo, configured: str = "", remote: str = "", mode: str = "") -> Target:
    """The branch to land on (rulings 22); `remote` is configured, "" or "none" (local only). Raises UserError with what there is."""
    said = git(repo.top, "for-each-ref", "--format=%(refname)%00%(HEAD)%00%(symref)", "refs/heads", "refs/remotes")
    refs = {name: (head, symref) for name, head, symref in (line.split("\0") for line in said.splitlines())}
    heads = [name.removeprefix("refs/heads/") for name in refs if name.startswith("refs/heads/")]
    theirs = [name for name in heads if not name.startswith("nightcrew/")]  # what a run left is not meant
    listed, chosen = ", ".join(theirs[:8]) or "none", _remote(repo, configured, remote)
    tracked = f"refs/remotes/{chosen}/"
    if configured:
        known = f"refs/heads/{configured}" in refs or tracked + configured in refs
        if not known and not (chosen and _asked(repo, chosen, f"refs/heads/{configured}")):
            raise UserError(f"no branch {configured} here", f"there is: {listed}")
        return Target(configured, chosen, mode)
    branch = refs.get(tracked + "HEAD", ("", ""))[1].removeprefix(tracked)
    if chosen and not branch:
        found = re.match(r"ref: refs/heads/(\S+)\tHEAD", _asked(repo, "--symref", chosen, "HEAD"))
        branch = found[1] if found else ""
    current = next((name for name in heads if refs[f"refs/heads/{name}"][0] == "*"), "")
    branch = branch or current or (theirs[0] if len(theirs) == 1 else "")
    if not branch:
        hint = f"set [land] target to one of: {listed}" if theirs else "make one: git switch -c main"
        raise UserError("which branch shall the work land on?", hint)
    return Target(branch, chosen, mode)


def _remote(repo: Repo, branch: str, configured: str) -> str | None:
    names = [key[len("remote.") : -len(".url")] for key in repo.settings if re.fullmatch(r"remote\..+\.url", key)]
    if configured == "none":
        return None
    if configured:
        if configured not in names:
            raise UserError(f"no remote {configured} here", f"there is: {', '.join(names[:8]) or 'none'}")
        return configured
    wanted = (repo.setting(f"branch.{branch}.remote"), repo.setting("checkout.defaultremote"), "origin")
    return next((name for name in wanted if name in names), names[0] if len(names) == 1 else None)


def _asked(repo: Repo, *words: str) -> str:
    # What the remote itself says of a ref that no fetch has brought; nothing when it cannot be asked.
    try:
        return git(repo.top, "ls-remote", *words, profile=OPERATOR)
    except GitError:
        return ""


def tip(repo: Repo, where: Target, *others: str) -> Tip:
    """The remote's tip, after a fetch that touches no ref of the person's; else the local one. Raises UserError when there is none."""
    note = ""
    if where.remote:
        try:
            fetch(repo, where)
        except GitError as error:
            note = f"{where.remote} was not reached ({error.words}): went on from what is here"
    for name in (*where.theirs, where.ref):  # not reached: what was fetched before, so that work never falls behind
        said = run(repo, "rev-parse", f"{name}^{{commit}}", *others, ok=(0, 128))
        if said.code == 0:
            commit, *more = said.out.decode().split()
            break
    else:
        raise UserError(f"no branch {where.branch} here, and no remote to fetch it from")
    if where.mode and name != where.ref:
        local = git(repo, "rev-parse", "-q", "--verify", where.ref, ok=(0, 1))
        joint, there = git(repo, "merge-base", local, commit, ok=(0, 1)) if local else local, f"{where.remote}/{where.branch}"
        if where.mode != "local" and joint != local:
            note = note or f"{where.branch} has commits that {there} lacks: the work stands on {there}, without them"
        elif joint != local:  # what moves is the local branch, unless the remote has all of it and more
            note = f"{where.branch} and {there} went apart: the work stands on the local one" if joint != commit else note
            commit = local
    return Tip(commit, note, tuple(more))


def fetch(repo: Repo, where: Target) -> None:
    """Bring the remote's branch into a ref of ours, with the operator's credentials and nothing else of theirs."""
    git(repo.top, *FETCH, where.remote or "", f"+{where.ref}:{where.fetched}", profile=OPERATOR)


def passwords(repo: Repo, remote: str | None) -> tuple[str, ...]:
    """What the operator's credential helpers, or its own url, hold for a remote reached over http; nothing if they do not say it soon."""
    asked = OPERATOR._replace(limit_s=10.0)
    try:
        url = git(repo.top, "remote", "get-url", remote, profile=asked) if remote else ""
        said = git(repo.top, "credential", "fill", profile=asked, stdin=f"url={url}\n\n".encode()) if url[:4] == "http" else ""
    except GitError:
        return ()
    return tuple(re.findall("^(?:password|oauth_refresh_token)=(.+)", said, re.MULTILINE))


def ref(run_id: str, name: str) -> str:
    """The ref under which a run keeps something in the person's repository."""
    return f"refs/nightcrew/{run_id}/{name}"


def pin(repo: Repo, run_id: str, name: str, commit: str) -> None:
    """Keep `commit` from gc under the run's `name`; every commit that a workspace borrows is pinned first (rulings 15)."""
    git(repo, "update-ref", ref(run_id, name), commit)


def exclude(repo: Repo, line: str) -> None:
    """Have the person's checkout ignore `line`, by the file that is never committed; once."""
    path = repo.git_dir / "info/exclude"
    lines = path.read_text(errors="surrogateescape").splitlines() if path.exists() else []
    if line not in lines:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, line, ""]), errors="surrogateescape")

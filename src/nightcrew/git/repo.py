"""The person's repository: opening it, its target branch and that branch's tip, pins that keep commits from gc. Never writes its branches."""

import hashlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from nightcrew.errors import UserError
from nightcrew.git.sealed import ALWAYS, NETWORK_S, OPERATOR, PLAIN, Checkout, GitError, Profile, Where, git, run

__all__ = [
    "OPERATOR",
    "PLAIN",
    "GitError",
    "Profile",
    "Repo",
    "Target",
    "Tip",
    "exclude",
    "git",
    "identity",
    "open_repo",
    "pin",
    "ref",
    "repo_id",
    "target",
    "tip",
]

OLDEST = (2, 38)
NOTHING = "0" * 40


class Repo(NamedTuple):
    """A person's repository. `git_dir` is the one all its worktrees share; `work_tree` is where they stand (None: bare).

    `settings` is their effective configuration when it was opened: lower-case key, all its values.
    """

    git_dir: Path
    work_tree: Path | None
    operator_env: Mapping[str, str]
    settings: Mapping[str, tuple[str, ...]] = {}

    @property
    def where(self) -> Where:
        """The repository by its own folder, so that no checkout is in the way."""
        return Where((f"--git-dir={self.git_dir}",), self.git_dir, self.operator_env)

    def setting(self, key: str) -> str:
        """The value that counts for `key` (lower case), or the empty word."""
        return self.settings.get(key, ("",))[-1]


class Target(NamedTuple):
    """The branch a run lands on; without a remote only the local one exists."""

    branch: str
    remote: str | None


class Tip(NamedTuple):
    """Where a target stands, who said so, and one line if that is second best."""

    commit: str
    source: Literal["remote", "local"]
    note: str


def open_repo(path: Path, env: Mapping[str, str]) -> Repo:
    """The repository around `path`, seen with the operator's environment `env`.

    Raises UserError: no repository, no commit yet, git missing or older than 2.38, owned by another user.
    """
    if not path.is_dir():
        raise UserError(f"no such folder: {path}")
    here = Checkout(path, env)
    _check_version(here)
    repo = _found(here)
    if repo is None:
        raise _why_not(here)
    settings = _settings(repo)
    return repo._replace(settings=settings, operator_env=_with_quiet_ssh(env, settings))


def _found(here: Checkout) -> Repo | None:
    """The repository around a folder, None when git finds none. Raises UserError when it has no commit."""
    folders = ("rev-parse", "--path-format=absolute", "--git-common-dir", "--show-toplevel")
    try:
        # One call says it all for a checkout with a commit; a bare repository and an empty one take a second look.
        whole = run(here, *folders, "HEAD", profile=OPERATOR, ok=(0, 128))
        said = os.fsdecode(
            (run(here, *folders, profile=OPERATOR, ok=(0, 128)) if whole.code else whole).out
        ).splitlines()
    except GitError as error:
        raise UserError(f"git cannot read {here.path}: {error.words}") from error
    if not said:
        return None
    repo = Repo(Path(said[0]), Path(said[1]) if len(said) > 1 else None, here.operator_env)
    if whole.code and not _has_commit(repo, here):
        raise UserError(f"no commit yet in {repo.work_tree or repo.git_dir}", "commit something first: git commit")
    return repo


def _has_commit(repo: Repo, here: Checkout) -> bool:
    """Whether any branch, or a detached HEAD, has a commit."""
    if git(repo, "for-each-ref", "--count=1", "refs/heads", "refs/remotes"):
        return True
    return run(here, "rev-parse", "--verify", "-q", "HEAD", profile=OPERATOR, ok=(0, 1, 128)).code == 0


def _check_version(here: Checkout) -> None:
    """Refuse a git that is missing or too old (`merge-tree --write-tree` came with 2.38)."""
    try:
        said = git(here, "version")
    except GitError as error:
        raise UserError("git cannot be started", "install git 2.38 or newer") from error
    found = re.search(r"(\d+)\.(\d+)", said)
    if found and (int(found[1]), int(found[2])) < OLDEST:
        raise UserError(f"git {found[0]} is too old", "nightcrew needs git 2.38 or newer")


def _why_not(here: Checkout) -> UserError:
    """The one line for a folder in which git finds no repository."""
    err = os.fsdecode(run(here, "rev-parse", "--git-dir", profile=OPERATOR, ok=(0, 128)).err)
    if "dubious ownership" in err:
        hint = f"if you trust it: git config --global --add safe.directory {here.path}"
        return UserError(f"the repository at {here.path} is owned by another user", hint)
    return UserError(f"no git repository at {here.path}", "start inside one, or make one: git init")


def _settings(repo: Repo) -> dict[str, tuple[str, ...]]:
    """The operator's effective configuration for this repository."""
    found: dict[str, tuple[str, ...]] = {}
    for item in git(repo, "config", "--list", "-z", profile=OPERATOR).split("\0"):
        key, _, value = item.partition("\n")
        if key:
            found[key] = (*found.get(key, ()), value)
    for key, _ in ALWAYS:
        # The last word on these is ours for the length of a call; the settings tell the person's.
        values = found.pop(key.lower())[:-1]
        found |= {key.lower(): values} if values else {}
    return found


def _with_quiet_ssh(env: Mapping[str, str], settings: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The operator's environment with an ssh that never asks; their own choice of ssh is kept."""
    if "GIT_SSH" in env and "GIT_SSH_COMMAND" not in env:
        return dict(env)
    ssh = env.get("GIT_SSH_COMMAND") or settings.get("core.sshcommand", ("",))[-1] or "ssh"
    program = os.path.basename(ssh.split()[0]) if ssh.split() else ""
    return {**env, "GIT_SSH_COMMAND": f"{ssh} -oBatchMode=yes" if program == "ssh" else ssh}


def repo_id(repo: Repo) -> str:
    """A short name for the repository that depends on nothing but where its git folder is."""
    return hashlib.sha256(os.fsencode(os.path.realpath(repo.git_dir))).hexdigest()[:16]


def identity(repo: Repo) -> str:
    """Name and mail with which the operator commits here. Raises UserError when git does not know them."""
    try:
        said = git(repo, "var", "GIT_AUTHOR_IDENT", profile=OPERATOR)
        git(repo, "var", "GIT_COMMITTER_IDENT", profile=OPERATOR)
    except GitError as error:
        hint = 'git config --global user.name "…" and user.email "…"'
        raise UserError("git does not know who you are", hint) from error
    return said.rsplit(">", 1)[0] + ">"


# ── the target ────────────────────────────────────────────────────────────────────────────────────────────────────


def target(repo: Repo, configured: str = "", remote: str = "") -> Target:
    """The branch to land on (rulings 22): configured, else the remote's HEAD, else the current branch, else the only one.

    `remote` names the remote if configured, `"none"` means local only. Raises UserError with what there is.
    """
    heads, remotes, current, remote_heads = _branches(repo)
    chosen = _remote(repo, configured, remote)
    if configured:
        known = configured in heads or configured in remotes.get(chosen or "", ())
        if not known and not (chosen and _asked_remote(repo, chosen, configured)):
            raise UserError(f"no branch {configured} here", f"there is: {_listed(heads)}")
        return Target(configured, chosen)
    branch = remote_heads.get(chosen) or _head_of_remote(repo, chosen) if chosen else ""
    branch = branch or current or (heads[0] if len(heads) == 1 else "")
    if not branch:
        raise UserError("which branch shall the work land on?", f"set [land] target to one of: {_listed(heads)}")
    return Target(branch, chosen)


def _listed(names: tuple[str, ...]) -> str:
    """Some names in one line."""
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") if names else "none"


def _branches(repo: Repo) -> tuple[tuple[str, ...], dict[str, list[str]], str, dict[str, str]]:
    """Local branches, branches by remote, the current branch (or nothing), and each remote's HEAD branch."""
    place = Checkout(repo.work_tree, repo.operator_env) if repo.work_tree else repo
    said = git(place, "for-each-ref", "--format=%(HEAD)%(refname)%00%(symref)", "refs/heads", "refs/remotes")
    heads: list[str] = []
    remotes: dict[str, list[str]] = {}
    remote_heads: dict[str, str] = {}
    current = ""
    for line in said.splitlines():
        name, _, symref = line[1:].partition("\0")
        kind, rest = name.split("/", 2)[1:]
        if kind == "heads":
            heads.append(rest)
            current = rest if line[0] == "*" else current
            continue
        owner = next((one for one in _remotes(repo) if rest.startswith(one + "/")), rest.split("/", 1)[0])
        if rest == f"{owner}/HEAD":
            remote_heads[owner] = symref.removeprefix(f"refs/remotes/{owner}/")
        else:
            remotes.setdefault(owner, []).append(rest.removeprefix(owner + "/"))
    return tuple(heads), remotes, current, remote_heads


def _remotes(repo: Repo) -> list[str]:
    """The names of the configured remotes."""
    return [key[len("remote.") : -len(".url")] for key in repo.settings if re.fullmatch(r"remote\..+\.url", key)]


def _remote(repo: Repo, branch: str, configured: str) -> str | None:
    """The remote that counts: configured, the branch's own, the default one, `origin`, or the only one."""
    names = _remotes(repo)
    if configured == "none":
        return None
    if configured:
        if configured not in names:
            raise UserError(f"no remote {configured} here", f"there is: {_listed(tuple(names))}")
        return configured
    wanted = (repo.setting(f"branch.{branch}.remote"), repo.setting("checkout.defaultremote"), "origin")
    return next((name for name in wanted if name in names), names[0] if len(names) == 1 else None)


def _asked_remote(repo: Repo, remote: str, branch: str) -> bool:
    """Whether the remote itself knows a branch that no fetch has brought yet."""
    try:
        return bool(_ls_remote(repo, remote, f"refs/heads/{branch}"))
    except GitError:
        return False


def _head_of_remote(repo: Repo, remote: str) -> str:
    """The branch that the remote's HEAD names, asked over the network; nothing when it cannot be asked."""
    try:
        said = git(repo, "ls-remote", "--symref", remote, "HEAD", profile=OPERATOR, timeout_s=NETWORK_S)
    except GitError:
        return ""
    found = re.match(r"ref: refs/heads/(\S+)\tHEAD", said)
    return found[1] if found else ""


def _ls_remote(repo: Repo, remote: str, name: str) -> str:
    """The commit that a ref has on the remote, or nothing."""
    said = git(repo, "ls-remote", remote, name, profile=OPERATOR, timeout_s=NETWORK_S)
    return said.split("\t", 1)[0] if said else ""


def tip(repo: Repo, where: Target) -> Tip:
    """The target's tip: the remote's after a fetch that touches no ref of the person's; else the local one, with a note.

    Raises UserError when the branch exists nowhere.
    """
    if where.remote is None:
        return Tip(_local(repo, where.branch, ()), "local", "")
    kept = f"refs/nightcrew/fetched/{where.remote}/{where.branch}"
    try:
        fetch(repo, where.remote, f"+refs/heads/{where.branch}:{kept}")
        return Tip(git(repo, "rev-parse", "--verify", f"{kept}^{{commit}}"), "remote", "")
    except GitError as error:
        commit = _local(repo, where.branch, (f"refs/remotes/{where.remote}/{where.branch}", kept))
        return Tip(commit, "local", f"{where.remote} was not reached ({error.words}): went on from what is here")


def fetch(repo: Repo, source: str, *refspecs: str) -> None:
    """Bring commits from a remote into refs of ours, with the operator's credentials and nothing else of theirs."""
    options = ("-q", "--no-tags", "--no-write-fetch-head", "--refmap=", "--no-prune", "--no-recurse-submodules")
    git(repo, "fetch", *options, "--no-auto-gc", source, *refspecs, profile=OPERATOR, timeout_s=NETWORK_S)


def _local(repo: Repo, branch: str, others: tuple[str, ...]) -> str:
    """The commit of a local branch, or of the first of `others` that exists."""
    for name in (f"refs/heads/{branch}", *others):
        found = git(repo, "rev-parse", "--verify", "-q", f"{name}^{{commit}}", ok=(0, 1))
        if found:
            return found
    raise UserError(f"no branch {branch} here, and no remote to fetch it from")


# ── pins and marks ────────────────────────────────────────────────────────────────────────────────────────────────


def ref(run: str, name: str) -> str:
    """The ref under which a run keeps something in the person's repository."""
    return f"refs/nightcrew/{run}/{name}"


def pin(repo: Repo, run: str, name: str, commit: str) -> None:
    """Keep `commit` from gc under the run's `name`; every commit that a workspace borrows is pinned first (rulings 15)."""
    git(repo, "update-ref", ref(run, name), commit)


def exclude(repo: Repo, line: str) -> None:
    """Have the person's checkout ignore `line`, by the file that is never committed; once."""
    path = repo.git_dir / "info/exclude"
    lines = path.read_text(errors="surrogateescape").splitlines() if path.exists() else []
    if line not in lines:
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join([*lines, line, ""]), errors="surrogateescape")

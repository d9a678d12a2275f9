"""One slot: its folder, its record beside it, and its `.git` built from our template. Which seat gets which slot is `workspace`'s matter."""

import hashlib
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec

from nightcrew.git.repo import Repo, repo_id
from nightcrew.git.sealed import NEUTRAL, Where, git

MARKER = "nightcrew"
"""The file in a slot's `.git` that says whose it is, as a digest: no name of a run, seat or agent is in a workspace."""

KEPT_SETTINGS = re.compile(
    r"filter\..+|merge\..+\.(driver|name|recursive)|diff\..+\.(textconv|binary|xfuncname|wordregex|algorithm)|lfs\.fetch(include|exclude)"
    r"|core\.(eol|autocrlf|safecrlf|symlinks|filemode|ignorecase|precomposeunicode|attributesfile|excludesfile|bigfilethreshold)"
    r"|extensions\.objectformat"
)
"""The person's settings that decide what files and trees look like; a workspace has these and no others of theirs."""

FILES_OF_TEMPLATE = ("config", "info/exclude", "info/attributes", "objects/info/alternates", "shallow")
STRANGERS = ("commondir", "config.worktree", "info/grafts", "info/sparse-checkout", "gitdir")
"""What an agent could leave in `.git` to make git see something else; removed before each use."""


class Workspace(NamedTuple):
    """A leased slot. `head` and `tree` are those it had when it was leased (empty when it was only looked up)."""

    slot: str
    path: Path
    env: Mapping[str, str]
    head: str = ""
    tree: str = ""

    @property
    def git_dir(self) -> Path:
        """The workspace's own git folder."""
        return self.path / ".git"

    @property
    def where(self) -> Where:
        """Its own folders, named: git never looks for another repository further up."""
        return Where((f"--git-dir={self.git_dir}", f"--work-tree={self.path}"), self.path, self.env)


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What we know about a slot, beside it and out of an agent's reach. No `run` = free.

    `branch` is empty for a reader; `files` is the template of its `.git`; `ready` = everything was set up.
    """

    slot: str
    repo: str
    run: str = ""
    seat: str = ""
    branch: str = ""
    start: str = ""
    ready: bool = False
    copies: tuple[str, ...] = ()
    files: dict[str, str] = {}

    @property
    def owner(self) -> str:
        """What the marker holds."""
        return hashlib.sha256(f"{self.repo}\0{self.run}\0{self.seat}".encode()).hexdigest()


class WorkspaceLost(Exception):  # noqa: N818 - the fact of this name is an outcome, not an error of ours
    """A workspace is not what it was: `reason` is one line; `files` tells whether its folder still has the work in it."""

    def __init__(self, slot: str, reason: str, *, files: bool = False) -> None:
        """Keep the slot and the reason."""
        super().__init__(f"workspace {slot}: {reason}")
        self.slot = slot
        self.reason = reason
        self.files = files


# ── records ───────────────────────────────────────────────────────────────────────────────────────────────────────


def record_path(root: Path, slot: str) -> Path:
    """Where a slot's record lies."""
    return root / f"{slot}.json"


def read_record(root: Path, slot: str) -> Record:
    """A slot's record. Raises WorkspaceLost when there is none that can be read."""
    try:
        return msgspec.json.decode(record_path(root, slot).read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError) as error:
        raise WorkspaceLost(slot, "nothing is known about it any more") from error


def write_record(root: Path, record: Record) -> None:
    """Replace a slot's record, durably."""
    path = record_path(root, record.slot)
    write_durably(path, msgspec.json.encode(record))


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file so that it is the old or the new one after a power cut."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


# ── the template ──────────────────────────────────────────────────────────────────────────────────────────────────


def is_shallow(repo: Repo) -> bool:
    """Whether the person's repository lacks history; its objects are then copied, not borrowed (rulings 15)."""
    return (repo.git_dir / "shallow").exists()


def template(repo: Repo, copies: tuple[str, ...] = ()) -> dict[str, str]:
    """The files of a workspace's `.git` that are ours: text by name."""
    files = {"config": _config(repo), "info/exclude": _excludes(repo, copies)}
    attributes = repo.git_dir / "info/attributes"
    if attributes.exists():
        files["info/attributes"] = attributes.read_text(errors="surrogateescape")
    if is_shallow(repo):
        files["shallow"] = (repo.git_dir / "shallow").read_text()
    else:
        files["objects/info/alternates"] = f"{repo.git_dir}/objects\n"
    return files


def _config(repo: Repo) -> str:
    """Our settings, and those of the person that decide what files look like."""
    name, mail = NEUTRAL
    version = "1" if repo.setting("extensions.objectformat") else "0"
    pairs = [
        ("core.repositoryformatversion", version),
        ("core.bare", "false"),
        ("core.logallrefupdates", "true"),
        ("core.hookspath", os.devnull),
        ("core.fsmonitor", "false"),
        ("user.name", name),
        ("user.email", mail),
        ("commit.gpgsign", "false"),
        ("tag.gpgsign", "false"),
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        ("submodule.recurse", "false"),
    ]
    home = repo.operator_env.get("HOME", "")
    for key, values in sorted(repo.settings.items()):
        if KEPT_SETTINGS.fullmatch(key):
            path = key.endswith("file") and home
            pairs += [(key, re.sub(r"^~/", f"{home}/", value) if path else value) for value in values]
    return "".join(config_lines(key, value) for key, value in pairs)


def config_lines(key: str, value: str) -> str:
    """One setting as git writes it in a file."""
    section, _, name = key.rpartition(".")
    head, _, sub = section.partition(".")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    label = sub.replace("\\", "\\\\").replace('"', '\\"')
    return f'[{head} "{label}"]\n\t{name} = "{quoted}"\n' if sub else f'[{head}]\n\t{name} = "{quoted}"\n'


def _excludes(repo: Repo, copies: tuple[str, ...]) -> str:
    """What is ignored besides the tree's own rules: the person's list, our folder, and what was copied in."""
    theirs = repo.git_dir / "info/exclude"
    text = theirs.read_text(errors="surrogateescape") if theirs.exists() else ""
    ours = ["/.agent/", *("/" + re.sub(r"([\\*?\[!# ])", r"\\\1", path) for path in copies)]
    return "\n".join([text.rstrip("\n"), *ours, ""]).lstrip("\n")


def build_git(git_dir: Path, record: Record) -> None:
    """Make a slot's `.git` afresh: template, marker, one branch (or a detached HEAD) at `start`; an old index is kept.

    Everything else of the old one goes: config, hooks, refs, reflogs, objects, state of a rebase. Rescue comes before.
    """
    new = git_dir.parent.parent / f".{record.slot}.new"
    shutil.rmtree(new, ignore_errors=True)
    for folder in ("objects/info", "objects/pack", "refs/heads", "refs/tags", "info"):
        (new / folder).mkdir(parents=True)
    for name, text in record.files.items():
        (new / name).write_text(text, errors="surrogateescape")
    (new / MARKER).write_text(record.owner)
    head = f"ref: refs/heads/{record.branch}" if record.branch else record.start
    (new / "HEAD").write_text(head + "\n")
    if record.branch:
        branch = new / "refs/heads" / record.branch
        branch.parent.mkdir(parents=True, exist_ok=True)
        branch.write_text(record.start + "\n")
    index = git_dir / "index"
    if index.is_file() and not index.is_symlink():
        shutil.copy2(index, new / "index")
    remove(git_dir)
    new.rename(git_dir)


def give(repo: Repo, ws: Workspace, commit: str) -> None:
    """Have the workspace hold `commit` of the person's repository: borrowed it does already; of a shallow source the objects are copied."""
    if (ws.git_dir / "objects/info/alternates").exists():
        return
    options = ("-q", "--no-tags", "--no-write-fetch-head", "--update-shallow", "--no-auto-gc")
    git(ws, "fetch", *options, str(repo.git_dir), commit)


def remove(path: Path) -> None:
    """Remove a file, link or folder; a folder made read-only by somebody's tool too. What is not there is no error."""
    if path.is_symlink() or path.is_file():
        path.unlink()
        return
    for folder, _, _ in os.walk(path):
        if not os.access(folder, os.W_OK | os.X_OK):
            os.chmod(folder, 0o700)
    if path.exists():
        shutil.rmtree(path)


# ── is it still ours? ─────────────────────────────────────────────────────────────────────────────────────────────


def lookup(root: Path, slot: str, env: Mapping[str, str]) -> Workspace:
    """The workspace of a slot, by its name only; `verify` says whether it is sound."""
    return Workspace(slot, root / slot, env)


def verify(ws: Workspace) -> Record:
    """What we know of a workspace that is really ours, its `.git` put back to our template; before each use, with nobody at work in it.

    A branch that was switched or moved is no loss: `collect` repairs it. Raises WorkspaceLost: the folder is gone, or its
    `.git` is gone or not the one we made.
    """
    record = read_record(ws.path.parent, ws.slot)
    if not ws.path.is_dir():
        raise WorkspaceLost(ws.slot, "its folder is gone")
    if ws.git_dir.is_symlink() or not ws.git_dir.is_dir():
        raise WorkspaceLost(ws.slot, "its .git folder is gone", files=True)
    try:
        marker = (ws.git_dir / MARKER).read_text()
    except OSError:
        marker = ""
    if marker != record.owner or not (ws.git_dir / "HEAD").exists() or not (ws.git_dir / "objects").is_dir():
        raise WorkspaceLost(ws.slot, "its .git folder was replaced", files=True)
    _restore(ws.git_dir, record)
    return record


def _restore(git_dir: Path, record: Record) -> None:
    """Put the template's files back and take strangers and stale locks away: nobody is at work here."""
    for name in FILES_OF_TEMPLATE:
        path = git_dir / name
        wanted = record.files.get(name)
        found = path.read_text(errors="surrogateescape") if path.is_file() else None
        if wanted is None:
            path.unlink(missing_ok=True)
        elif found != wanted:
            path.parent.mkdir(exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(wanted, errors="surrogateescape")
    for name in STRANGERS:
        remove(git_dir / name)
    for lock in (*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock")):
        lock.unlink(missing_ok=True)


def owner_record(repo: Repo, slot: str) -> Record:
    """The record of a slot that nobody has."""
    return Record(slot, repo_id(repo))

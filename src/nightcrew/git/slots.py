"""One slot: its folder, its record beside it, its `.git` built from our template, its submodules. Who gets which slot is `workspace`'s matter."""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec

from nightcrew.database import put
from nightcrew.git.repo import Repo
from nightcrew.git.sealed import ALWAYS, FETCH, NEUTRAL, Env, Place, Where, git

# The file in a slot's `.git` that says whose it is, as a digest: no name of a run, seat or agent is in a workspace.
MARKER = "nightcrew"
# The person's settings that decide what files and trees look like; a workspace has these and no others of theirs.
KEPT_SETTINGS = re.compile(
    r"filter\..+|merge\..+\.(driver|name|recursive)|diff\..+\.(textconv|binary|xfuncname|wordregex|algorithm)|lfs\.fetch(include|exclude)"
    r"|core\.(eol|autocrlf|safecrlf|symlinks|filemode|ignorecase|precomposeunicode|attributesfile|excludesfile|bigfilethreshold)"
)
OUR_SETTINGS = (
    *((key, "false") for key in ("core.bare", "commit.gpgsign", "tag.gpgsign", "submodule.recurse")),
    *(("core.repositoryformatversion", "0"), ("core.logallrefupdates", "true")),
    *(("user.name", NEUTRAL[0]), ("user.email", NEUTRAL[1])),
    *ALWAYS,
)
ALTERNATES = "objects/info/alternates"
# What an agent could leave in `.git` to make git see something else; removed before each use unless the template has it.
MISLEADING = (
    *("commondir", "config.worktree", "gitdir", "shallow", ALTERNATES),
    *("info/attributes", "info/grafts", "info/sparse-checkout"),
)


class Workspace(NamedTuple):
    """A leased slot. `head` and `tree` are those it had when it was leased (empty when it was only looked up)."""

    slot: str
    path: Path
    env: Env
    head: str = ""
    tree: str = ""

    @property
    def git_dir(self) -> Path:
        """The workspace's own git folder."""
        return self.path / ".git"

    @property
    def where(self) -> Where:
        """Its own folders, named: git never looks for another repository further up."""
        return (f"--git-dir={self.git_dir}", f"--work-tree={self.path}"), self.path, self.env


class Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """What we know about a slot, beside it and out of an agent's reach: no `run` = free, no `branch` = a reader's, `ready` = all set up."""

    slot: str
    repo: str
    run: str = ""
    seat: str = ""
    branch: str = ""
    start: str = ""
    ready: bool = False
    saved: str = ""  # the ref of what a reset that is not over yet rescued
    # A judge's: it borrows nothing, has those commits, what they stand on, and no history (rulings 15).
    sees: tuple[str, ...] = ()
    copies: tuple[str, ...] = ()
    files: dict[str, str] = {}

    @property
    def owner(self) -> str:
        """What the marker holds."""
        return hashlib.sha256(f"{self.repo}\0{self.run}\0{self.seat}".encode()).hexdigest()

    @property
    def head(self) -> str:
        """The ref that HEAD names; for a reader HEAD itself."""
        return f"refs/heads/{self.branch}" if self.branch else "HEAD"


class WorkspaceLost(Exception):  # noqa: N818 - the fact of this name is an outcome, not an error of ours
    """A workspace is not what it was: `reason` is one line; `files` tells whether its folder still has the work in it."""

    def __init__(self, slot: str, reason: str, *, files: bool = False) -> None:
        """Keep the slot and the reason."""
        super().__init__(f"workspace {slot}: {reason}")
        self.slot, self.reason, self.files = slot, reason, files


def read_record(root: Path, slot: str) -> Record:
    """A slot's record. Raises WorkspaceLost when there is none that can be read."""
    try:
        return msgspec.json.decode((root / f"{slot}.json").read_bytes(), type=Record)
    except (OSError, msgspec.DecodeError) as error:
        raise WorkspaceLost(slot, "nothing is known about it any more") from error


def write_record(root: Path, record: Record) -> None:
    """Replace a slot's record so that it is the old or the new one after a power cut."""
    put(root / f"{record.slot}.json", msgspec.json.encode(record))


def template(repo: Repo, record: Record) -> dict[str, str]:
    """The files of a workspace's `.git` that are ours: text by name."""
    ours = ["/.agent/", *("/" + re.sub(r"([\\*?\[!# ])", r"\\\1", path) for path in record.copies)]
    excludes = [*_text(repo.git_dir / "info/exclude").splitlines(), *ours, ""]
    pairs, config = [*OUR_SETTINGS], ""
    for key, values in sorted(repo.settings.items()):
        if KEPT_SETTINGS.fullmatch(key):
            home = repo.env.get("HOME") if key.endswith("file") else None
            pairs += [(key, re.sub(r"^~/", f"{home}/", value) if home else value) for value in values]
    for key, value in pairs:
        section, _, name = key.rpartition(".")
        head, _, sub = section.partition(".")
        label, quoted = (text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for text in (sub, value))
        config += (f'[{head} "{label}"]' if sub else f"[{head}]") + f'\n\t{name} = "{quoted}"\n'
    files = {"config": config, "info/exclude": "\n".join(excludes)}
    files |= {name: text for name in ("info/attributes", "shallow") if (text := _text(repo.git_dir / name))}
    files |= {"shallow": f"{record.start}\n"} if record.sees else {}
    # A repository that lacks history has its objects copied, not borrowed (rulings 15).
    return files if "shallow" in files else files | {ALTERNATES: f"{repo.git_dir}/objects\n"}


def _text(path: Path) -> str:
    return path.read_text(errors="surrogateescape") if path.is_file() else ""


def lay_out(git_dir: Path, files: Mapping[str, str]) -> None:
    """Make a git folder of some files, with the folders that git wants to see."""
    for name in ("objects/pack", "refs/heads", "refs/tags"):
        (git_dir / name).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (git_dir / name).parent.mkdir(parents=True, exist_ok=True)
        (git_dir / name).write_text(text, errors="surrogateescape")


def build_git(git_dir: Path, record: Record) -> None:
    """Make a slot's `.git` afresh: template, marker, one branch (or a detached HEAD) at `start`. Of the old one only the index is kept."""
    new = git_dir.parent.parent / f".{record.slot}.new"
    remove(new)
    head = {"HEAD": f"ref: {record.head}\n"} if record.branch else {}
    lay_out(new, {**record.files, MARKER: record.owner, **head, record.head: record.start + "\n"})
    index = git_dir / "index"
    if index.is_file() and not index.is_symlink():
        shutil.copy2(index, new / "index")
    remove(git_dir)
    new.rename(git_dir)


def give(repo: Repo, ws: Workspace, commit: str, sees: tuple[str, ...] = ()) -> None:
    """Have the workspace hold a commit of the person's: borrowed it does already, of a shallow source it is copied; or a judge's `sees` and their bases."""
    if not (ws.git_dir / ALTERNATES).exists():
        how = ("--depth=2", str(repo.git_dir), *sees) if sees else ("--update-shallow", str(repo.git_dir), commit)
        git(ws, *FETCH, *how)


def hide_times(ws: Workspace) -> None:
    """Have a judge's workspace tell nothing of when and how it was made: no reflog, an index without a file's times, one time for all."""
    remove(ws.git_dir / "logs")
    remove(ws.git_dir / "index")
    git(ws, "read-tree", "HEAD")
    for path in (*ws.path.rglob("*"), ws.path):
        os.utime(path, (0, 0), follow_symlinks=False)


def remove(path: Path) -> None:
    """Remove a file, link or folder; a folder made read-only by somebody's tool too. What is not there is no error."""
    if os.path.lexists(path) and not os.access(path.parent, os.W_OK | os.X_OK):
        os.chmod(path.parent, 0o700)
    if path.is_dir() and not path.is_symlink():
        opened(path)
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()


def opened(top: Path) -> bool:
    """Give us back the right to read files and to use folders, where a tool took it from us, in `top` (no link); whether that was so anywhere."""
    found = False
    for folder, folders, files in chain([("", [str(top)], [])], () if top.is_symlink() else os.walk(top)):
        for name, rights in (*((name, 0o700) for name in folders), *((name, 0o400) for name in files)):
            path = Path(folder, name)
            if not os.path.islink(path) and not os.access(path, rights >> 6):
                with suppress(OSError):  # somebody else's
                    path.chmod(path.stat().st_mode | rights)
                    found = os.access(path, rights >> 6) or found
    return found


def within(ws: Workspace, path: Path) -> bool:
    """Whether a path of the workspace really lies in it: no link that an agent made leads elsewhere on the way to its last part."""
    return path.parent.resolve() == ws.path.resolve() / path.parent.relative_to(ws.path)


def verify(ws: Workspace) -> Record:
    """What we know of a workspace that is ours, its `.git` put back to our template. Raises WorkspaceLost: it or its `.git` is gone or not ours."""
    record, git_dir = read_record(ws.path.parent, ws.slot), ws.git_dir
    if ws.path.is_symlink() or not ws.path.is_dir():  # behind a link lies what is somebody's
        raise WorkspaceLost(ws.slot, "its folder is gone")
    if git_dir.is_symlink() or not git_dir.is_dir():
        raise WorkspaceLost(ws.slot, "its .git folder is gone", files=True)
    marker = git_dir / MARKER
    ours = marker.is_file() and marker.read_text(errors="replace") == record.owner
    if not ours or not (git_dir / "HEAD").exists() or not (git_dir / "objects").is_dir():
        raise WorkspaceLost(ws.slot, "its .git folder was replaced", files=True)
    # Through a link in here our own git, which no sandbox holds, would write elsewhere.
    deep = (path for name in ("refs", "logs") for path in (git_dir / name).rglob("*"))
    if any(map(os.path.islink, chain(git_dir.iterdir(), (git_dir / "objects").iterdir(), deep))):
        raise WorkspaceLost(ws.slot, "its .git folder holds links", files=True)
    misleading = [git_dir / name for name in MISLEADING if name not in record.files]
    wrong = {name: text for name, text in record.files.items() if _text(git_dir / name) != text}
    locks = (*git_dir.glob("*.lock"), *(git_dir / "refs").rglob("*.lock"))
    for path in (*misleading, *locks, *map(git_dir.joinpath, wrong)):
        remove(path)
    lay_out(git_dir, wrong)
    return record


def fill_submodules(repo: Repo, ws: Workspace) -> None:
    """Check out the submodules of a workspace, at any depth, at the commits its tree names."""
    ours = {"config": (ws.git_dir / "config").read_text(errors="surrogateescape")}
    for source, inner, commit in walk_submodules(repo.git_dir / "modules", ws):
        there = Repo(source, None, ws.env)
        if git(there, "rev-parse", "--verify", "-q", f"{commit}^{{commit}}", ok=(0, 1, 128)) == commit:
            borrowed = {ALTERNATES: f"{source}/objects\n", "HEAD": commit + "\n"}
            if (source / "shallow").exists():
                borrowed["shallow"] = (source / "shallow").read_text()
            remove(inner.path)
            lay_out(inner.git_dir, ours | borrowed)
            git(inner, "reset", "--hard", "-q", commit)


def walk_submodules(sources: Path, here: Workspace) -> Iterator[tuple[Path, Workspace, str]]:
    """At each level the person's copy (below `sources`), ours, and the commit that is wanted; what fills ours does so before it asks on."""
    if sources.is_dir() and (here.path / ".gitmodules").is_file():
        for name, path, commit in submodules(here):
            source, inner = sources / name, here._replace(path=here.path / path)
            if ".." not in Path(name).parts and (source / "objects").is_dir() and within(here, inner.git_dir):
                yield source, inner, commit
                yield from walk_submodules(source / "modules", inner)


def submodules(here: Place) -> list[tuple[str, str, str]]:
    """Name, path and commit of the submodules that both the tree and `.gitmodules` know."""
    staged = git(here, "ls-files", "-s", "-z").split("\0")
    commits = {line.partition("\t")[2]: line.split(" ")[1] for line in staged if line.startswith("160000")}
    said = git(here, "config", "-z", "-f", ".gitmodules", "--get-regexp", r"^submodule\..*\.path$", ok=(0, 1))
    paths = (item.partition("\n") for item in said.split("\0") if item)
    known = [(re.sub(r"^submodule\.(.*)\.path$", r"\1", key), path) for key, _, path in paths]
    return [(name, path, commits[path]) for name, path in known if path in commits]

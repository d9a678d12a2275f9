"""Collecting an agent's work: what is left uncommitted is committed, a branch that was bent is put right, the result is brought over."""

from typing import NamedTuple

from nightcrew.git import snapshot
from nightcrew.git.repo import Repo
from nightcrew.git.sealed import Place, dated, git, run
from nightcrew.git.slots import Record, Workspace, remove, submodules
from nightcrew.git.snapshot import Survey, sound

_HEADS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD")
IN_PROGRESS = (*_HEADS, "rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG")
LEFT_OVER = ("REBASE_HEAD", "BISECT_START", "BISECT_NAMES")  # what a reset does not take away itself


class Collected(NamedTuple):
    """What stands on a branch after a turn, compared with its start; `patch` is for reading. `rescued` names a ref if history had to be put right."""

    head: str
    tree: str = ""
    start_tree: str = ""
    commits: int = 0
    files: int = 0
    insertions: int = 0
    deletions: int = 0
    patch: bytes = b""
    rescued: str = ""


def collect(repo: Repo, ws: Workspace, run_id: str, label: str, start: str, message: str, at: float) -> Collected:
    """Commit what an agent left, have our branch hold its result on `start`, bring it to `refs/nightcrew/<run>/<label>`. Raises WorkspaceLost."""
    # A branch that was switched, rewritten or left in the middle is put right after a rescue: the files as they are count. `at` dates
    # our commits, so that the same call after a crash gives the same ones.
    record, rescued = sound(repo, ws), ""
    seen = snapshot.absorb(repo, ws, run_id)
    whole = seen.head and not seen.unmerged and not in_progress(ws)
    ahead = _ahead(ws, start, seen.head) if whole else None
    # The agent's own commits stay where they stand on `start` and are whole.
    parent = seen.head if ahead is not None else start
    taboo = [path for path in seen.unsaved if _forbidden(record, path)]
    if ahead is not None and seen.branch == record.branch:
        head = _commit_files(ws, record, seen, taboo, message, at)
    else:
        saved = snapshot.rescue(repo, ws, run_id)
        rescued = saved.ref if saved else ""
        tree, _ = snapshot.files_tree(ws, seen, without=taboo)
        head = commit_tree(ws, tree, parent, message, at) if tree != tree_of(ws, parent) else parent
        put_branch(ws, record, head)
    commits = (ahead or 0) + (head != parent)
    found, paths = _compared(ws, start, Collected(head, commits=commits, rescued=rescued))
    if _clean_index(repo, ws, run_id, start, record, paths):
        head = commit_index(ws, record, message, at)
        found, _ = _compared(ws, start, found._replace(head=head, commits=commits + 1))
    snapshot.publish(repo, ws, run_id, label, head)
    snapshot.rescue_submodules(repo, ws, run_id)
    return found


def in_progress(ws: Workspace) -> bool:
    """Whether a rebase, merge, cherry-pick, revert or bisect is under way."""
    return any((ws.git_dir / name).exists() for name in IN_PROGRESS)


def _ahead(ws: Workspace, start: str, head: str) -> int | None:
    # How many commits lead from `start` to `head`; None when it does not stand on it.
    if head == start:
        return 0
    missing, made = git(ws, "rev-list", "--left-right", "--count", f"{start}...{head}").split("\t")
    return int(made) if missing == "0" else None


def _forbidden(record: Record, path: str) -> bool:
    return path in record.copies or path == ".agent" or path.startswith(".agent/")


def _commit_files(ws: Workspace, record: Record, seen: Survey, taboo: list[str], message: str, at: float) -> str:
    # All that is not committed and not ignored; the branch's head afterwards.
    if len(seen.unsaved) == len(taboo):
        return seen.head
    if not taboo and not seen.untracked:
        return commit_index(ws, record, message, at, "--all")
    git(ws, "add", "-A", "--", ".", *(f":(exclude,literal){path}" for path in taboo))
    return commit_index(ws, record, message, at)


def commit_index(ws: Workspace, record: Record, message: str, at: float, *more: str) -> str:
    """Commit the index on our branch under the neutral identity, if it holds anything new; the branch's head afterwards."""
    words = ("-q", "--no-verify", "--cleanup=verbatim", *more, "-F", "-")
    run(ws, "commit", *words, stdin=message.encode(), env=dated(at), ok=(0, 1))
    path = ws.git_dir / record.head
    return path.read_text().strip() if path.is_file() else git(ws, "rev-parse", "HEAD")


def commit_tree(place: Place, tree: str, parent: str, message: str, at: float) -> str:
    """A commit of the neutral identity with exactly `tree`, on no branch."""
    return git(place, "commit-tree", tree, "-p", parent, "-F", "-", stdin=message.encode(), env=dated(at))


def _clean_index(repo: Repo, ws: Workspace, run_id: str, start: str, record: Record, paths: list[str]) -> bool:
    # Take out of the index what an agent committed and must not land; whether there was anything.
    taboo = [f":(literal){path}" for path in paths if _forbidden(record, path)]
    if taboo:
        git(ws, "reset", "-q", start, "--", *taboo)
    # Repositories made inside the tree and committed as links: the tree that lands must have their files.
    links = [path for path in paths if (ws.path / path / ".git").exists()]
    known = {path for _, path, _ in submodules(ws)} if links else set()
    links = [path for path in links if path not in known]
    for path in links:
        snapshot.swallow(repo, ws.path / path / ".git", run_id)
        git(ws, "rm", "-q", "-f", "--cached", "--", f":(literal){path}")
        git(ws, "add", "-A", "--", f":(literal){path}")
    return bool(taboo or links)


def put_branch(ws: Workspace, record: Record, commit: str) -> None:
    """Stand on our branch at `commit`, nothing in progress; files stay as they are."""
    for name in (*IN_PROGRESS, *LEFT_OVER):
        remove(ws.git_dir / name)
    # Away from whatever branch it stands on first: a reset must not move that one.
    if record.branch:
        git(ws, "symbolic-ref", "HEAD", record.head)
    else:
        git(ws, "update-ref", "--no-deref", "HEAD", commit)
    git(ws, "reset", "-q", commit)


def is_ancestor(place: Place, old: str, new: str) -> bool:
    """Whether `old` is `new` or lies in its history."""
    return run(place, "merge-base", "--is-ancestor", old, new, ok=(0, 1)).code == 0


def tree_of(place: Place, commit: str) -> str:
    """A commit's tree."""
    return git(place, "rev-parse", "--verify", f"{commit}^{{tree}}")


def _compared(ws: Workspace, start: str, found: Collected) -> tuple[Collected, list[str]]:
    # All numbers and the patch in one call, by no program of the person's or the agent's; and the paths that differ.
    flags = ("-r", "-z", "-M", "--numstat", "--patch", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")
    # Each line is a commit and the one to compare it with; the answer begins with the commit's tree.
    pairs = f"{start} {start}\n{found.head} {start}\n".encode()
    said = run(ws, "diff-tree", "--stdin", "--always", "--format=%T", *flags, stdin=pairs).out
    start_tree, tree, rest = said.split(b"\0", 2)
    numbers, _, patch = rest.removeprefix(b"\n").partition(b"\0\0")
    counts, paths = [0, 0], []
    fields = iter(numbers.decode(errors="surrogateescape").split("\0"))
    for field in filter(None, fields):
        *changed, path = field.split("\t", 2)
        # Of a renamed file the old and the new name follow; a binary one has no lines.
        paths.append(path or (next(fields), next(fields))[1])
        counts = [have + int(n.replace("-", "0")) for have, n in zip(counts, changed, strict=True)]
    found = found._replace(tree=tree.decode(), start_tree=start_tree.decode(), files=len(paths), patch=patch)
    return found._replace(insertions=counts[0], deletions=counts[1]), paths

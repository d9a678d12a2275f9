"""An agent's work collected (the rest committed, a bent branch put right, the result brought over), and kept on the target's tip."""

import re
from typing import Literal, NamedTuple

from nightcrew.database import sync_disk
from nightcrew.git import snapshot
from nightcrew.git.repo import Repo, Target, pin, tip as find_tip
from nightcrew.git.sealed import GitError, Place, dated, git, run
from nightcrew.git.slots import Record, Workspace, give, remove, submodules, within
from nightcrew.git.snapshot import sound

IN_PROGRESS = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply", "sequencer", "BISECT_LOG")
LEFT_OVER = ("REBASE_HEAD", "BISECT_START", "BISECT_NAMES")  # what a reset does not take away itself
# Larger files are told as changed, like binary ones: a patch is for reading, and is held in memory.
HUGE = ("-c", "core.bigFileThreshold=1m")
_MARKER = re.compile(r"(.*):\d+: leftover conflict marker")


class Collected(NamedTuple):
    """What stands on a branch after a turn, compared with its start; `patch` is for reading."""

    # `rescued` names a ref if history had to be put right; `left` are paths that git cannot hold.
    head: str
    tree: str = ""
    start_tree: str = ""
    commits: int = 0
    files: int = 0
    insertions: int = 0
    deletions: int = 0
    patch: bytes = b""
    rescued: str = ""
    left: tuple[str, ...] = ()


def collect(repo: Repo, ws: Workspace, run_id: str, label: str, start: str, message: str, at: float) -> Collected:
    """Commit what an agent left, have our branch hold its result on `start`, bring it to `refs/nightcrew/<run>/<label>`. Raises WorkspaceLost."""
    # A branch that was switched, rewritten or left in the middle is put right after a rescue: the files as they are count. `at` dates
    # our commits, so that the same call after a crash gives the same ones.
    record, rescued, left = sound(repo, ws), "", tuple[str, ...]()
    seen = snapshot.absorb(repo, ws, run_id)
    # The agent's own commits stay where they stand on `start` and are whole: how many, else None.
    whole = seen.head and not seen.unmerged and not in_progress(ws)
    ahead = 0 if whole and seen.head == start else None
    if whole and seen.head != start:
        missing, made = git(ws, "rev-list", "--left-right", "--count", f"{start}...{seen.head}").split("\t")
        ahead = int(made) if missing == "0" else None
    parent = start if ahead is None else seen.head
    taboo = [path for path in seen.unsaved if _forbidden(record, path)]
    if ahead is not None and seen.branch == record.branch:
        head = seen.head
        if len(seen.unsaved) > len(taboo):
            all_tracked = ("--all",) if not taboo and not seen.untracked else ()
            if not all_tracked:
                left = snapshot.stage(ws, taboo)
            head = commit_index(ws, record, message, at, *all_tracked)
    else:
        rescued = snapshot.rescue(repo, ws, run_id).ref
        tree, left = snapshot.files_tree(ws, seen, without=taboo)
        head = commit_tree(ws, tree, parent, message, at) if tree != tree_of(ws, parent) else parent
        put_branch(ws, record, head)
    commits = (ahead or 0) + (head != parent)
    found, paths = compared(ws, start, Collected(head, commits=commits, rescued=rescued, left=left))
    if _clean_index(repo, ws, run_id, start, record, paths):
        head = commit_index(ws, record, message, at)
        found, _ = compared(ws, start, found._replace(head=head, commits=commits + 1))
    snapshot.publish(repo, ws, run_id, label, head)
    snapshot.rescue_submodules(repo, ws, run_id)
    return found


def in_progress(ws: Workspace) -> bool:
    """Whether a rebase, merge, cherry-pick, revert or bisect is under way."""
    return any((ws.git_dir / name).exists() for name in IN_PROGRESS)


def _forbidden(record: Record, path: str) -> bool:
    return path in record.copies or path == ".agent" or path.startswith(".agent/")


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
    links = [path for path in paths if (ws.path / path / ".git").exists() and within(ws, ws.path / path / ".git")]
    for path in (links := sorted(set(links).difference(path for _, path, _ in submodules(ws)) if links else ())):
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


def compared(place: Place, start: str, found: Collected) -> tuple[Collected, list[str]]:
    """All numbers and the patch in one call, by no program of the person's or the agent's; and the paths that differ."""
    flags = ("-r", "-z", "-M", "--numstat", "--patch", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv")
    # Each line is a commit and the one to compare it with; the answer begins with the commit's tree.
    pairs = f"{start} {start}\n{found.head} {start}\n".encode()
    said = run(place, *HUGE, "diff-tree", "--stdin", "--always", "--format=%T", *flags, stdin=pairs).out
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


class Synced(NamedTuple):
    """How work stands to the target's tip: `head` and `tree` on `tip`, or as they were; `paths` in conflict wait for a fixer."""

    # `landed`: the target has it already. `failed`: a fixer did not end the rebase rightly, `note` says why. `gone`: there is no target.
    state: Literal["same", "rebased", "conflict", "landed", "failed", "undone", "gone"]
    tip: str
    head: str
    tree: str
    paths: tuple[str, ...] = ()
    note: str = ""


def sync(repo: Repo, ws: Workspace, run_id: str, base: str, head: str, target: Target, at: float) -> Synced:
    """Put the work `base..head` on the target's tip, as one commit, in its own workspace after a rescue; made again it finds what it did."""
    record = sound(repo, ws)
    tip, note, (tree,) = find_tip(repo, target, f"{head}^{{tree}}")
    still = Synced("same", tip, head, tree, note=note)
    if tip == base:
        return still
    now, now_tree = head_of(ws)
    if now == head and is_ancestor(repo, tip, head):
        return still
    pin(repo, run_id, f"pins/{tip[:12]}", tip)
    give(repo, ws, tip)
    onto = ws.git_dir / "rebase-merge/onto"
    if onto.is_file() and onto.read_text().strip() == tip:
        return _conflict(ws, still, b"")
    if now not in {head, ""} and not in_progress(ws) and is_ancestor(ws, tip, now):
        return _moved(repo, ws, run_id, still, now, now_tree)
    # One commit has at most one conflict: a fixer is asked once, not once for every step that the work took.
    _, *parents = git(repo, "rev-list", "--parents", "-1", head).split()
    one = head if parents == [base] else commit_tree(repo, tree, base, "the work so far\n", at)
    if has_change(repo, tip, head, one):
        return still._replace(state="landed")
    pin(repo, run_id, f"pins/{one[:12]}", one)
    give(repo, ws, one)
    snapshot.rescue(repo, ws, run_id)
    put_branch(ws, record, one)
    git(ws, "reset", "--hard", "-q")
    words = ("rebase", "-q", "--empty=drop", "--no-fork-point", "--onto", tip, base)
    ended = run(ws, *words, ok=(0, 1), env=dated(at))
    if ended.code == 0:
        return _moved(repo, ws, run_id, still, *head_of(ws))
    if not in_progress(ws):
        raise GitError(words, ended)
    return _conflict(ws, still, ended.out + ended.err)


def head_of(ws: Workspace) -> tuple[str, str]:
    """HEAD's commit and tree; both empty where there is no commit."""
    head, _, tree = git(ws, "log", "-1", "--format=%H %T", "HEAD", "--", ok=(0, 128)).partition(" ")
    return head, tree


def _moved(repo: Repo, ws: Workspace, run_id: str, old: Synced, head: str, tree: str) -> Synced:
    if tree == tree_of(ws, old.tip):
        return old._replace(state="landed", note="nothing of it was left on the target's tip")
    snapshot.publish(repo, ws, run_id, f"rebased/{old.head[:12]}", head)
    sync_disk(ws.path)
    return old._replace(state="rebased", head=head, tree=tree, note="")


def _conflict(ws: Workspace, old: Synced, words: bytes) -> Synced:
    paths = snapshot.survey(ws).unmerged
    sync_disk(ws.path)  # what a fact tells of a rebase outlives a power cut: who goes on with it finds it as it was
    lines = [line.strip() for line in words.decode(errors="replace").splitlines() if "CONFLICT" in line]
    return old._replace(state="conflict", paths=paths, note=lines[0] if lines else f"conflicts in {len(paths)} files")


def resume_rebase(repo: Repo, ws: Workspace, run_id: str, tip_commit: str, head: str, at: float) -> Synced:
    """Finish a rebase onto `tip_commit` after a fixer's round: nothing unmerged, no marker left, the tip in the history, something on it."""
    record, old = sound(repo, ws), Synced("failed", tip_commit, head, tree_of(ws, head))
    # Files with conflict markers that neither side had (a test's sample, say).
    said = [git(ws, "diff", "--check", "--no-ext-diff", side, ok=(0, 2)).splitlines() for side in (tip_commit, head)]
    first, second = ({match[1] for match in map(_MARKER.fullmatch, lines) if match} for lines in said)
    if marked := first & second:
        return old._replace(state="conflict", paths=tuple(sorted(marked)), note="conflict markers are left")
    snapshot.absorb(repo, ws, run_id)
    if in_progress(ws):
        snapshot.stage(ws)
        ended = run(ws, "rebase", "--continue", ok=(0, 1, 128), env=dated(at))
        if in_progress(ws):
            return _conflict(ws, old, ended.out)
    if not is_ancestor(ws, tip_commit, "HEAD"):
        return old._replace(note="the target's tip is missing from the result")
    seen = snapshot.survey(ws)
    if seen.branch != record.branch:
        put_branch(ws, record, seen.head)
    if seen.unsaved:
        snapshot.stage(ws)
        commit_index(ws, record, "resolve conflicts", at)
    _, paths = compared(ws, tip_commit, Collected(head_of(ws)[0]))
    if _clean_index(repo, ws, run_id, tip_commit, record, paths):
        commit_index(ws, record, "resolve conflicts", at)
    now, tree = head_of(ws)
    if tree == tree_of(ws, tip_commit):
        return old._replace(note="all commits were skipped")
    return _moved(repo, ws, run_id, old, now, tree)


def undo_rebase(repo: Repo, ws: Workspace, run_id: str, head: str) -> Synced:
    """Give up a rebase after a rescue: the branch is at `head` again, nothing is in progress; `tip` is the commit of the lease."""
    record, seen = sound(repo, ws), snapshot.survey(ws)
    if seen.head != head or seen.unsaved or in_progress(ws):
        snapshot.rescue(repo, ws, run_id)
        put_branch(ws, record, head)
        git(ws, "reset", "--hard", "-q")
        git(ws, "clean", "-ffdq")
        sync_disk(ws.path)
    return Synced("undone", record.start, head, tree_of(ws, head))


def has_change(repo: Repo, tip_commit: str, head: str, one: str) -> bool:
    """Whether a branch at a tip has work: `head` as an ancestor, the patch of its one commit `one`, or merging that changes nothing."""
    if is_ancestor(repo, head, tip_commit):
        return True
    merged = run(repo, "merge-tree", "--write-tree", "--no-messages", tip_commit, one, ok=(0, 1, 128))
    if merged.code == 0 and merged.out.decode().strip() == tree_of(repo, tip_commit):
        return True
    return git(repo, "cherry", tip_commit, one, f"{one}^").startswith("-")

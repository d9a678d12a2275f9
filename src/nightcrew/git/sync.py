"""Keeping work on the target's tip: fetch, rebase in its own workspace, go on after a fixer, or undo (pipeline: base sync)."""

from typing import Literal, NamedTuple

from nightcrew.git import snapshot
from nightcrew.git.collect import commit_index, in_progress, is_ancestor, put_branch, sound
from nightcrew.git.repo import Repo, Target, pin, tip
from nightcrew.git.sealed import NEUTRAL, GitError, dated, git, run
from nightcrew.git.slots import Workspace, give
from nightcrew.git.snapshot import survey

MERGING = (
    "-c",
    "rebase.autoSquash=false",
    "-c",
    "rebase.updateRefs=false",
    "-c",
    "rebase.backend=merge",
    "-c",
    "rebase.autoStash=false",
)


class Synced(NamedTuple):
    """How work stands to the target's tip.

    `same`: it stands on it. `rebased`: it was moved onto it (`head`, `tree`). `conflict`: left in the files for a fixer, in
    `paths`. `landed`: the target has it already. `failed`: a fixer's round did not end the rebase rightly, `note` says why.
    `undone`: back at `head`.
    """

    state: Literal["same", "rebased", "conflict", "landed", "failed", "undone"]
    tip: str
    head: str
    tree: str
    paths: tuple[str, ...] = ()
    note: str = ""


def sync(repo: Repo, ws: Workspace, run_id: str, base: str, head: str, target: Target, at: float) -> Synced:
    """Look at the target's tip and put the work `base..head` on it, in its own workspace after a rescue.

    Done again after a crash it finds what it did: a conflict still open, or the branch already moved.
    """
    found = tip(repo, target)
    record, _ = sound(repo, ws)
    if found.commit == base:
        return Synced("same", base, head, _tree(ws, head), note=found.note)
    now, tree = head_of(ws)
    if now == head and is_ancestor(repo, found.commit, head):
        return Synced("same", found.commit, head, tree, note=found.note)
    pin(repo, run_id, f"pins/{found.commit[:12]}", found.commit)
    give(repo, ws, found.commit)
    if in_progress(ws) and _onto(ws) == found.commit:
        return _conflict(ws, found.commit, head, "")
    if now not in {head, ""} and not in_progress(ws) and is_ancestor(ws, found.commit, now):
        return _moved(repo, ws, run_id, found.commit, head, (now, tree))
    if has_change(repo, found.commit, head, base):
        return Synced("landed", found.commit, head, _tree(ws, head), note=found.note)
    snapshot.rescue(repo, ws, run_id)
    put_branch(ws, record, head)
    git(ws, "reset", "--hard", "-q", head)
    return _rebase(repo, ws, run_id, (found.commit, base, head), at)


def _rebase(repo: Repo, ws: Workspace, run_id: str, what: tuple[str, str, str], at: float) -> Synced:
    """Start a rebase of `(onto, base, head)`; what git leaves is told."""
    onto, base, head = what
    flags = ("-q", "--empty=drop", "--no-gpg-sign", "--no-fork-point", "--no-autostash", "--onto", onto, base)
    ended = run(ws, *MERGING, "rebase", *flags, ok=(0, 1), env=_committer(at))
    if ended.code == 0:
        return _moved(repo, ws, run_id, onto, head, head_of(ws))
    if not in_progress(ws):
        raise GitError(("rebase",), ended)
    return _conflict(ws, onto, head, ended.out.decode(errors="replace") + ended.err.decode(errors="replace"))


def _committer(at: float) -> dict[str, str]:
    """The neutral committer at `at`, so that the same rebase gives the same commits; authors' dates are kept."""
    name, mail = NEUTRAL
    return {
        "GIT_COMMITTER_NAME": name,
        "GIT_COMMITTER_EMAIL": mail,
        "GIT_COMMITTER_DATE": dated(at)["GIT_COMMITTER_DATE"],
    }


def head_of(ws: Workspace) -> tuple[str, str]:
    """HEAD's commit and tree; both empty where there is no commit."""
    head, _, tree = git(ws, "log", "-1", "--format=%H %T", "HEAD", "--", ok=(0, 128)).partition(" ")
    return head, tree


def _tree(place: Repo | Workspace, commit: str) -> str:
    """A commit's tree."""
    return git(place, "rev-parse", "--verify", f"{commit}^{{tree}}")


def _onto(ws: Workspace) -> str:
    """What the rebase in progress goes onto."""
    path = ws.git_dir / "rebase-merge/onto"
    return path.read_text().strip() if path.is_file() else ""


def _moved(repo: Repo, ws: Workspace, run_id: str, onto: str, old: str, new: tuple[str, str]) -> Synced:
    """The answer for a rebase that ended: nothing left of the work means that the target has it."""
    head, tree = new
    if tree == _tree(ws, onto):
        return Synced("landed", onto, old, _tree(ws, old), note="nothing of it was left on the target's tip")
    snapshot.publish(repo, ws, run_id, f"rebased/{old[:12]}", head)
    return Synced("rebased", onto, head, tree)


def _conflict(ws: Workspace, onto: str, head: str, words: str) -> Synced:
    """The answer for a conflict that waits for a fixer."""
    paths = survey(ws).unmerged
    note = next((line.strip() for line in words.splitlines() if "CONFLICT" in line), "")
    return Synced("conflict", onto, head, _tree(ws, head), paths, note or f"conflicts in {len(paths)} files")


# ── after a fixer ─────────────────────────────────────────────────────────────────────────────────────────────────


def resume_rebase(repo: Repo, ws: Workspace, run_id: str, tip_commit: str, head: str, at: float) -> Synced:
    """Finish a rebase onto `tip_commit` after a fixer's round; what it resolved without finishing is finished for it.

    Success: no rebase in progress, nothing unmerged, no conflict marker in a changed file, the tip in the history, and not
    everything skipped. A further conflict, or markers left, is `conflict` again.
    """
    record, _ = sound(repo, ws)
    while in_progress(ws):
        marked = _marked(ws, tip_commit, head)
        if marked:
            return Synced("conflict", tip_commit, head, _tree(ws, head), marked, "conflict markers are left")
        git(ws, "add", "-A")
        before = _step(ws)
        ended = run(ws, *MERGING, "rebase", "--continue", ok=(0, 1, 128), env=_committer(at))
        if in_progress(ws) and (survey(ws).unmerged or _step(ws) == before):
            return _conflict(ws, tip_commit, head, ended.out.decode(errors="replace"))
    if not is_ancestor(ws, tip_commit, "HEAD"):
        return Synced("failed", tip_commit, head, _tree(ws, head), note="the target's tip is missing from the result")
    seen = survey(ws)
    if seen.branch != record.branch:
        put_branch(ws, record, seen.head)
    if seen.dirty:
        git(ws, "add", "-A")
        commit_index(ws, "resolve conflicts", at)
    marked = _marked(ws, tip_commit, head)
    if marked:
        return Synced("conflict", tip_commit, head, _tree(ws, head), marked, "conflict markers are left")
    now, tree = head_of(ws)
    if tree == _tree(ws, tip_commit):
        return Synced("failed", tip_commit, head, _tree(ws, head), note="all commits were skipped")
    return _moved(repo, ws, run_id, tip_commit, head, (now, tree))


def undo_rebase(repo: Repo, ws: Workspace, run_id: str, head: str) -> Synced:
    """Give up a rebase: what is in the workspace is rescued, the branch is at `head` again, nothing is in progress.

    The answer's `tip` is the commit that the workspace was leased at.
    """
    record, _ = sound(repo, ws)
    now, _ = head_of(ws)
    if now != head or in_progress(ws) or survey(ws).dirty:
        snapshot.rescue(repo, ws, run_id)
        put_branch(ws, record, head)
        git(ws, "reset", "--hard", "-q", head)
        git(ws, "clean", "-ffdq")
    return Synced("undone", record.start, head, _tree(ws, head))


def _step(ws: Workspace) -> str:
    """How far the rebase in progress is."""
    path = ws.git_dir / "rebase-merge/msgnum"
    return path.read_text() if path.is_file() else ""


def _marked(ws: Workspace, tip_commit: str, head: str) -> tuple[str, ...]:
    """Files that differ from the tip and hold conflict markers which neither side had."""
    names = git(ws, "diff", "--name-only", "-z", "--no-renames", "--no-ext-diff", tip_commit).split("\0")
    suspects = [name for name in dict.fromkeys(names) if name and _has_markers(_content(ws, name))]
    return tuple(name for name in suspects if not _had_markers(ws, name, (tip_commit, head)))


def _content(ws: Workspace, name: str) -> bytes:
    """A file of the workspace; nothing where there is none."""
    path = ws.path / name
    return path.read_bytes() if path.is_file() and not path.is_symlink() else b""


def _has_markers(content: bytes) -> bool:
    """Whether a text holds both ends of a conflict."""
    text = b"\n" + content
    return b"\n<<<<<<< " in text and b"\n>>>>>>> " in text


def _had_markers(ws: Workspace, name: str, commits: tuple[str, ...]) -> bool:
    """Whether the file held markers before: a test's sample, say."""
    return any(_has_markers(run(ws, "show", f"{commit}:{name}", ok=(0, 128)).out) for commit in commits)


# ── is it there already? ──────────────────────────────────────────────────────────────────────────────────────────


def has_change(repo: Repo, tip_commit: str, head: str, base: str) -> bool:
    """Whether a branch at `tip_commit` holds the work `base..head`: as an ancestor, as one commit with the same patch, or merging changes nothing.

    `head` and `base` must be in the person's repository.
    """
    if is_ancestor(repo, head, tip_commit):
        return True
    merged = run(repo, "merge-tree", "--write-tree", "--no-messages", tip_commit, head, ok=(0, 1, 128))
    if merged.code == 0 and merged.out.decode().strip() == _tree(repo, tip_commit):
        return True
    squashed = git(repo, "commit-tree", _tree(repo, head), "-p", base, "-m", "the work", env=dated(0))
    return git(repo, "cherry", tip_commit, squashed, base).startswith("-")

"""Keeping work on the target's tip: fetch, rebase in its own workspace, go on after a fixer, or undo (pipeline: base sync)."""

import re
from typing import Literal, NamedTuple

from nightcrew.git import snapshot
from nightcrew.git.collect import commit_index, commit_tree, in_progress, is_ancestor, put_branch, tree_of
from nightcrew.git.repo import Repo, Target, pin, tip as look
from nightcrew.git.sealed import GitError, dated, git, run
from nightcrew.git.slots import Workspace, give
from nightcrew.git.snapshot import sound

_LEFT_OVER = re.compile(r"(.*):\d+: leftover conflict marker")


class Synced(NamedTuple):
    """How work stands to the target's tip: `head` and `tree` on `tip`, or as they were; `paths` in conflict wait for a fixer."""

    # `landed`: the target has it already. `failed`: a fixer did not end the rebase rightly, `note` says why.
    state: Literal["same", "rebased", "conflict", "landed", "failed", "undone"]
    tip: str
    head: str
    tree: str
    paths: tuple[str, ...] = ()
    note: str = ""


def sync(repo: Repo, ws: Workspace, run_id: str, base: str, head: str, target: Target, at: float) -> Synced:
    """Put the work `base..head` on the target's tip, as one commit, in its own workspace after a rescue; made again it finds what it did."""
    record = sound(repo, ws)
    tip, note, (tree,) = look(repo, target, f"{head}^{{tree}}")
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
    return old._replace(state="rebased", head=head, tree=tree, note="")


def _conflict(ws: Workspace, old: Synced, words: bytes) -> Synced:
    paths = snapshot.survey(ws).unmerged
    lines = [line.strip() for line in words.decode(errors="replace").splitlines() if "CONFLICT" in line]
    return old._replace(state="conflict", paths=paths, note=lines[0] if lines else f"conflicts in {len(paths)} files")


def resume_rebase(repo: Repo, ws: Workspace, run_id: str, tip_commit: str, head: str, at: float) -> Synced:
    """Finish a rebase onto `tip_commit` after a fixer's round: nothing unmerged, no marker left, the tip in the history, something on it."""
    record = sound(repo, ws)
    old = Synced("failed", tip_commit, head, tree_of(ws, head))
    marked = _marked(ws, tip_commit, head)
    if marked:
        return old._replace(state="conflict", paths=marked, note="conflict markers are left")
    if in_progress(ws):
        git(ws, "add", "-A")
        ended = run(ws, "rebase", "--continue", ok=(0, 1, 128), env=dated(at))
        if in_progress(ws):
            return _conflict(ws, old, ended.out)
    if not is_ancestor(ws, tip_commit, "HEAD"):
        return old._replace(note="the target's tip is missing from the result")
    seen = snapshot.survey(ws)
    if seen.branch != record.branch:
        put_branch(ws, record, seen.head)
    if seen.dirty:
        git(ws, "add", "-A")
        commit_index(ws, record, "resolve conflicts", at)
    now, tree = head_of(ws)
    if tree == tree_of(ws, tip_commit):
        return old._replace(note="all commits were skipped")
    return _moved(repo, ws, run_id, old, now, tree)


def undo_rebase(repo: Repo, ws: Workspace, run_id: str, head: str) -> Synced:
    """Give up a rebase after a rescue: the branch is at `head` again, nothing is in progress; `tip` is the commit of the lease."""
    record, seen = sound(repo, ws), snapshot.survey(ws)
    if seen.head != head or seen.dirty or in_progress(ws):
        snapshot.rescue(repo, ws, run_id)
        put_branch(ws, record, head)
        git(ws, "reset", "--hard", "-q")
        git(ws, "clean", "-ffdq")
    return Synced("undone", record.start, head, tree_of(ws, head))


def _marked(ws: Workspace, tip_commit: str, head: str) -> tuple[str, ...]:
    # Files with conflict markers that neither side had (a test's sample, say).
    said = [git(ws, "diff", "--check", "--no-ext-diff", side, ok=(0, 2)).splitlines() for side in (tip_commit, head)]
    first, second = ({match[1] for match in map(_LEFT_OVER.fullmatch, lines) if match} for lines in said)
    return tuple(sorted(first & second))


def has_change(repo: Repo, tip_commit: str, head: str, one: str) -> bool:
    """Whether a branch at a tip has work: `head` as an ancestor, the patch of its one commit `one`, or merging that changes nothing."""
    if is_ancestor(repo, head, tip_commit):
        return True
    merged = run(repo, "merge-tree", "--write-tree", "--no-messages", tip_commit, one, ok=(0, 1, 128))
    if merged.code == 0 and merged.out.decode().strip() == tree_of(repo, tip_commit):
        return True
    return git(repo, "cherry", tip_commit, one, f"{one}^").startswith("-")

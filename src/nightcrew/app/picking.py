"""The operator picks findings to be fixed: what must hold before that is written down as a fact (decision 0032)."""

from typing import NamedTuple

from nightcrew.app.story import steps
from nightcrew.app.views import conclusion
from nightcrew.core.events import FixAsked
from nightcrew.core.ids import Commit, RunId, Tree
from nightcrew.core.reducer import blocked
from nightcrew.core.state import RunState, branch_of
from nightcrew.engine.tools import Tools
from nightcrew.errors import UserError
from nightcrew.git import landing, repo, snapshot
from nightcrew.git.sealed import git
from nightcrew.journal.store import Lease


class Pick(NamedTuple):
    """What somebody typed after `fix RUN`."""

    findings: tuple[str, ...]
    reason: str
    allow_stale: bool = False


def ask(tools: Tools, run: RunId, lease: Lease, pick: Pick) -> None:
    """Write it down before any work. Raises UserError, one line each, with nothing recorded."""
    if not pick.reason.strip():
        raise UserError("a fix needs a reason", '--reason "why you want it now"')
    told = tuple(steps(tools.journal.entries(run)))
    found = ((f, step.after.chosen.change.tree) for step in told for review in step.reviewed().values() for f in review.findings)
    raised = {finding.id: (finding, tree) for finding, tree in found}  # every finding, and the tree in which it was seen
    state, ids = told[-1].after, tuple(dict.fromkeys(pick.findings))
    _check_now(state)
    if unknown := [name for name in ids if name not in raised]:
        raise UserError(f"run {run} has no finding {', '.join(unknown)}", f"it has: {', '.join(raised) or 'none'}")
    head = _head(tools, state, branch := branch_of(state, state.winner))
    tree = Tree(git(tools.repo, "rev-parse", f"{head}^{{tree}}"))
    moved = state.done and head != state.commit
    stale = [name for name in ids if moved or raised[name][1] != tree]
    if stale and not pick.allow_stale:
        since = f"the work changed since {', '.join(stale)} was raised"
        raise UserError(since, "look whether it still holds, then: --allow-stale")
    if moved:  # the commits of whoever moved it are part of the work from now on, and one commit will stand for them
        snapshot.name_rescue(tools.repo, run, head)
    if state.done:
        repo.pin(tools.repo, run, f"branches/{branch}", head)
    (tools.journal.folder(run) / "completion_marker").unlink(missing_ok=True)
    findings, reason = tuple(raised[name][0] for name in ids), pick.reason.strip()
    asked = FixAsked(findings=findings, reason=reason, head=head, tree=tree, stale=bool(stale))
    tools.journal.append(lease, state.seq, tools.clock.now(), asked)


def _check_now(state: RunState) -> None:
    ready = state.done and state.landing is not None and state.landing.mode == "branch"
    waits = blocked(state) is not None and state.trouble is None and not state.parked
    if state.winning is None or not (ready or waits):
        hint = "a fix is for a run that is ready or blocked" + ("" if state.done else ": nightcrew resume")
        raise UserError(f"run {state.started.run} is {conclusion(state).word}", hint)


def _head(tools: Tools, state: RunState, branch: str) -> Commit:
    """Where the work stands: the finished branch as it is now, or what a blocked run holds."""
    if not state.done:
        return state.chosen.change.head
    head, checkout = landing.standing(tools.repo, branch)
    if not head:
        raise UserError(f"branch {branch} is gone", "hand the rest off as a new task")
    if checkout:
        raise UserError(f"branch {branch} is checked out at {checkout}", "switch to another there: git switch -")
    return Commit(head)

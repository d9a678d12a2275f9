"""The parts of a story that are about the work: candidates, review rounds, commands with their results. Pure."""

from collections.abc import Sequence

from msgspec import Struct

from nightcrew.app.views import branch
from nightcrew.app.views_steps import Closed, Step
from nightcrew.core.effects import RunCommands
from nightcrew.core.events import CommandsEnded
from nightcrew.core.state import RunState
from nightcrew.core.work import Candidate


class Offered(Struct, frozen=True, kw_only=True):
    """A candidate: its label, branch and author, the size of its change, and how its checks stand (`green`, `red`, "" = none ran)."""

    label: str
    branch: str
    seat: str
    agent: str
    head: str
    commits: int
    files: int
    insertions: int
    deletions: int
    turns: int
    checks: str
    wins: bool
    failure: str


class Found(Struct, frozen=True, kw_only=True):
    """A finding and what became of it: `addressed`, `rejected` (with the fixer's `reason`), or `open`."""

    id: str
    severity: str
    blocks: bool
    file: str
    line: int
    why: str
    became: str
    reason: str


class Round(Struct, frozen=True, kw_only=True):
    """One reviewer's answer in one round of Review."""

    at: float
    round: int
    seat: str
    vote: str
    findings: tuple[Found, ...]


class Result(Struct, frozen=True, kw_only=True):
    """How one command ended; `tail` is the last part of its output (at most 2 KB)."""

    command: str
    code: int
    green: bool
    timed_out: bool
    took_s: float
    tail: str


class Ran(Struct, frozen=True, kw_only=True):
    """A batch of commands: why they ran (`preflight`, `check`, `gate` …), where, and whether a green result was known already."""

    at: float
    purpose: str
    seat: str
    green: bool
    cached: bool
    results: tuple[Result, ...]


def candidates(state: RunState) -> tuple[Offered, ...]:
    """The candidates as they stand."""
    return tuple(_offered(state, candidate) for candidate in state.candidates.values())


def _offered(state: RunState, candidate: Candidate) -> Offered:
    change = candidate.change
    checks = "" if not candidate.checks else "green" if all(c.green for c in candidate.checks) else "red"
    return Offered(
        label=candidate.label,
        branch=branch(state, candidate.label),
        seat=candidate.seat,
        agent=candidate.agent,
        head=change.head,
        commits=change.commits,
        files=change.files,
        insertions=change.insertions,
        deletions=change.deletions,
        turns=candidate.turns,
        checks=checks,
        wins=candidate.label == state.winner,
        failure=candidate.failure,
    )


def rounds(told: Sequence[Step]) -> tuple[Round, ...]:
    """Every reviewer's answer, with what the fixer said to each finding later."""
    found = []
    for n, step in enumerate(told):
        before, after = step.before.reviewing, step.after.reviewing
        for seat, review in after.reviews.items():
            if before.reviews.get(seat) is review:
                continue
            words = _words(told[n:], after.round)
            findings = tuple(
                Found(
                    id=f.id, severity=f.severity, blocks=f.blocks, file=f.file, line=f.line, why=f.why,
                    became=words.get(f.id, ("open", ""))[0], reason=words.get(f.id, ("open", ""))[1],
                )
                for f in review.findings
            )  # fmt: skip
            found.append(Round(at=step.entry.at, round=after.round, seat=seat, vote=review.vote, findings=findings))
    return tuple(found)


def _words(later: Sequence[Step], number: int) -> dict[str, tuple[str, str]]:
    """What the fixer of that round said to each finding."""
    for step in later:
        at = step.after.reviewing
        if at.fixed is not None and at.fixed is not step.before.reviewing.fixed and at.round == number:
            told = dict.fromkeys(at.fixed.addressed, ("addressed", ""))
            return told | {name: ("rejected", why) for name, why in at.fixed.rejected.items()}
    return {}


def ran(ends: Sequence[Closed]) -> tuple[Ran, ...]:
    """Every batch of commands with its results."""
    return tuple(
        Ran(
            at=end.step.entry.at,
            purpose=end.effect.purpose,
            seat=end.effect.seat,
            green=event.green,
            cached=event.cached,
            results=tuple(
                Result(
                    command=r.command, code=r.code, green=r.green, timed_out=r.timed_out, took_s=r.took_s, tail=r.output.tail
                )
                for r in event.results
            ),
        )
        for end in ends
        if isinstance(event := end.step.entry.event, CommandsEnded) and isinstance(end.effect, RunCommands)
    )  # fmt: skip

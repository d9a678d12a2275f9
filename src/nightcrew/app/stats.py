"""What each agent was worth over many runs, counted from their facts alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable

from msgspec import Struct

from nightcrew.app.story import Step, steps, turns
from nightcrew.app.views import count
from nightcrew.core import events as ev
from nightcrew.core.chain import FIX_NODES
from nightcrew.core.phases.review import asked_to_fix
from nightcrew.core.work import Class, FixReport, PipelinePhase

FEW = 5  # below so many nothing is said of a share


class Worth(Struct, frozen=True):
    """One agent's part. `adopted` of its `submitted` findings led to a change; `silent` of its `reviews` found nothing; `fixes` by node."""

    agent: str
    turns: int
    handovers_from: int
    handovers_to: int
    quota_turns: int
    quota_usd: float
    fixes: dict[str, int]
    reviews: int
    silent: int
    submitted: int
    adopted: int


def worth(runs: Iterable[Iterable[ev.Entry]]) -> list[Worth]:
    """Every agent that took part in these runs, by id."""
    tally: defaultdict[str, Counter[str]] = defaultdict(Counter)
    usd: defaultdict[str, float] = defaultdict(float)
    for entries in runs:
        told, authors = tuple(steps(entries)), dict[str, str]()
        for agent, node, outcome in ((turn.agent, turn.node, turn.outcome) for turn in turns(told) if turn.outcome):
            tally[agent].update(("turns", node))
            if outcome.kind is Class.Quota:
                tally[agent]["quota_turns"] += 1
                usd[agent] += outcome.usd or 0.0
        for handover in told[-1].after.handovers if told else ():
            tally[handover.from_agent]["handovers_from"] += 1
            tally[handover.to_agent]["handovers_to"] += 1
        for step in told:
            _findings(step, tally, authors)
    plain, parts = {*Worth.__struct_fields__} - {"agent", "quota_usd", "fixes"}, sorted(tally.items())
    return [Worth(a, quota_usd=usd[a], fixes={n: t[n] for n in FIX_NODES if t[n]}, **{n: t[n] for n in plain}) for a, t in parts]


def _findings(step: Step, tally: defaultdict[str, Counter[str]], authors: dict[str, str]) -> None:
    """Who raised what, and what of it a fixer addressed with a change; its word alone is not enough."""
    for seat, review in step.reviewed().items():
        agent = step.after.seats[seat].agent
        tally[agent].update(reviews=1, silent=not review.findings, submitted=len(review.findings))
        authors |= {finding.id: agent for finding in review.findings}
    was, before, after = step.before.reviewing, step.before.winning, step.after.winning
    fixing = step.before.phase is PipelinePhase.Review and was.step == "collect"
    if fixing and isinstance(step.entry.event, ev.WorkCollected) and before and after:
        asked = {finding.id for finding in asked_to_fix(was)} if before.change.tree != after.change.tree else set()
        for name in asked.intersection((was.fixed or FixReport(())).addressed, authors):
            tally[authors.pop(name)]["adopted"] += 1


def told(rows: Iterable[Worth]) -> list[str]:
    """The same in words; a share of too few is not told."""
    lines = []
    for row in rows:
        quota = f", {row.quota_turns} ended on quota ({row.quota_usd:.2f} usd)" if row.quota_turns else ""
        handed = f"handed over {row.handovers_from}, took over {row.handovers_to}"
        lines.append(f"{row.agent}: {count(row.turns, 'turn')}{quota}, {handed}")
        lines += [f"  fixes: {', '.join(f'{node} {n}' for node, n in row.fixes.items())}"] if row.fixes else []
        if row.reviews:
            share = "too few to say" if row.submitted < FEW else f"{row.adopted / row.submitted:.0%}"
            found = f"{row.adopted} of {count(row.submitted, 'finding')} adopted ({share})"
            lines.append(f"  {count(row.reviews, 'review')}, {row.silent} silent, {found}")
    return lines or ["no agent took a turn yet"]

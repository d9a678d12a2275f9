"""What each agent was worth over many runs, and how panels decided, counted from their facts alone."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import sqrt

from msgspec import Struct

from nightcrew.app.story import Step, steps, turns
from nightcrew.app.views import count
from nightcrew.core import events as ev
from nightcrew.core.chain import FIX_NODES
from nightcrew.core.phases.review import asked_to_fix
from nightcrew.core.state import RunState
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
    entered: int  # competitions that were decided
    won: int
    empty: int  # of those it brought nothing to
    ranked: int  # as a judge
    agreed: int  # with the result, by its first choice


class Stats(Struct, frozen=True):
    """Every agent's part; what `decided` how many competitions, how judges agreed, and `counts` as docs/json.md tells them."""

    agents: list[Worth]
    decided: dict[str, int]
    concord: tuple[float, ...]  # Kendall's W of each panel of two and more, from 0 (no agreement) to 1
    counts: dict[str, float]


def stats(runs: Iterable[Iterable[ev.Entry]]) -> Stats:
    """What these runs tell."""
    kept = [tuple(steps(entries)) for entries in runs]
    contests = [step.before.judging for told in kept for step in told if _decided(step)]
    ends = [told[-1].after for told in kept if told]
    shown = [(at.orders[seat], r.order) for at in contests if at.tally for seat, r in at.rankings.items()]
    landed = [state.spend for state in ends if state.landing]
    counts = {
        "red_out": sum(why.endswith(" is red") for at in contests for why in at.out.values()), "rankings": len(shown),
        "first_shown": sum(order[0] == ranked[0] for order, ranked in shown), "by_chance": sum(1 / len(order) for order, _ in shown),
        "landed": len(landed), "usd": sum(spend.usd for spend in landed), "unpriced": sum(spend.unpriced for spend in landed),
    }  # fmt: skip
    concord = (kendall([r.order for r in at.rankings.values()]) for at in contests if at.tally)
    decided = Counter(at.tally.decided_by for at in contests if at.tally)
    return Stats(_worth(kept), dict(decided), tuple(w for w in concord if w is not None), counts)


def _decided(step: Step) -> bool:
    """Whether a competition ended with this fact: `before` is the run as it stood then."""
    before, on = step.before, step.after.phase not in {PipelinePhase.Judging, PipelinePhase.AwaitingDevFix}
    return on and before.phase is PipelinePhase.Judging and before.settings.pipeline.implementers > 1


def kendall(orders: Sequence[Sequence[str]]) -> float | None:
    """Kendall's W of rankings of the same things without ties: 12 S / (m² (n³ - n)); None for fewer than two of either."""
    m, n = len(orders), len(orders[0]) if orders else 0
    if m < 2 or n < 2:
        return None
    return 12 * sum((sum(o.index(thing) for o in orders) - m * (n - 1) / 2) ** 2 for thing in orders[0]) / (m * m * (n**3 - n))


def share(k: float, n: float) -> str:
    """That share in words, with its 95 % interval (Wilson's score); nothing is said of too few."""
    if n < FEW:
        return "too few to say"
    z = 1.96
    middle, half = (k + z * z / 2) / (n + z * z), z * sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
    return f"{k / n:.0%}, {max(0, middle - half):.0%} to {middle + half:.0%} likely"


def _worth(runs: Iterable[Sequence[Step]]) -> list[Worth]:
    """Every agent that took part in these runs, by id."""
    tally: defaultdict[str, Counter[str]] = defaultdict(Counter)
    usd: defaultdict[str, float] = defaultdict(float)
    for told in runs:
        authors, judges = dict[str, str](), dict[str, str]()
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
            new = step.after.judging.rankings.keys() - step.before.judging.rankings.keys()
            judges |= {seat: step.after.seats[seat].agent for seat in new}
            if _decided(step):
                _contest(step.before, tally, judges)
    plain, parts = {*Worth.__struct_fields__} - {"agent", "quota_usd", "fixes"}, sorted(tally.items())
    return [Worth(a, quota_usd=usd[a], fixes={n: t[n] for n in FIX_NODES if t[n]}, **{n: t[n] for n in plain}) for a, t in parts]


def _contest(state: RunState, tally: defaultdict[str, Counter[str]], judges: dict[str, str]) -> None:
    """Who entered, won or brought nothing, and whose first choice won."""
    for c in state.candidates.values():
        tally[c.agent].update(entered=1, won=c.label == state.winner, empty=not c.changed)
    for seat, ranking in state.judging.rankings.items():
        tally[judges[seat]].update(ranked=1, agreed=ranking.order[0] == state.winner)


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


def told(seen: Stats) -> list[str]:
    """The same in words; a share of too few is not told."""
    lines = []
    for row in seen.agents:
        quota = f", {row.quota_turns} ended on quota ({row.quota_usd:.2f} usd)" if row.quota_turns else ""
        handed = f"handed over {row.handovers_from}, took over {row.handovers_to}"
        lines.append(f"{row.agent}: {count(row.turns, 'turn')}{quota}, {handed}")
        lines += [f"  turns as a fixer: {', '.join(f'{node} {n}' for node, n in row.fixes.items())}"] if row.fixes else []
        if row.reviews:
            found = f"{row.adopted} of {count(row.submitted, 'finding')} adopted ({share(row.adopted, row.submitted)})"
            lines.append(f"  {count(row.reviews, 'review')}, {row.silent} silent, {found}")
        if row.entered:
            empty = f", {row.empty} empty" if row.empty else ""
            lines.append(f"  won {row.won} of {count(row.entered, 'competition')} ({share(row.won, row.entered)}){empty}")
        if row.ranked:
            lines.append(f"  judged {row.ranked}, its first choice won {row.agreed} ({share(row.agreed, row.ranked)})")
    counts, ws = seen.counts, seen.concord
    if seen.decided:
        first = f"{counts['first_shown']:g} of {counts['rankings']:g}, {counts['by_chance']:.1f} by chance"
        lines += [
            f"panels decided by {', '.join(f'{k} {n}' for k, n in sorted(seen.decided.items()))}; out by red checks: {counts['red_out']:g}",
            f"  Kendall's W of {len(ws)}: {f'{sum(ws) / len(ws):.2f} on average' if len(ws) >= FEW else 'too few to say'}",
            f"  shown first and put first: {first} ({share(counts['first_shown'], counts['rankings'])})",
        ]
    if landed := counts["landed"]:
        unpriced = count(int(counts["unpriced"]), "turn")
        lines += [f"landed or ready: {landed:g}, {counts['usd'] / landed:.2f} usd each, {unpriced} without a price"]
    return lines or ["no agent took a turn yet"]

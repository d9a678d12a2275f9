"""Ballots into a winner: the most votes; a tie goes to the opening rankings, to the checks, to the smaller diff, to the first label."""

from collections.abc import Mapping, Sequence

from nightcrew.core.ids import SeatKey
from nightcrew.core.work import Ballot, Candidate, Ranking, Tally

WHY = {
    "votes": "it has the most votes",
    "borda": "votes are tied, and it stands higher in the opening rankings",
    "checks": "votes and opening rankings are tied, and more of its checks pass",
    "size": "votes, opening rankings and checks are tied, and its diff is smaller",
    "label": "all else is tied, and its label comes first",
}


def quorum(judges: int) -> int:
    """How many of a panel must vote: more than half."""
    return judges // 2 + 1


def count(
    judges: int, entrants: Sequence[Candidate], rankings: Mapping[SeatKey, Ranking], ballots: Mapping[SeatKey, Ballot]
) -> Tally:
    """What the ballots came to; in which order they were given does not matter."""
    labels = sorted(c.label for c in entrants)
    votes = {label: sum(b.choice == label for b in ballots.values()) for label in labels}
    borda = {label: sum(len(labels) - 1 - r.order.index(label) for r in rankings.values()) for label in labels}
    changed = sum(seat in rankings and b.choice != rankings[seat].order[0] for seat, b in ballots.items())
    tally = Tally(judges, len(ballots), quorum(judges), votes, borda, changed)
    if tally.present < tally.quorum:
        return tally.but(reason=f"{tally.present} of {judges} judges answered, and {tally.quorum} are needed")
    worth = {
        c.label: (votes[c.label], borda[c.label], sum(r.green for r in c.checks), -c.change.insertions - c.change.deletions)
        for c in entrants
    }
    best = max(worth.values())
    winner = next(label for label in labels if worth[label] == best)
    rivals = [worth[label] for label in labels if label != winner]
    by = next(rule for n, rule in enumerate(WHY, 1) if all(other[:n] < best[:n] for other in rivals) or rule == "label")
    return tally.but(winner=winner, decided_by=by, reason=WHY[by])

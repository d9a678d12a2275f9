"""The tally: any ballots have one winner, whatever order they come in; ties go down a fixed list, and nobody wins below the quorum."""

from random import Random
from typing import TypeVar

import pytest
from hypothesis import given, strategies as st

from nightcrew.core import tally
from nightcrew.core.brief import small
from nightcrew.core.ids import AgentId, Commit, Label, SeatKey, Tree
from nightcrew.core.work import Ballot, Candidate, Change, CommandResult, Ranking, Tally

T = TypeVar("T")
LABELS = tuple(map(Label, "ABCD"))


def candidate(label: str, lines: int = 1, green: int = 0) -> Candidate:
    """A candidate of that size, with so many green checks."""
    checks = tuple(CommandResult(f"check {n}", 0, small("")) for n in range(green))
    change = Change(Commit(label), Tree(label), 1, 1, lines, 0)
    return Candidate(
        label=Label(label), agent=AgentId("x"), start=Commit("c0"), start_tree=Tree("t0"), change=change, checks=checks
    )


def counted(votes: str, rankings: tuple[str, ...] = (), judges: int = 3, sizes: dict[str, Candidate] | None = None) -> Tally:
    """The tally of those votes and rankings, one a judge."""
    ballots = {SeatKey(f"judge-{n}"): Ballot(Label(choice)) for n, choice in enumerate(votes, 1)}
    ranked = {SeatKey(f"judge-{n}"): Ranking(tuple(map(Label, order))) for n, order in enumerate(rankings, 1)}
    return tally.count(judges, [(sizes or {}).get(label, candidate(label)) for label in LABELS], ranked, ballots)


@pytest.mark.parametrize(
    ("votes", "rankings", "sizes", "winner", "by"),
    [
        ("BBA", ("ABCD", "BACD", "ABCD"), {}, "B", "votes"),
        ("AB", ("BACD", "BADC"), {}, "B", "borda"),
        ("AB", ("ABCD", "BACD"), {"B": candidate("B", green=1)}, "B", "checks"),
        ("AB", ("ABCD", "BACD"), {"A": candidate("A", lines=9)}, "B", "size"),
        ("BA", ("ABCD", "BACD"), {}, "A", "label"),
    ],
)
def test_ties_go_down_the_list(votes: str, rankings: tuple[str, ...], sizes: dict[str, Candidate], winner: str, by: str) -> None:
    """Most votes; then the opening rankings, the checks, the smaller diff, the first label; the reason says which of them it was."""
    found = counted(votes, rankings, sizes=sizes)
    assert (found.winner, found.decided_by, found.reason) == (winner, by, tally.WHY[by])


def test_borda_counts_places() -> None:
    """The last place has no point, the first as many as there are others; a changed vote is counted."""
    found = counted("BBB", ("ABCD", "BACD", "DCBA"))
    assert found.borda == {"A": 5, "B": 6, "C": 4, "D": 3}
    assert found.changed == 2


@pytest.mark.parametrize(("judges", "needed"), [(1, 1), (2, 2), (3, 2), (4, 3), (5, 3)])
def test_a_winner_needs_a_quorum(judges: int, needed: int) -> None:
    """More than half must vote; with one less nobody wins, and the words say how many are missing."""
    assert counted("A" * needed, judges=judges).winner == "A"
    below = counted("A" * (needed - 1), judges=judges)
    assert (below.winner, below.decided_by, below.quorum) == ("", "", needed)
    assert f"{needed - 1} of {judges} judges" in below.reason


orders = st.permutations(LABELS).map(lambda order: Ranking(tuple(order)))
seats = st.integers(1, 7).map(lambda n: SeatKey(f"judge-{n}"))


@given(
    st.dictionaries(seats, orders),
    st.dictionaries(seats, st.sampled_from(LABELS).map(Ballot)),
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=4, max_size=4),
    st.randoms(use_true_random=False),
)
def test_any_ballots_have_one_outcome(
    rankings: dict[SeatKey, Ranking], ballots: dict[SeatKey, Ballot], sizes: list[tuple[int, int]], dice: Random
) -> None:
    """Total and deterministic: the order of ballots, rankings and candidates does not matter; the winner has the most votes."""
    entrants = [candidate(label, lines, green) for label, (lines, green) in zip(LABELS, sizes, strict=True)]
    found = tally.count(7, entrants, rankings, ballots)

    def mixed(told: dict[SeatKey, T]) -> dict[SeatKey, T]:
        items = list(told.items())
        dice.shuffle(items)
        return dict(items)

    dice.shuffle(entrants)
    assert tally.count(7, entrants, mixed(rankings), mixed(ballots)) == found
    assert sum(found.votes.values()) == found.present == len(ballots)
    if len(ballots) < 4:
        assert found.winner == ""
    else:
        assert found.votes[found.winner] == max(found.votes.values())
        assert found.decided_by in tally.WHY

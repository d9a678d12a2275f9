"""The small runs that are walked, each with one thing that may go wrong in every way; the tests go into each a little.

As a program: all of them with a larger bound (`make walk`), or those of `WALKS` to their ends (`walk.py small`, in `make check`).
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Any, NamedTuple

from msgspec import structs

from nightcrew.core import reducer
from nightcrew.core.settings import Ladder, Limit, Limits, Pipeline, Verify
from support.walk import Bounds, Walked, walk
from support.world import GATE, story

UNBOUNDED = Limits(usd=Limit(None), turns=Limit(None), wall=Limit(None))
SKIPS = Ladder(dev_fix=False)
SHORT = Ladder(dev_fix=False, ceiling=3)
SHORTER = Ladder(dev_fix=False, ceiling=2)
COMPETING = ("implementers", "judges", "max_parallel")
SECOND = "beta alpha"
"""Fixers by name, so that the fixer chain is not the developer's."""
LARGER = 250_000
"""States of each walk at most, where time does not matter."""
WORKERS = 2


class Walk(NamedTuple):
    """A walk of the tests: its bounds, and how many states it comes to at least."""

    bounds: Bounds
    floor: int


def small(nodes: str, ends: str = "", words: str = "", *, ladder: Ladder | None = None, **told: Any) -> Bounds:
    """A run of one iteration and one round of everything; `nodes` may fail by those `ends`, people say those `words`."""
    rounds: dict[str, Any] = {
        "plan": False, "reviewers": 0, "review_rounds": 1, "gate_fix_rounds": 1, "land_rounds": 1, "conflict_rounds": 1,
        "continuations": 1, "retries": 1,
    }  # fmt: skip
    rounds |= {name: told.pop(name) for name in ("iterations", "reviewers", *COMPETING) if name in told}
    first = story(
        **{"roster": "alpha", "fixer": "alpha", "land": "local", "limits": UNBOUNDED, **told},
        pipeline=Pipeline(**rounds), ladder=ladder or Ladder(),
    )  # fmt: skip
    return Bounds(first, frozenset(nodes.split()), frozenset(words.split()), ends=frozenset(ends.split()))


def turns(limit: Limit) -> Limits:
    """Limits that bind by the number of turns alone."""
    return structs.replace(UNBOUNDED, turns=limit)


TWO: dict[str, Any] = {"roster": "alpha beta", "fixer": SECOND}
E2E: dict[str, Any] = {"verify": Verify(gate=(GATE,), e2e=("make e2e",))}
RIVALS: dict[str, Any] = {
    "roster": "alpha beta gamma",
    "judge": "beta gamma alpha",
    "implementers": 2,
    "judges": 2,
    "max_parallel": 1,
}

WALKS = {
    "every level": Walk(small("implement dev-fix", "AgentCooling refused WorkCollected", iterations=2), 30_000),
    "two agents": Walk(small("implement", "AgentCooling refused timeout", **TWO), 20_000),
    "gate": Walk(small("gate gate-fix", "AgentCooling CommandsEnded refused WorkCollected", ladder=SKIPS, **TWO), 20_000),
    "review": Walk(small("review fix", "AgentCooling refused ok WorkCollected", ladder=SKIPS, reviewers=1, **TWO), 5_000),
    "checks": Walk(small("e2e fix", "AgentCooling CommandsEnded refused", ladder=SKIPS, reviewers=1, **TWO, **E2E), 5_000),
    "repairs": Walk(small("implement dev-fix workspace", "refused WorkCollected WorkspaceReset"), 6_500),
    "base": Walk(small("sync rebase", "AgentCooling BaseSynced refused", ladder=SHORTER, **TWO), 6_500),
    "landing": Walk(small("land", "LandingRefused", ladder=SHORTER), 2_300),
    "commits": Walk(small("commit", "CommitMade CommitRefused", ladder=SHORTER), 150),
    "ends of a turn": Walk(
        small("implement", "auth crashed invalid_output network rate_limit session_not_found", ladder=SHORTER), 5_500
    ),
    "quota": Walk(small("implement", "quota AgentCooling", ladder=SKIPS, **TWO), 12_000),
    "a default limit": Walk(small("implement", "AgentCooling refused", "answer cancel", limits=turns(Limit(3))), 7_000),
    "my limit": Walk(small("implement", "AgentCooling refused", "park", limits=turns(Limit(4, mine=True))), 700),
    "workspaces": Walk(small("*", "AgentCooling WorkspaceLost", ladder=SKIPS), 1_500),
    "steps": Walk(small("*", "AgentCooling StepFailed", ladder=SHORT), 4_000),
    "our bugs": Walk(small("*", "AgentCooling HandlerCrashed TurnLost", ladder=SHORT), 9_000),
    "competition": Walk(small("judge", "refused", ladder=Ladder(dev_fix=False, ceiling=2), **RIVALS), 1_900),
    "rivals mended": Walk(small("judge dev-fix", "refused WorkCollected", ladder=Ladder(ceiling=2), **RIVALS), 15_000),
    "marker": Walk(
        small("marker commit", "StepFailed CompletionMarkerWriteFailed CompletionMarkerEmitted", "cancel park answer"), 13_000
    ),
    "people": Walk(
        small("implement gate", "AgentCooling refused CommandsEnded", "cancel park answer", ladder=Ladder(ceiling=3)), 8_000
    ),
}
"""Small enough to be walked to the end."""
ALL = small("*", reviewers=1, iterations=2, **TWO)
"""Everything may go wrong in every way: walked as far as the bound."""
WIDER = {
    "two agents, two iterations": small("implement", "AgentCooling refused", iterations=2, **TWO),
    "every claim": small("implement", "AgentCooling refused ok", iterations=2),
    "logins": small("implement", "AgentCooling auth", "answer", ladder=SKIPS, **TWO),
    "bases": small("sync rebase", "AgentCooling BaseSynced refused", ladder=SKIPS, **TWO),
    "landings": small("land commit", "AgentCooling LandingRefused CommitMade CommitRefused refused", ladder=SKIPS, **TWO),
    "every end of a turn": small("implement", ladder=SHORT, **TWO),
    "judges": small("judge deliberate vote", "AgentCooling refused ok", ladder=SHORT, **RIVALS),
    "everything": ALL,
}
"""Walked only where time does not matter."""


def walked(name: str) -> Walked:
    """One walk, as far as the larger bound; one of `WALKS` comes to its end before that, and not too soon."""
    bounds = WALKS[name].bounds if name in WALKS else WIDER[name]
    done = walk(reducer.reduce, reducer.wanted, bounds._replace(states=LARGER), most=5)
    assert name not in WALKS or done.violations or (done.whole and done.states >= WALKS[name].floor), f"{name}: {done}"
    return done


def main(names: Sequence[str]) -> int:
    """Walk those; the last line counts, violations are told with the facts that lead there."""
    total: list[Walked] = []
    with ProcessPoolExecutor(WORKERS) as workers:
        for name, done in zip(names, workers.map(walked, names), strict=True):
            print(f"{name}: {done}{'' if done.whole else ' (as far as the bound)'}", flush=True)  # noqa: T201
            for violation in done.violations:
                print(violation)  # noqa: T201
            total.append(done)
    broken = sum(len(done.violations) for done in total)
    print(f"states {sum(d.states for d in total)} edges {sum(d.edges for d in total)} violations {broken}")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main([*WALKS] if "small" in sys.argv else [*WALKS, *WIDER]))

"""Whole runs with real git, journal and agent processes, on a clock that jumps over every wait: hours of recovery in seconds."""

import asyncio
import time
from collections.abc import Callable

from nightcrew.app import control
from nightcrew.core.events import (
    ChainReset,
    CompletionMarkerEmitted,
    DevFixAgentUnavailable,
    DevFixTriggered,
    EffectBegun,
    Entry,
    HandedOver,
    ParkAsked,
    RecoveryAttempted,
    RecoveryEscalated,
    RecoverySucceeded,
)
from nightcrew.core.ids import RunId
from nightcrew.core.roster import AgentRole
from nightcrew.core.state import RunState
from nightcrew.core.work import FailClass, PipelinePhase
from nightcrew.engine import local
from nightcrew.engine.tools import Clock
from support.crew import LOCAL, Crew, Turn, until

GATE = "grep -q four note.txt"
REFUSES: Turn = {"node": "implement", "do": [{"notice": "refused", "reason": "I will not"}]}


class Hurried:
    """A clock whose waits are over at once: it goes with the machine's, and a sleep moves it on by its whole span."""

    def __init__(self) -> None:
        """Begin at the machine's time."""
        self._ahead = 0.0

    def now(self) -> float:
        """Seconds since the epoch."""
        return time.time() + self._ahead

    async def sleep(self, span_s: float) -> None:
        """Go on by that much."""
        self._ahead += span_s
        await asyncio.sleep(0)


def begin(crew: Crew) -> RunId:
    """A run that is started and not driven."""
    known = crew.runs()
    process = crew.start("run", "--no-wait", "write the note")
    until(lambda: crew.runs() != known or process.poll() is not None)
    crew.kill(process)
    return crew.run


def drive(
    crew: Crew,
    run: RunId,
    seen: Callable[[RunState, Entry], None] = lambda _state, _entry: None,
    shown: Callable[[float], float] = lambda at: at,
) -> RunState:
    """Drive a run here on the hurried clock until it rests; `shown` is what the machine says the time is."""
    clock = Hurried()
    tools = control.open_tools(run, crew.env, 4, Clock(lambda: shown(clock.now()), clock.now, clock.sleep))
    lease = tools.journal.acquire(run)
    try:
        return local.drive(local.Driver(tools, run, lease, seen)).state
    finally:
        lease.release()


def ladder(crew: Crew) -> list[tuple[int, int, PipelinePhase]]:
    """Each recovery: attempt, level, target."""
    return [(e.attempt_count, e.level, e.target_phase) for e in crew.facts(RecoveryAttempted)]


def asked_at(crew: Crew) -> list[float]:
    """When each turn really began, on the run's clock."""
    return [e.at for e in crew.entries() if isinstance(e.event, EffectBegun) and "/StartTurn/" in e.event.key]


def test_every_level_and_no_end(crew: Crew) -> None:
    """R03, R06, R25, rulings 38: planning always succeeds, Development never: thirty attempts in one count, raised at 4, 7 and 10, then level 4 for ever."""
    crew.solo(REFUSES, pipeline={"reviewers": 0}, recovery={"dev_fix": False, "ceiling": 31})

    end = drive(crew, begin(crew))

    levels = [level for _, level, _ in ladder(crew)]
    assert (levels[:9], set(levels[9:])) == ([1, 1, 1, 2, 2, 2, 3, 3, 3], {4})
    assert [n for n, *_ in ladder(crew)] == list(range(1, 31))
    told = [e.event for e in crew.entries() if isinstance(e.event, RecoveryEscalated | RecoveryAttempted)]
    raised = {
        getattr(told[n + 1], "attempt_count", 0): fact for n, fact in enumerate(told) if isinstance(fact, RecoveryEscalated)
    }
    assert {n: (fact.from_level, fact.to_level) for n, fact in raised.items()} == {4: (1, 2), 7: (2, 3), 10: (3, 4)}
    into = [target for _, _, target in ladder(crew)]
    assert (set(into[:6]), set(into[6:])) == ({PipelinePhase.Development}, {PipelinePhase.Planning})
    assert (end.iteration, len(crew.facts(CompletionMarkerEmitted))) == (0, 1)
    assert end.ended.startswith("ceiling: 31 attempts")
    assert crew.seats().count("alpha@implement") == 31
    at = asked_at(crew)
    assert at[-1] - at[0] > 30 + 60 + 120 + 240


def test_a_quota_without_a_reset(crew: Crew) -> None:
    """R01, R28: the only agent is spent: in recovery with its role kept, no dev-fix, at most three processes in 147 s; then it lands."""
    spent = [{"node": "implement", "turn": n, "do": [{"notice": "quota", "reason": "usage limit"}]} for n in (1, 2, 3)]
    crew.solo(*spent)

    end = drive(crew, begin(crew))

    assert end.phase is PipelinePhase.Complete
    first = crew.facts(DevFixTriggered)[0]
    assert (first.failed_phase, first.failed_role) == (PipelinePhase.Development, AgentRole.Developer)
    assert len(crew.facts(DevFixAgentUnavailable)) >= 1
    assert {n for n, *_ in ladder(crew)} == {0}
    at = asked_at(crew)
    assert len([one for one in at if one - at[0] <= 147.0]) <= 3
    assert crew.seats() == ["alpha@implement"] * 4 + ["alpha@commit"]


def test_a_reset_in_forty_minutes(crew: Crew) -> None:
    """R09: the ledger knows when the only agent is back: no process for forty minutes, then exactly one, and no attempt."""
    spent: Turn = {"node": "implement", "turn": 1, "do": [{"notice": "quota", "reason": "spent", "reset_in": 2400}]}
    crew.solo(spent)

    end = drive(crew, begin(crew))

    assert end.phase is PipelinePhase.Complete
    assert crew.seats() == ["alpha@implement", "alpha@implement", "alpha@commit"]
    first, second, _ = asked_at(crew)
    assert 2_390.0 <= second - first <= 2_700.0
    assert {n for n, *_ in ladder(crew)} <= {0}


def test_the_fixers_begin_at_the_front_again(crew: Crew) -> None:
    """R22, F03: both fixers fail a gate-fix: one handover, recovery resets their chain, and the first is asked again."""
    fails = [
        {"node": "gate-fix", "agent": name, "turn": 1, "do": [{"notice": "refused", "reason": f"{name} will not"}]}
        for name in ("beta", "gamma")
    ]
    mends: Turn = {"node": "gate-fix", "agent": "beta", "do": [{"write": "well.txt"}]}
    crew.solo()
    crew.settle(
        *crew.agents("alpha", "beta", "gamma"),
        roles={"developer": "alpha", "fixer": ["beta", "gamma"], "committer": "alpha"},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": ["test -e well.txt || { echo ill; exit 1; }"]},
    )
    crew.play(*fails, mends)

    end = drive(crew, begin(crew))

    assert end.phase is PipelinePhase.Complete
    assert [s for s in crew.seats() if "gate-fix" in s] == ["beta@gate-fix", "gamma@gate-fix", "beta@gate-fix"]
    handed = [e.handover for e in crew.facts(HandedOver)]
    assert [(h.from_agent, h.to_agent, h.fail) for h in handed] == [("beta", "gamma", FailClass.Other)]
    assert crew.facts(ChainReset) == [ChainReset(chain="fixer", handovers_before=1)]
    assert crew.facts(RecoverySucceeded) == [RecoverySucceeded(level=1, total_attempts=1)]


def test_my_budget_is_spent_in_recovery(crew: Crew) -> None:
    """R20: the operator's own limit is reached by a dev-fix: failure marker with that reason, no further agent call."""
    dear: Turn = {"node": "dev-fix", "do": [{"usage": {"usd": 5.0}}, {"say": "Tried."}]}
    crew.solo(REFUSES, dear, limits={"usd": 4})

    end = drive(crew, begin(crew))

    assert (end.phase, end.ended) == (PipelinePhase.Interrupted, "budget: the limit usd = 4 is reached")
    assert [e.is_failure for e in crew.facts(CompletionMarkerEmitted)] == [True]
    assert crew.seats() == ["alpha@implement", "alpha@dev-fix"]


def test_a_quota_asks_nobody_twice_at_once(crew: Crew) -> None:
    """F21: both developers cool down with two resets: nobody before the earlier, then that one, once; a restart changes nothing."""
    spent = [
        {"agent": name, "node": "implement", "turn": 1, "do": [{"notice": "quota", "reason": "spent", "reset_in": s}]}
        for name, s in (("alpha", 7200), ("beta", 1800))
    ]
    crew.solo()
    crew.settle(
        *crew.agents("alpha", "beta"),
        roles={"developer": ["alpha", "beta"]},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": [GATE]},
    )
    crew.play(*spent)
    first = begin(crew)
    process = crew.start("resume", first)
    crew.until(lambda e: isinstance(e, DevFixTriggered), process, first)
    crew.kill(process)

    asleep = crew.call("run", "--no-wait", "write the note")
    second = crew.run
    assert asleep.code == 3, asleep
    assert not [start for start in crew.starts() if start["run"] == second]
    end = drive(crew, second)

    assert end.phase is PipelinePhase.Complete
    starts = [start["agent"] for start in crew.starts() if start["run"] == second]
    assert starts[0] == "beta"
    assert [start["node"] for start in crew.starts() if start["run"] == second].count("implement") == 2
    began = next(e for e in crew.entries(second) if isinstance(e.event, EffectBegun) and "/StartTurn/" in e.event.key)
    assert began.at - crew.entries(second)[0].at >= 1_700.0


def test_the_last_level_and_a_hopeless_end_are_told_once_each(crew: Crew) -> None:
    """Level 4 reached: one notification, before it is a fact; the same end three times there, with the same files: one more, and a question.

    No resume repeats them, and a death between notice and fact loses neither.
    """
    told = crew.home / "told"
    crew.solo(REFUSES, recovery={"dev_fix": False}, notify={"command": ["sh", "-c", f"echo {{summary}} >> {told}"]})
    run = begin(crew)
    seen: list[str] = []

    def slow(state: RunState, entry: Entry) -> None:
        if isinstance(entry.event, RecoveryEscalated):
            assert told.exists() is (entry.event.to_level == 4)
        seen.extend(told.read_text().splitlines() if told.exists() and "stuck" not in state.questions else [])
        if state.trouble is not None and state.trouble.attempts == 15 and not state.parked:
            control.say(run, ParkAsked(now=True), crew.env)

    drive(crew, run, slow)
    assert not [line for line in seen if "Starting over ends the same way" in line]
    crew.call("resume", "--no-wait", run)
    asleep = crew.call("resume", "--no-wait", run)

    assert asleep.code == 3, asleep
    assert [e.to_level for e in crew.facts(RecoveryEscalated)] == [2, 3, 4]
    first, second = told.read_text().splitlines()
    assert first == f"{run}: stuck: 10 attempts did not help: I will not"
    assert second.startswith(f"{run}: Starting over ends the same way again and again")
    assert f"nightcrew answer {run[-4:]} go" in crew.call("show", run).out


def test_a_very_long_sleep_is_told_once(crew: Crew) -> None:
    """A wait for quota beyond `recovery.max_sleep` sends one notification, also when the run is driven anew, and goes on."""
    told = crew.home / "told"
    crew.solo()
    crew.settle(
        *crew.agents("alpha"),
        roles={"developer": ["alpha"]},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": [GATE]},
        notify={"command": ["sh", "-c", f"echo {{summary}} >> {told}"]},
    )
    spent = {"node": "implement", "turn": 1, "do": [{"notice": "quota", "reason": "spent", "reset_in": 8 * 3600}]}
    crew.play(spent)

    asleep = crew.call("run", "--no-wait", "write the note")
    again = crew.call("resume", "--no-wait", crew.run)
    end = drive(crew, crew.run)

    assert (asleep.code, again.code) == (3, 3)
    assert end.phase is PipelinePhase.Complete
    assert [line for line in told.read_text().splitlines() if "waiting for alpha" in line and "hours" in line] != []
    assert len([line for line in told.read_text().splitlines() if "hours" in line]) == 1


def test_a_clock_that_was_ahead(crew: Crew) -> None:
    """A clock that is a day ahead for a while and then set right: a reset in an hour is slept for an hour, and asked for once, not again and again."""
    spent: Turn = {"node": "implement", "turn": 1, "do": [{"notice": "quota", "reason": "spent", "reset_in": 3600}]}
    crew.solo(spent)
    ahead = [86400.0]

    def seen(_state: RunState, entry: Entry) -> None:
        if isinstance(entry.event, EffectBegun) and "/StartTurn/" in entry.event.key:
            ahead[0] = 0.0
        assert entry.seq < 200

    end = drive(crew, begin(crew), seen, lambda at: at + ahead[0])

    assert end.phase is PipelinePhase.Complete
    assert crew.seats() == ["alpha@implement", "alpha@implement", "alpha@commit"]
    first, second = [e.at for e in crew.entries() if isinstance(e.event, EffectBegun) and "/StartTurn/implement" in e.event.key]
    assert second - (first - 86400) > 3500

"""Quota: the next agent of the chain takes the seat; when all cool down the run sleeps without a process; the ledger is the machine's."""

from nightcrew.core.effects import StartTurn, Timer
from nightcrew.core.events import AgentCooling, EffectStarted, HandedOver
from nightcrew.core.work import FailClass
from support.crew import LOCAL, Crew, Turn

GATE = "grep -q four note.txt"
SPENT: Turn = {"agent": "alpha", "do": [{"notice": "quota", "reason": "weekly limit reached", "reset_in": 3600}]}


def chained(crew: Crew, *turns: Turn) -> None:
    """alpha, then beta as developers."""
    crew.settle(
        *crew.agents("alpha", "beta"),
        roles={"developer": ["alpha", "beta"]},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": [GATE]},
    )
    crew.git("switch", "-qc", "mine")
    crew.play(*turns)


def waits(event: object) -> bool:
    """Whether the run went to sleep for agents."""
    return isinstance(event, EffectStarted) and isinstance(event.effect, Timer) and bool(event.effect.agents)


def test_the_second_agent_takes_over(crew: Crew) -> None:
    """T023: alpha's quota is spent: beta does the work; the handover says quota and why; nobody is asked twice."""
    chained(crew, SPENT)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats()[:2] == ["alpha@implement", "beta@implement"]
    first = crew.facts(HandedOver)[0].handover
    assert (first.from_agent, first.to_agent, first.fail, first.seat) == ("alpha", "beta", FailClass.Quota, "impl-A")
    assert "weekly limit" in first.reason
    candidate = crew.state().winning
    assert candidate is not None
    assert candidate.agent == "beta"
    assert crew.seats().count("alpha@implement") == 1


def test_a_spent_agent_is_not_asked_by_the_next_run(crew: Crew) -> None:
    """F22: the ledger is shared: a second run knows that alpha cools down and starts no process for it."""
    chained(crew, SPENT)
    assert crew.call("run", "write the note").code == 0
    before = len(crew.starts())
    crew.play({"node": "implement", "do": [{"append": "note.txt", "text": "five\n"}]})

    done = crew.call("run", "write it again")

    assert done.code == 0, done
    assert crew.seats()[before] == "beta@implement"
    assert not [seat for seat in crew.seats()[before:] if seat.startswith("alpha")]
    assert {e.agent for e in crew.facts(AgentCooling)} == {"alpha"}


def test_everybody_cools_down(crew: Crew) -> None:
    """Rulings 23b: all on quota with known resets, asked again by a second run: it sleeps for them without a process."""
    both = {"do": [{"notice": "quota", "reason": "spent", "reset_in": 3600}]}
    chained(crew, both)
    first = crew.start("run", "write the note")
    entry = crew.until(waits, first)
    crew.kill(first)
    before = len(crew.starts())

    done = crew.call("run", "--no-wait", "write it again")

    assert done.code == 3, done
    assert "waiting" in done.out
    assert len(crew.starts()) == before
    sleeps = [e for e in crew.facts(EffectStarted) if waits(e)]
    assert sleeps[-1].effect.agents == ("alpha", "beta")
    assert 0 < sleeps[-1].effect.span_s <= 3600
    assert isinstance(entry.event, EffectStarted)


def test_a_sleep_ends_when_the_reset_comes(crew: Crew) -> None:
    """A reset in a moment: the run sleeps, wakes by itself, asks the same agent again and lands."""
    short = {"agent": "alpha", "turn": 1, "do": [{"notice": "quota", "reason": "spent", "reset_in": 2}]}
    crew.solo(short)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@implement", "alpha@commit"]
    assert crew.facts(HandedOver) == []
    assert [e for e in crew.facts(EffectStarted) if isinstance(e.effect, Timer)]


def test_a_handover_survives_death(crew: Crew) -> None:
    """T027: alpha fails plainly twice, beta takes over; nightcrew dies there; the record is read again, alpha is not asked."""
    fails = {"agent": "alpha", "node": "implement", "do": [{"stderr": "boom\n"}, {"exit": 1}]}
    holds = {"agent": "beta", "node": "implement", "do": [{"wait_for": "{state}/go"}, {"append": "note.txt", "text": "four\n"}]}
    chained(crew, fails, holds)
    process = crew.start("run", "write the note")
    crew.until(lambda e: isinstance(e, EffectStarted) and isinstance(e.effect, StartTurn) and e.effect.agent == "beta", process)
    crew.kill(process)
    (crew.played / "go").touch()

    done = crew.call("resume", crew.run)

    assert done.code == 0, done
    assert [s for s in crew.seats() if s.endswith("implement")] == ["alpha@implement", "alpha@implement", "beta@implement"]
    handed = [e.handover for e in crew.facts(HandedOver) if e.handover.seat == "impl-A"]
    assert [(h.from_agent, h.to_agent, h.fail) for h in handed] == [("alpha", "beta", FailClass.Other)]


def test_a_command_says_that_its_quota_is_spent(crew: Crew) -> None:
    """Any program may say so by its last line: the next one takes the seat, and a second run does not start the first."""
    said = "You've hit your weekly limit · resets Dec 31, 11pm (UTC)"
    spent = {"id": "shell", "kind": "command", "command": ["sh", "-c", f'echo "{said}"; exit 1']}
    crew.settle(
        spent,
        *crew.agents("beta"),
        roles={"developer": ["shell", "beta"]},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": [GATE]},
    )
    crew.git("switch", "-qc", "mine")
    crew.play()
    assert crew.call("run", "write the note").code == 0
    first = crew.facts(HandedOver)[0].handover
    assert (first.from_agent, first.to_agent, first.fail) == ("shell", "beta", FailClass.Quota)
    crew.play({"node": "implement", "do": [{"append": "note.txt", "text": "five\n"}]})
    assert crew.call("run", "write it again").code == 0
    cooling = crew.facts(AgentCooling)
    assert {e.agent for e in cooling} == {"shell"}
    assert all(e.until and e.until % 3600 == 0 for e in cooling), "the moment that it told"

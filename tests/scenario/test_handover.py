"""An agent that fails plainly: who takes the seat over, when the chain stops, what a dropped or unfinished turn means."""

from nightcrew.core.events import DevFixTriggered, HandedOver, TurnEnded
from nightcrew.core.work import Class, FailClass
from support.crew import LOCAL, Crew, Turn

STAYS: Turn = {"node": "dev-fix", "do": [{"hang": "plain"}]}


def fails(agent: str, why: str) -> Turn:
    """An agent whose turns end with status 1 and this line."""
    return {"agent": agent, "node": "implement", "do": [{"stderr": f"{why}\n"}, {"exit": 1}]}


def chained(crew: Crew, *turns: Turn, **tables: object) -> None:
    """alpha, beta, gamma as developers."""
    settings = {"pipeline": {"plan": False, "reviewers": 0}, "land": LOCAL, "verify": {"gate": ["grep -q four note.txt"]}}
    names = ("alpha", "beta", "gamma")
    crew.settle(*crew.agents(*names), roles={"developer": list(names)}, **{**settings, **tables})
    crew.git("switch", "-qc", "mine")
    crew.play(*turns)


def implementers(crew: Crew) -> list[str]:
    """Who was started to implement."""
    return [start["agent"] for start in crew.starts() if start["node"] == "implement"]


def handed(crew: Crew) -> list[tuple[str, str, str]]:
    """The handovers of the implementer's seat."""
    records = [e.handover for e in crew.facts(HandedOver)]
    return [(h.from_agent, h.to_agent, str(h.fail)) for h in records if h.seat == "impl-A"]


def until_trouble(crew: Crew) -> None:
    """Run into a terminal failure, and cancel there."""
    process = crew.start("run", "write the note")
    crew.until(lambda e: isinstance(e, DevFixTriggered), process)
    crew.call("cancel", crew.run)
    assert crew.end(process).code == 1


def test_an_agent_that_hangs(crew: Crew) -> None:
    """T028: a turn over its time is stopped, though deaf to TERM; the handover says timeout; the next one delivers."""
    chained(crew, {"agent": "alpha", "node": "implement", "do": [{"hang": "deaf"}]}, limits={"turn": "1s"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert implementers(crew) == ["alpha", "beta"]
    assert handed(crew) == [("alpha", "beta", FailClass.Timeout)]
    assert crew.facts(TurnEnded)[0].outcome.kind is Class.Timeout


def test_two_that_fail_alike(crew: Crew) -> None:
    """T029: neighbours that fail in the same words stop the chain: gamma is never asked."""
    chained(crew, fails("alpha", "cannot parse line 12"), fails("beta", "cannot parse line 99"), STAYS)

    until_trouble(crew)

    assert set(implementers(crew)) == {"alpha", "beta"}
    assert handed(crew) == [("alpha", "beta", FailClass.Other)]


def test_three_that_fail_differently(crew: Crew) -> None:
    """T030: each is asked in its turn; the whole chain failing is one terminal failure."""
    chained(crew, fails("alpha", "no"), fails("beta", "never"), fails("gamma", "nowhere"), STAYS)

    until_trouble(crew)

    assert list(dict.fromkeys(implementers(crew))) == ["alpha", "beta", "gamma"]
    assert [h[:2] for h in handed(crew)] == [("alpha", "beta"), ("beta", "gamma")]


def test_an_agent_that_leaves_work_and_fails(crew: Crew) -> None:
    """A failed agent that left a change stays in the running: its work is collected, gated and landed."""
    crew.solo({"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"exit": 9}]})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert "four" in crew.shown("main", "note.txt")


def test_more_turns_on_request(crew: Crew) -> None:
    """`continue` is one more turn in the same conversation, three times at most."""
    more = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"say": '{"word": "continue"}'}]}
    crew.solo(more)

    assert crew.call("run", "write the note").code == 0

    turns = [start for start in crew.starts() if start["node"] == "implement"]
    assert [bool(start["resume"]) for start in turns] == [False, True, True, True]
    assert len({start["resume"] or start["session"] for start in turns}) == 1


def test_a_conversation_that_is_gone(crew: Crew) -> None:
    """A session that the program does not find is begun anew under a fresh id, with the whole prompt."""
    first = {"node": "implement", "turn": 1, "do": [{"append": "note.txt", "text": "four\n"}, {"say": '{"word": "continue"}'}]}
    gone = {"node": "implement", "turn": 2, "do": [{"notice": "session_not_found"}]}
    fresh = {"node": "implement", "turn": 3, "resumed": False, "do": [{"must_read": "write the note"}]}
    crew.solo(first, gone, fresh)

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    turns = [start for start in crew.starts() if start["node"] == "implement"]
    assert turns[0]["session"] != turns[2]["session"]
    assert len(turns) == 3

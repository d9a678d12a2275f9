"""A turn that outlives nightcrew more than once: what it printed meanwhile is there once, and its limits count from its real start."""

from functools import partial
from pathlib import Path

from nightcrew.core.events import TurnEnded
from nightcrew.core.work import Class
from nightcrew.proc import job
from support.crew import Crew, Turn, until

WORDS = ("first", "second", "third", "last")


def speaks() -> Turn:
    """Says a word whenever it may; the last one is its answer."""
    steps = [step for n, word in enumerate(WORDS) for step in ({"wait_for": f"{{state}}/go{n}"}, {"say": f"{word} word\n"})]
    return {"node": "implement", "do": [*steps, {"append": "note.txt", "text": "four\n"}]}


def said(turn: Path, word: str) -> bool:
    """Whether the agent has said this word."""
    return word in (turn / "stdout").read_text()


def test_three_deaths_of_one_turn(crew: Crew) -> None:
    """T104: three nightcrews die by kill -9 while one agent talks on: one process, one bill, every word once, the answer whole."""
    crew.solo(speaks())
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    before = crew.supervisor("implement")
    (turn,) = crew.state_home.glob("runs/*/effects/StartTurn-implement-*")
    for n in range(3):
        crew.kill(process)
        (crew.played / f"go{n}").touch()
        until(partial(said, turn, WORDS[n]))
        process = crew.start("resume", crew.run)
        assert crew.run_of(process) == crew.run
        assert crew.supervisor("implement") == before
    (crew.played / "go3").touch()

    done = crew.end(process)

    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert [(turn / "stdout").read_text().count(f"{word} word") for word in WORDS[:-1]] == [1, 1, 1]
    outcome = crew.facts(TurnEnded)[0].outcome
    assert outcome.answer.tail == "last word\n"
    assert outcome.kind is Class.Ok


def test_a_limit_counts_from_the_real_start(crew: Crew) -> None:
    """Rulings 9: adopted twice, then left alone: the limit of the turn comes when it is due since its start, with no nightcrew there."""
    crew.solo(
        {"node": "implement", "turn": 1, "do": [{"append": "note.txt", "text": "four\n"}, {"hang": "plain"}]},
        limits={"turn": "4s"},
    )
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    (turn,) = crew.state_home.glob("runs/*/effects/StartTurn-implement-*")
    for _ in range(2):
        crew.kill(process)
        process = crew.start("resume", crew.run)
        assert crew.run_of(process) == crew.run
    crew.kill(process)
    until(lambda: isinstance(job.look(turn), job.Exit))
    end = job.look(turn)

    done = crew.call("resume", crew.run)

    assert done.code == 0, done
    outcome = crew.facts(TurnEnded)[0].outcome
    assert isinstance(end, job.Exit)
    assert (outcome.stopped_by, outcome.took_s) == ("total", round(end.ended_at - end.began_at, 3))
    assert outcome.took_s >= 4
    assert crew.shown("main", "note.txt").count("four") >= 1

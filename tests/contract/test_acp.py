"""Real agents behind the client of the Agent Client Protocol: turns of their own, and whole runs."""

import json
from collections.abc import Callable

import pytest

from contract.reals import SPEAKERS, Bench, Crew
from contract.test_runs import SMALL, cancelled, night, turns, waits
from nightcrew.core.events import TurnEnded
from nightcrew.core.ids import AgentId, SeatKey, session_id
from nightcrew.core.work import Class
from support.models import speech
from support.models.scenario import Answer, Say, steps

NAMES = sorted(SPEAKERS)


@pytest.fixture
def speaker(crew: Callable[..., Crew]) -> Callable[..., Crew]:
    """Makes a crew of one program that is spoken to; opencode asks for permission only if it is set to."""

    def make(name: str, *answers: Answer) -> Crew:
        real = crew(name, *answers, scenario=None if answers else speech.editor("hello.txt"))
        env = dict(real.env)
        if name == "opencode":
            asks = {"permission": {"edit": "ask", "bash": "ask"}}
            env["OPENCODE_CONFIG_CONTENT"] = json.dumps({**json.loads(env["OPENCODE_CONFIG_CONTENT"]), **asks})
        return real._replace(kind="acp", env=env)

    return make


@pytest.mark.parametrize("name", NAMES)
def test_it_works_and_looks(speaker: Callable[..., Crew], name: str) -> None:
    """What it asks permission for is allowed in a seat that works; in one that looks nothing is written."""
    real = speaker(name)
    file = real.folder / "slot/hello.txt"
    done = real.play("Create hello.txt.", command=SPEAKERS[name])
    assert (done.kind, done.answer, done.tokens and done.tokens > 0) == (Class.Ok, "Wrote hello.txt.", True), done
    assert file.read_text() == "hello\n"
    file.unlink()
    looked = real.play("Create hello.txt.", command=SPEAKERS[name], read_only=True)
    assert looked.kind is Class.Ok, looked
    assert not file.exists()


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gemini"])
def test_it_remembers(speaker: Callable[..., Crew], name: str) -> None:
    """A conversation is loaded by the next turn's process. Gemini CLI is left out: it loses one that is loaded in the minute in which it began."""
    real = speaker(name)
    first = real.play("FIRSTMARK: create hello.txt.", command=SPEAKERS[name])
    real.server.scenario = steps(Say("pong"))
    second = real.play("SECONDMARK: go on.", command=SPEAKERS[name], resume=first.session)
    assert (second.kind, second.answer, second.session) == (Class.Ok, "pong", first.session), second
    told = next(request.text for request in real.server.requests if "SECONDMARK" in request.text)
    assert told.index("FIRSTMARK") < told.index("SECONDMARK")


@pytest.mark.parametrize("name", NAMES)
def test_a_conversation_that_never_was(speaker: Callable[..., Crew], name: str) -> None:
    """An unknown id is told apart from a crash."""
    unknown = session_id("contract", SeatKey("impl-A"), 0, AgentId(name))
    found = speaker(name, Say("pong")).play("go on", command=SPEAKERS[name], resume=unknown)
    assert (found.kind, found.answer) == (Class.SessionNotFound, None), found


def agent(name: str) -> dict[str, object]:
    """It in a roster."""
    return {"id": name, "kind": "acp", "command": list(SPEAKERS[name])}


@pytest.mark.parametrize("name", NAMES)
def test_it_works_is_reviewed_gated_and_landed(bench: Callable[..., Bench], name: str) -> None:
    """One `nightcrew run` with it in every seat ends landed, and leaves no process."""
    real = bench(night, name, agents=[agent(name)])
    done = real.call("run", "Add a note")
    assert done.code == 0, done
    assert turns(real) == ["plan", "implement", "review", "commit"]
    assert all(event.outcome.session and event.outcome.tokens for event in real.facts(TurnEnded))
    assert real.shown("main", "new.txt") == "written\n"
    assert real.left() == []


@pytest.mark.parametrize("name", NAMES)
def test_cancel_leaves_no_process(bench: Callable[..., Bench], name: str) -> None:
    """A turn that runs a long command is stopped in the middle: nothing of client, agent and command is left."""
    cancelled(bench(waits, name, agents=[agent(name)], **SMALL))

"""Each real program, driven by its adapter's own command line against a model service on loopback."""

import subprocess
from collections.abc import Callable

import pytest

from contract.conftest import Registry
from contract.reals import REALS, Crew
from nightcrew.agents import catalog
from nightcrew.core.work import Class
from support.models import speech
from support.models.scenario import Fault, Say, steps

KINDS = sorted(REALS)


@pytest.mark.parametrize("kind", KINDS)
def test_it_works_looks_and_remembers(crew: Callable[..., Crew], kind: str) -> None:
    """A turn with full rights changes the workspace; the next goes on with its memory and its own bill; looking only writes nothing."""
    real = crew(kind, scenario=speech.editor("hello.txt"))
    file = real.folder / "slot/hello.txt"
    first = real.play("FIRSTMARK: create hello.txt.", session=real.minted())
    assert (first.kind, first.answer) == (Class.Ok, "Wrote hello.txt."), first
    assert file.read_text() == "hello\n"
    assert first.tokens
    assert first.session == real.minted() if catalog.kinds()[kind].sessions == "chosen" else first.session

    real.server.scenario = steps(Say("pong"))
    second = real.play("SECONDMARK: go on.", resume=first.session, prior_usd=first.usd or 0.0, prior_tokens=first.tokens)
    assert (second.kind, second.answer, second.session) == (Class.Ok, "pong", first.session), second
    told = next(request.text for request in real.server.requests if "SECONDMARK" in request.text)
    assert told.index("FIRSTMARK") < told.index("Wrote hello.txt.") < told.index("SECONDMARK")
    assert second.tokens
    assert second.tokens < first.tokens * 1.5

    file.unlink()
    real.server.scenario = speech.editor("hello.txt")
    looked = real.play("Look.", session=real.minted(1), read_only=True)
    assert looked.kind is Class.Ok, looked
    assert not file.exists()


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_that_never_was(crew: Callable[..., Crew], kind: str) -> None:
    """An unknown id is told apart from a crash, and no answer of another conversation is taken for it."""
    real = crew(kind, Say("pong"))
    found = real.play("go on", resume=real.minted())
    assert (found.kind, found.answer) == (Class.SessionNotFound, None), found
    assert not found.session


@pytest.mark.parametrize("kind", [kind for kind in KINDS if catalog.kinds()[kind].sessions == "chosen"])
def test_a_conversation_that_is_taken(crew: Callable[..., Crew], kind: str) -> None:
    """An id is offered once."""
    real = crew(kind, Say("pong"))
    assert real.play("begin", session=real.minted()).kind is Class.Ok
    assert real.play("begin", session=real.minted()).kind is Class.SessionInUse


@pytest.mark.parametrize(
    ("kind", "fault", "told"),
    [
        ("claude", "auth", Class.Auth),
        ("claude", "credit", Class.Billing),
        ("claude", "no_model", Class.ModelUnavailable),
        ("claude", "overloaded", Class.Overloaded),
        ("claude", "rate_limit", Class.RateLimit),
        ("claude", "server_error", Class.ServerError),
        ("codex", "auth", Class.Auth),
        ("codex", "no_model", Class.ModelUnavailable),
        ("codex", "overloaded", Class.Overloaded),
        ("codex", "quota", Class.Quota),
        ("gemini", "auth", Class.Auth),
        ("gemini", "quota", Class.Quota),
        ("opencode", "auth", Class.Auth),
        ("qwen", "auth", Class.Auth),
    ],
)
def test_faults_of_the_service(crew: Callable[..., Crew], kind: str, fault: str, told: Class) -> None:
    """What the service refuses is classified, after few tries of the program's own."""
    real = crew(kind, Fault(fault))
    judged = real.play("begin", session=real.minted())
    assert judged.kind is told, judged
    assert len(real.server.requests) <= REALS[kind].tries


@pytest.mark.parametrize("kind", KINDS)
def test_it_tells_its_version(registry: Registry, kind: str) -> None:
    """The version that was installed is the version it tells."""
    env = {"PATH": f"{registry.node()}:/usr/bin:/bin", "HOME": "/nonexistent"}
    told = subprocess.run((registry.program(kind), "--version"), env=env, capture_output=True, text=True, check=True)
    assert REALS[kind].version in told.stdout.split()

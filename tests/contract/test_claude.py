"""The real Claude Code, driven by the adapter's own command line against a model service on loopback."""

import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nightcrew.agents import claude
from nightcrew.agents.base import Judged, Turn
from nightcrew.core.ids import AgentId, SeatKey, session_id
from nightcrew.core.work import Class
from support.models.scenario import Answer, Call, Fault, Request, Say, steps
from support.models.server import ModelServer
from unit.agents.ends import End, returned

SESSION = session_id("contract", SeatKey("impl-A"), 0, AgentId("claude"))
OTHER = session_id("contract", SeatKey("impl-A"), 1, AgentId("claude"))


class Crew(NamedTuple):
    """A program, an account and a workspace."""

    program: Path
    server: ModelServer
    env: dict[str, str]
    folder: Path

    def turn(self, prompt: str, **told: Any) -> Turn:
        """A turn in the workspace."""
        file = self.folder / "prompt"
        file.write_text(prompt)
        cwd = self.folder / "slot"
        return Turn(program=str(self.program), prompt_file=file, cwd=cwd, model="claude-sonnet-4-5", **told)

    def start(self, turn: Turn) -> subprocess.Popen[bytes]:
        """Start a turn."""
        launch = claude.command(turn)
        with turn.prompt_file.open("rb") as prompt:
            return subprocess.Popen(
                launch.argv,
                cwd=turn.cwd,
                env={**self.env, **launch.env},
                stdin=prompt,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )

    def play(self, prompt: str, **told: Any) -> Judged:
        """Play one turn to its end."""
        turn = self.turn(prompt, **told)
        with self.start(turn) as process:
            out, err = process.communicate()
        return claude.judge(turn, ended(process), out, err, time.time(), "UTC")


def ended(process: subprocess.Popen[bytes]) -> End:
    """How a process ended."""
    return returned(process.returncode)


@pytest.fixture
def crew(
    claude_program: Path,
    model_server: Callable[..., ModelServer],
    claude_env: Callable[[ModelServer], dict[str, str]],
    tmp_path: Path,
) -> Callable[..., Crew]:
    """Makes a crew whose model gives these answers."""
    slot = tmp_path / "slot"
    slot.mkdir()
    subprocess.run(["git", "init", "--quiet", str(slot)], check=True)

    def make(*answers: Answer) -> Crew:
        server = model_server(steps(*answers))
        return Crew(claude_program, server, claude_env(server), tmp_path)

    return make


def writes(name: str) -> Callable[[Request], Answer]:
    """A model that writes a file by its tool and then says so."""

    def scenario(request: Request) -> Answer:
        if request.after_tool:
            return Say(f"Wrote {name}.")
        return Say("I write it.", (Call("Write", {"file_path": f"{request.cwd}/{name}", "content": "hello\n"}),))

    return scenario


def test_it_edits_by_a_real_tool_call_and_is_judged_good(crew: Callable[..., Crew]) -> None:
    """A turn with full rights changes the workspace; answer, conversation, tokens and money are read from the closing event."""
    real = crew(Say())
    real.server.scenario = writes("hello.txt")
    judged = real.play("Create hello.txt.", session=SESSION)
    assert judged.kind is Class.Ok, judged
    assert (real.folder / "slot/hello.txt").read_text() == "hello\n"
    assert (judged.answer, judged.session) == ("Wrote hello.txt.", SESSION)
    assert judged.tokens == 2 * (1200 + 100 + 34)
    assert judged.usd is not None
    assert judged.usd > 0


def test_looking_only_writes_nothing(crew: Callable[..., Crew]) -> None:
    """A read-only seat gets an answer, and its attempt to write is refused."""
    real = crew(Say())
    real.server.scenario = writes("hello.txt")
    assert real.play("Review.", session=SESSION, read_only=True).kind is Class.Ok
    assert real.server.requests[-1].after_tool
    assert not (real.folder / "slot/hello.txt").exists()


def test_a_conversation_goes_on_with_its_memory_and_its_own_bill(crew: Callable[..., Crew]) -> None:
    """The model sees the earlier turn; the id stays; the second turn is billed without the first."""
    real = crew(Say("pong one"), Say("pong two"))
    first = real.play("FIRSTMARK", session=SESSION)
    second = real.play("SECONDMARK", resume=SESSION, prior_usd=first.usd or 0.0)
    assert (first.kind, second.kind) == (Class.Ok, Class.Ok)
    told = real.server.requests[-1].text
    assert told.index("FIRSTMARK") < told.index("pong one") < told.index("SECONDMARK")
    assert second.session == SESSION
    assert second.usd == pytest.approx(first.usd)


def test_a_conversation_that_is_gone_or_taken(crew: Callable[..., Crew]) -> None:
    """An unknown id and one that is in use are told apart from a crash, and nothing is asked of the model."""
    real = crew(Say("pong"))
    assert real.play("go on", resume=OTHER).kind is Class.SessionNotFound
    assert real.server.requests == []
    assert real.play("begin", session=SESSION).kind is Class.Ok
    assert real.play("begin", session=SESSION).kind is Class.SessionInUse


def test_a_spent_plan_tells_its_reset(crew: Callable[..., Crew]) -> None:
    """A subscription's refused limit is a quota with the window and the moment it comes back; the turn can be continued."""
    real = crew(Fault("quota", reset_in_s=7200))
    del real.env["ANTHROPIC_API_KEY"]
    real.env["CLAUDE_CODE_OAUTH_TOKEN"] = "sk-ant-oat01-dummy"
    before = time.time()
    judged = real.play("begin", session=SESSION)
    assert (judged.kind, judged.window) == (Class.Quota, "five_hour"), judged
    assert judged.reset_at is not None
    assert before + 7190 <= judged.reset_at <= time.time() + 7200
    real.server.scenario = steps(Say("pong"))
    assert real.play("again", resume=SESSION).kind is Class.Ok


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        ("auth", Class.Auth),
        ("credit", Class.Billing),
        ("no_model", Class.ModelUnavailable),
        ("overloaded", Class.Overloaded),
        ("rate_limit", Class.RateLimit),
        ("server_error", Class.ServerError),
    ],
)
def test_faults_of_the_service(crew: Callable[..., Crew], fault: str, kind: Class) -> None:
    """What the service refuses is classified by the program's own fields, after few tries of its own."""
    real = crew(Fault(fault))
    judged = real.play("begin", session=SESSION)
    assert judged.kind is kind, judged
    assert len(real.server.requests) <= 4


def test_a_stop_in_the_middle_is_no_answer(crew: Callable[..., Crew]) -> None:
    """The first stop signal ends a turn that waits for its model; it is then no answer, and the turn can be continued."""
    real = crew(Fault("stall"))
    turn = real.turn("begin", session=SESSION)
    with real.start(turn) as process:
        while not real.server.requests:
            time.sleep(0.02)
        process.terminate()
        out, err = process.communicate()
    assert claude.judge(turn, ended(process), out, err, time.time(), "").kind is Class.Crashed
    real.server.scenario = steps(Say("pong"))
    assert real.play("again", resume=SESSION).kind is Class.Ok


def test_it_tells_its_version(claude_program: Path, tmp_path: Path) -> None:
    """The version that was installed is the version it tells."""
    env = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    told = subprocess.run((claude_program, "--version"), env=env, capture_output=True, text=True, check=True)
    assert told.stdout.split()[0] == "2.1.332"

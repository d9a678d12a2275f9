"""The client of the Agent Client Protocol against agents that play back what the real ones said."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nightcrew.agents import acp
from nightcrew.agents.base import Judged, Turn
from nightcrew.core.work import Class
from unit.agents.ends import returned
from unit.agents.recordings import FOLDER, NOW

AGENT = """
import json, sys
lines = [line for line in open(sys.argv[1], encoding="utf-8")]
said = open(sys.argv[2], "w")

def heard():
    line = sys.stdin.readline()
    if not line:
        sys.exit(0)
    said.write(line)
    said.flush()
    return json.loads(line)

questions, answers = [], []

def next_of(kind):
    while not kind:
        message = heard()
        (questions if "method" in message else answers).append(message)
    return kind.pop(0)

for line in lines:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    if "method" not in message and "id" in message:  # an answer waits for its question
        message["id"] = next_of(questions)["id"]
        line = json.dumps(message) + "\\n"
    sys.stdout.write(line)
    sys.stdout.flush()
    if message.get("method") == "session/request_permission":
        next_of(answers)
sys.stdin.read()
"""
"""Says what it is told to, line by line; an answer only when there is a question, and it waits for an answer to its own."""


def play(folder: Path, recording: str, rights: str, session: str = "") -> tuple[Judged, list[dict[str, object]]]:
    """One turn of the player with such an agent: what it comes to, and what the agent heard."""
    agent, heard = folder / "agent.py", folder / "heard"
    agent.write_text(AGENT)
    argv = (sys.executable, str(agent), str(FOLDER / f"{recording}.stdout"), str(heard))
    turn = Turn(program=argv[0], command=argv, prompt_file=Path("p"), cwd=folder, read_only=rights == "look", resume=session)
    launch = acp.command(turn)
    with subprocess.Popen(
        launch.argv, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        out, err = process.communicate(b"Create hello.txt please.")
    judged = acp.judge(turn, returned(process.returncode), out, err, NOW, "UTC")
    return judged, [json.loads(line) for line in heard.read_text().splitlines()]


def chosen(heard: list[dict[str, object]]) -> str:
    """The option that was taken when the agent asked for permission."""
    told = json.dumps([message for message in heard if "method" not in message])
    return str(json.loads(told)[0]["result"]["outcome"].get("optionId", "cancelled"))


@pytest.mark.parametrize(
    ("agent", "option"),
    [("claude-acp/acp_edit", "allow_always"), ("gemini-acp/acp_edit", "proceed_always"), ("codex-acp/acp_edit_fs", "approved")],
)
def test_work_is_permitted(tmp_path: Path, agent: str, option: str) -> None:
    """In a seat that works every request is allowed, as widely as it is offered; the prompt reached the agent whole."""
    judged, heard = play(tmp_path, agent, "work")
    assert (judged.kind, judged.answer) == (Class.Ok, "Done: wrote hello.txt"), judged
    assert chosen(heard) == option
    assert [message["method"] for message in heard if "method" in message] == ["initialize", "session/new", "session/prompt"]
    assert "Create hello.txt please." in json.dumps(heard[-2:])


@pytest.mark.parametrize(("agent", "option"), [("claude-acp/acp_edit", "reject"), ("gemini-acp/acp_edit", "cancel")])
def test_who_looks_only_is_refused_to_write(tmp_path: Path, agent: str, option: str) -> None:
    """A request to edit is refused in the mildest way on offer."""
    judged, heard = play(tmp_path, agent, "look")
    assert chosen(heard) == option
    assert judged.kind is Class.Ok


def test_a_conversation_is_loaded(tmp_path: Path) -> None:
    """The id is the roster's; what is replayed is no answer."""
    session = "a4a987fe-9c76-46da-be3d-03fe9109f7dc"
    judged, heard = play(tmp_path, "claude-acp/acp_load", "work", session)
    assert (judged.kind, judged.answer, judged.session) == (Class.Ok, "pong", session), judged
    assert "session/load" in json.dumps(heard)


@pytest.mark.parametrize(
    ("recording", "kind", "session"),
    [
        ("claude-acp/acp_quota", Class.Quota, ""),
        ("codex-acp/acp_overloaded", Class.Overloaded, ""),
        ("claude-acp/acp_load_unknown", Class.SessionNotFound, "34104c14-8726-4ba3-9cf5-e295a40197ae"),
    ],
)
def test_what_goes_wrong_is_told(tmp_path: Path, recording: str, kind: Class, session: str) -> None:
    """An error in the place of an answer ends the turn with its class."""
    judged, _ = play(tmp_path, recording, "work", session)
    assert judged.kind is kind, judged


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    """A program that cannot be started is no answer."""
    turn = Turn(program="/nope/agent", command=("/nope/agent",), prompt_file=Path("p"), cwd=tmp_path)
    ended = subprocess.run(acp.command(turn).argv, cwd=tmp_path, input=b"x", capture_output=True, check=False)
    assert ended.returncode == 1
    assert acp.judge(turn, returned(1), ended.stdout, ended.stderr, NOW, "UTC").kind is not Class.Ok

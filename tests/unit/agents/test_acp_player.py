"""The client of the Agent Client Protocol against agents that play back what the real ones said."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

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
    message = json.loads(line)
    if message.get("method") != "session/set_mode":
        return message
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": {}}), flush=True)
    return heard()

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


def play(folder: Path, recording: str, rights: str, session: str = "") -> tuple[Judged, list[dict[str, Any]]]:
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


def chosen(heard: list[dict[str, Any]]) -> str:
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
    """It is set to its mode for that, where it has one, and a request to edit is refused in the mildest way on offer."""
    judged, heard = play(tmp_path, agent, "look")
    modes = [message["params"] for message in heard if message.get("method") == "session/set_mode"]
    assert [mode["modeId"] for mode in modes] == ["plan"]
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


HOSTILE = """
import json, os, signal, sys, time

def out(message):
    sys.stdout.write((message if isinstance(message, str) else json.dumps({"jsonrpc": "2.0", **message})) + "\\n")
    sys.stdout.flush()

def answer(result):
    out({"id": json.loads(sys.stdin.readline())["id"], "result": result})

def says(text):
    update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}
    out({"method": "session/update", "params": {"sessionId": "s1", "update": update}})

how = sys.argv[1]
if how == "leaves": sys.exit(0)
answer({"protocolVersion": 1})
if how == "banner": out("Welcome!"); out('{"half":')
answer({"sessionId": "s1"})
if how == "dies": says("half"); sys.exit(0)
if how == "huge": says("x" * 20_000_000)
if how == "odd":
    out({"method": "session/update", "params": {"sessionId": "s1", "update": {"sessionUpdate": "of tomorrow"}}})
    out({"id": 70, "method": "terminal/create", "params": {}})
    out({"id": 71, "method": "session/request_permission", "params": None})
if how == "deaf": signal.signal(signal.SIGTERM, signal.SIG_IGN)
says("done")
answer({"stopReason": "end_turn"})
if how == "talks": says("one more thing"); out({"id": 99, "error": {"code": 429, "message": "quota exceeded"}})
if how == "deaf": time.sleep(1000)
sys.stdin.read()
"""
"""An agent that behaves badly in the way that it is told."""


@pytest.mark.parametrize(
    ("how", "kind", "answer"),
    [
        ("leaves", Class.Crashed, None),
        ("dies", Class.Crashed, None),
        ("banner", Class.Ok, "done"),
        ("odd", Class.Ok, "done"),
        ("talks", Class.Ok, "done"),
        ("deaf", Class.Ok, "done"),
        ("huge", Class.Ok, "x" * 20_000_000 + "done"),
    ],
)
def test_hostile_agents(tmp_path: Path, how: str, kind: Class, answer: str | None) -> None:
    """One that leaves, prints what is no message, asks what nobody can answer, goes on after its end or will not go is told in its class."""
    agent = tmp_path / "agent.py"
    agent.write_text(HOSTILE)
    turn = Turn(program=sys.executable, command=("x", str(agent), how), prompt_file=Path("p"), cwd=tmp_path)
    ended = subprocess.run(acp.command(turn).argv, cwd=tmp_path, input=b"x", capture_output=True, check=False)
    judged = acp.judge(turn, returned(ended.returncode), ended.stdout, ended.stderr, NOW, "UTC")
    assert (judged.kind, judged.answer) == (kind, answer), judged.reason


def test_an_agent_that_is_not_there(tmp_path: Path) -> None:
    """A program that cannot be started is no answer."""
    turn = Turn(program="/nope/agent", command=("/nope/agent",), prompt_file=Path("p"), cwd=tmp_path)
    ended = subprocess.run(acp.command(turn).argv, cwd=tmp_path, input=b"x", capture_output=True, check=False)
    assert ended.returncode == 1
    assert acp.judge(turn, returned(1), ended.stdout, ended.stderr, NOW, "UTC").kind is not Class.Ok

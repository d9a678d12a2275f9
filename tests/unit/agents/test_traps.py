"""What the real programs do that nobody would expect, each held against its adapter; and their command lines."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from nightcrew.agents import catalog
from nightcrew.agents.base import Judged, Launch, Turn
from nightcrew.core.work import Class
from unit.agents.ends import End, died
from unit.agents.recordings import NOW, recording

ENDED = End()
REAL = [kind for kind, told in catalog.kinds().items() if told.runs in {"program", "client"}]
FULL = {"claude": "bypassPermissions", "codex": "--dangerously-bypass-approvals-and-sandbox", "opencode": "--auto", "gemini": "yolo",
        "qwen": "yolo", "mini": "--yolo", "acp": "work"}  # fmt: skip
LOOK = {"claude": "plan", "codex": "read-only", "opencode": "plan", "gemini": "plan", "qwen": "plan", "acp": "look"}


def turn(**fields: Any) -> Turn:
    """A turn with these fields."""
    return Turn(program="/bin/it", prompt_file=Path("/turn/prompt"), cwd=Path("/slot"), command=("it", "--acp"), **fields)


def launch(kind: str, **fields: Any) -> Launch:
    """How a turn of that kind is started."""
    return catalog.adapter(kind).command(turn(**fields))


def judged(kind: str, *events: dict[str, Any], end: End = ENDED, err: bytes = b"", **fields: Any) -> Judged:
    """What a turn that printed these events is judged to be."""
    out = b"".join(json.dumps(event).encode() + b"\n" for event in events)
    return catalog.adapter(kind).judge(turn(**fields), end, out, err, NOW, "UTC")


@pytest.mark.parametrize("kind", REAL)
def test_rights_are_told_each_time(kind: str) -> None:
    """Full rights and looking only are two command lines, on a resumed turn too (T182, T183)."""
    for fields in ({}, {"resume": "s-1"}):
        assert FULL[kind] in launch(kind, **fields).argv
        looking = launch(kind, read_only=True, **fields)
        if kind in LOOK:
            assert LOOK[kind] in looking.argv
            assert FULL[kind] not in looking.argv


@pytest.mark.parametrize("kind", REAL)
def test_a_conversation_is_opened_or_continued(kind: str) -> None:
    """The id to continue is in the command line; one to open only where the program lets us choose."""
    sessions = catalog.kinds()[kind].sessions
    assert ("s-1" in launch(kind, session="s-0", resume="s-1").argv) is bool(sessions)
    assert ("s-0" in launch(kind, session="s-0").argv) is (sessions == "chosen")
    assert "s-0" not in launch(kind, session="s-0", resume="s-1").argv


@pytest.mark.parametrize("kind", REAL)
def test_the_model_is_named_and_the_prompt_is_no_argument(kind: str) -> None:
    """The model is the roster's; the prompt comes on standard input, whatever its length (T186)."""
    told = launch(kind, model="m-1", session="s-0")
    assert ("m-1" in told.argv) is (kind != "acp")
    assert "/turn/prompt" not in " ".join(told.argv)


@pytest.mark.parametrize("kind", [kind for kind in REAL if kind not in {"acp", "mini"}])
def test_an_account_has_its_own_home(kind: str) -> None:
    """Where the roster names the account's folder, login and transcripts are there and nowhere else."""
    names = {"claude": "CLAUDE_CONFIG_DIR", "codex": "CODEX_HOME", "gemini": "GEMINI_CLI_HOME", "qwen": "QWEN_HOME"}
    usual = launch(kind)
    assert all(path.startswith("~/") for path in (*usual.login_paths, *usual.session_paths))
    if kind in names:
        own = launch(kind, env={names[kind]: "/accounts/b"})
        assert all(path.startswith("/accounts/b") for path in (*own.login_paths, *own.session_paths))


def test_codex_begins_another_conversation_in_silence() -> None:
    """A malformed id is no error to it: the new conversation's id tells, and the answer is not taken."""
    events = ({"type": "thread.started", "thread_id": "t-2"}, {"type": "turn.completed", "usage": {"input_tokens": 1}})
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}}
    assert judged("codex", events[0], said, events[1]).kind is Class.Ok
    assert judged("codex", events[0], said, events[1], resume="t-2").kind is Class.Ok
    found = judged("codex", events[0], said, events[1], resume="t-1")
    assert (found.kind, found.answer, found.session) == (Class.SessionNotFound, None, "")


@pytest.mark.parametrize(("kind", "folder"), [("codex", "codex"), ("qwen", "qwen")])
def test_tokens_of_a_conversation_are_subtracted(kind: str, folder: str) -> None:
    """They add up over the conversation: what it had taken before is taken off."""
    one = recording(folder, "session_resume_same_dir")
    assert one.kind == kind
    whole = one.judged().tokens
    assert one.judged(prior_tokens=1234).tokens == (whole or 0) - 1234


def test_options_of_codex_stand_before_resume() -> None:
    """After it they are not understood; the prompt is the last word, and without an id nothing is resumed (T183)."""
    argv = launch("codex", resume="t-1", read_only=True, model="m").argv
    assert argv[-3:] == ("resume", "t-1", "-")
    first = launch("codex", model="m").argv
    assert "resume" not in first
    assert first[-1] == "-"


def test_codex_keeps_the_moment_of_its_reset(tmp_path: Path) -> None:
    """After a bad end the newest record of its windows is printed too: of those that are used up the one that ends last counts."""
    kept = {
        "timestamp": "t",
        "type": "event_msg",
        "payload": {"type": "token_count", "rate_limits": {"limit_id": "codex", "credits": None}},
    }
    windows = {"primary": (300, NOW + 100.0), "secondary": (10080, NOW + 5000.0), "third": (43200, NOW + 9000.0)}
    for name, (minutes, at) in windows.items():
        used = 40.0 if name == "third" else 100.0
        kept["payload"]["rate_limits"][name] = {"used_percent": used, "window_minutes": minutes, "resets_at": at}  # type: ignore[index]
    day = tmp_path / "sessions/2026/11/30"
    day.mkdir(parents=True)
    (day / "rollout-1.jsonl").write_text(f"{json.dumps({'type': 'x'})}\n{json.dumps(kept, separators=(',', ':'))}\n")
    program = tmp_path / "codex"
    program.write_text("""#!/bin/sh
cat > prompt
echo '{"type":"turn.failed","error":{"message":"You have hit your usage limit. Try again at 9:19 AM."}}'
exit ${WELL:-1}
""")
    program.chmod(0o755)
    argv = catalog.adapter("codex").command(structs.replace(turn(), program=str(program))).argv
    env = {"PATH": os.environ["PATH"], "CODEX_HOME": str(tmp_path)}
    ended = subprocess.run(argv, cwd=tmp_path, env=env, input=b"the prompt", capture_output=True, check=False)
    assert (ended.returncode, (tmp_path / "prompt").read_bytes()) == (1, b"the prompt")
    found = catalog.adapter("codex").judge(turn(), End(1), ended.stdout, b"", NOW, "UTC")
    assert (found.kind, found.reset_at, found.window) == (Class.Quota, NOW + 5000, "seven_day")
    later = catalog.adapter("codex").judge(turn(), End(1), ended.stdout, b"", NOW + 6000, "UTC")
    assert later.reset_at, "what is over is not believed: the sentence is"
    assert (later.reset_at > NOW + 6000, later.window) == (True, "")
    well = subprocess.run(argv, cwd=tmp_path, env={**env, "WELL": "0"}, input=b"", capture_output=True, check=False)
    assert (well.returncode, len(well.stdout.splitlines())) == (0, 1)


def test_a_log_before_the_stream_of_codex() -> None:
    """Lines that are no event are passed over, the last message is the answer, and a failed turn is a failure whatever was said (T184)."""
    said = [{"type": "item.completed", "item": {"type": "agent_message", "text": text}} for text in ("first", "last")]
    done = {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}}
    log = b"2026-01-01T00:00:00Z WARN codex_core: no colour\n"
    lines = [json.dumps(event).encode() + b"\n" for event in (*said, done)]
    found = catalog.adapter("codex").judge(turn(), ENDED, log + b"".join(lines), b"", NOW, "UTC")
    assert (found.kind, found.answer) == (Class.Ok, "last")
    failed = judged("codex", *said, {"type": "turn.failed", "error": {"message": "You've hit your usage limit."}}, end=End(1))
    assert failed.kind is Class.Quota


def test_what_was_said_before_our_limit_is_kept() -> None:
    """A turn that our limit ended is a timeout, and its last words are its answer (S180)."""
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "half of it stands"}}
    found = judged("codex", said, end=died(15, "total"))
    assert (found.kind, found.answer) == (Class.Timeout, "half of it stands")


def test_codex_that_waits_for_a_network_without_end() -> None:
    """It goes in circles once a minute and for ever; stopped for that it tells why."""
    line = "Reconnecting... waiting for network (Connection failed: error sending request)"
    assert line.startswith(launch("codex").loops[0])
    events = [{"type": "error", "message": line}] * 5
    found = judged("codex", *events, end=died(15, "loop"))
    assert found.reason == line
    assert judged("codex", *events, end=died(15, "total")).kind is Class.Timeout


def test_codex_warnings_are_no_errors() -> None:
    """A try that is made again and an item called error leave a good turn good."""
    again, item = {"type": "error", "message": "Reconnecting... 1/5"}, {"type": "item.completed", "item": {"type": "error"}}
    said = {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}}
    assert judged("codex", again, item, said, {"type": "turn.completed", "usage": {}}).answer == "Done."


def test_opencode_is_held_to_its_folder_and_its_shell_to_looking() -> None:
    """Elsewhere a conversation would never end; and its plan mode alone would let a shell write."""
    told = launch("opencode", resume="s-1", read_only=True)
    assert told.argv[told.argv.index("--dir") + 1] == "/slot"
    assert json.loads(told.env["OPENCODE_PERMISSION"]) == {"edit": "deny", "bash": "deny"}
    assert told.quiet_s > 120


def test_opencode_going_in_circles() -> None:
    """A stream that ends early is asked for again and again: its mark is in every such step, and is no good end."""
    step = {"type": "step_finish", "sessionID": "s", "part": {"reason": "unknown", "tokens": {}, "cost": 0}}
    told, often = launch("opencode").loops
    assert json.dumps(step, separators=(",", ":")).count(told) == 1
    assert judged("opencode", *[step] * often, end=died(15, "loop")).kind is not Class.Ok


def test_gemini_fails_with_status_0() -> None:
    """Its closing event decides, not its exit status."""
    begun = {"type": "init", "session_id": "s"}
    failed = {"type": "result", "status": "error", "error": {"type": "unknown", "message": "[API Error: overloaded]"}}
    assert judged("gemini", begun, failed).kind is Class.Overloaded


@pytest.mark.parametrize(
    ("code", "kind"), [(173, Class.RateLimit), (244, Class.ServerError), (247, Class.ServerError), (246, Class.ServerError)]
)
def test_gemini_exits_with_the_http_status_modulo_256(code: int, kind: Class) -> None:
    """Where the words say nothing the number does."""
    failed = {"type": "result", "status": "error", "error": {"type": "unknown", "message": "[API Error: ?]"}}
    assert judged("gemini", {"type": "init", "session_id": "s"}, failed, end=End(code)).kind is kind


def test_gemini_stores_nothing_of_a_turn_that_failed_at_once() -> None:
    """Such a conversation cannot be continued, so it is not told of; one that began to answer can."""
    begun, used = {"type": "init", "session_id": "s"}, {"type": "tool_use", "tool_name": "write_file"}
    failed = {"type": "result", "status": "error", "error": {"message": "[API Error: You have exhausted your daily quota]"}}
    assert judged("gemini", begun, failed).session == ""
    assert judged("gemini", begun, used, failed).session == "s"
    assert judged("gemini", begun, failed, resume="s").session == "s"


def test_gemini_says_the_answer_in_pieces() -> None:
    """The pieces after the last tool are the answer; what was said before is not."""
    said = [{"type": "message", "role": "assistant", "content": text, "delta": True} for text in ("I look. ", "All ", "is well.")]
    tool, done = {"type": "tool_result", "output": "x"}, {"type": "result", "status": "success", "stats": {"total_tokens": 5}}
    assert judged("gemini", said[0], tool, said[1], said[2], done).answer == "All is well."


def test_an_older_qwen_calls_everything_a_success() -> None:
    """Only the end of the text tells; an answer that speaks of such errors in the middle is an answer."""
    head = {"type": "result", "subtype": "success", "is_error": False, "usage": {}}
    assert judged("qwen", {**head, "result": "half a th[API Error: 429 rate limit]"}).kind is Class.RateLimit
    assert judged("qwen", {**head, "result": "I log [API Error: ..] now and go on."}).kind is Class.Ok


def test_mini_is_believed_by_what_it_wrote_down() -> None:
    """Its record after the screen's text tells answer, tokens and money; only a submission is a good end."""
    usage = {"extra": {"response": {"usage": {"total_tokens": 700}}}}
    info = {"model_stats": {"instance_cost": 0.02}, "exit_status": "Submitted", "submission": "Done.\n"}
    adapter = catalog.adapter("mini")

    def found(**changed: Any) -> Judged:
        record = json.dumps({"info": {**info, **changed}, "messages": [{}, usage, usage]}, indent=2)
        return adapter.judge(turn(), End(), f"on the screen\n{record}".encode(), b"", NOW, "UTC")

    good = found()
    assert (good.kind, good.answer, good.tokens, good.usd) == (Class.Ok, "Done.\n", 1400, 0.02)
    assert found(model_stats={"instance_cost": 0.0}).usd is None, "a model without a known price is not free"
    assert found(exit_status="LimitsExceeded").kind is not Class.Ok


def test_who_is_spoken_to_gets_what_its_own_adapter_tells() -> None:
    """A known program behind the protocol keeps quiet and apart as it does alone: variables, login, transcripts, looking only."""
    known = structs.replace(turn(read_only=True), command=("npx", "opencode", "acp"))
    spoken, own = catalog.adapter("acp").command(known), catalog.adapter("opencode").command(known)
    assert (spoken.env, spoken.login_paths, spoken.session_paths) == (own.env, own.login_paths, own.session_paths)
    assert "OPENCODE_PERMISSION" in spoken.env
    unknown = catalog.adapter("acp").command(structs.replace(known, command=("fictional", "--mini")))
    assert (unknown.env, unknown.login_paths, unknown.session_paths) == ({}, (), ())


@pytest.mark.parametrize(
    ("said", "kind"),
    [
        ("Internal error: OpenCode service failure", Class.SessionNotFound),
        ("Authentication required", Class.Auth),
        ("You've hit your usage limit.", Class.Quota),
    ],
)
def test_a_refusal_to_load_is_one_of_the_conversation(said: str, kind: Class) -> None:
    """Unless it names another reason; the same words in the place of an answer are the service's."""
    error = {"id": 1, "error": {"code": -32603, "message": said}}
    assert judged("acp", {"id": 0, "result": {}}, error, resume="s").kind is kind
    assert judged("acp", {"id": 0, "result": {}}, {**error, "id": 2}, resume="s").kind is not Class.SessionNotFound


def test_replayed_text_is_no_answer() -> None:
    """An agent of the protocol repeats the conversation when it is loaded, before or after it says that it is."""

    def says(text: str, sort: str = "agent_message_chunk") -> dict[str, Any]:
        return {
            "method": "session/update",
            "params": {"sessionId": "s", "update": {"sessionUpdate": sort, "content": {"text": text}}},
        }

    loaded, done = {"id": 1, "result": {"modes": {}}}, {"id": 2, "result": {"stopReason": "end_turn"}}
    new = [says("po"), says("ng"), done]
    assert judged("acp", says("old"), loaded, *new, resume="s").answer == "pong"
    assert judged("acp", loaded, says("old"), says("", "available_commands_update"), *new, resume="s").answer == "pong"


WRONG: list[dict[str, Any]] = [
    {
        "type": "result",
        "subtype": [],
        "is_error": "no",
        "result": {"a": 1},
        "usage": [1],
        "stats": "s",
        "error": "boom",
        "total_cost_usd": "1",
    },
    {"type": "thread.started", "thread_id": 7},
    {"type": "error", "error": {"data": []}},
    {"type": "step_finish", "part": {"tokens": {"cache": 3, "input": "x"}, "cost": "x"}},
    {"type": "event_msg", "payload": {"rate_limits": {"primary": {"used_percent": "100", "resets_at": "x"}}}},
    {"jsonrpc": "2.0", "method": "session/update", "params": {"update": {"_meta": {"usage": 3}}}},
    {"jsonrpc": "2.0", "id": 1, "error": {"code": "x", "message": {}}},
    {"jsonrpc": "2.0", "id": 2, "result": {"stopReason": "end_turn", "usage": [1], "_meta": 3}},
]
"""Known fields with values of other shapes than they ever had."""


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize(
    "out", [json.dumps(event).encode() for event in WRONG] + [b'{"type":' + b"[" * 100_000 + b"]" * 100_000 + b"}"]
)
def test_values_of_other_shapes_are_read(kind: str, out: bytes) -> None:
    """A stream of tomorrow, or one that nests without end, is no answer and no crash of ours."""
    for code in (0, 1):
        assert catalog.adapter(kind).judge(turn(), End(code), out + b"\n", b"", NOW, "").kind is not Class.Ok


@pytest.mark.parametrize(("figure", "tokens"), [(12.5, 12), (1e308, 0), (-5, 0), (2**60, 0), (7, 7)])
def test_figures_that_are_none_do_not_reach_a_fact(figure: float, tokens: int | None) -> None:
    """Tokens are a whole number that a journal can hold."""
    result = {"type": "result", "subtype": "success", "result": "Done.", "num_turns": 2, "usage": {"input_tokens": figure}}
    found = judged("claude", result)
    assert (found.kind, found.tokens) == (Class.Ok, tokens)


@pytest.mark.parametrize(("said", "session"), [("s-1", "s-1"), ("--yolo", ""), ("a\0b", ""), ("x" * 5000, "")])
def test_an_id_can_stand_in_a_command_line(said: str, session: str) -> None:
    """An id that is an option, or that no command line can hold, is none: the next turn begins a conversation of its own."""
    events = {"type": "thread.started", "thread_id": said}, {"type": "turn.completed", "usage": {}}
    assert judged("codex", events[0], events[1]).session == session


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize(
    "out", [b"", b"\x00\xff{\n", b'{"type":"result","is_err', b'{"type":[]}\n[1]\n"x"\nnull\n{"error":1,"result":2}\n']
)
def test_garbage_is_no_answer_and_no_crash(kind: str, out: bytes) -> None:
    """Bytes that are no event, half of one, or of the wrong shape are passed over."""
    assert catalog.adapter(kind).judge(turn(), End(), out, b"", NOW, "").kind is not Class.Ok

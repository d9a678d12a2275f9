"""What the real programs do that nobody would expect, each held against its adapter; and their command lines."""

import json
from pathlib import Path
from typing import Any

import pytest

from nightcrew.agents import catalog
from nightcrew.agents.base import Judged, Launch, Turn
from nightcrew.core.work import Class
from unit.agents.ends import End

ENDED = End()
NOW = 1796027000.0
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
    """Full rights and looking only are two command lines, on a resumed turn too."""
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
    """The model is the roster's; the prompt comes on standard input, whatever its length."""
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


@pytest.mark.parametrize("kind", REAL)
@pytest.mark.parametrize(
    "out", [b"", b"\x00\xff{\n", b'{"type":"result","is_err', b'{"type":[]}\n[1]\n"x"\nnull\n{"error":1,"result":2}\n']
)
def test_garbage_is_no_answer_and_no_crash(kind: str, out: bytes) -> None:
    """Bytes that are no event, half of one, or of the wrong shape are passed over."""
    assert catalog.adapter(kind).judge(turn(), End(), out, b"", NOW, "").kind is not Class.Ok

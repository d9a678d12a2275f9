"""Claude Code's command line and its recorded outputs."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from nightcrew.agents import catalog, claude
from nightcrew.agents.base import Turn
from nightcrew.core.work import Class
from unit.agents.ends import End, died, returned

FOLDER = Path(__file__).resolve().parents[2] / "fixtures" / "claude"
RECORDED: dict[str, dict[str, Any]] = json.loads((FOLDER / "recorded.json").read_text())
NOW = 1796027000.0
"""A moment on the day of the recordings."""


def turn(**fields: Any) -> Turn:
    """A turn with these fields."""
    return Turn(program="claude", prompt_file=Path("/turn/prompt"), cwd=Path("/slot"), **fields)


TURN = turn()


def recorded(name: str) -> tuple[End, bytes, bytes]:
    """One recording: its end, standard output and standard error."""
    code, stopped = RECORDED[name]["exit_code"], RECORDED[name]["stopped"]
    end = returned(code, "total" if stopped else "")
    err = FOLDER / f"{name}.stderr"
    return end, (FOLDER / f"{name}.stdout").read_bytes(), err.read_bytes() if err.exists() else b""


def judged(name: str, **changed: Any) -> Any:
    """What a recording is judged to be."""
    return claude.judge(turn(**changed), *recorded(name), NOW, "UTC")


def result(**fields: Any) -> bytes:
    """A closing event of our own making."""
    return json.dumps({"type": "result", "subtype": "success", "is_error": False, **fields}).encode() + b"\n"


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_every_recording_gets_its_class(name: str) -> None:
    """Each recorded output of the real program, good or failed, is judged to be what it was."""
    assert judged(name).kind is Class(RECORDED[name]["class"])


@pytest.mark.parametrize("name", sorted(RECORDED))
def test_reasons_are_one_short_line(name: str) -> None:
    """A failure always says why in one line of at most 160 characters; only a good turn has an answer."""
    found = judged(name)
    assert (found.answer is not None) is (found.kind is Class.Ok)
    assert bool(found.reason) is (found.kind is not Class.Ok)
    assert len(found.reason) <= 160
    assert "\n" not in found.reason


def test_quota_tells_its_reset_and_window() -> None:
    """A refused plan limit comes back at the event's own time, in the window it names, also when work was done before."""
    found = judged("quota_after_edit")
    assert (found.kind, found.reset_at, found.window) == (Class.Quota, 1796032728.0, "five_hour")


def test_quota_without_an_event_reads_the_sentence() -> None:
    """Without the event the time is taken from the notice, in the zone it names."""
    out = result(is_error=True, api_error_status=429, result="You've hit your limit · resets 7:15pm (Asia/Katmandu)")
    found = claude.judge(TURN, End(1), out, b"", 1799744730.0, "UTC")
    assert (found.kind, found.reset_at) == (Class.Quota, 1799760600.0)


def test_a_warning_is_no_limit() -> None:
    """`allowed_warning`, and a rejection that was lifted later in the turn, leave a good turn good."""
    assert judged("ok_near_limit").kind is Class.Ok
    rejected = {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1796032728}}
    out = json.dumps(rejected).encode() + b"\n" + result(result="Moved to extra usage and finished.", num_turns=4)
    assert claude.judge(TURN, End(), out, b"", NOW, "").kind is Class.Ok


def test_answers_about_limits_are_answers() -> None:
    """F20: an agent that writes about rate limits is not limited, whatever words it uses."""
    words = "`parse_reset()` now reads usage limit reached|1799760600; 429, overloaded and 'Invalid API key' have tests."
    out = result(result=words, num_turns=8, total_cost_usd=0.27)
    found = claude.judge(TURN, End(), out, b"rate limit exceeded\n", NOW, "")
    assert (found.kind, found.answer, found.reset_at) == (Class.Ok, words, None)


def test_a_notice_as_the_only_answer_is_that_failure() -> None:
    """F19: exit 0 and a "success" that is nothing but a limit notice, one turn, no cost: a quota, not an answer."""
    out = result(result="You've hit your session limit · resets 4pm (Asia/Jakarta)", num_turns=1, total_cost_usd=0)
    found = claude.judge(TURN, End(), out, b"", 1797312600.0, "UTC")
    assert (found.kind, found.reset_at, found.answer) == (Class.Quota, 1797325200.0, None)


def test_a_closing_event_outranks_the_deadline_and_the_exit_status() -> None:
    """A turn that was finished when our limit or a hook after the end struck is finished."""
    out = result(result="All nine endpoints validate their input.", num_turns=24)
    assert claude.judge(TURN, died(9, "total"), out, b"", NOW, "").kind is Class.Ok
    assert claude.judge(TURN, End(1), out + b"SessionEnd hook failed\n", b"", NOW, "").kind is Class.Ok


@pytest.mark.parametrize(("stopped_by", "kind"), [("total", Class.Timeout), ("idle", Class.Timeout), ("", Class.Crashed)])
def test_silence_is_told_from_death(stopped_by: str, kind: Class) -> None:
    """Ended by a limit of ours is a timeout; dead of a signal that was not ours is a crash."""
    out = b'{"type":"system","subtype":"init","session_id":"s-1"}\n'
    found = claude.judge(TURN, died(9, stopped_by), out, b"", NOW, "")
    assert (found.kind, found.session) == (kind, "s-1")


@pytest.mark.parametrize("out", [b"", b"\x00\xff{\n", b'{"type":"result","is_err', b'{"type":[]}\n[1]\n"result"\nnull\n'])
def test_garbage_is_no_answer_and_no_crash(out: bytes) -> None:
    """Bytes that are no event, half of one, or of the wrong shape are passed over."""
    assert claude.judge(TURN, End(), out, b"", NOW, "").kind is Class.InvalidOutput


def test_leaving_in_the_middle_is_a_crash_and_half_a_line_is_half_an_answer() -> None:
    """Exit 0 after the stream began but without its closing event is no answer; a cut line is half an answer."""
    began = b'{"type":"system","subtype":"init","session_id":"s-1"}\n'
    assert claude.judge(TURN, End(), began, b"", NOW, "").kind is Class.Crashed
    assert claude.judge(TURN, End(), began + b'{"type":"result","resu', b"", NOW, "").kind is Class.InvalidOutput


def test_money_is_of_this_turn_alone() -> None:
    """The program adds money up over a continued conversation; tokens it counts anew."""
    whole = judged("session_resume_same_dir")
    rest = judged("session_resume_same_dir", resume=whole.session, prior_usd=0.00414)
    assert whole.usd == pytest.approx(0.00828)
    assert rest.usd == pytest.approx(0.00414)
    assert whole.tokens == rest.tokens == 1334


def test_unknown_money_is_unknown() -> None:
    """A turn without a closing event has no figures, which is not zero."""
    found = judged("sigkill_slow_shell")
    assert (found.tokens, found.usd) == (None, None)


def test_the_session_of_a_refused_resume_is_not_taken() -> None:
    """The event of a failed resume carries a fresh id, which was never opened."""
    assert judged("session_resume_unknown").session == ""
    assert judged("session_chosen_id").session == "4ee74c0b-bf8c-42fd-a51d-ac749c09b174"


def test_the_command_line() -> None:
    """A new turn opens the chosen conversation with full rights; the prompt is never an argument."""
    launch = claude.command(turn(session="u-1", model="opus"))
    assert launch.argv == (
        *("claude", "-p", "--output-format", "stream-json", "--verbose", "--model", "opus"),
        *("--permission-mode", "bypassPermissions", "--session-id", "u-1"),
    )
    assert launch.env["DISABLE_AUTOUPDATER"] == "1"
    assert launch.env.get("IS_SANDBOX") == ("1" if os.geteuid() == 0 else None)


def test_a_reader_continues_and_looks_only() -> None:
    """`resume` wins over `session`; a read-only seat gets the mode in which writes are refused."""
    argv = claude.command(turn(session="u-1", resume="u-2", read_only=True)).argv
    assert argv[-4:] == ("--permission-mode", "plan", "--resume", "u-2")


def test_only_the_login_is_passed_on() -> None:
    """Of the person's environment the program gets its own login and endpoint, nothing of a forge."""
    assert {"ANTHROPIC_API_KEY", "CLAUDE_CODE_OAUTH_TOKEN"} <= set(catalog.kinds()["claude"].passes)
    assert all(name.startswith(("ANTHROPIC_", "CLAUDE_")) for name in catalog.kinds()["claude"].passes)


def test_last_words_of_the_dead_do_not_decide() -> None:
    """Only a program that left by itself is believed on stderr: a killed one crashed, whatever stood there."""
    said = b"No conversation found with session ID: x\n"
    assert claude.judge(TURN, End(1), b"", said, NOW, "").kind is Class.SessionNotFound
    assert claude.judge(TURN, died(9), b"", said, NOW, "").kind is Class.Crashed


def test_login_stays_and_transcripts_are_apart() -> None:
    """An account's own folder is where the login and the transcripts are; else the one in HOME."""
    launch = claude.command(TURN)
    assert launch.login_paths == ("~/.claude", "~/.claude.json")
    assert launch.session_paths == ("~/.claude/projects",)
    own = claude.command(turn(env={"CLAUDE_CONFIG_DIR": "/accounts/b"}))
    assert (own.login_paths, own.session_paths) == (("/accounts/b",), ("/accounts/b/projects",))

"""The scripted player, played for real and read by its adapter."""

import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from nightcrew.agents import scripted
from nightcrew.core.work import Class
from unit.agents.ends import died
from unit.players.stage import Stage, until


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A fresh workspace."""
    return Stage(tmp_path)


def gone(pid: int) -> bool:
    """Whether no such process runs any more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def test_a_turn_edits_answers_and_tells_what_it_used(stage: Stage) -> None:
    """A played turn is an ordinary turn: edits in the workspace, an answer, the conversation, tokens and money."""
    steps: list[dict[str, Any]] = [
        {"write": "a/b c.txt", "text": "{seat} turn {turn}\n"},
        {"say": "first"},
        {"say": {"vote": "approve", "findings": []}},
        {"usage": {"tokens": 1200, "usd": 0.25}},
    ]
    stage.write({"do": steps})
    played = stage.play(session="s-1")
    assert (stage.cwd / "a/b c.txt").read_text() == "impl-A turn 1\n"
    assert played.judged.kind is Class.Ok
    assert played.judged.answer == '{\n "vote": "approve",\n "findings": []\n}'
    assert (played.judged.session, played.judged.tokens, played.judged.usd) == ("s-1", 1200, 0.25)


def test_files_of_every_sort(stage: Stage) -> None:
    """New files with any text and mode, additions and replacements."""
    stage.do(
        {"write": "run.sh", "text": "\x00\u00ff\n", "mode": "755"},
        {"append": "log", "text": "one\n"},
        {"append": "log", "text": "two\n"},
        {"replace": "log", "old": "one", "new": "1"},
    )
    assert (stage.cwd / "run.sh").read_bytes() == "\x00\u00ff\n".encode()
    assert stat.S_IMODE((stage.cwd / "run.sh").stat().st_mode) == 0o755
    assert (stage.cwd / "log").read_text() == "1\ntwo\n"


def test_a_shell_line_runs_in_the_workspace_and_stays_out_of_the_stream(stage: Stage) -> None:
    """What a command prints does not disturb the events, and its status does not end the turn."""
    played = stage.do({"run": "pwd; exit 3"}, {"say": "done"})
    assert played.err.splitlines() == [str(stage.cwd), "ended with 3: pwd; exit 3"]
    assert played.judged.answer == "done"


def test_the_first_entry_that_fits_is_played(stage: Stage) -> None:
    """Patterns for agent, node, seat and label; the count of turns; whether it is continued; the last entry takes the rest."""
    stage.write(
        {"seat": "review-*", "do": [{"say": "reviewed"}]},
        {"agent": "beta", "turn": 2, "do": [{"say": "beta again"}]},
        {"resumed": True, "do": [{"say": "continued"}]},
        {"node": "fix", "label": "B", "do": [{"say": "fixed B"}]},
        {"do": [{"say": "rest of {agent}"}]},
    )
    assert stage.play(seat="review-1").judged.answer == "reviewed"
    assert stage.play(agent="beta").judged.answer == "rest of beta"
    assert stage.play(agent="beta").judged.answer == "beta again"
    assert stage.play(agent="beta", run="another").judged.answer == "rest of beta"
    assert stage.play(node="fix", label="B").judged.answer == "fixed B"
    stage.play(session="s-1")
    assert stage.play(resume="s-1").judged.answer == "continued"


def test_every_process_is_counted(stage: Stage) -> None:
    """`starts.jsonl` has one line for each process, in order, with who it was and what it was told."""
    stage.write({"do": []})
    for seat in ("impl-A", "impl-B", "impl-A"):
        stage.play(agent="beta", seat=seat, node="implement", read_only=seat == "impl-B")
    starts = stage.starts()
    assert [(s["seat"], s["turn"], s["read_only"]) for s in starts] == [
        ("impl-A", 1, "0"),
        ("impl-B", 1, "1"),
        ("impl-A", 2, "0"),
    ]
    assert {(s["agent"], s["node"]) for s in starts} == {("beta", "implement")}
    assert len({s["pid"] for s in starts}) == 3


def test_conversations_are_kept_as_real_programs_keep_them(stage: Stage) -> None:
    """An id opened twice is in use, one never opened is not found, one of a failed turn can be continued."""
    stage.write({"turn": 1, "do": [{"notice": "quota"}]}, {"do": []})
    assert stage.play(session="s-1").judged.kind is Class.Quota
    assert stage.play(session="s-1").judged.kind is Class.SessionInUse
    assert stage.play(resume="s-2").judged.kind is Class.SessionNotFound
    assert stage.play(resume="s-1").judged.kind is Class.Ok


def test_another_conversation_than_asked_for_can_be_reported(stage: Stage) -> None:
    """Some programs silently begin a new conversation: the reported id tells."""
    stage.write({"session": "other", "do": []})
    assert stage.play(session="s-1").judged.session == "other"


@pytest.mark.parametrize("kind", [kind for kind in Class if kind is not Class.Ok])
def test_notices_are_structured(stage: Stage, kind: Class) -> None:
    """Every class of failure can be told in a field; work done before it stays."""
    played = stage.do({"write": "half", "text": "x"}, {"notice": kind.value, "reason": "no more\ntoday"})
    assert (played.code, played.judged.kind, played.judged.reason) == (1, kind, "no more today")
    assert played.judged.answer is None
    assert (stage.cwd / "half").exists()


def test_notices_tell_their_times(stage: Stage) -> None:
    """A reset is a moment or so many seconds from now; a wait is a span; the window has a name."""
    before = time.time()
    judged = stage.do({"notice": "quota", "reset_in": 3600, "window": "five_hour", "exit": 0}).judged
    assert judged.reset_at is not None
    assert before + 3600 <= judged.reset_at <= time.time() + 3600
    assert judged.window == "five_hour"
    assert stage.do({"notice": "quota", "reset_at": 1e10}).judged.reset_at == 1e10
    assert stage.do({"notice": "rate_limit", "retry_after": 2}).judged.retry_after_s == 2.0


@pytest.mark.parametrize(
    ("steps", "kind", "reason"),
    [
        ([{"exit": 0}], Class.InvalidOutput, "ended without an answer"),
        ([{"say": " "}], Class.InvalidOutput, "ended without an answer"),
        ([{"stderr": "bad luck\n"}, {"exit": 9}], Class.Crashed, "exit status 9: bad luck"),
        ([{"run": "kill -KILL $PPID"}], Class.Crashed, "died of signal 9"),
        ([{"run": "kill -SEGV $PPID"}], Class.Crashed, "died of signal 11"),
        ([{"must_read": "greeting"}], Class.Ok, ""),
        ([{"must_read": "farewell"}], Class.Crashed, "exit status 3: the prompt does not hold 'farewell'"),
        ([{"must_not_read": "greeting"}], Class.Crashed, "exit status 3: the prompt holds 'greeting'"),
        ([{"finish": True}, {"exit": 7}], Class.Ok, ""),
        ([{"raw": '\x00\u00ff\n{"event":"resu\n{"event":"result","ok":tr\n'}], Class.Ok, ""),
        ([{"raw": '{"event":"result","ok":tr'}, {"exit": 0}], Class.InvalidOutput, "ended without an answer"),
        ([{"replace": "missing", "old": "a", "new": "b"}], Class.Crashed, "exit status 1: "),
    ],
)
def test_faults(stage: Stage, steps: list[dict[str, Any]], kind: Class, reason: str) -> None:
    """Each fault is what it says to a reader who believes the closing event first, then the end of the process."""
    judged = stage.do(*steps).judged
    assert judged.kind is kind
    assert judged.reason.startswith(reason)


@pytest.mark.parametrize(("newline", "lines"), [(True, 12500), (False, 0)])
def test_floods(stage: Stage, newline: bool, lines: int) -> None:  # noqa: FBT001  (the script's own switch)
    """So many bytes, in lines or without an end of line, before a good end."""
    played = stage.do({"flood": 1_000_000, "newline": newline}, {"raw": "\n"})
    flood = played.out.partition(b"\n")[2][:1_000_000]
    assert flood.count(b"\n") == lines
    assert set(flood) <= set(b"x\n")
    assert played.judged.kind is Class.Ok


def test_a_plain_hang_ends_by_term(stage: Stage) -> None:
    """A turn that never goes on dies of a polite signal."""
    stage.write({"do": [{"write": "here"}, {"hang": "plain"}]})
    with stage.start(stage.turn()) as process:
        until((stage.cwd / "here").exists)
        process.send_signal(signal.SIGTERM)
        process.communicate()
    assert process.returncode == -signal.SIGTERM


def test_a_deaf_hang_outlives_polite_signals(stage: Stage) -> None:
    """TERM, INT and HUP do nothing to it; only KILL does."""
    stage.write({"do": [{"hang": "deaf"}]})
    with stage.start(stage.turn()) as process:
        until(lambda: deaf(process.pid, signal.SIGHUP))
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            assert deaf(process.pid, number)
            process.send_signal(number)
        process.kill()
        process.communicate()
    assert process.returncode == -signal.SIGKILL


def deaf(pid: int, number: int = signal.SIGTERM) -> bool:
    """Whether a process ignores a signal."""
    status = dict(line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
    return bool(int(status["SigIgn"], 16) >> (number - 1) & 1)


def test_waiting_for_a_file(stage: Stage) -> None:
    """A turn can be held until a test says go."""
    stage.write({"do": [{"write": "here"}, {"wait_for": "{state}/go"}, {"sleep": 0.01}, {"say": "went"}]})
    with stage.start(stage.turn()) as process:
        until((stage.cwd / "here").exists)
        assert process.poll() is None
        (stage.state / "go").touch()
        out, _ = process.communicate()
    assert b"went" in out


@pytest.mark.parametrize(("how", "leads", "ignores"), [("child", False, False), ("setsid", True, False), ("daemon", False, True)])
def test_what_is_left_behind(stage: Stage, how: str, leads: bool, ignores: bool) -> None:  # noqa: FBT001  (a table)
    """A child stays in the group, `setsid` leads a session of its own, a daemon belongs to nobody and ignores TERM."""
    line = 'echo $$ > "{state}/pid.new"; mv "{state}/pid.new" "{state}/pid"; exec sleep 60 >/dev/null 2>&1'
    stage.write({"do": [{"fork": line, "how": how}, {"wait_for": "{state}/pid"}]})
    with stage.start(stage.turn()) as process:
        until((stage.state / "pid").exists)
        pid = int((stage.state / "pid").read_text())
        try:
            process.communicate()
            assert not gone(pid)
            assert (os.getsid(pid) == pid) is leads
            assert (os.getsid(pid) == process.pid) is (how == "child")
            assert deaf(pid) is ignores
        finally:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    "script",
    [
        '{"turn": [{"sheet": "x"}]}',
        '{"turn": [{"do": [{"write": "a", "txet": "b"}]}]}',
        '{"turn": [{"do": [{"fly": 1}]}]}',
        '{"turn": [{"seat": "review-*"}]}',
        "{}",
        "{",
    ],
)
def test_mistakes_in_a_script_are_said(stage: Stage, script: str) -> None:
    """An unknown word, a missing entry or no script at all is a mistake of the configuration, said in one line."""
    stage.script.write_text(script)
    played = stage.play()
    assert (played.code, played.judged.kind, len(played.err.splitlines())) == (127, Class.ConfigError, 1)


def test_a_script_may_be_toml(stage: Stage) -> None:
    """TOML says the same."""
    stage.script = stage.folder / "script.toml"
    stage.script.write_text('[[turn]]\nseat = "impl-*"\ndo = [{ write = "x", text = "1" }, { say = "toml" }]\n')
    assert stage.play().judged.answer == "toml"
    assert (stage.cwd / "x").read_text() == "1"


def test_a_limit_of_ours_is_a_timeout(stage: Stage) -> None:
    """A turn that was stopped before its closing event timed out; after it, it is good."""
    turn = stage.turn()
    started = b'{"event":"started","session":"s-1"}\n'
    result = b'{"event":"result","ok":true,"text":"done"}\n'
    stopped = died(15, "total")
    cut = scripted.judge(turn, stopped, started, b"", 0.0, "")
    assert (cut.kind, cut.session) == (Class.Timeout, "s-1")
    assert scripted.judge(turn, stopped, started + result, b"", 0.0, "").kind is Class.Ok

"""What the engine does with an adapter's facts in whole runs: silence while a program tries again, bills that add up, folders in argv."""

import json
import sys
from typing import Any

import pytest

from nightcrew.core.events import HandedOver, RunStarted, TurnEnded
from nightcrew.core.work import Class
from support.crew import SUBJECT, Crew

PROGRAM = """#!{python}
import json, os, pathlib, sys, time
name, prompt = os.path.basename(sys.argv[0]), sys.stdin.read()
if "--version" in sys.argv:
    print(os.environ["HOME"] and pathlib.Path(sys.argv[0] + ".version").read_text())
    sys.exit()
home = pathlib.Path(os.environ.get("CODEX_HOME", os.environ["HOME"] + "/.codex"), "sessions")
thread = sys.argv[sys.argv.index("resume") + 1] if "resume" in sys.argv else "t-" + os.urandom(8).hex()
turns = int((home / thread).read_text()) + 1 if (home / thread).exists() else 1

def say(**event):
    print(json.dumps(event, separators=(",", ":")), flush=True)

text = {subject!r}
if "Write the commit message" not in prompt:
    text = "Done."
    with open("note.txt", "a") as file:
        file.write("more\\n")
if name == "opencode":
    say(type="step_start", sessionID="s")
    time.sleep(2.5)
    say(type="text", sessionID="s", part={{"text": text}})
    say(type="step_finish", sessionID="s", part={{"reason": "stop", "tokens": {{"input": 1}}, "cost": 0}})
    sys.exit()
say(type="thread.started", thread_id=thread)
if "SILENT" in os.environ:
    time.sleep(2.5)
if turns > int(os.environ.get("LAST", 99)):
    said = "You've hit your usage limit. Try again at 9:19 AM."
    say(type="turn.failed", error={{"message": said}})
    sys.exit(1)
home.mkdir(parents=True, exist_ok=True)
(home / thread).write_text(str(turns))
say(type="item.completed", item={{"type": "agent_message", "text": text}})
say(type="turn.completed", usage={{"input_tokens": 50 * turns * (turns + 1), "output_tokens": 0}})
"""
"""Speaks as codex and as opencode do. The n-th turn of a conversation of codex takes 100 n tokens, and it tells their sum."""


def programs(crew: Crew, *names: str, version: str = "1.0.0") -> None:
    """Put such programs on the machine's PATH."""
    folder = crew.home / "bin"
    folder.mkdir()
    for name in names:
        file = folder / name
        file.write_text(PROGRAM.format(python=sys.executable, subject=SUBJECT))
        file.with_name(f"{name}.version").write_text(version)
        file.chmod(0o755)
    crew.env["PATH"] = f"{folder}:{crew.env['PATH']}"


def settle(crew: Crew, *agents: dict[str, Any], lines: int = 1, **tables: Any) -> None:
    """The smallest run with these agents; the gate wants so many lines of theirs."""
    small = {"pipeline": {"plan": False, "reviewers": 0}, "land": {"mode": "local", "target": "main"}}
    gate = {"gate": [f"test $(grep -c more note.txt) -ge {lines}"]}
    crew.settle(*agents, **{**small, "verify": gate, "limits": {"usd": "none"}, **tables})
    crew.git("switch", "-qc", "mine")


def test_a_bill_that_adds_up_is_told_turn_by_turn(crew: Crew) -> None:
    """A conversation's sum is told; of a turn only its own part counts, over resumes and after a handover, where it begins anew."""
    programs(crew, "codex")
    agents = (
        {"id": name, "kind": "codex", "env": {"CODEX_HOME": f"~/{name}", "LAST": last}} for name, last in (("a", "2"), ("b", "9"))
    )
    settle(crew, *agents, lines=5)
    done = crew.call("run", "Add a note")
    assert done.code == 0, done
    (handed,) = {(str(e.handover.from_agent), str(e.handover.to_agent)) for e in crew.facts(HandedOver)}
    assert handed == ("a", "b")
    fixes = [event.outcome for event in crew.facts(TurnEnded) if "/dev-fix/" in event.key]
    assert [outcome.tokens for outcome in fixes] == [100, 200, None, 100]
    assert fixes[2].kind is Class.Quota
    assert len({outcome.session for outcome in fixes[:2]}) == 1


@pytest.mark.parametrize(("kind", "ends"), [("opencode", Class.Ok), ("codex", Class.Timeout)])
def test_silence_while_it_tries_again_is_no_hang(crew: Crew, kind: str, ends: Class) -> None:
    """The idle limit is longer for a program that is known to say nothing meanwhile, and holds for all others; none was used here before."""
    programs(crew, kind)
    agent = {"id": kind, "kind": kind, "env": {"SILENT": "1"}}
    settle(crew, agent, limits={"idle": "1s", "usd": "none"})
    process = crew.start("run", "Add a note")
    first = crew.until(lambda event: isinstance(event, TurnEnded), process).event
    crew.kill(process)
    assert isinstance(first, TurnEnded)
    assert first.outcome.kind is ends, first


def test_a_folder_in_the_command_line_stays_writable(crew: Crew) -> None:
    """Codex is told its folder as an argument: under bwrap it is not shown read-only for that, as its program's own path is."""
    programs(crew, "codex")
    settle(crew, {"id": "codex", "kind": "codex"}, sandbox={"mode": "bwrap"})
    done = crew.call("run", "Add a note")
    assert done.code == 0, done
    assert crew.shown("main", "note.txt").endswith("more\n")


def test_a_version_that_misbehaves_is_told_once(crew: Crew) -> None:
    """The run notes it when it begins; `agents` says it with what else is on PATH, although no settings name that program."""
    programs(crew, "opencode", "qwen", version="0.15.10")
    settle(crew, {"id": "one", "kind": "opencode"}, {"id": "two", "kind": "qwen"})
    process = crew.start("run", "Add a note")
    crew.until(lambda event: isinstance(event, RunStarted), process)
    crew.kill(process)
    (noted,) = (note for note in crew.facts(RunStarted)[0].notes if "version" in note)
    assert noted.startswith("agent two: version 0.15.10 tries again without end")
    crew.settle({"id": "one", "kind": "opencode"})
    rows = {row["id"]: row for row in json.loads(crew.call("agents", "--json").out)}
    assert (rows["qwen"]["version"], rows["qwen"]["login"], rows["qwen"]["roles"]) == ("0.15.10", "unknown", [])
    assert rows["qwen"]["misbehaves"]
    assert "chosen ids" in rows["qwen"]["can"]
    assert "developer" in [role.lower() for role in rows["one"]["roles"]]
    told = crew.call("agents").out
    assert "version 0.15.10, login unknown" in told
    assert "money" in told

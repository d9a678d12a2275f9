"""One whole run with the real Claude Code in every seat: it plans, works by a real tool call, reviews, and the result lands."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nightcrew.core.events import TurnEnded
from nightcrew.journal.store import Journal
from support import repos
from support.models.scenario import Answer, Call, Request, Say
from support.models.server import ModelServer


def night(request: Request) -> Answer:
    """What the model says, by what it is asked: a plan, an edit through a tool, a review, a commit message."""
    if not request.tools:
        return Say("A side answer.")
    if "Write the plan that another engineer" in request.text:
        return Say("Write new.txt with one line. The gate shows that it is there.")
    if "Write the commit message of this change" in request.text:
        return Say('{"subject": "Add the note", "body": "The gate asks for it."}')
    if "Report what you can show" in request.text:
        return Say('It does what was asked.\n{"vote": "approve", "findings": []}')
    if request.after_tool:
        return Say('Written.\n{"word": "done", "evidence": "new.txt is there"}')
    return Say("I write it.", (Call("Write", {"file_path": f"{request.cwd}/new.txt", "content": "written\n"}),))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose gate is red until there is a note."""
    made = repos.make_repo(tmp_path / "repo")
    repos.commit(made, {"nightcrew.toml": '[verify]\ngate = ["test -f new.txt"]\n[land]\nmode = "local"\n'})
    return made


def test_claude_plans_works_is_reviewed_and_lands(
    repo: Path,
    tmp_path: Path,
    claude_program: Path,
    model_server: Callable[..., ModelServer],
    claude_env: Callable[[ModelServer], dict[str, str]],
) -> None:
    """One `nightcrew run` with the real program ends landed: four seats, four turns in the bill, the commit on the target; HOME of the account unread."""
    server = model_server(night)
    env = claude_env(server)
    (Path(env["HOME"]) / ".gitconfig").write_text("[user]\n\tname = Night\n\temail = night@localhost\n")
    env |= {"PATH": f"{claude_program.parent}:{os.environ['PATH']}", "NIGHTCREW_HOME": str(tmp_path / "state")}
    subprocess.run(["git", "switch", "-qc", "elsewhere"], cwd=repo, check=True)

    argv = [sys.executable, "-m", "nightcrew", "run", "--trust", "--target", "main", "Add a note"]
    ended = subprocess.run(argv, cwd=repo, env=env, capture_output=True, text=True, check=False, timeout=120)

    assert ended.returncode == 0, ended.stdout + ended.stderr
    journal = Journal(tmp_path / "state")
    run = journal.recent(1)[0]
    turns = [entry.event for entry in journal.entries(run) if isinstance(entry.event, TurnEnded)]
    assert [turn.key.split("/")[2] for turn in turns] == ["plan", "implement", "review", "commit"]
    assert all(turn.outcome.session and turn.outcome.tokens for turn in turns)
    shown = subprocess.run(["git", "log", "--format=%s", "-1", "main"], cwd=repo, capture_output=True, text=True, check=True)
    assert shown.stdout.strip() == "Add the note"

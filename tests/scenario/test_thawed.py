"""A nightcrew that was frozen, and thaws after another took its run over: it moves nothing any more (law 6)."""

import signal
import subprocess
from pathlib import Path

from nightcrew.core.events import Landed
from nightcrew.core.work import PipelinePhase
from nightcrew.proc import job
from support import repos
from support.crew import Crew, until


def frozen_before_landing(crew: Crew, tmp_path: Path) -> tuple[subprocess.Popen[str], Path]:
    """A run whose push is about to be made: its hook has let it, nightcrew is frozen and does not know; and the remote."""
    crew.solo(land={"mode": "push", "target": "main"}, verify={"gate": ["true"], "writable": [str(crew.played)]})
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")
    crew.played.mkdir(exist_ok=True)
    repos.add_hook(crew.repo, "pre-push", f"touch {crew.played}/there; while [ ! -e {crew.played}/go ]; do sleep 0.02; done")
    process = crew.start("run", "write the note")
    until((crew.played / "there").exists)
    process.send_signal(signal.SIGSTOP)
    (crew.played / "go").touch()
    (owner,) = crew.state_home.glob("runs/*/effects/Land-*/pre-push/owner")
    until(lambda: isinstance(job.look(owner.parent), job.Exit))
    return process, remote


def test_one_that_was_cancelled_meanwhile(crew: Crew, tmp_path: Path) -> None:
    """Frozen right before its push; another takes the run over and cancels it; awake again the first pushes nothing and leaves with a line."""
    process, remote = frozen_before_landing(crew, tmp_path)
    before, run = repos.refs(remote), crew.run
    assert crew.call("cancel", run).code == 0
    assert crew.call("resume", "--take-over", run).code == 1
    entries = len(crew.entries())

    process.send_signal(signal.SIGCONT)
    woken = crew.end(process)

    assert woken.code == 1, woken
    assert "another process took" in woken.line
    assert repos.refs(remote) == before
    assert len(crew.entries()) == entries
    assert crew.state().phase is PipelinePhase.Interrupted


def test_one_whose_run_landed_meanwhile(crew: Crew, tmp_path: Path) -> None:
    """Another lands the run, and somebody goes on from there: awake again the first moves nothing, and asks nobody twice."""
    process, remote = frozen_before_landing(crew, tmp_path)
    assert crew.call("resume", "--take-over", crew.run).code == 0
    repos.move_remote(remote, {"more.txt": "more\n"})
    before = repos.refs(remote), repos.refs(crew.repo), len(crew.entries())

    process.send_signal(signal.SIGCONT)
    woken = crew.end(process)

    assert woken.code == 1, woken
    assert (repos.refs(remote), repos.refs(crew.repo), len(crew.entries())) == before
    assert len(crew.facts(Landed)) == 1
    assert crew.seats() == ["alpha@implement", "alpha@commit"]

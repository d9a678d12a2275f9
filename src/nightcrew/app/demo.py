"""The demo: a small project, scripted agents, and the real engine, git, gate and landing on it. No account, no network."""

import os
import shutil
import signal
import tempfile
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from nightcrew.app import control, ground
from nightcrew.core.events import CommitMade, EffectBegun, Entry
from nightcrew.core.ids import RunId
from nightcrew.core.state import RunState
from nightcrew.git.sealed import Checkout, git

SCRIPT = Path(__file__).with_name("demo.toml")


class Stage(NamedTuple):
    """Where the demo plays: a folder of its own with a project, an environment whose HOME is there too, and the run."""

    root: Path
    project: Path
    env: dict[str, str]
    script: Mapping[str, Any]
    run: RunId


def stage(env: Mapping[str, str]) -> Stage:
    """Make the project, with one test that fails, in a temporary folder, and hand the task off."""
    root, told = Path(tempfile.mkdtemp(prefix="nightcrew-demo-")), tomllib.loads(SCRIPT.read_text())
    project, home = root / "stack", root / "home"
    for folder in (project, home):
        folder.mkdir()
    mine = {name: env[name] for name in ("PATH", "LANG", "LC_ALL", "TERM", "LD_LIBRARY_PATH") if name in env}
    mine |= {"HOME": str(home), "NIGHTCREW_HOME": str(root / "state"), "GIT_CONFIG_NOSYSTEM": "1"}
    (home / ".gitconfig").write_text("[user]\nname = Demo\nemail = demo@localhost\n")
    script = str(shutil.copy(SCRIPT, root / "script.toml"))
    for name, text in told["files"].items():
        (project / name).write_text(text.lstrip("\n").replace("{script}", script).replace("{state}", f"{root}/agents"))
    git(place := Checkout(project, mine), "init", "-q", "-b", "main")
    _commit(place, "A stack")
    ground.trust_here(project, mine)
    return Stage(root, project, mine, told, control.start(project, mine, told["task"].strip()))


def meddling(where: Stage, show: Callable[[RunState, Entry], None]) -> Callable[[RunState, Entry], None]:
    """`show`, and once, when the commit that shall land is made, somebody else's commit on main."""

    def told(state: RunState, entry: Entry) -> None:
        show(state, entry)
        if isinstance(entry.event, CommitMade) and not (where.root / "moved").exists():
            (where.root / "moved").touch()
            colleague = where.script["colleague"]
            path = where.project / colleague["file"]
            path.write_text(path.read_text().replace(colleague["old"], colleague["new"]))
            _commit(Checkout(where.project, where.env), colleague["message"])

    return told


def crash(where: Stage) -> None:
    """Drive the run in a child process that ends itself with kill -9 while the first implementer works."""

    def dies(_: RunState, entry: Entry) -> None:
        if isinstance(entry.event, EffectBegun) and "/implement/" in entry.event.key:
            os.kill(os.getpid(), signal.SIGKILL)

    if (pid := os.fork()) == 0:
        control.drive(where.run, where.env, on_entry=dies)
        os._exit(0)
    os.waitpid(pid, 0)


def history(where: Stage) -> str:
    """What is on main now, as a graph."""
    return git(Checkout(where.project, where.env), "log", "--graph", "--oneline", "--decorate", "main")


def _commit(place: Checkout, message: str) -> None:
    git(place, "add", "-A")
    git(place, "-c", "user.name=Demo", "-c", "user.email=demo@localhost", "commit", "-q", "-m", message)

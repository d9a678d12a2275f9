"""Real input: a repository with real lint errors and a real program that mends them; no model takes part."""

import subprocess
from pathlib import Path
from typing import Any

from nightcrew.core.events import BaseSynced, CommandsEnded, Landed, LandingRefused
from support import repos
from support.crew import Crew, until

LINT = {"a.py": "import os\nimport sys\nprint(1)\n", "pkg/b ü.py": "import json\n\n\ndef f():\n    return f'x'\n"}
CLEAN = "ruff check --no-cache ."
RUFF = {"id": "ruff", "kind": "command", "command": ["ruff", "check", "--no-cache", "--fix", "."]}


def lint(crew: Crew, mode: str = "local", **tables: Any) -> None:
    """A repository that ruff finds fault with, on `main`."""
    repos.commit(crew.repo, LINT, "with faults")
    crew.settle(RUFF, **{"land": {"mode": mode, "target": "main"}, "verify": {"gate": [CLEAN]}, **tables})


def clean(crew: Crew, folder: Path, commit: str) -> None:
    """Check that a fresh checkout of what landed passes the gate."""
    repos.git(crew.repo, "worktree", "add", "-q", "--detach", str(folder), commit)
    assert subprocess.run(["ruff", "check", "--no-cache", "."], cwd=folder, env=crew.env, check=False).returncode == 0


def test_ruff_is_made_clean(crew: Crew, tmp_path: Path) -> None:
    """Landed as one commit that passes the gate; the dirty checkout on another branch is the same byte for byte."""
    lint(crew)
    crew.git("switch", "-qc", "mine")
    repos.write(crew.repo, {"a.py": "import re  # mine\n", "untracked.py": "import os\n"})
    mine, base = crew.mine(), crew.git("rev-parse", "main")

    done = crew.call("run", "make ruff clean")

    assert done.code == 0, done
    assert crew.git("log", "--format=%s", f"{base}..main") == "make ruff clean"
    clean(crew, tmp_path / "landed", "main")
    assert crew.mine() == mine
    assert crew.facts(CommandsEnded)[-1].results[0].command == CLEAN


def test_a_dirty_checkout_on_the_target(crew: Crew) -> None:
    """Exit 0 and `ready` with one line why; neither the target nor the checkout moves."""
    lint(crew)
    repos.write(crew.repo, {"a.py": "import re  # mine\n"})
    mine = crew.mine(but="")

    done = crew.call("run", "make ruff clean")

    assert done.code == 0, done
    why = [line for line in done.out.splitlines() if "ready" in line]
    assert len(why) == 1
    assert "not committed" in why[0]
    landing = crew.state().landing
    assert landing is not None
    now = crew.mine(but=landing.branch)
    assert now == mine


def test_a_clean_checkout_on_the_target_moves_along(crew: Crew) -> None:
    """Mode local: the checkout of the target is fast-forwarded with its files."""
    lint(crew)

    assert crew.call("run", "make ruff clean").code == 0

    assert crew.git("status", "--porcelain") == ""
    assert "import os" not in (crew.repo / "a.py").read_text()


def test_a_house_with_everything(crew: Crew, tmp_path: Path) -> None:
    """A submodule, a hook that fails until ruff is clean, odd names, a detached HEAD, no remote: landed."""
    library = repos.make_repo(tmp_path / "library", {"lib.py": "x = 1\n"})
    repos.add_submodule(crew.repo, library)
    repos.commit(crew.repo, dict.fromkeys(repos.ODD_NAMES, "odd\n"), "odd names")
    lint(crew, verify={"gate": [CLEAN, "test -f lib/lib.py"]})
    repos.add_hook(crew.repo, "pre-commit", f"echo hooked >&2\nexec {CLEAN}")
    crew.git("checkout", "-q", "--detach")
    mine, base = crew.mine(), crew.git("rev-parse", "main")

    done = crew.call("run", "make ruff clean")

    assert done.code == 0, done
    assert crew.git("rev-list", "--count", f"{base}..main") == "1"
    assert set(crew.git("-c", "core.quotePath=false", "diff", "--name-only", base, "main").splitlines()) == set(LINT)
    assert crew.mine() == mine


def test_a_hook_that_never_passes_is_a_red_gate(crew: Crew) -> None:
    """A failing hook goes to the fixer with its words and is never bypassed."""
    lint(crew)
    repos.add_hook(crew.repo, "pre-commit", "echo no commits today; exit 1")
    crew.git("switch", "-qc", "mine")
    base = crew.git("rev-parse", "main")

    process = crew.start("run", "make ruff clean")
    crew.until(lambda event: type(event).__name__ == "DevFixTriggered", process)
    crew.call("cancel", crew.run)

    assert crew.end(process).code == 1
    assert crew.git("rev-parse", "main") == base
    assert not crew.facts(Landed)


def held(folder: Path, then: str) -> str:
    """A shell line that says it is there, waits until it may go on, and does `then`."""
    return f"touch {folder}/asked; while [ ! -e {folder}/moved ]; do sleep 0.02; done; {then}"


def test_the_target_moves_while_the_agent_works(crew: Crew, tmp_path: Path) -> None:
    """Mode push: rebased onto the moved tip, the gate run there, landed on top of it; the local branch stays the person's."""
    repos.commit(crew.repo, LINT, "with faults")
    agent = {**RUFF, "command": ["sh", "-c", held(tmp_path, "ruff check --no-cache --fix .")]}
    crew.settle(agent, land={"mode": "push", "target": "main"}, verify={"gate": [CLEAN]}, sandbox={"mode": "off"})
    remote, mine = repos.bare_remote(crew.repo, tmp_path / "remote.git"), crew.git("rev-parse", "main")

    process = crew.start("run", "make ruff clean")
    until(lambda: (tmp_path / "asked").exists() or process.poll() is not None)
    theirs = repos.move_remote(remote, {"other.txt": "theirs\n"})
    (tmp_path / "moved").touch()
    done = crew.end(process)

    assert done.code == 0, done
    assert repos.git(remote, "rev-parse", "main^") == theirs
    assert "import os" not in repos.shown(remote, "main", "a.py")
    assert [e.state for e in crew.facts(BaseSynced)].count("rebased") == 1
    assert crew.git("rev-parse", "main") == mine


def test_the_target_moves_between_gate_and_landing(crew: Crew, tmp_path: Path) -> None:
    """Law 7: what passed the gate on the old tip is not landed on the new one: rebased, the gate again, then on top of it."""
    repos.commit(crew.repo, LINT, "with faults")
    verify = {"gate": [CLEAN], "pre_gate": [held(tmp_path, "true")]}
    crew.settle(RUFF, land={"mode": "push", "target": "main"}, verify=verify, sandbox={"mode": "off"})
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")

    process = crew.start("run", "make ruff clean")
    until(lambda: (tmp_path / "asked").exists() or process.poll() is not None)
    theirs = repos.move_remote(remote, {"other.txt": "theirs\n"})
    (tmp_path / "moved").touch()
    done = crew.end(process)

    assert done.code == 0, done
    assert repos.git(remote, "rev-parse", "main^") == theirs
    assert [e.why for e in crew.facts(LandingRefused)] == ["moved"]
    assert [e.state for e in crew.facts(BaseSynced)] == ["same", "same", "rebased"]
    gates = [e for e in crew.facts(CommandsEnded) if e.results[0].command == CLEAN and e.green]
    assert [e.cached for e in gates] == [False, False]


def test_five_thousand_files(crew: Crew, tmp_path: Path) -> None:
    """The same with 5,000 files: landed as one commit, the checkout clean."""
    repos.commit(crew.repo, repos.many_files(5000), "many")
    lint(crew)
    crew.git("switch", "-qc", "mine")
    base = crew.git("rev-parse", "main")

    assert crew.call("run", "make ruff clean").code == 0

    assert crew.git("rev-list", "--count", f"{base}..main") == "1"
    assert crew.git("status", "--porcelain") == ""
    clean(crew, tmp_path / "landed", "main")

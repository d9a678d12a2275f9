"""A git that watches: first on PATH, it does what the real one does, and notes what no repository of the run can reach any more afterwards.

Stands on the standard library alone. `dress` puts it on a machine; `main` is what its `git` runs. Calls of agents and commands (they carry a mark)
pass unseen: what they do to their own files is their work. Also seen: commits that went between two calls, by hands that are not git's.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from support.crew import Crew

READS = """
rev-parse status for-each-ref rev-list cat-file diff diff-tree ls-tree ls-files ls-remote log config version var merge-base cherry show merge-tree
commit-tree hash-object write-tree
""".split()  # noqa: SIM905 — what moves nothing is not weighed
WRAPPER = """#!{python} -IS
import sys
sys.path.append({tests!r})
from support.watched import main
main({real!r}, {repo!r}, {home!r}, {log!r})
"""


def dress(crew: Crew) -> Path:
    """Have every nightcrew of this machine use the watching git; the file of what it saw, an object a line."""
    log, place = crew.folder / "watched.jsonl", crew.folder / "bin"
    place.mkdir()
    told = {"python": sys.executable, "tests": str(Path(__file__).parents[1]), "real": str(shutil.which("git"))}
    wrapper = WRAPPER.format(**told, repo=str(crew.repo), home=str(crew.state_home), log=str(log))
    (place / "git").write_text(wrapper)
    (place / "git").chmod(0o755)
    crew.env["PATH"] = f"{place}:{crew.env['PATH']}"
    log.touch()
    return log


def seen(log: Path) -> list[dict[str, object]]:
    """What was noted: for each call that may move something `words`, `lost` commits, `files` whose contents nothing has any more, and `dropped` refs."""
    return [json.loads(line) for line in log.read_text().splitlines()]


def _git(real: str, place: Path, *words: str, stdin: str = "") -> str:
    env = {"PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_OPTIONAL_LOCKS": "0"}
    argv = [real, "-c", "safe.directory=*", "-c", "core.quotePath=false", *words]
    return subprocess.run(argv, cwd=place, env=env, input=stdin, capture_output=True, text=True, check=False).stdout


def _reach(real: str, repo: Path, home: Path) -> tuple[set[str], set[str], dict[str, str]]:
    """Commits that refs, HEADs and reflogs reach, all their objects, and the contents of files that are not committed, with their paths."""
    commits: set[str] = set()
    objects: set[str] = set()
    dirty: dict[str, str] = {}
    slots = [path.parent for path in home.glob("worktrees/*/*/.git") if path.is_dir()]
    for place in (repo, *slots):
        words = ("rev-list", "--objects", "--all", "--reflog")
        told = (_git(real, place, *words, "HEAD") or _git(real, place, *words)).splitlines()  # a branch may have no commit yet
        commits |= {line for line in told if " " not in line}
        objects |= {line.split(" ")[0] for line in told}
        if place != repo:
            entries = _git(real, place, "status", "--porcelain", "-z", "-uall", "--no-renames").split("\0")
            paths = [entry[3:] for entry in entries if entry and (place / entry[3:]).is_file()]
            fed = "".join(f"{path}\n" for path in paths)
            ids = _git(real, place, "hash-object", "--no-filters", "--stdin-paths", stdin=fed).split() if paths else []
            dirty |= {one: f"{place.name}/{path}" for one, path in zip(ids, paths, strict=False)}
    return commits, objects, dirty


def main(real: str, repo: str, home: str, log: str) -> None:
    """Do what git does with the words of the command line, and note what became unreachable."""
    words = sys.argv[1:]
    verb = next((w for n, w in enumerate(words) if not w.startswith("-") and (n == 0 or words[n - 1] not in {"-c", "-C"})), "")
    if "NIGHTCREW_TURN" in os.environ or verb in READS:
        os.execv(real, [real, *words])  # noqa: S606
    with open(log, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        stdin = sys.stdin.buffer.read()
        before = _reach(real, Path(repo), Path(home))
        done = subprocess.run([real, *words], input=stdin, check=False)
        after = _reach(real, Path(repo), Path(home))
        file.seek(0)
        known = {one for line in file.read().splitlines()[-1:] for one in json.loads(line)["commits"]}
        lost = (before[0] | known) - after[0]
        files = [path for one, path in before[2].items() if one not in after[1] and one not in after[2]]
        dropped = [line.split()[1] for line in stdin.decode(errors="replace").splitlines() if line.startswith("delete ")]
        note = {
            "verb": verb,
            "words": words,
            "lost": sorted(lost),
            "files": files,
            "dropped": dropped,
            "commits": sorted(after[0]),
        }
        file.write(json.dumps(note) + "\n")
        file.flush()
    sys.exit(done.returncode)

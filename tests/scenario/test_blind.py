"""Blindness that is measured: a curious judge sees the same, byte for byte, whoever made what it judges; and not, without any one of the means."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from nightcrew.app import control
from nightcrew.core.events import RunStarted
from nightcrew.core.ids import RunId
from nightcrew.core.roster import AgentRole, Roles
from nightcrew.git import workspace
from nightcrew.git.repo import open_repo, repo_id
from nightcrew.git.workspace import Pool
from support import repos
from support.crew import LOCAL, USUAL, Crew, Turn, until

RUN = RunId("20260101-000000-a1b2")
SPY = Path(__file__).parent.parent / "support/spy.py"
NAMES = ("alpha", "beta")
WORK: list[dict[str, Any]] = [
    {"append": "note.txt", "text": "four, says {label}\n"},
    {"write": "more.txt", "text": "{label}\n"},
    {"run": "git add -A; git -c user.name={agent} -c user.email={agent}@example.org commit -qm 'by {agent}'"},
    {"say": "I am {agent}."},
]
ALL = "that is all\n"
Seen = list[list[Any]]


class Seat(NamedTuple):
    """A judge's seat as a run left it: the machine, what was seen from it, and how it was entered."""

    crew: Crew
    seen: Seen
    argv: list[str]
    env: dict[str, str]
    cwd: Path

    def again(self, *but: Path) -> Seen:
        """What is seen when the same seat is entered once more, the paths of `but` no longer hidden."""
        inside = self.argv.index("--")
        argv, at = [], 0
        while at < inside:
            size = 3 if self.argv[at] == "--dev-bind" else 2 if self.argv[at] in {"--tmpfs", "--remount-ro"} else 1
            words = self.argv[at : at + size]
            argv += [] if size > 1 and Path(words[-1]) in but else words
            at += size
        argv += ["--", sys.executable, "-I", "-S", str(SPY), *self.looked]
        done = subprocess.run(argv, cwd=self.cwd, env=self.env, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines()]

    @property
    def looked(self) -> list[str]:
        """The folders that are looked through."""
        return looked(self.crew)

    @property
    def pool(self) -> Pool:
        """The workspaces of the machine."""
        repo = open_repo(self.crew.repo, self.crew.env)
        return Pool(self.crew.state_home / "worktrees" / repo_id(repo), repo)


def looked(crew: Crew) -> list[str]:
    """The person's checkout and home, and all of nightcrew's own; the turn's folder without its times."""
    pools, others = crew.state_home / "worktrees", [crew.home / name for name in NAMES]
    return [str(path) for path in (crew.repo, crew.home / ".config", *others, pools)] + [f"-{crew.state_home}/runs"]


def judged(folder: Path, authors: tuple[str, ...]) -> Seat:
    """A run in that folder up to where the judge has seen all, the candidates made by `authors` in this order; nothing else differs."""
    crew = Crew(folder)
    spying = f"{sys.executable} -I -S {SPY} {' '.join(looked(crew))}"
    do = {"judge": [{"run": spying}, {"stderr": ALL}, {"hang": "plain"}], **dict.fromkeys(NAMES, WORK)}
    roster: list[Turn] = []
    for name, steps in do.items():
        script = crew.home / name / "script.json"
        (script.parent / "state").mkdir(parents=True)
        node = "judge" if name == "judge" else "implement"
        script.write_text(json.dumps({"turn": [{"node": node, "do": steps}, *USUAL]}))
        command, answers = [str(script), str(script.parent / "state")], ["edit", "text", "structured"]
        roster.append({"id": name, "kind": "scripted", "command": command, "answers": answers})
    pipeline = {"plan": False, "reviewers": 0, "implementers": 2, "judges": 1}
    roles = {"developer": list(NAMES), "judge": ["judge"]}
    crew.settle(*roster, pipeline=pipeline, roles=roles, land=LOCAL, sandbox={"mode": "bwrap"})
    crew.git("switch", "-qc", "mine")
    _begin(crew, authors)
    for place, _, names in os.walk(folder):
        for path in (place, *(os.path.join(place, name) for name in names)):
            os.utime(path, (0, 0), follow_symlinks=False)
    process = crew.start("resume", RUN)
    said = crew.state_home / f"runs/{RUN}/effects"
    until(lambda: any(path.read_text().endswith(ALL) for path in said.glob("StartTurn-judge-*/stderr")))
    crew.kill(process)
    crew.close()  # the turn, too: the run stands where the judge sits in its seat
    (told,) = said.glob("StartTurn-judge-*/stderr")
    seen = [json.loads(line) for line in told.read_text().removesuffix(ALL).splitlines()]
    assert [c.agent for _, c in sorted(crew.state(RUN).candidates.items())] in (list(authors), list(reversed(authors)))
    first = next(what for where, what in seen if where == "process")
    slot = crew.state(RUN).workspaces["judge-1"].slot  # type: ignore[index]
    return Seat(crew, seen, first["cmdline"][:-1], dict(seen[0][1]), next(crew.state_home.glob(f"worktrees/*/{slot}")))


def _begin(crew: Crew, authors: tuple[str, ...]) -> None:
    """A run of a known name and seed, otherwise as a person would start it."""
    run = control.start(crew.repo, crew.env, "write the note")
    journal = crew.journal()
    first = crew.entries(run)[0].event
    assert isinstance(first, RunStarted)
    roles = Roles({**first.roles.chains, AgentRole.Developer: authors})  # type: ignore[dict-item]
    journal.create(RUN, first.repo, first.task.title, 0.0, replace(first, run=RUN, seed="seed", roles=roles))
    journal.set_place(f"checkout/{RUN}", crew.repo)
    shutil.rmtree(journal.folder(run))


def own(seat: Seat) -> Seen:
    """Entered once more as it is."""
    return seat.again()


def shown(*paths: str) -> Callable[[Seat], Seen]:
    """Those folders are not hidden."""
    return lambda seat: seat.again(*(seat.crew.folder / path for path in paths))


def heads(seat: Seat) -> Seen:
    """The judge is given the authors' own commits."""
    state = seat.crew.state(RUN)
    workspace.lease(seat.pool, RUN, "judge-1", state.base, sees=tuple(c.change.head for _, c in sorted(state.candidates.items())))
    return seat.again()


def store(seat: Seat) -> Seen:
    """The judge's store holds what others in the run have, too."""
    repos.git(seat.cwd, "fetch", "-q", str(seat.crew.repo), f"refs/nightcrew/{RUN}/*:refs/run/*")
    return seat.again()


def times(seat: Seat) -> Seen:
    """The files of the judge's workspace have the times at which they were written."""
    (seat.cwd / "note.txt").touch()
    return seat.again()


def space(seat: Seat) -> Seen:
    """All processes of the machine are seen; one of them is another turn of the author of A."""
    author = seat.crew.state(RUN).candidates["A"].agent  # type: ignore[index]
    other = subprocess.Popen([sys.executable, "-c", "input()", told := f"agent={author}"], stdin=subprocess.PIPE)
    try:
        seen = seat._replace(argv=[word for word in seat.argv if word != "--unshare-pid"]).again()
        return [what["cmdline"] for where, what in seen if where == "process" and told in what["cmdline"]]
    finally:
        other.communicate(b"\n")


MEANS: dict[str, Callable[[Seat], Seen]] = {
    "the person's git folder is hidden": shown("repo/.git"),
    "nightcrew's own folder is hidden": shown("nightcrew"),
    "what other agents keep is hidden": shown(*(f"home/{name}/state" for name in NAMES)),
    "processes have a space of their own": space,
    "the workspace is without times": times,
    "the store holds nothing else": store,
    "commits are neutral": heads,
}
Told = dict[str, Seen]


@pytest.fixture(scope="module")
def told() -> Iterator[tuple[Told, Told]]:
    """What is seen from the same seat, also without each of the means, in two runs between which only the authors changed places."""
    # A sandbox shows this folder, as it does a person's home; the one for temporary things is another one there.
    place = Path(tempfile.mkdtemp(prefix="seat-", dir="/var/tmp"))
    found: list[Told] = []
    for authors in (NAMES, NAMES[::-1]):
        seat = judged(place / "machine", authors)
        found.append({"": seat.seen, "again": own(seat), **{name: without(seat) for name, without in MEANS.items()}})
        seat.crew.close()
        shutil.rmtree(place / "machine")
    yield found[0], found[1]
    place.rmdir()


@pytest.mark.parametrize("how", ["", "again"])
def test_a_judge_sees_the_same_whoever_the_authors_are(told: tuple[Told, Told], how: str) -> None:
    """Environment, processes, mounts, files with their times, git's objects and reflogs, home and prompt: all of it is equal, and there is much."""
    one, other = (run[how] for run in told)
    assert [pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]] == []
    assert len(one) == len(other) > 50
    text = json.dumps(one)
    assert all(word in text for word in ("candidate A", "prompt.md", "NIGHTCREW_TURN", "note.txt"))


@pytest.mark.parametrize("name", MEANS)
def test_each_of_the_means_is_needed(told: tuple[Told, Told], name: str) -> None:
    """With one of them off, the curious judge finds a difference."""
    one, other = (run[name] for run in told)
    assert one != other

"""A machine of its own for a whole run: HOME, settings, a real repository, scripted agents, and nightcrew as real processes.

Stories wait for entries of the journal, never for time; a bound on waiting only turns a hang into a failure.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from nightcrew.core.events import EffectBegun, Entry, Event
from nightcrew.core.ids import RunId
from nightcrew.core.reducer import begin, reduce
from nightcrew.core.state import RunState
from nightcrew.journal.store import Journal
from nightcrew.proc import job
from support import repos

HANG_S = float(os.environ.get("HANG", "60"))
"""After this long a wait is a hang; no story is about times."""

DROPS = "-dac_override,-dac_read_search"
ANYBODY = ("setpriv", f"--bounding-set={DROPS}", f"--inh-caps={DROPS}") if os.geteuid() == 0 else ()
"""Before a command line: it is held to the rights of files, as everybody but root is."""

Turn = dict[str, Any]
Steps = list[dict[str, Any]]

APPROVES = '{"vote": "approve", "findings": []}'
SUBJECT = '{"subject": "Write the note", "body": "As asked."}'
SEVERITY = "blocker"
LOCAL = {"mode": "local", "target": "main"}


def rejects(*whys: str, severity: str = SEVERITY) -> str:
    """A reviewer's answer with these findings."""
    findings = [{"severity": severity, "why": why, "file": "note.txt", "line": 1, "check": "look"} for why in whys]
    return json.dumps({"vote": "reject", "findings": findings})


class Done(NamedTuple):
    """A nightcrew that ended: its exit code, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def line(self) -> str:
        """The one line it said on stderr; the test fails when it said more, or let a traceback out."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert "Traceback" not in self.err
        assert self.code != 70, self.err
        return lines[0]


class Crew:
    """One person's machine. Settings go to the machine's file, so that the repository stays as the story wants it."""

    def __init__(self, folder: Path) -> None:
        """Make the folders and a repository of two files; agents and script come next."""
        self.folder = folder
        self.home = folder / "home"
        self.state_home = folder / "nightcrew"
        self.played = self.home / "played"
        self.script = self.home / "script.json"
        self.played.mkdir(parents=True)
        self.repo = repos.make_repo(folder / "repo")
        self.env = self._environment()
        self.argv: tuple[str, ...] = (sys.executable, "-m", "nightcrew")
        self.driven: list[subprocess.Popen[str]] = []
        self._journal: Journal | None = None

    def _environment(self) -> dict[str, str]:
        venv = str(Path(sys.executable).parent)
        return {
            **os.environ,
            "PATH": f"{venv}:{os.environ['PATH']}",
            "HOME": str(self.home),
            "NIGHTCREW_HOME": str(self.state_home),
            "XDG_CONFIG_HOME": str(self.home / ".config"),
            "XDG_STATE_HOME": str(self.home / ".local/state"),
            "PYTHONFAULTHANDLER": "1",
        }

    # ── settings ──────────────────────────────────────────────────────────────────────────────────────────────────

    def agents(self, *ids: str, answers: Sequence[str] = ("edit", "text", "structured")) -> list[Turn]:
        """Scripted agents that all play the one script."""
        command = [str(self.script), str(self.played)]
        return [{"id": i, "kind": "scripted", "command": command, "answers": list(answers)} for i in ids]

    def settle(self, *agents: Turn, **tables: Any) -> None:
        """Write the machine's file: these agents (else one, `alpha`) and these tables."""
        text = [_toml("[[agents]]", agent) for agent in agents or self.agents("alpha")]
        text += [_toml(f"[{name}]", table) for name, table in tables.items()]
        path = self.home / ".config/nightcrew/config.toml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(text))

    def solo(self, *turns: Turn, gate: str = "grep -q four note.txt", **tables: Any) -> None:
        """The smallest run: one agent that implements and writes the message, landing on `main` beside the person's checkout."""
        small = {"pipeline": {"plan": False, "reviewers": 0}, "land": LOCAL, "verify": {"gate": [gate]}}
        self.settle(**{**small, **tables})
        self.git("switch", "-qc", "mine")
        self.play(*turns)

    def as_anybody(self) -> None:
        """From now on nightcrew is held to the rights of files, as everybody but root is."""
        self.argv = (*ANYBODY, *self.argv)

    def play(self, *turns: Turn) -> None:
        """Write the script; what it does not name is answered as by an agent that does its duty."""
        self.script.write_text(json.dumps({"turn": [*turns, *USUAL]}))

    # ── nightcrew as a process ────────────────────────────────────────────────────────────────────────────────────

    def start(self, *args: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> subprocess.Popen[str]:
        """`nightcrew …` in the repository, running."""
        process = subprocess.Popen(
            [*self.argv, *args],
            cwd=cwd or self.repo,
            env=self.env if env is None else env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.driven.append(process)
        return process

    def call(self, *args: str, cwd: Path | None = None, env: dict[str, str] | None = None) -> Done:
        """`nightcrew …` to its end."""
        return self.end(self.start(*args, cwd=cwd, env=env))

    def answer(self, *words: str) -> Done:
        """`nightcrew answer` for the newest run, and the end of the process of its own that drives it then."""
        done = self.call("answer", self.run, *words)
        self.rest()
        return done

    def rest(self, run: RunId | None = None) -> None:
        """Wait until nobody drives a run."""
        until(lambda: self.journal().holder(run or self.run) is None)

    def end(self, process: subprocess.Popen[str]) -> Done:
        """Wait for the end of a process."""
        try:
            out, err = process.communicate(timeout=HANG_S)
        except subprocess.TimeoutExpired:
            self.kill(process)
            raise AssertionError(f"it hangs:\n{self.told()}") from None
        assert "Traceback" not in out + err, out + err
        return Done(process.returncode, out, err)

    def kill(self, process: subprocess.Popen[str]) -> None:
        """kill -9, as a machine would."""
        process.kill()
        process.communicate()

    def close(self) -> None:
        """End what a failed story left running: drivers, then the jobs of their turns and commands."""
        for process in self.driven:
            if process.poll() is None:
                process.kill()
            process.communicate()
        for run in self.runs():  # and the drivers that went on by themselves
            if pid := self.journal().holder(run):
                with suppress(ProcessLookupError):  # it may have ended by now
                    os.kill(pid, signal.SIGKILL)
                self.rest(run)
        folders = [owner.parent for owner in self.state_home.glob("runs/*/effects/**/owner")]
        for folder in folders:
            job.stop(folder)
        until(lambda: not any(isinstance(job.look(folder), job.Running) for folder in folders))
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    # ── what came of it ───────────────────────────────────────────────────────────────────────────────────────────

    def journal(self) -> Journal:
        """The machine's journal, opened once."""
        self._journal = self._journal or Journal(self.state_home)
        return self._journal

    def runs(self) -> list[RunId]:
        """All runs, the newest first."""
        if not (self.state_home / "journal.db").exists():
            return []
        return list(self.journal().recent(100))

    @property
    def run(self) -> RunId:
        """The only run, or the newest."""
        return self.runs()[0]

    def entries(self, run: RunId | None = None) -> list[Entry]:
        """A run's facts."""
        return list(self.journal().entries(run or self.run))

    def facts(self, kind: type[Any], run: RunId | None = None) -> list[Any]:
        """A run's facts of one kind."""
        return [entry.event for entry in self.entries(run) if isinstance(entry.event, kind)]

    def state(self, run: RunId | None = None) -> RunState:
        """A run as its facts tell it."""
        entries = self.entries(run)
        state = begin(entries[0])
        for entry in entries[1:]:
            state = reduce(state, entry)
        return state

    def until(self, said: Callable[[Event], bool], process: subprocess.Popen[str], run: RunId | None = None) -> Entry:
        """Wait for the first fact that `said` is true of, while `process` lives; it may come with the last breath."""
        late, after = time.monotonic() + HANG_S, 0
        while True:
            alive = process.poll() is None
            run = run or next(iter(self.runs()), None)
            for entry in self.journal().entries(run, after) if run else ():
                after = entry.seq
                if said(entry.event):
                    return entry
            if not alive:
                raise AssertionError(f"ended without it: {process.communicate()}\n{self.told()}")
            assert time.monotonic() < late, f"never came: {self.told()}"
            time.sleep(0.02)

    def begun(self, process: subprocess.Popen[str], seat: str, run: RunId | None = None) -> Entry:
        """Wait until a turn in `seat` really runs and its agent has begun to play."""
        run = run or self.run_of(process)
        entry = self.until(lambda e: isinstance(e, EffectBegun) and f"/{seat}/" in e.key, process, run)
        until(lambda: any(start["seat"] == seat and start["run"] == run for start in self.starts()))
        return entry

    def run_of(self, process: subprocess.Popen[str]) -> RunId:
        """The run that a process drives, once it does."""
        found: list[RunId] = []

        def driven() -> bool:
            holders = ((run, self.journal().holder(run)) for run in self.runs())
            found.extend(run for run, holder in holders if holder == process.pid)
            return bool(found) or process.poll() is not None

        until(driven)
        return found[0]

    def supervisor(self, node: str) -> job.Running:
        """The supervisor of the only turn at `node`, which runs."""
        (owner,) = self.state_home.glob(f"runs/*/effects/StartTurn-{node}-*/owner")
        found = job.look(owner.parent)
        assert isinstance(found, job.Running), found
        return found

    def starts(self) -> list[dict[str, Any]]:
        """The agent PROCESSES, as each of them noted its own start."""
        path = self.played / "starts.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def seats(self) -> list[str]:
        """Who was started, in order: `agent@node`."""
        return [f"{start['agent']}@{start['node']}" for start in self.starts()]

    def told(self) -> str:
        """The facts by name, for a failing test."""
        if not self.runs():
            return "no run"
        return "\n".join(
            f"{e.seq} {type(e.event).__name__} {getattr(e.event, 'key', '')} {getattr(e.event, 'reason', '')}"
            for e in self.entries()
        )

    def git(self, *args: str) -> str:
        """What git says in the repository."""
        return repos.git(self.repo, *args)

    def mine(self, but: str = "main") -> object:
        """All that is the person's: refs (but for the target), HEAD, the index's and the files' every byte, without the marker."""
        ours, head, status, files = repos.state(self.repo)
        kept = {name: commit for name, commit in ours.items() if name != f"refs/heads/{but}"}
        files = {name: data for name, data in files.items() if not name.startswith(".agent/")}
        return kept, head, status, files

    def shown(self, commit: str, path: str) -> str:
        """A file in a commit."""
        return repos.shown(self.repo, commit, path)


USUAL: Steps = [
    {"node": "plan", "do": [{"say": "Write note.txt."}]},
    {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"say": "Done."}]},
    {"node": "review", "do": [{"say": APPROVES}]},
    {"node": "commit", "do": [{"say": SUBJECT}]},
    {"do": [{"say": "Nothing to do."}]},
]
"""An agent that does its duty at each node; it comes after what the story says."""


def carriers(word: str) -> list[Path]:
    """The processes whose command line holds a word."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if word.encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def until(true: Callable[[], object]) -> None:
    """Wait until something is true."""
    late = time.monotonic() + HANG_S
    while not true():
        assert time.monotonic() < late, "it never came"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _toml(head: str, table: dict[str, Any]) -> str:
    return "\n".join([head, *(f"{key} = {_value(value)}" for key, value in table.items()), ""])


def _value(value: Any) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_value(one)}" for key, one in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)

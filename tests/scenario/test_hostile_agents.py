"""Agents as nobody would write them: what they print, fork, close, fill and rewrite ends no run, and nothing of it stays.

More of the kind, beside what each breaks: git of the workspace (`test_landing`), its folder (`test_bad_input`), links (`unit/git/test_links`),
the person's files and keys (`test_house_rules`), supervisors and limits (`unit/proc`), hooks (`test_odd_hosts`, `test_operator`).
"""

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nightcrew.core.events import Noted, TurnEnded, WorkspaceReset
from nightcrew.core.work import Class
from scenario.test_unattended import typed
from support import repos, weighed
from support.crew import Crew, carriers, until

MODES = pytest.mark.parametrize("mode", ["bwrap", "unshare", "off"])
WORK = {"append": "note.txt", "text": "four\n"}
ALLOWED_KIB = 80_000
MEGABYTE = 1_000_000


def lands(crew: Crew, *steps: dict[str, Any], mode: str = "auto", **tables: Any) -> None:
    """A run whose agent does `steps`: it lands, by one turn that nobody had to repeat."""
    crew.solo({"node": "implement", "do": list(steps)}, sandbox={"mode": mode}, **tables)
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert crew.shown("main", "note.txt").endswith("four\n")


def by(crew: Crew, script: str, mode: str = "auto") -> None:
    """The same with a plain shell line as the agent."""
    shell = {"id": "shell", "kind": "command", "command": ["sh", "-c", script]}
    crew.solo(sandbox={"mode": mode})
    crew.settle(
        shell, land={"mode": "local", "target": "main"}, verify={"gate": ["grep -q four note.txt"]}, sandbox={"mode": mode}
    )
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert len(crew.facts(TurnEnded)) == 1


def weight(crew: Crew, *words: str) -> int:
    """The peak memory of the nightcrew that does `words`, in KiB; its exit code is 0."""
    told = crew.folder / "weight"
    done = subprocess.run(
        [sys.executable, weighed.__file__, str(told), *words], cwd=crew.repo, env=crew.env, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return int(told.read_text())


@pytest.fixture
def nap(crew: Crew) -> str:
    """A span to sleep that only processes of this test have."""
    return f"98765.{abs(hash(str(crew.folder))) % 10**9}"


def test_a_hundred_megabytes_weigh_nothing(crew: Crew) -> None:
    """An agent prints 100 MB without a line end, the gate another 100: it lands, and nightcrew never had 80 MB in use."""
    flood = f"head -c {100 * MEGABYTE} /dev/zero | tr '\\0' x"
    agent = {"node": "implement", "do": [WORK, {"flood": 100 * MEGABYTE, "newline": False}, {"raw": "\n"}, {"say": "Done."}]}
    crew.solo(agent, gate=f"{flood}; grep -q four note.txt")

    peak = weight(crew, "run", "write the note")

    assert crew.shown("main", "note.txt").endswith("four\n")
    assert peak <= ALLOWED_KIB, f"{peak} KiB"


def test_a_huge_answer_weighs_nothing(crew: Crew) -> None:
    """The same where all that is printed is the answer, as of a plain program."""
    shell = {
        "id": "shell",
        "kind": "command",
        "command": ["sh", "-c", f"head -c {100 * MEGABYTE} /dev/zero; echo four >> note.txt"],
    }
    crew.solo()
    crew.settle(shell, land={"mode": "local", "target": "main"}, verify={"gate": ["grep -q four note.txt"]})

    peak = weight(crew, "run", "write the note")

    assert peak <= ALLOWED_KIB, f"{peak} KiB"


def test_huge_files_weigh_nothing(crew: Crew) -> None:
    """An agent makes files of 60 and 10 MB, text and not: they land, and are never read into memory."""
    text = f"yes 'a line of text' | head -c {60 * MEGABYTE} > big.txt; head -c {10 * MEGABYTE} /dev/urandom > big.bin"
    crew.solo({"node": "implement", "do": [WORK, {"run": text}]})

    peak = weight(crew, "run", "write the note")

    assert {"big.bin", "big.txt"} <= set(crew.git("ls-tree", "--name-only", "main").splitlines())
    assert peak <= ALLOWED_KIB, f"{peak} KiB"


@pytest.mark.parametrize(
    "junk", ["\0\0\0", '\xff\xfe\xc3{"event": "resu', '{"event": "result", "ok": tr', "[" * 100_000, '{"event": 1}\n']
)
def test_bytes_that_are_no_answer(crew: Crew, junk: str) -> None:
    """NUL, bytes that are no UTF-8, half an object, a deep one, one of another shape: passed over, the closing event decides."""
    lands(crew, {"raw": junk}, WORK, {"raw": "\n"}, {"stderr": junk})


@MODES
def test_words_after_the_end(crew: Crew, mode: str, nap: str) -> None:
    """A child that holds stdout open and talks on after its parent left: nobody waits for it, and it does not outlive the turn."""
    talks = f"while :; do echo and another thing, {nap}; sleep 0.2; done"
    lands(crew, WORK, {"fork": talks, "how": "setsid"}, mode=mode)
    until(lambda: not carriers(nap))


@MODES
def test_a_bomb_within_limits(crew: Crew, mode: str, nap: str) -> None:
    """Hundreds of processes, deaf ones that fork on while they are being killed: all gone when the run is."""
    tree = f'f() {{ if [ "$1" -gt 0 ]; then f $(($1-1)) & f $(($1-1)) & fi; exec sleep {nap}; }}; f 7 &'
    again = f"trap '' TERM HUP INT; while :; do sleep {nap} & sleep 0.05; done"
    lands(crew, WORK, {"run": tree}, {"fork": again, "how": "daemon"}, {"run": "sleep 0.3"}, mode=mode)
    assert carriers(nap) == []


@MODES
def test_a_server_left_behind(crew: Crew, mode: str) -> None:
    """A server in the background is gone with the turn: its port is free again."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    serves = f"exec {sys.executable} -m http.server -b 127.0.0.1 {port}"
    up = f"until {sys.executable} -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}))'; do sleep 0.1; done"
    lands(crew, WORK, {"fork": serves, "how": "daemon"}, {"run": up}, mode=mode)
    with socket.socket() as again:
        assert again.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("mode", ["bwrap", "unshare"])
def test_kill_everything(crew: Crew, mode: str) -> None:
    """`kill -9 -1` reaches nothing but the turn itself: a crash, asked once more, landed. Not tried where it would reach the machine."""
    ours = os.readlink("/proc/self/ns/pid")
    kills = f'if [ "$(readlink /proc/self/ns/pid)" = "{ours}" ]; then touch {crew.played}/everybody; else kill -9 -1; fi'
    crew.solo({"node": "implement", "turn": 1, "do": [{"run": kills}, {"exit": 1}]}, sandbox={"mode": mode})
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert not (crew.played / "everybody").exists()
    assert crew.seats()[-1] == "alpha@commit"
    assert crew.shown("main", "note.txt").endswith("four\n")


def test_nobody_to_ask(crew: Crew) -> None:
    """A program that asks: its input ends, there is no terminal to open; it is not waited for."""
    by(crew, 'cat > /dev/null; read answer; test -z "$answer" && ! (read x < /dev/tty) 2> /dev/null && echo four >> note.txt')


@MODES
def test_the_persons_terminal_is_out_of_reach(crew: Crew, mode: str) -> None:
    """The same where a person sits at a terminal: no program of an agent can open it, to ask or to type there."""
    crew.solo(
        {"node": "implement", "do": [WORK, {"run": "(: < /dev/tty) 2>/dev/null && touch opened; true"}]}, sandbox={"mode": mode}
    )
    shown = typed(crew, "run", "write the note")
    assert "status 0" in shown, shown
    assert crew.git("ls-tree", "--name-only", "main").splitlines() == ["note.txt", "src"]


def test_closed_output(crew: Crew) -> None:
    """A program that closes its output at once works on, and its end is its word."""
    by(crew, "exec >&- 2>&-; sleep 0.3; echo four >> note.txt")


def test_a_megabyte_of_task(crew: Crew, tmp_path: Path) -> None:
    """A task of 1 MB reaches the agent to its last word."""
    task = tmp_path / "task.txt"
    task.write_text("first words\n" + "all of it matters\n" * 60_000 + "last words\n")
    crew.solo({"node": "implement", "do": [{"must_read": "first words"}, {"must_read": "last words"}, WORK]})
    done = crew.call("run", "--file", str(task))
    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_no_program_of_an_agents_settings_runs(crew: Crew, tmp_path: Path) -> None:
    """Programs that an agent names in its workspace's `.git` are never run by our git, which no sandbox holds."""
    trap = tmp_path / "ran"
    evil = f"touch {trap}; cat"
    names = """
        core.fsmonitor core.sshCommand core.editor core.pager core.askPass core.alternateRefsCommand diff.external gpg.program
        filter.evil.clean filter.evil.smudge filter.evil.process merge.evil.driver diff.evil.textconv diff.evil.command
        sequence.editor credential.helper uploadpack.packObjectsHook pager.status pager.diff
    """.split()  # noqa: SIM905 — a list of settings, each of which names a program
    config = "".join(f"git config -f .git/config {name} '{evil}'; " for name in names)
    more = (
        "git config -f .git/config core.hooksPath .git/hooks; git config -f .git/config commit.gpgSign true; "
        "git config -f .git/config include.path more; mkdir -p .git/info .git/hooks; echo '* filter=evil diff=evil merge=evil' > .git/info/attributes; "
        f"for h in pre-commit post-checkout post-index-change reference-transaction post-commit post-rewrite prepare-commit-msg; do "
        f"printf '#!/bin/sh\\ntouch {trap}\\n' > .git/hooks/$h; chmod +x .git/hooks/$h; done; "
        "echo '*.txt filter=evil diff=evil merge=evil' > .gitattributes"
    )
    lands(crew, WORK, {"run": config + more}, mode="off")
    assert not trap.exists()


def test_the_persons_checkout_is_looked_at(crew: Crew) -> None:
    """Where no sandbox holds files, a turn that writes into the person's checkout is told, by git; the work lands all the same."""
    lands(crew, WORK, {"run": f"echo mine > {crew.repo}/src/code.py; echo new > '{crew.repo}/added by it.txt'"}, mode="off")
    (note,) = [fact.text for fact in crew.facts(Noted) if "checkout" in fact.text]
    assert "src/code.py" in note
    assert "added by it.txt" in note
    assert "impl-A" in note


def test_a_person_at_work_is_not_told_of(crew: Crew) -> None:
    """A checkout that is as dirty as it was before the turn is no news; a sandbox that holds files needs no look."""
    repos.write(crew.repo, {"src/code.py": "print(2)\n", "new.txt": "x\n"})
    lands(crew, WORK, mode="off")
    assert crew.facts(Noted) == []


def test_an_agent_fills_the_disk(crew: Crew, small: Path) -> None:
    """The agent itself takes all the room there is: one line, exit 1; with room again its finished turn is read, nobody is asked again."""
    crew.solo({"node": "implement", "do": [WORK, {"run": "cat /dev/zero > big.bin 2>/dev/null"}]}, sandbox={"mode": "off"})
    done = crew.call("run", "write the note")
    assert done.code == 1, done
    assert len(done.err.splitlines()) == 1
    (big,) = small.rglob("big.bin")
    big.unlink()

    again = crew.call("resume", crew.run)

    assert again.code == 0, again
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert crew.shown("main", "note.txt").endswith("four\n")


MEDDLING = [
    "echo x > mine.txt",
    "echo x >> note.txt",
    "rm note.txt",
    "echo x >> note.txt; git commit -qam mine",
    "git commit -q --amend --allow-empty -m other",
    "echo x >> note.txt; git add -A",
    "rm -rf .git; git init -q; git commit -q --allow-empty -m mine",
]


@pytest.mark.parametrize("meddling", MEDDLING)
def test_who_may_only_read_changed_something(crew: Crew, meddling: str) -> None:
    """Without a sandbox for files git tells: the answer of a reading seat is void and on record, what it did is undone and lands nowhere."""
    approves = {"say": '{"vote": "approve", "findings": []}'}
    crew.solo(
        {"node": "review", "turn": 1, "do": [{"run": meddling}, approves]}, pipeline={"plan": False}, sandbox={"mode": "off"}
    )
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    ends = [fact.outcome for fact in crew.facts(TurnEnded) if "/review/" in fact.key]
    assert [(end.violated, end.kind is Class.Ok) for end in ends] == [(True, False), (False, True)]
    assert crew.git("ls-tree", "--name-only", "main").splitlines() == ["note.txt", "src"]
    assert crew.shown("main", "note.txt") == "one\ntwo\nthree\nfour\n"


def test_who_may_only_read_cannot_write(crew: Crew) -> None:
    """Under bwrap a reading seat's workspace is read-only: nothing changes, so its answer counts."""
    tries = [{"run": f"({line}) 2>/dev/null"} for line in MEDDLING]
    approves = {"say": '{"vote": "approve", "findings": []}'}
    crew.solo({"node": "review", "do": [*tries, approves]}, pipeline={"plan": False}, sandbox={"mode": "bwrap"})
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert [fact.outcome.violated for fact in crew.facts(TurnEnded)] == [False] * 3
    assert crew.facts(WorkspaceReset) == []

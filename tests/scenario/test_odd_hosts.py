"""Repositories and machines that are not as in the book: hooks that write, no identity, signing, locks, branches that go."""

import shutil
import subprocess
from pathlib import Path

import pytest

from nightcrew.core.events import CommitMade, CommitRefused, DevFixTriggered, Landed, LandingRefused, RunStarted
from nightcrew.core.ids import short
from support import repos
from support.crew import Crew, Turn, rejects

HOLDS: Turn = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"wait_for": "{state}/go"}]}


def test_the_remote_is_ahead(crew: Crew, tmp_path: Path) -> None:
    """T068: the run starts from the remote's tip, not from the local branch that lags behind."""
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")
    ahead = repos.move_remote(remote, {"new.txt": "x\n"})
    crew.solo(land={"mode": "push", "target": "main"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.facts(RunStarted)[0].base == ahead
    assert repos.git(remote, "rev-parse", "main^") == ahead


def test_an_unreachable_remote(crew: Crew) -> None:
    """No network is no reason not to begin: the local tip with a note; the finished branch is there."""
    crew.git("remote", "add", "origin", "/nowhere/at/all.git")
    crew.solo(land={"mode": "branch", "target": "main"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert [note for note in crew.facts(RunStarted)[0].notes if "remote" in note or "origin" in note]


def test_workspaces_are_given_back(crew: Crew) -> None:
    """T060: at the end every slot is free; the next run works in the same ones and sees nothing of the first."""
    repos.commit(crew.repo, {".gitignore": "*.tmp\n"})
    crew.solo({"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"write": "x.tmp"}]})
    assert crew.call("run", "write the note").code == 0
    slots = sorted(p.parent.name for p in (crew.state_home / "worktrees").rglob("note.txt"))
    crew.play(
        {
            "node": "implement",
            "do": [{"run": "test ! -e x.tmp || echo stale > stale.txt"}, {"append": "note.txt", "text": "five\n"}],
        }
    )

    assert crew.call("run", "write it again").code == 0

    assert sorted(p.parent.name for p in (crew.state_home / "worktrees").rglob("note.txt")) == slots
    assert "stale.txt" not in crew.git("ls-tree", "-r", "--name-only", "main")


def test_a_hook_that_formats(crew: Crew) -> None:
    """Rulings 18: a pre-commit hook that changes the tree: the gate runs again on what it made, and that lands."""
    repos.add_hook(crew.repo, "pre-commit", "[ -e style.txt ] || { echo styled > style.txt; git add style.txt; }")
    crew.solo()

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.shown("main", "style.txt") == "styled\n"
    assert len(crew.facts(CommitMade)) == 2


def test_a_message_hook(crew: Crew) -> None:
    """commit-msg and prepare-commit-msg are asked as git would ask them, in the sandbox; what they write is the message."""
    repos.add_hook(crew.repo, "commit-msg", 'echo "Checked-by: hook" >> "$1"')
    crew.solo()

    assert crew.call("run", "write the note").code == 0

    assert crew.git("log", "-1", "--format=%B", "main").endswith("Checked-by: hook")


def test_a_message_hook_that_leaves_a_link(crew: Crew) -> None:
    """What a hook put in the message's place is no way to what the sandbox hides: a link is not followed, the message stays."""
    (crew.home / ".ssh").mkdir()
    (crew.home / ".ssh/id").write_text("very secret words\n")
    repos.add_hook(crew.repo, "commit-msg", f'ln -sf {crew.home}/.ssh/id "$1"')
    crew.solo(sandbox={"mode": "bwrap"})

    assert crew.call("run", "write the note").code == 0

    assert crew.git("log", "-1", "--format=%B", "main").strip() == "Write the note\n\nAs asked."


def test_a_hook_that_was_never_seen_green(crew: Crew) -> None:
    """A pre-commit hook that says no: its words reach the fixer, whose work passes it."""
    repos.add_hook(crew.repo, "pre-commit", "test -e licence.txt || { echo no licence here; exit 1; }")
    crew.solo({"node": "gate-fix", "do": [{"must_read": "no licence here"}, {"write": "licence.txt"}]})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert [e.hook for e in crew.facts(CommitRefused)] == ["pre-commit"]
    assert "licence.txt" in crew.git("ls-tree", "--name-only", "main")


def test_a_push_hook(crew: Crew, tmp_path: Path) -> None:
    """pre-push runs before the push, with what git would tell it; it runs once."""
    repos.bare_remote(crew.repo, tmp_path / "remote.git")
    repos.add_hook(
        crew.repo, "pre-push", 'read ref commit there old; test -n "$old" && test "$1" = origin && git cat-file -e "$commit"'
    )
    crew.solo(land={"mode": "push", "target": "main"})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.facts(LandingRefused) == []


def test_no_identity(crew: Crew) -> None:
    """git does not know who the person is: one line before anybody is paid."""
    crew.solo()
    (crew.home / "empty").write_text("")
    env = {**crew.env, "GIT_CONFIG_GLOBAL": str(crew.home / "empty")}
    for name in ("EMAIL", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL"):
        env.pop(name, None)

    done = crew.call("run", "write the note", env=env)

    assert done.code == 2, done
    assert "user.name" in done.line or "user.email" in done.line
    assert crew.starts() == []


def test_a_lock_left_in_the_repository(crew: Crew) -> None:
    """A stale index.lock of the person's own checkout does not disturb a landing elsewhere, and is left alone."""
    crew.solo()
    lock = crew.repo / ".git/index.lock"
    lock.touch()

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert lock.exists()
    assert len(crew.facts(Landed)) == 1


def test_the_target_is_deleted(crew: Crew) -> None:
    """The target branch goes while the agent works: a question that names it, no recovery, nothing made by force; brought back, it lands."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    tip = crew.git("rev-parse", "main")
    crew.git("branch", "-D", "main")
    (crew.played / "go").touch()

    done = crew.end(process)

    assert done.code == 1, done
    assert "no branch main here" in done.out
    assert f"nightcrew answer {short(crew.run)} go" in done.out
    assert "refs/heads/main" not in repos.refs(crew.repo)
    assert crew.facts(DevFixTriggered) == []
    crew.git("branch", "main", tip)
    assert crew.answer("go").code == 0
    assert len(crew.facts(Landed)) == 1
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_the_person_goes_on_working(crew: Crew) -> None:
    """The person checks the target out and edits it while the agent works: `ready`, nothing of theirs is touched."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    crew.git("switch", "-q", "main")
    repos.write(crew.repo, {"note.txt": "mine\n"})
    (crew.played / "go").touch()

    done = crew.end(process)

    assert done.code == 0, done
    assert "ready" in done.out
    assert (crew.repo / "note.txt").read_text() == "mine\n"
    assert f"nightcrew/{short(crew.run)}/A" in done.out


def test_a_contested_work_asks_before_it_lands(crew: Crew) -> None:
    """T090, rulings 33: a reject without a blocking finding: landing asks; `no` leaves the finished branch."""
    crew.solo({"node": "review", "do": [{"say": rejects("ugly", severity="minor")}]}, pipeline={"plan": False})
    base = crew.git("rev-parse", "main")
    done = crew.call("run", "write the note")
    assert done.code == 1, done
    assert "nightcrew answer" in done.out

    again = crew.answer("no")

    assert again.code == 0, again
    assert "ready" in crew.call("list").out
    assert crew.git("rev-parse", "main") == base


def test_a_fixer_that_commits_in_a_landing_round(crew: Crew, tmp_path: Path) -> None:
    """T120: the fixer commits by itself after a refused push: its work lands, as one commit."""
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")
    hook = remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nread old new ref\ngit cat-file -e $new:licence.txt || { echo no licence; exit 1; }\n")
    hook.chmod(0o755)
    crew.solo(
        {"node": "land", "do": [{"write": "licence.txt"}, {"run": "git add -A && git commit -qm mine"}]},
        land={"mode": "push", "target": "main"},
    )

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert repos.git(remote, "rev-list", "--count", "main") == "2"
    assert repos.git(remote, "log", "-1", "--format=%s", "main") == "Write the note"


def test_a_gate_that_floods(crew: Crew) -> None:
    """A gate that prints 20 MB, forks and never ends its lines: its exit code counts; nothing of it stays."""
    gate = "grep -q four note.txt || exit 1; (sleep 98765 &) ; head -c 20000000 /dev/zero | tr '\\0' x"
    crew.solo(gate=gate)

    done = crew.call("run", "write the note")

    assert done.code == 0, done


def test_a_state_folder_that_cannot_be_written(crew: Crew, tmp_path: Path) -> None:
    """NIGHTCREW_HOME below a file: one line, no traceback."""
    crew.solo()
    (tmp_path / "file").write_text("")

    done = crew.call("run", "write the note", env={**crew.env, "NIGHTCREW_HOME": str(tmp_path / "file/below")})

    assert done.code in {1, 2}, done
    assert len(done.err.splitlines()) == 1
    assert crew.starts() == []


def signs(crew: Crew, **settings: str) -> None:
    """A person who signs every commit."""
    crew.solo()
    for name, value in {"commit.gpgsign": "true", **settings}.items():
        crew.git("config", name, value)


def test_a_signature_that_cannot_work(crew: Crew) -> None:
    """Rulings 16: signing that needs a person is said before anybody is paid, with git's words; it is never left out silently."""
    signs(crew, **{"gpg.program": "/bin/false"})

    done = crew.call("run", "write the note")

    assert done.code == 2, done
    assert "sign" in done.line
    assert (crew.runs(), crew.starts()) == ([], [])


def test_a_signed_landing(crew: Crew) -> None:
    """What lands is signed as the person signs."""
    if not shutil.which("ssh-keygen"):
        pytest.skip("needs ssh-keygen")
    key = crew.home / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    signs(crew, **{"gpg.format": "ssh", "user.signingkey": str(key)})

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert "BEGIN SSH SIGNATURE" in crew.git("cat-file", "commit", "main")


def test_a_push_that_cannot_work(crew: Crew, tmp_path: Path) -> None:
    """Rulings 16: a remote that can be read and not written is said before anybody is paid."""
    repos.bare_remote(crew.repo, tmp_path / "remote.git")
    crew.solo(land={"mode": "push", "target": "main"})
    crew.git("config", "remote.origin.pushurl", "/nowhere/at/all.git")

    done = crew.call("run", "write the note")

    assert done.code == 2, done
    assert "push" in done.line
    assert (crew.runs(), crew.starts()) == ([], [])

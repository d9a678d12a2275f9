"""Where the work goes, and what happens to what an agent does behind our back."""

from pathlib import Path
from typing import Any

import pytest

from nightcrew.core.events import Landed, LandingRefused
from support import repos
from support.crew import LOCAL, Crew, Turn, carriers

WORK = {"append": "note.txt", "text": "four\n"}


def landed(crew: Crew, *steps: dict[str, Any], sandbox: str = "auto") -> str:
    """A run whose agent does `steps`; the files of what landed."""
    crew.solo({"node": "implement", "do": list(steps)}, sandbox={"mode": sandbox})
    mine, base = crew.mine(), crew.git("rev-parse", "main")
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert crew.git("rev-list", "--count", f"{base}..main") == "1"
    assert crew.git("log", "-1", "--format=%an %s", "main") == "Tester Write the note"
    assert crew.shown("main", "note.txt").endswith("four\n")
    assert crew.mine() == mine
    return crew.git("-c", "core.quotePath=false", "ls-tree", "-r", "--name-only", "main")


@pytest.mark.parametrize(
    "rude",
    [
        "git commit -qam mine",
        "git add -A; git commit -qm mine; git commit --allow-empty -qm more",
        "git switch -qc elsewhere; git commit -qam there",
        "git checkout -q --detach; git commit -qam there",
        "git stash list; git branch -M renamed; git commit -qam mine",
        "git add -A; touch .git/index.lock",
        "git config core.hooksPath /nowhere; git config commit.gpgsign true; git config user.name Mallory",
        "printf '#!/bin/sh\\nexit 1\\n' > .git/hooks/pre-commit; chmod +x .git/hooks/pre-commit",
        "rm -rf .git",
        "git init -q inner; git -C inner commit -q --allow-empty -m inner; rm -rf inner/.git",
    ],
)
def test_agents_and_git(crew: Crew, rude: str) -> None:
    """Law 9: whatever an agent does to its clone's git, its files are the work: one commit of ours lands, as the operator."""
    landed(crew, WORK, {"run": rude})


def test_junk_and_odd_names(crew: Crew) -> None:
    """Files with odd names, links and modes land as they are; what is ignored does not."""
    repos.commit(crew.repo, {".gitignore": "*.tmp\n"})
    files = [{"write": f"odd ☃ {n}.txt", "text": "x"} for n in range(3)]
    more = [{"write": "junk.tmp"}, {"write": "bin/tool", "text": "#!/bin/sh\n", "mode": "755"}, {"run": "ln -s note.txt link"}]
    names = landed(crew, WORK, *files, *more)
    assert {"odd ☃ 0.txt", "bin/tool", "link"} <= set(names.splitlines())
    assert "junk.tmp" not in names
    assert "100755" in crew.git("ls-tree", "main", "bin/tool")
    assert "120000" in crew.git("ls-tree", "main", "link")


def test_one_local_landing_after_the_other(crew: Crew) -> None:
    """Mode `local` beside a remote: on a branch that is ahead of it, then behind it, each run lands at its first try."""
    remote = repos.bare_remote(crew.repo, crew.folder / "remote.git")
    crew.solo({"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}]}, gate="true")
    for _ in range(2):
        assert crew.call("run", "write the note").code == 0
    crew.git("push", "-q", "origin", "main")
    repos.move_remote(remote, {"theirs.txt": "x\n"})
    assert crew.call("run", "write the note").code == 0
    assert crew.shown("main", "note.txt").count("four") == 3
    assert crew.shown("main", "theirs.txt") == "x\n"
    assert [len(crew.facts(Landed, run)) for run in crew.runs()] == [1, 1, 1]
    assert not [fact for run in crew.runs() for fact in crew.facts(LandingRefused, run)]


@pytest.mark.parametrize("mode", ["auto", "unshare", "off"])
def test_children_that_stay(crew: Crew, mode: str) -> None:
    """Whatever a turn started dies with it, in every sandbox mode: children, new sessions, daemons."""
    marks = [
        {"fork": f"exec sleep 98765.{n}{abs(hash(str(crew.folder))) % 10**6}", "how": how}
        for n, how in enumerate(("child", "setsid", "daemon"))
    ]
    landed(crew, WORK, *marks, sandbox=mode)
    for step in marks:
        assert not carriers(str(step["fork"]).split()[-1])


def test_an_agent_that_talks_too_much(crew: Crew) -> None:
    """Floods, bytes that are no text, half a JSON and no line end do not keep the work from landing."""
    landed(crew, WORK, {"flood": 3_000_000, "newline": False}, {"raw": '\xff\xfe{"half": '}, {"raw": "\n"}, {"say": "Done."})


def test_an_agent_that_changes_nothing(crew: Crew) -> None:
    """No change and no claim is not done: a terminal failure of the developer, never a landing."""
    crew.solo({"node": "implement", "do": [{"say": "All done!"}]}, {"node": "dev-fix", "do": [{"hang": "plain"}]})
    process = crew.start("run", "write the note")
    crew.until(lambda e: type(e).__name__ == "DevFixTriggered", process)
    crew.call("cancel", crew.run)
    assert crew.end(process).code == 1
    assert crew.facts(Landed) == []


def test_nothing_is_left_to_do(crew: Crew) -> None:
    """A claim of `already done` with evidence and an empty diff: exit 0, for a person to read."""
    claim = '{"word": "already_done", "evidence": "note.txt line 3"}'
    crew.solo({"node": "implement", "do": [{"say": claim}]})
    base = crew.git("rev-parse", "main")
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert "already done" in done.out
    assert crew.git("rev-parse", "main") == base


def test_push_to_a_bare_remote(crew: Crew, tmp_path: Path) -> None:
    """Mode push: the remote's target has the one commit; the local branch is the person's and stays."""
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")
    crew.solo(land={"mode": "push", "target": "main"})
    base = crew.git("rev-parse", "main")
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert repos.git(remote, "rev-parse", "main^") == base
    assert crew.git("rev-parse", "main") == base
    assert "four" in repos.shown(remote, "main", "note.txt")


def test_a_push_that_is_refused(crew: Crew, tmp_path: Path) -> None:
    """A hook of the remote refuses: its words go to the fixer; the second try, mended, is accepted."""
    remote = repos.bare_remote(crew.repo, tmp_path / "remote.git")
    hook = remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nread old new ref\ngit cat-file -e $new:licence.txt || { echo no licence; exit 1; }\n")
    hook.chmod(0o755)
    mends: Turn = {"node": "land", "do": [{"must_read": "no licence"}, {"write": "licence.txt", "text": "free\n"}]}
    crew.solo(mends, land={"mode": "push", "target": "main"})
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert [e.why for e in crew.facts(LandingRefused)] in (["rejected"], ["hook"])
    assert repos.shown(remote, "main", "licence.txt") == "free\n"


def test_an_interrupted_landing_is_found(crew: Crew) -> None:
    """Law 4: the target moved but nightcrew died before it could say so: resume sees it and lands nothing twice."""
    crew.solo()
    process = crew.start("run", "write the note")
    crew.until(lambda e: "/Land/" in getattr(e, "key", ""), process)
    crew.kill(process)
    assert crew.call("resume", crew.run).code == 0
    assert crew.git("rev-list", "--count", "mine..main") == "1"


def test_a_bare_repository(crew: Crew, tmp_path: Path) -> None:
    """A bare repository: the run lands on its branch; the marker lies in the git folder."""
    repos.git(tmp_path, "clone", "-q", "--bare", str(crew.repo), "bare.git")
    bare = tmp_path / "bare.git"
    crew.settle(pipeline={"plan": False, "reviewers": 0}, land=LOCAL, verify={"gate": ["grep -q four note.txt"]})
    crew.play()
    done = crew.call("run", "write the note", cwd=bare)
    assert done.code == 0, done
    assert "four" in repos.shown(bare, "main", "note.txt")
    assert (bare / ".agent/tmp/completion_marker").exists()


def test_a_shallow_clone(crew: Crew, tmp_path: Path) -> None:
    """A shallow source has its objects copied, and lands all the same."""
    for n in range(3):
        repos.commit(crew.repo, {"n.txt": f"{n}\n"})
    shallow = repos.shallow_clone(crew.repo, tmp_path / "shallow")
    crew.settle(pipeline={"plan": False, "reviewers": 0}, verify={"gate": ["grep -q four note.txt"]})
    crew.play()
    done = crew.call("run", "write the note", cwd=shallow)
    assert done.code == 0, done

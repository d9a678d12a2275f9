"""What a person types, and the limits they set: refusals before the first start, resumes from anywhere, Ctrl-C, a silent agent."""

import signal
from typing import Any

import pytest

from nightcrew.core.events import Cancelled, HandedOver, ParkAsked, TurnEnded
from nightcrew.core.settings import Limit
from nightcrew.core.work import Class, FailClass
from support import repos
from support.crew import LOCAL, Crew, Turn

HOLDS: Turn = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"wait_for": "{state}/go"}]}
GATE = "grep -q four note.txt"


def parked(crew: Crew) -> None:
    """A run that was parked while its implementer worked."""
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    assert crew.call("park", crew.run).code == 0
    crew.until(lambda e: isinstance(e, ParkAsked), process)
    (crew.played / "go").touch()
    assert crew.end(process).code == 3


def test_a_chain_of_absent_programs(crew: Crew) -> None:
    """S255: no program of the developers' chain is there: refused before the first start, one line; with one present it runs."""
    ghosts = [{"id": name, "kind": "command", "command": [f"no-such-{name}"]} for name in ("ghost", "spook")]
    crew.solo()
    crew.settle(*ghosts, land=LOCAL, verify={"gate": [GATE]})
    refused = crew.call("run", "write the note")
    assert refused.code == 2, refused
    assert "no-such-ghost" in refused.line
    assert (crew.runs(), crew.starts()) == ([], [])

    crew.settle(
        ghosts[0],
        *crew.agents("alpha"),
        roles={"developer": ["ghost", "alpha"], "committer": "alpha"},
        pipeline={"plan": False, "reviewers": 0},
        land=LOCAL,
        verify={"gate": [GATE]},
    )
    done = crew.call("run", "write the note")
    assert done.code == 0, done
    assert crew.seats() == ["alpha@implement", "alpha@commit"]
    assert [(e.handover.from_agent, e.handover.fail) for e in crew.facts(HandedOver)] == [("ghost", FailClass.Other)]


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        ({"roles": {"developer": ["nobody"]}}, "nobody"),
        ({"pipeline": {"review_rounds": -1}}, "review_rounds"),
        ({"recovery": {"ceiling": -1}}, "ceiling"),
        ({"recovery": {"pause": "soon"}}, "pause"),
        ({"limits": {"turns": -5}}, "turns"),
    ],
)
def test_settings_that_cannot_be(crew: Crew, tables: dict[str, Any], says: str) -> None:
    """S256: an unknown agent, a negative number, a word that is no duration: exit 2, file and line, nothing begun."""
    crew.solo(**tables)
    refused = crew.call("run", "write the note")
    assert refused.code == 2, refused
    assert says in refused.err
    assert "config.toml:" in refused.err
    assert (crew.runs(), crew.starts()) == ([], [])


def test_an_agent_that_says_nothing(crew: Crew) -> None:
    """S254: no output at the start: ended at that limit with all it started, class timeout, the next agent delivers."""
    mute = {"id": "mute", "kind": "command", "command": ["sh", "-c", "setsid sleep 600 & sleep 600"]}
    crew.solo()
    crew.settle(
        mute,
        *crew.agents("beta"),
        roles={"developer": ["mute", "beta"], "committer": "beta"},
        pipeline={"plan": False, "reviewers": 0},
        limits={"first_output": "4s"},
        sandbox={"mode": "off"},
        land=LOCAL,
        verify={"gate": [GATE]},
    )

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert crew.seats() == ["beta@implement", "beta@commit"]
    handed = [e.handover for e in crew.facts(HandedOver)]
    assert [(h.from_agent, h.to_agent, h.fail) for h in handed] == [("mute", "beta", FailClass.Timeout)]
    first = crew.facts(TurnEnded)[0].outcome
    assert (first.kind, first.stopped_by) == (Class.Timeout, "first_output")


def test_an_interrupt_is_recorded_once(crew: Crew) -> None:
    """S258: Ctrl-C lets the turn end: exit 130, one fact of it, nothing cancelled."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    process.send_signal(signal.SIGINT)
    crew.until(lambda e: isinstance(e, ParkAsked), process)
    (crew.played / "go").touch()

    assert crew.end(process).code == 130

    assert (len(crew.facts(ParkAsked)), crew.facts(Cancelled)) == (1, [])


def test_a_resume_with_a_limit(crew: Crew) -> None:
    """S265: `--limit` at a resume replaces that limit and no other, of a turn too; a resume without it leaves what was."""
    crew.solo(HOLDS)
    parked(crew)
    before = crew.state().started.limits
    assert crew.call("resume", "--limit", "turns=7", "--limit", "idle=5m", crew.run).code == 0
    now = crew.state().started.limits
    assert (now.turns, now.idle_s) == (Limit(7, mine=True), 300.0)
    assert (now.usd, now.wall, now.turn_s) == (before.usd, before.wall, before.turn_s)


def test_a_resume_from_elsewhere(crew: Crew) -> None:
    """S226: resumed in another folder, the task file changed meanwhile: the run's own task is done; once more is the same end."""
    task = crew.home / "task.md"
    task.write_text("write the note\n")
    crew.solo(
        {"node": "commit", "do": [{"must_read": "write the note"}, {"must_not_read": "burn"}, {"say": '{"subject": "It"}'}]},
        HOLDS,
    )
    process = crew.start("run", "--file", str(task))
    crew.begun(process, "impl-A")
    assert crew.call("park", crew.run).code == 0
    crew.until(lambda e: isinstance(e, ParkAsked), process)
    (crew.played / "go").touch()
    assert crew.end(process).code == 3
    task.write_text("burn the note\n")

    first = crew.call("resume", crew.run, cwd=crew.home)
    entries, head = len(crew.entries()), crew.git("rev-parse", "main")
    second = crew.call("resume", crew.run, cwd=crew.home)

    assert (first.code, second.code) == (0, 0), (first, second)
    assert (len(crew.entries()), crew.git("rev-parse", "main")) == (entries, head)
    assert crew.git("log", "-1", "--format=%s", "main") == "It"


def test_a_fixer_that_commits_by_itself(crew: Crew) -> None:
    """T120: in a landing round the fixer commits: its work lands in the one commit, no rescue ref, the tree clean."""
    remote = repos.bare_remote(crew.repo, crew.folder / "remote.git")
    hook = remote / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\nread old new ref\ngit cat-file -e $new:licence.txt || { echo no licence; exit 1; }\n")
    hook.chmod(0o755)
    mends: Turn = {"node": "land", "do": [{"write": "licence.txt", "text": "free\n"}, {"run": "git add -A; git commit -qm mine"}]}
    crew.solo(mends, land={"mode": "push", "target": "main"})
    base = crew.git("rev-parse", "main")

    done = crew.call("run", "write the note")

    assert done.code == 0, done
    assert repos.shown(remote, "main", "licence.txt") == "free\n"
    assert repos.git(remote, "rev-list", "--count", f"{base}..main") == "1"
    assert repos.refs(crew.repo, "refs/nightcrew/rescue") == {}

"""Stopping and going on: park, Ctrl-C once and twice, cancel, take-over, a question, two runs side by side."""

import signal

import pytest

from nightcrew.core.events import (
    Answered,
    Cancelled,
    ConfigChanged,
    HandlerCrashed,
    LandingRefused,
    LimitReached,
    ParkAsked,
    StepFailed,
)
from nightcrew.core.work import PipelinePhase
from support import repos
from support.crew import LOCAL, Crew, Turn, until

HOLDS: Turn = {
    "node": "implement",
    "do": [{"append": "note.txt", "text": "four\n"}, {"write": "{state}/there/{run}"}, {"wait_for": "{state}/go"}],
}


def parked(event: object) -> bool:
    """Whether somebody asked for a stop."""
    return isinstance(event, ParkAsked)


def test_park_and_resume(crew: Crew) -> None:
    """T128: the turn in flight ends, nothing new starts, exit 3; resume goes on with what was there."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    assert crew.call("park", crew.run).code == 0
    crew.until(parked, process)
    (crew.played / "go").touch()
    done = crew.end(process)
    assert done.code == 3, done
    assert "parked" in done.out
    assert crew.seats() == ["alpha@implement"]
    assert "+four" in crew.call("diff", crew.run).out

    assert crew.call("resume", crew.run).code == 0

    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_one_interrupt_parks(crew: Crew) -> None:
    """Rulings 11: the first Ctrl-C lets the turn in flight end, then leaves with 130."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    process.send_signal(signal.SIGINT)
    crew.until(parked, process)
    (crew.played / "go").touch()

    assert crew.end(process).code == 130

    assert crew.facts(Cancelled) == []
    assert crew.state().parked


def test_two_interrupts_stop_and_rescue(crew: Crew) -> None:
    """Rulings 11: the second Ctrl-C stops the agent now; its unsaved work is in a rescue ref, and resume lands."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    until(lambda: list((crew.played / "there").glob("*")))
    process.send_signal(signal.SIGINT)
    crew.until(parked, process)
    process.send_signal(signal.SIGINT)

    assert crew.end(process).code == 130

    (cancelled,) = crew.facts(Cancelled)
    assert crew.shown(cancelled.rescued, "note.txt").endswith("four\n")
    (crew.played / "go").touch()
    assert crew.call("resume", crew.run).code == 0
    assert "four" in crew.shown("main", "note.txt")
    assert crew.seats() == ["alpha@implement", "alpha@implement", "alpha@commit"]


def test_cancel_rescues_what_was_done(crew: Crew) -> None:
    """Cancel stops the agent, keeps its work in a rescue ref, ends Interrupted with exit 1."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    until(lambda: list((crew.played / "there").glob("*")))
    assert crew.call("cancel", crew.run).code == 0

    done = crew.end(process)

    assert done.code == 1, done
    assert crew.state().phase is PipelinePhase.Interrupted
    kept = repos.refs(crew.repo, "refs/nightcrew/rescue")
    assert kept
    assert any(crew.shown(ref, "note.txt").endswith("four\n") for ref in kept)
    assert done.out.count("rescued: ") == len(kept)
    assert done.out.count(f"nightcrew show {crew.run[-4:]}") == 1
    assert crew.call("cancel", crew.run).code == 2
    assert "+four" in crew.call("diff", crew.run).out


@pytest.mark.parametrize("breaks", ["rm -rf .git", "rm -rf .git/objects", "chmod 000 .", "chmod -R 000 .git"])
@pytest.mark.parametrize("twice", [False, True])
def test_what_is_stopped_is_rescued_from_a_broken_workspace(crew: Crew, breaks: str, *, twice: bool) -> None:
    """Law 8: whatever an agent did to its `.git` or to the rights, what it had done is in a rescue ref once a cancel or a second Ctrl-C stopped it."""
    crew.as_anybody()
    steps = [{"append": "note.txt", "text": "four\n"}, {"run": breaks}, {"write": "{state}/broken"}, {"hang": "plain"}]
    crew.solo({"node": "implement", "do": steps})
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    until((crew.played / "broken").exists)
    if twice:
        process.send_signal(signal.SIGINT)
        crew.until(lambda e: isinstance(e, ParkAsked), process)
        process.send_signal(signal.SIGINT)
    else:
        crew.call("cancel", crew.run)
    crew.end(process)

    kept = repos.refs(crew.repo, "refs/nightcrew/rescue")
    assert any(crew.shown(ref, "note.txt").endswith("four\n") for ref in kept)
    assert "+four" in crew.call("diff", crew.run).out
    assert crew.facts(HandlerCrashed) == crew.facts(StepFailed) == []


def test_a_live_run_says_who_drives_it(crew: Crew) -> None:
    """T105: resume of a run that is driven: exit 2, one line with the pid; the run goes on undisturbed."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")

    assert f"next: nightcrew watch {crew.run[-4:]}" in crew.call("show").out
    refused = crew.call("resume", crew.run)

    assert refused.code == 2
    assert str(process.pid) in refused.line
    (crew.played / "go").touch()
    assert crew.end(process).code == 0
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_take_over_a_frozen_driver(crew: Crew) -> None:
    """Rulings 8: `resume --take-over` drives on; the frozen one, awake again, writes nothing and leaves with one line."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    process.send_signal(signal.SIGSTOP)
    (crew.played / "go").touch()

    taken = crew.call("resume", "--take-over", crew.run)
    entries = len(crew.entries())
    process.send_signal(signal.SIGCONT)
    woken = crew.end(process)

    assert taken.code == 0, taken
    assert woken.code == 1, woken
    assert "another" in woken.line or "taken" in woken.line
    assert len(crew.entries()) == entries
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_a_second_run_beside_the_first(crew: Crew) -> None:
    """A second `run` while one is live is separate: each has its own workspace, both land, one on top of the other."""
    file = {"node": "implement", "do": [{"write": "{run}.txt"}, {"write": "{state}/there/{run}"}, {"wait_for": "{state}/go"}]}
    crew.solo(file, gate="grep -q one note.txt")
    both = [crew.start("run", "a file of its own") for _ in range(2)]
    until(lambda: len(list((crew.played / "there").glob("*"))) == 2)
    (crew.played / "go").touch()

    ends = [crew.end(process) for process in both]

    assert [end.code for end in ends] == [0, 0], ends
    assert {f"{run}.txt" for run in crew.runs()} <= set(crew.git("ls-tree", "--name-only", "main").splitlines())
    assert crew.git("rev-list", "--count", "mine..main") == "2"


def test_a_crowd_lands(crew: Crew) -> None:
    """Rulings 48: eight runs at once on one target: whoever is refused once has its turn from gate to landing; all land, nobody waits a pause."""
    file = {"node": "implement", "do": [{"write": "{run}.txt"}]}
    crew.solo(file, gate="grep -q one note.txt", machine={"max_turns": 8})

    ends = [crew.end(process) for process in [crew.start("run", "a file of its own") for _ in range(8)]]

    assert [end.code for end in ends] == [0] * 8, ends
    assert crew.git("rev-list", "--count", "mine..main") == "8"
    assert {f"{run}.txt" for run in crew.runs()} <= set(crew.git("ls-tree", "--name-only", "main").splitlines())
    assert max(len(crew.facts(LandingRefused, run)) for run in crew.runs()) <= 1


def test_words_to_a_run_that_nobody_drives(crew: Crew) -> None:
    """A park left for a dead driver is undone by the later resume, which goes on to the end; a cancel is obeyed at once."""
    crew.solo(HOLDS)
    for word, ends in (("park", PipelinePhase.Complete), ("cancel", PipelinePhase.Interrupted)):
        process = crew.start("run", "write the note")
        crew.begun(process, "impl-A")
        crew.kill(process)
        assert crew.call(word, crew.run).code == 0
        if word == "park":
            (crew.played / "go").touch()
            assert crew.call("resume", crew.run).code == 0
            (crew.played / "go").unlink()
        assert crew.state().phase is ends


def test_many_resumes_at_once(crew: Crew) -> None:
    """One of them drives, the others say which; nothing is asked twice."""
    crew.solo(HOLDS)
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    crew.kill(process)
    (crew.played / "go").touch()

    ends = [crew.end(one) for one in [crew.start("resume", crew.run) for _ in range(4)]]

    assert {end.code for end in ends} <= {0, 2}
    assert 0 in [end.code for end in ends]
    assert all("driven by process" in end.line for end in ends if end.code == 2)
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_other_settings_for_a_parked_run(crew: Crew) -> None:
    """Rulings 12: a run keeps what it was told when the files change, until `resume --reconfigure` takes them as they are now."""
    crew.solo(HOLDS, gate="test -e never.txt || { echo ill; exit 1; }")
    process = crew.start("run", "write the note")
    crew.begun(process, "impl-A")
    process.send_signal(signal.SIGINT)
    crew.until(parked, process)
    (crew.played / "go").touch()
    crew.end(process)
    crew.settle(pipeline={"plan": False, "reviewers": 0}, land=LOCAL, verify={"gate": ["grep -q four note.txt"]})

    done = crew.call("resume", "--reconfigure", crew.run)

    assert done.code == 0, done
    assert len(crew.facts(ConfigChanged)) == 1
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_a_default_limit_asks(crew: Crew) -> None:
    """Rulings 29, 30: a default limit reached is a question: exit 1 with the command; `answer more` goes on to the end."""
    dear = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"usage": {"usd": 30.0}}]}
    crew.solo(dear)
    done = crew.call("run", "write the note")
    assert done.code == 1, done
    assert "nightcrew answer" in done.out
    assert [e.mine for e in crew.facts(LimitReached)] == [False]

    wrong = crew.call("answer", crew.run, "mroe")
    assert (wrong.code, "more, stop" in wrong.line) == (2, True)
    again = crew.answer("yes")

    assert again.code == 0, again
    assert len(crew.facts(Answered)) == 1
    assert crew.seats() == ["alpha@implement", "alpha@commit"]


def test_my_own_limit_ends(crew: Crew) -> None:
    """Rulings 30: the operator's own limit ends the run with a failure marker and exit 1; nobody is asked further."""
    dear = {"node": "implement", "do": [{"append": "note.txt", "text": "four\n"}, {"usage": {"usd": 2.0}}]}
    crew.solo(dear)

    done = crew.call("run", "--limit", "usd=1", "--limit", "turns=50", "write the note")

    assert done.code == 1, done
    assert crew.state().phase is PipelinePhase.Interrupted
    assert crew.seats() == ["alpha@implement"]

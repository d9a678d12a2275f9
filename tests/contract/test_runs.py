"""Whole runs with real programs in the seats: they end landed, hand over, wait, are stopped and adopted like any other agent."""

import signal
import threading
from collections.abc import Callable, Iterator

import pytest

from contract.reals import REALS, Bench
from contract.watching import Watch, untouched
from nightcrew.core.events import EffectStarted, HandedOver, Landed, ParkAsked, TimerFired, TurnEnded
from nightcrew.core.work import Class
from support.crew import until
from support.models import speech
from support.models.scenario import Answer, Fault, Request, Say, Scenario

WORK = speech.editor("new.txt", "written\n")
WAIT = "python3 -c 'import time; time.sleep(600)'"
SMALL = {"pipeline": {"plan": False, "reviewers": 0}}
"""One agent that works and writes the message."""


def waits(request: Request) -> Answer:
    """An agent that runs a command which does not end."""
    call = speech.runs(request, WAIT) if request.tools and not request.after_tool else None
    return Say("I wait.", (call,)) if call else Say("A side answer.")


def cancelled(real: Bench) -> None:
    """Cancel a run in the middle of that command: of the program, its children and their sessions nothing is left."""
    process = real.start("run", "Add a note")
    until(lambda: any("time.sleep(600)" in line for line in real.left()) or process.poll() is not None)
    assert process.poll() is None, process.communicate()
    real.call("cancel", real.run)
    process.communicate()
    assert real.left() == []


def night(request: Request) -> Answer:
    """What the model says, by what it is asked: a plan, an edit through a tool, a review, a commit message."""
    if not request.tools:
        return Say("A side answer.")
    asked = request.text
    if "Write the commit message of this change" in asked:
        return Say('{"subject": "Add the note", "body": "The gate asks for it."}')
    if "Report what you can show" in asked:
        return Say('It does what was asked.\n{"vote": "approve", "findings": []}')
    if "Write the plan that another engineer" in asked:
        return Say("Write new.txt with one line. The gate shows that it is there.")
    if request.after_tool:
        return Say('Written.\n{"word": "done", "evidence": "new.txt is there"}')
    return WORK(request)


def working(request: Request) -> bool:
    """Whether this is the question of the seat that implements."""
    return bool(request.tools) and "Write the commit message" not in request.text


def first(answer: Answer, when: Callable[[Request], bool] = working) -> Scenario:
    """The night, but that the first such questions get this answer until the test lets go (`scenario.over`)."""
    return lambda request: answer if when(request) else night(request)


@pytest.fixture
def watch() -> Iterator[Watch]:
    """What happens meanwhile in the HOME of the account that runs the tests."""
    with Watch() as watching:
        yield watching


def turns(bench: Bench) -> list[str]:
    """The nodes of the turns that ended well, in order."""
    return [event.key.split("/")[2] for event in bench.facts(TurnEnded) if event.outcome.kind is Class.Ok]


def handed(bench: Bench) -> list[tuple[str, str]]:
    """Who handed over to whom."""
    return [(str(event.handover.from_agent), str(event.handover.to_agent)) for event in bench.facts(HandedOver)]


@pytest.mark.parametrize("kind", sorted(REALS))
def test_it_works_is_reviewed_gated_and_landed(bench: Callable[..., Bench], watch: Watch, kind: str) -> None:
    """One `nightcrew run` with the real program in every seat ends landed; nothing of the account's own HOME is read or written."""
    real = bench(night, kind)
    done = real.call("run", "Add a note")
    assert done.code == 0, done
    assert turns(real) == ["plan", "implement", "review", "commit"]
    assert all(event.outcome.session and event.outcome.tokens for event in real.facts(TurnEnded))
    assert real.git("log", "--format=%s", "-1", "main") == "Add the note"
    assert real.shown("main", "new.txt") == "written\n"
    assert untouched(watch.names()), watch.names()
    assert real.left() == []


def test_a_spent_quota_hands_over_to_another_program(bench: Callable[..., Bench]) -> None:
    """The first turn of Claude Code meets a spent plan: Codex takes the seat and finishes; the reset is known."""
    real = bench(first(Fault("quota"), lambda request: "/messages" in request.path), "claude", "codex", **SMALL)
    real.account_changes(ANTHROPIC_API_KEY=None, CLAUDE_CODE_OAUTH_TOKEN="sk-ant-oat01-dummy")
    done = real.call("run", "Add a note")
    assert done.code == 0, done
    assert handed(real)[0] == ("claude", "codex")
    lost = real.facts(TurnEnded)[0].outcome
    assert (lost.kind, lost.window) == (Class.Quota, "five_hour")
    assert lost.reset_at
    assert real.shown("main", "new.txt") == "written\n"


def test_codex_out_of_quota_hands_over_too(bench: Callable[..., Bench]) -> None:
    """And the other way round: the plan of Codex is spent, Claude Code finishes."""
    real = bench(first(Fault("quota"), lambda request: "/responses" in request.path), "codex", "claude", **SMALL)
    done = real.call("run", "Add a note")
    assert done.code == 0, done
    assert handed(real)[0] == ("codex", "claude")
    lost = real.facts(TurnEnded)[0].outcome
    assert lost.window == "five_hour"
    assert lost.reset_at


def test_an_overloaded_service_is_asked_again_later(bench: Callable[..., Bench]) -> None:
    """The same agent after a pause, in its own seat; nobody is handed over."""
    lost = threading.Event()

    def scenario(request: Request) -> Answer:
        return night(request) if lost.is_set() or not working(request) else Fault("overloaded")

    real = bench(scenario, "codex", **SMALL)
    process = real.start("run", "Add a note")
    ended = real.until(lambda e: isinstance(e, TurnEnded), process).event
    lost.set()
    assert isinstance(ended, TurnEnded)
    assert ended.outcome.kind is Class.Overloaded
    assert real.end(process).code == 0
    assert real.facts(TimerFired)
    assert real.facts(HandedOver) == []
    assert turns(real) == ["implement", "commit"]


def test_a_stalled_stream_meets_the_watchdog(bench: Callable[..., Bench]) -> None:
    """A model that falls silent in the middle: the idle limit ends the turn and all of it, the next one goes on."""
    stalled = threading.Event()

    def scenario(request: Request) -> Answer:
        if not working(request) or stalled.is_set():
            return night(request)
        stalled.set()
        return Fault("stall_mid")

    real = bench(scenario, "claude", **SMALL, limits={"idle": "4s", "usd": "none"})
    done = real.call("run", "Add a note")
    assert done.code == 0, done
    outcome = real.facts(TurnEnded)[0].outcome
    assert (outcome.kind, outcome.stopped_by) == (Class.Timeout, "idle")
    assert turns(real)[-2:] == ["implement", "commit"]


class Held:
    """A model that does not answer the seat that implements until it is let go."""

    def __init__(self) -> None:
        """Hold."""
        self.go, self.asked = threading.Event(), 0

    def __call__(self, request: Request) -> Answer:
        """Answer late what is work."""
        if working(request) and not request.after_tool:
            self.asked += 1
        return night(request)

    def gate(self, request: Request) -> None:
        """Wait, outside the lock under which answers are decided."""
        if working(request):
            self.go.wait()


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_a_killed_nightcrew_adopts_the_real_program(bench: Callable[..., Bench], kind: str) -> None:
    """kill -9 of nightcrew in the middle of a turn: resume waits for the same process; the model was asked once."""
    held = Held()
    real = bench(held, kind, **SMALL)
    real.server.gate = held.gate
    process = real.start("run", "Add a note")
    until(lambda: real.server.arrived or process.poll() is not None)
    before = real.supervisor("implement")
    real.kill(process)
    again = real.start("resume", real.run)
    real.until(lambda _: True, again)
    assert real.supervisor("implement") == before
    held.go.set()
    done = real.end(again)
    assert done.code == 0, done
    assert held.asked == 1
    assert turns(real) == ["implement", "commit"]
    assert len([e for e in real.facts(EffectStarted) if "/StartTurn/implement/" in e.key]) == 1


@pytest.mark.parametrize("kind", sorted(REALS))
def test_cancel_leaves_no_process(bench: Callable[..., Bench], kind: str) -> None:
    """A turn that runs a long command is stopped in the middle: of the program, its children and their sessions nothing is left."""
    cancelled(real := bench(waits, kind, **SMALL))
    assert real.facts(Landed) == []


def test_park_lets_the_turn_end_and_leaves_no_process(bench: Callable[..., Bench]) -> None:
    """SIGINT parks: the turn is let end, then nothing is left; resume lands."""
    held = Held()
    real = bench(held, "claude", **SMALL)
    real.server.gate = held.gate
    process = real.start("run", "Add a note")
    until(lambda: real.server.arrived or process.poll() is not None)
    process.send_signal(signal.SIGINT)
    real.until(lambda e: isinstance(e, ParkAsked), process)
    held.go.set()
    process.communicate()
    assert real.left() == []
    assert real.facts(Landed) == []
    assert real.call("resume", real.run).code == 0
    assert real.shown("main", "new.txt") == "written\n"

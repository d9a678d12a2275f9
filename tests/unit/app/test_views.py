"""Where a run stands, said in one line and as an exit code."""

import pytest

from nightcrew.app.views import clock, conclusion, span
from nightcrew.core import events as ev
from nightcrew.core.effects import CollectWork, Effect, RunCommands, StartTurn, SyncBase
from nightcrew.core.roster import AgentRole
from nightcrew.core.settings import Limit, Limits, Verify
from nightcrew.core.state import RunState
from nightcrew.core.work import Change, Claim, Class, CommandResult, Finding, PipelinePhase, Purpose, Reviewed, Severity, Vote
from unit.app.worlds import CODEX, OPUS, STEP_S, World, bad, blob, ok, red, started, tree


def fails_gate(_state: RunState, effect: Effect) -> ev.Event | None:
    """A world in which the gate stays red and the fixer changes nothing."""
    if isinstance(effect, RunCommands) and effect.purpose is Purpose.Gate:
        return ev.CommandsEnded(key=effect.key, results=(red(),))
    return None


def test_landed_says_where_and_exits_with_0() -> None:
    """A run that moved its target is landed; the line names target and commit."""
    state = World(started("local")).play().state
    said = conclusion(state)
    assert (said.word, said.exit_code) == ("landed", 0)
    assert conclusion(state).headline == f"landed on main as {state.commit[:10]}"


def test_ready_names_the_branch_and_the_command_that_merges_it() -> None:
    """Mode `branch` ends ready, with exit 0 and the next command (rulings 22)."""
    state = World(started("branch")).play().state
    said = conclusion(state)
    assert (said.word, said.exit_code, said.next_command) == (
        "ready",
        0,
        "git switch main && git merge --ff-only nightcrew/a1b2/A",
    )
    assert conclusion(state).headline == "ready: branch nightcrew/a1b2/A"


def test_ready_instead_of_landed_says_why() -> None:
    """A target that could not be moved because its checkout is dirty leaves the run ready, with the reason."""

    def dirty(_state: RunState, effect: Effect) -> ev.Event | None:
        if type(effect).__name__ == "Land" and getattr(effect, "mode", "") == "local":
            return ev.LandingRefused(key=effect.key, why="dirty", detail="the checkout of main has unsaved changes")
        return None

    state = World(started("local"), dirty).play().state
    assert conclusion(state).exit_code == 0
    assert conclusion(state).headline == "ready: branch nightcrew/a1b2/A, not landed: the checkout of main has unsaved changes"


def test_already_landed_and_already_done_exit_with_0() -> None:
    """Both are good ends, told apart by their words."""

    def there(state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, SyncBase):
            here = tree("target")
            return ev.BaseSynced(key=effect.key, state="landed", tip=state.base, tip_tree=here, head=effect.head, tree=here)
        return None

    def claims(_state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, CollectWork):
            same = tree("same")
            return ev.WorkCollected(key=effect.key, change=Change(effect.start, same), start_tree=same)
        if isinstance(effect, StartTurn) and effect.role is AgentRole.Developer:
            return ev.TurnEnded(key=effect.key, outcome=ok(report=Claim("already_done", "see clock.py")))
        return None

    landed, done = (conclusion(World(started("local"), reply).play().state) for reply in (there, claims))
    assert (landed.word, landed.exit_code) == ("already landed", 0)
    assert (done.word, done.exit_code) == ("already done", 0)


def test_a_preflight_that_cannot_run_is_refused_with_2() -> None:
    """A gate command that does not exist is the person's to mend: exit 2, before anybody is paid (rulings 45)."""

    def missing(_state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, RunCommands):
            return ev.CommandsEnded(key=effect.key, results=(CommandResult("mkae check", 127, blob("mkae: not found")),))
        return None

    state = World(reply=missing).play().state
    said = conclusion(state)
    assert (said.word, said.exit_code) == ("refused", 2)
    assert "mkae" in said.why
    assert state.spend.turns == 0


def test_recovering_says_level_attempt_time_and_cause() -> None:
    """A failure that keeps coming back is told with its level, the coming attempt, its time and its cause."""
    world = World(reply=fails_gate).play(lambda s: s.trouble is not None and s.trouble.attempts == 5 and s.trouble.wait_until > 0)
    state = world.state
    assert state.trouble is not None
    at = clock(state.trouble.wait_until, state.at)
    since = clock(state.trouble.since, state.at)
    why = f"because gate `make check` is red: exit status 1, since {since}"
    assert conclusion(state).headline == f"recovering: level 2, attempt 5, next at {at}, {why}"
    assert conclusion(state).exit_code == 3


def test_waiting_says_until_when_and_for_whom() -> None:
    """All agents cooling: the run waits for the earliest, and says for whom and until when (rulings 23)."""

    def cooling(state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, StartTurn):
            until = state.at + (7200.0 if effect.agent == OPUS else 3600.0)
            return ev.AgentCooling(key=effect.key, agent=effect.agent, until=until)
        return None

    state = World(reply=cooling).play(lambda s: any(c.sleeping for c in s.calls.values())).state
    said = conclusion(state)
    assert (said.word, said.exit_code) == ("waiting", 3)
    assert said.why == f"until {clock(state.cooling[CODEX], state.at)}, waiting for opus, codex"


def test_parked_exits_with_3_and_names_resume() -> None:
    """A parked run says so, and how it goes on."""
    world = World().play(lambda s: s.phase is PipelinePhase.Development)
    world.tell(ev.ParkAsked())
    said = conclusion(world.state)
    assert (said.word, said.exit_code, said.next_command) == ("parked", 3, "nightcrew resume a1b2")


def test_blocked_shows_the_question_and_the_command_that_answers_it() -> None:
    """A default limit that is reached asks; the run is blocked with exit 1 (rulings 29 and 30)."""
    state = World(started(limits=Limits(turns=Limit(1)))).play().state
    said = conclusion(state)
    assert (said.word, said.exit_code, said.next_command) == ("blocked", 1, "nightcrew answer a1b2 more")
    assert conclusion(state).headline == "blocked: The default limit turns = 1 is reached. Go on?"


def test_an_operators_limit_interrupts_with_1() -> None:
    """The operator's own limit ends the run with a failure marker (rulings 30)."""
    state = World(started(limits=Limits(turns=Limit(1, mine=True)))).play().state
    said = conclusion(state)
    assert (said.word, said.exit_code) == ("interrupted", 1)
    assert "turns = 1" in said.why


def test_a_cancelled_run_is_interrupted_before_its_marker_is_written() -> None:
    """From the word `cancel` on the run is an interrupted one, whatever still has to be put in order (rulings 31)."""
    world = World().play(lambda s: s.phase is PipelinePhase.Development)
    world.tell(ev.CancelAsked())
    assert conclusion(world.state).exit_code == 1
    assert conclusion(world.state).word == "interrupted"
    assert "cancelled by the operator" in conclusion(world.play().state).headline
    assert conclusion(world.state).next_command == "nightcrew show a1b2"
    late = World().play(lambda s: s.phase is PipelinePhase.FinalValidation)
    late.tell(ev.CancelAsked())
    assert conclusion(late.play().state).next_command == "nightcrew diff a1b2"  # there is work to see


def test_running_names_phase_and_seats() -> None:
    """While agents work the line names the phase and who sits where."""
    state = (
        World()
        .play(lambda s: any(o.begun and isinstance(o.effect, StartTurn) and s.phase == "Development" for o in s.open.values()))
        .state
    )
    assert conclusion(state).headline == "running: Development: opus in seat impl-A"


def test_every_state_on_the_way_has_a_line_and_a_code() -> None:
    """Views are total: each state of a troubled run has one line without line breaks, and a known exit code."""
    seen: set[str] = set()

    def look(state: RunState) -> bool:
        said = conclusion(state)
        seen.add(said.word)
        assert "\n" not in conclusion(state).headline
        assert said.exit_code in {0, 1, 2, 3}
        return False

    World(started("local", verify=Verify(gate=("make check",), check=("true",))), fails_gate).play(look, limit=300)
    assert {"running", "recovering"} <= seen


def test_findings_and_a_reject_ask_before_landing() -> None:
    """A reject without a blocking finding blocks a run that was asked to land (rulings 29)."""

    def rejects(_state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, StartTurn) and effect.role is AgentRole.Reviewer:
            found = (Finding(Severity.Minor, "unclear"),)
            return ev.TurnEnded(key=effect.key, outcome=ok(report=Reviewed(Vote.Reject, found)))
        return None

    said = conclusion(World(started("local"), rejects).play().state)
    assert (said.word, said.exit_code, said.next_command) == ("blocked", 1, "nightcrew answer a1b2 yes")


@pytest.mark.parametrize(
    ("seconds", "words"), [(0, "0s"), (59.9, "59s"), (60, "1m00s"), (3599, "59m59s"), (3600, "1h00m"), (90000, "25h00m")]
)
def test_spans_are_short(seconds: float, words: str) -> None:
    """A span is told in its two largest units."""
    assert span(seconds) == words


def test_a_time_of_another_day_has_its_date() -> None:
    """Within a day the time of day is enough, soon with its seconds; else the date stands before it."""
    noon = 1_788_091_200.0
    assert clock(noon + 3600, noon) == "13:00"
    assert clock(noon + STEP_S, noon) == "12:00:10"
    assert clock(noon + 86400, noon) == "2026-08-31 12:00"


def test_bad_turns_do_not_stop_the_line() -> None:
    """A turn that failed for quota shows in the state as a handover, and the run goes on running."""

    def quota_once(state: RunState, effect: Effect) -> ev.Event | None:
        if isinstance(effect, StartTurn) and effect.agent == OPUS and effect.node == "implement":
            return ev.TurnEnded(key=effect.key, outcome=bad(Class.Quota, "weekly limit", reset_at=state.at + 3600))
        return None

    state = World(reply=quota_once).play(lambda s: s.phase is PipelinePhase.Review).state
    assert conclusion(state).word == "running"
    assert [h.to_agent for h in state.handovers] == [CODEX]

"""A run while it goes on: lines for what happens, a panel for the moment, and following from another process."""

import json
import threading
from pathlib import Path

import pytest
from msgspec import structs

from nightcrew.app.seen import TAIL, activity, changes, follow, outputs, panel, replayed, seen, told as replay_told
from nightcrew.app.story import steps
from nightcrew.core.effects import StartTurn
from nightcrew.core.events import Noted
from nightcrew.core.ids import AgentId, RunId
from nightcrew.core.roster import Agent, AgentRole, Roles, SecretRef
from nightcrew.core.settings import Pipeline
from nightcrew.core.state import RunState
from nightcrew.core.work import PipelinePhase
from nightcrew.errors import UserError
from nightcrew.git.repo import open_repo, repo_id
from nightcrew.journal.store import Journal, effect_folder
from support.repos import environment, make_repo
from unit.app.test_story import eventful, stays_red
from unit.app.worlds import BEGAN_AT, RUN, World, started, written


def lines(world: World) -> list[str]:
    """Every line that somebody who followed the run would have seen."""
    return [text for step in steps(world.entries) for text in changes(step)]


def working(state: RunState) -> bool:
    """Whether an implementer is at work."""
    return state.phase is PipelinePhase.Development and any(
        o.begun and isinstance(o.effect, StartTurn) for o in state.open.values()
    )


def test_what_happens_is_told_in_order() -> None:
    """Phases, turns, the handover, the review, the red and the green gate are one line each."""
    told = lines(World(started("local"), eventful).play())
    wanted = [
        "preflight green",
        "plan: opus begins",
        "→ Development",
        "impl-A: opus → codex (quota: weekly limit reached)",
        "review-1: reject, 1 finding (1 blocking)",
        "impl-A at fix: codex begins",
        "gate red, `make check` exits with 1",
        "gate green",
        "→ Landing",
    ]
    places = [told.index(text) for text in wanted]
    assert places == sorted(places)


def test_a_review_by_nobody_is_passed_over() -> None:
    """Where no reviewer is wanted, or none can review, no round of review is announced."""
    first = started("local")
    none = structs.replace(first, settings=structs.replace(first.settings, pipeline=Pipeline(reviewers=0)))
    nobody = structs.replace(first, roles=Roles({**first.roles.chains, AgentRole.Reviewer: ()}))
    for told in (none, nobody):
        seen = lines(World(told).play())
        assert "→ FinalValidation" in seen
        assert not [text for text in seen if "Review" in text]


def test_recovery_is_told_as_it_happens() -> None:
    """The failure, the pause and the way back are lines too."""
    told = lines(World(reply=stays_red).play(lambda s: s.trouble is not None and s.trouble.attempts == 5))
    assert any(text.startswith("FinalValidation failed: gate `make check` is red") for text in told)
    assert any(text.startswith("waiting until ") for text in told)
    assert "level 1 becomes 2" in told


def test_the_panel_shows_seats_rounds_spend_and_what_comes_next(tmp_path: Path) -> None:
    """Everything a person asks of a screen is in the panel of that moment, elapsed time and newest words included."""
    world = World(reply=stays_red).play(working)
    env = {"NIGHTCREW_HOME": str(tmp_path)}
    opened = next(o for o in world.state.open.values() if isinstance(o.effect, StartTurn))
    folder = effect_folder(tmp_path, opened.effect.key)
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("thinking\x1b[1m\n")
    assert panel(world.state, opened.at + 65, env) == [
        "── a1b2 · mend the clock",
        "Development · 0.50 usd · 1 turn",
        "  impl-A       opus             1m05s  thinking\x1b[1m",
    ]
    later = world.play(lambda s: s.trouble is not None and s.trouble.wait_until > 0).state
    assert panel(later, later.at, env)[1].startswith("recovering: level 2, attempt 4, next at ")
    pause = world.play(lambda s: any(o.effect.node == "recovery" for o in s.open.values())).state
    assert "pause before recovery attempt" in panel(pause, pause.at, env)[-1]


def test_the_panel_names_who_cools_down(tmp_path: Path) -> None:
    """Whoever cannot be asked stands there with the time it can, and no longer than that."""
    state = structs.replace(World().play(working).state, cooling={AgentId("opus"): BEGAN_AT + 7_200})
    env = {"NIGHTCREW_HOME": str(tmp_path)}
    assert "cooling: opus until 16:26" in panel(state, BEGAN_AT, env)
    assert not [text for text in panel(state, BEGAN_AT + 7_200, env) if "cooling" in text]


def test_a_turn_that_waits_for_its_slot_is_queued(tmp_path: Path) -> None:
    """A turn asked for and not begun has no elapsed time."""
    world = World().play(lambda s: any(isinstance(o.effect, StartTurn) for o in s.open.values()))
    *_, asked, _begun = steps(world.entries)
    state = asked.after
    assert "queued" in panel(state, state.at, {"NIGHTCREW_HOME": str(tmp_path)})[-1]


def test_activity_is_the_newest_line_that_says_something(tmp_path: Path) -> None:
    """Of plain output the last line; of events in JSON the words in them; of commands the one that runs; nothing from who said nothing."""
    state = World().play(working).state
    place = next(o.effect.key for o in state.open.values() if isinstance(o.effect, StartTurn))
    env = {"NIGHTCREW_HOME": str(tmp_path)}
    assert activity(place, env) == ""
    folder = effect_folder(tmp_path, place)
    folder.mkdir(parents=True)
    (folder / "stdout").write_text("first\nsecond\n\n")
    assert activity(place, env) == "second"
    event = {
        "type": "assistant",
        "message": {"content": [{"type": "tool_use", "name": "Edit", "input": {"file_path": "clock.py"}}]},
    }
    (folder / "stdout").write_text(json.dumps(event) + '\n{"usage": 3}\n')
    assert activity(place, env) == "Edit clock.py"
    for n in range(2):
        (folder / str(n)).mkdir()
        (folder / str(n) / "stdout").write_text(f"command {n}\n")
    assert activity(place, env) == "command 1"


def test_activity_shows_no_secret(tmp_path: Path) -> None:
    """The last line of an agent is shown without what the environment keeps secret and without providers' keys (law 14)."""
    state = World().play(working).state
    place = next(o.effect.key for o in state.open.values() if isinstance(o.effect, StartTurn))
    env = {"NIGHTCREW_HOME": str(tmp_path), "OUR_TOKEN": "hush-hush"}
    folder = effect_folder(tmp_path, place)
    folder.mkdir(parents=True)
    (folder / "stdout").write_text(f"it says hush-hush and sk-{'a' * 80}\n")
    assert activity(place, env) == "it says [redacted] and [redacted]"
    given = Agent(id=AgentId("x"), kind="command", env={"WORD": SecretRef(env="GIVEN")})
    (folder / "stdout").write_text("it says open-sesame\n")
    assert activity(place, env | {"GIVEN": "open-sesame"}, (given,)) == "it says [redacted]"
    (folder / "stdout").write_text("x hush-hush" + " " * (TAIL - 5) + "\n")
    assert activity(place, env) == ""


def test_following_sees_every_fact_once_and_ends_with_the_run(tmp_path: Path) -> None:
    """A reader in another place gets facts as they are written, and stops when the run is over."""
    world = World(started("local")).play(working)
    journal = written(world, tmp_path)
    env = {"NIGHTCREW_HOME": str(tmp_path)}
    lease = journal.acquire(RUN)
    got: list[int] = []
    half = threading.Event()

    def show(state: RunState, _entry: object) -> None:
        got.append(state.seq)
        if state.seq == len(journal_entries):
            half.set()

    journal_entries = list(world.entries)
    reader = threading.Thread(target=lambda: follow(seen(env), show))
    reader.start()
    assert half.wait(30)
    for entry in world.play().entries[len(journal_entries) :]:
        journal.append(lease, entry.seq - 1, entry.at, entry.event)
    reader.join(30)
    lease.release()
    assert not reader.is_alive()
    assert got == list(range(1, len(world.entries) + 1))


def test_following_ends_when_the_driver_is_gone(tmp_path: Path) -> None:
    """The end of the driving process is seen too; a run that nobody drives is told to its last fact."""
    world = World().play(working)
    journal = written(world, tmp_path)
    env = {"NIGHTCREW_HOME": str(tmp_path)}
    lease = journal.acquire(RUN)
    told = threading.Event()

    def show(state: RunState, _entry: object) -> None:
        if state.seq == len(world.entries):
            told.set()

    reader = threading.Thread(target=lambda: follow(seen(env), show))
    reader.start()
    assert told.wait(30)
    assert reader.is_alive()
    lease.release()
    reader.join(30)
    assert not reader.is_alive()


def test_logs_are_in_order_and_of_one_seat_if_asked(tmp_path: Path) -> None:
    """The output of turns and commands is found by the order of the facts; a seat that never was is a mistake with the list."""
    written(World(started("local")).play(), tmp_path)
    env = {"NIGHTCREW_HOME": str(tmp_path)}
    for name in ("StartTurn-plan-plan-0", "RunCommands-gate-impl-A-0/0", "StartTurn-implement-impl-A-0"):
        folder = tmp_path / "runs" / RUN / "effects" / name
        folder.mkdir(parents=True)
        (folder / "stdout").write_text(name)
    (tmp_path / "runs" / RUN / "effects/StartTurn-plan-plan-0/stderr").write_text("warning")
    titles = [title for title, _ in outputs(seen(env), env)]
    assert titles == [
        "plan · opus · plan 1",
        "plan · opus · plan 1 · stderr",
        "impl-A · opus · implement 1",
        "gate · impl-A · make check",
    ]
    assert [said for _, said in outputs(seen(env), env, "gate")] == [b"RunCommands-gate-impl-A-0/0"]
    with pytest.raises(UserError, match=r"impl-B.*it has: .*impl-A"):
        list(outputs(seen(env), env, "impl-B"))


def test_replay_shows_what_was_wanted_then() -> None:
    """Folding up to an entry gives its fact, what was in flight and what was wanted; an entry that is not there is a mistake."""
    world = World(started("local")).play()
    first, last = replayed(world.entries, 1), replayed(world.entries)
    assert (first.fact["type"], first.phase, first.open) == ("RunStarted", "Planning", ())
    assert [key.split("/")[1] for key in first.wanted] == ["PrepareWorkspace"]
    assert (last.seq, last.wanted, last.headline.split()[0]) == (len(world.entries), (), "landed")
    assert any("wanted: " in text for text in replay_told(first))
    with pytest.raises(UserError, match="there is no entry 999"):
        replayed(world.entries, 999)


def test_without_a_name_the_newest_of_this_repository(tmp_path: Path) -> None:
    """A newer run of another repository is not meant: `park` there would stop somebody else's night. Elsewhere, the newest of all is."""
    env = {**environment(), "NIGHTCREW_HOME": str(tmp_path / "state")}
    here, there = make_repo(tmp_path / "here"), make_repo(tmp_path / "there")
    journal = Journal(tmp_path / "state")
    old, new = RunId("20260830-153012-aaaa"), RunId("20260830-153013-bbbb")
    journal.create(old, repo_id(open_repo(here, env)), "older", 1.0, Noted(text=""))
    journal.create(new, repo_id(open_repo(there, env)), "newer", 2.0, Noted(text=""))
    assert [seen(env, near=near).run for near in (here, there, tmp_path)] == [old, new, new]
    assert seen(env, "bbbb", here).run == new

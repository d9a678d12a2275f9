"""Lists: one line a run, from SQL alone."""

import subprocess
import sys
from pathlib import Path

from nightcrew.app.home import ALL, WORDS, rows
from nightcrew.app.views import conclusion
from nightcrew.core import events as ev
from nightcrew.core.ids import RunId
from nightcrew.core.work import PipelinePhase
from unit.app.worlds import RUN, World, more, started, written


def env(home: Path) -> dict[str, str]:
    """An environment in which everything of ours is below `home`."""
    return {"NIGHTCREW_HOME": str(home)}


def test_without_a_journal_there_are_no_runs(tmp_path: Path) -> None:
    """Looking makes nothing: no journal, no folder."""
    assert rows(env(tmp_path / "none"), 20) == []
    assert not (tmp_path / "none").exists()


def test_a_row_says_what_show_says(tmp_path: Path) -> None:
    """A finished run is listed with its conclusion, its repository's folder and its times."""
    world = World(started("local")).play()
    journal = written(world, tmp_path)
    journal.set_place("repo-1", Path("/somewhere/clock"))
    row = rows(env(tmp_path), 20)[0]
    assert (row.run, row.short, row.word, row.repo) == (RUN, "a1b2", "landed", "/somewhere/clock")
    assert row.headline == f"landed on main as {world.state.commit[:10]}"
    assert (row.created_at, row.last_at) == (world.entries[0].at, world.entries[-1].at)


def test_a_row_follows_the_run(tmp_path: Path) -> None:
    """The line is the one said with the newest fact; a run whose driver said nothing yet is running."""
    world = World(started("local")).play(lambda s: s.phase is PipelinePhase.Development)
    journal = written(world, tmp_path)
    assert rows(env(tmp_path), 20)[0].word == "running"
    world.tell(ev.ParkAsked())
    more(journal, world)
    assert (rows(env(tmp_path), 20)[0].word, rows(env(tmp_path), 20)[0].headline) == ("parked", conclusion(world.state).headline)
    journal.create(RunId("20990101-000000-ffff"), "repo-1", "new", 1e10, world.entries[0].event)
    assert rows(env(tmp_path), 1)[0].headline == "running (stopped; nightcrew resume ffff)"


def test_a_run_that_nobody_drives_is_called_stopped(tmp_path: Path) -> None:
    """A run in the midst of work says whether a living process holds it, and how to go on if none does."""
    journal = written(World().play(lambda s: s.phase is PipelinePhase.Development), tmp_path)
    row = rows(env(tmp_path), 20)[0]
    assert (row.driven, row.headline.endswith("(stopped; nightcrew resume a1b2)")) == (False, True)
    lease = journal.acquire(RUN)
    row = rows(env(tmp_path), 20)[0]
    assert (row.driven, "stopped" in row.headline) == (True, False)
    lease.release()


def test_who_parks_or_asks_may_be_driven_still(tmp_path: Path) -> None:
    """A run that is parked while its last turn comes to its end is driven: `resume --all` leaves it alone."""
    world = World().play(lambda s: s.phase is PipelinePhase.Development)
    world.tell(ev.ParkAsked())
    journal = written(world, tmp_path)
    lease = journal.acquire(RUN)
    assert [(row.word, row.driven) for row in rows(env(tmp_path), 20)] == [("parked", True)]
    lease.release()
    assert [(row.word, row.driven) for row in rows(env(tmp_path), 20)] == [("parked", False)]


def test_the_newest_come_first_and_no_more_than_asked(tmp_path: Path) -> None:
    """The limit holds, and without one every run is there."""
    names = [RunId(f"20260830-15300{n}-000{n}") for n in range(5)]
    for n, name in enumerate(names):
        world = World(started())
        world.entries[0] = ev.Entry(1, 1000.0 + n, world.entries[0].event)
        written(world, tmp_path, name)
    assert [row.run for row in rows(env(tmp_path), 3)] == names[:1:-1]
    assert len(rows(env(tmp_path), ALL)) == 5


def test_a_list_loads_no_core(tmp_path: Path) -> None:
    """A look needs neither the core nor the codec, nor asyncio or rich (decision 0014)."""
    written(World(started("local")).play(), tmp_path)
    code = "import sys; from nightcrew.app.home import rows; print(len(rows({'NIGHTCREW_HOME': sys.argv[1]}, 20)));"
    code += "print([m for m in ('msgspec', 'nightcrew.core.events', 'asyncio', 'rich') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split("\n")[:2] == ["1", "[]"]


def test_every_word_is_known(tmp_path: Path) -> None:
    """Each line that a run may have begins with exactly the word of its conclusion."""
    ends = [World(started(mode)).play().state for mode in ("branch", "local")]
    world = World().play(lambda s: s.phase is PipelinePhase.Development)
    ends.append(world.state)
    for word in (ev.ParkAsked(), ev.CancelAsked()):
        world.tell(word)
        ends.append(world.state)
    for state in ends:
        assert next(filter(conclusion(state).headline.startswith, WORDS)) == conclusion(state).word
    assert rows(env(tmp_path), ALL) == []

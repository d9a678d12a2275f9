"""Lists: one line a run, cheap when nothing is new, never stale."""

import subprocess
import sys
from pathlib import Path

from nightcrew.app.views_list import ALL, TABLES, rows
from nightcrew.core import events as ev
from nightcrew.core.ids import RunId
from nightcrew.core.work import PipelinePhase
from nightcrew.journal.store import VERSION
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
    assert (row.run, row.short, row.word, row.exit_code, row.repo) == (RUN, "a1b2", "landed", 0, "/somewhere/clock")
    assert row.headline == f"landed on main as {world.state.commit[:10]}"
    assert (row.created_at, row.last_at) == (world.entries[0].at, world.entries[-1].at)


def test_news_is_never_hidden_by_what_was_said_before(tmp_path: Path) -> None:
    """A line kept from an earlier look is said anew when the run has a newer fact."""
    world = World(started("local")).play(lambda s: s.phase is PipelinePhase.Development)
    journal = written(world, tmp_path)
    assert rows(env(tmp_path), 20)[0].word == "running"
    world.tell(ev.ParkAsked())
    more(journal, world)
    assert rows(env(tmp_path), 20)[0].word == "parked"


def test_a_run_that_nobody_drives_is_called_stopped(tmp_path: Path) -> None:
    """A run in the midst of work says whether a living process holds it, and how to go on if none does."""
    journal = written(World().play(lambda s: s.phase is PipelinePhase.Development), tmp_path)
    row = rows(env(tmp_path), 20)[0]
    assert (row.driven, row.headline.endswith("(stopped; nightcrew resume a1b2)")) == (False, True)
    lease = journal.acquire(RUN)
    row = rows(env(tmp_path), 20)[0]
    assert (row.driven, "stopped" in row.headline) == (True, False)
    lease.release()


def test_the_newest_come_first_and_no_more_than_asked(tmp_path: Path) -> None:
    """The limit holds, and without one every run is there."""
    names = [RunId(f"20260830-15300{n}-000{n}") for n in range(5)]
    for n, name in enumerate(names):
        world = World(started())
        world.entries[0] = ev.Entry(1, 1000.0 + n, world.entries[0].event)
        written(world, tmp_path, name)
    assert [row.run for row in rows(env(tmp_path), 3)] == names[:1:-1]
    assert len(rows(env(tmp_path), ALL)) == 5


def test_a_cache_that_cannot_be_written_costs_nothing_but_time(tmp_path: Path) -> None:
    """A damaged cache is no reason not to list."""
    written(World(started("local")).play(), tmp_path)
    (tmp_path / "list.db").write_bytes(b"not a database at all, but long enough to be taken for one" * 20)
    assert [row.word for row in rows(env(tmp_path), 20)] == ["landed"]


def test_a_list_without_news_loads_no_core(tmp_path: Path) -> None:
    """The second look needs neither the core nor the codec, nor asyncio or rich (decision 0014)."""
    written(World(started("local")).play(), tmp_path)
    rows(env(tmp_path), 20)
    code = (
        "import sys; from nightcrew.app.views_list import rows; print(len(rows({'NIGHTCREW_HOME': sys.argv[1]}, 20)));"
    )
    code += "print([m for m in ('msgspec', 'nightcrew.core.events', 'asyncio', 'rich') if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.split("\n")[:2] == ["1", "[]"]


def test_the_list_knows_the_tables_it_reads() -> None:
    """Its number of the journal's tables is the journal's."""
    assert TABLES == VERSION

"""The table of verbs, what a command line loads, and the boundary of errors."""

import signal
import stat
import subprocess
from pathlib import Path

import pytest

from nightcrew.cli.verbs import TABLE, loaded as loaded_verb, unknown
from nightcrew.core.events import Noted
from nightcrew.core.ids import RunId
from nightcrew.journal.store import Journal
from support.repos import make_repo
from unit.app.worlds import RUN, World, started, written
from unit.cli.faces import ENTRY, argv, environment, loaded, nightcrew


def test_help_reads_the_table_and_loads_no_verb(tmp_path: Path) -> None:
    """`--help` lists every verb with its line, and loads no verb, no engine, no codec, no rich (decision 0014)."""
    said = nightcrew(tmp_path, "--help")
    assert said.code == 0
    assert nightcrew(tmp_path) == said
    for name, (_, told) in TABLE.items():
        assert f"{name} " in said.out
        assert told in " ".join(said.out.split())
    heavy = {"asyncio", "rich", "msgspec", "sqlite3", "subprocess", *(f"nightcrew.cli.{module}" for module, _ in TABLE.values())}
    assert loaded(tmp_path, "--help") & heavy == set()


def test_version_loads_nothing(tmp_path: Path) -> None:
    """`--version` answers without even loading click."""
    assert nightcrew(tmp_path, "--version").out.startswith("nightcrew 0.")
    assert loaded(tmp_path, "--version") & {"click", "msgspec", "asyncio"} == set()


@pytest.mark.parametrize("words", [("list",), ("show",), ("show", "--recovery"), ("replay",), ("watch",), ("logs",)])
def test_verbs_that_read_load_neither_asyncio_nor_rich_nor_an_adapter(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Reading verbs start at once (decision 0014)."""
    written(World(started("local")).play(), tmp_path)
    seen = loaded(tmp_path, *words)
    assert {name for name in seen if name.startswith(("asyncio", "rich", "nightcrew.agents", "nightcrew.engine"))} == set()


def test_agents_looks_without_engine_and_adapters(tmp_path: Path) -> None:
    """Who could work here is told without loading what drives them (decision 0014)."""
    seen = loaded(tmp_path, "agents")
    assert "nightcrew.app.ground" in seen
    heavy = ("asyncio", "rich", "nightcrew.engine", "nightcrew.agents.claude", "nightcrew.agents.classify")
    assert {name for name in seen if name.startswith(heavy)} == set()


@pytest.mark.parametrize("name", TABLE)
def test_every_verb_of_the_table_is_there(name: str) -> None:
    """The table and the modules agree: each verb has its name, a help of its own, and one for each option."""
    verb = loaded_verb(name)
    assert verb.name == name
    assert verb.help
    assert [p.name for p in verb.params if p.param_type_name == "option" and not getattr(p, "help", "")] == []


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("lst", "list"), ("Show", "show"), ("resum", "resume"), ("status", "show"), ("ls", "list"), ("stop", "park")],
)
def test_a_near_miss_is_told_the_verb(typed: str, meant: str) -> None:
    """A mistyped verb is answered with the nearest one, one of other programs with ours that does it."""
    assert unknown(typed).hint == f"did you mean: nightcrew {meant}"


def test_a_task_without_run_is_told_how_to_say_it(tmp_path: Path) -> None:
    """Words that are no verb are a mistake in one line, with exit 2."""
    said = nightcrew(tmp_path, "mend the clock")
    assert (said.code, said.out) == (2, "")
    assert (
        said.err
        == "nightcrew: there is no verb 'mend the clock' (nightcrew --help lists them; for a task: nightcrew run \"…\")\n"
    )


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--nope"),
        ("replay", "--at", "x"),
        ("cancel",),
        ("cancel", ""),
        ("park", ""),
        ("resume", ""),
        ("show", ""),
        ("show", "nobody"),
        ("show",),
    ],
)
def test_a_persons_mistake_is_one_line_and_exit_2(tmp_path: Path, words: tuple[str, ...]) -> None:
    """Wrong options, missing words and unknown runs end with 2 and one line that says what to do; never with a traceback."""
    if words != ("show",):
        written(World().play(), tmp_path)
    said = nightcrew(tmp_path, *words)
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("nightcrew: ")
    assert said.err.count("\n") == 1
    assert "(" in said.err


def test_an_extra_that_is_missing_is_said_before_anybody_is_paid(tmp_path: Path) -> None:
    """An agent whose client is not installed cannot work; doctor and run say what to install, and look for no other program."""
    file = tmp_path / "nightcrew/config.toml"
    file.parent.mkdir()
    file.write_text('[[agents]]\nid = "zed"\nkind = "acp"\ncommand = ["sh"]\n')
    without = f"import sys; sys.modules['acp'] = None; {ENTRY}"
    said = nightcrew(tmp_path, "doctor", cwd=tmp_path, entry=without, XDG_CONFIG_HOME=str(tmp_path))
    assert said.code == 1
    assert (
        "NO  agent zed: kind acp needs the extra; in the clone: pip install '.[acp]'\nNO  agents: nobody can work (" in said.out
    )


def test_a_bug_is_one_line_and_its_traceback_a_private_file(tmp_path: Path) -> None:
    """A fault of ours ends with 70; the line says where the traceback is, which only the person can read."""
    Journal(tmp_path).create(RUN, "repo", "a run without a beginning", 1.0, Noted(text="what?"))
    said = nightcrew(tmp_path, "show")
    assert (said.code, said.err.count("\n")) == (70, 1)
    (kept,) = (tmp_path / "faults").iterdir()
    assert str(kept) in said.err
    assert "Traceback" in kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_journal_that_cannot_be_used_is_one_line_and_exit_1(tmp_path: Path) -> None:
    """A damaged journal is said in one line with what to do."""
    written(World().play(), tmp_path).close()
    for leftover in tmp_path.glob("journal.db-*"):
        leftover.unlink()
    (tmp_path / "journal.db").write_bytes(b"no database " * 1000)
    said = nightcrew(tmp_path, "show")
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert "journal.db" in said.err


@pytest.mark.parametrize("words", [("trust",), ("init",)])
def test_a_place_that_cannot_be_written_is_one_line_and_exit_1(tmp_path: Path, words: tuple[str, ...]) -> None:
    """What is wrong with the person's disk is no bug of ours: trust whose home is a file, init where the name leads nowhere."""
    repo = make_repo(tmp_path / "repo")
    settings = repo / "nightcrew.toml"
    settings.symlink_to("nowhere/at/all") if words == ("init",) else settings.write_text('[verify]\ngate = "true"\n')
    (tmp_path / "state").write_text("")
    said = nightcrew(tmp_path / "state", *words, cwd=repo)
    assert (said.code, said.err.count("\n")) == (1, 1)
    assert said.err.startswith("nightcrew: nothing can be recorded")


def test_a_reader_that_left_is_no_error(tmp_path: Path) -> None:
    """`nightcrew list --all | head -1` prints its line and nothing else."""
    for n in range(300):
        written(World(started()), tmp_path, RunId(f"20260830-153012-{n:04}"))
    nightcrew(tmp_path, "list", "--all")
    process = subprocess.Popen(
        argv("list", "--all", "--json"), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(60) == 1


def test_ctrl_c_while_watching_exits_with_130(tmp_path: Path) -> None:
    """Who stops watching stops nothing else: exit 130, no traceback."""
    world = World().play(lambda s: s.phase == "Development")
    journal = written(world, tmp_path)
    lease = journal.acquire(RUN)
    process = subprocess.Popen(
        argv("watch"), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    while "→ Development" not in process.stdout.readline():
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    lease.release()
    assert (process.returncode, err.strip()) == (130, "")


def test_completion_is_clicks_own_and_loads_no_verb(tmp_path: Path) -> None:
    """The shell's script asks nightcrew itself; the answer comes from the table."""
    assert "_NIGHTCREW_COMPLETE=bash_complete" in nightcrew(tmp_path, "completion", "bash").out
    env = {**environment(tmp_path), "_NIGHTCREW_COMPLETE": "bash_complete", "COMP_WORDS": "nightcrew re", "COMP_CWORD": "1"}
    done = subprocess.run(argv(), env=env, capture_output=True, text=True, check=False, timeout=60)
    assert done.stdout.split() == ["plain,resume", "plain,replay"]

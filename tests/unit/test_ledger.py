"""What all runs know together: nobody asks an agent that cools, and never more turns at once than allowed."""

import fcntl
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nightcrew.core.ids import AgentId
from nightcrew.core.roster import Agent
from nightcrew.database import Unusable, locked
from nightcrew.errors import UserError
from nightcrew.ledger import Cooling, Ledger, account_of
from nightcrew.redact import Redactor

MIN = 60.0
OPUS = Agent(id=AgentId("opus"), kind="claude", model="opus", account="work")
HAIKU = Agent(id=AgentId("haiku"), kind="claude", model="haiku", account="work")
CODEX = Agent(id=AgentId("codex"), kind="codex", model="big")


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    """An empty ledger."""
    ledger = Ledger(tmp_path / "home")
    yield ledger
    ledger.close()


@pytest.fixture
def other(ledger: Ledger, tmp_path: Path) -> Iterator[Ledger]:
    """The same ledger, as another run has it."""
    assert ledger.cooling_of(OPUS, 0.0) is None
    other = Ledger(tmp_path / "home")
    yield other
    other.close()


Turn = Callable[[str], Path]


@pytest.fixture
def leases() -> Iterator[dict[str, int]]:
    """The leases that this process holds, by the name of the run."""
    leases: dict[str, int] = {}
    yield leases
    for held in leases.values():
        os.close(held)


@pytest.fixture
def turn(tmp_path: Path, leases: dict[str, int]) -> Turn:
    """The folder of a turn of a run that this process drives."""

    def made(name: str) -> Path:
        folder = tmp_path / name / "effects/t"
        folder.mkdir(parents=True)
        leases[name] = locked(tmp_path / name / "lease")
        return folder

    return made


# ── who cools down ────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_account_is_named_or_the_agents_own() -> None:
    """Agents of one account cool together; an agent without one cools alone."""
    assert (account_of(OPUS), account_of(CODEX)) == ("work", "codex:codex")


def test_another_run_skips_without_asking(ledger: Ledger, other: Ledger, tmp_path: Path) -> None:
    """F22: what one run learns keeps every other from asking, until the reset and not a moment longer."""
    ledger.cool(OPUS, 100.0, 500.0, "five_hour", "limit reached")
    cooling = other.ask(OPUS, tmp_path / "t", 200.0, 4)
    assert cooling == Cooling("work", 500.0, "five_hour", "limit reached", 100.0)
    assert not (tmp_path / "t").exists()
    assert other.ask(OPUS, tmp_path / "t", 499.9, 4) == cooling
    assert other.ask(OPUS, tmp_path / "t", 500.0, 4) == 0


def test_a_loss_is_of_the_account(ledger: Ledger) -> None:
    """What one agent meets holds for all of its account until it is over, and for nobody else."""
    ledger.cool(HAIKU, 0.0, 300.0)
    found = [ledger.cooling_of(agent, 299.0) for agent in (OPUS, HAIKU, CODEX)]
    assert [cooling and cooling.until for cooling in found] == [300.0, 300.0, None]
    assert [ledger.cooling_of(agent, 300.0) for agent in (OPUS, HAIKU)] == [None, None]


@pytest.mark.parametrize(
    ("window", "why", "free"),
    [
        ("seven_day_opus", "", True),
        ("", "Claude Opus weekly limit reached", True),
        ("", "quota of claude-opus-4-1 is spent", True),
        ("seven_day", "Claude usage limit reached", False),
        ("", "", False),
    ],
)
def test_a_limit_that_names_a_model_is_of_that_model(ledger: Ledger, window: str, why: str, free: bool) -> None:  # noqa: FBT001 - a table
    """What cools down is the account and the model that the limit names: another model of the account works on (fixer chain 1)."""
    big, same = (Agent(id=AgentId(name), kind="claude", model="claude-opus-4-1", account="work") for name in ("big", "same"))
    ledger.cool(big, 0.0, 300.0, window, why)
    assert (ledger.cooling_of(HAIKU, 1.0) is None, ledger.cooling_of(same, 1.0) is None) == (free, False)
    ledger.cool(HAIKU, 1.0, 200.0, "five_hour")
    assert [cooling and cooling.until for cooling in (ledger.cooling_of(big, 2.0), ledger.cooling_of(HAIKU, 2.0))] == (
        [300.0, 200.0] if free else [300.0, 300.0]
    )
    assert ledger.warm(big) == 1 + free
    assert [ledger.cooling_of(agent, 2.0) for agent in (big, same, HAIKU)] == [None] * 3


def test_an_unknown_reset_is_assumed_and_doubles(ledger: Ledger) -> None:
    """Without a reset: 15 min, doubling to 60 with each loss in a row (rulings 24)."""
    at, spans = 0.0, list[float]()
    for _ in range(5):
        cooling = ledger.cool(CODEX, at)
        assert cooling.losses == len(spans) + 1
        spans.append((cooling.until - at) / MIN)
        at = cooling.until
    assert spans == [15, 30, 60, 60, 60]


def test_a_reset_that_came_and_changed_nothing_is_none(ledger: Ledger) -> None:
    """A probe at the stated reset; if the provider's own clock was wrong, growing spans, not a call after a call."""
    at, spans = ledger.cool(CODEX, 0.0, 100.0).until, list[float]()
    for _ in range(3):
        cooling = ledger.cool(CODEX, at, 100.0)
        spans.append((cooling.until - at) / MIN)
        at = cooling.until
    assert spans == [15, 30, 60]


def test_a_known_reset_or_an_answer_ends_the_doubling(ledger: Ledger) -> None:
    """Losses are in a row only if nothing was stated or answered in between."""
    ledger.cool(CODEX, 0.0)
    at = ledger.cool(CODEX, 15 * MIN).until
    ledger.cool(CODEX, at, at + 1.0)
    assert ledger.cool(CODEX, at + 2.0).until == at + 2.0 + 15 * MIN
    ledger.warm(CODEX, at + 3.0)
    assert ledger.cooling_of(CODEX, at + 3.0) is None
    assert ledger.cool(CODEX, at + 4.0).until == at + 4.0 + 15 * MIN


def test_losses_under_way_count_once(ledger: Ledger) -> None:
    """Four turns that were running when the quota ended are one loss: neither doubled nor shortened."""
    first = ledger.cool(CODEX, 0.0)
    assert [ledger.cool(CODEX, at) for at in (1.0, 2.0, 3.0)] == [first] * 3
    assert ledger.cool(CODEX, 3.0, 600.0, window="day").until == 600.0, "what is stated beats what is assumed"
    stated = ledger.cool(CODEX, 4.0, 9000.0, window="week")
    assert stated.until == 9000.0
    assert ledger.cool(CODEX, 5.0) == stated
    assert ledger.cool(CODEX, 6.0, 100.0, window="day") == stated
    assert ledger.cool(CODEX, 7.0, 8000.0, window="week").until == 8000.0


def test_an_answer_to_an_older_question_clears_nothing(ledger: Ledger) -> None:
    """A turn that began before the loss and still ended well says nothing about the quota since."""
    loss = ledger.cool(OPUS, 100.0, 900.0)
    ledger.warm(OPUS, 99.0)
    assert ledger.cooling_of(OPUS, 101.0) == loss
    ledger.warm(OPUS, 101.0)
    assert ledger.cooling_of(OPUS, 101.0) is None


def test_a_person_can_clear_an_account(ledger: Ledger, other: Ledger) -> None:
    """`clear` forgets all of the account and nothing of others."""
    ledger.cool(HAIKU, 0.0, 900.0)
    kept = ledger.cool(CODEX, 0.0, 900.0)
    assert (other.warm(OPUS), other.warm(OPUS)) == (1, 0)
    assert [ledger.cooling_of(agent, 1.0) for agent in (OPUS, HAIKU, CODEX)] == [None, None, kept]


def test_known_secrets_are_not_on_disk(tmp_path: Path) -> None:
    """What an agent said about its loss is redacted like any prose (law 14)."""
    home = tmp_path / "home"
    ledger = Ledger(home, Redactor(["correct-horse"]))
    assert ledger.cool(CODEX, 0.0, why="key correct-horse is spent").why == "key [redacted] is spent"
    assert not [path for path in home.iterdir() if b"correct-horse" in path.read_bytes()]
    ledger.close()


def test_waiting_writes_nothing(ledger: Ledger, other: Ledger, tmp_path: Path, turn: Turn) -> None:
    """One who asks again every second costs the disk nothing; now and then it says that it still waits."""
    a, b = turn("a"), turn("b")
    assert ledger.ask(OPUS, a, 0.0, 1) == 0
    assert other.ask(OPUS, b, 0.0, 1) == 1
    plain = sqlite3.connect(tmp_path / "home" / "ledger.db")

    def version() -> int:
        found: int = plain.execute("PRAGMA data_version").fetchone()[0]
        return found

    before = version()
    for at in (1.0, 10.0, 20.0):
        assert other.ask(OPUS, b, at, 1) == 1
    assert version() == before
    assert other.ask(OPUS, b, 21.0, 1) == 1
    assert version() != before
    plain.close()


# ── who has a turn ────────────────────────────────────────────────────────────────────────────────────────────────


def test_slots_go_to_those_who_wait_longest(ledger: Ledger, other: Ledger, turn: Turn) -> None:
    """A freed slot is the first waiter's, even if a later one asks first."""
    a, b, c, d = (turn(name) for name in "abcd")
    assert ledger.ask(OPUS, a, 0.0, 1) == 0
    assert ledger.ask(OPUS, b, 1.0, 1) == 1
    assert other.ask(OPUS, c, 2.0, 1) == 2
    ledger.release(a)
    assert other.ask(OPUS, c, 3.0, 1) == 1
    assert other.ask(OPUS, d, 3.0, 1) == 2
    assert ledger.ask(OPUS, b, 4.0, 1) == 0
    ledger.release(b)
    ledger.release(b)
    assert other.ask(OPUS, c, 5.0, 2) == 0
    assert other.ask(OPUS, d, 5.0, 2) == 0


def test_who_waits_and_stopped_asking_holds_nobody_up(ledger: Ledger, other: Ledger, turn: Turn) -> None:
    """A frozen driver at the head of the queue loses its precedence after a while and gets it back when it asks."""
    a, b, c = (turn(name) for name in "abc")
    ledger.ask(OPUS, a, 0.0, 1)
    ledger.ask(OPUS, b, 0.0, 1)
    ledger.release(a)
    assert other.ask(OPUS, c, 10.0, 1) == 1
    assert other.ask(OPUS, c, 200.0, 1) == 0
    assert ledger.ask(OPUS, b, 201.0, 1) == 1


def test_an_adopted_turn_takes_no_second_slot(ledger: Ledger, other: Ledger, turn: Turn) -> None:
    """Whoever asks for a turn that has its slot is told so, full or cooling (rulings 36)."""
    a, b = turn("a"), turn("b")
    assert ledger.ask(OPUS, a, 0.0, 1) == 0
    ledger.cool(OPUS, 1.0, 900.0)
    assert other.ask(OPUS, a, 2.0, 1) == 0
    assert other.ask(CODEX, b, 2.0, 1) == 1
    assert other.ask(CODEX, b, 2.0, 2) == 0


def test_a_waiter_that_must_cool_waits_no_more(ledger: Ledger, turn: Turn) -> None:
    """Who is told to cool loses its place: it must not hold up agents that could work."""
    a, b, c = (turn(name) for name in "abc")
    ledger.ask(CODEX, a, 0.0, 1)
    ledger.ask(OPUS, b, 0.0, 1)
    ledger.cool(OPUS, 1.0, 900.0)
    assert isinstance(ledger.ask(OPUS, b, 2.0, 1), Cooling)
    ledger.release(a)
    assert ledger.ask(CODEX, c, 3.0, 1) == 0


HEAD = """
import sys, os, time
from pathlib import Path
from nightcrew.core.roster import Agent
from nightcrew.database import locked
from nightcrew.ledger import *
home, folder = Path(sys.argv[1]), Path(sys.argv[2])
folder.mkdir(parents=True, exist_ok=True)
lease = locked(folder.parents[1] / "lease")
ledger, agent = Ledger(home), Agent(id="a", kind="k")
"""


def start(tmp_path: Path, lines: str, folder: Path) -> "subprocess.Popen[str]":
    """A process with the same ledger, that drives the run of the turn in `folder`."""
    argv = [sys.executable, "-c", HEAD + lines, str(tmp_path / "home"), str(folder)]
    return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def heard(process: "subprocess.Popen[str]") -> str:
    """The next line it printed."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


ASK = "print(ledger.ask(agent, folder, 0.0, 1), flush=True); sys.stdin.readline()"


def test_a_dead_drivers_slot_is_free(ledger: Ledger, tmp_path: Path, turn: Turn) -> None:
    """Killed between the grant and the supervisor, or while it waits, a driver keeps no slot and no place."""
    a, b = (tmp_path / name / "effects/t" for name in "ab")
    c = turn("c")
    with start(tmp_path, ASK, a) as first:
        assert heard(first) == "0"
        with start(tmp_path, ASK, b) as second:
            assert heard(second) == "1"
            assert ledger.ask(CODEX, c, 1.0, 1) == 2
            second.kill()
        first.kill()
    assert ledger.ask(CODEX, c, 2.0, 1) == 0


def test_a_slot_belongs_to_the_supervisor(ledger: Ledger, tmp_path: Path, turn: Turn) -> None:
    """A turn that outlives its driver keeps its slot while its supervisor lives, and no longer (rulings 36)."""
    a, b = tmp_path / "a/effects/t", turn("b")
    with start(tmp_path, ASK, a) as driver:
        assert heard(driver) == "0"
        owner = os.open(a / "owner", os.O_RDWR | os.O_CREAT, 0o600)
        fcntl.flock(owner, fcntl.LOCK_EX)
        driver.kill()
    assert ledger.ask(CODEX, b, 1.0, 1) == 1
    os.close(owner)
    assert ledger.ask(CODEX, b, 2.0, 1) == 0


def test_a_turn_that_ended_frees_its_slot_itself(ledger: Ledger, other: Ledger, turn: Turn) -> None:
    """With its exit record written and its supervisor gone the slot is free, though the driver (frozen, say) released nothing."""
    a, b = turn("a"), turn("b")
    ledger.ask(OPUS, a, 0.0, 1)
    owner = os.open(a / "owner", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(owner, fcntl.LOCK_EX)
    (a / "exit.json").write_text("{}")
    assert other.ask(CODEX, b, 1.0, 1) == 1
    os.close(owner)
    assert other.ask(CODEX, b, 2.0, 1) == 0


@pytest.mark.parametrize("how", ["folder gone", "machine restarted"])
def test_what_cannot_run_any_more_frees_its_slot(
    ledger: Ledger, other: Ledger, tmp_path: Path, turn: Turn, leases: dict[str, int], how: str
) -> None:
    """A turn whose folder was deleted, or whose locks are gone since the machine was started anew, has no slot."""
    a, b = turn("a"), turn("b")
    ledger.ask(OPUS, a, 0.0, 1)
    if how == "folder gone":
        shutil.rmtree(tmp_path / "a")
    else:
        (a / "owner").touch()
        os.close(leases.pop("a"))
    assert other.ask(CODEX, b, 1.0, 1) == 0


CROWD = """
print("ready", flush=True); sys.stdin.readline()
log = os.open(home / "log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
for n in range(15):
    mine = folder.with_name(str(n))
    while ledger.ask(agent, mine, 0.0, 3): time.sleep(0.002)
    os.write(log, b"+"); time.sleep(0.01); os.write(log, b"-")
    ledger.release(mine)
"""


def test_never_more_turns_than_allowed(tmp_path: Path) -> None:
    """Six processes that ask at once, again and again, never have more than the allowed number of slots; each gets all it asked for."""
    crowd = [start(tmp_path, CROWD, tmp_path / f"p{n}" / "effects/t") for n in range(6)]
    assert [heard(process) for process in crowd] == ["ready"] * 6
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in crowd:
        process.communicate()
        assert process.returncode == 0
    level = [0]
    for sign in (tmp_path / "home" / "log").read_bytes():
        level.append(level[-1] + (1 if sign == ord("+") else -1))
    assert max(level) <= 3, "never a fourth; whether three were ever held at once is the machine's to say"
    assert (level[-1], len(level)) == (0, 1 + 6 * 15 * 2)


def test_processes_that_write_at_once_all_write(ledger: Ledger, tmp_path: Path) -> None:
    """What several runs tell the ledger at the same moment is all there; none of them is turned away."""
    lines = """
print("ready", flush=True); sys.stdin.readline()
for n in range(150): ledger.cool(Agent(id=f"{folder.parents[1].name}-{n % 3}", kind="k"), float(n), n + 1000.0)
"""
    crowd = [start(tmp_path, lines, tmp_path / f"p{n}" / "effects/t") for n in range(4)]
    assert [heard(process) for process in crowd] == ["ready"] * 4
    for process in crowd:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in crowd:
        process.communicate()
        assert process.returncode == 0
    agents = [Agent(id=AgentId(f"p{n}-{m}"), kind="k") for n in range(4) for m in range(3)]
    ends = [cooling and cooling.until for cooling in (ledger.cooling_of(agent, 0.0) for agent in agents)]
    assert ends == [1147.0, 1148.0, 1149.0] * 4


# ── the file ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_processes_open_a_fresh_ledger_at_once(tmp_path: Path) -> None:
    """The first moment of a machine: several processes make one ledger."""
    crowd = [start(tmp_path, 'ledger.cool(agent, 0.0); print("done")', tmp_path / "p/effects/t") for _ in range(4)]
    assert [heard(process) for process in crowd] == ["done"] * 4
    for process in crowd:
        process.communicate()


def test_only_the_owner_can_read(ledger: Ledger, tmp_path: Path) -> None:
    """Folder 0700, files 0600."""
    ledger.ask(OPUS, tmp_path / "home" / "turn", 0.0, 1)
    paths = [tmp_path / "home", *(tmp_path / "home").rglob("*")]
    assert [path for path in paths if path.stat().st_mode & 0o777 != (0o700 if path.is_dir() else 0o600)] == []


def test_a_newer_or_broken_ledger_is_one_line(ledger: Ledger, tmp_path: Path) -> None:
    """Tables of a newer nightcrew are not touched, and a file that is none of ours is said with its path."""
    with sqlite3.connect(tmp_path / "home" / "ledger.db") as plain:
        plain.execute("PRAGMA user_version=2")
    plain.close()
    ledger.close()
    with pytest.raises(UserError, match="newer nightcrew"):
        Ledger(tmp_path / "home")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "ledger.db").write_bytes(b"no database" * 200)
    with pytest.raises(Unusable, match="not a database"):
        Ledger(tmp_path / "broken")

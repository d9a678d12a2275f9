"""The journal between processes: death at any moment, two drivers, frozen drivers, words from outside."""

import fcntl
import os
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nightcrew.core.events import Entry, Noted, ParkAsked, ResumeAsked
from nightcrew.core.ids import RunId
from nightcrew.errors import UserError
from nightcrew.journal.store import Fenced, Journal
from unit.journal.conftest import RUN, Start, answer, heard

APPEND = """
journal = Journal(home)
held = journal.acquire(run)
seq = journal.last_seq(run)
while True:
    for entry in journal.append(held, seq, 1.0, Noted(text=str(seq)), Noted(text="pair")):
        seq = entry.seq
    say(seq)
"""
HOLD = """
lease = Journal(home).acquire(run)
say("holds")
sys.stdin.readline()
"""


def test_nothing_acknowledged_is_lost_by_kill_9(journal: Journal, start: Start) -> None:
    """Killed at any moment of an append loop: every fact that was acknowledged is there, whole steps only, no gap; the next goes on."""
    for round_ in range(8):
        writer = start(APPEND)
        said = [int(heard(writer))]
        time.sleep(0.004 * round_)
        writer.kill()
        assert writer.stdout is not None
        said += [int(line) for line in writer.stdout.read().splitlines() if line.strip()]
        writer.wait()
        entries = list(journal.entries(RUN))
        assert [entry.seq for entry in entries] == list(range(1, len(entries) + 1))
        assert len(entries) >= said[-1]
        assert len(entries) % 2 == 1, "half a step was written"
        firsts = [entry.event for entry in entries[1::2]]
        assert firsts == [Noted(text=str(seq)) for seq in range(1, len(entries), 2)]


def test_two_openers_make_one_journal(home: Path, start: Start) -> None:
    """Processes that start at once on a fresh machine all find the same, whole journal."""
    lines = """
say("ready"); sys.stdin.readline()
journal = Journal(home)
journal.create(run + sys.argv[3], "repo", "t", 1.0, Noted(text="x"))
say("done")
"""
    openers = [start(lines, f"-{n}") for n in range(4)]
    for opener in openers:
        assert heard(opener) == "ready"
    for opener in openers:
        answer(opener)
    assert [heard(opener) for opener in openers] == ["done"] * 4
    journal = Journal(home)
    assert len(journal.recent(10)) == 4
    journal.close()


def test_two_appenders_at_one_seq(journal: Journal, start: Start) -> None:
    """Of facts decided on the same entry by several threads of a driver, exactly one is written at each seq (rulings 1)."""
    lines = """
import threading
journal = Journal(home); held = journal.acquire(run)
gate = threading.Barrier(4)
def work(name):
    for seq in range(1, 51):
        gate.wait()
        try: journal.append(held, seq, 1.0, Noted(text=name))
        except SeqMoved: pass
threads = [threading.Thread(target=work, args=(str(n),)) for n in range(4)]
[t.start() for t in threads]; [t.join() for t in threads]
say("done")
"""
    assert heard(start(lines)) == "done"
    assert [entry.seq for entry in journal.entries(RUN)] == list(range(1, 52))


def test_a_second_driver_is_told_who_the_first_is(journal: Journal, start: Start) -> None:
    """A live run is busy, and the message names the process."""
    holder = start(HOLD)
    assert heard(holder) == "holds"
    with pytest.raises(UserError) as busy:
        journal.acquire(RUN)
    assert f"process {holder.pid}" in busy.value.message
    assert journal.holder(RUN) == holder.pid


def test_a_dead_driver_leaves_no_lock(journal: Journal, start: Start) -> None:
    """The kernel frees the lease at kill -9; nothing has to be deleted by a person."""
    holder = start(HOLD)
    assert heard(holder) == "holds"
    holder.kill()
    holder.wait()
    assert journal.holder(RUN) is None
    held = journal.acquire(RUN)
    journal.append(held, 1, 2.0, Noted(text="on"))
    held.release()
    held.release()
    journal.acquire(RUN).release()


def test_looking_does_not_take(journal: Journal, start: Start) -> None:
    """Any number of looks at the holder never make a driver believe the run is busy."""
    looker = start("""
journal = Journal(home)
say("looks")
while True: journal.holder(run)
""")
    assert heard(looker) == "looks"
    for _ in range(800):
        journal.acquire(RUN).release()


def test_a_frozen_driver_is_taken_over(journal: Journal, start: Start) -> None:
    """A frozen holder keeps the run from `acquire`, not from `take_over`; thawed, its next append fails and writes nothing (rulings 8)."""
    lines = """
journal = Journal(home); held = journal.acquire(run)
journal.append(held, 1, 1.0, Noted(text="old")); say("holds")
sys.stdin.readline()
try: journal.append(held, 2, 1.0, Noted(text="zombie"))
except Fenced: say("fenced")
try: journal.append(held, 3, 1.0, Noted(text="zombie"))
except Fenced: say("fenced")
"""
    old = start(lines)
    assert heard(old) == "holds"
    old.send_signal(signal.SIGSTOP)
    with pytest.raises(UserError, match="is being driven"):
        journal.acquire(RUN)
    held = journal.acquire(RUN, take_over=True)
    journal.append(held, 2, 2.0, Noted(text="new"))
    assert journal.holder(RUN) == os.getpid(), "the next one is told about the new driver"
    other = Journal(journal.home)
    with pytest.raises(UserError, match="is being driven"):
        other.acquire(RUN)
    other.close()
    old.send_signal(signal.SIGCONT)
    answer(old)
    assert [heard(old), heard(old)] == ["fenced", "fenced"]
    assert [entry.event for entry in journal.entries(RUN, 1)] == [Noted(text="old"), Noted(text="new")]


def test_of_two_that_take_over_one_is_left(journal: Journal) -> None:
    """Taken over twice, only the last can write, and it is the one that `acquire` is told about."""
    leases = [journal.acquire(RUN, take_over=True) for _ in range(3)]
    for held in leases[:2]:
        with pytest.raises(Fenced):
            journal.append(held, 1, 2.0, Noted(text="x"))
    journal.append(leases[2], 1, 2.0, Noted(text="y"))
    leases[0].release()
    leases[1].release()
    with pytest.raises(UserError, match="is being driven"):
        journal.acquire(RUN)
    leases[2].release()
    journal.acquire(RUN)


def test_programs_do_not_inherit_the_lease(journal: Journal) -> None:
    """What a driver starts may outlive it; it does not keep the run locked (rulings 8)."""
    held = journal.acquire(RUN)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, close_fds=False) as child:
        held.release()
        journal.acquire(RUN).release()
        assert child.poll() is None
        child.communicate(b"\n")


# ── words ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_word_becomes_a_fact_exactly_once(journal: Journal, start: Start) -> None:
    """Killed around the moment a word becomes a fact, again and again: each word is a fact once, in the order they were said."""
    lines = """
journal = Journal(home); held = journal.acquire(run)
seq = journal.last_seq(run)
say("drives")
while True:
    for number, word in journal.words(run):
        journal.append(held, seq, 1.0, word, takes=(number,)); seq += 1
"""
    said: list[Noted] = []
    for round_ in range(6):
        driver = start(lines)
        assert heard(driver) == "drives"
        for n in range(10):
            said.append(Noted(text=f"{round_}.{n}"))
            journal.say(RUN, 5.0, said[-1])
        time.sleep(0.002 * round_)
        driver.kill()
        driver.wait()
    held = journal.acquire(RUN)
    for number, word in journal.words(RUN):
        journal.append(held, journal.last_seq(RUN), 1.0, word, takes=(number,))
    assert [entry.event for entry in journal.entries(RUN, 1)] == said
    assert journal.words(RUN) == ()


def test_a_taken_word_cannot_be_taken_again(journal: Journal) -> None:
    """A word is marked in the same transaction as its fact; a second fact for it is refused and not written."""
    held = journal.acquire(RUN)
    word = journal.say(RUN, 5.0, ParkAsked(now=True))
    assert journal.words(RUN) == ((word, ParkAsked(now=True)),)
    journal.append(held, 1, 6.0, ParkAsked(now=True), takes=(word,))
    with pytest.raises(LookupError):
        journal.append(held, 2, 6.0, ParkAsked(now=True), takes=(word,))
    assert list(journal.entries(RUN, 1)) == [Entry(2, 6.0, ParkAsked(now=True))]


def test_a_word_wakes_the_driver(journal: Journal, start: Start) -> None:
    """A driver that sleeps on its bell wakes when a word is said in another process, and then finds it."""
    bell = journal.listen(RUN)
    assert select.select([bell], [], [], 0)[0] == []
    speaker = start('Journal(home).say(run, 1.0, ResumeAsked()); say("said")')
    assert select.select([bell], [], [], 60)[0] == [bell]
    assert [word for _, word in journal.words(RUN)] == [ResumeAsked()]
    assert bell.hush()
    assert not bell.hush()
    assert select.select([bell], [], [], 0)[0] == []
    assert heard(speaker) == "said"
    bell.close()


def test_ringing_never_waits_or_fails(journal: Journal) -> None:
    """With no bell, a dead driver's bell, or a driver that never listens, a word is left all the same."""
    journal.say(RUN, 1.0, ResumeAsked())
    bell = journal.listen(RUN)
    assert os.write(bell.fileno(), b"!" * 1_000_000) < 1_000_000, "the pipe is full"
    journal.say(RUN, 1.0, ResumeAsked())
    assert bell.hush()
    bell.close()
    journal.say(RUN, 1.0, ResumeAsked())
    assert len(journal.words(RUN)) == 3


def test_a_new_driver_has_a_bell_of_its_own(journal: Journal) -> None:
    """A frozen driver that is thawed cannot swallow the rings meant for its successor."""
    old = journal.listen(RUN)
    new = journal.listen(RUN)
    journal.say(RUN, 1.0, ResumeAsked())
    assert not old.hush()
    assert new.hush()
    old.close()
    new.close()


def test_words_are_each_runs_own(journal: Journal) -> None:
    """A word said to one run is not heard by another, and cannot be taken by it."""
    other = RunId("20260830-153013-ffff")
    journal.create(other, "repo", "t", 1.0, Noted(text=""))
    word = journal.say(RUN, 1.0, ResumeAsked())
    assert journal.words(other) == ()
    with pytest.raises(LookupError):
        journal.append(journal.acquire(other), 1, 1.0, ResumeAsked(), takes=(word,))


def test_of_many_that_come_at_once_one_drives(journal: Journal, start: Start) -> None:
    """However acquiring and taking over fall together, exactly one process is left that can write, and the next is told about that one."""
    lines = """
journal = Journal(home); say("ready"); sys.stdin.readline()
try: lease = journal.acquire(run, take_over=sys.argv[3] == "take over")
except UserError: say("busy")
else: say("drives")
sys.stdin.readline()
try: journal.append(lease, journal.last_seq(run), 1.0, Noted(text=str(os.getpid()))); say("wrote")
except (NameError, Fenced): say("cannot")
sys.stdin.readline()
"""
    crowd = [start("import os\nfrom nightcrew.errors import UserError\n" + lines, how) for how in ("acquire", "take over") * 3]
    assert [heard(process) for process in crowd] == ["ready"] * 6
    for process in crowd:
        answer(process)
    assert {heard(process) for process in crowd} <= {"busy", "drives"}
    for process in crowd:
        answer(process)
    wrote = [process.pid for process in crowd if heard(process) == "wrote"]
    assert [entry.event for entry in journal.entries(RUN, 1)] == [Noted(text=str(pid)) for pid in wrote]
    assert len(wrote) == 1
    with pytest.raises(UserError, match=f"process {wrote[0]}"):
        journal.acquire(RUN)


def test_two_that_look_see_nobody(journal: Journal) -> None:
    """One who looks is not taken for a driver by another who looks."""
    journal.acquire(RUN).release()
    with (journal.folder(RUN) / "lease").open() as looking:
        fcntl.flock(looking, fcntl.LOCK_SH)
        assert journal.holder(RUN) is None


def test_an_opener_waits_for_the_one_that_makes_the_journal(home: Path, start: Start, tmp_path: Path) -> None:
    """While one process makes the journal another does not make a second: it waits and finds the first."""
    home.mkdir(parents=True)
    with (home / "journal.db.lock").open("w") as making:
        fcntl.flock(making, fcntl.LOCK_EX)
        opener = start("""
say("opens")
say(*Journal(home).recent(1))
""")
        assert heard(opener) == "opens"
        time.sleep(0.2)
        assert not (home / "journal.db").exists()
        first = Journal(tmp_path / "elsewhere")
        first.create(RUN, "repo", "the first", 1.0, Noted(text=""))
        first.close()
        (tmp_path / "elsewhere" / "journal.db").rename(home / "journal.db")
    assert heard(opener) == RUN

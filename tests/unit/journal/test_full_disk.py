"""A disk that takes no more: one line, nothing half written, and it goes on once there is room."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightcrew.core.events import Noted
from nightcrew.core.ids import RunId
from nightcrew.database import Unusable
from nightcrew.journal.blobs import Blobs
from nightcrew.journal.store import Journal, Lease
from unit.journal.conftest import RUN, Start, heard


def mount(*args: str) -> bool:
    """Whether mounting worked."""
    try:
        return subprocess.run(["mount", *args], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or not mount("-t", "tmpfs", "-o", "size=1m", "none", str(disk)):
        pytest.skip("mounting a small disk needs root; the file size limit below stands in")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(journal: Journal, lease: Lease) -> None:
    """Append until it fails."""
    seq = 1
    while True:
        seq = journal.append(lease, seq, 1.0, Noted(text="x" * 5000))[-1].seq


def test_a_full_disk_stops_the_run_and_loses_nothing(small_disk: Path) -> None:
    """An append that finds no room raises one line and writes nothing; all before it is there, and after making room it goes on."""
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 300_000)
    journal = Journal(small_disk / "home")
    journal.create(RUN, "repo", "t", 1.0, Noted(text="first"))
    lease = journal.acquire(RUN)
    with pytest.raises(Unusable) as full:
        fill(journal, lease)
    seq = journal.last_seq(RUN)
    assert seq > 5
    assert "full" in str(full.value)
    assert "\n" not in str(full.value)
    assert [entry.seq for entry in journal.entries(RUN)] == list(range(1, seq + 1))
    with pytest.raises(Unusable):
        Blobs(small_disk / "blobs").put(b"x" * 600_000)
    assert not [path for path in (small_disk / "blobs").rglob("*") if path.is_file()]
    ballast.unlink()
    assert journal.append(lease, seq, 1.0, Noted(text="on"))[0].seq == seq + 1
    journal.close()


def test_a_new_home_on_a_full_disk_is_one_line(small_disk: Path) -> None:
    """Where not even the tables have room, opening says so; with room it works and nothing is in the way."""
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="space"):
        ballast.write_bytes(b"x" * 2_000_000)
    with pytest.raises(Unusable):
        Journal(small_disk / "home")
    ballast.unlink()
    Journal(small_disk / "home").close()


def test_a_read_only_disk_is_one_line(small_disk: Path) -> None:
    """A disk that turned read-only stops the run like a full one."""
    journal = Journal(small_disk / "home")
    journal.create(RUN, "repo", "t", 1.0, Noted(text="first"))
    journal.close()
    assert mount("-o", "remount,ro", str(small_disk))
    with pytest.raises(Unusable):
        Journal(small_disk / "home").create(RunId("other"), "repo", "t", 1.0, Noted(text=""))
    with pytest.raises(Unusable, match="ead-only"):
        Journal(small_disk / "elsewhere")


def test_a_file_that_may_not_grow_is_one_line(journal: Journal, start: Start) -> None:
    """The same for a limit on file sizes, which needs no root: one line, whole steps, and the next driver goes on."""
    writer = start("""
import resource
journal = Journal(home); lease = journal.acquire(run); seq = journal.last_seq(run)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    while True: seq = journal.append(lease, seq, 1.0, Noted(text="x" * 5000), Noted(text="pair"))[-1].seq
except Unusable as full: say(seq, "one line:", full)
""")
    seq, _, line = heard(writer).partition(" ")
    assert line.startswith("one line:")
    assert writer.wait() == 0
    assert [entry.seq for entry in journal.entries(RUN)] == list(range(1, int(seq) + 1))
    journal.append(journal.acquire(RUN), int(seq), 2.0, Noted(text="on"))


def test_a_home_that_is_no_folder_is_one_line(tmp_path: Path) -> None:
    """NIGHTCREW_HOME on a file, or a journal that is no database: said with the path."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(Unusable, match="file"):
        Journal(tmp_path / "file")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "journal.db").write_bytes(b"no database at all" * 100)
    with pytest.raises(Unusable, match="not a database"):
        Journal(tmp_path / "home")


def test_a_journal_is_made_whole_or_not_at_all(small_disk: Path) -> None:
    """A first start that finds too little room leaves nothing that a later one, with room again, takes for a journal."""
    ballast, home, failed = small_disk / "ballast", small_disk / "home", 0
    for spare in range(0, 200_000, 8_192):
        free = os.statvfs(small_disk)
        ballast.write_bytes(b"x" * (free.f_bavail * free.f_frsize - spare))
        try:
            Journal(home).close()
        except Unusable:
            failed += 1
        ballast.unlink()
        journal = Journal(home)
        journal.create(RUN, "repo", "t", 1.0, Noted(text="first"))
        journal.close()
        shutil.rmtree(home)
    assert failed > 3


def test_an_empty_file_is_no_journal(tmp_path: Path) -> None:
    """What a power cut made of a file that was just begun counts as absent."""
    (tmp_path / "journal.db").touch()
    journal = Journal(tmp_path)
    journal.create(RUN, "repo", "t", 1.0, Noted(text="first"))
    assert journal.last_seq(RUN) == 1
    journal.close()

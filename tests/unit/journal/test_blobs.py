"""Texts by digest: what was put is what is got, from the fact itself or from its file."""

from hashlib import sha256
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from nightcrew.errors import UserError
from nightcrew.journal.blobs import TAIL, Blobs
from nightcrew.redact import Redactor


def files(folder: Path) -> list[Path]:
    """Every file below."""
    return [path for path in folder.rglob("*") if path.is_file()]


def test_a_small_text_lives_in_its_fact(tmp_path: Path) -> None:
    """Up to 2 KB nothing is stored: the tail is the text (rulings 5)."""
    blobs = Blobs(tmp_path / "blobs")
    for data in (b"", "é\n".encode(), b"x" * TAIL):
        blob = blobs.put(data)
        assert (blob.size, blob.tail.encode(), blobs.get(blob)) == (len(data), data, data)
    assert files(tmp_path) == []


def test_a_large_text_lives_in_a_file(tmp_path: Path) -> None:
    """Above 2 KB the text is a file named by its digest, the same text the same file, readable by the owner only."""
    blobs = Blobs(tmp_path / "blobs")
    data = "ü".encode() * 5000 + b"end"
    blob = blobs.put(data)
    assert (blob.digest, blob.size, blobs.get(blob)) == (sha256(data).hexdigest(), len(data), data)
    assert blob.tail.endswith("üend")
    assert len(blob.tail.encode()) <= TAIL
    assert blobs.put(data) == blob
    assert files(tmp_path) == [tmp_path / "blobs" / blob.digest[:2] / blob.digest[2:]]
    assert {path.stat().st_mode & 0o777 for path in files(tmp_path)} == {0o600}
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "blobs").rglob("*") if path.is_dir()} == {0o700}


def test_bytes_that_are_no_text_come_back_whole_when_large(tmp_path: Path) -> None:
    """A file of another encoding in a patch is not bent; a small one is shown as well as it can be."""
    blobs = Blobs(tmp_path)
    for data in (b"\xff\x00\xfe" * 2000, b"\xff" * 2046, b"\x80" * 4000):
        blob = blobs.put(data)
        assert blobs.get(blob) == data
        blob.tail.encode()
    small = blobs.put(b"caf\xe9")
    assert small.tail == "caf\ufffd"
    assert blobs.get(small) == small.tail.encode()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(piece=st.text(min_size=0, max_size=40), shift=st.integers(0, 4))
def test_a_tail_is_whole_characters(tmp_path: Path, piece: str, shift: int) -> None:
    """A tail is the end of the text, at most 2 KB, and begins at a character."""
    text = "x" * shift + (piece or "é") * 400
    cut = Blobs(tmp_path).put(text.encode()).tail
    assert text.endswith(cut)
    assert len(cut.encode()) <= TAIL
    assert len(cut.encode()) > TAIL - 4 or cut == text


def test_a_lost_or_damaged_file_is_one_line(tmp_path: Path) -> None:
    """A text that is gone, or that holds something else, is said with its path and never given out."""
    blobs = Blobs(tmp_path)
    blob = blobs.put(b"a" * 9999)
    path = files(tmp_path)[0]
    path.write_bytes(b"b" * 9999)
    with pytest.raises(UserError, match="damaged"):
        blobs.get(blob)
    path.unlink()
    with pytest.raises(UserError, match=str(path)):
        blobs.get(blob)


def test_known_secrets_are_in_no_text(tmp_path: Path) -> None:
    """Neither file, tail nor digest tells a known value; also one that the cut of the tail would divide (law 14)."""
    secret = "correct-horse-battery"
    blobs = Blobs(tmp_path, Redactor([secret]))
    for length in range(TAIL - len(secret) - 2, TAIL + 2):
        blob = blobs.put(secret.encode() + b"x" * length)
        assert "battery" not in blob.tail
        assert secret.encode() not in blobs.get(blob)
        assert blob == blobs.put(b"[redacted]" + b"x" * length)
    assert not [path for path in files(tmp_path) if secret.encode() in path.read_bytes()]

"""Where the border runs between a text in a fact and a text that travels by digest."""

from pathlib import Path

import pytest

from nightcrew.journal.blobs import TAIL, Blobs


@pytest.mark.parametrize("letter", ["x", "é", "☃"])
def test_the_border_is_counted_in_bytes(tmp_path: Path, letter: str) -> None:
    """S209: exactly the limit stands in the fact and nothing is stored; one byte more is a file; letters do not count."""
    many = TAIL // len(letter.encode())
    text = letter * many + "x" * (TAIL - many * len(letter.encode()))
    blobs = Blobs(tmp_path / "blobs")
    inside = blobs.put(text.encode())
    assert (len(text.encode()), inside.size, inside.tail) == (TAIL, TAIL, text)
    assert not (tmp_path / "blobs").exists()
    outside = blobs.put(text.encode() + b"!")
    assert outside.size == TAIL + 1
    assert len(outside.tail.encode()) <= TAIL
    assert [path.is_file() for path in (tmp_path / "blobs").glob("*/*")] == [True]
    assert (blobs.get(inside), blobs.get(outside)) == (text.encode(), text.encode() + b"!")

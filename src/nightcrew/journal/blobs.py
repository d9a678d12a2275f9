"""Texts that travel by digest (rulings 5): small ones live in the fact itself, larger ones in files named by what they hold."""

import os
from hashlib import sha256
from pathlib import Path
from threading import get_ident

from nightcrew.core.work import Blob
from nightcrew.errors import UserError
from nightcrew.journal.database import sync_folder, unusable
from nightcrew.redact import Redactor

TAIL = 2048
"""Bytes of a text that a fact may hold."""
_CONTINUATIONS = bytes(range(0x80, 0xC0))
"""The bytes that are never the first of a character in UTF-8."""


class BlobLost(UserError):  # noqa: N818 — says what became of it
    """The file of a text is gone or damaged."""


class Blobs:
    """The texts of one run, below its folder; secrets known to `redactor` never get there."""

    def __init__(self, folder: Path, redactor: Redactor | None = None) -> None:
        """Keep them in `folder` (made on first use)."""
        self._folder = folder
        self._redactor = redactor or Redactor()

    def put(self, data: bytes) -> Blob:
        """Keep `data` and give its name, redacted; on disk when this returns. Raises `JournalUnusable`.

        Up to `TAIL` bytes nothing is stored: the blob's tail is the whole text, bytes that are no UTF-8 replaced.
        """
        data = self._redactor.bytes(data)
        whole = data.decode(errors="replace").encode()
        if max(len(data), len(whole)) <= TAIL:
            return Blob(sha256(whole).hexdigest(), len(whole), whole.decode())
        digest = sha256(data).hexdigest()
        path = self._path(digest)
        if not path.exists():
            with unusable(path):
                self._write(path, data)
        return Blob(digest, len(data), tail(data))

    def get(self, blob: Blob) -> bytes:
        """The text. Raises `BlobLost` when its file is gone or holds something else."""
        path = self._path(blob.digest)
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            if len(blob.tail.encode()) == blob.size:
                return blob.tail.encode()
            raise BlobLost(f"a text of the run is gone: {path}") from None
        if sha256(data).hexdigest() != blob.digest:
            raise BlobLost(f"a text of the run is damaged: {path}")
        return data

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]

    def _write(self, path: Path, data: bytes) -> None:
        for folder in (self._folder, path.parent):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}.{get_ident()}")
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with open(fd, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(fd)
            aside.rename(path)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise
        sync_folder(path.parent)
        sync_folder(self._folder)


def tail(data: bytes) -> str:
    """The last part of `data`, at most `TAIL` bytes as UTF-8, begun at a whole character."""
    cut = data if len(data) <= TAIL else data[-TAIL:].lstrip(_CONTINUATIONS)
    return cut.decode(errors="replace").encode()[-TAIL:].decode(errors="ignore")

"""Texts that travel by digest (rulings 5): small ones live in the fact itself, larger ones in files named by what they hold."""

from hashlib import sha256
from pathlib import Path

from nightcrew.core.work import Blob
from nightcrew.database import put, sync_folder, unusable
from nightcrew.errors import UserError
from nightcrew.redact import Redactor

TAIL = 2048  # bytes of a text that a fact may hold


class Blobs:
    """The texts of one run, below its folder; secrets known to `redactor` never get there."""

    def __init__(self, folder: Path, redactor: Redactor | None = None) -> None:
        """Keep them in `folder` (made on first use)."""
        self._folder, self._redactor = folder, redactor or Redactor()

    def put(self, data: bytes) -> Blob:
        """Keep `data` and give its name, redacted; on disk when this returns. Raises `Unusable`."""
        # Up to `TAIL` bytes nothing is stored: the blob's tail is the whole text, bytes that are no UTF-8 replaced.
        data = self._redactor.bytes(data)
        whole = data.decode(errors="replace").encode()
        if max(len(data), len(whole)) <= TAIL:
            return Blob(sha256(whole).hexdigest(), len(whole), whole.decode())
        digest = sha256(data).hexdigest()
        path = self._path(digest)
        with unusable(path):
            if not path.exists():
                for folder in (self._folder, path.parent):
                    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                put(path, data)
                sync_folder(path.parent)
                sync_folder(self._folder)
        return Blob(digest, len(data), data[-TAIL:].decode(errors="ignore"))

    def get(self, blob: Blob) -> bytes:
        """The text. Raises `UserError` when its file is gone or holds something else."""
        tail, path = blob.tail.encode(), self._path(blob.digest)
        if len(tail) == blob.size:
            return tail
        data = path.read_bytes() if path.exists() else b""
        if sha256(data).hexdigest() != blob.digest:
            raise UserError(f"a text of the run is lost or damaged: {path}")
        return data

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest[2:]

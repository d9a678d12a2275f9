"""Watches the HOME of the account that runs the tests: whoever opens, makes or changes something of an agent there is seen."""

import ctypes
import os
import pwd
import struct
from collections.abc import Iterable
from typing import Self

AGENTS = (".claude", ".claude.json", ".codex", ".gemini", ".qwen", ".opencode", ".nightcrew")
"""What agents keep directly in a HOME."""
BELOW = (".config/opencode", ".local/share/opencode", ".config/nightcrew", ".claude", ".codex", ".gemini", ".qwen")
"""Folders of theirs, which are watched too where they exist."""
ANY = 0x20 | 0x1 | 0x2 | 0x100 | 0x200  # opened, read, written, made, removed


class Watch:
    """What happened by name, as the kernel tells."""

    def __enter__(self) -> Self:
        """Begin to watch."""
        libc, home = ctypes.CDLL(None, use_errno=True), pwd.getpwuid(os.getuid()).pw_dir
        self.fd = libc.inotify_init1(os.O_NONBLOCK)
        self.watched = {}
        for folder in ("", *BELOW):
            path = os.path.join(home, folder)
            if os.path.isdir(path):
                self.watched[libc.inotify_add_watch(self.fd, path.encode(), ANY)] = folder
        return self

    def __exit__(self, *exc: object) -> None:
        """Watch no longer."""
        os.close(self.fd)

    def names(self) -> set[str]:
        """What was touched since the last look, below HOME; empty for HOME itself."""
        found = set()
        try:
            while data := os.read(self.fd, 65536):
                at = 0
                while at < len(data):
                    which, _, _, size = struct.unpack_from("iIII", data, at)
                    name = data[at + 16 : at + 16 + size].rstrip(b"\0").decode(errors="replace")
                    found.add(os.path.join(self.watched.get(which, ""), name))
                    at += 16 + size
        except BlockingIOError:
            return found
        return found


def untouched(names: Iterable[str]) -> bool:
    """Whether nothing of an agent's is among them."""
    return not [name for name in names if name.startswith(AGENTS) or name.startswith(BELOW)]

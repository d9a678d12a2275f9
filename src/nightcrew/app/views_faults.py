"""What a face says, and exits with, when something fails that is not a person's mistake."""

import os
import time
import traceback
from collections.abc import Mapping
from typing import NamedTuple

from nightcrew.app.home import home_of
from nightcrew.journal.store import Fenced, JournalUnusable
from nightcrew.redact import Redactor

BUG = 70
"""EX_SOFTWARE: a fault of nightcrew itself."""


class Fault(NamedTuple):
    """One line for the person, and the exit code."""

    text: str
    exit_code: int


def fault(error: Exception, env: Mapping[str, str]) -> Fault:
    """A journal that cannot be written, a run taken over: exit 1. Anything else is our bug; its traceback is kept: exit 70."""
    if isinstance(error, JournalUnusable):
        return Fault(
            f"nothing can be recorded, so nothing goes on: {error.reason} (mend it, then: nightcrew resume)", 1
        )
    if isinstance(error, Fenced):
        return Fault(f"{error}; this process leaves it alone", 1)
    said = f"{type(error).__name__}: {error}".splitlines()[0]
    return Fault(f"a bug of nightcrew: {Redactor().text(said)} ({_kept(error, env)})", BUG)


def _kept(error: Exception, env: Mapping[str, str]) -> str:
    text = Redactor().text("".join(traceback.format_exception(error)))
    folder = home_of(env) / "faults"
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as why:
        return f"its traceback could not be kept in {folder}: {why.strerror}"
    return f"its traceback is in {path}"

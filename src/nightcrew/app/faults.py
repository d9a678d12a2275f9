"""What a face says, and exits with, when something fails that is not a person's mistake."""

import os
import time
import traceback
from collections.abc import Mapping

from nightcrew.app.home import hide, home_of
from nightcrew.journal.store import Fenced, JournalUnusable


def fault(error: Exception, env: Mapping[str, str]) -> tuple[str, int]:
    """One line for the person and the exit code. No journal, or a run taken over: 1. Anything else is our bug, its traceback kept: 70."""
    if isinstance(error, JournalUnusable):
        return f"nothing can be recorded, so nothing goes on: {error} (mend it, then: nightcrew resume)", 1
    if isinstance(error, Fenced):
        return f"{error}; this process leaves it alone", 1
    cleaned = hide(env).text
    said = cleaned(f"{type(error).__name__}: {error}".splitlines()[0])
    path = (folder := home_of(env) / "faults") / f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{os.getpid()}.txt"
    kept = f"its traceback is in {path}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(0o600)
        path.write_text(cleaned("".join(traceback.format_exception(error))), "utf-8")
    except OSError as why:
        kept = f"its traceback could not be kept in {folder}: {why.strerror}"
    return f"a bug of nightcrew: {said} ({kept})", 70

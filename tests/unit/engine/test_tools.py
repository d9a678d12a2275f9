"""What handlers work with: the turnstile of a target branch."""

import asyncio
import subprocess
import sys
from pathlib import Path

from nightcrew.engine.tools import Clock, Turnstile

HOLD = """
import asyncio, sys
from pathlib import Path
from nightcrew.engine.tools import Clock, Turnstile

stile, count = Turnstile(Path(sys.argv[1])), Path(sys.argv[2])
for _ in range(50):
    asyncio.run(stile.enter(Clock()))
    count.write_text(str(int(count.read_text()) + 1))
    stile.leave()
"""


def test_one_lander_at_a_time(tmp_path: Path) -> None:
    """The lock of a target branch lets one process in at a time (law 6)."""
    count = tmp_path / "count"
    count.write_text("0")
    argv = [sys.executable, "-c", HOLD, str(tmp_path / "targets/main.queue"), str(count)]
    jobs = [subprocess.Popen(argv) for _ in range(4)]
    assert [job.wait(60) for job in jobs] == [0, 0, 0, 0]
    assert count.read_text() == "200"


def test_whoever_is_in_enters_at_once_and_leaves_once(tmp_path: Path) -> None:
    """Entering and leaving twice is once."""
    first, second = Turnstile(tmp_path / "queue"), Turnstile(tmp_path / "queue")
    for _ in range(2):
        asyncio.run(first.enter(Clock()))
    for _ in range(2):
        first.leave()
    asyncio.run(second.enter(Clock()))
    second.leave()

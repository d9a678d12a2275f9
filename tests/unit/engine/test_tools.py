"""What handlers work with: the turnstile of a target branch, a workspace in use."""

import asyncio
import subprocess
import sys
from pathlib import Path

from msgspec.structs import replace

from nightcrew.core.ids import RunId
from nightcrew.engine.tools import Clock, Ctx, Turnstile
from nightcrew.git import workspace
from nightcrew.git.slots import read_record, write_record
from support import repos
from support.rooms import opened

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


def test_work_in_a_workspace_that_was_being_set_back_is_work(tmp_path: Path) -> None:
    """Law 8: a reset that failed half way leaves a workspace whose files are nobody's; once somebody is let into it, they are somebody's."""
    tools = opened(tmp_path / "home", repos.make_repo(tmp_path / "repo"))
    start = repos.git(tmp_path / "repo", "rev-parse", "HEAD")
    ws = workspace.lease(tools.pool, "r", "dev", start, "ours")
    write_record(tools.pool.root, replace(read_record(tools.pool.root, ws.slot), ready=False))
    ctx = Ctx(tools, RunId("r"), 0.0, False, tmp_path, lambda _: None, lambda: None, None)  # type: ignore[arg-type,return-value]  # noqa: FBT003
    repos.write(ctx.verified(ws.slot).path, {"work.txt": "work\n"})
    _, saved = workspace.reset(tools.pool, ws, start)
    assert repos.shown(tmp_path / "repo", saved.ref, "work.txt") == "work\n"
    tools.journal.close()
    tools.ledger.close()

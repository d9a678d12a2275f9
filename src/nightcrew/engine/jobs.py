"""Waiting for a supervised job without holding a thread: on its pidfd, in the loop. Shared by turns and commands."""

import asyncio
import os
from pathlib import Path

from nightcrew.engine.tools import off
from nightcrew.proc import job
from nightcrew.proc.job import Absent, Exit, Job, Lost, Running


async def run(folder: Path, order: Job) -> Exit | Lost:
    """Start the job, or adopt the one that was begun in this folder, and wait for its end."""
    return await ended(folder, await off(job.start, folder, order))


async def ended(folder: Path, found: Running | Exit | Lost | Absent) -> Exit | Lost:
    """What became of a job, once it is over."""
    while isinstance(found, Running):
        if (held := found.open_pidfd()) is not None:
            await _readable(held)
        found = await off(job.look, folder)
    return found if isinstance(found, Exit) else Lost()


async def stopped(*folders: Path) -> None:
    """Stop the jobs of these folders and wait until nothing of them is left."""
    for folder in folders:
        await off(job.stop, folder)
        await ended(folder, await off(job.look, folder))


async def _readable(held: int) -> None:
    over = asyncio.Event()
    asyncio.get_running_loop().add_reader(held, over.set)
    try:
        await over.wait()
    finally:
        asyncio.get_running_loop().remove_reader(held)
        os.close(held)


def output(path: Path, head: int = 256 * 1024, tail: int = 6 * 1024 * 1024) -> bytes:
    """What a job printed; of more than head + tail bytes, the first and the last part with a line between."""
    if not path.exists():
        return b""
    with path.open("rb") as file:
        left_out = path.stat().st_size - head - tail
        if left_out <= 0:
            return file.read()
        first = file.read(head)
        file.seek(left_out, os.SEEK_CUR)
        return b"%b\n[%d bytes left out]\n%b" % (first, left_out, file.read())

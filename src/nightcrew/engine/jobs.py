"""Waiting for a supervised job without holding a thread: on its pidfd, in the loop. Shared by turns and commands."""

import asyncio
import os
from pathlib import Path

from nightcrew.engine.tools import off
from nightcrew.proc import job
from nightcrew.proc.job import Exit, Job, Lost, Running


async def run(folder: Path, order: Job) -> Exit | Lost:
    """Start the job, or adopt the one that was begun in this folder, and wait for its end."""
    found = await off(job.start, folder, order)
    return await ended(folder, found)


async def ended(folder: Path, found: Running | Exit | Lost | job.Absent) -> Exit | Lost:
    """What became of a job, once it is over."""
    while isinstance(found, Running):
        await _over(found)
        found = await off(job.look, folder)
    return found if isinstance(found, Exit) else Lost()


async def stopped(folder: Path) -> None:
    """Stop the job of this folder and wait until nothing of it is left."""
    await off(job.stop, folder)
    await ended(folder, await off(job.look, folder))


async def _over(running: Running) -> None:
    held = running.open_pidfd()
    if held is None:
        return
    loop = asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_reader(held, over.set)
    try:
        await over.wait()
    finally:
        loop.remove_reader(held)
        os.close(held)


def output(path: Path, head: int = 256 * 1024, tail: int = 6 * 1024 * 1024) -> bytes:
    """What a job printed; of more than head + tail bytes, the first and the last part with a line between."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(0)
            if size <= head + tail:
                return file.read()
            first = file.read(head)
            file.seek(size - tail)
            return first + b"\n[" + str(size - head - tail).encode() + b" bytes left out]\n" + file.read()
    except FileNotFoundError:
        return b""

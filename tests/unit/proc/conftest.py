"""A folder for one job, cleared of everything that still runs there, and the modes that this machine has."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from nightcrew.proc import job
from nightcrew.proc.sandbox import Mode, why_not
from unit.proc.yard import PATIENCE_S, wait


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """Where a job may be started; whatever still runs there at the end is ended."""
    place = tmp_path / "turn"
    yield place
    job.stop(place)
    wait(place, PATIENCE_S)
    job.stop(place)


@pytest.fixture(params=["bwrap", "unshare", "mark"])
def mode(request: pytest.FixtureRequest) -> Mode:
    """Each way of containing a job; one that this machine lacks is skipped, and red where all must be tested."""
    wanted: Mode = request.param
    if why := why_not(wanted):
        (pytest.fail if "CI" in os.environ else pytest.skip)(f"{wanted}: {why}")
    return wanted


@pytest.fixture
def bwrap() -> Mode:
    """The mode that holds the file system, for the tests of that."""
    if why := why_not("bwrap"):
        (pytest.fail if "CI" in os.environ else pytest.skip)(why)
    return "bwrap"

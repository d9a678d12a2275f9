"""A crew for each story; what a failed story leaves running is ended."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.crew import Crew


@pytest.fixture
def hire(tmp_path: Path) -> Iterator[Callable[..., Crew]]:
    """`hire(name)`: a machine of its own below the test's folder."""
    hired: list[Crew] = []

    def made(name: str = "machine") -> Crew:
        hired.append(Crew(tmp_path / name))
        return hired[-1]

    yield made
    for crew in hired:
        crew.close()


@pytest.fixture
def crew(hire: Callable[..., Crew]) -> Crew:
    """One machine."""
    return hire()


@pytest.fixture
def small(crew: Crew) -> Iterator[Path]:
    """NIGHTCREW_HOME on a file system of its own, just large enough to begin on."""
    if os.geteuid() != 0:
        pytest.skip("needs a file system of its own, which only root may mount")
    crew.state_home.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=80m", "tmpfs", str(crew.state_home)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("this machine does not let us mount")
    yield crew.state_home
    crew.close()
    subprocess.run(["umount", "-l", str(crew.state_home)], check=True)

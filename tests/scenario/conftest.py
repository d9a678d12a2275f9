"""A crew for each story; what a failed story leaves running is ended."""

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

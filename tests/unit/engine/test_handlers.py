"""The table of handlers."""

from typing import get_args

from nightcrew.core.effects import Effect
from nightcrew.engine.handlers import STEPS, WORK


def test_every_effect_has_one_handler() -> None:
    """Whatever the core can ask for is carried out, by one handler each (law 4)."""
    assert sorted([*STEPS, *WORK], key=str) == sorted(get_args(Effect), key=str)

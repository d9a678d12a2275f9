"""How a process ended, as the adapters are told."""

from nightcrew.agents.base import Exit as End

__all__ = ["End", "died", "returned"]


def died(number: int, stopped_by: str = "") -> End:
    """The end by a signal."""
    return End(128 + number, number, stopped_by)


def returned(code: int, stopped_by: str = "") -> End:
    """The end as a return code tells it: a negative one is a signal's number."""
    return died(-code, stopped_by) if code < 0 else End(code, 0, stopped_by)

"""How a process ended, as the adapters are told."""

from typing import NamedTuple


class End(NamedTuple):
    """An exit status (128+n for a death by signal n, which is then named too), and what of ours ended it."""

    code: int = 0
    signal: int = 0
    stopped_by: str = ""


def died(number: int, stopped_by: str = "") -> End:
    """The end by a signal."""
    return End(128 + number, number, stopped_by)


def returned(code: int, stopped_by: str = "") -> End:
    """The end as a return code tells it: a negative one is a signal's number."""
    return died(-code, stopped_by) if code < 0 else End(code, 0, stopped_by)

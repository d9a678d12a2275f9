"""How a process ended, as the adapters are told."""

from typing import NamedTuple


class End(NamedTuple):
    """An exit status or a signal's number, and the limit of ours that ended it."""

    code: int | None = 0
    signal: int | None = None
    stopped_by: str = ""

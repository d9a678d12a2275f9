"""Where a list finds the journal's file and its statements (`queries.sql`, beside this) without the code that decodes facts."""

from nightcrew.database import Database, Row

__all__ = ["Database", "Row"]

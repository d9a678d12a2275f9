"""The one error a person can mend: one line on what is wrong, one on what to do (DESIGN section 7)."""


class UserError(Exception):
    """A mistake or a missing thing outside nightcrew: one line, exit 2. `message` says what and where, `hint` what to do, if anything."""

    def __init__(self, message: str, hint: str = "") -> None:
        """Keep both parts apart, so that a face may colour or serialise them."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        """Both parts in one line."""
        return f"{self.message} ({self.hint})" if self.hint else self.message

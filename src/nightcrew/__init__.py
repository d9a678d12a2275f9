"""nightcrew: hand off a coding task in the evening, find it landed in the morning."""

__version__ = "0.1.0"

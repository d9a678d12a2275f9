"""The journal of all runs: facts written once, in order, by one writer a run. It decides nothing and knows no engine."""

VERSION = 1
"""The number of the file's tables; facts have one of their own (`codec.SCHEMA`)."""

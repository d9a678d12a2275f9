"""The journal of all runs: facts written once, in order, by one writer a run. It decides nothing and knows no engine."""

VERSION = 1  # of the file's tables; facts have a number of their own (`codec.SCHEMA`)

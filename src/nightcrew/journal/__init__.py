"""The journal of all runs: facts written once, in order, by one writer a run. It decides nothing and knows no engine."""

"""The one place that starts processes: short calls, supervised jobs that outlive us, and the sandbox around them.

Nothing here knows what an agent, a run or a repository is.
"""

"""The one place that starts processes: short calls, supervised jobs that outlive us, the sandbox around them. Knows no agent, run or repository."""

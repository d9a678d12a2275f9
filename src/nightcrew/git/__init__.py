"""The git room: the person's repository, our workspaces, rescue, and landing. Synchronous; processes start through `proc.call`."""

"""The phases of a run, one file each: its brief, what it wants, what each answer means."""

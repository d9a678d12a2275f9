"""The only door for people and programs: what can be done (`control`) and what is shown (`views`)."""

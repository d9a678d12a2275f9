"""Adapters: how each agent program is called and what its output means. They start nothing; `catalog` is the door."""

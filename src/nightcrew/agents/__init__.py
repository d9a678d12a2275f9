"""Adapters: how each agent program is called and what its output means. They start nothing and wait for nothing.

`catalog` is the door; `base` says what an adapter is.
"""

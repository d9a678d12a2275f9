"""Every setting of this version: its table, its key, how it is read and where the core keeps it. Agents and roles have their own module."""

from typing import NamedTuple

from nightcrew.config.readers import (
    Reader,
    above_zero,
    argv,
    choice,
    commands,
    count,
    flag,
    inside,
    lifted,
    outside,
    span,
    text,
    variables,
)


class Setting(NamedTuple):
    """How one key is read, and the field of the core's struct it fills (empty: the key is checked and kept nowhere)."""

    field: str
    read: Reader
    word: bool = False
    """On the command line the value is taken as it is typed, not as TOML."""


_ALONE = "is too many: implementers that compete are not in this version"
_ONE_REVIEWER = "is too many: a panel of reviewers is not in this version"

TABLES: dict[str, dict[str, Setting]] = {
    "pipeline": {
        "plan": Setting("plan", flag),
        "implementers": Setting("", count(1, 1, _ALONE)),
        "reviewers": Setting("reviewers", count(0, 1, _ONE_REVIEWER)),
        "review_rounds": Setting("review_rounds", count(0)),
        "gate_fix_rounds": Setting("gate_fix_rounds", count(0)),
        "land_rounds": Setting("land_rounds", count(0)),
        "continuations": Setting("continuations", count(0)),
        "iterations": Setting("iterations", count(1)),
    },
    "verify": {
        "setup": Setting("setup", commands),
        "check": Setting("check", commands),
        "e2e": Setting("e2e", commands),
        "pre_gate": Setting("pre_gate", commands),
        "gate": Setting("gate", commands),
        "timeout": Setting("timeout_s", span),
        "base": Setting("base", choice(("any", "green")), word=True),
        "copy": Setting("copy", inside),
        "keep": Setting("keep", inside),
        "writable": Setting("writable", outside),
        "env": Setting("env", variables),
    },
    "land": {
        "mode": Setting(
            "mode", choice(("branch", "local", "push"), {"pr": "pull requests are not in this version"}), word=True
        ),
        "target": Setting("target", text, word=True),
        "remote": Setting("remote", text, word=True),
    },
    "limits": {
        "usd": Setting("usd", lifted(above_zero)),
        "tokens": Setting("tokens", lifted(count(1))),
        "turns": Setting("turns", lifted(count(1))),
        "wall": Setting("wall", lifted(span)),
        "turn": Setting("turn_s", span),
        "first_output": Setting("first_output_s", span),
        "idle": Setting("idle_s", span),
    },
    "recovery": {
        "dev_fix": Setting("dev_fix", flag),
        "ceiling": Setting("ceiling", count(0)),
        "pause": Setting("pause_s", span),
        "pause_max": Setting("pause_max_s", span),
        "max_sleep": Setting("max_sleep_s", span),
    },
    "sandbox": {
        "mode": Setting("mode", choice(("auto", "bwrap", "unshare", "off")), word=True),
        "network": Setting("network", flag),
    },
    "notify": {"command": Setting("notify", argv)},
    "machine": {"max_turns": Setting("max_turns", count(1))},
}

LATER = {
    "pipeline.judges": "judging is not in this version",
    "pipeline.advise": "advisors are not in this version",
    "pipeline.advisors": "advisors are not in this version",
    "pipeline.max_parallel": "several implementers at once are not in this version",
    "land.approve": "pull requests are not in this version",
    "review": "a policy for panels is not in this version",
}
"""Keys that the project plans and this version refuses in one line."""

LATER_KINDS = ("acp", "codex", "gemini", "opencode", "qwen")
"""Kinds of agent that come later."""

"""Every setting of this version and how it is read: shapes (a table, a list, a reader of one value) held against what TOML gives."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from nightcrew.core.roster import AgentRole, Answers, SecretRef
from nightcrew.core.settings import Limit
from nightcrew.errors import UserError

Reader = Callable[[Any], Any]  # from a TOML value to the core's, never None; raises UserError
Spot = tuple[str | int, ...]  # the way to a key or an item of a list: `("agents", 0, "env")`
Said = list[tuple[Spot, UserError]]
# Keys, words and kinds of agent that the project plans and this version refuses (rulings 42).
LATER = ("approve", "pr")


class Many(NamedTuple):
    """A list; one item alone may stand for it. Where `wanted` describes it, it may not, and the list is not empty."""

    of: "Shape"
    wanted: str = ""


Shape = Mapping[str, Any] | Many | Reader  # a table by key, a list, or a reader


def read(shape: Shape, value: Any, spot: Spot, said: Said) -> Any:
    """`value` as `shape` has it. What is wrong is added to `said` and None stands in its place; unknown keys are left out."""
    if isinstance(shape, Mapping) and isinstance(value, dict):
        said += [((*spot, key), UserError("unknown key", near(key, shape))) for key in value if key not in shape]
        return {key: read(shape[key], one, (*spot, key), said) for key, one in value.items() if key in shape}
    if isinstance(shape, Many) and (not shape.wanted or (value and isinstance(value, list))):
        got = tuple(read(shape.of, one, (*spot, n), said) for n, one in enumerate(value if isinstance(value, list) else [value]))
        return None if None in got else got
    if isinstance(shape, Mapping | Many):
        wanted = "a table" if isinstance(shape, Mapping) else shape.wanted
        said.append((spot, UserError(f"{shown(value)} is not {wanted}")))
        return None
    try:
        return shape(value)
    except UserError as error:
        said.append((spot, error))
        return None


def shown(value: Any) -> str:
    """A value as a person wrote it, short enough for one line."""
    if value and isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    return json.dumps(value, ensure_ascii=False, default=str)[:40]


def near(word: Any, words: Iterable[str]) -> str:
    """What to say beside a word that is none of `words`: that it comes later, or which one is near; else nothing."""
    from difflib import get_close_matches  # noqa: PLC0415 - only a mistake pays for it

    if word in LATER:
        return "it comes in a later version"
    found = get_close_matches(word, list(words), n=1) if isinstance(word, str) else []
    return f'did you mean "{found[0]}"?' if found else ""


def _rule(wanted: str, right: Callable[[Any], bool], words: Iterable[str] = ()) -> Reader:
    # A value as it is if it is `right`; else it is not `wanted`, but perhaps near one of `words`.
    def checked(value: Any) -> Any:
        if not right(value):
            raise UserError(f"{shown(value)} is not {wanted}", near(value, words))
        return value

    return checked


def _whole(least: int, most: int = 2**53, wanted: str = "") -> Reader:
    fits = range(least, most + 1)
    return _rule(wanted or f"a whole number from {least} on", lambda value: type(value) is int and value in fits)


def _word(wanted: str, pattern: str) -> Reader:
    fits = re.compile(pattern, re.DOTALL).fullmatch
    return _rule(wanted, lambda value: isinstance(value, str) and "\0" not in value and fits(value) is not None)


def _choice(*words: str) -> Reader:
    return _rule(f"one of {', '.join(words)}", lambda value: value in words, words)


def _number(wanted: str, least: float) -> Reader:
    return _rule(wanted, lambda value: type(value) in {int, float} and least <= value < 1e300)


flag = _rule("true or false", lambda value: isinstance(value, bool))
line = _word("a line of text", r"\S([^\n]*\S)?")
command = _word("a command", r".*\S.*")
variable = _word("the name of a variable", r"[A-Za-z_][A-Za-z0-9_]*")
SPANS = {"d": 86400, "h": 3600, "m": 60, "s": 1}
_SPAN = re.compile("".join(rf"(?:(\d+(?:\.\d+)?){unit})?" for unit in SPANS))
_SECONDS = _number('a span of time above zero, such as "90s", "30m", "8h" or a number of seconds', 1e-3)


def _span(value: Any) -> float:
    # Seconds from a number or from a text such as `90s`, `1h30m`, `2d`.
    parts = _SPAN.fullmatch(value) if isinstance(value, str) else None
    sizes = zip(parts.groups("0"), SPANS.values(), strict=True) if parts else ()
    return float(_SECONDS(sum(float(amount) * size for amount, size in sizes) or value))


def _valve(reader: Reader) -> Reader:
    # The operator's own limit, or `"none"` for no bound (rulings 30).
    return lambda value: Limit(None if value == "none" else reader(value), mine=True)


def _environment(value: Any) -> dict[str, str | SecretRef]:
    # No value is ever shown, however wrong it is (law 14).
    if not isinstance(value, dict):
        raise UserError("not a table of variables", 'env = { NAME = "value" }')
    return {variable(name): _secret(name, one) for name, one in value.items()}


def _secret(name: str, value: Any) -> str | SecretRef:
    with suppress(UserError, KeyError):
        if isinstance(value, str) and "\0" not in value:
            return value
        if isinstance(value, dict) and len(value) == 1:
            return SecretRef(**{key: {"env": variable, "command": command}[key](told) for key, told in value.items()})
    raise UserError(f"{name} has no usable value", 'a text, { env = "NAME" } or { command = "pass show x" }')


_PROGRAM = Many(_word("a text", ".*"), 'a program with its arguments, such as ["program", "--flag"]')
_INSIDE = _word("a path below the repository's top", r"(?!/|~|(.*/)?\.\.(/|$)).+")
_OUTSIDE = _word("a path that begins with / or ~/", r"~?/.*")
_ID = _word("an id: letters, digits and . _ @ + -, at most 64", r"[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}")
_ROUNDS = ("review_rounds", "gate_fix_rounds", "land_rounds", "conflict_rounds", "deliberate_rounds", "continuations")

# A key bears the name of the core's field that it fills, less its `_s`.
TABLES: dict[str, dict[str, Reader | Many]] = {
    "pipeline": {
        **dict.fromkeys(("plan", "advise", "graft"), flag),
        **dict.fromkeys(("implementers", "judges"), _whole(1, 8, "a whole number from 1 to 8")),
        "advisors": _whole(0, 8, "a whole number from 0 to 8"),
        "on_leak": _choice("warn", "redact", "fail"),
        "reviewers": _whole(0, 5, "a whole number from 0 to 5"),
        "lenses": Many(line, 'a list of lenses, such as ["correctness", "tests"]'),
        **dict.fromkeys(_ROUNDS, _whole(0)),
        **dict.fromkeys(("iterations", "max_parallel"), _whole(1)),
    },
    "review": {"incomplete": _choice("block", "warn")},
    "verify": {
        **dict.fromkeys(("setup", "check", "e2e", "pre_gate", "gate"), Many(command)),
        "timeout": _span,
        "base": _choice("any", "green"),
        **dict.fromkeys(("copy", "keep"), Many(_INSIDE)),
        "writable": Many(_OUTSIDE),
        "env": Many(variable),
    },
    "land": {"mode": _choice("branch", "local", "push"), "target": line, "remote": line},
    "limits": {
        "usd": _valve(_number("a number above 0", 1e-6)),
        **dict.fromkeys(("tokens", "turns"), _valve(_whole(1))),
        "wall": _valve(_span),
        **dict.fromkeys(("turn", "first_output", "idle"), _span),
    },
    "recovery": {"dev_fix": flag, "ceiling": _whole(0), "pause": _span, "pause_max": _span, "max_sleep": _span},
    "sandbox": {"mode": _choice("auto", "bwrap", "unshare", "off"), "network": flag},
    "notify": {"command": _PROGRAM},
    "machine": {"max_turns": _whole(1)},
}

AGENT: dict[str, Shape] = {
    **dict.fromkeys(("kind", "model", "account"), line),
    "id": _ID,
    "command": _PROGRAM,
    "env": _environment,
    "answers": Many(_choice(*Answers), f"a list of some of {', '.join(Answers)}"),
    "price": _number("a number from 0 on", 0),
}


def file_shape(kinds: Iterable[str]) -> dict[str, Shape]:
    """The shape of a settings file where these are the kinds of agent."""
    agents = Many(AGENT | {"kind": _choice(*kinds)}, "a list of agents, each under [[agents]]")
    return {"agents": agents, "roles": dict.fromkeys(AgentRole, Many(_ID)), **TABLES}

"""The line of every key: exact where a person would look for it."""

import tomllib
from typing import Any

from hypothesis import given, strategies as st

from nightcrew.config.layers import key_lines
from nightcrew.config.table import Spot

TEXT = """\
# a comment with [brackets] and a = sign
top = 1
[verify]
gate = [            # comment ]
  "make # check",
  'x = [y]',
]
"quoted.key" = { command = "pass show x", list = [1,
  2] }
setup = '''
gate = "no"
[not.a.table]
'''
[[agents]]
id = "a"
env.TOKEN = { env = "T" }
[[agents]]
id = \"""b\"\"""\"
[agents.env]
HOME = "~/x"
[roles]
fixer = ["a",
"b"]
"""


def test_every_kind_of_key_is_found_on_its_line() -> None:
    """Comments, strings over lines, dotted and quoted keys, inline tables and the n-th [[entry]] do not mislead it."""
    found = key_lines(TEXT)
    expected: dict[Spot, int] = {
        ("top",): 2,
        ("verify",): 3,
        ("verify", "gate"): 4,
        ("verify", "gate", 0): 5,
        ("verify", "gate", 1): 6,
        ("verify", "quoted.key", "command"): 8,
        ("verify", "quoted.key", "list", 1): 8,
        ("verify", "setup"): 10,
        ("agents", 0): 14,
        ("agents", 0, "id"): 15,
        ("agents", 0, "env", "TOKEN", "env"): 16,
        ("agents", 1, "id"): 18,
        ("agents", 1, "env", "HOME"): 20,
        ("roles", "fixer", 1): 23,
    }
    assert {path: found.get(path) for path in expected} == expected
    assert ("not",) not in found


def _paths(value: Any, path: Spot = ()) -> set[Spot]:
    """Every path of a value as Python's reader sees it."""
    inner: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return {path}.union(*(_paths(item, (*path, key)) for key, item in inner))


def test_the_sample_has_exactly_the_paths_of_the_real_reader() -> None:
    """No path too many, none missing."""
    assert set(key_lines(TEXT)) | {()} == _paths(tomllib.loads(TEXT))


KEYS = st.text("ab.# ='[", min_size=1, max_size=4).map(lambda name: "'" + name.replace("'", "") + "'")
LEAVES = st.sampled_from(["1", "true", '"#]"', "'}'", '"""a\n"b""\n"""', "'''\n[x]\n'''", '"\\""', "1.5", "''"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda items: "[\n" + ", # ]\n".join([*items, ""]) + "]")
        | st.dictionaries(KEYS, inner, max_size=3).map(lambda d: "{" + ", ".join(f"{k} = {v}" for k, v in d.items()) + "}")
    ),
    max_leaves=8,
)


@given(st.lists(st.tuples(KEYS, VALUES), max_size=4, unique_by=lambda pair: pair[0]), st.booleans())
def test_it_agrees_with_the_real_reader_on_whatever_that_accepts(pairs: list[tuple[str, str]], entry: bool) -> None:  # noqa: FBT001
    """The same paths as Python's reader, and each key's line is the one on which its statement or its list item begins."""
    text = ("[[t]]\n" if entry else "[t]\n") + "".join(f"{key} = {value}\n\n" for key, value in pairs)
    try:
        read = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    found = key_lines(text)
    assert set(found) | {()} == _paths(read)
    rows, top = text.split("\n"), 2 if entry else 1
    for path, line in found.items():
        assert line >= found.get(path[:-1], 1)
        assert len(path) != top + 1 or rows[line - 1].startswith(f"'{path[-1]}' =")

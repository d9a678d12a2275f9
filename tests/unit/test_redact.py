"""Secrets leave every text, and nothing else does."""

import json
import re

import pytest
from hypothesis import given, strategies as st

from nightcrew import redact
from nightcrew.redact import NAMELESS, REDACTED, Redactor, nameless, names

KEYS = [
    "sk-ant-" + "api03-AbCdEf0123456789_xyz",
    "sk-" + "proj-0123456789abcdefABCDEF",
    "ghp_" + "0123456789abcdefABCDEF0123456789abcd",
    "github_pat_" + "11ABCDEFG0_abcdefghijklmnop",
    "glpat-" + "abcdefghij0123456789",
    "AIza" + "SyA0123456789abcdefghijklmnopqrstuv",
    "AKIA" + "IOSFODNN7EXAMPLE",
    "xoxb-" + "123456789012-abcdefghij",
    "npm_" + "0123456789abcdefABCDEF0123456789abcd",
    "eyJhbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N",
]
KIND = "RSA PRIVATE KEY"
PEM = f"-----BEGIN {KIND}-----\nProc-Type: 4,ENCRYPTED\n\nMIIEow-not\nIBAAK==\n-----END {KIND}-----"


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("around", ["{}", "key={}\n", '{{"k":"{}"}}', "löß {} 日本", "({}),"])
def test_provider_keys_go(key: str, around: str) -> None:
    """A provider's key is replaced wherever it stands; the text around it stays."""
    assert Redactor().text(around.format(key)) == around.format(REDACTED)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Authorization: Bearer abcdefghijklmnop.q==\r\nHost: x", f"Authorization: Bearer {REDACTED}\r\nHost: x"),
        ("authorization: basic dXNlcjpwYXNz", f"authorization: {REDACTED}"),
        ("push to https://bot:hunter2hunter2@forge/x.git", f"push to https://{REDACTED}@forge/x.git"),
        (f"a {PEM} b", f"a {REDACTED} b"),
        (PEM.replace("\n", "\\n"), REDACTED),
    ],
)
def test_headers_addresses_and_key_blocks_go(before: str, after: str) -> None:
    """The token of a header, the password of an address and a whole private key block go."""
    assert Redactor().text(before) == after


@pytest.mark.parametrize(
    "text",
    [
        "risk-assessment-of-the-whole-thing",
        "https://host:8080/path?a=b@c",
        "the bearer of news",
        "commit 0123456789abcdef0123456789abcdef01234567",
        "sk-short",
        "",
    ],
)
def test_plain_text_stays(text: str) -> None:
    """What only looks a little like a key is not touched."""
    assert Redactor().text(text) == text


def test_known_values_go_longest_first() -> None:
    """A value that is part of another never leaves the rest of the other behind."""
    redactor = Redactor(["hunter2", "hunter2-and-more", " padded-value\n"])
    assert redactor.text("hunter2-and-more hunter2 padded-value") == " ".join([REDACTED] * 3)


def test_a_value_written_as_json_goes() -> None:
    """A value with quotes or line ends is found as JSON writes it, too."""
    value = 'pa"ss\nwörd'
    assert Redactor([value]).text(json.dumps({"k": value})) == f'{{"k": "{REDACTED}"}}'


def test_short_values_stay() -> None:
    """A value below the least length is no secret that could be found."""
    assert Redactor(["true", "", "80"]).text("true 80") == "true 80"


def test_bytes_of_any_kind_survive() -> None:
    """Redaction works between bytes that are no UTF-8 and leaves those as they are."""
    redactor = Redactor(["gehei\u00dfnis"])
    data = b"\xff\xfe\x00 \xe2\x82" + "geheißnis €".encode() + b"\xf0\x9f"
    assert redactor.bytes(data) == b"\xff\xfe\x00 \xe2\x82" + f"{REDACTED} €".encode() + b"\xf0\x9f"
    assert redactor.bytes(b"\xff plain") == b"\xff plain"


PIECES = st.sampled_from(
    [*KEYS, PEM, "redact", "red", "[redacted]", "sk-", "Bearer ", "://a:", "-----BEGIN PRIVATE KEY-----", " ", "x" * 20, "é"]
)


@given(st.lists(PIECES, max_size=8).map("".join), st.lists(st.text(max_size=12) | PIECES, max_size=4))
def test_it_ends_and_leaves_no_value(text: str, values: list[str]) -> None:
    """No known value is left, and doing it again changes nothing: a fact's tail is redacted at its blob and at the journal."""
    redactor = Redactor(values)
    once = redactor.text(text)
    rest = once.replace(REDACTED, "\0")
    assert not [v for v in values if len(v.strip()) >= 6 and v.strip() in rest and v.strip() not in REDACTED]
    assert redactor.text(once) == once


def test_no_shape_needs_a_python_that_is_free_of_its_early_mistakes() -> None:
    """Python 3.11.2 loses the rest of a key block to a possessive repetition inside another: no shape has one, or an atomic group."""
    assert not [shape for shape in redact._SHAPES.values() if re.search(r"[*+?}]\+|\(\?>", shape)]


@pytest.mark.parametrize(
    "unit", ["sk-", "eyJ", "eyJ.eyJ.", "://a:", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "Bearer ", "gh", "AKIA"]
)
def test_a_hostile_megabyte_ends(unit: str) -> None:
    """No repetition makes the search run away (a quadratic one would take hours here, not milliseconds)."""
    assert isinstance(Redactor(["known-value"]).text(unit * (1_000_000 // len(unit))), str)


def test_prose_for_judges_names_nobody_and_has_no_trailers() -> None:
    """T191: self-mentions and trailers go, the rest of the text stays whole; a roster's short names are words like others."""
    said = "As Claude I like B.\nIt is a bit long, team-x.\n\nCo-Authored-By: Claude <c@example.org>\n\U0001f916 Generated with [Codex](x)\nEnd"
    assert nameless(said, names(["Team-X", "bit"])) == f"As {NAMELESS} I like B.\nIt is a bit long, {NAMELESS}.\n\nEnd"
    assert nameless(nameless(said, names()), names()) == nameless(said, names())
    assert names(["Team-X"], "Write a client for OpenAI").findall("openai gpt-4 team-x") == ["gpt-4", "team-x"]

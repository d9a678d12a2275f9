"""Every mistake at once, each with file, line, and what to do."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from nightcrew.config.build import load
from nightcrew.config.layers import ConfigError, KindInfo, Mistake
from nightcrew.config.table import AGENT as ENTRY, Said, file_shape, read
from nightcrew.core.roster import Answers
from nightcrew.errors import UserError

KINDS = {
    "claude": KindInfo((Answers.Edit, Answers.Text), money=True),
    "command": KindInfo((Answers.Edit,), argv=True, model=False),
}
AGENT = '[[agents]]\nid = "opus"\nkind = "claude"\n'


def wrong(tmp_path: Path, text: str, **overrides: str) -> list[str]:
    """The lines said about this text as the repository's file."""
    (tmp_path / "nightcrew.toml").write_text(text)
    words = {key.replace("__", "."): value for key, value in overrides.items()}
    try:
        load(tmp_path, machine_file=tmp_path / "none" / "config.toml", kinds=KINDS, overrides=words)
    except ConfigError as error:
        return str(error).splitlines()
    return []


MISTAKES = [
    ("[verfy]\n", '1: verfy: unknown key (did you mean "verify"?)'),
    ("gate = 'x'\n", "1: gate: unknown key (it belongs in [verify])"),
    ("[verify]\ngaet = 'x'\n", '2: verify.gaet: unknown key (did you mean "gate"?)'),
    ("[pipeline]\nmode = 'x'\n", "2: pipeline.mode: unknown key (it belongs in [land] or [sandbox])"),
    ("[limits]\nmoney = 3\n", "2: limits.money: unknown key (there are usd, tokens, turns, wall, turn, first_output, idle)"),
    ("verify = 3\n", "1: verify: 3 is not a table"),
    ("[verify]\ngate = 3\n", "2: verify.gate: 3 is not a command"),
    ("[verify]\ngate = ['x',\n3]\n", "3: verify.gate: 3 is not a command"),
    ("[verify]\ngate = ' '\n", '2: verify.gate: " " is not a command'),
    (
        "[verify]\ntimeout = '30 min'\n",
        '2: verify.timeout: "30 min" is not a span of time above zero, such as "90s", "30m", "8h" or a number of seconds',
    ),
    (
        "[verify]\ntimeout = '0s'\n",
        '2: verify.timeout: "0s" is not a span of time above zero, such as "90s", "30m", "8h" or a number of seconds',
    ),
    ("[verify]\nbase = 'gren'\n", '2: verify.base: "gren" is not one of any, green (did you mean "green"?)'),
    ("[verify]\ncopy = ['../.env']\n", '2: verify.copy: "../.env" is not a path below the repository\'s top'),
    ("[verify]\nwritable = 'cache'\n", '2: verify.writable: "cache" is not a path that begins with / or ~/'),
    ("[verify]\nenv = ['A=1']\n", '2: verify.env: "A=1" is not the name of a variable'),
    ("[land]\nmode = 'pr'\n", '2: land.mode: "pr" is not one of branch, local, push (it comes in a later version)'),
    ("[land]\napprove = true\n", "2: land.approve: unknown key (it comes in a later version)"),
    ("[land]\ntarget = ''\n", '2: land.target: "" is not a line of text'),
    ("[pipeline]\nimplementers = 9\n", "2: pipeline.implementers: 9 is not a whole number from 1 to 8"),
    ("[pipeline]\non_leak = 'ask'\n", '2: pipeline.on_leak: "ask" is not one of warn, redact, fail'),
    ("[pipeline]\nreviewers = 6\n", "2: pipeline.reviewers: 6 is not a whole number from 0 to 5"),
    ("[pipeline]\njudges = 0\n", "2: pipeline.judges: 0 is not a whole number from 1 to 8"),
    ("[pipeline]\nplan = 1\n", "2: pipeline.plan: 1 is not true or false"),
    ("[pipeline]\niterations = true\n", "2: pipeline.iterations: true is not a whole number from 1 on"),
    ("[judges]\ncount = 1\n", "1: judges: unknown key (it belongs in [pipeline])"),
    ("[recovery]\nceiling = -1\n", "2: recovery.ceiling: -1 is not a whole number from 0 on"),
    (
        "[recovery]\npause = 'soon'\n",
        '2: recovery.pause: "soon" is not a span of time above zero, such as "90s", "30m", "8h" or a number of seconds',
    ),
    (
        "[recovery]\npause_max = -3\n",
        '2: recovery.pause_max: -3 is not a span of time above zero, such as "90s", "30m", "8h" or a number of seconds',
    ),
    (
        "[recovery]\nmax_sleep = true\n",
        '2: recovery.max_sleep: true is not a span of time above zero, such as "90s", "30m", "8h" or a number of seconds',
    ),
    ("[limits]\nusd = -2\n", "2: limits.usd: -2 is not a number above 0"),
    ("[limits]\nusd = 0\n", "2: limits.usd: 0 is not a number above 0"),
    ("[limits]\nusd = nan\n", "2: limits.usd: NaN is not a number above 0"),
    (
        "[limits]\nidle = 'none'\n",
        '2: limits.idle: "none" is not a span of time above zero, such as "90s", "30m", "8h" or a number of seconds',
    ),
    (
        "[machine]\nmax_turns = 2\n",
        "2: machine.max_turns: a repository cannot say this (only {home}/none/config.toml or the command line can)",
    ),
    (
        "[notify]\ncommand = 'beep'\n",
        '2: notify.command: "beep" is not a program with its arguments, such as ["program", "--flag"]',
    ),
    ("agents = []\n", "1: agents: [] is not a list of agents, each under [[agents]]"),
    (
        "[[agents]]\nid = 'x'\nkind = 'cluade'\n",
        '3: agents.kind: "cluade" is not one of claude, command (did you mean "claude"?)',
    ),
    ('[[agents]]\nid = "opus"\nkind = "claude"\nmodle = \'m\'\n', '4: agents.modle: unknown key (did you mean "model"?)'),
    ('[[agents]]\nid = "opus"\nkind = "claude"\nprice = -1\n', "4: agents.price: -1 is not a number from 0 on"),
    (
        '[[agents]]\nid = "opus"\nkind = "claude"\nanswers = [\'structured\']\n',
        "4: agents.answers: this kind of agent can edit, text only",
    ),
    ('[[agents]]\nid = "opus"\nkind = "claude"\ncommand = [\'x\']\n', "4: agents.command: this kind of agent takes none"),
    (
        '[[agents]]\nid = "opus"\nkind = "claude"\n[agents.env]\nX = 3\n',
        '4: agents.env: X has no usable value (a text, { env = "NAME" } or { command = "pass show x" })',
    ),
    (
        '[[agents]]\nid = "opus"\nkind = "claude"\n[[agents]]\nid = "opus"\nkind = "claude"\n',
        "5: agents.id: another agent has it already",
    ),
    ("[[agents]]\nkind = 'claude'\n", "1: agents.id: every agent needs one"),
    ("[[agents]]\nid = 'r'\nkind = 'command'\n", "1: agents.command: this kind of agent needs one"),
    ("[[agents]]\nid = 'r'\nkind = 'command'\ncommand = ['x']\nmodel = 'm'\n", "5: agents.model: this kind of agent takes none"),
    (
        '[[agents]]\nid = "opus"\nkind = "claude"\n[roles]\nfixer = []\n',
        "5: roles.fixer: the chain is empty (name an agent, or leave the role out)",
    ),
    (
        '[[agents]]\nid = "opus"\nkind = "claude"\n[roles]\nfixr = \'opus\'\n',
        '5: roles.fixr: unknown key (did you mean "fixer"?)',
    ),
    (
        '[[agents]]\nid = "opus"\nkind = "claude"\n[roles]\nreviewer = \'opus\'\n',
        '5: roles.reviewer: "opus" cannot answer with structured, which this role needs (it answers with edit, text)',
    ),
]


@pytest.mark.parametrize(("text", "line"), MISTAKES)
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, text: str, line: str) -> None:
    """File, line, what, what to do; and nothing else is said."""
    assert wrong(tmp_path, text) == [f"nightcrew.toml:{line}".replace("{home}", str(tmp_path))]


def test_an_unknown_id_in_a_chain_is_refused_with_file_and_line(tmp_path: Path) -> None:
    """F17: the line is that of the id itself, and the nearest agent is suggested."""
    text = AGENT + '[roles]\nfixer = [\n  "opus",\n  "opsu",\n]\n'
    assert wrong(tmp_path, text) == ['nightcrew.toml:7: roles.fixer: unknown agent "opsu" (did you mean "opus"?)']


def test_all_mistakes_of_all_layers_come_at_once_in_order(tmp_path: Path) -> None:
    """Nobody mends a file one mistake a run: machine, repository and command line, each by line."""
    machine = tmp_path / "m" / "config.toml"
    machine.parent.mkdir(parents=True)
    machine.write_text('[limits]\nturns = 0\n[verify]\nbase = "x"\n')
    (tmp_path / "nightcrew.toml").write_text(AGENT + '[roles]\nfixer = "x"\n[verify]\nbase = 1\n[zzz]\n')
    with pytest.raises(UserError) as caught:
        load(tmp_path, machine_file=tmp_path / "m" / "config.toml", kinds=KINDS, overrides={"limits.usd": "x", "limit.usd": "3"})
    error = caught.value
    assert isinstance(error, ConfigError)
    assert [(m.file == str(machine), m.line) for m in error.mistakes[:2]] == [(True, 2), (True, 4)]
    assert [(m.file, m.line) for m in error.mistakes[2:5]] == [("nightcrew.toml", n) for n in (5, 7, 8)]
    assert [str(m) for m in error.mistakes[5:]] == [
        'command line: limits.usd: "x" is not a number above 0',
        'command line: limit: unknown key (did you mean "limits"?)',
    ]
    assert len(str(error).splitlines()) == len(error.mistakes)


@pytest.mark.parametrize(
    ("raw", "line"),
    [
        (b"[verify]\ngate = x\n", ":2: cannot be read: Invalid value (at line 2, column 8)"),
        (b"[verify]\n\ngate = [\n", ": cannot be read: Invalid value (at end of document)"),
        (b"a = 1\na = 2\n", ":2: cannot be read: Cannot overwrite a value (at line 2, column 6)"),
        (
            b"[verify]\ngate = '\xff'\n",
            ": cannot be read: 'utf-8' codec can't decode byte 0xff in position 17: invalid start byte",
        ),
    ],
)
def test_a_file_that_cannot_be_read_says_where(tmp_path: Path, raw: bytes, line: str) -> None:
    """Python's own words on broken TOML, with the line where it knows one, and on bad bytes."""
    (tmp_path / "nightcrew.toml").write_bytes(raw)
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)
    assert str(caught.value) == f"nightcrew.toml{line}"


@pytest.mark.parametrize(
    "make",
    [
        Path.mkdir,
        os.mkfifo,
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.write_text("# a comment\n" * 100_000),
        lambda path: path.write_text("[verify]\ngate = " + "[" * 5_000 + "]" * 5_000),
    ],
    ids=["folder", "fifo", "device", "large", "deep"],
)
def test_what_is_no_settings_file_is_one_line(tmp_path: Path, make: Callable[[Path], object]) -> None:
    """What cannot be read in a moment, or at all, is a mistake in one line: no crash, no endless wait."""
    make(tmp_path / "nightcrew.toml")
    with pytest.raises(ConfigError, match=r"^nightcrew.toml: cannot be read: [^\n]+$"):
        load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)


def test_a_long_file_is_read_in_a_moment(tmp_path: Path) -> None:
    """Of many thousand lines the mistakes are told without their numbers, which would take minutes to find."""
    long = "".join(f'"touch {n}",\n' for n in range(20_000))
    assert wrong(tmp_path, f"[verify]\ngate = [\n{long}]\ngaet = 1\n") == [
        'nightcrew.toml: verify.gaet: unknown key (did you mean "gate"?)'
    ]


def test_a_broken_file_makes_no_false_mistakes_in_the_other(tmp_path: Path) -> None:
    """Agents that only the broken file names are not called unknown; what is wrong by itself is still said."""
    (tmp_path / "config.toml").write_text("[[agents]\n")
    (tmp_path / "nightcrew.toml").write_text('[roles]\nfixer = "opus"\n[limits]\nusd = -1\n')
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS)
    assert [mistake.line for mistake in caught.value.mistakes] == [1, 4]


def test_an_agent_with_a_mistake_is_still_known_to_the_roles(tmp_path: Path) -> None:
    """One mistake is said once: a chain that names a broken entry is not wrong too."""
    said = wrong(tmp_path, AGENT + 'price = "x"\n[roles]\nfixer = "opus"\n')
    assert said == ['nightcrew.toml:4: agents.price: "x" is not a number from 0 on']


def test_an_agent_whose_kind_is_wrong_is_not_called_unable_too(tmp_path: Path) -> None:
    """What an entry of an unknown kind could answer is unknown, so the roles say nothing of it."""
    said = wrong(tmp_path, '[[agents]]\nid = "x"\nkind = "codex"\n[roles]\nreviewer = "x"\n')
    assert len(said) == 1


def test_a_secret_never_stands_in_a_message(tmp_path: Path) -> None:
    """Law 14: values of an agent's environment are not shown, however wrong they are."""
    for bad in ('["hunter2"]', '{ value = "hunter2" }', '{ env = "hunter2!" }', '{ env = "A", command = "hunter2" }'):
        (said,) = wrong(tmp_path, AGENT + f"env = {{ A = {bad} }}\n")
        assert "hunter2" not in said
    (said,) = wrong(tmp_path, AGENT + 'env = "hunter2"\n')
    assert "hunter2" not in said


SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8), st.sampled_from(["none", "1h", "off"])
)
DATA = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3), max_leaves=6
)


@given(data=DATA)
def test_no_value_of_any_shape_crashes_a_reader(data: object) -> None:
    """Whatever stands behind a key, the reader either takes it or complains in one line."""
    shape = file_shape(KINDS)
    whole = dict.fromkeys(shape, data)
    tables = {name: dict.fromkeys(table, data) for name, table in shape.items() if isinstance(table, Mapping)}
    agents = {"agents": [data, dict.fromkeys(ENTRY, data)]}
    for value in (data, whole, tables, agents):
        said: Said = []
        read(shape, value, (), said)
        mistakes = [Mistake("f", 1, f"{spot}: {error.message}", error.hint) for spot, error in said]
        assert all(len(str(mistake).splitlines()) == 1 for mistake in mistakes)


@pytest.mark.parametrize(
    ("words", "seconds"), [("90s", 90.0), ("30m", 1800.0), ("1h30m", 5400.0), ("2d", 172800.0), ("1.5h", 5400.0)]
)
def test_spans_of_time_read_as_people_write_them(tmp_path: Path, words: str, seconds: float) -> None:
    """A number is seconds; units add up."""
    for value in (f'"{words}"', str(seconds), str(int(seconds))):
        (tmp_path / "nightcrew.toml").write_text(f"[limits]\nturn = {value}\n")
        assert load(tmp_path, machine_file=tmp_path / "config.toml", kinds=KINDS).limits.turn_s == seconds

"""Facts and states as bytes: the same fact comes back, and nothing else is let in."""

import types
import typing
from collections.abc import Iterator
from enum import StrEnum
from typing import Any

import msgspec
import pytest
from hypothesis import given, strategies as st

from nightcrew.core import effects, events, work
from nightcrew.core.ids import AgentId, EffectId, RunId, SeatKey, SlotId
from nightcrew.core.roster import Agent, AgentRole
from nightcrew.core.settings import Settings, Verify
from nightcrew.core.work import Blob, PipelinePhase
from nightcrew.errors import UserError
from nightcrew.journal import codec
from nightcrew.redact import REDACTED, Redactor

PHASE, ROLE = PipelinePhase.Review, AgentRole.Reviewer
NINE: list[events.Event] = [
    events.DevFixTriggered(failed_phase=PHASE, failed_role=ROLE),
    events.DevFixSkipped(reason="disabled"),
    events.DevFixCompleted(success=False, summary="tried"),
    events.DevFixCompleted(success=True),
    events.DevFixAgentUnavailable(failed_phase=PHASE, reason="quota"),
    events.CompletionMarkerEmitted(is_failure=True),
    events.CompletionMarkerWriteFailed(is_failure=False, error="read-only"),
    events.RecoveryAttempted(level=4, attempt_count=2**32 - 1, target_phase=PipelinePhase.Planning),
    events.RecoveryEscalated(from_level=1, to_level=2, reason="attempts"),
    events.RecoverySucceeded(level=0, total_attempts=0),
]


def test_the_nine_are_nine() -> None:
    """The list below is every variant of the seed's union."""
    assert {type(event) for event in NINE} == set(typing.get_args(events.AwaitingDevFixEvent))


@pytest.mark.parametrize("event", NINE, ids=lambda event: type(event).__name__)
def test_the_nine_come_back(event: events.Event) -> None:
    """Each variant of AwaitingDevFixEvent comes back equal, and gives the same bytes again, bit for bit (rulings 32)."""
    data = codec.encode(event)
    again = codec.decode(data, codec.SCHEMA)
    assert again == event
    assert type(again) is type(event)
    assert codec.encode(again) == data
    assert msgspec.json.decode(data)["type"] == type(event).__name__


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("level", 5),
        ("level", -1),
        ("level", "2"),
        ("level", 1.5),
        ("attempt_count", -1),
        ("attempt_count", 2**32),
        ("target_phase", "Nowhere"),
        ("target_phase", None),
    ],
)
def test_numbers_out_of_range_are_refused(field: str, value: object) -> None:
    """Levels are 0 to 4 and counts 32 bits without sign; anything else in the journal is no fact (rulings 32)."""
    raw = {"type": "RecoveryAttempted", "level": 1, "attempt_count": 1, "target_phase": "Review"}
    assert codec.encode(codec.decode(msgspec.json.encode(raw), codec.SCHEMA)) == msgspec.json.encode(raw)
    with pytest.raises(UserError):
        codec.decode(msgspec.json.encode(raw | {field: value}), codec.SCHEMA)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"type":"Nothing"}', b'{"reason":"x"}', b"\xff", b"null"])
def test_what_is_no_fact_is_refused(data: bytes) -> None:
    """Damaged bytes are one error of the user's kind, never a traceback of a library."""
    with pytest.raises(UserError):
        codec.decode(data, codec.SCHEMA)


def strategy(hint: Any) -> st.SearchStrategy[Any]:
    """Values of any type that a fact may hold, taken from its annotations."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if isinstance(hint, typing.NewType):
        return strategy(hint.__supertype__)
    if origin is typing.Annotated:
        return st.integers(args[1].ge, args[1].le)
    if origin in {typing.Union, types.UnionType}:
        return st.one_of([strategy(arg) for arg in args])
    if origin is tuple and args[-1] is ...:
        return st.lists(strategy(args[0]), max_size=2).map(tuple)
    if origin is tuple:
        return st.tuples(*map(strategy, args))
    if origin is dict:
        return st.dictionaries(strategy(args[0]), strategy(args[1]), max_size=2)
    if isinstance(hint, type) and issubclass(hint, StrEnum):
        return st.sampled_from(hint)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        fields = typing.get_type_hints(hint, include_extras=True)
        return st.deferred(lambda: st.builds(hint, **{name: strategy(fields[name]) for name in hint.__struct_fields__}))
    return PLAIN[hint]


PLAIN: dict[Any, st.SearchStrategy[Any]] = {
    str: st.text(max_size=5),
    int: st.integers(-(2**40), 2**40),
    float: st.floats(allow_nan=False, allow_infinity=False),
    bool: st.booleans(),
    type(None): st.none(),
}


@given(st.data(), st.sampled_from(typing.get_args(events.Event)))
def test_every_fact_comes_back(data: st.DataObject, kind: type[msgspec.Struct]) -> None:
    """Whatever a fact holds, decoding its bytes gives an equal fact, and encoding that the same bytes."""
    event = data.draw(strategy(kind))
    coded = codec.encode(event)
    assert codec.decode(coded, codec.SCHEMA) == event
    assert codec.encode(codec.decode(coded, codec.SCHEMA)) == coded


def test_equal_facts_give_equal_bytes() -> None:
    """The order in which a dict was filled is not in the bytes."""
    one, other = ({"a": "x", "b": "y"}, {"b": "y", "a": "x"})
    facts = [
        events.TurnEnded(
            key=EffectId("k"), outcome=work.Outcome(kind=work.Class.Ok, report=work.FixReport((), rejected=rejected))
        )
        for rejected in (one, other)
    ]
    assert codec.encode(facts[0]) == codec.encode(facts[1])


def test_older_facts_are_lifted_step_by_step() -> None:
    """A fact of an older schema passes every lifter in between, in order, and is checked like any other."""

    def renamed(raw: codec.Raw) -> codec.Raw:
        return {("why" if name == "cause" else name): value for name, value in raw.items()}

    def again(raw: codec.Raw) -> codec.Raw:
        return {"type": raw["type"], "reason": raw["why"] + "!"}

    old = b'{"type":"DevFixSkipped","cause":"disabled"}'
    assert codec.decode(old, 1, {1: renamed, 2: again}, newest=3) == events.DevFixSkipped(reason="disabled!")
    with pytest.raises(UserError):
        codec.decode(old, 1, {1: renamed, 2: lambda raw: raw}, newest=3)


def test_a_newer_schema_asks_for_an_upgrade() -> None:
    """An older nightcrew never guesses what a newer one meant."""
    with pytest.raises(UserError, match="newer nightcrew") as error:
        codec.decode(b'{"type":"ResumeAsked"}', codec.SCHEMA + 1)
    assert "upgrade" in error.value.hint


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────

SECRET = "developer-hunter2"
CLEAN = Redactor([SECRET, "developer"])


def test_prose_is_redacted_wherever_it_is() -> None:
    """A known value leaves reasons, tails, findings and rejections, however deep they lie (law 14)."""
    finding = work.Finding(work.Severity.Major, f"has {SECRET}", file="a.py")
    outcome = work.Outcome(kind=work.Class.Ok, reason=SECRET, report=work.Reviewed(work.Vote.Reject, (finding,)))
    fixed = work.Outcome(kind=work.Class.Ok, report=work.FixReport((), {"R1": SECRET}), answer=Blob("d", 1, SECRET))
    for part in (outcome, fixed):
        event = codec.cleaned(events.TurnEnded(key=EffectId("k"), outcome=part), CLEAN)
        assert SECRET.encode() not in codec.encode(event)
        assert REDACTED.encode() in codec.encode(event)


def test_names_and_what_is_executed_stay() -> None:
    """A key, a role, a phase and a command line stay word for word, whatever the secrets are: the run depends on them."""
    effect = effects.RunCommands(
        key=EffectId("r/RunCommands/developer/s/1"),
        node="developer",
        slot=SlotId("s"),
        purpose=work.Purpose.Gate,
        commands=("run developer",),
        timeout_s=1.0,
    )
    event = events.EffectStarted(key=effect.key, effect=effect)
    assert codec.cleaned(event, CLEAN) == event
    told = events.ConfigChanged(
        roster=(Agent(id=AgentId("developer"), kind="command", command=("developer",)),),
        settings=Settings(verify=Verify(check=("check developer",))),
    )
    assert codec.cleaned(told, CLEAN) == told
    asked = events.DevFixTriggered(failed_phase=PipelinePhase.Development, failed_role=AgentRole.Developer)
    assert codec.cleaned(asked, CLEAN) == asked


def test_text_that_is_not_unicode_can_be_written() -> None:
    """A file name of the outside with bytes that are no UTF-8 does not stop the run."""
    name = b"caf\xe9.txt".decode(errors="surrogateescape")
    event = events.WorkspacesDropped(key=EffectId("k"), kept=(name,))
    clean = codec.cleaned(event, CLEAN)
    assert codec.decode(codec.encode(clean), codec.SCHEMA) == clean
    assert isinstance(clean, events.WorkspacesDropped)
    assert clean.kept == ("caf\\udce9.txt",)


NAMES = """
    addressed branch chain command commands digest file hook id kept message mode node paths question reads ref remote
    repo rescued resume run seed session shelter signature source state stopped_by target valve version window word
"""


def structs(hint: Any, seen: set[type]) -> Iterator[type[msgspec.Struct]]:
    """Every struct that may lie in a value of `hint`."""
    for arg in typing.get_args(hint):
        yield from structs(arg, seen)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in {*seen, *codec.TOLD}:
        seen.add(hint)
        yield hint
        for field in typing.get_type_hints(hint).values():
            yield from structs(field, seen)


def plain_text(hint: Any) -> bool:
    """Whether a value of `hint` holds text with no type of its own."""
    return hint is str or any(plain_text(arg) for arg in typing.get_args(hint))


def test_every_text_is_prose_or_a_name() -> None:
    """Somebody decided, for every text of every fact, whether secrets are taken out of it (codec.PROSE) or it is a name."""
    names = set(NAMES.split())
    found = {
        field
        for kind in structs(events.Event, set())
        for field, hint in typing.get_type_hints(kind).items()
        if plain_text(hint) and not field.startswith("_")
    }
    assert not found - names - codec.PROSE, "add these to codec.PROSE, or to NAMES here if the run depends on them"
    assert not names & codec.PROSE


def test_ids_are_what_they_are_named() -> None:
    """The types of names are plain text when they are written."""
    agent = events.AgentCooling(key=EffectId("k"), agent=AgentId("a"), until=1.0)
    assert codec.encode(agent) == b'{"type":"AgentCooling","key":"k","agent":"a","until":1.0}'
    assert RunId("r") == "r"
    assert SeatKey("s") == "s"

"""Every recorded output of the real programs is read by its adapter: conversation, answer, figures, class."""

import pytest

from nightcrew.core.work import Class
from unit.agents.recordings import Recording, recordings

ALL = recordings()


@pytest.mark.parametrize("one", ALL, ids=lambda one: f"{one.folder}:{one.name}")
def test_every_recording_is_read(one: Recording) -> None:
    """A good turn tells its conversation, answer, tokens and money; a bad one has its class and one short line on why."""
    found = one.judged()
    assert found.kind is Class(one.told.kind), found
    assert (found.answer is not None) is (found.kind is Class.Ok) or found.kind is Class.Timeout  # what was cut off is kept
    if found.kind is Class.Ok:
        assert (found.session, found.answer, found.tokens) == (one.told.session, one.told.answer, one.told.tokens)
        assert found.usd == pytest.approx(one.told.usd) if one.told.usd is not None else found.usd is None
    else:
        assert 0 < len(found.reason) <= 160
        assert "\n" not in found.reason

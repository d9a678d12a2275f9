"""What a person is told of real runs, beside the runs themselves."""

from nightcrew.app.runs import rows
from nightcrew.app.views import headline
from support.crew import Crew


def test_a_list_says_what_the_driver_saw_last(crew: Crew) -> None:
    """The line beside a run is the headline of its newest fact, written with it."""
    crew.solo()
    assert crew.call("run", "write the note").code == 0
    assert [row.headline for row in rows(crew.env, 1)] == [headline(crew.state())]
    assert rows(crew.env, 1)[0].word == "landed"

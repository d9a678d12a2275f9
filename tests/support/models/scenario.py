"""What a model service is asked and what it answers, apart from any service's own format."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A tool that the model wants used: its name as the request offers it, and its input."""

    tool: str
    input: dict[str, Any]


class Say(NamedTuple):
    """A good answer: words, and tools to be used. Without tools it ends the turn. `delay_s` comes before the first byte."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    delay_s: float = 0.0


class Fault(NamedTuple):
    """A bad answer, by name; `reset_in_s` says when a quota comes back."""

    name: str
    reset_in_s: int = 3600


Answer = Say | Fault


class Request(NamedTuple):
    """One request as it came. `text` is all that the messages say, in order; `tools` are those on offer."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    text: str
    tools: tuple[str, ...]
    after_tool: bool
    """The last message brings the results of tools."""

    @property
    def cwd(self) -> str:
        """The folder that the program says it works in; empty when it says none."""
        found = re.findall(r"orking directory: (\S.*)", self.text)
        return str(found[0]).strip() if found else ""


Scenario = Callable[[Request], Answer]
"""Decides from the request alone, or remembers what it has said."""


def steps(*answers: Answer) -> Scenario:
    """A scenario that gives these answers one after the other and then the last one for ever.

    A request that offers no tools is a side question (a title, a topic): it gets a short answer and uses up no step.
    """
    left = list(answers)

    def scenario(request: Request) -> Answer:
        if not request.tools and isinstance(left[0], Say):
            return Say("A side answer.")
        return left.pop(0) if len(left) > 1 else left[0]

    return scenario

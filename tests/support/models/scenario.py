"""What a model service is asked and what it answers, apart from any service's own format."""

import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Call(NamedTuple):
    """A tool that the model wants used: its name as the request offers it, and its input."""

    tool: str
    input: dict[str, Any] | str


class Say(NamedTuple):
    """A good answer: words, and tools to be used. Without tools it ends the turn. `delay_s` comes before the first byte."""

    text: str = ""
    calls: tuple[Call, ...] = ()
    delay_s: float = 0.0


class Fault(NamedTuple):
    """A bad answer, by name (`stall` is none at all, `stall_mid` one that falls silent); `reset_in_s` says when a quota comes back."""

    name: str
    reset_in_s: int = 3600


Answer = Say | Fault


class Offer(NamedTuple):
    """A tool on offer: the names of its input, those that it must have (with a value that will do), and its sort."""

    properties: tuple[str, ...] = ()
    required: Mapping[str, object] = {}
    sort: str = ""


class Request(NamedTuple):
    """One request as it came. `text` is all that the messages say, in order; `tools` are those on offer."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    text: str
    tools: Mapping[str, Offer]
    after_tool: bool
    """The last message brings the results of tools."""

    @property
    def cwd(self) -> str:
        """The folder that the program says it works in; empty when it says none."""
        found = re.search(r"orking directory: (\S.*)|<cwd>(.+?)</cwd>|[Dd]irector(?:y|ies): *\s*-? *(/\S+)", self.text)
        return next(group for group in found.groups() if group).strip() if found else ""


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

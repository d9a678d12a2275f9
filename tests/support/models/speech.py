"""What the formats of all services have in common: the texts of a request, events of a stream, tools as they are on offer."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from support.models.scenario import Answer, Call, Offer, Request, Say, Scenario

Reply = tuple[int, dict[str, str], dict[str, Any]]
"""Status, headers, body."""

WRITERS = ("Write", "write_file", "write")
SHELLS = ("Bash", "bash", "run_shell_command", "exec_command", "shell_command", "shell")
PATHS = ("file_path", "filePath", "path", "absolute_path")


def texts(content: object) -> Iterator[str]:
    """All texts in some content, in order."""
    match content:
        case str():
            yield content
        case list():
            for item in content:
                yield from texts(item)
        case dict():
            for inner in content.values():
                yield from texts(inner)
        case _:
            pass


def data(fields: dict[str, Any], event: str = "") -> bytes:
    """One server-sent event."""
    head = f"event: {event}\n" if event else ""
    return f"{head}data: {json.dumps(fields)}\n\n".encode()


def offers(described: list[dict[str, Any]], schema: str) -> dict[str, Offer]:
    """Tools by name, from descriptions that hold a schema of their input under that key."""
    made = {}
    for tool in described:
        form = tool.get(schema) or tool.get("parametersJsonSchema") or {}
        known = form.get("properties") or {}
        needed = {
            name: False if known.get(name, {}).get("type") == "boolean" else "made up" for name in form.get("required") or ()
        }
        made[str(tool.get("name"))] = Offer(tuple(known), needed, str(tool.get("type", "")))
    return made


def editor(name: str, content: str = "hello\n") -> Scenario:
    """A model that makes a file by a tool, if one is on offer for that, and then says so."""

    def scenario(request: Request) -> Answer:
        if request.after_tool or not request.tools:
            return Say(f"Wrote {name}." if request.tools else "A side answer.")
        call = writes(request, name, content)
        return Say("I write it.", (call,)) if call else Say("There is nothing to write with.")

    return scenario


def writes(request: Request, name: str, content: str) -> Call | None:
    """The call that makes a file in the program's folder, by whichever tool it offers for that."""
    path = f"{request.cwd}/{name}" if request.cwd else name
    for tool in WRITERS:
        if tool in request.tools:
            return _filled(request, tool, {"path": path, "content": content})
    return runs(request, f"printf %s {shlex.quote(content)} > {shlex.quote(path)}")


def runs(request: Request, line: str) -> Call | None:
    """The call that runs a shell line; None: no tool does that."""
    for tool in SHELLS:
        if tool in request.tools:
            return _filled(request, tool, {"command": line})
    if "exec" in request.tools:  # a cell of JavaScript, which has the tools as functions
        return Call("exec", f"const done = await tools.exec_command({{cmd: {json.dumps(line)}}}); text(JSON.stringify(done));")
    return None


def _filled(request: Request, tool: str, wanted: dict[str, str]) -> Call:
    """A call whose input bears the names of the tool's own schema; what else it requires is made up."""
    offer = request.tools[tool]
    names = {"path": PATHS, "content": ("content", "contents"), "command": ("command", "cmd")}
    given = {next(name for name in names[key] if name in offer.properties): value for key, value in wanted.items()}
    return Call(tool, {**offer.required, **given})

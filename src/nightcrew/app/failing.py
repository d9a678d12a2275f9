"""What an agent's output would be taken for: the class of failure, what nightcrew would do then, when a limit ends."""

import json
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import Struct, structs

from nightcrew.agents import classify
from nightcrew.agents.base import Exit
from nightcrew.app.home import zone_of
from nightcrew.core.chain import COLD, ONCE_MORE, PASSING
from nightcrew.core.work import UNAVAILABLE, Class
from nightcrew.errors import UserError

_DOES = (
    ({Class.Ok}, "takes the answer"),
    (PASSING, "asks the same agent again after a pause, and the next one when it goes on"),
    (COLD, "asks the same agent once more in a fresh conversation"),
    (ONCE_MORE, "asks the same agent once more, then the next one"),
    (UNAVAILABLE, "asks the next agent now; this one cools down"),
)


class Verdict(Struct, frozen=True):
    """What an output is taken for; `reset_at` is ISO 8601 in UTC, or nothing where the output does not tell it."""

    label: str
    does: str
    reset_at: str | None
    evidence: str


def verdict(row: dict[str, Any], env: Mapping[str, str]) -> Verdict:
    """Read one output; docs/json.md has the fields of a row. Raises UserError for one that is no row."""
    try:
        now = datetime.fromisoformat(row["as_of"]).timestamp() if row.get("as_of") else time.time()
        killed, alone, code = bool(row.get("killed")), row.get("channel") in {"stderr", "http_body"}, row.get("exit_code")
        signal = max(-(code or 0), 9 * killed, 0)
        end = Exit(128 + signal if signal else code or 0, signal, "total" if killed else "")
        text, zone = str(row["text"]), row.get("host_zone") or zone_of(env)
    except (ValueError, LookupError, TypeError) as why:
        raise UserError(f"this is no output with a time and an exit code: {why}", "docs/json.md tells the fields") from None
    known = None if code is None and not killed else end
    told = classify.output(None if alone else text, text if alone else "", known, now, zone)
    does = next((text for kinds, text in _DOES if told.kind in kinds), "asks the next agent")
    at = None if told.reset_at is None else datetime.fromtimestamp(told.reset_at, UTC).isoformat().replace("+00:00", "Z")
    return Verdict(told.kind.value, does, at, told.evidence)


def answer(line: str, env: Mapping[str, str]) -> str:
    """The line that answers one line of JSON. Raises UserError."""
    try:
        row = dict(json.loads(line))
    except (ValueError, TypeError) as why:
        raise UserError(f"a line is no JSON object: {why}") from None
    return json.dumps({"id": row.get("id"), **structs.asdict(verdict(row, env))}, ensure_ascii=False)

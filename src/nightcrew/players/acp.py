"""A program that sits in a seat as the client of an agent of the Agent Client Protocol, with the package `agent-client-protocol`.

    acp.py look|work SESSION PROGRAM [ARGUMENT ...]      an empty SESSION begins a conversation

The prompt comes on standard input. Output: every message of the agent, one a line. When the prompt is answered it lets the agent end,
which may still write the conversation down, and ends too: status 1 if badly.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp.connection import StreamEvent

LOOKING = {"read", "search", "think", "fetch"}  # what an agent may do in a seat that only looks
MODES = {"plan", "read-only"}  # what agents call looking only; in its other modes one may not ask at all
PATIENCE_S = 1.0  # not every agent ends when its input does
LARGEST = 256 * 1024 * 1024  # bytes of one message: a whole file may travel in it


class Seat:
    """What the agent may ask us: permission, which the seat's rights answer. Files and terminals are its own."""

    def __init__(self, rights: str) -> None:
        """Sit down with these rights."""
        self.rights, self.answered = rights, False

    async def asked(self, method: str, params: Any, told: object) -> Any:
        """The widest permission that is offered, or the mildest refusal; a request that cannot be answered so is cancelled."""
        from acp.exceptions import RequestError  # noqa: PLC0415

        if told:
            return None  # on the output already
        if method != "session/request_permission":
            raise RequestError.method_not_found(method)
        allowed = self.rights == "work" or params["toolCall"].get("kind") in LOOKING
        wanted = ("allow_always", "allow_once") if allowed else ("reject_once", "reject_always")
        found = next((option["optionId"] for kind in wanted for option in params["options"] if option["kind"] == kind), None)
        return {"outcome": {"outcome": "selected", "optionId": found} if found else {"outcome": "cancelled"}}

    def heard(self, event: StreamEvent) -> None:
        """Pass on what the agent says, up to its answer to the prompt."""
        if event.direction == "incoming" and not self.answered:
            print(json.dumps(event.message, separators=(",", ":")), flush=True)
            self.answered = "stopReason" in (event.message.get("result") or {})


async def converse(rights: str, session: str, argv: list[str], prompt: str) -> None:
    """Start the agent, open or load the conversation, ask."""
    from acp.stdio import spawn_stdio_connection  # noqa: PLC0415 — heavy, and an extra

    seat, how = Seat(rights), dict[str, Any](limit=LARGEST, stderr=None, shutdown_timeout=PATIENCE_S)
    async with spawn_stdio_connection(seat.asked, *argv, env=os.environ, observers=[seat.heard], **how) as (agent, _):
        await agent.send_request("initialize", {"protocolVersion": 1, "clientCapabilities": {}})
        place = {"cwd": os.getcwd(), "mcpServers": [], **({"sessionId": session} if session else {})}
        opened = await agent.send_request("session/load" if session else "session/new", place) or {}
        here = {"sessionId": session or opened["sessionId"]}
        modes = {mode["id"] for mode in (opened.get("modes") or {}).get("availableModes", ())}
        for mode in MODES & modes if rights == "look" else ():
            await agent.send_request("session/set_mode", {**here, "modeId": mode})
        await agent.send_request("session/prompt", {**here, "prompt": [{"type": "text", "text": prompt}]})


def main(argv: list[str]) -> int:
    """One turn."""
    logging.disable()  # what the package notes on the way is no word of the agent's
    try:
        asyncio.run(converse(argv[0], argv[1], argv[2:], sys.stdin.buffer.read().decode(errors="replace")))
    except ConnectionError:
        print("nightcrew: the agent ended before it answered", file=sys.stderr)
    except Exception as error:  # noqa: BLE001 — the agent's fault, told in one line
        print(f"nightcrew: {error}".partition("\n")[0], file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

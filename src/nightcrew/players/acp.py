"""A program that sits in a seat as the client of an agent of the Agent Client Protocol, with the package `agent-client-protocol`.

    acp.py look|work SESSION PROGRAM [ARGUMENT ...]      an empty SESSION begins a conversation

The prompt comes on standard input. Output: every message of the agent, one a line. Ends when the prompt is answered, status 1 if badly.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acp.connection import StreamEvent

LOOKING = {"read", "search", "think", "fetch"}  # what an agent may do in a seat that only looks
LARGEST = 256 * 1024 * 1024  # bytes of one message: a whole file may travel in it


class Seat:
    """What the agent may ask us: permission, which its rights answer. Files and terminals are its own."""

    def __init__(self, rights: str) -> None:
        """Sit down with these rights."""
        self.rights = rights

    async def request_permission(self, tool_call: Any, options: list[Any], **_: Any) -> Any:
        """The widest permission that is offered, or the mildest refusal; a request that cannot be answered so is cancelled."""
        from acp.schema import AllowedOutcome, DeniedOutcome, RequestPermissionResponse  # noqa: PLC0415

        allowed = self.rights == "work" or tool_call.kind in LOOKING
        wanted = ("allow_always", "allow_once") if allowed else ("reject_once", "reject_always")
        found = next((option.option_id for kind in wanted for option in options if option.kind == kind), None)
        chosen = AllowedOutcome(outcome="selected", option_id=found) if found else DeniedOutcome(outcome="cancelled")
        return RequestPermissionResponse(outcome=chosen)

    async def session_update(self, **_: Any) -> None:
        """Nothing to do: it is on the output already."""


def heard(event: StreamEvent) -> None:
    """Pass on what the agent says, up to its answer to the prompt: not every agent ends when its input does, whoever started us ends it."""
    if event.direction == "incoming":
        print(json.dumps(event.message, separators=(",", ":")), flush=True)
        if "stopReason" in (event.message.get("result") or {}):
            os._exit(0)


async def converse(rights: str, session: str, argv: list[str], prompt: str) -> None:
    """Start the agent, open or load the conversation, ask."""
    from acp import PROTOCOL_VERSION, spawn_agent_process, text_block  # noqa: PLC0415 — heavy, and an extra

    how: dict[str, Any] = {"transport_kwargs": {"limit": LARGEST, "stderr": None}, "observers": [heard]}
    seat: Any = Seat(rights)
    async with spawn_agent_process(seat, *argv, env=os.environ, cwd=os.getcwd(), **how) as (agent, _):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        if session:
            await agent.load_session(cwd=os.getcwd(), session_id=session, mcp_servers=[])
        else:
            session = (await agent.new_session(cwd=os.getcwd(), mcp_servers=[])).session_id
        await agent.prompt(session_id=session, prompt=[text_block(prompt)])


def main(argv: list[str]) -> int:
    """One turn."""
    prompt = sys.stdin.buffer.read().decode(errors="replace")
    try:
        asyncio.run(converse(argv[0], argv[1], argv[2:], prompt))
    except Exception as error:  # noqa: BLE001 — the agent's fault, told in one line
        print(f"nightcrew: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

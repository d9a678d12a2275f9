"""The Anthropic Messages format: requests read, answers written, errors as the service words them."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from support.models import speech
from support.models.scenario import Fault, Request, Say

USAGE = {"input_tokens": 1200, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 0}


def asked(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Request:
    """Read a request."""
    messages = body.get("messages") or []
    last = messages[-1]["content"] if messages else ""
    results = isinstance(last, list) and any(block.get("type") == "tool_result" for block in last)
    said = "\n".join(speech.texts([body.get("system"), [message["content"] for message in messages]]))
    return Request(path, headers, body, said, speech.offers(body.get("tools") or [], "input_schema"), results)


def message(say: Say, model: str, number: int, _: Request) -> dict[str, Any]:
    """A good answer, whole."""
    content: list[dict[str, Any]] = [{"type": "text", "text": say.text}] if say.text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{number:03d}{i:02d}", "name": call.tool, "input": call.input}
        for i, call in enumerate(say.calls)
    ]
    return {
        "id": f"msg_{number:03d}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": content,
        "stop_reason": "tool_use" if say.calls else "end_turn",
        "stop_sequence": None,
        "usage": {**USAGE, "output_tokens": 34},
    }


def stream(whole: dict[str, Any]) -> Iterator[bytes]:
    """The same answer as server-sent events."""
    usage = {**USAGE, "output_tokens": 1}
    yield _event("message_start", message={**whole, "content": [], "stop_reason": None, "usage": usage})
    for index, block in enumerate(whole["content"]):
        empty: dict[str, Any]
        if block["type"] == "text":
            empty, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            partial = json.dumps(block["input"])
            empty, delta = {**block, "input": {}}, {"type": "input_json_delta", "partial_json": partial}
        yield _event("content_block_start", index=index, content_block=empty)
        yield _event("content_block_delta", index=index, delta=delta)
        yield _event("content_block_stop", index=index)
    ending = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    yield _event("message_delta", delta=ending, usage=whole["usage"])
    yield _event("message_stop")


def _event(kind: str, **fields: Any) -> bytes:
    return speech.data({"type": kind, **fields}, kind)


ERRORS: dict[str, tuple[int, str, str]] = {
    "auth": (401, "authentication_error", "invalid x-api-key"),
    "credit": (400, "invalid_request_error", "Your credit balance is too low to access the API."),
    "no_model": (404, "not_found_error", "model: no-such-model"),
    "overloaded": (529, "overloaded_error", "Overloaded"),
    "server_error": (500, "api_error", "Internal server error"),
    "rate_limit": (429, "rate_limit_error", "This request would exceed the rate limit of 50,000 input tokens per minute."),
    "quota": (429, "rate_limit_error", "This request would exceed your account's rate limit. Please try again later."),
}
"""Faults by name: status, error type and message."""


def error(fault: Fault) -> speech.Reply:
    """A fault as the service answers it; a spent plan limit carries its windows in headers."""
    status, kind, said = ERRORS[fault.name]
    again: dict[str, str] = {"x-should-retry": "true"} if fault.name in {"overloaded", "rate_limit"} else {}
    headers = _windows(fault.reset_in_s) if fault.name == "quota" else again
    body = {"type": "error", "error": {"type": kind, "message": said}, "request_id": "req_1"}
    return status, {"request-id": "req_1", **headers}, body


def _windows(reset_in_s: int) -> dict[str, str]:
    """The headers of a plan whose five-hour window is spent."""
    unified = "anthropic-ratelimit-unified"
    at = str(int(time.time()) + reset_in_s)
    return {
        "retry-after": str(reset_in_s),
        "x-should-retry": "false",
        f"{unified}-status": "rejected",
        f"{unified}-reset": at,
        f"{unified}-representative-claim": "five_hour",
        f"{unified}-5h-status": "rejected",
        f"{unified}-5h-reset": at,
        f"{unified}-5h-utilization": "1.0",
        f"{unified}-7d-status": "allowed",
        f"{unified}-7d-reset": str(int(time.time()) + 400_000),
        f"{unified}-7d-utilization": "0.4",
        f"{unified}-overage-status": "rejected",
        f"{unified}-overage-disabled-reason": "org_level_disabled",
    }

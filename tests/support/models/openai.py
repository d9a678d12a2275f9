"""Two formats of OpenAI: Responses (Codex) and Chat Completions (most others). Requests read, answers written, errors as worded."""

import json
import time
from collections.abc import Iterator, Mapping
from typing import Any

from support.models import speech
from support.models.scenario import Fault, Request, Say

IN, OUT, CACHED = 1200, 34, 100


def asked(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Request:
    """Read a request of either format."""
    chat = "messages" in body
    turns = body["messages"] if chat else body.get("input") or []
    last = turns[-1] if turns else {}
    tools = [tool.get("function", tool) for tool in _offered(body)]
    after = last.get("role") == "tool" if chat else str(last.get("type")).endswith("_output")
    said = "\n".join(speech.texts([body.get("instructions"), turns]))
    return Request(path, headers, body, said, speech.offers(tools, "parameters"), after)


def _offered(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    turns = body.get("input") or []
    more = [item for item in turns if item.get("type") == "additional_tools"] if isinstance(turns, list) else []
    for holder in (body, *more):
        for tool in holder.get("tools") or []:
            yield from tool.get("tools") or [] if tool.get("type") == "namespace" else [tool]


def message(say: Say, model: str, number: int, request: Request) -> dict[str, Any]:
    """A good answer, whole."""
    head = {"model": model, "created": int(time.time())}
    if "messages" in request.body:
        calls = [
            {"id": f"call_{number}_{i}", "type": "function", "function": {"name": call.tool, "arguments": json.dumps(call.input)}}
            for i, call in enumerate(say.calls)
        ]
        said = {"role": "assistant", "content": say.text or None, **({"tool_calls": calls} if calls else {})}
        choice = {"index": 0, "message": said, "finish_reason": "tool_calls" if calls else "stop"}
        return {"id": f"chatcmpl-{number}", "object": "chat.completion", **head, "choices": [choice], "usage": _chat_usage()}
    items: list[dict[str, Any]] = [_words(say.text, number)] if say.text else []
    items += [_call(call.tool, call.input, f"{number}_{i}") for i, call in enumerate(say.calls)]
    usage = {
        "input_tokens": IN, "input_tokens_details": {"cached_tokens": CACHED}, "output_tokens": OUT,
        "output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": IN + OUT,
    }  # fmt: skip
    return {"id": f"resp_{number}", "object": "response", **head, "status": "completed", "output": items, "usage": usage}


def _chat_usage() -> dict[str, Any]:
    counts = {"prompt_tokens": IN, "completion_tokens": OUT, "total_tokens": IN + OUT}
    return {**counts, "prompt_tokens_details": {"cached_tokens": CACHED}}


def _words(text: str, number: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": []}]
    return {"type": "message", "id": f"msg_{number}", "status": "completed", "role": "assistant", "content": content}


def _call(tool: str, given: dict[str, Any] | str, number: str) -> dict[str, Any]:
    same = {"id": f"fc_{number}", "call_id": f"call_{number}", "name": tool, "status": "completed"}
    if isinstance(given, str):
        return {"type": "custom_tool_call", **same, "input": given}
    return {"type": "function_call", **same, "arguments": json.dumps(given)}


def stream(whole: dict[str, Any]) -> Iterator[bytes]:
    """The same answer as server-sent events."""
    yield from _stream_chat(whole) if "choices" in whole else _stream_responses(whole)


def _stream_chat(whole: dict[str, Any]) -> Iterator[bytes]:
    choice = whole["choices"][0]
    said, ending = choice["message"], choice["finish_reason"]
    calls = [{"index": i, **call} for i, call in enumerate(said.get("tool_calls", []))]
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": said["content"] or ""}, None)]
    deltas += [({"tool_calls": [call]}, None) for call in calls] + [({}, ending)]
    base = {"id": whole["id"], "object": "chat.completion.chunk", "created": whole["created"], "model": whole["model"]}
    for delta, reason in deltas:
        yield speech.data({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})
    yield speech.data({**base, "choices": [], "usage": whole["usage"]})
    yield b"data: [DONE]\n\n"


def _stream_responses(whole: dict[str, Any]) -> Iterator[bytes]:
    def event(kind: str, **fields: Any) -> bytes:
        return speech.data({"type": kind, **fields}, kind)

    yield event("response.created", response={**whole, "status": "in_progress", "output": [], "usage": None})
    for index, item in enumerate(whole["output"]):
        begun = {**item, "status": "in_progress", **({"content": []} if item["type"] == "message" else {})}
        yield event("response.output_item.added", output_index=index, item=begun)
        if item["type"] == "message":
            where = {"item_id": item["id"], "output_index": index, "content_index": 0}
            yield event("response.output_text.delta", **where, delta=item["content"][0]["text"])
        yield event("response.output_item.done", output_index=index, item=item)
    yield event("response.completed", response=whole)


ERRORS: dict[str, tuple[int, str, str, str]] = {
    "auth": (401, "Incorrect API key provided: sk-dummy.", "invalid_request_error", "invalid_api_key"),
    "no_model": (
        404,
        "The model `gpt-nope` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found",
    ),
    "overloaded": (
        503,
        "Our servers are currently overloaded. Please try again later.",
        "service_unavailable_error",
        "server_is_overloaded",
    ),
    "server_error": (500, "The server had an error while processing your request.", "server_error", "server_error"),
    "rate_limit": (
        429,
        "Rate limit reached on tokens per min (TPM): Limit 30000. Please try again in 1s.",
        "tokens",
        "rate_limit_exceeded",
    ),
}
"""Faults by name: status, message, error type and code."""


def error(fault: Fault) -> speech.Reply:
    """A fault as the service answers it; a spent plan tells its windows in headers and body."""
    if fault.name == "quota":
        at = int(time.time()) + fault.reset_in_s
        told = {"type": "usage_limit_reached", "message": "The usage limit has been reached", "plan_type": "plus"}
        window = {"used-percent": "100", "window-minutes": "300", "reset-at": str(at)}
        headers = {f"x-codex-primary-{name}": value for name, value in window.items()}
        return 429, headers, {"error": {**told, "resets_at": at, "resets_in_seconds": fault.reset_in_s}}
    status, said, kind, code = ERRORS[fault.name]
    return status, {"x-request-id": "req_1"}, {"error": {"message": said, "type": kind, "param": None, "code": code}}

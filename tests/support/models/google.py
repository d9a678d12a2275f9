"""The format of Gemini: requests read, answers written, errors as the service words them."""

from collections.abc import Iterator, Mapping
from typing import Any

from support.models import speech
from support.models.scenario import Fault, Request, Say


def asked(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> Request:
    """Read a request."""
    contents = body.get("contents") or []
    after = bool(contents) and any("functionResponse" in part for part in contents[-1].get("parts", []))
    tools = [tool for group in body.get("tools") or [] for tool in group.get("functionDeclarations") or []]
    said = "\n".join(speech.texts([body.get("systemInstruction"), contents]))
    return Request(path, headers, body, said, speech.offers(tools, "parameters"), after)


def message(say: Say, model: str, number: int, _: Request) -> dict[str, Any]:
    """A good answer, whole."""
    parts: list[dict[str, Any]] = [{"text": say.text}] if say.text else []
    parts += [{"functionCall": {"name": call.tool, "args": call.input}} for call in say.calls]
    counts = {"promptTokenCount": 1200, "candidatesTokenCount": 34, "cachedContentTokenCount": 100, "totalTokenCount": 1234}
    candidate = {"content": {"parts": parts, "role": "model"}, "index": 0, "finishReason": "STOP"}
    return {"candidates": [candidate], "usageMetadata": counts, "modelVersion": model, "responseId": f"gem_{number}"}


def stream(whole: dict[str, Any]) -> Iterator[bytes]:
    """The same answer as the one event of a stream."""
    yield speech.data(whole)


DAY = "You exceeded your current quota, please check your plan and billing details.\n* Quota exceeded for metric: requests\n"
ERRORS: dict[str, tuple[int, str, str]] = {
    "auth": (400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT"),
    "no_model": (
        404,
        "models/gemini-nope is not found for API version v1beta, or is not supported for generateContent.",
        "NOT_FOUND",
    ),
    "overloaded": (503, "The model is overloaded. Please try again later.", "UNAVAILABLE"),
    "server_error": (500, "An internal error has occurred.", "INTERNAL"),
    "rate_limit": (429, f"{DAY}Please retry in 1.2s.", "RESOURCE_EXHAUSTED"),
    "quota": (429, f"{DAY}Please retry in 11h3m2.1s.", "RESOURCE_EXHAUSTED"),
}
"""Faults by name: status, message, status as a word."""


def error(fault: Fault) -> speech.Reply:
    """A fault as the service answers it; a limit says which window it is."""
    status, said, word = ERRORS[fault.name]
    details: list[dict[str, Any]] = []
    if word == "RESOURCE_EXHAUSTED":
        window, wait = ("PerDay", "39782s") if fault.name == "quota" else ("PerMinute", "1s")
        violation = {
            "quotaMetric": "requests",
            "quotaId": f"GenerateRequests{window}PerProjectPerModel-FreeTier",
            "quotaValue": "10",
        }
        google = "type.googleapis.com/google.rpc."
        details = [
            {"@type": f"{google}QuotaFailure", "violations": [violation]},
            {"@type": f"{google}RetryInfo", "retryDelay": wait},
        ]
    elif fault.name == "auth":
        info = {"reason": "API_KEY_INVALID", "domain": "googleapis.com", "metadata": {}}
        details = [{"@type": "type.googleapis.com/google.rpc.ErrorInfo", **info}]
    return status, {}, {"error": {"code": status, "message": said, "status": word, "details": details}}

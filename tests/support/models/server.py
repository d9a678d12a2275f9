"""A model service on loopback that answers by a scenario: what a real agent program talks to in a contract test."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import ModuleType
from typing import TYPE_CHECKING, Any, Self

from support.models import google, messages, openai
from support.models.scenario import Fault, Request, Scenario

if TYPE_CHECKING:
    from collections.abc import Callable

SERVICES = {
    "/messages": messages,
    "/responses": openai,
    "/chat/completions": openai,
    ":generateContent": google,
    ":streamGenerateContent": google,
}
"""The formats, by how an address ends."""


class ModelServer:
    """A running service: `url`, and `requests` with all that it was asked. Ends with its `with` block."""

    def __init__(self, scenario: Scenario) -> None:
        """Listen on a free port of loopback."""
        self.scenario = scenario
        self.requests: list[Request] = []
        self.deciding = threading.Lock()
        self.over = threading.Event()
        self.arrived = 0
        self.gate: Callable[[Request], object] = lambda _: None
        """Called before an answer is decided; it may take its time."""
        service = self

        class Handler(_Handler):
            """The connections of this service."""

            models = service

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        """Stop, also answers that stall."""
        self.over.set()
        self._http.shutdown()
        self._thread.join()
        # Waiting for each connection's thread would wait for programs that still hold one open.
        self._http.socket.close()


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    models: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the library's name)
        """Say nothing on stderr."""

    def do_GET(self) -> None:
        """Nothing is here to be fetched."""
        self._whole(404, {}, {"type": "error", "error": {"type": "not_found_error", "message": "Not found"}})

    def do_HEAD(self) -> None:
        """Nothing here either."""
        self.do_GET()

    def do_POST(self) -> None:
        """Answer a question as the scenario decides."""
        body = json.loads(self.rfile.read(int(self.headers.get("content-length") or 0)) or b"{}")
        path = self.path.split("?")[0]
        if path.endswith("/count_tokens"):
            return self._whole(200, {}, {"input_tokens": 1234})
        if path.endswith(":countTokens"):
            return self._whole(200, {}, {"totalTokens": 1234})
        service = next((service for end, service in SERVICES.items() if path.endswith(end)), None)
        if service is None:
            return self.do_GET()
        request: Request = service.asked(path, dict(self.headers), body)
        self.models.arrived += 1
        self.models.gate(request)
        with self.models.deciding:
            self.models.requests.append(request)
            number, answer = len(self.models.requests), self.models.scenario(request)
        if isinstance(answer, Fault):
            return self._fault(answer, service)
        time.sleep(answer.delay_s)
        whole = service.message(answer, str(body.get("model")), number, request)
        flows = body.get("stream") or path.endswith(":streamGenerateContent")
        return self._stream([*service.stream(whole), b""]) if flows else self._whole(200, {}, whole)

    def _fault(self, fault: Fault, service: ModuleType) -> None:
        """An error, or no answer at all until the service ends."""
        if not fault.name.startswith("stall"):
            return self._whole(*service.error(fault))
        if fault.name == "stall_mid":
            self._stream([b": a first sign of life\n\n"])
        self.models.over.wait()
        self.close_connection = True
        return None

    def _whole(self, status: int, headers: dict[str, str], body: dict[str, Any]) -> None:
        """An answer in one piece."""
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "content-type": "application/json", "content-length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _stream(self, events: list[bytes]) -> None:
        """An answer in events; an empty one ends it."""
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", "transfer-encoding": "chunked"}.items():
            self.send_header(name, value)
        self.end_headers()
        for event in events:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(event), event))

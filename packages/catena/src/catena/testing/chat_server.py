"""An OpenAI-compatible server on this machine, answered by a function: for tests of programs that take an address."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

Body = Mapping[str, Any]
"""What the server was sent: `model`, `messages`, …"""


class ChatServer:
    """Answers chat completions with `answer(body)`; a context that serves until it is left.

    Args:
        answer: from the body of a request to the text of the reply.
        tokens: (read, written) that every reply is charged; without it four characters count as a token.

    Attributes:
        bodies: all that was asked, in order of arrival.
        answer: may be replaced while the server runs.
    """

    def __init__(self, answer: Callable[[Body], str], *, tokens: tuple[int, int] | None = None) -> None:
        self.answer, self.tokens = answer, tokens
        self.bodies: list[Body] = []
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def url(self) -> str:
        """The address to give as base URL."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    @property
    def prompts(self) -> list[Any]:
        """The content of the last message of all that was asked."""
        return [body["messages"][-1]["content"] for body in self.bodies]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.bodies.append(body)
            payload = json.dumps(_completion(body, server.answer(body), server.tokens)).encode()
            with suppress(OSError):  # the asker was killed while it waited
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    return Handler


def _completion(body: Body, text: str, tokens: tuple[int, int] | None) -> dict[str, Any]:
    """Return a reply as the API documents it."""
    asked, answered = tokens or (len(json.dumps(body["messages"])) // 4, len(text) // 4)
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model", ""),
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}],
        "usage": {"prompt_tokens": asked, "completion_tokens": answered, "total_tokens": asked + answered},
    }

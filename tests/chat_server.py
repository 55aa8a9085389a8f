"""A server on this machine that speaks OpenAI's chat-completions protocol, well or badly."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEY = "sk-test-9d41c0"
Distribution = Mapping[str, float]


@dataclass(frozen=True)
class Reply:
    """What the server sends; with `drop` it closes the connection instead."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay_s: float = 0.0
    drop: bool = False


@dataclass
class Seen:
    """What the server was asked: bodies and headers of requests, and how many came at once."""

    bodies: list[dict[str, Any]] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    at: list[float] = field(default_factory=list)
    now: int = 0
    most: int = 0


Behaviour = Callable[[dict[str, Any], int], Reply]
"""The reply to a request, by its body and its number, from 0."""


def completion(*texts: str | None, steps: list[tuple[str, Distribution]] | None = None) -> Reply:
    """A good reply: texts, and for all of them token by token the distribution over tokens."""
    logprobs = None
    if steps is not None:
        content = [
            {
                "token": token,
                "logprob": math.log(p.get(token, 1e-9)),
                "top_logprobs": [{"token": t, "logprob": math.log(p_t)} for t, p_t in p.items()],
            }
            for token, p in steps
        ]
        logprobs = {"content": content}
    choices = [
        {"index": i, "message": {"role": "assistant", "content": text}, "logprobs": logprobs}
        for i, text in enumerate(texts)
    ]
    usage = {"prompt_tokens": 100, "completion_tokens": 2 * len(texts)}
    return Reply({"choices": choices, "usage": usage})


def error(status: int, message: str = "", code: str = "", **headers: str) -> Reply:
    """A bad one; `Retry_After` in headers stands for `Retry-After`."""
    body = {"error": {"message": message, "code": code}}
    return Reply(body, status, {name.replace("_", "-"): value for name, value in headers.items()})


def asked_text(body: Mapping[str, Any]) -> str:
    """What a prompt shows last between its fences; all of it if it has none."""
    prompt: str = body["messages"][0]["content"]
    return prompt.split("\n=====\n")[-2] if "\n=====\n" in prompt else prompt


@contextmanager
def serving(behaviour: Behaviour) -> Iterator[tuple[str, Seen]]:
    """The server's base address and what it sees, while it lives."""
    seen = Seen()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                number = len(seen.bodies)
                seen.bodies.append(body)
                seen.headers.append(dict(self.headers))
                seen.paths.append(self.path)
                seen.at.append(time.monotonic())
                seen.now += 1
                seen.most = max(seen.most, seen.now)
            reply = behaviour(body, number)
            time.sleep(reply.delay_s)
            with lock:
                seen.now -= 1
            if reply.drop:
                self.close_connection = True
                return
            content = (
                reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
            )
            try:
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)
            except ConnectionError:  # the client gave up
                self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/v1", seen
    finally:
        server.shutdown()
        server.server_close()

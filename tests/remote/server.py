"""A server that speaks chat completions, as far as it is told to."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def completion(text, finish="stop", prompt_tokens=10, completion_tokens=5) -> dict:
    return {
        "id": "1", "object": "chat.completion", "created": 0, "model": "m",
        "choices": [
            {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
        ],
        "usage": {
            "prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }  # fmt: skip


Answer = Callable[["Handler", dict], None]


def says(text, **more) -> Answer:
    return lambda handler, request: handler.send(200, completion(text, **more))


def fails(status, message="no", headers=()) -> Answer:
    return lambda handler, request: handler.send(status, {"error": {"message": message}}, headers)


def sends(body: bytes) -> Answer:
    return lambda handler, request: handler.send_bytes(200, body)


def closes(handler, request) -> None:
    """Ends the connection without a word."""
    handler.close_connection = True


def hangs(handler, request) -> None:
    """Says nothing for as long as the test lasts."""
    handler.server.over.wait(30)
    handler.close_connection = True


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.requests)
            server.requests.append(request)
            server.headers.append({k.lower(): v for k, v in self.headers.items()})
            server.under_way += 1
            server.most_under_way = max(server.most_under_way, server.under_way)
        try:
            server.answer(number, request)(self, request)
        finally:
            with server.lock:
                server.under_way -= 1

    def send(self, status, content, headers=()):
        self.send_bytes(status, json.dumps(content).encode(), headers)

    def send_bytes(self, status, body, headers=()):
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    """Answers the requests in turn with `answers`, the last one for ever; or with what the function
    `answers` gives for a request. Keeps the requests and their headers, by lower-case name."""

    daemon_threads = True
    request_queue_size = 64  # connections that come at once

    def __init__(self, answers):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answers, self.over, self.lock = answers, threading.Event(), threading.Lock()
        self.requests, self.headers, self.under_way, self.most_under_way = [], [], 0, 0

    def answer(self, number, request) -> Answer:
        if callable(self.answers):
            return self.answers(request)
        return self.answers[min(number, len(self.answers) - 1)]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/v1"


@contextmanager
def serving(answers) -> Iterator[Server]:
    server = Server(answers)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.over.set()
        server.shutdown()
        server.server_close()
        thread.join(10)

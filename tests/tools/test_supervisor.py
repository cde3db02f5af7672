# SPDX-License-Identifier: Apache-2.0
"""`ingot serve` as a process: limits, cancellation, and workers that end."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytestmark = pytest.mark.slow

ENDLESS = """HloModule endless
next { p = f32[] parameter(0)
  one = f32[] constant(1)
  sum = f32[] add(p, one)
  ROOT s = f32[] sine(sum) }
always { p = f32[] parameter(0)
  five = f32[] constant(5)
  ROOT c = pred[] compare(p, five), direction=LT }
ENTRY e { x = f32[] parameter(0)
  ROOT w = f32[] while(x), condition=always, body=next }
"""
DOUBLE = "HloModule m ENTRY e { x = f32[?n] parameter(0) ROOT y = f32[?n] add(x, x) }"
HUGE = """HloModule huge
ENTRY e { x = f32[] parameter(0)
  b = f32[1073741824] broadcast(x), dimensions={}
  ROOT s = f32[1073741824] sine(b) }
"""
ZERO = {"dtype": "f32", "shape": []}
Answer = tuple[dict[str, Any], bytes]


class Server:
    """A process of `ingot serve --stdio`, with a pipe each way."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "ingot", "serve", "--stdio", *options]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe)

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """Send a request."""
        assert self.process.stdin is not None
        message = json.dumps(header).encode() + b"\n" + payload
        self.process.stdin.write(struct.pack(">I", len(message)) + message)
        self.process.stdin.flush()

    def receive(self) -> Answer:
        """Return the next answer."""
        assert self.process.stdout is not None
        (size,) = struct.unpack(">I", self.process.stdout.read(4))
        line, _, rest = self.process.stdout.read(size).partition(b"\n")
        return json.loads(line), rest

    def ask(self, payload: bytes = b"", **header: Any) -> Answer:
        """Return the answer to a request."""
        self.send(header, payload)
        return self.receive()

    def compiled(self, program: str) -> int:
        """Compile a program; return its number."""
        header, _ = self.ask(op="compile", program=program)
        assert header["ok"], header
        return header["executable"]

    def worker(self) -> int:
        """Return the number of the process that computes."""
        pid = self.process.pid
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])

    def run_endless(self, number: int, **fields: Any) -> None:
        """Begin a program that does not end."""
        run = {"op": "execute", "executable": number, "arguments": [ZERO], **fields}
        self.send(run, bytes(4))


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.process.kill()
    server.process.communicate()


def code(answer: Answer) -> str:
    """Return the code of the error that an answer is."""
    return answer[0]["error"]["code"]


def test_a_request_that_does_not_end(server: Server) -> None:
    (kept,) = server.ask(bytes(4), op="put", arrays=[ZERO])[0]["values"]
    endless = server.compiled(ENDLESS)
    server.run_endless(endless, timeout=0.5, id="slow")
    answer = server.receive()
    assert code(answer) == "INGOT0415"
    assert answer[0]["id"] == "slow"
    if answer[0].get("restarted"):
        assert code(server.ask(op="get", values=[kept])) == "INGOT0525"
    else:
        assert server.ask(op="get", values=[kept])[1] == bytes(4)
    double = server.compiled(DOUBLE)
    assert double > endless
    row = {"dtype": "f32", "shape": [2]}
    data = np.array([1, 2], np.float32).tobytes()
    _, result = server.ask(data, op="execute", executable=double, arguments=[row])
    assert np.frombuffer(result, np.float32).tolist() == [2, 4]


@pytest.mark.parametrize("timeout", [0, -1, "1", True, [], 1e400])
def test_a_time_that_is_none(server: Server, timeout: Any) -> None:
    assert code(server.ask(op="devices", timeout=timeout)) == "INGOT0522"


def test_cancellation(server: Server) -> None:
    server.run_endless(server.compiled(ENDLESS), id=1)
    server.send({"op": "devices", "id": 2})
    server.send({"op": "devices", "id": 3})
    server.send({"op": "cancel", "request": 2})
    server.send({"op": "cancel", "request": 1})
    server.send({"op": "cancel", "request": 7})
    answers = [server.receive()[0] for _ in range(6)]
    assert [one["ok"] for one in answers] == [False, False, True, True, True, True]
    assert [one["error"]["code"] for one in answers[:2]] == ["INGOT0523"] * 2
    assert [one.get("id") for one in answers[:3]] == [1, 2, 3]
    assert [one["cancelled"] for one in answers[3:]] == [True, True, False]


def test_a_worker_that_crashes(server: Server) -> None:
    server.run_endless(server.compiled(ENDLESS), id="a")
    time.sleep(0.3)
    os.kill(server.worker(), signal.SIGSEGV)
    answer = server.receive()
    assert code(answer) == "INGOT0524"
    assert "SIGSEGV" in answer[0]["error"]["message"]
    assert (answer[0]["id"], answer[0]["restarted"]) == ("a", True)
    assert code(server.ask(op="execute", executable=1)) == "INGOT0525"
    assert server.compiled(DOUBLE) == 2


def test_a_worker_that_ends_between_requests(server: Server) -> None:
    number = server.compiled(DOUBLE)
    os.kill(server.worker(), signal.SIGKILL)
    time.sleep(0.2)
    assert code(server.ask(op="execute", executable=number)) == "INGOT0525"
    assert server.ask(op="devices")[0]["ok"]


def test_memory_is_limited() -> None:
    server = Server("--max-memory-mib", "1024")
    try:
        row = {"dtype": "f32", "shape": []}
        number = server.compiled(HUGE)
        answer = server.ask(bytes(4), op="execute", executable=number, arguments=[row])
        assert code(answer) in ("INGOT0401", "INGOT0524")
        assert server.ask(op="devices")[0]["ok"]
    finally:
        server.process.kill()
        server.process.communicate()


def test_messages_are_limited() -> None:
    server = Server("--max-message-mib", "1")
    try:
        row = {"dtype": "u8", "shape": [1 << 21]}
        assert code(server.ask(bytes(1 << 21), op="put", arrays=[row])) == "INGOT0522"
        assert server.ask(op="devices")[0]["ok"]
    finally:
        server.process.kill()
        server.process.communicate()


def test_the_end_of_the_host_is_the_end(server: Server) -> None:
    server.run_endless(server.compiled(ENDLESS))
    worker = server.worker()
    assert server.process.stdout is not None
    server.process.stdout.close()
    assert server.process.wait(30) == 0
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_the_end_of_the_server_is_the_end_of_the_worker(server: Server, number: int) -> None:
    server.run_endless(server.compiled(ENDLESS))
    time.sleep(0.5)
    worker = server.worker()
    server.process.send_signal(number)
    server.process.wait()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{worker}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{worker}").exists()


def test_many_requests_at_once(server: Server) -> None:
    for number in range(300):
        server.send({"op": "devices" if number % 3 else "nothing", "id": number})
    answers = [server.receive()[0] for _ in range(300)]
    assert [one["id"] for one in answers] == list(range(300))
    assert [one["ok"] for one in answers] == [number % 3 > 0 for number in range(300)]


@pytest.mark.parametrize(
    "data", [b'{"op": "\\u0063ancel", "id": 2}', '{"op": "cancel", "id": 2}'.encode("utf-16")]
)
def test_a_cancellation_in_other_letters(server: Server, data: bytes) -> None:
    # JSON has other ways to write a word.
    server.run_endless(server.compiled(ENDLESS), id=1)
    assert server.process.stdin is not None
    server.process.stdin.write(struct.pack(">I", len(data)) + data)
    server.process.stdin.flush()
    assert code(server.receive()) == "INGOT0523"
    assert server.receive()[0] == {"ok": True, "cancelled": True, "id": 2}


def test_invalid_headers_are_answered_in_order(server: Server) -> None:
    assert server.process.stdin is not None
    broken = [b"nonsense", b'{"op": cancel}', b"{\0}", b'{"timeout"', b"[" * 100_000]
    for number, data in enumerate(broken):
        server.process.stdin.write(struct.pack(">I", len(data)) + data)
        server.send({"op": "free", "id": number})
    for number in range(len(broken)):
        assert code(server.receive()) == "INGOT0522"
        assert server.receive()[0] == {"ok": True, "id": number}


def test_large_arrays(server: Server) -> None:
    values = np.arange(1 << 23, dtype=np.float32)
    row = {"dtype": "f32", "shape": [1 << 23]}
    kept = 0
    for _ in range(2):
        (kept,) = server.ask(values.tobytes(), op="put", arrays=[row])[0]["values"]
        assert server.ask(op="get", values=[kept])[1] == values.tobytes()
    double = server.compiled(DOUBLE)
    run = {"op": "execute", "executable": double, "arguments": [{"value": kept}]}
    assert server.ask(**run)[1] == (values + values).tobytes()


def test_shutdown(server: Server) -> None:
    server.send({"op": "shutdown", "id": 1})
    server.send({"op": "devices", "id": 2})
    assert server.receive()[0] == {"ok": True, "id": 1}
    assert server.process.wait(30) == 0

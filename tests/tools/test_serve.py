# SPDX-License-Identifier: Apache-2.0
"""`ingot serve --stdio`: a process on two pipes, and the session behind them."""

from __future__ import annotations

import base64
import json
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ingot.support.diagnostics import ExecutionError, ResourceError
from ingot.tools.serving.framing import (
    Lines,
    Message,
    Packets,
    line,
    packet,
    read_line,
    read_packet,
)
from ingot.tools.serving.session import Session

HLO = """HloModule step

ENTRY main {
  w = f32[2,3] parameter(0)
  g = bf16[3] parameter(1)
  wide = f32[3] convert(g)
  rows = f32[2,3] broadcast(wide), dimensions={1}
  next = f32[2,3] add(w, rows)
  zero = f32[2,3] subtract(next, next)
  flag = pred[2,3] compare(next, zero), direction=GT
  ROOT both = (f32[2,3], pred[2,3]) tuple(next, flag)
}
"""
STABLEHLO = """
func.func @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}
"""
W = np.arange(6, dtype=np.float32).reshape(2, 3) - 3
G = np.array([1, 2, 3], ml_dtypes.bfloat16)
W_ROW, G_ROW = {"dtype": "f32", "shape": [2, 3]}, {"dtype": "bf16", "shape": [3]}


def ask(session: Session, payload: bytes = b"", **header: Any) -> Message:
    """Return the answer to a request that succeeds."""
    answer = session.answer(Message(header, payload))
    assert answer.header["ok"], answer.header
    return answer


def refusal(session: Session, payload: bytes = b"", **header: Any) -> dict[str, Any]:
    """Return the error that answers a request."""
    answer = session.answer(Message(header, payload))
    assert not answer.header["ok"]
    assert not answer.payload
    return answer.header["error"]


@pytest.fixture
def session() -> Session:
    return Session()


@pytest.fixture
def program(session: Session) -> int:
    return ask(session, op="compile", program=HLO).header["executable"]


def test_compile_says_what_the_program_takes_and_gives(session: Session) -> None:
    header = ask(session, HLO.encode(), op="compile").header
    assert header["name"] == "step"
    assert header["devices"] == 1
    assert header["parameters"] == [{"name": "w", **W_ROW}, {"name": "g", **G_ROW}]
    assert header["results"] == [W_ROW, {"dtype": "pred", "shape": [2, 3]}]


def test_execute(session: Session, program: int) -> None:
    data = W.tobytes() + G.tobytes()
    answer = ask(session, data, op="execute", executable=program, arguments=[W_ROW, G_ROW])
    assert answer.header["results"] == [W_ROW, {"dtype": "pred", "shape": [2, 3]}]
    expected = W + G.astype(np.float32)
    assert answer.payload == expected.tobytes() + (expected > 0).tobytes()


def test_arrays_that_stay(session: Session, program: int) -> None:
    (kept,) = ask(session, G.tobytes(), op="put", arrays=[G_ROW]).header["values"]
    arguments = [W_ROW, {"value": kept}]
    run = {"op": "execute", "executable": program, "keep": True}
    first = ask(session, W.tobytes(), arguments=arguments, **run)
    assert not first.payload
    (state, _) = (row["value"] for row in first.header["results"])
    arguments = [{"value": state}, {"value": kept}]
    second = ask(session, arguments=arguments, donate=[state], **run)
    (state2, _) = (row["value"] for row in second.header["results"])
    found = ask(session, op="get", values=[state2]).payload
    assert found == (W + 2 * G.astype(np.float32)).tobytes()
    assert refusal(session, op="get", values=[state])["code"] == "INGOT0522"
    ask(session, op="free", values=[kept, state2], executables=[program])
    assert "there is no value" in refusal(session, op="get", values=[kept])["message"]
    assert "there is no executable" in refusal(session, **run)["message"]


def test_several_devices(session: Session) -> None:
    text = "HloModule m, replica_count=2 ENTRY e { ROOT r = u32[] replica-id() }"
    header = ask(session, op="compile", program=text).header
    assert header["devices"] == 2
    answer = ask(session, op="execute", executable=header["executable"])
    assert np.frombuffer(answer.payload, np.uint32).tolist() == [0, 1]


SHARDED = """
module attributes {mhlo.num_partitions = 2 : i32} {
  func.func @main(%x: tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}, %s: tensor<f32>)
      -> (tensor<4x2xf32> {mhlo.sharding = "{devices=[2,1]<=[2]}"}, tensor<f32>) {
    %b = stablehlo.broadcast_in_dim %s, dims = [] : (tensor<f32>) -> tensor<4x2xf32>
    %y = stablehlo.add %x, %b : tensor<4x2xf32>
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %sum = stablehlo.reduce(%y init: %zero) applies stablehlo.add across dimensions = [0, 1]
        : (tensor<4x2xf32>, tensor<f32>) -> tensor<f32>
    return %y, %sum : tensor<4x2xf32>, tensor<f32>
  }
}
"""


def test_a_sharded_program_is_divided(session: Session) -> None:
    header = ask(session, op="compile", program=SHARDED).header
    assert header["devices"] == 2
    x, s = header["parameters"]
    assert (x["shape"], x["sharding"]) == ([2, 2], "{devices=[2,1]0,1}")
    assert (s["shape"], s.get("sharding")) == ([], None)
    rows = [{"dtype": "f32", "shape": shape} for shape in ([2, 2], [])]
    parts = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
    one = np.float32(1).tobytes()
    payload = b"".join(part.tobytes() + one for part in parts)
    number = header["executable"]
    answer = ask(session, payload, op="execute", executable=number, arguments=rows * 2)
    found = np.frombuffer(answer.payload, np.float32).reshape(2, 5)
    np.testing.assert_array_equal(found[:, :4].reshape(4, 2), parts.reshape(4, 2) + 1)
    np.testing.assert_array_equal(found[:, 4], [36, 36])


def test_a_program_that_is_not_to_be_divided(session: Session) -> None:
    header = ask(session, op="compile", program=SHARDED, partition=False).header
    assert [row["shape"] for row in header["parameters"]] == [[4, 2], []]


def test_a_symbolic_size_is_null(session: Session) -> None:
    text = "HloModule m ENTRY e { x = f32[?n] parameter(0) ROOT y = f32[?n] negate(x) }"
    header = ask(session, op="compile", program=text).header
    assert header["parameters"][0]["shape"] == [None]
    row = {"dtype": "f32", "shape": [5]}
    number = header["executable"]
    answer = ask(session, bytes(20), op="execute", executable=number, arguments=[row])
    assert answer.header["results"] == [row]


@pytest.mark.parametrize(
    ("header", "payload", "part"),
    [
        ({}, b"", 'there is no "op"'),
        ({"op": "compute"}, b"", "there is no request 'compute'"),
        ({"op": "compile"}, b"", "there is no program"),
        ({"op": "compile", "program": 3}, b"", '"program" is 3'),
        ({"op": "put", "arrays": [W_ROW]}, b"123", "ends at byte 24 of a payload of 3"),
        ({"op": "put", "arrays": []}, b"123", "the arrays take 0 bytes, the payload has 3"),
        ({"op": "put", "arrays": [[2]]}, b"", "an array is an object"),
        ({"op": "put", "arrays": [{"dtype": "f33", "shape": []}]}, b"", "no element type 'f33'"),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [-1]}]}, b"", "a list of sizes"),
        ({"op": "execute", "executable": 9}, b"", "there is no executable 9"),
        ({"op": "free", "values": [9]}, b"", "there is no value 9"),
        ({"op": ["free"]}, b"", "\"op\" is ['free']"),
        ({"op": "f" * 1_000_000}, b"", "there is no request 'ffff"),
        ({"op": "free", "values": [True]}, b"", "there is no value True"),
        ({"op": "free", "values": [{}]}, b"", "there is no value {}"),
        ({"op": "free", "values": {}}, b"", '"values" is {}, not a list'),
        ({"op": "compile", "program": "\ud800"}, b"", "half of a surrogate pair"),
        ({"op": "compile", "format": "pdf"}, b"x", "\"format\" is 'pdf'"),
        ({"op": "compile", "partition": 1}, b"x", '"partition" is 1, not true or false'),
        ({"op": "put", "arrays": [{"dtype": 3, "shape": []}]}, b"", '"dtype" is 3'),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [True]}]}, b"", "a list of sizes"),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [2.0]}]}, b"", "a list of sizes"),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [1 << 80]}]}, b"", "a list of sizes"),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [1] * 65}]}, b"", "more than 64"),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [0, 1 << 62]}]}, b"", "no array of"),
        ({"op": "put", "arrays": [{"dtype": "f32", "shape": [1 << 62] * 9}]}, b"", "ends at byte"),
        ({"op": "put", "arrays": [{"dtype": "pred", "shape": [1]}]}, b"\2", "a byte of 0 or 1"),
    ],
)
def test_bad_requests(session: Session, header: dict[str, Any], payload: bytes, part: str) -> None:
    error = refusal(session, payload, **header)
    assert error["code"] == "INGOT0522"
    assert part in error["message"]


def test_an_error_of_the_compiler_is_whole(session: Session) -> None:
    error = refusal(session, op="compile", program=HLO.replace("add(w, rows)", "add(w, g)"))
    assert error["text"].startswith(f"error[{error['code']}]: ")
    assert "add" in error["text"]
    error = refusal(session, op="compile", program=HLO.replace("convert(g)", "konvert(g)"))
    assert error["line"] == 6
    assert error["column"] > 1


def test_an_argument_that_does_not_fit(session: Session, program: int) -> None:
    rows = [{"dtype": "f32", "shape": [3, 2]}, G_ROW]
    data = W.tobytes() + G.tobytes()
    error = refusal(session, data, op="execute", executable=program, arguments=rows)
    assert error["code"] == "INGOT0503"
    (kept,) = ask(session, G.tobytes(), op="put", arrays=[G_ROW]).header["values"]
    for donate in ([kept], [kept, kept], [None], [True], [{}], [9]):
        rows = [W_ROW, {"value": kept}] if len(donate) > 1 else []
        data = W.tobytes() if rows else b""
        run = {"op": "execute", "executable": program, "arguments": rows, "donate": donate}
        assert refusal(session, data, **run)["code"] == "INGOT0522"
    assert ask(session, op="get", values=[kept]).payload == G.tobytes()


def whole(found: bytes | ExecutionError) -> bytes:
    """Return a frame that is none of the errors."""
    assert isinstance(found, bytes), found
    return found


SENT = [Message({"op": "a"}), Message({"op": "b"}, b"\n\0xyz")]


@pytest.mark.parametrize("part", [1, 3, 1000])
def test_packets(part: int) -> None:
    data = b"".join(map(packet, SENT))
    decoder = Packets()
    parts = [data[at : at + part] for at in range(0, len(data), part)]
    frames = [found for one in parts for found in decoder.feed(one)]
    assert [read_packet(whole(frame)) for frame in frames] == SENT
    assert list(decoder.end()) == []
    assert list(decoder.feed(b'\0\0\0\x09{"a"')) == []
    with pytest.raises(ResourceError, match="4 bytes into a message of 9"):
        decoder.end()


@pytest.mark.parametrize("part", [1, 3, 1000])
def test_lines(part: int) -> None:
    data = b"".join(map(line, SENT)) + b"\n  \n" + line(SENT[0])[:-1]
    decoder = Lines()
    parts = [data[at : at + part] for at in range(0, len(data), part)]
    found = [found for one in parts for found in decoder.feed(one)]
    found += decoder.end()
    assert [read_line(whole(frame)) for frame in found] == [*SENT, SENT[0]]


@pytest.mark.parametrize("size", [1, 1 << 16, (1 << 16) + 9])
def test_a_header_alone_needs_no_line_feed(size: int) -> None:
    header = {"op": "o" * size}
    data = json.dumps(header).encode()
    (found,) = Packets().feed(struct.pack(">I", len(data)) + data)
    assert read_packet(whole(found)) == Message(header)


@pytest.mark.parametrize("size", [4, 2 << 20])
def test_a_payload_is_read_in_place_or_aligned(size: int) -> None:
    sent = Message({"op": "put"}, bytes(range(4)) * (size // 4))
    (found,) = Packets().feed(packet(sent))
    assert read_packet(whole(found)) == sent
    assert read_packet(bytearray(whole(found))) == sent


def bad_message(found: object) -> str:
    """Return the text of the error that a decoder gives for a message."""
    assert isinstance(found, ExecutionError)
    assert found.diagnostic.code == "INGOT0522"
    return found.diagnostic.message


@pytest.mark.parametrize(
    ("header", "part"),
    [
        (b"nonsense", "not JSON"),
        (b"[1]", "not a JSON object"),
        (b"\xff\xfe{}", "not JSON"),
        (b'{"a": NaN}', "JSON has no NaN"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not JSON"),
        (b'{"a": ' + b"[" * 40 + b"]" * 40 + b"}", "nested deeper"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"a": ' * 100_000 + b"1" + b"}" * 100_000, "nested deeper"),
    ],
)
def test_invalid_headers(header: bytes, part: str) -> None:
    framed = len(header).to_bytes(4, "big") + header + packet(SENT[0])
    lines = header + b"\n" + line(SENT[0])
    for decoder, read, data in ((Packets(), read_packet, framed), (Lines(), read_line, lines)):
        found, after = decoder.feed(data)
        with pytest.raises(ExecutionError) as caught:
            read(whole(found))
        assert part in bad_message(caught.value)
        assert read(whole(after)) == SENT[0]


@pytest.mark.parametrize("payload", [b'"?"', b"3", b"[]", b"null", b'"\\ud800"'])
def test_invalid_payloads(payload: bytes) -> None:
    with pytest.raises(ExecutionError) as caught:
        read_line(b'{"payload": ' + payload + b"}")
    assert "not base64" in bad_message(caught.value)


@pytest.mark.parametrize("part", [1, 7, 1000])
def test_messages_over_the_limit_are_skipped(part: int) -> None:
    large = Message({"op": "a"}, bytes(100))
    forms = (Packets(50), packet, read_packet), (Lines(50), line, read_line)
    for decoder, encode, read in forms:
        data = encode(SENT[0]) + encode(large) + encode(SENT[1])
        parts = [data[at : at + part] for at in range(0, len(data), part)]
        first, refused, last = (found for one in parts for found in decoder.feed(one))
        assert [read(whole(first)), read(whole(last))] == SENT
        assert "over the limit of 50" in bad_message(refused)


class Server:
    """A client of a real process: what docs/serve.md shows."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "ingot", "serve", "--stdio"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe)

    def ask(self, header: dict[str, Any], payload: bytes = b"") -> tuple[dict[str, Any], bytes]:
        """Send a request, return header and payload of the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        message = json.dumps(header).encode() + b"\n" + payload
        self.process.stdin.write(struct.pack(">I", len(message)) + message)
        self.process.stdin.flush()
        (size,) = struct.unpack(">I", self.process.stdout.read(4))
        line, _, rest = self.process.stdout.read(size).partition(b"\n")
        return json.loads(line), rest


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.process.kill()
    server.process.communicate()


@pytest.mark.slow
def test_a_process(server: Server) -> None:
    header, _ = server.ask({"op": "compile", "program": "nothing"})
    assert not header["ok"]
    header, _ = server.ask({"op": "compile"}, STABLEHLO.encode())
    assert header["ok"], header
    run = {"op": "execute", "executable": header["executable"], "arguments": [W_ROW, W_ROW]}
    header, data = server.ask(run, W.tobytes() * 2)
    assert header["results"] == [W_ROW]
    assert data == (W + W).tobytes()
    rest, _ = server.process.communicate(timeout=60)
    assert rest == b""
    assert server.process.returncode == 0


@pytest.mark.slow
def test_only_answers_are_printed() -> None:
    # A dump to standard output is what a program may print; the host must not see it.
    def line(payload: bytes = b"", **header: Any) -> str:
        return json.dumps({**header, "payload": base64.b64encode(payload).decode()})

    requests: Sequence[str] = [
        line(op="compile", program=HLO),
        line(W.tobytes() + G.tobytes(), op="execute", executable=1, arguments=[W_ROW, G_ROW]),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "ingot", "serve", "--stdio", "--form=lines"],
        input="\n".join(requests),
        env={"XLA_FLAGS": "--xla_dump_to=-", "PATH": ""},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["ok"] for one in found] == [True, True]
    assert "*** Begin module_0000.step.before_optimizations.txt ***" in done.stderr


@pytest.mark.slow
def test_input_that_is_cut_off() -> None:
    command = [sys.executable, "-m", "ingot", "serve", "--stdio"]
    done = subprocess.run(command, input=b"\0\0\1\0{", capture_output=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"INGOT0411" in done.stderr


def test_numbers_of_a_process_that_ended() -> None:
    session = Session(first=8)
    error = refusal(session, op="get", values=[7])
    assert error["code"] == "INGOT0525"
    assert "value 7 is gone" in error["message"]
    assert refusal(session, op="get", values=[8])["code"] == "INGOT0522"
    assert ask(session, G.tobytes(), op="put", arrays=[G_ROW]).header["values"] == [8]
    assert session.next_number == 9

# SPDX-License-Identifier: Apache-2.0
"""Serialized executables: what was written is read, what was not is refused by name."""

from __future__ import annotations

import ctypes
import hashlib
import random
import struct

import pytest
from tests.client.pjrt.host import Host
from tests.client.pjrt.host import PjrtError as HostError

from ingot.client.pjrt.compile_options import read_compile_options
from ingot.client.pjrt.errors import PjrtError
from ingot.client.pjrt.serialize import read_source, write_program
from ingot.formats.hlo_proto.wire import encode
from ingot.support.diagnostics import IngotError

CODE = b"""
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.sine %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
VERSION = "ingot 1"
OPTIONS = encode(
    {
        "env_option_overrides": [{"key": "xla_dump_to", "value": {"string_field": "/x"}}],
        "executable_build_options": {
            "num_replicas": 2,
            "num_partitions": 1,
            "device_assignment": {
                "replica_count": 2,
                "computation_count": 1,
                "computation_devices": [{"replica_device_ids": [1, 0]}],
            },
        },
    },
    "CompileOptionsProto",
)
WRITTEN = write_program(CODE, "mlir", OPTIONS, VERSION)


def sealed(*parts: bytes, more: bytes = b"") -> bytes:
    """Return a container of any parts whose checksum is right."""
    content = b"".join(struct.pack("<Q", len(part)) + part for part in parts) + more
    return WRITTEN[:10] + hashlib.sha256(content).digest() + content


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Return `data` with one to four bytes changed, cut out, doubled or put in."""
    found = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at, size = rng.randrange(len(found) + 1), rng.choice((1, 1, 8, 40))
        change = rng.randrange(4)
        if change == 0:
            found[at : at + 1] = bytes([rng.randrange(256)])
        elif change == 1:
            del found[at : at + size]
        elif change == 2:
            found[at:at] = found[at : at + size]
        else:
            found[at:at] = rng.randbytes(size)
    return bytes(found)


def test_what_was_written_is_read() -> None:
    source = read_source(WRITTEN, VERSION)
    assert (source.code, source.format) == (CODE, "mlir")
    assert source.options.devices == (1, 0)
    assert sealed(VERSION.encode(), b"mlir", OPTIONS, CODE) == WRITTEN


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is none of Ingot"),
        (b"INGOTPJRT1" + WRITTEN[10:], "by another version"),
        (WRITTEN[:30], "cut off"),
        (WRITTEN[:-1], "cut off"),
        (WRITTEN + b"x", "damaged"),
        (WRITTEN[:-9] + b"y" + WRITTEN[-8:], "damaged"),
        (sealed(VERSION.encode(), b"mlir", OPTIONS), "wrong lengths"),
        (sealed(VERSION.encode(), b"mlir", OPTIONS, CODE, more=b"1234"), "wrong lengths"),
        (sealed(b"\xff\xfe", b"mlir", OPTIONS, CODE), "serialized by '.xff.xfe', this is"),
        (sealed(VERSION.encode(), b"\xff", OPTIONS, CODE), "has the format"),
    ],
)
def test_what_was_not_is_refused(data: bytes, message: str) -> None:
    with pytest.raises(PjrtError, match=message):
        read_source(data, VERSION)


def test_no_mutant_of_a_container_is_read() -> None:
    rng = random.Random(1)
    for _ in range(3000):
        mutant = mutated(rng, WRITTEN)
        if mutant != WRITTEN:
            with pytest.raises(PjrtError):
                read_source(mutant, VERSION)


def test_damaged_options_are_refused_with_our_own_errors() -> None:
    rng, refused = random.Random(2), 0
    for _ in range(3000):
        mutant = sealed(VERSION.encode(), b"mlir", mutated(rng, OPTIONS), CODE)
        try:
            found = read_source(mutant, VERSION).options
        except (PjrtError, IngotError):
            refused += 1
        else:
            assert len(found.devices) == found.count
            assert min(found.devices) >= 0
    assert 300 < refused < 3000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        ({"num_replicas": 1 << 40, "num_partitions": 1 << 20}, "more than 65536 devices"),
        ({"num_partitions": 2, "device_assignment": [[0]]}, "1 partitions of .1. replicas"),
        ({"num_replicas": 2, "device_assignment": [[0]]}, "the options say 1 of 2"),
        ({"num_replicas": 2, "num_partitions": 2, "device_assignment": [[0, 1], [2]]}, "of .1, 2."),
        ({"device_assignment": [[-3]]}, "no device -3"),
    ],
)
def test_devices_that_do_not_fit_are_refused(build: dict, message: str) -> None:
    columns = [{"replica_device_ids": ids} for ids in build.pop("device_assignment", [])]
    if columns:
        build = {**build, "device_assignment": {"computation_devices": columns}}
    with pytest.raises(PjrtError, match=message):
        read_compile_options(encode({"executable_build_options": build}, "CompileOptionsProto"))


def test_errors_of_serialized_programs() -> None:
    host = Host()
    client = host.client()
    executable = host.compile(client, CODE.decode())
    found = host.call("Executable_Serialize", executable=executable)
    data = ctypes.string_at(found.serialized_bytes, found.serialized_bytes_size)

    def load(data: bytes) -> int:
        kept = ctypes.create_string_buffer(data, len(data))
        return host.call(
            "Executable_DeserializeAndLoad",
            client=client,
            serialized_executable=ctypes.addressof(kept),
            serialized_executable_size=len(data),
        ).loaded_executable

    assert load(data)
    with pytest.raises(HostError, match=r"damaged or cut off.*compile the program again") as error:
        load(data[:-3])
    assert error.value.code == 3


def test_an_option_that_is_no_text_is_told_to_the_host() -> None:
    host = Host()
    client = host.client()
    rows = [{"key": "\udcff", "value": {"bool_field": True}}]
    options = encode({"env_option_overrides": rows}, "CompileOptionsProto")
    with pytest.raises(HostError, match="No such compile option"):
        host.compile(client, CODE.decode(), options)

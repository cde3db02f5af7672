# SPDX-License-Identifier: Apache-2.0
"""Damaged serialized executables: refused by name, or what they were.

Half of the mutants get a right checksum again, so that what stands behind it is read; their program
is left alone, because programs have targets of their own.
"""

from __future__ import annotations

import ctypes
import hashlib
import random
import struct
from functools import cache

import numpy as np
from tests.client.pjrt.host import Host, PjrtError
from tests.fuzz.mutation import mutated_bytes
from tests.fuzz.target import Target

from ingot.formats.hlo_proto.wire import encode

_MAGIC_BYTES, _DIGEST_BYTES = 10, 32
_INTERNAL = 13
_TEXT = """
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}
"""
_BUILD = {
    "num_replicas": 1,
    "num_partitions": 1,
    "device_assignment": {
        "replica_count": 1,
        "computation_count": 1,
        "computation_devices": [{"replica_device_ids": [0]}],
    },
}
_OVERRIDES = [
    {"key": "xla_cpu_enable_fast_math", "value": {"bool_field": True}},
    {"key": "xla_backend_optimization_level", "value": {"int_field": 1}},
]
_OPTIONS = (
    b"",
    encode({"executable_build_options": _BUILD}, "CompileOptionsProto"),
    encode(
        {"executable_build_options": _BUILD, "env_option_overrides": _OVERRIDES},
        "CompileOptionsProto",
    ),
)
_X = np.array([1, -2, 3, 0.5], np.float32)


@cache
def _host() -> tuple[Host, int, tuple[bytes, ...]]:
    """Return a host, its client, and what it serialized."""
    host = Host()
    client = host.client()
    found: list[bytes] = []
    for options in _OPTIONS:
        executable = host.compile(client, _TEXT, options)
        made = host.call("Executable_Serialize", executable=executable)
        found.append(ctypes.string_at(made.serialized_bytes, made.serialized_bytes_size))
    return host, client, tuple(found)


def _sealed(choose: random.Random, data: bytes) -> bytes:
    """Return a mutant whose checksum is right."""
    content, at, parts = data[_MAGIC_BYTES + _DIGEST_BYTES :], 0, list[bytes]()
    while at < len(content):
        (size,) = struct.unpack_from("<Q", content, at)
        parts.append(content[at + 8 : at + 8 + size])
        at += 8 + size
    number = choose.choice((0, 1, 2, 2, 2, 2))
    parts[number] = mutated_bytes(choose, parts[number])
    made = b"".join(struct.pack("<Q", len(part)) + part for part in parts)
    if choose.random() < 0.2:
        # Lengths that are not those of the parts.
        head = bytearray(made)
        head[choose.randrange(8)] ^= 1 << choose.randrange(8)
        made = bytes(head)
    return data[:_MAGIC_BYTES] + hashlib.sha256(made).digest() + made


def generate(choose: random.Random) -> bytes:
    """Return a mutant of a serialized executable."""
    data = choose.choice(_host()[2])
    return _sealed(choose, data) if choose.random() < 0.5 else mutated_bytes(choose, data)


def check(data: bytes) -> str:
    """Load it, and run what was loaded."""
    host, client, _ = _host()
    kept = ctypes.create_string_buffer(data, len(data))
    try:
        executable = host.call(
            "Executable_DeserializeAndLoad",
            client=client,
            serialized_executable=ctypes.addressof(kept),
            serialized_executable_size=len(data),
        ).loaded_executable
    except PjrtError as error:
        is_foreign = error.code == _INTERNAL or "Traceback" in str(error)
        return f"a foreign error: {str(error).splitlines()[-1]}" if is_foreign else ""
    if not executable:
        return "neither an error nor an executable"
    buffer, done = host.put(client, _X)
    host.wait(done)
    (result,) = host.execute(executable, [buffer], 1)
    got = host.get(result, _X)
    for address in (buffer, result):
        host.call("Buffer_Destroy", buffer=address)
    host.call("LoadedExecutable_Destroy", executable=executable)
    return "" if np.array_equal(got, -_X) else "what was loaded gives wrong results"


TARGET = Target("serialized_executables", ".bin", generate, check, share=0.3, runs_compiler=False)

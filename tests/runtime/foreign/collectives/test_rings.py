# SPDX-License-Identifier: Apache-2.0
"""Rings: what is written at one end is read at the other, whole and in order, or not at all."""

from __future__ import annotations

import ctypes
import os
import random
import socket
from typing import Any

import pytest

from ingot.native.pointers import Array, Pointer
from ingot.native.types import i64
from ingot.runtime.foreign.collectives.records import (
    GONE,
    HEADER_BYTES,
    HEADER_WORDS,
    MISMATCH,
    RING_BYTES,
    SMALLEST_READ,
    Message,
    Ring,
)
from ingot.runtime.foreign.collectives.rings import (
    SharedRing,
    offer_ring,
    read_message,
    take_ring,
    write_message,
)


def both_ends() -> tuple[SharedRing, SharedRing]:
    here, there = socket.socketpair()
    with here, there:
        made, taken = offer_ring(here, is_wanted=True), take_ring(there)
    assert made is not None
    assert taken is not None
    return made, taken


def ring(end: SharedRing) -> Ring:
    return Ring(end.address, end)


class Parcel:
    """A message with memory of its own."""

    def __init__(self, data: bytes, call: int = 7) -> None:
        self.buffer = ctypes.create_string_buffer(data, max(1, len(data)))
        self.words = (ctypes.c_int64 * (2 * HEADER_WORDS))(1, call, len(data))
        self.memory = Message.c_layout.structure()
        address = ctypes.addressof(self.words)
        self.message = message = Message(ctypes.addressof(self.memory), self)
        message.header = Array[i64](address, self)
        message.expected = Array[i64](address + HEADER_BYTES, self)
        for number in range(3):
            message.expected[number] = message.header[number]
        message.data = Pointer(ctypes.addressof(self.buffer), self)
        message.bytes, message.moved, message.pending = len(data), 0, 0

    @property
    def data(self) -> bytes:
        return self.buffer.raw[: self.message.bytes]


def test_messages_of_all_sizes_arrive_in_order() -> None:
    made, taken = both_ends()
    choose = random.Random(0)
    sizes = [0, 1, SMALLEST_READ - 1, SMALLEST_READ - 1]
    sizes += [choose.randrange(SMALLEST_READ) for _ in range(60)]
    for size in sizes:
        data = choose.randbytes(size)
        assert write_message(ring(made), Parcel(data).message) == HEADER_BYTES + size
        got = Parcel(bytes(size))
        assert read_message(ring(taken), got.message) == HEADER_BYTES + size
        assert got.data == data
    assert read_message(ring(taken), Parcel(b"").message) == 0


def test_what_does_not_fit_waits() -> None:
    made, taken = both_ends()
    data = bytes(range(256)) * 128
    count = RING_BYTES // (len(data) + HEADER_BYTES)
    for _ in range(count):
        assert write_message(ring(made), Parcel(data).message) > 0
    assert write_message(ring(made), Parcel(data).message) == 0
    assert read_message(ring(taken), Parcel(bytes(len(data))).message) > 0
    assert write_message(ring(made), Parcel(data).message) > 0


def test_only_the_header_of_large_data() -> None:
    made, taken = both_ends()
    sent, got = Parcel(b"x" * SMALLEST_READ), Parcel(bytes(SMALLEST_READ))
    sent.message.header[3] = 42
    assert write_message(ring(made), sent.message) == HEADER_BYTES
    assert read_message(ring(taken), got.message) == HEADER_BYTES
    assert got.message.header[3] == 42
    assert got.data == bytes(SMALLEST_READ)


def test_another_call_is_found_before_its_data_is_taken() -> None:
    made, taken = both_ends()
    write_message(ring(made), Parcel(b"data").message)
    other = Parcel(bytes(4), call=8)
    assert read_message(ring(taken), other.message) == -MISMATCH
    assert other.data == bytes(4)


def test_the_end_counts_when_all_is_read() -> None:
    made, taken = both_ends()
    write_message(ring(made), Parcel(b"last").message)
    made.close()
    assert read_message(ring(taken), Parcel(bytes(4)).message) > 0
    assert read_message(ring(taken), Parcel(bytes(4)).message) == -GONE
    assert write_message(ring(taken), Parcel(b"back").message) == -GONE


def test_a_process_that_is_gone_is_noted_by_its_socket() -> None:
    made, taken = both_ends()
    write_message(ring(made), Parcel(b"last").message)
    waiting = Parcel(bytes(4))
    waiting.message.pending = GONE
    assert read_message(ring(taken), waiting.message) > 0
    assert read_message(ring(taken), waiting.message) == -GONE


def test_no_ring(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> Any:
        raise OSError(f"no {name}")

    here, there = socket.socketpair()
    with here, there:
        assert offer_ring(here, is_wanted=False) is None
        assert take_ring(there) is None
        monkeypatch.setattr(os, "memfd_create", refuse)
        assert offer_ring(here, is_wanted=True) is None
        assert take_ring(there) is None
        here.close()
        with pytest.raises(ConnectionResetError):
            take_ring(there)

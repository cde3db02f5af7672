# SPDX-License-Identifier: Apache-2.0
"""Whether two processes can read each other's memory, tried when a link is made.

Each sends the other its process number and the address of a random word; a process that finds the
word there can read. Processes of different machines, namespaces or users cannot, nor can those of
which a container forbids it; they send their data instead.

Source: process_vm_readv(2), ptrace(2), Linux's Documentation/admin-guide/LSM/Yama.rst.
"""

from __future__ import annotations

import ctypes
import os
import secrets
import socket
import struct
from functools import cache
from typing import Any

_OFFER = struct.Struct("<qq16s")
_ANSWER = struct.Struct("<q")
_WORD_BYTES = 16
_PR_SET_PTRACER = 0x59616D61
_ANYBODY = ctypes.c_ulong(-1)
_SCOPE = "/proc/sys/kernel/yama/ptrace_scope"
_RESTRICTED = "1"
"""Only parents may read, unless a process allows others to."""


class _Slice(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


@cache
def _library() -> Any:
    library = ctypes.CDLL(None, use_errno=True)
    library.process_vm_readv.restype = ctypes.c_ssize_t
    return library


@cache
def allow_readers() -> None:
    """Let the user's other processes read this one's memory even if Yama allows only parents to."""
    try:
        with open(_SCOPE, encoding="ascii") as file:
            scope = file.read().strip()
    except OSError:
        return
    if scope == _RESTRICTED:
        _library().prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)


def greet_reader(link: socket.socket, *, is_first: bool) -> tuple[int, bool]:
    """Try reading both ways.

    Returns this process's number if the other can read its memory, or 0, and whether this one can
    read the other's.

    Args:
        link: the connection; the other side calls this too.
        is_first: whether this side sends first.

    Raises:
        OSError: the connection failed.
    """
    word = ctypes.create_string_buffer(secrets.token_bytes(_WORD_BYTES), _WORD_BYTES)
    offer = _OFFER.pack(os.getpid(), ctypes.addressof(word), word.raw)
    if is_first:
        link.sendall(offer)
    other = _OFFER.unpack(_receive(link, _OFFER.size))
    if not is_first:
        link.sendall(offer)
    can_read = _can_read(*other)
    link.sendall(_ANSWER.pack(can_read))
    (is_readable,) = _ANSWER.unpack(_receive(link, _ANSWER.size))
    return os.getpid() if is_readable else 0, can_read


def _receive(link: socket.socket, size: int) -> bytes:
    data = link.recv(size, socket.MSG_WAITALL)
    if len(data) < size:
        raise ConnectionResetError("the other side closed the connection")
    return data


def _can_read(process: int, address: int, word: bytes) -> bool:
    found = ctypes.create_string_buffer(_WORD_BYTES)
    here, there = _Slice(ctypes.addressof(found), _WORD_BYTES), _Slice(address, _WORD_BYTES)
    count = _library().process_vm_readv(process, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    return count == _WORD_BYTES and found.raw == word

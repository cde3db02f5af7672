# SPDX-License-Identifier: Apache-2.0
"""Queues between the host and running programs, for `infeed` and `outfeed`.

Each device has two first-in, first-out queues, as in XLA: `transfer_to_infeed` puts a value (the
leaves of a tuple) for the next `infeed` that runs there, `transfer_from_outfeed` takes the value of
the next `outfeed`. An infeed waits for the host, and fails after `INGOT_FEED_TIMEOUT` seconds. The
calls are Python callbacks: the queues belong to the host's side, and feeding is not a hot path.
"""

from __future__ import annotations

import ctypes
import queue
from collections.abc import Sequence
from typing import Any

import numpy as np

from ingot.runtime.foreign.collectives.rendezvous import device_number
from ingot.runtime.foreign.errors import set_error
from ingot.runtime.foreign.python_targets import views
from ingot.runtime.records import CALL_FRAME
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target, register
from ingot.support.diagnostics import ExecutionError, IngotError
from ingot.support.flags import FEED_TIMEOUT

Array = np.ndarray[Any, np.dtype[Any]]
Leaves = tuple[Array, ...]
_CALL = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)

_Queues = dict[int, queue.SimpleQueue[Leaves]]
_infeeds: _Queues = {}
_outfeeds: _Queues = {}


def _queue(queues: _Queues, device: int) -> queue.SimpleQueue[Leaves]:
    """Return the queue of a device, made atomically since programs and the host both ask for it."""
    return queues.get(device) or queues.setdefault(device, queue.SimpleQueue())


def transfer_to_infeed(values: Array | Sequence[Array], device: int = 0) -> None:
    """Give a value to the next infeed of a device; a tuple is the sequence of its leaves."""
    leaves = values if isinstance(values, list | tuple) else [values]
    _queue(_infeeds, device).put(tuple(np.array(leaf, order="C") for leaf in leaves))


def transfer_from_outfeed(device: int = 0, *, timeout: float | None = None) -> Leaves:
    """Return the leaves of the next value that an outfeed of a device has put out.

    Raises:
        ExecutionError: INGOT0509, nothing came for `timeout` (`INGOT_FEED_TIMEOUT`) seconds.
    """
    seconds = FEED_TIMEOUT.value() if timeout is None else timeout
    try:
        return _queue(_outfeeds, device).get(timeout=seconds)
    except queue.Empty:
        raise ExecutionError(
            f"outfeed of device {device}: nothing came for {seconds} s", code="INGOT0509"
        ) from None


def register_feeds() -> None:
    """Register the targets of infeed and outfeed."""
    register(Target("ingot.infeed", link=_link_infeed))
    register(Target("ingot.outfeed", link=_link_outfeed))


def _linked(call: CallSite, move: Any) -> LinkedCall:
    def run(address: int) -> int:
        try:
            move(CALL_FRAME.structure.from_address(address))
        except BaseException as error:  # A callback must not raise into machine code.
            known = isinstance(error, IngotError)
            set_error(error.diagnostic.message if known else repr(error), error)
            return 1
        return 0

    callback = _CALL(run)
    return LinkedCall(ctypes.cast(callback, ctypes.c_void_p).value or 0, callback)


def _link_infeed(call: CallSite) -> LinkedCall:
    def move(frame: Any) -> None:
        device, seconds = device_number(frame.runtime), FEED_TIMEOUT.value()
        try:
            leaves = _queue(_infeeds, device).get(timeout=seconds)
        except queue.Empty:
            raise ExecutionError(
                f"infeed of device {device}: the host gave nothing for {seconds} s",
                code="INGOT0509",
            ) from None
        buffers = views(call.results, frame.results, frame.result_dims)
        wanted = [(buffer.dtype, buffer.shape) for buffer in buffers]
        given = [(leaf.dtype, leaf.shape) for leaf in leaves]
        if wanted != given:
            raise ExecutionError(
                f"infeed of device {device} takes {wanted}, the host gave {given}",
                code="INGOT0509",
            )
        for buffer, leaf in zip(buffers, leaves, strict=True):
            np.copyto(buffer, leaf)

    return _linked(call, move)


def _link_outfeed(call: CallSite) -> LinkedCall:
    def move(frame: Any) -> None:
        buffers = views(call.operands, frame.operands, frame.operand_dims)
        _queue(_outfeeds, device_number(frame.runtime)).put(
            tuple(buffer.copy() for buffer in buffers)
        )

    return _linked(call, move)

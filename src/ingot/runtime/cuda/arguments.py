# SPDX-License-Identifier: Apache-2.0
"""Arguments of programs on a GPU: arrays of the device, of the host, or of another library there.

Invariant: the arrays that a program gets are dense, aligned and on its device.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from ingot.artifact.abi import ParamInfo
from ingot.runtime.arguments.convert import conform, require_fit
from ingot.runtime.cuda.arrays import DEFAULT_STREAM, DeviceArray, from_other, to_device
from ingot.runtime.cuda.devices import Device


def on_device(
    device: Device, args: Sequence[Any], params: Sequence[ParamInfo]
) -> list[DeviceArray]:
    """Return arrays of the device for a call's arguments; those of the host are copied there.

    Raises:
        ExecutionError: an argument does not fit, or its memory is gone.
        ResourceError: INGOT0401, the device has no memory for one.
    """
    rows = enumerate(zip(args, params, strict=True))
    return [_argument(device, value, index, param) for index, (value, param) in rows]


def _argument(device: Device, value: Any, index: int, param: ParamInfo) -> DeviceArray:
    found = value if isinstance(value, DeviceArray) else from_other(device, value)
    if found is None:
        return to_device(device, conform(value, index, param))
    found.require_alive()
    require_fit(found, index, param)
    if found.device is not device:
        return to_device(device, found.__array__())
    return found


def release(device: Device, args: Sequence[Any], arrays: Sequence[DeviceArray]) -> None:
    """Let other libraries reuse the memory of `args`, once the enqueued work is done with it.

    Args:
        device: the GPU.
        args: the arguments of a call.
        arrays: what `on_device` returned for them.
    """
    if any(array is not value for array, value in zip(arrays, args, strict=True)):
        device.let_wait(DEFAULT_STREAM)


def unshared(arrays: Sequence[DeviceArray], given: Collection[int]) -> frozenset[int]:
    """Return the donated arguments whose memory no other argument shares."""
    ends = [(array.address, array.address + array.nbytes) for array in arrays]

    def is_alone(index: int) -> bool:
        start, end = ends[index]
        others = (pair for number, pair in enumerate(ends) if number != index)
        return all(high <= start or end <= low for low, high in others)

    return frozenset(index for index in given if is_alone(index))

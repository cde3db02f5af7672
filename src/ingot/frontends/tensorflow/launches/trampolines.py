# SPDX-License-Identifier: Apache-2.0
"""Functions of Python that the launch op calls, as native functions declare them.

`launch` has their bodies. Memory that cannot be read is null in `data`.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.api.kernel_api import Status
from ingot.frontends.tensorflow.launches.launch_records import Variant
from ingot.native.functions import external
from ingot.native.pointers import Array
from ingot.native.types import i32, i64
from ingot.runtime.records import Buffers, Dims

MISS = "ingot_launch_miss"
FAILED = "ingot_launch_failed"
REQUEST = "ingot_launch_request"


@external(MISS)
def miss(
    identifier: i64, ranks: Array[i64], dims: Dims, data: Buffers, wanted: i64, status: Status
) -> None:
    """Compile a variant as an attempt wants it."""


@external(FAILED)
def failed(identifier: i64, variant: Variant, dims: Dims, code: i64, status: Status) -> i32:
    """Say why a program failed, or return what another variant may do."""
    ...


@external(REQUEST)
def request(identifier: i64, ranks: Array[i64], dims: Dims, data: Buffers) -> None:
    """Ask for a variant, now or later."""

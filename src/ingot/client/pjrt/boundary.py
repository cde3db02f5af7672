# SPDX-License-Identifier: Apache-2.0
"""What a host knows of a program's parameters and results, beside their types and dimensions.

It is plain data, so that it is stored with the program (`client.stored`).
"""

from __future__ import annotations

from ingot.semantics.call_layouts import Order
from ingot.support.records import record


@record
class Boundary:
    """The parameters and results of a program.

    Attributes:
        parameter_layouts: minor to major of the logical dimensions.
        result_layouts: the same of the results.
        donated: the parameters whose buffers the program takes over, aliased or only donated.
        memory_kinds: in which memory the host wants each result; empty for the usual one.
        parameter_shardings: how each is divided, as text of HLO; empty for one device.
        result_shardings: the same of the results.
        asks_host: whether the host partitioned an op itself, with a function of this process.
        program: a digest of a program for several processes; empty for any other.
    """

    parameter_layouts: tuple[Order, ...]
    result_layouts: tuple[Order, ...]
    donated: frozenset[int]
    memory_kinds: tuple[str, ...]
    parameter_shardings: tuple[str, ...] = ()
    result_shardings: tuple[str, ...] = ()
    asks_host: bool = False
    program: str = ""

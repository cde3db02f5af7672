# SPDX-License-Identifier: Apache-2.0
"""The kernels of a program for a GPU, as data.

The host program finds the handles of the loaded kernels in a table, the symbol `KERNEL_TABLE`, in
the order of `DeviceCode.kernels`; the loader of the code fills it.
"""

from __future__ import annotations

from ingot.support.records import record

KERNEL_TABLE = "ingot_kernel_table"
"""The symbol of the table of kernels' handles, 8 bytes each."""

LAUNCH, COPY, READ, CALL = (f"ingot_cuda_{name}" for name in ("launch", "copy", "read", "call"))
"""Functions of the runtime that host programs import; `ingot.runtime.cuda.native` has them."""

GRAPH_BEGIN, GRAPH_KERNEL, GRAPH_COPY, GRAPH_MAKE, GRAPH_LAUNCH, GRAPH_END = (
    f"ingot_cuda_graph_{name}" for name in ("begin", "kernel", "copy", "make", "launch", "end")
)
"""Those for iterations of loops as one graph; `ingot.runtime.cuda.graph_code` has them."""

IMPORTS = (
    *(LAUNCH, COPY, READ, CALL),
    *(GRAPH_BEGIN, GRAPH_KERNEL, GRAPH_COPY, GRAPH_MAKE, GRAPH_LAUNCH, GRAPH_END),
)
"""All functions of the runtime that a host program may import."""

GRAPH_WORDS = 3
"""8-byte words of the record of a graph, on the host program's stack; 0 in the first: no graph."""

DEVICE_FAILED = -(1 << 31) + 2
"""The status of `S_run` if the device refused a call; the device's record has the error."""


def transfers_symbol(program: str) -> str:
    """Return the symbol of the function that computes the sizes of copies for a call from the host.

    `i32 S_transfers(ptr sizes, ptr bytes)`: puts the bytes of each input, then those of the arena.
    """
    return f"{program}_transfers"


@record
class DeviceCode:
    """The code of a program's kernels.

    Attributes:
        machine: the compute capability that it is for, as "sm_90".
        ptx: one PTX module with all kernels.
        kernels: their symbols, in the order of the host program's table.
    """

    machine: str
    ptx: str
    kernels: tuple[str, ...]

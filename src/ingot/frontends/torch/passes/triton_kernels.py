# SPDX-License-Identifier: Apache-2.0
"""Errors for the user's Triton kernels (`torch.library.triton_op`, `wrap_triton`), which need GPUs.

`torch.compile` puts them into a graph as `triton_kernel_wrapper_functional` and similar ops.
PyTorch decomposes a `triton_op` that calls no kernel, so that is supported.
"""

from __future__ import annotations

from typing import Any, cast

from torch._higher_order_ops import triton_kernel_wrap

from ingot.frontends.torch.fx.locations import metadata_of
from ingot.frontends.torch.fx.nodes import Node
from ingot.support.diagnostics import UnsupportedError

_WRAPPERS = (
    triton_kernel_wrap.triton_kernel_wrapper_functional,
    triton_kernel_wrap.triton_kernel_wrapper_mutation,
)


def refuse_triton_kernels(graph: Any) -> None:
    """Raise the error for the first user kernel in a graph.

    Raises:
        UnsupportedError: INGOT0375
    """
    for node in graph.nodes:
        if node.target in _WRAPPERS:
            raise UnsupportedError(
                f"the Triton kernel {_name_of(node)} cannot run: Ingot compiles for CPU, and "
                "Triton kernels are for GPUs",
                code="INGOT0375",
                op_type=str(node.target),
                op_name=node.name,
                location=metadata_of(node).location,
                hint="give the op a CPU kernel, with torch.library.custom_op or plain PyTorch ops",
            )


def _name_of(node: Node) -> str:
    """Return the name of the kernel's Python function, through its autotuners."""
    kernel: Any = cast("Any", triton_kernel_wrap).kernel_side_table.get_kernel(
        node.kwargs["kernel_idx"]
    )
    while not hasattr(kernel, "__name__") and hasattr(kernel, "fn"):
        kernel = kernel.fn
    return repr(getattr(kernel, "__name__", str(kernel)))

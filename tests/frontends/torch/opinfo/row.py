# SPDX-License-Identifier: Apache-2.0
"""One row of PyTorch's table of ops (`op_db`): an op and an element type, compiled beside eager.

PyTorch gives the samples: arguments that its own tests call the op with. What eager refuses says
nothing of Ingot and is left out.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")

import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

import ingot.torch

DTYPES = (
    torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.bool, torch.complex64,
)  # fmt: skip
TOLERANCES = {
    torch.float32: 2e-4, torch.float64: 1e-7, torch.bfloat16: 2e-2, torch.complex64: 2e-4,
}  # fmt: skip
SAMPLES = 8
"""Of each row at most."""


@dataclass(frozen=True, slots=True)
class Row:
    """An op and an element type."""

    op: Any
    dtype: torch.dtype

    @property
    def name(self) -> str:
        """`nn.functional.pad.reflect-float32`."""
        variant = f".{self.op.variant_test_name}" if self.op.variant_test_name else ""
        return f"{self.op.name}{variant}-{str(self.dtype).removeprefix('torch.')}"


@cache
def rows() -> dict[str, Row]:
    """Return every row that PyTorch supports on the CPU, by name."""
    # The ops of the jiterator run on GPUs only, whatever the table says.
    ops = [op for op in op_db if not op.name.startswith("jiterator")]
    made = (Row(op, kind) for op in ops for kind in DTYPES if kind in op.supported_dtypes("cpu"))
    return {row.name: row for row in made}


def _samples(row: Row) -> Iterator[Any]:
    torch.manual_seed(0)
    found = row.op.sample_inputs("cpu", row.dtype, requires_grad=False)
    for number, sample in enumerate(found):
        if number == SAMPLES:
            return
        yield sample


def _copied(value: Any) -> Any:
    def one(leaf: Any) -> Any:
        return leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(one, value)


def check_row(row: Row) -> tuple[int, set[str]]:
    """Compare the samples of a row.

    Returns:
        How many samples were compared, and the ops that PyTorch ran because Ingot has no rule.

    Raises:
        AssertionError: a result, or what became of an argument, differs.
    """
    compared, host = 0, set[str]()
    for sample in _samples(row):
        function = row.op.get_op()
        given = (sample.input, *sample.args), sample.kwargs
        plain, ours = _copied(given), _copied(given)
        torch.manual_seed(1)
        try:
            expected = sample.output_process_fn_grad(function(*plain[0], **plain[1]))
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            continue
        torch._dynamo.reset()
        torch.manual_seed(1)

        def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)  # noqa: B023 - called at once

        compiled = torch.compile(call, backend="ingot", dynamic=False)
        found = sample.output_process_fn_grad(compiled(*ours[0], **ours[1]))
        for graph in ingot.torch.compiled_graphs():
            host.update(name for name, why in graph.host_ops if why)
        if not re.match("(new_)?empty", row.op.name):
            _assert_close(found, expected, row.dtype)
            _assert_close(_tensors(ours), _tensors(plain), row.dtype)
        compared += 1
    return compared, host


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _assert_close(found: Any, expected: Any, kind: torch.dtype) -> None:
    tolerance = TOLERANCES.get(kind, 2e-4)
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
    )

# SPDX-License-Identifier: Apache-2.0
"""One row of PyTorch's table of ops (`op_db`): an op and an element type, compiled beside eager.

PyTorch gives the samples: arguments that its own tests call the op with. What eager refuses says
nothing of Ingot and is left out. All samples of a row are compiled as one function; where that
does not work, each by itself.

Eager rounds the steps of some kernels to bf16 or f16, and Ingot rounds once. So a result that
differs from eager's is compared with eager's for the same arguments in f64: it must be near that,
or at most `FARTHER` times as far from it as eager's, as in PyTorch's own tests of its compiler
(`torch._dynamo.utils.same`).
"""

from __future__ import annotations

import copy
import math
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import islice
from typing import Any

os.environ.setdefault("PYTORCH_TESTING_DEVICE_ONLY_FOR", "cpu")

import torch
import torch.utils._pytree as pytree
from torch.testing._internal.common_methods_invocations import op_db

import ingot.torch

DTYPES = (
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.bool,
    torch.complex64,
)  # fmt: skip
TOLERANCES = {
    torch.float32: 2e-4, torch.float64: 1e-7, torch.float16: 3e-3, torch.bfloat16: 2e-2,
    torch.complex64: 2e-4,
}  # fmt: skip
WIDER = {
    torch.float32: torch.float64, torch.float16: torch.float64, torch.bfloat16: torch.float64,
    torch.complex64: torch.complex128,
}  # fmt: skip
FARTHER = 2.0
"""How far a result may be from that in f64, beside eager's: the root of the mean square."""
SAMPLES = 8
"""Of each row at most."""

_REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError)
"""What eager raises for samples that it does not take."""

_NOT_TRACED = (torch._dynamo.exc.Unsupported, torch._dynamo.exc.UserError)
_LIMITS = (
    "Runtime assertion failed for expression", "GuardOnDataDependentSymNode",
    "PendingUnbackedSymbolNotFound",
)  # fmt: skip
"""What PyTorch says where data decides sizes and it knows too little, with `aot_eager` as well.

It takes `masked_select` to give at most the elements of `x`, though a mask may be larger, and
splits at numbers of a tensor only if it may read them (`tensor_split`); it forgets a size of
`combinations` that is differentiated.
"""

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""The arguments of one call of an op."""


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


@dataclass(slots=True)
class Compared:
    """What became of a row.

    Attributes:
        samples: how many were compared.
        programs: how many programs Ingot compiled for them.
        host: the ops that PyTorch ran because Ingot has no rule.
    """

    samples: int = 0
    programs: int = 0
    host: set[str] = field(default_factory=set[str])


@cache
def rows() -> dict[str, Row]:
    """Return every row that PyTorch supports on the CPU, by name."""
    # The ops of the jiterator run on GPUs only, whatever the table says.
    ops = [op for op in op_db if not op.name.startswith("jiterator")]
    made = (Row(op, kind) for op in ops for kind in DTYPES if kind in op.supported_dtypes("cpu"))
    return {row.name: row for row in made}


def has_gradient(row: Row) -> bool:
    """Whether PyTorch differentiates an op for an element type."""
    return row.op.supports_autograd and row.dtype in row.op.supported_backward_dtypes("cpu")


def check_row(row: Row, *, grad: bool = False, dynamic: bool = False) -> Compared:
    """Compare the samples of a row.

    Args:
        row: the row.
        grad: compare gradients, too.
        dynamic: compile for symbolic sizes.

    Raises:
        AssertionError: a result, what became of an argument, or a gradient differs.
    """
    torch.manual_seed(0)
    found = row.op.sample_inputs("cpu", row.dtype, requires_grad=grad)
    samples = [sample for sample in islice(found, SAMPLES) if _is_taken(row, sample, grad)]
    compared = Compared(len(samples))
    if not samples:
        return compared
    try:
        _compare(row, samples, compared, grad, dynamic, is_whole=True)
    except Exception as error:
        for sample in samples:
            _compare(row, [sample], compared, grad, dynamic, is_whole=False)
        # PyTorch cannot trace some ops as one graph, whatever the backend.
        if not isinstance(error, _NOT_TRACED) and not any(text in str(error) for text in _LIMITS):
            raise
    return compared


def _is_taken(row: Row, sample: Any, grad: bool) -> bool:
    try:
        _run(_calls_of(row), [sample], _copied([sample]), grad)
    except _REFUSALS:
        return False
    return True


def _compare(
    row: Row,
    samples: Sequence[Any],
    compared: Compared,
    grad: bool,
    dynamic: bool,
    *,
    is_whole: bool,
) -> None:
    """Compare samples, compiled as one function; `is_whole`: in which nothing runs uncompiled."""
    function = _calls_of(row)
    before = set(ingot.torch.compiled_graphs())
    plain, ours = _copied(samples), _copied(samples)
    expected = _run(function, samples, plain, grad)
    torch._dynamo.reset()
    with torch._dynamo.config.patch(
        capture_dynamic_output_shape_ops=is_whole, capture_scalar_outputs=is_whole
    ):
        compiled = torch.compile(function, backend="ingot", dynamic=dynamic, fullgraph=is_whole)
        found = _run(compiled, samples, ours, grad)
    for graph in set(ingot.torch.compiled_graphs()) - before:
        compared.host.update(name for name, why in graph.host_ops if why)
        compared.programs += len(graph.executables)
    if re.match("(new_)?empty", row.op.name):
        return
    try:
        _assert_close(found, expected, row.dtype)
    except AssertionError:
        if row.dtype not in WIDER:
            raise
        exact = _run(function, samples, _copied(samples, widened=True), grad)
        _assert_near(found, expected, exact, row.dtype)


def _calls_of(row: Row) -> Callable[..., list[Any]]:
    op = row.op.get_op()

    def function(*calls: Call) -> list[Any]:
        return [op(*args, **kwargs) for args, kwargs in calls]

    return function


def _run(
    function: Callable[..., list[Any]], samples: Sequence[Any], calls: Sequence[Call], grad: bool
) -> list[Any]:
    """Return results, arguments after the calls and gradients.

    Args:
        function: takes calls, and returns their results.
        samples: what the calls were copied from.
        calls: the arguments of each.
        grad: whether to compute gradients.
    """
    torch.manual_seed(1)
    made = function(*calls)
    results = [
        sample.output_process_fn_grad(item) for sample, item in zip(samples, made, strict=True)
    ]
    return [results, _tensors(calls), _gradients(results, calls) if grad else []]


def _gradients(results: Any, calls: Any) -> list[Any]:
    """Return gradients of the results, each element with another weight."""
    leaves = [leaf for leaf in _tensors(calls) if leaf.requires_grad]
    ends = [leaf for leaf in _tensors(results) if leaf.requires_grad]
    weights = [
        torch.linspace(0.5, 1.5, leaf.numel(), dtype=torch.float64).to(leaf).reshape(leaf.shape)
        for leaf in ends
    ]
    if not ends or not leaves:
        return []
    return list(torch.autograd.grad(ends, leaves, weights, allow_unused=True))


def _copied(samples: Sequence[Any], *, widened: bool = False) -> list[Call]:
    """Return the calls of samples with tensors of their own, at the same strides.

    Args:
        samples: PyTorch's.
        widened: make f64 of f32, f16 and bf16, and c128 of c64.
    """

    def one(leaf: Any, memory: dict[int, Any]) -> Any:
        if isinstance(leaf, torch.dtype) and widened:
            return WIDER.get(leaf, leaf)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        made = copy.deepcopy(leaf.detach(), memory)
        if widened:
            made = made.to(WIDER.get(made.dtype, made.dtype))
        return made.requires_grad_(leaf.requires_grad)

    made: list[Call] = []
    for sample in samples:
        # Within a sample, what shares memory still does.
        copied = partial(one, memory={})
        args, kwargs = (sample.input, *sample.args), sample.kwargs
        made.append((pytree.tree_map(copied, args), pytree.tree_map(copied, kwargs)))
    return made


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _assert_close(found: Any, expected: Any, kind: torch.dtype) -> None:
    tolerance = TOLERANCES.get(kind, 2e-4)
    torch.testing.assert_close(
        found, expected, rtol=tolerance, atol=tolerance, equal_nan=True, check_stride=False
    )


def _assert_near(found: Any, expected: Any, exact: Any, kind: torch.dtype) -> None:
    """Compare with eager's results, and where that differs with those in f64."""
    leaves = [pytree.tree_leaves(value) for value in (found, expected, exact)]
    for one, other, reference in zip(*leaves, strict=True):
        try:
            _assert_close(one, other, kind)
        except AssertionError:
            if not isinstance(one, torch.Tensor) or one.dtype not in WIDER:
                raise
            assert one.dtype is other.dtype
            own, eager = _distance(one, reference), _distance(other, reference)
            if not math.isfinite(own) or own > FARTHER * eager:
                _assert_close(one, reference.to(one.dtype), kind)


def _distance(value: torch.Tensor, reference: torch.Tensor) -> float:
    """Return the root of the mean square of the differences; infinite if that is no number."""
    squares = (value.to(reference.dtype) - reference).abs().square()
    distance = squares.mean().sqrt().item()
    return distance if math.isfinite(distance) else math.inf

# SPDX-License-Identifier: Apache-2.0
"""Arrays whose symbolic size is 0 at run time: one compilation for nothing, one and some."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.evaluator import evaluate
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.dim import Dim
from ingot.hlo.dtype import F32, S32, DType
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.hlo.window import WindowDimension

N = Dim.symbol("n")
ADD = scalar_computation("add", F32)
_LESS = Builder("less")
LESS = _LESS.build(
    _LESS.compare(_LESS.parameter(0, "f32[]"), _LESS.parameter(1, "f32[]"), direction="LT")
)
INTO: dict[str, Any] = {
    "update_window_dims": (1,),
    "inserted_window_dims": (0,),
    "scatter_dims_to_operand_dims": (0,),
    "index_vector_dim": 1,
    "to_apply": ADD,
}
ROWS: dict[str, Any] = {
    "offset_dims": (1,),
    "collapsed_slice_dims": (0,),
    "start_index_map": (0,),
    "index_vector_dim": 1,
    "slice_sizes": (1, 3),
}
PRODUCT: dict[str, Any] = {"lhs_contracting_dims": (1,), "rhs_contracting_dims": (0,)}
WIDE = (WindowDimension(2, low=2, high=2),)
LONG = (WindowDimension(3, low=70, high=70),)
IMAGE: dict[str, Any] = {
    "window": (WindowDimension(3, low=2, high=2),),
    "dim_labels": "b0f_0io->b0f",
}
FILTER: dict[str, Any] = {
    "window": (WindowDimension(9, low=1, high=1),),
    "dim_labels": "f0b_i0o->0bf",
}
Make = Callable[..., Instruction]
Dims = tuple[int | Dim, ...]


def flat(b: Builder, x: Instruction) -> Instruction:
    """Return the elements of an array in one dimension."""
    return b.reshape_to(x, (x.shape.size,))


# parameters' dimensions (an index array: a type before them), what is computed of them
CASES: dict[str, tuple[tuple[Dims | tuple[DType, *Dims], ...], Make]] = {
    "reduce": (((N, 3), ()), lambda b, *o: b.reduce(*o, dimensions=(0,), to_apply=ADD)),
    "reduce-window": (((N,), ()), lambda b, *o: b.reduce_window(*o, window=WIDE, to_apply=ADD)),
    "pad": (((N, 3), ()), lambda b, *o: b.pad(*o, padding=((1, 1, 1), (0, 0, 0)))),
    "dot": (((2, N), (N, 3)), lambda b, *o: b.dot(*o, **PRODUCT)),
    "dot of no rows": (((N, 2), (2, 3)), lambda b, *o: b.dot(*o, **PRODUCT)),
    "scatter into": (((N, 3), (S32, 1), (1, 3)), lambda b, *o: b.scatter(*o, **INTO)),
    "scatter of": (((4, 3), (S32, N), (N, 3)), lambda b, *o: b.scatter(*o, **INTO)),
    "gather": (((4, 3), (S32, N)), lambda b, *o: b.gather(*o, **ROWS)),
    "sort": (((N, 3),), lambda b, *o: b.sort(*o, dimensions=(0,), to_apply=LESS, is_stable=True)),
    "convolution of no images": (((N, 5, 2), (3, 2, 4)), lambda b, *o: b.convolution(*o, **IMAGE)),
    "convolution, 0 channels": (((1, 9, N), (3, N, 4)), lambda b, *o: b.convolution(*o, **IMAGE)),
    "convolution, 0 features": (((1, 9, 3), (3, 3, N)), lambda b, *o: b.convolution(*o, **IMAGE)),
    "filter gradient": (((N, 9, 3), (N, 9, 4)), lambda b, *o: b.convolution(*o, **FILTER)),
    "convolution of nothing": (((1, N, 2), (3, 2, 4)), lambda b, *o: b.convolution(*o, **IMAGE)),
    "select-and-scatter": (
        ((N, 4), (N, 3), ()),
        lambda b, *o: b.select_and_scatter(
            *o, window=(WindowDimension(1), WindowDimension(2)), select=LESS, scatter=ADD
        ),
    ),
    "concatenate": (((N, 3), (2, 3)), lambda b, *o: b.concatenate(*o, dimensions=(0,))),
    "pad of a reshape": (
        ((3, N, N), ()),
        lambda b, x, o: b.pad(flat(b, b.reverse(x, dimensions=(1, 2))), o, padding=((2, 0, 1),)),
    ),
    "concatenate of a reshape": (
        ((N, N, 3), (70,)),
        lambda b, x, y: b.concatenate(
            flat(b, b.transpose(x, dimensions=(1, 0, 2))), y, dimensions=(0,)
        ),
    ),
    "windows of a reshape": (
        ((N, 3, N), ()),
        lambda b, x, o: b.reduce_window(
            flat(b, b.transpose(x, dimensions=(2, 1, 0))), o, window=LONG, to_apply=ADD
        ),
    ),
    "function of rows backwards": (
        ((N, 5),),
        lambda b, *o: b.exponential(b.negate(b.reverse(*o, dimensions=(1,)))),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_as_the_evaluator(name: str) -> None:
    parameters, make = CASES[name]
    builder = Builder("main")
    given: list[Instruction] = []
    for number, dims in enumerate(parameters):
        element = S32 if dims[:1] == (S32,) else F32
        sizes = tuple(size for size in dims if not isinstance(size, DType))
        given.append(builder.parameter(number, Shape.array(element, sizes)))
    module = Module.of("m", builder.build(make(builder, *given)))
    executable = ingot.compile(module.clone())
    for size in (0, 1, 3):
        inputs = [_numbers(one.shape, size) for one in given]
        found, wanted = executable(*inputs), evaluate(module, inputs)
        np.testing.assert_allclose(found, wanted, rtol=1e-6, strict=True)


def _numbers(shape: Shape, size: int) -> np.ndarray[Any, Any]:
    dims = [one if isinstance(one, int) else size for one in shape.dims]
    if shape.dtype is S32:
        return np.zeros(dims, np.int32)
    return np.arange(1, 1 + np.prod(dims), dtype=np.float32).reshape(dims) / 8

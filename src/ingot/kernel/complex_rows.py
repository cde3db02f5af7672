"""The right operand of a complex product written as a real matrix: each row, and i times the row.

`passes.expand.complex_expander.products` makes one such kernel for each product of complex matrices
(`[[br bi] [-bi br]]`). It is the same at every size, so its form is library code, like the product.

Invariant: what is recognized has the very form of the kernel that the expander's own code gives.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ingot.hlo.builder import Builder
from ingot.hlo.dtype import DType
from ingot.hlo.shape import Shape
from ingot.kernel.collapse import collapse
from ingot.kernel.form import Form, form_of
from ingot.kernel.ir import LoopKernel
from ingot.kernel.loops import build_loop_kernel
from ingot.kernel.schedule import Vectors, schedule_loops
from ingot.passes.expand.complex_expander.forms import Pair
from ingot.passes.expand.complex_expander.products import rows_twice

GRID = 3
"""Axes: rows, the two versions of a row, columns."""


def complex_rows(kernel: LoopKernel, vectors: Vectors) -> Form | None:
    """Return the form of a kernel that writes such rows, else None."""
    if len(kernel.grid) != GRID or kernel.grid[1].extent != 2 or len(kernel.buffers) != 2:
        return None
    element = kernel.buffers[0].dtype
    if not element.is_complex or kernel.buffers[1].dtype is not element:
        return None
    form = _form(kernel, vectors)
    same = form is not None and form.name == rows_name(element, vectors)
    return form if same else None


def _form(kernel: LoopKernel, vectors: Vectors) -> Form | None:
    own = schedule_loops(kernel, vectors)
    return form_of(kernel, replace(own, waits=False), for_every_size=True)


@cache
def rows_name(element: DType, vectors: Vectors) -> str:
    """Return the name of the form."""
    form = _form(rows_kernel(element), vectors)
    assert form is not None, "no extent of such a kernel is special"
    return form.name


def rows_kernel(element: DType) -> LoopKernel:
    """Return the kernel for a matrix of common size."""
    build = Builder("rows")
    matrix = build.parameter(0, Shape.array(element, (256, 256)))
    return collapse(
        build_loop_kernel(
            build.build(rows_twice(build, Pair(build.real(matrix), build.imag(matrix)), 1))
        )
    )

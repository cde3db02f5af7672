# SPDX-License-Identifier: Apache-2.0
"""Generic kernels: sizes put back give the kernel; symbols say what code depends on."""

from __future__ import annotations

import pytest
from tests.kernel.programs import flat, fused, whole_sum

from ingot.hlo import dim
from ingot.kernel.expr import walk
from ingot.kernel.generic.generalize import OWN_NUMBERS, GenericKernel, generalized
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.passes.collapse import collapse
from ingot.kernel.rewrite import AxisSubstitution
from ingot.kernel.schedule.decide import schedule_loops
from ingot.llvm.machine_model import Vectors

VECTORS = Vectors(512, 32)


def kernel_of(computation) -> LoopKernel:
    return collapse(build_loop_kernel(computation))


def generic_kernel_of(computation, library: str = "") -> GenericKernel:
    kernel = kernel_of(computation)
    found = generalized(kernel, schedule_loops(kernel, VECTORS), library)
    assert not isinstance(found, str)
    return found


def put_back(generic: GenericKernel) -> LoopKernel:
    """Return the kernel of a generic kernel with numbers for sizes, buffers aside."""
    rename = AxisSubstitution(dict(generic.values))

    def axes(given):
        return tuple(Axis(a.name, dim.substitute(a.extent, generic.values)) for a in given)

    kernel = generic.kernel
    passes = tuple(
        type(item)(axes(item.axes), swept.reductions, swept.stores, item.is_running)
        for item, swept in ((item, rename.sweep(item)) for item in kernel.passes)
    )
    return LoopKernel(axes(kernel.grid), passes, (), kernel.serial)


@pytest.mark.parametrize(
    "computation",
    [
        flat(64, 256),
        flat(70, 13),
        whole_sum(300, 512),
        fused("""x = f32[40,30,20] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[40,20] reduce(x, zero), dimensions={1}, to_apply=add"""),
        fused("""x = f32[40,64] parameter(0)
  s = f32[20,64] slice(x), slice={[1:40:2],[0:64]}
  ROOT r = f32[20,64] negate(s)"""),
    ],
    ids=["map", "ragged map", "sum", "middle", "steps"],
)
def test_sizes_put_back_give_the_kernel(computation):
    kernel, generic = kernel_of(computation), generic_kernel_of(computation)
    own = schedule_loops(kernel, VECTORS)
    found = put_back(generic)
    assert (found.grid, found.passes) == (kernel.grid, kernel.passes)
    for name in ("block", "units", "grain", "chunks"):
        assert dim.evaluate(getattr(generic.schedule, name), generic.values) == getattr(own, name)
    assert set(generic.kernel.symbols) == set(generic.values)


def test_equal_generic_kernels_have_equal_symbols():
    assert generic_kernel_of(flat(64, 256)).symbol == generic_kernel_of(flat(512, 768)).symbol
    assert generic_kernel_of(flat(64, 256)).symbol != generic_kernel_of(flat(63, 251)).symbol
    assert generic_kernel_of(flat(64, 256)).symbol != generic_kernel_of(whole_sum(64, 256)).symbol


def test_what_lanes_pick_stays():
    """Short steps from lane to lane and rows shorter than a vector: shuffles need them."""
    generic = generic_kernel_of(
        fused("""x = f32[70,11,3] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[70,3] reduce(x, zero), dimensions={1}, to_apply=add""")
    )
    swept, _ = generic.kernel.passes
    assert [axis.extent for axis in swept.axes] == [11]
    (load,) = [node for node in walk(generic.kernel.exprs) if node.op == "load"]
    terms = {str(key[-1]): factor for key, factor in load.payload.index.terms}
    assert terms[swept.axes[-1].name] == 3


def test_what_lanes_divide_stays_divided():
    (axis,) = generic_kernel_of(flat(64, 256)).kernel.grid
    assert dim.known_multiple_of(axis.extent, 64)


def test_in_the_library_nothing_stays():
    generic = generic_kernel_of(whole_sum(300, 512), "reduce")
    (axis,) = generic.kernel.passes[0].axes
    assert not dim.known_multiple_of(axis.extent, 2)


def test_kernels_of_symbolic_sizes_are_refused():
    kernel = kernel_of(flat("?n", 64))
    assert generalized(kernel, schedule_loops(kernel, VECTORS)) == OWN_NUMBERS

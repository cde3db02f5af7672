# SPDX-License-Identifier: Apache-2.0
"""Forms of kernels: sizes put back give the kernel; names say what code depends on."""

from __future__ import annotations

import pytest
from tests.kernel.programs import flat, fused, whole_sum

from ingot.hlo import dim
from ingot.kernel.expr import walk
from ingot.kernel.forms.form import form_of
from ingot.kernel.ir import Axis, LoopKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.collapse import collapse
from ingot.kernel.rewrite import AxisSubstitution
from ingot.kernel.schedule.decide import schedule_loops
from ingot.llvm.machine_model import Vectors

VECTORS = Vectors(512, 32)


def kernel_of(computation) -> LoopKernel:
    return collapse(build_loop_kernel(computation))


def form_at(computation):
    kernel = kernel_of(computation)
    return form_of(kernel, schedule_loops(kernel, VECTORS))


def put_back(form) -> LoopKernel:
    """Return the form's kernel with numbers for sizes, buffers aside."""
    rename = AxisSubstitution(dict(form.values))

    def axes(given):
        return tuple(Axis(a.name, dim.substitute(a.extent, form.values)) for a in given)

    kernel = form.kernel
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
    kernel, form = kernel_of(computation), form_at(computation)
    own = schedule_loops(kernel, VECTORS)
    found = put_back(form)
    assert (found.grid, found.passes) == (kernel.grid, kernel.passes)
    for name in ("block", "units", "grain", "chunks"):
        assert dim.evaluate(getattr(form.schedule, name), form.values) == getattr(own, name)
    assert set(form.kernel.symbols) == set(form.values)


def test_equal_forms_have_equal_names():
    assert form_at(flat(64, 256)).name == form_at(flat(512, 768)).name
    assert form_at(flat(64, 256)).name != form_at(flat(63, 251)).name
    assert form_at(flat(64, 256)).name != form_at(whole_sum(64, 256)).name


def test_what_lanes_pick_stays():
    """Short steps from lane to lane and rows shorter than a vector: shuffles need them."""
    form = form_at(
        fused("""x = f32[70,11,3] parameter(0)
  zero = f32[] constant(0)
  ROOT r = f32[70,3] reduce(x, zero), dimensions={1}, to_apply=add""")
    )
    swept, _ = form.kernel.passes
    assert [axis.extent for axis in swept.axes] == [11]
    (load,) = [node for node in walk(form.kernel.exprs) if node.op == "load"]
    terms = {str(key[-1]): factor for key, factor in load.payload.index.terms}
    assert terms[swept.axes[-1].name] == 3


def test_what_lanes_divide_stays_divided():
    (axis,) = form_at(flat(64, 256)).kernel.grid
    assert dim.known_multiple_of(axis.extent, 64)


def test_for_every_size_nothing_stays():
    kernel = kernel_of(whole_sum(300, 512))
    form = form_of(kernel, schedule_loops(kernel, VECTORS), for_every_size=True)
    (axis,) = form.kernel.passes[0].axes
    assert not dim.known_multiple_of(axis.extent, 2)


def test_sizes_of_the_program_have_no_form():
    assert form_at(flat("?n", 64)) is None

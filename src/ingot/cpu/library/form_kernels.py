# SPDX-License-Identifier: Apache-2.0
"""Forms of loop kernels as library code.

A form (`kernel.forms.form`) is a loop kernel for every size. Forms that many programs have are
parts of the library: reductions (`reductions`), gathers and scatters (`indexing`), `iota`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product

from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.cpu.emit.loop.kernel import emit_loop_kernel
from ingot.cpu.emit.loop.split import plain_fold
from ingot.cpu.emit.template import Template
from ingot.cpu.library.parts import CACHED_PARTS, LibraryKernel, LibraryPart, library_part
from ingot.hlo.builder import Builder, scalar_computation
from ingot.hlo.computation import Computation
from ingot.hlo.dtype import F32
from ingot.hlo.shape import Shape
from ingot.kernel.forms.form import GenericKernel
from ingot.kernel.loop.build import build_loop_kernel
from ingot.kernel.loop.collapse import collapse
from ingot.kernel.schedule.decide import schedule_loops
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.support.recent import RecentTable

MAX_INPUTS = 4
"""Arrays at most of the sums whose folds are loaded."""

COMMON_FOLDS = {"add": 0.0, "maximum": float("-inf")}
"""Folds of f32 that are loaded with the library, and where they start."""

_emitted = RecentTable[tuple[TargetSpec, str], EmittedKernel](most=CACHED_PARTS)


def form_kernel(target: TargetSpec, kind: str, form: GenericKernel) -> LibraryKernel:
    """Return how the library runs a form; `kind` says in its name what it is."""
    name = f"{kind}_{form.name}"

    def define(module: ModuleBuilder) -> EmittedKernel:
        made = emit_loop_kernel(module, name, form.kernel, form.schedule, target.has_fma)
        return _emitted.keep((target, name), made)

    code = library_part(target, Template(name, define, tuple(sorted(form.values))))
    made = _emitted.find((target, name))
    if made is None:
        # The object was kept; how it is called follows from emitting it once.
        made = define(ModuleBuilder.for_target(name, target))
    return LibraryKernel(with_sizes(made, form.values), (code,))


def common_forms(target: TargetSpec) -> Iterator[LibraryPart]:
    """Load what sums of a few f32 arrays need."""
    vectors = Vectors.of(target)
    for inputs, opcode in product(range(1, MAX_INPUTS + 1), COMMON_FOLDS):
        kernel = collapse(build_loop_kernel(_fold_of_sum(inputs, opcode)))
        fold = plain_fold(kernel, schedule_loops(kernel, vectors), target.has_fma)
        assert fold is not None, "a sum of everything is folded in parts"
        yield library_part(target, fold)


def _fold_of_sum(inputs: int, opcode: str) -> Computation:
    """Return a reduction to one number of the sum of some long arrays."""
    build = Builder(opcode)
    arrays = [build.parameter(n, Shape.array(F32, (1 << 24,))) for n in range(inputs)]
    start = build.constant(COMMON_FOLDS[opcode], F32)
    folder = scalar_computation(opcode, F32)
    total = reduce(build.add, arrays)
    return build.build(build.reduce(total, start, dimensions=(0,), to_apply=folder))

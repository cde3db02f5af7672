"""Forms of loop kernels as library code.

A form (`kernel.form`) is a loop kernel for every size. Those that many programs have are parts of
the library: complex matrices written as real ones here, reductions in `reductions`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ingot.cpu.emit.kernel_abi import EmittedKernel, with_sizes
from ingot.cpu.emit.loop import emit_loop_kernel
from ingot.cpu.library.parts import LibraryKernel, Shared, shared_part
from ingot.hlo.dtype import C64
from ingot.kernel.complex_rows import complex_rows, rows_kernel
from ingot.kernel.form import Form
from ingot.kernel.ir import LoopKernel
from ingot.kernel.schedule import Vectors
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec

_emitted: dict[tuple[TargetSpec, str], EmittedKernel] = {}


def form_kernel(target: TargetSpec, kind: str, form: Form) -> LibraryKernel:
    """Return how the library runs a form; `kind` says in its name what it is."""
    name = f"{kind}_{form.name}"

    def define(module: ModuleBuilder) -> None:
        made = emit_loop_kernel(module, name, form.kernel, form.schedule, target.has_fma)
        _emitted[target, name] = made

    code = shared_part(target, name, define)
    if (target, name) not in _emitted:
        # The object was kept; how it is called follows from emitting it once.
        define(ModuleBuilder(name, vector_bits=target.vector_bits))
    return LibraryKernel(with_sizes(_emitted[target, name], form.values), (code,))


def rows_of_products(target: TargetSpec, kernel: LoopKernel) -> LibraryKernel | None:
    """Return how the library writes the right operand of a complex product."""
    form = complex_rows(kernel, Vectors(target.vector_bits, target.num_vector_registers))
    return None if form is None else form_kernel(target, "complex_rows", form)


def common_forms(target: TargetSpec) -> Iterator[Shared]:
    """Load what products of c64 need."""
    found = rows_of_products(target, rows_kernel(C64))
    assert found is not None, "it is what is recognized"
    yield from found.parts

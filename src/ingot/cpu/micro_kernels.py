"""The library of matrix products: micro-kernels and drivers that all programs share.

What XLA takes from a precompiled library (Eigen, oneDNN), Ingot emits: micro-kernels whose strides
are parameters and drivers for plain products of any size. Each is compiled when it is first needed
on a machine, kept on disk by the object cache, mapped once for each process and kept for its life;
programs refer to them by name.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

from ingot.cpu.emit.microkernel import MicroKernel
from ingot.cpu.emit.product import emit_product_driver, micro_kernel
from ingot.hlo.dtype import F32
from ingot.kernel.contraction_schedule import cell_bits
from ingot.kernel.product import Form, Placement, Product, heights_of
from ingot.kernel.schedule import Vectors
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import Library, compile_object, link_object
from ingot.llvm.target import TargetSpec

PLACEMENTS: tuple[Placement, ...] = ("direct", "packed", "transposed")
DENSE = (True, False)


@dataclass(frozen=True, slots=True)
class Shared:
    """A function of the library: its name, LLVM IR, object and mapped code."""

    name: str
    text: str
    object: bytes
    library: Library

    @property
    def address(self) -> int:
        """Where it lies."""
        return self.library.address(self.name)


def shared_micro_kernel(target: TargetSpec, kernel: MicroKernel) -> Shared:
    """Return a micro-kernel's code."""
    return _shared(target, kernel.name, lambda module: kernel.define(module, linkage=""))


def product_driver(target: TargetSpec, form: Form) -> Shared:
    """Return the code of the driver of a form of plain products."""
    name = f"product_{form.name}"
    return _shared(target, name, lambda module: emit_product_driver(module, name, form, target))


def product_micro_kernels(plain: Product) -> tuple[MicroKernel, ...]:
    """Return the micro-kernels of a product, in the order of `emit.product.MICRO_KERNELS`."""
    return tuple(
        micro_kernel(plain.form, rows, masked=masked)
        for masked in (False, plain.has_rest)
        for rows in plain.heights
    )


def load_library(target: TargetSpec) -> None:
    """Load what f32 products of any size need: from the disk, or compiled the first time."""
    vectors = Vectors(target.vector_bits, target.num_vector_registers)
    lanes = vectors.lanes(cell_bits(F32), 1)
    for is_dense, placement in product(DENSE, PLACEMENTS):
        product_driver(target, Form(F32, lanes, placement, is_dense))
    for is_dense, rows, masked in product(DENSE, heights_of(vectors), (False, True)):
        form = Form(F32, lanes, "direct", is_dense)
        shared_micro_kernel(target, micro_kernel(form, rows, masked=masked))


_loaded: dict[tuple[TargetSpec, str], Shared] = {}
_lock = threading.Lock()


def _shared(target: TargetSpec, name: str, define: Callable[[ModuleBuilder], object]) -> Shared:
    found = _loaded.get((target, name))
    if found is not None:
        return found
    module = ModuleBuilder(name, vector_bits=target.vector_bits)
    define(module)
    text = module.text()
    data = compile_object(text, target)
    with _lock:
        if (target, name) not in _loaded:
            _loaded[target, name] = Shared(name, text, data, link_object([data]))
        return _loaded[target, name]

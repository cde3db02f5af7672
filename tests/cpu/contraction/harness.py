# SPDX-License-Identifier: Apache-2.0
"""Contraction kernels run by themselves: build, schedule, emit, compile, call every chunk."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ingot.cpu.emit.contraction.kernel import emit_contraction_kernel
from ingot.cpu.emit.kernel_abi import EmittedKernel
from ingot.cpu.library.parts import library_part, shared_addresses
from ingot.hlo.computation import Computation
from ingot.hlo.dim import evaluate
from ingot.kernel.contraction.build import build_contraction_kernel
from ingot.kernel.contraction.plan import plan_contraction
from ingot.kernel.contraction.schedule import ContractionSchedule, schedule_contraction
from ingot.kernel.ir import ContractionKernel
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import Library, link_object
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec
from ingot.runtime.native import NativeRuntime
from ingot.runtime.records import RUNTIME

Tune = Callable[[ContractionSchedule], ContractionSchedule]


@dataclass(frozen=True)
class Compiled:
    """One contraction with machine code."""

    kernel: ContractionKernel
    schedule: ContractionSchedule
    emitted: EmittedKernel
    text: str
    library: Library

    def __call__(
        self,
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        sizes: Mapping[str, int] | None = None,
        order: Callable[[int], Sequence[int]] = range,
    ) -> None:
        """Run all chunks, in the order that `order(number of chunks)` gives."""
        known = dict(sizes or {})
        address = self.environment(inputs, outputs, known)
        for phase in self.emitted.phases:
            function = self.library.function(phase.symbol, None, ctypes.c_void_p, ctypes.c_int64)
            for chunk in order(int(evaluate(phase.chunks, known))):
                function(ctypes.addressof(address), chunk)

    def run_parallel(
        self, runtime: NativeRuntime, inputs: Sequence[Any], outputs: Sequence[Any]
    ) -> None:
        """Run all chunks on the runtime's threads."""
        address = self.environment(inputs, outputs, {})
        pool = RUNTIME.read(runtime.record, "pool")
        pointer = ctypes.c_void_p
        parallel = runtime.function(
            "ingot_parallel", None, pointer, pointer, pointer, ctypes.c_int64
        )
        for phase in self.emitted.phases:
            entry = self.library.address(phase.symbol)
            parallel(pool, entry, ctypes.addressof(address), int(evaluate(phase.chunks, {})))

    def environment(
        self, inputs: Sequence[Any], outputs: Sequence[Any], sizes: Mapping[str, int]
    ) -> Any:
        """Return env: buffer addresses, scratch (not used), sizes."""
        addresses = [array.ctypes.data for array in (*inputs, *outputs)]
        slots = [*addresses, 0, *(sizes[name] for name in self.emitted.symbols)]
        return (ctypes.c_int64 * self.emitted.slots)(*slots)


def compile_contraction(
    fused: Computation, target: TargetSpec | None = None, tune: Tune = lambda schedule: schedule
) -> Compiled:
    """Compile the contraction of a fused computation; `tune` may change its schedule."""
    target = target or TargetSpec.host()
    kernel = build_contraction_kernel(fused)
    vectors = Vectors.of(target)
    schedule = tune(schedule_contraction(kernel, vectors))
    plan = plan_contraction(kernel, schedule, vectors)
    module = ModuleBuilder("contraction")
    emitted = emit_contraction_kernel(module, "k", kernel, plan, target)
    text = module.text()
    needed = [library_part(target, item) for item in emitted.templates]
    library = link_object([compile_object(text, target)], shared_addresses(needed))
    return Compiled(kernel, schedule, emitted, text, library)


def guarded(shape: Sequence[int], dtype: Any) -> tuple[Any, Callable[[], bool]]:
    """Return an array to write to, and whether what lies around it is still untouched."""
    size = int(np.prod(shape))
    margin = 64
    whole = np.zeros(size + 2 * margin, dtype)
    pattern = whole.view(np.uint8)
    pattern[:] = 0xA5
    inner = whole[margin : margin + size].reshape(shape)

    def untouched() -> bool:
        edges = np.concatenate(
            [whole[:margin].view(np.uint8), whole[margin + size :].view(np.uint8)]
        )
        return bool((edges == 0xA5).all())

    return inner, untouched

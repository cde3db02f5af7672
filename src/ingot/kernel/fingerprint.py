# SPDX-License-Identifier: Apache-2.0
"""Fingerprints of kernels: equal kernels have equal names, in every process.

The text lists each distinct expression once, in walk order, so it is linear in the kernel's size.
It is also what `Executable.as_text("kernel")` shows.
"""

from __future__ import annotations

import hashlib

from ingot.hlo.opdef import NO_ATTRIBUTES
from ingot.kernel.expr import Access, Expr, Scalar, walk
from ingot.kernel.ir import (
    Axis,
    ContractionKernel,
    FftKernel,
    Kernel,
    LoopKernel,
    Pass,
    SortKernel,
    Store,
    TopKKernel,
)


def kernel_text(kernel: Kernel) -> str:
    """Return the kernel as text for people (and for hashing)."""
    writer = _Writer()
    if isinstance(kernel, LoopKernel):
        return writer.loop(kernel)
    if isinstance(kernel, SortKernel):
        return writer.sort(kernel)
    if isinstance(kernel, FftKernel):
        return writer.fft(kernel)
    if isinstance(kernel, TopKKernel):
        return writer.topk(kernel)
    return writer.contraction(kernel)


def fingerprint(kernel: Kernel) -> str:
    """Return 16 hex digits that equal kernels share."""
    return hashlib.blake2b(kernel_text(kernel).encode(), digest_size=8).hexdigest()


class _Writer:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.numbers: dict[Expr, int] = {}

    def loop(self, kernel: LoopKernel) -> str:
        order = "serial " if kernel.serial else ""
        self.lines.append(f"{order}loop kernel over [{_axes(kernel.grid)}]")
        self._buffers(kernel)
        for number, buffer in enumerate(kernel.kept, len(kernel.buffers)):
            self.lines.append(f"  b{number}: kept {buffer.dtype}[{buffer.size}]")
        for item in kernel.passes:
            self._pass(item)
        return "\n".join(self.lines) + "\n"

    def contraction(self, kernel: ContractionKernel) -> str:
        axes = (kernel.batch, kernel.m, kernel.n, kernel.k)
        self.lines.append(f"contraction kernel over [{_axes(axes)}] sum in {kernel.accumulate}")
        self._buffers(kernel)
        if kernel.patches is not None:
            places = f"[{_axes(kernel.patches.m)}] by [{_axes(kernel.patches.k)}]"
            along = "k" if kernel.patches.along_k else "m"
            self.lines.append(f"  lhs over patches {places}, dense along {along}")
        self.lines.append(f"  lhs = {self._expr(kernel.lhs, '  ')}")
        self.lines.append(f"  rhs = {self._expr(kernel.rhs, '  ')}")
        for store in kernel.stores:
            self._store(store, "  ")
        return "\n".join(self.lines) + "\n"

    def sort(self, kernel: SortKernel) -> str:
        extents = f"{kernel.outer} x {kernel.length} x {kernel.inner}"
        self.lines.append(f"sort kernel of {kernel.operands} as [{extents}] along the second")
        self._buffers(kernel)
        self.lines.append(f"  left comes first if {self._expr(kernel.comparator, '  ')}")
        return "\n".join(self.lines) + "\n"

    def fft(self, kernel: FftKernel) -> str:
        lengths = " x ".join(map(str, kernel.lengths))
        self.lines.append(f"{kernel.kind} kernel of {kernel.batch} times {lengths}")
        self._buffers(kernel)
        return "\n".join(self.lines) + "\n"

    def topk(self, kernel: TopKKernel) -> str:
        which = "greatest" if kernel.largest else "least"
        rows = f"{kernel.rows} rows of {kernel.length}"
        self.lines.append(f"selection kernel of the {kernel.k} {which} in {rows}")
        self._buffers(kernel)
        return "\n".join(self.lines) + "\n"

    def _buffers(self, kernel: Kernel) -> None:
        for number, buffer in enumerate(kernel.buffers):
            word = "out" if buffer.is_output else "in"
            self.lines.append(f"  b{number}: {word} {buffer.dtype}[{buffer.size}]")

    def _pass(self, item: Pass) -> None:
        word = "running pass" if item.is_running else "pass"
        self.lines.append(f"  {word} over [{_axes(item.axes)}]")
        for reduction in item.reductions:
            inits = ", ".join(self._expr(init, "    ") for init in reduction.inits)
            inputs = ", ".join(self._expr(value, "    ") for value in reduction.inputs)
            results = ", ".join(self._expr(r, "    ") for r in reduction.combiner.results)
            self.lines.append(
                f"    reduction {reduction.number}: fold ({results}) from ({inits}) of ({inputs})"
            )
        for store in item.stores:
            self._store(store, "    ")

    def _store(self, store: Store, indent: str) -> None:
        values = ", ".join(self._expr(value, indent) for value in store.values)
        mask = f" if {self._expr(store.mask, indent)}" if store.mask is not None else ""
        value = self._expr(store.value, indent)
        fold = ""
        if store.combiner is not None:
            fold = f" fold ({', '.join(self._expr(r, indent) for r in store.combiner.results)})"
        target = f"b{store.buffer}[{store.index}]" + (f" with ({values})" if values else "")
        self.lines.append(f"{indent}{target} = {value}{mask}{fold}")

    def _expr(self, root: Expr, indent: str) -> str:
        for item in walk((root,)):
            if item in self.numbers:
                continue
            number = len(self.numbers)
            self.numbers[item] = number
            args = ", ".join(f"v{self.numbers[arg]}" for arg in item.args)
            text = f"{indent}v{number}: {item.dtype} = {item.op}({args}){_payload(item)}"
            self.lines.append(text)
        return f"v{self.numbers[root]}"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"{axis.name} < {axis.extent}" for axis in axes)


def _payload(item: Expr) -> str:
    payload = item.payload
    if payload is None or payload is NO_ATTRIBUTES:
        return ""
    if isinstance(payload, Access):
        return f" b{payload.buffer}[{payload.index}]" + (" masked" if payload.masked else "")
    if isinstance(payload, Scalar):
        return f" {payload.value!r} {payload.bits.hex()}"
    if item.op == "reduced":
        return f" reduction {payload[0]}.{payload[1]} over {sorted(payload[2])}"
    return f" {payload}"

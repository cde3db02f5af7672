# SPDX-License-Identifier: Apache-2.0
"""Kernel IR as text: what `Executable.as_text("kernel")` shows, `parse` reads, and names are of.

Equal kernels have equal texts and different ones different texts, so the text's hash is a
kernel's name (`fingerprint`), and `parse_kernel(kernel_text(kernel)) == kernel`.

A kernel has a header and, in braces, its buffers and what it does::

    loop over [@0 < n] {
      b0 = in f32[40*n]
      b1 = out f32[n]
      pass over [@1 < 40] {
        v0 = f32 load b0[40*@0+@1]
        v1 = f32 constant(0.0)
        v2 = f32 argument(0)
        v3 = f32 argument(1)
        v4 = f32 add(v2, v3)
        r0 = reduce (v0) from (v1) by (v4)
      }
      pass over [] {
        v5 = f32 reduced r0.0 over [@0]
        b1[@0] = v5
      }
    }

As in HLO a line gives an expression a name and says its element type; arguments come first. A name
stands for its expression wherever it is used, in later passes too. In the grammar below `x,*` is a
list with commas, `x*` some of them one after the other, and what stands between slashes may be
absent::

    loop         /serial/ loop over [axis,*] { buffer* local* /parameters/ pass* }
    pass         /running/ pass over [axis,*] { (value | reduction | store)* }
    contraction  contraction over [axis,*] in type {            the axes: batch, m, n, k
                   buffer* /patches/ value* lhs = vN value* rhs = vN (value | store)* }
    convolution  convolution bN * bN, batch=… sizes={…} results={…} channels=… features=…
                   groups=… window={…} /of_filter/ as (loop | contraction)
                   /or as contraction/                   its stores: a driver's epilogue
    attention    attention over [axis,*] in type {       the axes: batch, m, n, k, e
                   buffer* (value | name = vN)* (value | store)* }
                                    the names: lhs, rhs, values, scores, shift, power, in this order
    sort         sort (bN,*) over [index,*] {          the extents: outer, length, inner
                   buffer* value* before = vN }
    fft          fft KIND of index times [integer,*] in type { buffer* }
    top-k        top-k largest|least integer of [index, index] { buffer* }

    axis         @name < index
    buffer       bN = in|out type[index]
    local        bN = local type[index]
    parameters   parameters [name,*]
    patches      patches [axis,*] by [axis,*] along m|k
    reduction    rN = reduce (vN,*) from (vN,*) by (vN,*)    inputs, initial values, combiner
    store        bN[index] /with (vN,*)/ = vN /if vN/ /by (vN,*)/           mask and combiner
    value        vN = type constant(…)                          a number, or its bits as 0x…
                 vN = s64 index(index) /with (vN,*)/
                 vN = type load bN[index] /with (vN,*)/ /if vN/
                 vN = type reduced rN.N over [@name,*]
                 vN = type argument(N)
                 vN = type accumulator over [@name,*]
                 vN = type opcode(vN,*), attribute=…            an elementwise op, as in HLO
    index        a `Dim` of axes `@…`, sizes, and the values `$0`, `$1` … that stand in `with`

A constant is a number as people write it: `2.0`, `-inf`, `true`, `1.0, -0.0` (complex). Where
reading that back would give other bits (a NaN with a payload, a pred that is neither 0 nor 1), it
is the bits in hexadecimal, most significant first: `0x7fa00001`.

Invariants: each distinct expression is written once, so the text is linear in the kernel's size;
`scalar_of(scalar_text(scalar), element)` has the bits of `scalar`.

Example:
    >>> from ingot.hlo.dtype import F32
    >>> one = scalar_of("0.1", F32)
    >>> scalar_text(one), scalar_text(Scalar(bytes.fromhex("0100a07f"), "f32"))
    ('0.1', '0x7fa00001')
"""

from __future__ import annotations

import hashlib
import math
import re
from functools import lru_cache
from typing import Any

import numpy as np

from ingot.formats.hlo_text.attribute_text import plan
from ingot.formats.hlo_text.window_text import write_window
from ingot.hlo.dtype import PRED, DType, dtype
from ingot.hlo.opdef import NO_ATTRIBUTES, find
from ingot.kernel.expr import Expr, Scalar, walk
from ingot.kernel.ir import (
    AttentionKernel,
    Axis,
    Buffer,
    ContractionKernel,
    ConvolutionKernel,
    FftKernel,
    Kernel,
    LoopKernel,
    Pass,
    PlainConvolution,
    SortKernel,
    Store,
    TopKKernel,
)
from ingot.support.regex import regex
from ingot.support.text import braced

_WORDS = {"true": True, "false": False}
_INTEGER = regex(r"-?\d{1,20}", re.ASCII)
_FLOAT = regex(r"-?(?:\d{1,40}(?:\.\d{0,40})?(?:e[+-]?\d{1,4})?|inf|nan)", re.ASCII)
_BITS = regex(r"0x[0-9a-f]+", re.ASCII)


@lru_cache(maxsize=1 << 10)
def scalar_text(scalar: Scalar) -> str:
    """Return a constant as text."""
    element = dtype(scalar.storage)
    text = _plain(scalar.value, element)
    found = scalar_of(text, element)
    return text if found == scalar else f"0x{scalar.bits[::-1].hex()}"


def _plain(value: Any, element: DType) -> str:
    if element is PRED:
        return "true" if value else "false"
    if element.is_complex:
        return f"{value.real}, {value.imag}"
    return str(int(value)) if element.is_integer else str(value)


def scalar_of(text: str, element: DType) -> Scalar | None:
    """Return the constant that a text says, None if it is none of that type."""
    if _BITS.fullmatch(text) is not None:
        digits = text[2:]
        fits = len(digits) == 2 * element.bytes
        return Scalar(bytes.fromhex(digits)[::-1], element.name) if fits else None
    value = _value(text, element)
    return None if value is None else Scalar(np.asarray(value).tobytes(), element.name)


def _value(text: str, element: DType) -> Any:
    if element is PRED:
        return None if text not in _WORDS else np.bool_(_WORDS[text])
    if element.is_integer:
        return _integer(text, element)
    if not element.is_complex:
        return _float(text, element.numpy.type)
    parts = text.split(", ")
    half = np.float32 if element.bits == 64 else np.float64
    found = [_float(part, half) for part in parts]
    if len(found) != 2 or found[0] is None or found[1] is None:
        return None
    value = np.empty((), element.numpy)
    value.real, value.imag = found
    return value


def _integer(text: str, element: DType) -> Any:
    if _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    least = -(1 << (element.bits - 1)) if element.is_signed else 0
    most = (1 << (element.bits - element.is_signed)) - 1
    return element.numpy.type(number) if least <= number <= most else None


def _float(text: str, kind: Any) -> Any:
    """Return a number of a type, None where it has no such number (too large, a sign of none)."""
    if _FLOAT.fullmatch(text) is None:
        return None
    number = float(text)
    with np.errstate(over="ignore", invalid="ignore"):
        made = kind(number)
    rounded = float(made)
    if math.isnan(number):
        return made if math.isnan(rounded) else None
    is_near = rounded == number or (
        math.isfinite(rounded) and abs(number) <= max(2 * abs(rounded), 1)
    )
    return made if is_near else None


PRODUCTS = {
    "contraction": (("batch", "m", "n", "k"), ("lhs", "rhs")),
    "attention": (
        ("batch", "m", "n", "k", "e"),
        ("lhs", "rhs", "values", "scores", "shift", "power"),
    ),
}
"""Kernels of products by their word in texts: the names of their axes and of their expressions."""


def kernel_text(kernel: Kernel) -> str:
    """Return the text of a kernel, several lines."""
    writer = _Writer()
    product = None
    if isinstance(kernel, ConvolutionKernel):
        writer.convolution(kernel.convolution)
        product = kernel.product
        kernel = kernel.general
    if isinstance(kernel, LoopKernel):
        writer.loop(kernel)
    elif isinstance(kernel, (ContractionKernel, AttentionKernel)):
        writer.products(kernel)
    elif isinstance(kernel, SortKernel):
        writer.sort(kernel)
    elif isinstance(kernel, FftKernel):
        writer.fft(kernel)
    else:
        writer.top_k(kernel)
    if product is not None:
        writer.lines.append("} or as")
        writer.products(product)
    writer.lines.append("}\n")
    return "\n".join(writer.lines)


class _Writer:
    """The lines written so far, and the names of the expressions in them."""

    __slots__ = ("lines", "names")

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[Expr, str] = {}

    def loop(self, kernel: LoopKernel) -> None:
        serial = "serial " if kernel.serial else ""
        self.lines.append(f"{serial}loop over [{_axes(kernel.grid)}] {{")
        self._buffers(kernel.buffers)
        for number, buffer in enumerate(kernel.local_buffers, len(kernel.buffers)):
            self.lines.append(f"  b{number} = local {buffer.dtype.name}[{buffer.size}]")
        if kernel.parameters:
            self.lines.append(f"  parameters [{', '.join(kernel.parameters)}]")
        for item in kernel.passes:
            self._pass(item)

    def products(self, kernel: ContractionKernel | AttentionKernel) -> None:
        is_plain = isinstance(kernel, ContractionKernel)
        word, patches = ("contraction", kernel.patches) if is_plain else ("attention", None)
        names, values = PRODUCTS[word]
        axes = _axes(tuple(getattr(kernel, name) for name in names))
        self.lines.append(f"{word} over [{axes}] in {kernel.accumulate.name} {{")
        self._buffers(kernel.buffers)
        if patches is not None:
            along = "k" if patches.along_k else "m"
            m, k = _axes(patches.m), _axes(patches.k)
            self.lines.append(f"  patches [{m}] by [{k}] along {along}")
        for name in values:
            self.lines.append(f"  {name} = {self._value(getattr(kernel, name), '  ')}")
        for store in kernel.stores:
            self._store(store, "  ")

    def convolution(self, given: PlainConvolution) -> None:
        parts = (
            f"convolution b{given.lhs} * b{given.rhs}, batch={given.batch}",
            f"sizes={braced(given.sizes)} results={braced(given.results)}",
            f"channels={given.channels} features={given.features} groups={given.groups}",
            f"window={write_window(given.window)}",
            *["of_filter"] * given.is_of_filter,
            "as",
        )
        self.lines.append(" ".join(parts))

    def sort(self, kernel: SortKernel) -> None:
        operands = ", ".join([f"b{number}" for number in kernel.operands])
        extents = f"{kernel.outer}, {kernel.length}, {kernel.inner}"
        self.lines.append(f"sort ({operands}) over [{extents}] {{")
        self._buffers(kernel.buffers)
        self.lines.append(f"  before = {self._value(kernel.comparator, '  ')}")

    def fft(self, kernel: FftKernel) -> None:
        lengths = ", ".join(map(str, kernel.lengths))
        head = f"fft {kernel.kind} of {kernel.batch} times [{lengths}]"
        self.lines.append(f"{head} in {kernel.element.name} {{")
        self._buffers(kernel.buffers)

    def top_k(self, kernel: TopKKernel) -> None:
        which = "largest" if kernel.largest else "least"
        self.lines.append(f"top-k {which} {kernel.k} of [{kernel.rows}, {kernel.length}] {{")
        self._buffers(kernel.buffers)

    def _buffers(self, buffers: tuple[Buffer, ...]) -> None:
        for number, buffer in enumerate(buffers):
            word = "out" if buffer.is_output else "in"
            self.lines.append(f"  b{number} = {word} {buffer.dtype.name}[{buffer.size}]")

    def _pass(self, item: Pass) -> None:
        word = "running pass" if item.is_running else "pass"
        self.lines.append(f"  {word} over [{_axes(item.axes)}] {{")
        for fold in item.reductions:
            inputs = self._values(fold.inputs, "    ")
            inits = self._values(fold.inits, "    ")
            results = self._values(fold.combiner.results, "    ")
            text = f"    r{fold.number} = reduce ({inputs}) from ({inits}) by ({results})"
            self.lines.append(text)
        for store in item.stores:
            self._store(store, "    ")
        self.lines.append("  }")

    def _store(self, store: Store, indent: str) -> None:
        target = f"{indent}b{store.buffer}[{store.index}]"
        if store.values:
            target += f" with ({self._values(store.values, indent)})"
        text = f"{target} = {self._value(store.value, indent)}"
        if store.mask is not None:
            text += f" if {self._value(store.mask, indent)}"
        if store.combiner is not None:
            text += f" by ({self._values(store.combiner.results, indent)})"
        self.lines.append(text)

    def _values(self, roots: tuple[Expr, ...], indent: str) -> str:
        return ", ".join([self._value(root, indent) for root in roots])

    def _value(self, root: Expr, indent: str) -> str:
        """Return the name of an expression; one without a name is written first."""
        names = self.names
        name = names.get(root)
        if name is not None:
            return name
        lines = self.lines
        for item in walk((root,)):
            if item not in names:
                name = f"v{len(names)}"
                lines.append(f"{indent}{name} = {item.dtype.name} {self._operation(item)}")
                names[item] = name
        return names[root]

    def _operation(self, item: Expr) -> str:
        """Return what an expression does with its arguments, which have names."""
        op, payload, names = item.op, item.payload, self.names
        if op == "load":
            if not item.args:
                return f"load b{payload.buffer}[{payload.index}]"
            args = [names[arg] for arg in item.args]
            mask = f" if {args.pop(0)}" if payload.masked else ""
            values = f" with ({', '.join(args)})" if args else ""
            return f"load b{payload.buffer}[{payload.index}]{values}{mask}"
        if op == "constant":
            return f"constant({scalar_text(payload)})"
        args = ", ".join([names[arg] for arg in item.args])
        if op == "index":
            return f"index({payload}) with ({args})" if args else f"index({payload})"
        if op == "reduced":
            axes = ", ".join(sorted(payload[2]))
            return f"reduced r{payload[0]}.{payload[1]} over [{axes}]"
        if op == "argument":
            return f"argument({payload})"
        if op == "accumulator":
            return f"accumulator over [{', '.join(payload)}]"
        attributes = "" if payload is NO_ATTRIBUTES else _attributes(op, payload)
        return f"{op}({args}){attributes}"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join([f"{axis.name} < {axis.extent}" for axis in axes])


@lru_cache(maxsize=1 << 10)
def _attributes(op: str, attributes: Any) -> str:
    """Return the attributes of an op as HLO text has them."""
    rows = [(row, getattr(attributes, row.field)) for row in plan(find(op))]
    return "".join(
        f", {row.name}={row.codec.write(value, str)}" for row, value in rows if value != row.default
    )


def fingerprint(kernel: Kernel) -> str:
    """Return 16 hex digits that equal kernels share."""
    return hashlib.blake2b(kernel_text(kernel).encode(), digest_size=8).hexdigest()

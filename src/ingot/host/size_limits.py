# SPDX-License-Identifier: Apache-2.0
"""Limits on sizes: no size that native code computes overflows 64 bits.

`S_sizes` looks at the named sizes first. The compiler finds a power of two such that every size of
the program is small enough if the named sizes are below it: one comparison per call. Above it, a
separate function computes all sizes exactly and reports the one that is too large.

Invariant: when `S_sizes` returns 0, every size that the host program and `S_sizes` compute, and the
bytes of every shape, fused ones too, are at most `MOST` in magnitude, and so is each intermediate
result. What kernels compute from shapes (indices, rounded up to tiles) stays below 2**63.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ingot.artifact.abi import ProgramInfo
from ingot.emit.values.indices import IndexValue
from ingot.emit.values.sizes import CheckedSizes
from ingot.hlo.dim import Dim, bound
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.values import Value
from ingot.support.diagnostics import ResourceError
from ingot.support.records import record
from ingot.support.text import shortened

MOST = 1 << 56
"""The largest size in bytes: 512 times the address space of a process."""


@record
class SizeLimit:
    """A size that must not be too large.

    Attributes:
        size: the size.
        message: the error of a call in which it is.
    """

    size: Dim
    message: str


def size_limits(module: Module, others: Iterable[Dim], largest: str) -> tuple[SizeLimit, ...]:
    """Return the sizes that a call checks: bytes of shapes, then `others`.

    Args:
        module: the scheduled module.
        others: sizes that native code computes besides.
        largest: the text of the largest buffer, for messages about sizes of no one shape.

    Raises:
        ResourceError: INGOT0402, one is too large whatever the named sizes are.
    """
    found: dict[Dim, SizeLimit] = {}
    for instruction in _instructions(module):
        for _, shape in instruction.shape.leaves():
            if isinstance(shape.bytes, Dim) and shape.bytes not in found:
                found[shape.bytes] = _limit(shape.bytes, _too_large(instruction, shape.bytes))
    for size in others:
        if size not in found:
            message = (
                f"a size of this program is too large; its largest buffer is {largest}; the "
                f"size is {shortened(str(size))}"
            )
            found[size] = _limit(size, message)
    return tuple(found.values())


def _limit(size: Dim, message: str) -> SizeLimit:
    if bound(size, 1) > MOST:
        raise ResourceError(message, code="INGOT0402")
    return SizeLimit(size, message)


def _instructions(module: Module) -> Iterator[Instruction]:
    """Yield what runs, in order, each fusion before what it fuses."""
    for order in module.schedule.values():
        for instruction in order:
            yield instruction
            if instruction.opcode == "fusion":
                yield from instruction.attributes.calls.instructions


def _too_large(instruction: Instruction, size: Dim) -> str:
    origin = instruction.metadata
    where = f" ({origin.location})" if origin.location is not None else ""
    shape, size_text = shortened(str(instruction.shape)), shortened(str(size))
    return f"%{instruction.name} = {shape}{where} is too large: {size_text} bytes"


def safe_bits(limits: Sequence[SizeLimit]) -> int:
    """Return the most bits that all named sizes may have without breaking a limit.

    Example:
        >>> n = Dim.symbol("n")
        >>> safe_bits([SizeLimit(4 * n * n, "")]), safe_bits([SizeLimit(n + 1, "")])
        (27, 56)
    """
    bits = 0
    for step in (32, 16, 8, 4, 2, 1):
        most = (1 << (bits + step)) - 1
        if all(bound(limit.size, most) <= MOST for limit in limits):
            bits += step
    return bits


def emit_limits(
    builder: ModuleBuilder,
    f: FunctionBuilder,
    info: ProgramInfo,
    limits: Sequence[SizeLimit],
    names: Mapping[str, IndexValue],
) -> None:
    """Emit the check of limits into `f`, which is `S_sizes`.

    It returns the status of the first limit that is broken; sizes that are known to be small enough
    skip the exact computation.

    Args:
        builder: the module of `f`.
        f: the function.
        info: the program, for symbols and the numbers of statuses.
        limits: sizes that must not be too large.
        names: the values of the named sizes.
    """
    if not limits:
        return
    bits = safe_bits(limits)
    symbols = [f.as_value(value) for value in names.values()]
    together = symbols[0]
    for value in symbols[1:]:
        together = f.or_(together, value)
    is_large = f.icmp("ne", f.lshr(together, f.const(lt.I64, bits)), f.const(lt.I64, 0))
    arguments = [(f"size_{number}", lt.I64) for number in range(len(symbols))]

    def check_exactly() -> None:
        exact = builder.function(f"{info.symbol}_limits", lt.I32, arguments, linkage="internal")
        _emit_exact(exact, limits, dict(zip(names, exact.params, strict=True)), info)
        code = f.call(exact.reference, symbols)
        f.if_(f.icmp("ne", code, f.const(lt.I32, 0)), lambda: f.ret(code))

    f.if_(is_large, check_exactly, likely=False)


def _emit_exact(
    f: FunctionBuilder, limits: Sequence[SizeLimit], names: Mapping[str, Value], info: ProgramInfo
) -> None:
    """Emit the return of the status of the first limit that is broken, or of 0."""
    emitter = CheckedSizes(f, names)
    most = f.const(lt.I64, MOST)
    wide = f.const(lt.I64, 2 * MOST)
    for number, limit in enumerate(limits, len(info.constraints) + 1):
        emitter.begin()
        # One unsigned comparison for both sides: -MOST <= size <= MOST.
        moved = f.add(f.as_value(emitter.index(limit.size)), most)
        is_outside = f.icmp("ugt", moved, wide)
        wrong = f.or_(emitter.overflow, is_outside)
        f.if_(wrong, lambda number=number: f.ret(f.const(lt.I32, number)), likely=False)
    f.ret(f.const(lt.I32, 0))

"""Contraction kernels as LLVM functions: `void k(ptr env, i64 chunk)`."""

from __future__ import annotations

from ingot.cpu.emit.elementwise import convert
from ingot.cpu.emit.loop import EmittedKernel, Phase, open_kernel
from ingot.cpu.emit.types import register_type, round_to
from ingot.cpu.emit.values import Lanes
from ingot.hlo.dtype import PRED
from ingot.kernel.contraction_schedule import ContractionSchedule
from ingot.kernel.expr import walk
from ingot.kernel.ir import ContractionKernel
from ingot.llvm import types as lt
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import vector
from ingot.llvm.values import Value


def emit_contraction_kernel(
    module: ModuleBuilder,
    symbol: str,
    kernel: ContractionKernel,
    schedule: ContractionSchedule,
    target: TargetSpec,
) -> EmittedKernel:
    """Emit the function of a contraction kernel into `module`."""
    count = len(kernel.buffers)
    f, emitter, _, chunk = open_kernel(module, symbol, count, kernel.symbols, target.has_fma)
    lanes, element = schedule.lanes, kernel.accumulate
    rows = emitter.index(kernel.batch.extent * kernel.m.extent)
    extent, depth = emitter.index(kernel.n.extent), emitter.index(kernel.k.extent)
    first = f.imul(chunk, schedule.grain)
    last = f.imin(f.iadd(first, schedule.grain), rows)
    wide = vector(register_type(element), lanes)

    def block(row: Value, column: Value) -> None:
        left = f.as_value(f.isub(extent, column))
        numbers = f.const(vector(lt.I64, lanes), list(range(lanes)))
        mask = f.icmp("slt", numbers, f.splat(left, lanes)) if lanes > 1 else None
        emitter.names[kernel.batch.name] = f.idiv(row, emitter.index(kernel.m.extent))
        emitter.names[kernel.m.name] = f.irem(row, emitter.index(kernel.m.extent))
        emitter.names[kernel.n.name] = column
        emitter.lanes = Lanes(kernel.n.name, lanes, mask)

        def step(k: Value, carried: list[Value]) -> list[Value]:
            emitter.names[kernel.k.name] = k
            emitter.open_scope()
            a, b = (
                convert(f, emitter.vector_value(operand, lanes), operand.dtype, element)
                for operand in (kernel.lhs, kernel.rhs)
            )
            emitter.close_scope()
            if element is PRED:
                return [f.or_(carried[0], f.and_(a, b))]
            if element.is_float and target.has_fma:
                return [f.fma(a, b, carried[0])]
            return [f.add(f.mul(a, b), carried[0])]

        emitter.open_scope()
        (total,) = f.loop(0, depth, 1, [f.zero(wide)], step)
        total = round_to(f, total, element)
        for item in walk(tuple(store.value for store in kernel.stores)):
            if item.op == "accumulator":
                emitter.bind(item, total)
        for store in kernel.stores:
            emitter.store(store)
        emitter.close_scope()

    def columns(row: Value, _: list[Value]) -> list[Value]:
        f.loop(0, extent, lanes, [], lambda column, _: block(row, column))
        return []

    f.loop(first, last, 1, [], columns)
    f.ret()
    return EmittedKernel((Phase(symbol, schedule.chunks),), count, kernel.symbols)

# SPDX-License-Identifier: Apache-2.0
"""Which buffer is donated twice: one pass over the arguments of an execution, as machine code.

Beneath `hot_launch`. Invariant: a mark means something only together with the number of the
execution that set it, so nothing has to be cleared.
"""

from __future__ import annotations

from ingot.client.pjrt.emit import refuse_when
from ingot.client.pjrt.records import BUFFER
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR
from ingot.llvm.values import FunctionRef, Value


def emit_mark(module: ModuleBuilder) -> FunctionRef:
    """`i32 (ptr arguments, ptr donated, i64 count, i64 number)`: 1 if one is used twice.

    Each buffer is marked with the number of this execution, so that one pass finds repeats.
    """
    params = [("arguments", PTR), ("donated", PTR), ("count", I64), ("number", I64)]
    f = module.function("ingot_pjrt_mark", I32, params, linkage="internal")
    arguments, donated, count, number = f.params

    def one(index: Value, _: list[Value]) -> None:
        buffer = f.load(PTR, f.gep(arguments, index, PTR))
        gives = f.load(I8, f.gep(donated, index))
        seen = f.icmp("eq", BUFFER.load(f, buffer, "mark"), number)
        either = f.or_(BUFFER.load(f, buffer, "mark_donated"), gives)
        clash = f.and_(seen, f.icmp("ne", either, f.const(I8, 0)))
        refuse_when(f, clash, f.const(I32, 1))
        BUFFER.store(f, buffer, "mark", number)
        BUFFER.store(f, buffer, "mark_donated", gives)

    f.loop(0, count, 1, [], one)
    f.ret(f.const(I32, 0))
    return f.reference

# SPDX-License-Identifier: Apache-2.0
"""Sums of parts, element by element, as native functions: what an exchange that adds calls.

Each is `void f(ptr target, ptr a, ptr b, i64 bytes)`: target = a + b, with the operands in this
order and one rounding, as a kernel of one addition has it. The target may be `a`. Parts of other
element types are exchanged, and a kernel adds them (`semantics.device_groups.ADDED_BY_EXCHANGE`).
"""

from __future__ import annotations

from ingot.hlo.dtype import dtype
from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.values import Value

_TYPES = {"f32": lt.F32, "f64": lt.F64, "s32": lt.I32, "s64": lt.I64}
_ALIKE = {"u32": "s32", "u64": "s64"}
"""Types whose sums have the same bits as another's."""
_LANES = 32


def symbol_of_sum(element: str) -> str:
    """Return the name of the function for an element type."""
    return f"ingot_sum_{_ALIKE.get(element, element)}"


def emit_sums(module: ModuleBuilder) -> None:
    """Add the functions to a module."""
    for name, type in _TYPES.items():
        params = [("target", lt.PTR), ("a", lt.PTR), ("b", lt.PTR), ("bytes", lt.I64)]
        f = module.function(symbol_of_sum(name), lt.VOID, params)
        _emit_sum(f, type, dtype(name).bytes)
        f.ret()


def _emit_sum(f: FunctionBuilder, type: lt.Type, width: int) -> None:
    target, a, b, size = f.params
    step = _LANES * width
    whole = f.and_(size, f.const(lt.I64, -step))

    def add(of: lt.Type) -> None:
        def body(at: Value, _: list[Value]) -> list[Value]:
            left, right = (f.load(of, f.gep(base, at), width) for base in (a, b))
            f.store(f.add(left, right, flags=""), f.gep(target, at), width)
            return []

        low, high, by = (
            (f.const(lt.I64, 0), whole, step) if of is not type else (whole, size, width)
        )
        f.loop(low, high, by, [], body)

    add(lt.vector(type, _LANES))
    add(type)

# SPDX-License-Identifier: Apache-2.0
"""What the builder takes, LLVM takes: ill-typed IR is refused at the line that emits it.

Every op is tried on operands of every type, right or wrong. Either the builder raises
`InternalError`, or LLVM's parser and verifier accept the function.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import llvmlite.binding as llvm
import pytest

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder, Value
from ingot.llvm.intrinsics import INTRINSICS
from ingot.llvm.math import MATH
from ingot.llvm.types import (
    F32,
    F64,
    I1,
    I8,
    I32,
    I64,
    I128,
    PTR,
    VOID,
    Type,
    array,
    struct,
    vector,
)
from ingot.support.diagnostics import InternalError

V4, V5, V8 = vector(F32, 4), vector(F32, 5), vector(F32, 8)
TYPES = [
    I1, I8, I32, I64, I128, F32, F64, PTR, V4, V5, V8, vector(I1, 4), vector(I32, 4),
    vector(I64, 4), vector(PTR, 4), vector(F64, 2), array(F32, 4), struct(F32, I1),
]  # fmt: skip
FEWER = [I1, I32, F64, PTR, V4, V5, *(vector(type, 4) for type in (I1, I32, PTR)), array(F32, 4)]
"""Types of an op's three operands."""

Emit = Callable[..., Any]


def _methods(names: str) -> dict[str, Emit]:
    return {name: lambda f, *args, name=name: getattr(f, name)(*args) for name in names.split()}


def _casts() -> Iterator[tuple[str, Emit]]:
    names = "trunc zext sext fptrunc fpext fptosi fptoui sitofp uitofp bitcast ptrtoint inttoptr"
    for name, target in product(names.split(), [I8, I64, F32, F64, PTR, V4, vector(I32, 4)]):
        yield f"{name} to {target}", lambda f, a, n=name, t=target: getattr(f, n)(a, t)


def _comparisons() -> Iterator[tuple[str, Emit]]:
    for name, predicate in product(("icmp", "fcmp"), ("eq", "slt", "ult", "oeq", "ord", "uno")):
        yield f"{name} {predicate}", lambda f, a, b, n=name, p=predicate: getattr(f, n)(p, a, b)


def _reductions() -> Iterator[tuple[str, Emit]]:
    for kind in ("add", "xor", "smax", "maximum"):
        yield f"reduce {kind}", lambda f, a, kind=kind: f.reduce(kind, a)


def _carried(f: FunctionBuilder, low: Value, high: Value, start: Value) -> Any:
    return f.loop(low, high, 1, [start], lambda i, held: held)


def _branches(f: FunctionBuilder, condition: Value, a: Value, b: Value) -> Any:
    return f.if_(condition, lambda: [a], lambda: [b])


def _called(f: FunctionBuilder, a: Value, b: Value) -> Any:
    return f.call(f.module.declare("g", F32, [F32, I64]), [a, b])


ONE: dict[str, Emit] = {
    **_methods("neg abs not_"), **dict(_casts()), **dict(_reductions()),
    "splat": lambda f, a: f.splat(a, 4),
    "splat of one": lambda f, a: f.splat(a, 1),
    "extract": lambda f, a: f.extract(a, 3),
    "slice": lambda f, a: f.slice_lanes(a, 1, 3),
    "slice of a register": lambda f, a: f.slice_lanes(a, 0, 4),
    "field": lambda f, a: f.extract_value(a, 1),
    "load": lambda f, a: f.load(F32, a),
    "load of lanes": lambda f, a: f.load(V5, a),
    "load of bits": lambda f, a: f.load(I1, a),
    "atomic load": lambda f, a: f.atomic_load(I32, a),
    "gather": lambda f, a: f.gather(V4, a),
    "step": lambda f, a: f.gep(a, 3, F32),
    "return": lambda f, a: f.ret(a),
    "masked load": lambda f, a: f.masked_load(V4, f.params[0], a),
}  # fmt: skip
TWO: dict[str, Emit] = {
    **_methods("add sub mul div frem sdiv udiv srem urem and_ or_ xor shl lshr ashr"),
    **_methods("store atomic_store scatter extract gep imin"),
    **dict(_comparisons()),
    "insert": lambda f, a, b: f.insert(a, b, 3),
    "shuffle": lambda f, a, b: f.shuffle(a, b, [0, 7, -1]),
    "shuffle to one": lambda f, a, b: f.shuffle(a, b, [7]),
    "concat": lambda f, a, b: f.concat_lanes([a, b]),
    "concat of three": lambda f, a, b: f.concat_lanes([a, b, a]),
    "copysign": lambda f, a, b: f.intrinsic("llvm.copysign", a.type, [a, b]),
    "reduce.fadd": lambda f, a, b: f.intrinsic("llvm.vector.reduce.fadd", a.type, [a, b]),
    "memcpy": lambda f, a, b: f.memcpy(a, b, 4),
    "call": _called,
    "set field": lambda f, a, b: f.insert_value(a, b, 1),
    "atomic add": lambda f, a, b: f.atomicrmw("add", a, b),
    "phi": lambda f, a, b: f.if_(f.const(I1, 1), lambda: [a], otherwise=[b]),
}
THREE: dict[str, Emit] = {
    **_methods("select iselect fma insert cmpxchg masked_store scatter"),
    "loop": _carried, "if": _branches,
    "gather under a mask": lambda f, a, b, c: f.gather(c.type, a, b, c),
}  # fmt: skip
NEVER = {
    "load of bits", "icmp oeq", "icmp ord", "icmp uno", "fcmp eq", "fcmp slt",
}  # fmt: skip
OPS = [(1, ONE), (2, TWO), (3, THREE)]


def _cases() -> Iterator[tuple[str, int, Emit]]:
    for count, ops in OPS:
        for name, emit in ops.items():
            yield name, count, emit


@pytest.mark.parametrize(
    ("name", "count", "emit"), [pytest.param(*case, id=case[0]) for case in _cases()]
)
def test_what_the_builder_takes_llvm_takes(name: str, count: int, emit: Emit) -> None:
    combinations = list(product(TYPES if count < 3 else FEWER, repeat=count))
    taken = [types for types in combinations if _is_taken(emit, types)]
    assert len(taken) < len(combinations) or name == "splat of one"
    assert (not taken) == (name in NEVER)


def _is_taken(emit: Emit, types: tuple[Type, ...]) -> bool:
    """Return whether the builder takes operands of these types; LLVM must then too."""
    module = ModuleBuilder("m")
    params = [("p", PTR), *((f"a{number}", type) for number, type in enumerate(types))]
    f = module.function("f", V4 if emit is ONE["return"] else VOID, params)
    try:
        made = emit(f, *f.params[1:])
    except InternalError:
        return False
    if not f.terminated:
        # Each result is used as what its type says.
        for number, value in enumerate([made] if isinstance(made, Value) else made or ()):
            if value.type is not VOID:
                f.call(module.declare(f"use{number}", VOID, [value.type]), [value])
        f.ret()
    llvm.parse_assembly(module.text()).verify()
    return True


def test_every_intrinsic_has_a_signature_of_its_own() -> None:
    """No row takes what it does not say: one argument more, or void for one, is refused."""
    for name, row in INTRINSICS.items():
        f = ModuleBuilder("m", row.architectures[0]).function("f", VOID, [("x", array(I8, 3))])
        count = len(row.signature.split()) - 1
        for args in ([*f.params] * (count + 1), [*f.params] * count if count else None):
            if args is not None:
                with pytest.raises(InternalError, match="in 'f'"):
                    f.intrinsic(name, F32, args)


def test_types_that_llvm_lacks_are_not_made() -> None:
    for make in (
        lambda: vector(V4, 4), lambda: vector(V4, 1), lambda: vector(F32, 0),
        lambda: vector(VOID, 2), lambda: vector(struct(F32), 2), lambda: array(VOID, 1),
        lambda: struct(F32, VOID),
    ):  # fmt: skip
        with pytest.raises(InternalError, match="there is no"):
            make()


def test_lanes_outside_of_a_vector_are_refused() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", V4), ("y", V5)])
    x, y = f.params
    for emit in (
        lambda: f.extract(x, 4), lambda: f.extract(x, -1), lambda: f.slice_lanes(x, 1, 4),
        lambda: f.slice_lanes(x, 2, 0), lambda: f.shuffle(x, x, [0, 8]),
        lambda: f.shuffle(x, x, [8]), lambda: f.shuffle(x, x, [0, -2]),
        lambda: f.shuffle(x, y, [0, 1]), lambda: f.insert(x, f.const(F32, 1), 4),
    ):  # fmt: skip
        with pytest.raises(InternalError, match=r"'f'|takes lanes"):
            emit()


@pytest.mark.parametrize("name", MATH)
@pytest.mark.parametrize("bits", [128, 512])
def test_functions_take_any_number_of_lanes(name: str, bits: int) -> None:
    for element, lanes in product((F32, F64), (1, 3, 7, 40, 112)):
        type = vector(element, lanes)
        params = [(f"x{number}", type) for number in range(MATH[name].arity)]
        module = ModuleBuilder("m", vector_bits=bits)
        f = module.function("f", type, params)
        f.ret(MATH[name](f, *f.params))
        module.imports = True
        read = llvm.parse_assembly(module.text())
        read.verify()
        assert f" {type} @f(" in str(read).replace('"', "")

# SPDX-License-Identifier: Apache-2.0
"""The builder's ops do what their names say, on scalars and on vectors."""

import ctypes

import numpy as np
import pytest

from ingot.llvm.builder import FunctionBuilder, FunctionRef, ModuleBuilder, Subroutine, Value
from ingot.llvm.jit import assembly, compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, F64, I1, I8, I16, I32, I64, PTR, VOID, Type, vector
from ingot.support.diagnostics import InternalError

NUMPY = {I8: np.int8, I16: np.int16, I32: np.int32, I64: np.int64, F32: np.float32, F64: np.float64}


def run(emit, result: Type, *arrays: np.ndarray, types: list[Type]) -> np.ndarray:
    """Run `emit(f, *values) -> value` over one vector per array and return its lanes."""
    module = ModuleBuilder("test")
    f = module.function("f", VOID, [("out", PTR), *((f"p{i}", PTR) for i in range(len(arrays)))])
    values = [f.load(type, p) for type, p in zip(types, f.params[1:], strict=True)]
    made: Value = emit(f, *values)
    if made.type.element is I1:
        made = f.zext(made, made.type.with_element(I8))
    f.store(made, f.params[0])
    f.ret()
    library = link_object([compile_object(module.text(), TargetSpec.host())])
    out = np.zeros(result.lanes, NUMPY[result.element])
    function = library.function("f", None, *[ctypes.c_void_p] * (1 + len(arrays)))
    function(out.ctypes.data, *[item.ctypes.data for item in arrays])
    return out


def integers(
    generator: np.random.Generator, type: Type, low: int = -100, high: int = 100
) -> np.ndarray:
    return generator.integers(low, high, type.lanes).astype(NUMPY[type.element])


def floats(generator: np.random.Generator, type: Type) -> np.ndarray:
    return generator.uniform(-100, 100, type.lanes).astype(NUMPY[type.element])


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("element", [I8, I32, I64])
@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("add", np.add),
        ("sub", np.subtract),
        ("mul", np.multiply),
        ("and_", np.bitwise_and),
        ("or_", np.bitwise_or),
        ("xor", np.bitwise_xor),
        ("srem", np.fmod),
    ],
)
def test_integer_ops(
    name: str, meaning, element: Type, lanes: int, generator: np.random.Generator
) -> None:
    type = vector(element, lanes)
    a, b = integers(generator, type), integers(generator, type, 1)
    out = run(lambda f, x, y: getattr(f, name)(x, y), type, a, b, types=[type, type])
    np.testing.assert_array_equal(out, meaning(a, b))


def test_integer_overflow_wraps() -> None:
    type = vector(I8, 16)
    a, b = np.full(16, 100, np.int8), np.full(16, 100, np.int8)
    out = run(lambda f, x, y: f.add(x, y), type, a, b, types=[type, type])
    np.testing.assert_array_equal(out, np.full(16, -56, np.int8))


@pytest.mark.parametrize("lanes", [1, 8, 16])
@pytest.mark.parametrize("element", [F32, F64])
@pytest.mark.parametrize(
    ("name", "meaning"),
    [("add", np.add), ("sub", np.subtract), ("mul", np.multiply), ("div", np.divide)],
)
def test_float_ops(
    name: str, meaning, element: Type, lanes: int, generator: np.random.Generator
) -> None:
    type = vector(element, lanes)
    a, b = floats(generator, type), floats(generator, type)
    out = run(lambda f, x, y: getattr(f, name)(x, y), type, a, b, types=[type, type])
    np.testing.assert_array_equal(out, meaning(a, b))


def test_shifts_and_complement(generator: np.random.Generator) -> None:
    type = vector(I32, 16)
    a, b = integers(generator, type), integers(generator, type, 0, 31)
    unsigned = a.view(np.uint32)
    for name, wanted in (
        ("shl", unsigned << b.view(np.uint32)),
        ("lshr", unsigned >> b.view(np.uint32)),
        ("ashr", (a >> b).view(np.uint32)),
    ):
        out = run(lambda f, x, y, n=name: getattr(f, n)(x, y), type, a, b, types=[type, type])
        np.testing.assert_array_equal(out.view(np.uint32), wanted, name)
    np.testing.assert_array_equal(run(lambda f, x: f.not_(x), type, a, types=[type]), ~a)


def test_neg_and_abs(generator: np.random.Generator) -> None:
    whole, real = vector(I32, 4), vector(F32, 4)
    a, b = integers(generator, whole), np.array([0.0, -0.0, -3.5, np.inf], np.float32)
    np.testing.assert_array_equal(run(lambda f, x: f.neg(x), whole, a, types=[whole]), -a)
    np.testing.assert_array_equal(run(lambda f, x: f.abs(x), whole, a, types=[whole]), abs(a))
    out = run(lambda f, x: f.neg(x), real, b, types=[real])
    np.testing.assert_array_equal(np.signbit(out), [True, False, False, True])
    np.testing.assert_array_equal(run(lambda f, x: f.abs(x), real, b, types=[real]), abs(b))


def test_comparisons_and_select(generator: np.random.Generator) -> None:
    type = vector(F32, 8)
    a, b = floats(generator, type), floats(generator, type)
    a[0] = np.nan
    out = run(lambda f, x, y: f.fcmp("ult", x, y), vector(I8, 8), a, b, types=[type, type])
    np.testing.assert_array_equal(out.astype(bool), ~(a >= b))
    out = run(lambda f, x, y: f.select(f.fcmp("olt", x, y), x, y), type, a, b, types=[type, type])
    np.testing.assert_array_equal(out, np.where(a < b, a, b))


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("trunc", I32, I8),
        ("sext", I8, I64),
        ("sitofp", I32, F64),
        ("fpext", F32, F64),
        ("fptrunc", F64, F32),
        ("fptosi", F32, I32),
    ],
)
def test_casts(name: str, source: Type, target: Type, generator: np.random.Generator) -> None:
    given, wanted = vector(source, 8), vector(target, 8)
    a = floats(generator, given) if source.is_float else integers(generator, given)
    out = run(lambda f, x: getattr(f, name)(x, wanted), wanted, a, types=[given])
    np.testing.assert_array_equal(out, a.astype(NUMPY[target]))


def test_a_cast_to_the_same_type_emits_nothing() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", I32)])
    assert f.trunc(f.params[0], I32) is f.params[0]
    assert f.lines == []


def test_lane_movement() -> None:
    type = vector(I32, 8)
    a = np.arange(8, dtype=np.int32)

    def emit(f: FunctionBuilder, x: Value) -> Value:
        low, high = f.slice_lanes(x, 0, 4), f.slice_lanes(x, 4, 4)
        swapped = f.concat_lanes([high, low])
        return f.insert(swapped, f.extract(x, 7), 0)

    out = run(emit, type, a, types=[type])
    np.testing.assert_array_equal(out, [7, 5, 6, 7, 0, 1, 2, 3])
    out = run(lambda f, x: f.splat(f.extract(x, 3), 8), type, a, types=[type])
    np.testing.assert_array_equal(out, [3] * 8)


def test_lane_movement_of_one_lane_is_the_scalar() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", F32)])
    x = f.params[0]
    assert f.splat(x, 1) is x
    assert f.extract(x, 0) is x
    assert f.insert(f.undef(F32), x, 0) is x
    assert f.slice_lanes(x, 0, 1) is x
    assert f.concat_lanes([x, x]).type is vector(F32, 2)


@pytest.mark.parametrize("lanes", [1, 4, 16, 64])
def test_reductions(lanes: int, generator: np.random.Generator) -> None:
    whole, real = vector(I64, lanes), vector(F32, lanes)
    a, b = integers(generator, whole), floats(generator, real)
    for kind, meaning in (
        ("add", np.sum),
        ("smax", np.max),
        ("smin", np.min),
        ("xor", np.bitwise_xor.reduce),
    ):
        out = run(lambda f, x, k=kind: f.reduce(k, x), I64, a, types=[whole])
        assert out[0] == meaning(a), kind
    out = run(lambda f, x: f.reduce("maximum", x), F32, b, types=[real])
    assert out[0] == b.max()
    tree = b.copy()
    while tree.size > 1:
        tree = tree[: tree.size // 2] + tree[tree.size // 2 :]
    out = run(lambda f, x: f.reduce("add", x), F32, b, types=[real])
    assert out[0] == tree[0], "the order of a float sum is fixed"


def test_the_maximum_of_a_nan_is_nan(generator: np.random.Generator) -> None:
    type = vector(F32, 8)
    a = floats(generator, type)
    a[5] = np.nan
    assert np.isnan(run(lambda f, x: f.reduce("maximum", x), F32, a, types=[type])[0])


def test_an_unknown_reduction_is_refused() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", vector(F32, 4))])
    with pytest.raises(InternalError, match="no 'xor' reduction"):
        f.reduce("xor", f.params[0])


def test_operands_of_two_types_are_refused_at_the_emitter() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", I32), ("y", I64)])
    for emit in (f.add, lambda a, b: f.icmp("eq", a, b), lambda a, b: f.select(a, a, b)):
        with pytest.raises(InternalError, match="i32 and i64"):
            emit(*f.params)


def contracted_lines(contracts: bool) -> list[str]:
    """Return the ops of x + x * y, x * y - x, x - x * y, x * y + x * y and x - y."""
    module = ModuleBuilder("m")
    module.contracts = contracts
    f = module.function("f", VOID, [("x", F32), ("y", F32)])
    x, y = f.params
    product = f.contractible_mul(x, y)
    f.contracted_add(x, product)
    f.contracted_sub(product, x)
    f.contracted_sub(x, product)
    f.contracted_add(product, product)
    f.contracted_sub(x, y)
    return [line.split("=")[1].split("(")[0].strip() for line in f.lines]


def test_a_sum_is_contracted_with_its_product_whoever_else_uses_that() -> None:
    multiply_add = "call float @llvm.fmuladd.f32"
    assert contracted_lines(contracts=True) == [
        "fmul float %x, %y",
        multiply_add,
        "fneg float %x",
        multiply_add,
        "fneg float %y",
        multiply_add,
        multiply_add,
        "fsub float %x, %y",
    ]


def test_a_product_that_is_rounded_stays_apart_from_its_sums() -> None:
    f = ModuleBuilder("m").function("f", VOID, [("x", F32), ("y", F32)])
    x, y = f.params
    product = f.rounded(f.contractible_mul(x, y))
    f.contracted_add(product, x)
    assert [line.split()[2] for line in f.lines] == ["fmul", "fadd"]


def test_no_sum_is_contracted_where_each_op_is_rounded() -> None:
    opcodes = [line.split()[0] for line in contracted_lines(contracts=False)]
    assert opcodes == ["fmul", "fadd", "fsub", "fsub", "fadd", "fsub"]


def test_a_declaration_is_written_once() -> None:
    module = ModuleBuilder("m")
    first = module.declare("g", I32, [I32])
    assert module.declare("g", I32, [I32]) is first
    assert module.text().count("declare i32 @g") == 1


def test_a_function_is_defined_once() -> None:
    module = ModuleBuilder("m")
    module.function("f", VOID, [])
    with pytest.raises(InternalError, match="already"):
        module.function("f", VOID, [])


def test_odd_names_are_quoted() -> None:
    module = ModuleBuilder("m")
    f = module.function('fusion.1 "a"-b', I32, [])
    f.ret(f.const(I32, 42))
    library = link_object([compile_object(module.text(), TargetSpec.host())])
    assert library.function('fusion.1 "a"-b', ctypes.c_int32)() == 42


def test_subroutines_are_in_the_module_or_imported() -> None:
    def body(module: ModuleBuilder, linkage: str) -> FunctionRef:
        f = module.function("answer", I32, [], linkage=linkage)
        f.ret(f.const(I32, 42))
        return f.reference

    answer = Subroutine("answer", I32, (), body)
    host = TargetSpec.host()
    elsewhere = ModuleBuilder("elsewhere")
    answer.define(elsewhere, linkage="")
    owner = link_object([compile_object(elsewhere.text(), host)])
    for imports, provided in ((False, {}), (True, {"answer": owner.address("answer")})):
        module = ModuleBuilder("m", imports=imports)
        f = module.function("f", I32, [])
        f.ret(f.add(f.call(module.subroutine(answer), []), f.call(module.subroutine(answer), [])))
        assert list(module.imported) == list(provided)
        library = link_object([compile_object(module.text(), host)], provided)
        assert library.function("f", ctypes.c_int32)() == 84


def test_equal_calls_give_equal_text() -> None:
    def build() -> str:
        module = ModuleBuilder("m")
        f = module.function("f", F32, [("x", F32)])
        f.ret(f.fma(f.params[0], f.const(F32, 2.0), f.abs(f.params[0])))
        return module.text()

    assert build() == build()


def test_inline_assembly() -> None:
    module = ModuleBuilder("m", "nvptx")
    f = module.function("k", I32, [("x", I32)])
    text = "{ add.s32 $0, $1, $2; }"
    f.ret(f.inline_assembly(text, "=r,r,r", I32, [f.params[0], f.const(I32, 5)]))
    assert "add.s32" in assembly(module.text(), TargetSpec.nvptx())


def test_a_block_computes_equal_values_once() -> None:
    f = ModuleBuilder("test").function("f", I64, [("a", I64), ("p", PTR)])
    a, p = f.params
    once = f.mul(a, a)
    assert f.mul(a, a) is once
    assert f.gep(p, once, I64) is f.gep(p, once, I64)
    assert f.gep(p, once, I64, inbounds=False) is not f.gep(p, once, I64)
    # Memory may have changed between two loads.
    assert f.load(I64, p) is not f.load(I64, p)
    inner: list[Value] = []
    f.if_(f.icmp("eq", a, once), lambda: inner.append(f.mul(a, a)))
    assert inner[0] is not once
    after = f.mul(a, a)
    assert after not in (once, inner[0])
    # What goes to the entry block is known there alone.
    assert f.at_entry(lambda: f.mul(a, a)) is not after
    assert f.mul(a, a) is after
    f.ret(after)

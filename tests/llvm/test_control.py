# SPDX-License-Identifier: Apache-2.0
"""Loops, branches and folding index arithmetic."""

import ctypes

import pytest

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, I1, I32, I64, PTR, VOID
from ingot.support.diagnostics import InternalError


def run(emit, *args: int) -> int:
    """Run `emit(f, *params) -> value` over i64 parameters."""
    module = ModuleBuilder("test")
    f = module.function("f", I64, [(f"a{i}", I64) for i in range(len(args))])
    result = emit(f, *f.params)
    if result is not None:
        f.ret(result)
    library = link_object([compile_object(module.text(), TargetSpec.host())])
    return library.function("f", ctypes.c_int64, *[ctypes.c_int64] * len(args))(*args)


def total(f: FunctionBuilder, lo, hi, step, **options):
    return f.loop(lo, hi, step, [f.const(I64, 0)], lambda i, c: [f.add(c[0], i)], **options)[0]


@pytest.mark.parametrize(
    ("lo", "hi", "step"),
    [(0, 10, 1), (0, 10, 3), (0, 0, 1), (5, 3, 1), (-4, 4, 1), (2, 3, 7), (-9, -1, 2)],
)
def test_loops_run_over_the_range(lo: int, hi: int, step: int) -> None:
    wanted = sum(range(lo, hi, step))
    assert run(lambda f, a, b, c: total(f, a, b, c), lo, hi, step) == wanted
    assert run(lambda f: total(f, lo, hi, step)) == wanted
    assert run(lambda f, b: total(f, lo, b, step), hi) == wanted


def test_a_loop_that_runs_at_least_once_has_no_guard() -> None:
    assert run(lambda f, n: total(f, 0, n, 1, at_least_once=True), 5) == 10
    f = ModuleBuilder("m").function("f", I64, [("n", I64)])
    total(f, 0, f.params[0], 1, at_least_once=True)
    assert not any("icmp slt i64 0" in line for line in f.lines)


def test_static_loops_of_no_or_one_iteration_have_no_blocks() -> None:
    f = ModuleBuilder("m").function("f", I64, [])
    assert total(f, 0, 0, 1).text == "0"
    total(f, 3, 4, 1)
    assert not any(line.endswith(":") for line in f.lines)


def test_nested_loops_with_carried_values() -> None:
    def emit(f, n):
        def outer(i, c):
            return f.loop(0, i, 1, c, lambda j, d: [f.add(d[0], f.mul(i, j))])

        return f.loop(0, n, 1, [f.const(I64, 0)], outer)[0]

    assert run(emit, 9) == sum(i * j for i in range(9) for j in range(i))


@pytest.mark.parametrize("unroll", [1, 4])
def test_unroll_metadata_parses(unroll: int) -> None:
    assert run(lambda f, n: total(f, 0, n, 1, unroll=unroll), 100) == 4950
    module = ModuleBuilder("m")
    f = module.function("f", I64, [("n", I64)])
    f.ret(total(f, 0, f.params[0], 1, unroll=unroll))
    assert "llvm.loop.unroll" in module.text()


def test_a_body_must_return_the_carried_values() -> None:
    f = ModuleBuilder("m").function("f", I64, [("n", I64)])
    with pytest.raises(InternalError, match="carried values"):
        f.loop(0, f.params[0], 1, [f.const(I64, 0)], lambda i, c: [f.const(F32, 0)])


def test_while() -> None:
    def emit(f, n):
        """Collatz steps."""

        def step(v):
            odd = f.icmp("eq", f.and_(v[0], f.const(I64, 1)), f.const(I64, 1))
            up = f.add(f.mul(v[0], f.const(I64, 3)), f.const(I64, 1))
            down = f.lshr(v[0], f.const(I64, 1))
            return [f.select(odd, up, down), f.add(v[1], f.const(I64, 1))]

        going = lambda v: f.icmp("ne", v[0], f.const(I64, 1))  # noqa: E731
        return f.while_([n, f.const(I64, 0)], going, step)[1]

    assert run(emit, 27) == 111
    assert run(emit, 1) == 0


def test_if_merges_the_values_of_both_branches() -> None:
    def emit(f, n):
        positive = f.icmp("sgt", n, f.const(I64, 0))
        then = lambda: [f.mul(n, f.const(I64, 2))]  # noqa: E731
        return f.if_(positive, then, lambda: [f.neg(n)], likely=True)[0]

    assert run(emit, 21) == 42
    assert run(emit, -5) == 5


def test_if_without_else_takes_the_other_values() -> None:
    def emit(f, n):
        big = f.icmp("sgt", n, f.const(I64, 100))
        return f.if_(big, lambda: [f.const(I64, 100)], otherwise=[n], likely=False)[0]

    assert run(emit, 7) == 7
    assert run(emit, 700) == 100


def test_a_branch_may_return_early() -> None:
    def emit(f, n):
        f.if_(f.icmp("slt", n, f.const(I64, 0)), lambda: f.ret(f.const(I64, -1)))
        return f.add(n, f.const(I64, 1))

    assert run(emit, -8) == -1
    assert run(emit, 8) == 9


def test_if_both_branches_return_the_function_is_complete() -> None:
    def emit(f, n):
        f.if_(
            f.icmp("slt", n, f.const(I64, 0)),
            lambda: f.ret(f.const(I64, 1)),
            lambda: f.ret(f.const(I64, 2)),
        )

    assert run(emit, -8) == 1
    assert run(emit, 8) == 2


def test_a_python_condition_chooses_now() -> None:
    f = ModuleBuilder("m").function("f", I64, [])
    assert f.if_(True, lambda: [f.const(I64, 1)], lambda: [f.const(I64, 2)])[0].text == "1"
    assert f.if_(False, lambda: [f.const(I64, 1)], otherwise=[f.const(I64, 3)])[0].text == "3"
    assert f.lines == []


def test_branches_must_agree() -> None:
    f = ModuleBuilder("m").function("f", I64, [("c", I1)])
    with pytest.raises(InternalError, match="branches"):
        f.if_(f.params[0], lambda: [f.const(I64, 1)], lambda: [f.const(F32, 1)])


def test_raw_blocks_and_phi() -> None:
    def emit(f, n):
        left, right, join = f.block("left"), f.block("right"), f.block("join")
        f.cond_br(f.icmp("eq", n, f.const(I64, 1)), left, right)
        f.open_block(left)
        f.br(join)
        f.open_block(right)
        f.br(join)
        f.open_block(join)
        return f.phi(I64, [(f.const(I64, 10), left), (f.const(I64, 20), right)])

    assert (run(emit, 1), run(emit, 2)) == (10, 20)


def test_an_open_block_is_an_error() -> None:
    module = ModuleBuilder("m")
    module.function("f", VOID, [])
    with pytest.raises(InternalError, match="no terminator"):
        module.text()


def test_a_block_ends_once() -> None:
    f = ModuleBuilder("m").function("f", VOID, [])
    f.ret()
    with pytest.raises(InternalError, match="terminated twice"):
        f.ret()


def test_calls_direct_and_through_a_pointer() -> None:
    def emit(f, n):
        module = f.owner
        g = module.function("g", I64, [("x", I64)], linkage="internal")
        g.ret(g.mul(g.params[0], g.params[0]))
        direct = f.call(g.reference, [n])
        indirect = f.call_indirect(g.address, I64, [I64], [n])
        return f.add(direct, indirect)

    assert run(emit, 5) == 50


def test_a_helper_is_defined_once() -> None:
    module = ModuleBuilder("m")

    def define(owner: ModuleBuilder):
        f = owner.function("helper", VOID, [])
        f.ret()
        return f.reference

    assert module.helper("helper", define) is module.helper("helper", define)
    assert module.text().count("define ") == 1


INDEX_OPS = {
    "iadd": lambda a, b: a + b,
    "isub": lambda a, b: a - b,
    "imul": lambda a, b: a * b,
    "idiv": lambda a, b: a // b,
    "irem": lambda a, b: a % b,
    "iceildiv": lambda a, b: -(-a // b),
    "imin": min,
    "imax": max,
    "ilt": lambda a, b: a < b,
    "ile": lambda a, b: a <= b,
    "igt": lambda a, b: a > b,
    "ige": lambda a, b: a >= b,
    "ieq": lambda a, b: a == b,
    "ine": lambda a, b: a != b,
}


@pytest.mark.parametrize("name", INDEX_OPS)
def test_index_arithmetic_is_the_same_at_compile_time_and_at_run_time(name: str) -> None:
    for a, b in ((17, 5), (4, 9), (6, 6), (0, 1)):
        wanted = INDEX_OPS[name](a, b)
        idle = ModuleBuilder("m").function("f", I64, [])
        assert getattr(idle, name)(a, b) == wanted
        assert idle.lines == []

        def emit(f, x=None, y=None, left=a, right=b):
            result = getattr(f, name)(left if x is None else x, right if y is None else y)
            if isinstance(result, bool | int):
                return f.const(I64, int(result))
            return result if result.type is I64 else f.zext(result, I64)

        assert run(emit, a, b) == wanted
        assert run(lambda f, x, e=emit: e(f, x=x), a) == wanted
        assert run(lambda f, y, e=emit: e(f, y=y), b) == wanted


def test_index_identities_emit_nothing() -> None:
    f = ModuleBuilder("m").function("f", I64, [("n", I64)])
    n = f.params[0]
    assert f.iadd(n, 0) is n
    assert f.iadd(0, n) is n
    assert f.isub(n, 0) is n
    assert f.imul(n, 1) is n
    assert f.imul(0, n) == 0
    assert f.idiv(n, 1) is n
    assert f.irem(n, 1) == 0
    assert f.lines == []


def test_conditions_fold() -> None:
    f = ModuleBuilder("m").function("f", I64, [("c", I1), ("n", I64)])
    c, n = f.params
    assert f.land(True, c) is c
    assert f.land(c, False) is False
    assert f.iselect(True, n, 3) is n
    assert f.lines == []


def test_indices_follow_the_type_of_the_value() -> None:
    f = ModuleBuilder("m").function("f", I64, [("n", I32), ("p", PTR)])
    assert f.iadd(f.params[0], 4).type is I32
    assert f.gep(f.params[1], 0, F32) is f.params[1]

# SPDX-License-Identifier: Apache-2.0
"""The best k of a list of distinct 64-bit candidates, as a function that selection kernels call.

The k-th greatest is found by halving the range of numbers that holds it: 64 counts at most, each of
them vector work whose time does not depend on the data. What is less is dropped, the rest stays in
order.
"""

from __future__ import annotations

from ingot.llvm import types as lt
from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import vector
from ingot.llvm.values import FunctionRef, Value

WORST = -(1 << 63)
"""Less than every candidate."""

LANES = 16
"""Candidates that are counted at once; behind the last one there is room for as many."""

NAME = "ingot.keep_best"


def keep_best(f: FunctionBuilder, area: Value, count: Value, k: Value) -> Value:
    """Leave the best k of `count` candidates (k or more) in `area`, as they come.

    Candidates are i64: a key (s32) above, what tells equal keys apart below, less for later ones.
    Returns the least key that a later candidate must have to be among the best k.
    """
    return f.call(f.owner.helper(NAME, _define), [area, count, k])


def _define(module: ModuleBuilder) -> FunctionRef:
    params = [("area", lt.PTR), ("count", lt.I64), ("k", lt.I64)]
    f = module.function(NAME, lt.I32, params, linkage="internal", attrs="nounwind")
    area, count, k = f.params
    f.store(f.const(vector(lt.I64, LANES), WORST), f.gep(area, count, lt.I64))
    zero = f.const(lt.I64, 0)

    def halve(values: list[Value]) -> list[Value]:
        least, step = values
        trial = f.add(least, step)
        number = _count(f, area, count, trial)
        least = f.select(f.icmp("sge", number, k), trial, least)
        half = f.lshr(step, f.const(lt.I64, 1))
        return [least, f.select(f.icmp("eq", number, k), zero, half)]

    begin = [f.const(lt.I64, WORST), f.const(lt.I64, WORST)]
    least, _ = f.while_(begin, lambda values: f.icmp("ne", values[1], zero), halve)

    def keep(number: Value, values: list[Value]) -> list[Value]:
        (end,) = values
        candidate = f.load(lt.I64, f.gep(area, number, lt.I64))
        f.store(candidate, f.gep(area, end, lt.I64))
        return [f.add(end, f.zext(f.icmp("sge", candidate, least), lt.I64))]

    f.loop(0, count, 1, [zero], keep)
    # Later elements of the same key lose by their index. The greatest key may come again: it joins,
    # and loses later.
    key = f.trunc(f.ashr(least, f.const(lt.I64, 32)), lt.I32)
    f.ret(f.intrinsic("llvm.sadd.sat", lt.I32, [key, f.const(lt.I32, 1)]))
    return f.reference


def _count(f: FunctionBuilder, area: Value, count: Value, trial: Value) -> Value:
    """Return how many candidates are no less than `trial`; the last block is padded."""
    wide = vector(lt.I64, LANES)
    limit = f.splat(trial, LANES)

    def block(position: Value, values: list[Value]) -> list[Value]:
        some = f.load(wide, f.gep(area, position, lt.I64))
        return [f.sub(values[0], f.sext(f.icmp("sge", some, limit), wide))]

    (lanes,) = f.loop(0, count, LANES, [f.const(wide, 0)], block)
    return f.reduce("add", lanes)

# SPDX-License-Identifier: Apache-2.0
"""`cpu_csr_sparse_dense_ffi`: a sparse matrix in CSR format times a dense one, as emitted code.

Operands: the elements, where each row of the sparse matrix begins, their columns, the dense
matrix (or vector). Invariant: a row is summed in the order of its elements, whatever the threads.

Source: jaxlib/cpu/sparse_kernels.cc.
"""

from __future__ import annotations

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.index import Index
from ingot.llvm.types import I32, I64, PTR
from ingot.llvm.values import Value
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.frames import Argument, read_frame
from ingot.runtime.foreign.scalars import Scalars
from ingot.runtime.foreign.site import SYMBOL, linked_code, refused
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target

TARGET = "cpu_csr_sparse_dense_ffi"
_ELEMENTS = ("s32", "s64", "f32", "f64", "c64", "c128")


def register_sparse() -> None:
    """Register the target."""
    custom_calls.register(Target(TARGET, evaluator_of(_link), _link))


def _link(call: CallSite) -> LinkedCall:
    kinds = [shape.dtype.name for shape in call.operands]
    fits = (
        len(kinds) == 4
        and len(call.results) == 1
        and kinds[0] in _ELEMENTS
        and kinds[3] == kinds[0]
    )
    if not fits or kinds[1] != kinds[2] or kinds[1] not in ("s32", "s64"):
        raise refused(
            call,
            f"it takes elements ({', '.join(_ELEMENTS)}), row starts and columns (both s32 or "
            "s64) and a dense operand of the elements' type, and gives one result",
        )
    return linked_code(_emit(call))


def _emit(call: CallSite) -> str:
    module = ModuleBuilder("sparse.adapter")
    f = module.function(SYMBOL, I32, [("frame", PTR)])
    _, operands, (out,) = read_frame(f, f.params[0], call)
    data, starts, columns, dense = operands
    numbers = Scalars.of(f, data.shape.dtype)
    width = dense.size(f, 1)

    def row(number: Value) -> None:
        begin = _index(f, starts, number)
        end = _index(f, starts, f.add(number, f.const(I64, 1)))
        base = f.imul(number, width)

        def clear(column: Value) -> None:
            numbers.store(numbers.constant(0), out.data, f.iadd(base, column))

        f.for_range(width, clear)

        def element(at: Value) -> None:
            value = numbers.load(data.data, at)
            source = f.imul(_index(f, columns, at), width)

            def term(column: Value) -> None:
                here = f.iadd(base, column)
                product = numbers.multiply(value, numbers.load(dense.data, f.iadd(source, column)))
                numbers.store(numbers.add(numbers.load(out.data, here), product), out.data, here)

            f.for_range(width, term)

        f.for_range(end, element, start=begin)

    f.for_range(out.dims[0], row)
    f.ret(f.const(I32, 0))
    return module.text()


def _index(f: FunctionBuilder, indices: Argument, number: Index) -> Value:
    if indices.shape.dtype.name == "s64":
        return f.load(I64, f.gep(indices.data, f.as_value(number), I64))
    return f.sext(f.load(I32, f.gep(indices.data, f.as_value(number), I32)), I64)

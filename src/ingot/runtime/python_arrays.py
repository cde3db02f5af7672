# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays in emitted code: reading arguments, making outputs, over raw object offsets.

The lower half of the Python call. Invariant: the offsets of CPython's and NumPy's structs are in
`OBJECT` only; `python_api` tests them before any of this may run. Addresses of functions and
objects come through the `PYTHON` record at run time, never through the code.

Source: CPython's Include/cpython/object.h, NumPy's ndarraytypes.h (PyArrayObject_fields), NEP 49.
"""

from __future__ import annotations

from dataclasses import dataclass

from ingot.llvm.builder import FunctionBuilder, ModuleBuilder
from ingot.llvm.types import I8, I32, I64, PTR, VOID, Type
from ingot.llvm.values import FunctionRef, Value, zero
from ingot.runtime.records import OUTPUT, PARAM, PROGRAM, PYTHON


@dataclass(frozen=True, slots=True)
class ObjectOffsets:
    """Byte offsets in CPython's and NumPy's objects (64-bit, with the GIL), and NumPy's flags."""

    type: int = 8
    record_data: int = 16
    array_data: int = 16
    array_rank: int = 24
    array_dims: int = 32
    array_descr: int = 56
    array_flags: int = 64
    array_handler: int = 88
    array_size: int = 96
    descr_byteorder: int = 26
    descr_type_number: int = 28
    usable: int = 0x101  # C_CONTIGUOUS | ALIGNED
    new: int = 0x501  # those and WRITEABLE
    owns_data: int = 0x4


OBJECT = ObjectOffsets()


def call_python(
    f: FunctionBuilder, python: Value, name: str, result: Type, args: list[Value]
) -> Value:
    """Call a C function of CPython or NumPy through the PYTHON record."""
    function = PYTHON.load(f, python, name)
    return f.call_indirect(function, result, [item.type for item in args], args)


def is_null(f: FunctionBuilder, pointer: Value) -> Value:
    """Emit whether a pointer is null."""
    return f.icmp("eq", pointer, zero(PTR))


def emit_read_arguments(module: ModuleBuilder, python: Value) -> FunctionRef:
    """`i64 (program, args, inputs, in_dims)`: fill both from NumPy arrays.

    Returns the bytes of all arguments, or -1 if one is not just as the program wants it.
    """
    params = [("program", PTR), ("args", PTR), ("inputs", PTR), ("in_dims", PTR)]
    f = module.function("ingot_read_arguments", I64, params, linkage="internal")
    program, args, inputs, in_dims = f.params
    array_type = PYTHON.load(f, python, "array_type")
    table = PROGRAM.load(f, program, "params")

    def refuse_unless(condition: Value) -> None:
        wrong = f.xor(condition, f.as_condition(True))
        f.if_(wrong, lambda: f.ret(f.const(I64, -1)), likely=False)

    def check_type(array: Value, param: Value) -> None:
        descr = f.load(PTR, f.gep(array, OBJECT.array_descr))

        def look_closer() -> None:
            # Not the one dtype object of this type, but perhaps an equal one (from a pickle).
            number = f.load(I32, f.gep(descr, OBJECT.descr_type_number))
            refuse_unless(f.icmp("eq", number, PARAM.load(f, param, "type_number")))
            order = f.load(I8, f.gep(descr, OBJECT.descr_byteorder))
            refuse_unless(f.icmp("ne", order, f.const(I8, ord(">"))))

        other = f.icmp("ne", descr, PARAM.load(f, param, "descr"))
        f.if_(other, look_closer, likely=False)

    def read_dims(param: Value, dims: Value) -> Value:
        static = PARAM.load(f, param, "dims")

        def one(axis: Value, values: list[Value]) -> list[Value]:
            wanted = f.load(I64, f.gep(static, axis, I64))
            given = f.load(I64, f.gep(dims, axis, I64))
            symbolic = f.icmp("slt", wanted, f.const(I64, 0))
            refuse_unless(f.or_(symbolic, f.icmp("eq", wanted, given)))
            return [f.mul(values[0], given)]

        size = PARAM.load(f, param, "element_bytes")
        return f.loop(0, PARAM.load(f, param, "rank"), 1, [size], one)[0]

    def read_one(index: Value, totals: list[Value]) -> list[Value]:
        array = f.load(PTR, f.gep(args, index, PTR))
        param = PARAM.element(f, table, index)
        refuse_unless(f.icmp("eq", f.load(PTR, f.gep(array, OBJECT.type)), array_type))
        usable = f.const(I32, OBJECT.usable)
        flags = f.load(I32, f.gep(array, OBJECT.array_flags))
        refuse_unless(f.icmp("eq", f.and_(flags, usable), usable))
        check_type(array, param)
        rank = f.sext(f.load(I32, f.gep(array, OBJECT.array_rank)), I64)
        refuse_unless(f.icmp("eq", rank, PARAM.load(f, param, "rank")))
        dims = f.load(PTR, f.gep(array, OBJECT.array_dims))
        size = read_dims(param, dims)
        f.store(f.load(PTR, f.gep(array, OBJECT.array_data)), f.gep(inputs, index, PTR))
        f.store(dims, f.gep(in_dims, index, PTR))
        return [f.add(totals[0], size)]

    count = PROGRAM.load(f, program, "num_params")
    f.ret(f.loop(0, count, 1, [f.const(I64, 0)], read_one)[0])
    return f.reference


def emit_new_output(module: ModuleBuilder, python: Value) -> FunctionRef:
    """`ptr (output, sizes, data)`: a new array over the block `data`, or null with an exception."""
    params = [("output", PTR), ("sizes", PTR), ("data", PTR)]
    f = module.function("ingot_new_output", PTR, params, linkage="internal")
    output, sizes, data = f.params
    descr = OUTPUT.load(f, output, "descr")
    call_python(f, python, "inc_ref", VOID, [descr])
    array_type = PYTHON.load(f, python, "array_type")
    dims = f.gep(sizes, OUTPUT.load(f, output, "dims_slot"), I64)
    rank = f.trunc(OUTPUT.load(f, output, "rank"), I32)
    flags = f.const(I32, OBJECT.new)
    null = zero(PTR)
    args = [array_type, descr, rank, dims, null, data, flags, null]
    array = call_python(f, python, "new_from_descr", PTR, args)
    f.if_(is_null(f, array), lambda: f.ret(array), likely=False)
    # From here on NumPy owns the block: it frees it through the handler when the array dies.
    handler = PYTHON.load(f, python, "memory_handler")
    call_python(f, python, "inc_ref", VOID, [handler])
    f.store(handler, f.gep(array, OBJECT.array_handler))
    place = f.gep(array, OBJECT.array_flags)
    f.store(f.or_(f.load(I32, place), f.const(I32, OBJECT.owns_data)), place)
    f.ret(array)
    return f.reference


def emit_drop(module: ModuleBuilder, python: Value) -> FunctionRef:
    """`void (arrays, count)`: let go of the first `count` arrays."""
    params = [("arrays", PTR), ("count", I64)]
    f = module.function("ingot_drop_arrays", VOID, params, linkage="internal")
    arrays, count = f.params

    def drop(index: Value, _: list[Value]) -> None:
        array = f.load(PTR, f.gep(arrays, index, PTR))
        call_python(f, python, "dec_ref", VOID, [array])

    f.loop(0, count, 1, [], drop)
    f.ret()
    return f.reference


def emit_finish(module: ModuleBuilder, python: Value, drop: FunctionRef) -> FunctionRef:
    """`ptr (arrays, count)`: the result of a call: the one array, or a tuple that takes them."""
    params = [("arrays", PTR), ("count", I64)]
    f = module.function("ingot_finish", PTR, params, linkage="internal")
    arrays, count = f.params
    single = f.icmp("eq", count, f.const(I64, 1))
    f.if_(single, lambda: f.ret(f.load(PTR, arrays)))
    result = call_python(f, python, "tuple_new", PTR, [count])

    def no_tuple() -> None:
        f.call(drop, [arrays, count])
        f.ret(result)

    f.if_(is_null(f, result), no_tuple, likely=False)

    def put(index: Value, _: list[Value]) -> None:
        array = f.load(PTR, f.gep(arrays, index, PTR))
        call_python(f, python, "tuple_set_item", I32, [result, index, array])

    f.loop(0, count, 1, [], put)
    f.ret(result)
    return f.reference

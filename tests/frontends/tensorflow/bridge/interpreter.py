# SPDX-License-Identifier: Apache-2.0
"""A stand-in for lowering and compiler: runs a captured function in NumPy, through the real ABI.

With it the bridge is tested by itself: what is captured is what is executed, op by op, and the
program enters through `S_sizes` and `S_run` like a compiled one. Only these tests use it.
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np

from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.frontends.tensorflow.graphs.captured import FunctionRef, TensorRef
from ingot.runtime.programs.program import Program
from ingot.support.diagnostics import UnsupportedError

XLA_NAMES = {"float32": "f32", "float64": "f64", "int32": "s32", "int64": "s64", "bool": "pred"}


def _reduce(function):
    def run(node, x, axes):
        return function(
            x, axis=tuple(np.atleast_1d(axes)), keepdims=bool(node.attributes.get("keep_dims"))
        )

    return run


def _matmul(node, a, b):
    a = a.T if node.attributes.get("transpose_a") else a
    b = b.T if node.attributes.get("transpose_b") else b
    return a @ b


OPS = {
    "AddV2": lambda node, a, b: a + b,
    "Sub": lambda node, a, b: a - b,
    "Mul": lambda node, a, b: a * b,
    "Neg": lambda node, a: -a,
    "Sin": lambda node, a: np.sin(a),
    "Cos": lambda node, a: np.cos(a),
    "Less": lambda node, a, b: np.less(a, b),
    "Greater": lambda node, a, b: np.greater(a, b),
    "AddN": lambda node, *args: sum(args),
    "MatMul": _matmul,
    "Sum": _reduce(np.sum),
    "Shape": lambda node, a: np.array(np.shape(a), np.int32),
    "Reshape": lambda node, a, shape: np.reshape(a, shape),
    "BroadcastTo": lambda node, a, shape: np.broadcast_to(a, shape),
    "Tile": lambda node, a, count: np.tile(a, count),
    "ZerosLike": lambda node, a: np.zeros_like(a),
    "OnesLike": lambda node, a: np.ones_like(a),
    "Fill": lambda node, shape, a: np.full(shape, a),
    "Identity": lambda node, a: a,
}


class _Run:
    def __init__(self, function, values, variables):
        self.function = function
        self.values = {
            TensorRef(item.name): value for item, value in zip(function.inputs, values, strict=True)
        }
        self.variables = variables

    def __call__(self):
        for node in self.function.nodes:
            inputs = [self.values[ref] for ref in node.inputs]
            outputs = self.execute(node, inputs)
            for index, value in enumerate(outputs):
                self.values[TensorRef(node.name, index)] = value
        return [self.values[ref] for ref in self.function.outputs]

    def call(self, name, values):
        return _Run(self.function.library[name], values, self.variables)()

    def execute(self, node, inputs):
        method = getattr(self, f"op_{node.op}", None)
        if method is not None:
            return method(node, inputs)
        if node.op not in OPS:
            raise UnsupportedError(
                f"op '{node.op}' has no rule in the test interpreter",
                op_type=node.op,
                op_name=node.name,
                location=node.location,
                hint="use another op",
            )
        return [OPS[node.op](node, *inputs)]

    def op_Const(self, node, inputs):  # noqa: N802
        return [node.attributes["value"]]

    def op_NoOp(self, node, inputs):  # noqa: N802
        return []

    def op_ReadVariableOp(self, node, inputs):  # noqa: N802
        return [self.variables[inputs[0]]]

    def op_AssignVariableOp(self, node, inputs):  # noqa: N802
        self.variables[inputs[0]] = inputs[1]
        return []

    def op_AssignAddVariableOp(self, node, inputs):  # noqa: N802
        self.variables[inputs[0]] = self.variables[inputs[0]] + inputs[1]
        return []

    def op_AssignSubVariableOp(self, node, inputs):  # noqa: N802
        self.variables[inputs[0]] = self.variables[inputs[0]] - inputs[1]
        return []

    def op_PartitionedCall(self, node, inputs):  # noqa: N802
        function = node.attributes["f"]
        assert isinstance(function, FunctionRef)
        return self.call(function.name, inputs)

    op_StatefulPartitionedCall = op_PartitionedCall  # noqa: N815

    def op_StatelessIf(self, node, inputs):  # noqa: N802
        branch = "then_branch" if inputs[0] else "else_branch"
        return self.call(node.attributes[branch].name, inputs[1:])

    op_If = op_StatelessIf  # noqa: N815

    def op_StatelessWhile(self, node, inputs):  # noqa: N802
        while self.call(node.attributes["cond"].name, inputs)[0]:
            inputs = self.call(node.attributes["body"].name, inputs)
        return inputs

    op_While = op_StatelessWhile  # noqa: N815


def interpret(captured, binding, parameters):
    """Return the results of `captured` for the parameters' values."""
    values = [None] * len(captured.inputs)
    variables = {}
    for index, item in enumerate(captured.inputs):
        values[index] = index if item.type.dtype == "resource" else None
    for parameter, value in zip(binding.parameters, parameters, strict=True):
        item = captured.inputs[parameter.input]
        if item.is_variable:
            variables[parameter.input] = value
        else:
            values[parameter.input] = value
    outputs = _Run(captured, values, variables)()
    return [
        variables[result.variable] if result.output is None else outputs[result.output]
        for result in binding.results
    ]


LOG = []
"""Names of the functions that were compiled, in order."""


class _Stub:
    """The two functions of a program that interprets a captured function."""

    def __init__(self, captured, binding, name):
        self.captured, self.binding = captured, binding
        items = [captured.inputs[parameter.input] for parameter in binding.parameters]
        kinds = [item.type if item.handle is None else item.handle for item in items]
        self.shapes = [item.parameter_shape for item in items]
        self.dtypes = [np.dtype(kind.dtype) for kind in kinds]
        ones = [
            np.ones([size or 2 for size in shape], dtype)
            for shape, dtype in zip(self.shapes, self.dtypes, strict=True)
        ]
        examples = [np.asarray(value) for value in interpret(captured, binding, ones)]
        self.results = [np.dtype(self.result_dtype(result)) for result in binding.results]
        aliases = dict(binding.donations)
        self.info = ProgramInfo(
            name,
            tuple(
                ParamInfo(XLA_NAMES[k.dtype], s) for k, s in zip(kinds, self.shapes, strict=True)
            ),
            tuple(
                OutputInfo(XLA_NAMES[d.name], (None,) * e.ndim, aliases.get(at))
                for at, (d, e) in enumerate(zip(self.results, examples, strict=True))
            ),
            # The sizes function hands the input sizes to the run function as symbols.
            num_symbols=sum(map(len, self.shapes)),
        )

    def result_dtype(self, result):
        if result.output is None:
            return self.captured.inputs[result.variable].handle.dtype
        return self.captured.output_types[result.output].dtype

    def sizes(self, in_dims, out):
        layout, at, ones = self.info.sizes_layout, 0, []
        for index, (shape, dtype) in enumerate(zip(self.shapes, self.dtypes, strict=True)):
            given = [in_dims[index][axis] for axis in range(len(shape))]
            ones.append(np.ones(given, dtype))
            for size in given:
                out[layout.symbol(at)] = size
                at += 1
        out[0] = 64
        for index, value in enumerate(interpret(self.captured, self.binding, ones)):
            out[layout.output_bytes(index)] = np.size(value) * self.results[index].itemsize
            for axis, size in enumerate(np.shape(value)):
                out[layout.output_dims(index) + axis] = size
        return 0

    def run(self, runtime, inputs, outputs, temp, sizes, constants):
        layout, at, arguments = self.info.sizes_layout, 0, []
        for index, (shape, dtype) in enumerate(zip(self.shapes, self.dtypes, strict=True)):
            given = [sizes[layout.symbol(at + axis)] for axis in range(len(shape))]
            at += len(shape)
            count = int(np.prod(given)) * dtype.itemsize
            data = ctypes.string_at(inputs[index], count) if count else b""
            arguments.append(np.frombuffer(data, dtype).reshape(given))
        for index, value in enumerate(interpret(self.captured, self.binding, arguments)):
            data = np.ascontiguousarray(value, self.results[index])
            if data.size:
                ctypes.memmove(outputs[index], data.ctypes.data, data.nbytes)
        return 0


_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_INTEGERS = ctypes.POINTER(ctypes.c_int64)
_SIZES = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.POINTER(_INTEGERS), _INTEGERS)
_RUN = ctypes.CFUNCTYPE(
    ctypes.c_int32,
    *(ctypes.c_void_p, _POINTERS, _POINTERS, ctypes.c_void_p, _INTEGERS, ctypes.c_void_p),
)


def compile_stub(captured, binding, name, arguments):
    """The `Compiler` of these tests."""
    LOG.append(captured.name)
    stub = _Stub(captured, binding, name)
    functions = (_SIZES(stub.sizes), _RUN(stub.run))
    addresses = [ctypes.cast(item, ctypes.c_void_p).value for item in functions]
    program = Program(stub.info, *addresses, keep_alive=(functions, stub))
    ops = " ".join(node.op for node in captured.nodes)
    return SimpleNamespace(program=program, as_text=lambda stage, **_: f"{stage}: {ops}")

# SPDX-License-Identifier: Apache-2.0
"""Variables: reads and writes become values threaded through the walk in `Frame.state`.

Also the scatter and gather ops that work on a variable. A variable is written back at the end, by
the entry, once.
"""

from __future__ import annotations

from ingot.frontends.tensorflow.lowering.context.op import Op, Rule
from ingot.frontends.tensorflow.lowering.context.values import Known, Value
from ingot.frontends.tensorflow.lowering.indexing.gather import gather, gather_nd
from ingot.frontends.tensorflow.lowering.indexing.index_checks import assert_inside, dims_text
from ingot.frontends.tensorflow.lowering.indexing.scatter import checked_nd, scatter_rows
from ingot.hlo.dtype import PRED
from ingot.hlo.instruction import Instruction


def held(op: Op, number: int = 0) -> Value:
    """Return what the variable that is operand `number` holds."""
    variable = op.variable(number)
    value = op.frame.state.get(variable)
    if value is None:
        raise op.error(
            "the variable is read before it has a value",
            "initialise the variable before the function runs",
        )
    return value


def read(op: Op, number: int = 0) -> Instruction:
    """Return the present value of the variable that is operand `number`."""
    return op.frame.tensor(held(op, number))


def write(op: Op, value: Value, number: int = 0) -> tuple[Value, ...]:
    """Give the variable that is operand `number` a new value."""
    op.frame.state[op.variable(number)] = value
    return ()


def _read(op: Op) -> Value:
    return held(op)


def _assign(op: Op) -> tuple[Value, ...]:
    if op.attribute("validate_shape", False):
        _check_shape(op)
    return write(op, op.values[1])


def _check_shape(op: Op) -> None:
    """Let a value of another shape than the variable's be an error, here or when it runs."""
    declared, dims = op.declared_shape(0), op.dims(1)
    if declared is None:
        return
    wanted = [have if size is None else size for size, have in zip(declared, dims, strict=False)]
    if len(declared) != len(dims) or not all(map(op.b.same, dims, wanted)):
        shape = ",".join("?" if size is None else str(size) for size in declared)
        raise op.mistake(
            "Trying to assign to variable with tensor with wrong shape. Expected "
            f"[{shape}] got [{dims_text(dims)}]. Shape of a variable cannot be changed after "
            "initialization"
        )


def _update(opcode: str) -> Rule:
    def rule(op: Op) -> tuple[Value, ...]:
        old, change = read(op), op.tensor(1)
        if op.b.broadcast_dims(old.shape.dims, change.shape.dims) != old.shape.dims:
            shapes = (f"[{dims_text(item.shape.dims)}]" for item in (old, change))
            text = "Cannot update variable with shape {} using a Tensor with shape {}, shapes must"
            raise op.error(f"{text.format(*shapes)} be equal.")
        return write(op, op.b.emit(opcode, *op.b.together(old, change)))

    return rule


def _is_initialized(op: Op) -> Value:
    return Known.of(op.variable(0) in op.frame.state, PRED)


def _variable_shape(op: Op) -> Value:
    return Known.sizes(read(op).shape.dims, op.result())


def _gather(op: Op) -> Value:
    """The rows behind the batch dimensions, whose elements are along the first axis after them."""
    batch_dims = int(op.attribute("batch_dims", 0))
    batch_dims += op.rank(1) if batch_dims < 0 else 0
    return gather(op, read(op), op.tensor(1), batch_dims, batch_dims)


def _gather_nd(op: Op) -> Value:
    return gather_nd(op, read(op), op.tensor(1))


def _scatter(opcode: str) -> Rule:
    def rule(op: Op) -> tuple[Value, ...]:
        old, indices = read(op), op.tensor(1)
        assert_inside(op.b, indices, old.shape.dims[0])
        return write(op, scatter_rows(op, opcode, old, indices, op.tensor(2)))

    return rule


def _scatter_nd(opcode: str) -> Rule:
    def rule(op: Op) -> tuple[Value, ...]:
        return write(op, checked_nd(op, opcode, read(op), op.tensor(1), op.tensor(2)))

    return rule


RULES: dict[str, Rule] = {
    "AssignAddVariableOp": _update("add"),
    "AssignSubVariableOp": _update("subtract"),
    "AssignVariableOp": _assign,
    "ReadVariableOp": _read,
    "ResourceGather": _gather,
    "ResourceGatherNd": _gather_nd,
    "ResourceScatterAdd": _scatter("add"),
    "ResourceScatterDiv": _scatter("divide"),
    "ResourceScatterMax": _scatter("maximum"),
    "ResourceScatterMin": _scatter("minimum"),
    "ResourceScatterMul": _scatter("multiply"),
    "ResourceScatterNdAdd": _scatter_nd("add"),
    "ResourceScatterNdMax": _scatter_nd("maximum"),
    "ResourceScatterNdMin": _scatter_nd("minimum"),
    "ResourceScatterNdSub": _scatter_nd("subtract"),
    "ResourceScatterNdUpdate": _scatter_nd("update"),
    "ResourceScatterSub": _scatter("subtract"),
    "ResourceScatterUpdate": _scatter("update"),
    "VarIsInitializedOp": _is_initialized,
    "VariableShape": _variable_shape,
}

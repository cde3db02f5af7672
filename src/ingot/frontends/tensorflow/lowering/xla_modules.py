"""`XlaCallModule`: a StableHLO program inside a TensorFlow function, as JAX's `jax2tf` makes it.

The program is read by `formats.stablehlo` and called. Source: TensorFlow's
`compiler/tf2xla/kernels/xla_call_module_op.cc`, `xla_call_module_loader.cc`.
"""

from __future__ import annotations

from ingot.formats.stablehlo import parse_stablehlo
from ingot.frontends.tensorflow.lowering.op import Op, Rule
from ingot.frontends.tensorflow.lowering.values import Value
from ingot.hlo.dtype import S32
from ingot.hlo.instruction import Instruction


def _call_module(op: Op) -> tuple[Value, ...]:
    if op.attribute("has_token_input_output", False):
        raise op.error("a StableHLO program that takes tokens")
    operands = op.tensors()
    platforms = [str(name) for name in op.attribute("platforms", ()) or ()]
    if len(platforms) > 1:
        operands.insert(0, op.b.constant(_platform(op, platforms), S32))
    sizes = {
        f"d{number}_{axis}": size
        for number, operand in enumerate(operands)
        for axis, size in enumerate(operand.shape.dims)
    }
    entry = parse_stablehlo(_program(op), sizes).entry
    wanted = [parameter.shape for parameter in entry.parameters]
    if len(wanted) != len(operands):
        raise op.error(f"the StableHLO program takes {len(wanted)} arguments, not {len(operands)}")
    for number, (shape, operand) in enumerate(zip(wanted, operands, strict=True)):
        if not shape.compatible(operand.shape):
            raise op.error(
                f"argument {number} of the StableHLO program is {shape}, not {operand.shape}"
            )
    made = op.b.emit("call", *operands, to_apply=entry)
    if not made.shape.is_tuple:
        return (made,)
    parts: list[Instruction] = [
        op.b.element_of(made, number) for number in range(len(made.shape.elements))
    ]
    return tuple(parts)


def _program(op: Op) -> bytes:
    text = op.attribute("module")
    return text.encode() if isinstance(text, str) else bytes(text)


def _platform(op: Op, platforms: list[str]) -> int:
    """Return the index of the CPU among the platforms that the program was made for."""
    if "CPU" not in platforms:
        raise op.error(f"The current platform CPU is not among the platforms {platforms}")
    return platforms.index("CPU")


RULES: dict[str, Rule] = {"XlaCallModule": _call_module}

# SPDX-License-Identifier: Apache-2.0
"""How `experimental_get_compiler_ir` writes the stages that are no text of `Executable.as_text`."""

from __future__ import annotations

from collections.abc import Callable

from ingot.formats.hlo_dot import print_dot
from ingot.formats.hlo_proto import print_hlo_proto
from ingot.formats.hlo_proto.wire import encode
from ingot.formats.hlo_proto.writer import write_module
from ingot.formats.hlo_text import print_module
from ingot.formats.stablehlo import print_stablehlo
from ingot.formats.stablehlo.binding import bytecode_of_hlo
from ingot.hlo.module import Module


def _hlo_proto(module: Module) -> bytes:
    return encode({"hlo_module": write_module(module)}, "HloProto")


def _stablehlo(module: Module) -> str:
    return print_stablehlo(module)


def _stablehlo_bytecode(module: Module) -> bytes:
    return bytecode_of_hlo(print_hlo_proto(module))


FORMS: dict[str, tuple[str, Callable[[Module], str | bytes]]] = {
    "stablehlo": ("hlo", _stablehlo),
    "stablehlo_serialized": ("hlo", _stablehlo_bytecode),
    "hlo_no_metadata": (
        "hlo",
        lambda module: print_module(module, with_metadata=False, with_operand_shapes=True),
    ),
    "hlo_serialized": ("hlo", print_hlo_proto),
    "optimized_hlo_serialized": ("optimized_hlo", print_hlo_proto),
    "optimized_hlo_proto_serialized": ("optimized_hlo", _hlo_proto),
    "optimized_hlo_dot": ("optimized_hlo", print_dot),
}
"""TensorFlow's further stages: the stage that is read, and how its module is written."""

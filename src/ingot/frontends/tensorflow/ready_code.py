# SPDX-License-Identifier: Apache-2.0
"""The kernel of `Ingot_XlaCompile`: whether a launch has a program for the inputs.

It reads the inputs as the launch op would and looks for a variant. Where there is none it calls the
trampoline `request`, which has one compiled, at once or in the background; meanwhile the trampoline
sets `quiet`, and nothing of Python is in the way.

Invariant: the answer is true only if the launch op, given the same inputs, finds a variant.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ingot.frontends.tensorflow.launch_inputs import LaunchInputs
from ingot.frontends.tensorflow.launch_records import LAUNCH, REQUEST
from ingot.llvm.types import I8, I32, I64, PTR, VOID
from ingot.llvm.values import FunctionRef, Value, zero

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.launch_code import LaunchEmitter

_BOOL = 10
"""TF_BOOL."""


def emit_ready(emitter: LaunchEmitter, find: FunctionRef) -> None:
    """Emit `void ingot_ready_compute(record, context)`."""
    f = emitter.module.function("ingot_ready_compute", VOID, [("record", PTR), ("context", PTR)])
    record, context = f.params
    status = emitter.call(f, "TF_NewStatus")
    inputs = LaunchInputs(emitter, f, status)
    inputs.read()

    def is_ready() -> Value:
        variant = f.call(find, [record, inputs.ranks, inputs.dims, inputs.data])
        return f.icmp("ne", variant, zero(PTR))

    def ask() -> list[Value]:
        identifier = LAUNCH.load(f, record, "identifier")
        emitter.call(f, REQUEST, identifier, inputs.ranks, inputs.dims, inputs.data)
        return [is_ready()]

    ready = is_ready()
    quiet = f.atomic_load(I64, LAUNCH.address(f, record, "quiet"), "acquire")
    asks = f.and_(f.icmp("eq", quiet, f.const(I64, 0)), f.xor(ready, f.const(ready.type, 1)))
    (ready,) = f.if_(asks, ask, otherwise=[ready], likely=False)
    inputs.delete()
    scalar = (f.const(I32, _BOOL), zero(PTR), f.const(I32, 0), f.const(I64, 1), status)
    tensor = emitter.call(f, "TF_AllocateOutput", context, f.const(I32, 0), *scalar)
    good = f.icmp("eq", emitter.call(f, "TF_GetCode", status), f.const(I32, 0))

    def fill() -> None:
        f.store(f.zext(ready, I8), emitter.call(f, "TF_TensorData", tensor))
        emitter.call(f, "TF_DeleteTensor", tensor)

    def fail() -> None:
        emitter.call(f, "TF_OpKernelContext_Failure", context, status)

    f.if_(good, fill, likely=True)
    f.if_(f.icmp("ne", emitter.call(f, "TF_GetCode", status), f.const(I32, 0)), fail, likely=False)
    emitter.call(f, "TF_DeleteStatus", status)
    f.ret()

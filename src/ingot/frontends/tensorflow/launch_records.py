# SPDX-License-Identifier: Apache-2.0
"""What machine code and Python share about launches: records, functions, texts.

Declared once, in the layout of C; `launch_code` and `variable_code` emit code over them, `launch`
fills them. Source: TensorFlow's `tensorflow/c/kernels.h`; the runtime's entries are declared by
`runtime.records.c_header`.
"""

from __future__ import annotations

from ingot.llvm.types import I32, I64, PTR, VOID, Type
from ingot.native.layout import Field, Record
from ingot.runtime.execution import CANCELLED_TEXT

LAUNCH = Record(
    "IngotLaunch",
    Field("variants", "ptr", note="list of IngotVariant, newest first; null before the first"),
    Field("identifier", "i64", note="what the trampoline is told"),
    Field("num_inputs", "i64"),
    Field("num_outputs", "i64"),
    Field("output_types", "ptr", note="int32_t[num_outputs], TF_DataType"),
    Field("rows", "ptr", note="int64_t[num_inputs]: row in `variables`, or -1 for a tensor"),
    Field("num_variables", "i64", note="inputs that are handles of variables"),
    Field("variables", "ptr", note="IngotVariable[num_variables]"),
    Field("quiet", "i64", note="1: `request` need not be called"),
)

VARIABLE = Record(
    "IngotVariable",
    Field("input", "i64", note="index of the handle among the inputs"),
    Field("result", "i64", note="index of the new value among the program's results, or -1"),
    Field("rank", "i64"),
    Field("dims", "ptr", note="int64_t[rank]"),
    Field("elements", "i64"),
    Field("type", "i32", note="TF_DataType"),
    Field("copy", "ptr", note="where `miss` finds the value of a small variable; else null"),
    Field("copy_bytes", "i64"),
)

GUARD = Record(
    "IngotGuard",
    Field("input", "i64", note="index of the input"),
    Field("bytes", "i64"),
    Field("data", "ptr", note="what the input's first bytes must be"),
)

VARIANT = Record(
    "IngotVariant",
    Field("program", "ptr", note="IngotProgram"),
    Field("ranks", "ptr", note="int64_t[num_inputs]: the ranks it was compiled for"),
    Field("next", "ptr"),
    Field("num_guards", "i64", note="values of inputs that it was compiled for"),
    Field("guards", "ptr", note="IngotGuard[num_guards]"),
    Field("staged", "ptr", note="IngotStaged, of a program that runs in stages; else null"),
    Field("runs_again", "i64", note="1: it may end for lack of room, and another one run then"),
    Field("num_parameters", "i64", note="of a program in stages: its parameters"),
    Field("parameters", "ptr", note="int64_t[num_parameters], offsets of their slots"),
    Field("num_results", "i64", note="of a program in stages: its results"),
    Field("results", "ptr", note="int64_t[num_results][3], slot, rank, bytes of an element"),
)

ENDED_TEXT = f"{CANCELLED_TEXT}; variables may hold values of a step that was not done."
OUT_OF_MEMORY_TEXT = "Ingot: there is not enough memory for the temporary buffers of this function."
FOREIGN = (
    "Ingot: this graph was compiled in another process. Save models with tf.saved_model.save or "
    "model.save, which store the original functions."
)

TF_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "TF_NewStatus": (PTR, ()),
    "TF_DeleteStatus": (VOID, (PTR,)),
    "TF_GetCode": (I32, (PTR,)),
    "TF_SetStatus": (VOID, (PTR, I32, PTR)),
    "TF_GetInput": (VOID, (PTR, I32, PTR, PTR)),
    "TF_TensorData": (PTR, (PTR,)),
    "TF_NumDims": (I32, (PTR,)),
    "TF_Dim": (I64, (PTR, I32)),
    "TF_DeleteTensor": (VOID, (PTR,)),
    "TF_AllocateOutput": (PTR, (PTR, I32, I32, PTR, I32, I64, PTR)),
    "TF_NewTensor": (PTR, (I32, PTR, I32, PTR, I64, PTR, PTR)),
    "TF_SetOutput": (VOID, (PTR, I32, PTR, PTR)),
    "TF_OpKernelContext_Failure": (VOID, (PTR, PTR)),
    "TF_OpKernelConstruction_GetAttrInt64": (VOID, (PTR, PTR, PTR, PTR)),
    "TF_OpKernelConstruction_Failure": (VOID, (PTR, PTR)),
    "TF_ShapeInferenceContextSetUnknownShape": (VOID, (PTR, PTR)),
}
"""The C API that launches call: result type, parameter types."""

RUNTIME_FUNCTIONS: dict[str, tuple[Type, tuple[Type, ...]]] = {
    "ingot_prepare": (I32, (PTR, PTR, PTR)),
    "ingot_execute": (I32, (PTR, PTR, PTR, PTR)),
    "ingot_stages_run": (I64, (PTR, PTR, PTR)),
    "ingot_allocate": (PTR, (I64,)),
    "ingot_free": (VOID, (PTR,)),
}
"""The runtime's entries, as `runtime.records.c_header` declares them."""

REQUEST = "ingot_launch_request"
MISS = "ingot_launch_miss"
FAILED = "ingot_launch_failed"

TRAMPOLINES: dict[str, tuple[Type, tuple[Type, ...]]] = {
    MISS: (VOID, (I64, PTR, PTR, PTR, I64, PTR)),
    FAILED: (I32, (I64, PTR, PTR, I64, PTR)),
    REQUEST: (VOID, (I64, PTR, PTR, PTR)),
}
"""Functions of Python. `miss(identifier, i64* ranks, i64** dims, void** data, wanted, TF_Status*)`
compiles a variant as an attempt wants it; memory that cannot be read is null.
`failed(identifier, IngotVariant*, i64** dims, code, TF_Status*)` says why, or returns what another
variant may do: `TRY_EXACT` or `TRY_ROOM`.
`request(identifier, i64* ranks, i64** dims, void** data)` asks for a variant, now or later."""

DONE, NO_VARIANT, TRY_EXACT, TRY_ROOM = range(4)
"""What an attempt returns: the status says how it went; else `miss` is called first, for a variant,
for one for exactly these sizes, or for one with more room for lists that grow."""

PROCESS = "ingot_process"
"""An i64 that marks the ops of this process: what they hold are addresses."""

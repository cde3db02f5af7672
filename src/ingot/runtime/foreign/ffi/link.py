# SPDX-License-Identifier: Apache-2.0
"""Native XLA FFI handlers as custom-call targets.

A handler is `XLA_FFI_Error* f(XLA_FFI_CallFrame*)`. When a call is linked, the handler is asked for
its version, its `instantiate` stage runs, and an adapter is emitted for exactly this call site:
it lays operands and results out as `XLA_FFI_Buffer`s on its stack, with logical dimensions, and
calls the stages. No Python runs unless the handler fails or calls the API back.

Source: xla/ffi/api/c_api.h; xla/backends/cpu/runtime/custom_call_thunk.cc.
"""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.runtime.foreign.attributes import parse_attributes
from ingot.runtime.foreign.errors import set_error
from ingot.runtime.foreign.evaluate import evaluator_of
from ingot.runtime.foreign.ffi.adapter import SYMBOL, emit_adapter
from ingot.runtime.foreign.ffi.api import api_address, tables
from ingot.runtime.foreign.ffi.attributes import AttributeBlock
from ingot.runtime.foreign.ffi.records import (
    API_MAJOR,
    API_VERSION,
    ATTRS,
    CALL_FRAME,
    CALL_FRAME_SIZE,
    CONTEXT,
    METADATA,
    METADATA_EXTENSION,
    METADATA_EXTENSION_TYPE,
    Stage,
)
from ingot.runtime.native import native_runtime
from ingot.semantics.custom_calls import CallSite, LinkedCall, Target
from ingot.support.diagnostics import UnsupportedError

_HANDLER = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p)
_sites = count(1)


def ffi_target(name: str, stages: Mapping[str, int]) -> Target:
    """Return the target of a handler.

    Args:
        name: the target's name.
        stages: `instantiate`, `prepare`, `initialize`, `execute` -> address of the handler.

    Raises:
        UnsupportedError: INGOT0334, the handler speaks another version of the API, there is no
            `execute`, or a stage that XLA does not have.
    """
    if "execute" not in stages:
        raise _refused(name, "it has no handler of the stage 'execute'")
    for stage in stages:
        if stage.upper() not in Stage.__members__:
            known = ", ".join(one.name.lower() for one in Stage)
            raise _refused(name, f"there is no stage '{stage}', only {known}")
    for address in stages.values():
        major, minor = _version(address)
        if major != API_MAJOR:
            raise _refused(name, f"it speaks version {major}.{minor} of the XLA FFI API")
    link = partial(_link, {Stage[stage.upper()]: found for stage, found in stages.items()})
    return Target(name, evaluator_of(link), link)


def _refused(name: str, why: str) -> UnsupportedError:
    return UnsupportedError(f"custom-call target '{name}': {why}", code="INGOT0334")


def _version(handler: int) -> tuple[int, int]:
    """Ask a handler for the version that it was compiled against."""
    metadata = METADATA.structure(struct_size=METADATA.size, api_struct_size=API_VERSION.size)
    extension = METADATA_EXTENSION.structure(
        struct_size=METADATA_EXTENSION.size,
        type=METADATA_EXTENSION_TYPE,
        metadata=ctypes.addressof(metadata),
    )
    frame = _call_frame(Stage.EXECUTE, 0, AttributeBlock({}))
    frame.extension_start = ctypes.addressof(extension)
    _call(handler, frame)
    return metadata.major_version, metadata.minor_version


def _call_frame(stage: Stage, context: int, attributes: AttributeBlock) -> Any:
    """Return a frame without buffers."""
    frame = CALL_FRAME.structure(CALL_FRAME_SIZE, 0, api_address(), context, int(stage))
    start = ctypes.addressof(frame)
    for name in ("args", "rets"):
        # The size of an empty XLA_FFI_Args is all that it holds.
        ctypes.c_int64.from_address(start + CALL_FRAME.offset(name)).value = 40
    ctypes.memmove(start + CALL_FRAME.offset("attrs"), attributes.address, ATTRS.size)
    return frame


def _call(handler: int, frame: Any) -> str:
    """Call a handler; return the text of its error, or ""."""
    error = _HANDLER(handler)(ctypes.addressof(frame))
    return tables().take_error_text(error) if error else ""


def _link(stages: dict[Stage, int], call: CallSite) -> LinkedCall:
    attributes = AttributeBlock(parse_attributes(call.config))
    site = next(_sites)
    if Stage.INSTANTIATE in stages:
        context = CONTEXT.structure(native_runtime().record, site)
        frame = _call_frame(Stage.INSTANTIATE, ctypes.addressof(context), attributes)
        failure = _call(stages[Stage.INSTANTIATE], frame)
        if failure:
            tables().release(site)
            raise UnsupportedError(
                f"custom call '{call.target}' cannot be instantiated: {failure}",
                code="INGOT0333",
                op_name=call.op_name,
                location=call.location,
            )
    running = sorted(stage for stage in stages if stage is not Stage.INSTANTIATE)
    finish = _FINISH(_finish)
    imports = {
        "ffi_api": api_address(),
        "ffi_attributes": attributes.address,
        "ffi_finish": ctypes.cast(finish, ctypes.c_void_p).value or 0,
        **{f"ffi_{stage.name.lower()}": stages[stage] for stage in running},
    }
    text = emit_adapter(call, running, site)
    library = link_object([compile_object(text, TargetSpec.host())], imports)
    owner = _Owner(library, attributes, finish)
    weakref.finalize(owner, tables().release, site)
    return LinkedCall(library.address(SYMBOL), owner)


class _Owner:
    """Keeps the objects alive that a linked handler's code uses."""

    def __init__(self, *kept: object) -> None:
        self.kept = kept


_FINISH: Callable[..., Any] = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


def _finish(error: int | None, future: int | None) -> int:
    """Wait for a handler's result if it comes later; record the text of a failure."""
    try:
        if future:
            pending = tables().futures.pop(future)
            pending.done.wait()
            error = error or pending.error
        if not error:
            return 0
        text = tables().take_error_text(error)
        set_error(text, status=text.partition(":")[0])
    except BaseException as problem:  # A callback must not raise into machine code.
        set_error(repr(problem), problem)
    return 1

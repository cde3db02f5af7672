# SPDX-License-Identifier: Apache-2.0
"""The interface to jaxlib's MLIR: bytes or text in, an MLIR module out.

jaxlib ships MLIR with the StableHLO, CHLO, func and Shardy dialects; Ingot has no MLIR parser. Only
this file imports jaxlib. Its objects have no types here (`Any`): the other files of the package
read them through attributes with MLIR's own names.

An artifact of VHLO (`StableHLO_v1.13.0` after the bytecode magic) is upgraded by
`deserialize_portable_artifact`; MLIR text and bytecode are read by MLIR's parser.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from ingot.support.deep_stack import on_large_stack
from ingot.support.diagnostics import ParseError, UnsupportedError
from ingot.support.records import record
from ingot.support.regex import regex

MAGIC = b"ML\xefR"
_ARTIFACT = b"StableHLO_v"
# Largest distance of the producer's name from the magic number.
_PRODUCER = 32


@record
class Mlir:
    """jaxlib's modules that are used here."""

    ir: Any
    stablehlo: Any
    extension: Any
    func: Any
    passmanager: Any
    chlo: Any
    sdy: Any


@cache
def mlir() -> Mlir:
    """Load jaxlib's MLIR.

    Raises:
        UnsupportedError: jaxlib is not installed (INGOT0350).
    """
    names = (
        "ir",
        "dialects.stablehlo",
        "_mlir_libs._jax_mlir_ext",
        "dialects.func",
        "passmanager",
        "dialects.chlo",
        "dialects.sdy",
    )
    try:
        return Mlir(*(importlib.import_module(f"jaxlib.mlir.{name}") for name in names))
    except ImportError as error:
        raise UnsupportedError(
            f"StableHLO is read with jaxlib's MLIR, which cannot be loaded: {error}",
            code="INGOT0350",
            hint="install it: pip install 'ingot-compiler[stablehlo]'",
        ) from error


def bytecode_of_hlo(proto: bytes) -> bytes:
    """Return a serialized HloModuleProto as StableHLO in MLIR's bytecode, as XLA converts it.

    Raises:
        UnsupportedError: jaxlib is not installed (INGOT0350), or XLA cannot convert the module.
    """
    mlir()
    library = importlib.import_module("jaxlib._jax")
    try:
        return library.mlir.hlo_to_stablehlo(proto)
    except Exception as error:  # The bindings raise several classes.
        raise UnsupportedError(
            f"XLA cannot convert the program to StableHLO: {error}",
            code="INGOT0350",
            hint="symbolic and computed sizes, and calls of Ingot's own, have no StableHLO",
        ) from error


def newest_version() -> tuple[int, ...]:
    """Return the newest StableHLO whose portable artifacts this jaxlib reads.

    Raises:
        UnsupportedError: jaxlib is not installed (INGOT0350).
    """
    return tuple(map(int, mlir().stablehlo.get_current_version().split(".")))


def is_bytecode(data: bytes) -> bool:
    """Whether `data` begins as MLIR bytecode does (portable artifacts are bytecode too)."""
    return data.startswith(MAGIC)


def is_portable_artifact(data: bytes) -> bool:
    """Whether `data` is MLIR bytecode that was written as a StableHLO portable artifact."""
    return is_bytecode(data) and _ARTIFACT in data[:_PRODUCER]


def new_context() -> Any:
    """Return an MLIR context that knows every dialect that jaxlib has."""
    library = mlir()
    context = library.ir.Context()
    # A thread that reports an error waits for Python, which waits for MLIR's threads.
    context.enable_multithreading(False)
    registry = library.ir.DialectRegistry()
    library.extension.register_dialects(registry)
    # Dialects are loaded when a module uses them; loading all would take milliseconds.
    context.append_dialect_registry(registry)
    # Unknown ops are refused by name, with a hint, when they are converted.
    context.allow_unregistered_dialects = True
    for dialect in (library.stablehlo, library.chlo, library.sdy):
        dialect.register_dialect(context)
    return context


def parse_mlir(data: str | bytes) -> Any:
    """Return the MLIR module that `data` holds (its context is its `.context`).

    Raises:
        ParseError: it is not MLIR (INGOT0120), with MLIR's own message.
    """
    return read_mlir(new_context(), data)


def read_mlir(context: Any, data: str | bytes) -> Any:
    """Return the MLIR module that `data` holds, in a context.

    Raises:
        ParseError: it is not MLIR (INGOT0120), with MLIR's own message.
    """
    if _depth(data) <= SHALLOW:
        return _read(context, data)
    try:
        return on_large_stack(STACK, lambda: _read(context, data))
    except RuntimeError as error:
        raise ParseError(
            f"there is no memory for a stack on which MLIR can read text nested so deep: {error}",
            code="INGOT0109",
            hint="give the process more memory, or write bytecode",
        ) from error


def _read(context: Any, data: str | bytes) -> Any:
    if b"quant" in data if isinstance(data, bytes) else "!quant" in data:
        _load_quantized_types(context)
    with context:
        try:
            if isinstance(data, bytes) and is_portable_artifact(data):
                return _artifact(context, data)
            return mlir().ir.Module.parse(data)
        except Exception as error:  # The bindings raise several classes.
            raise ParseError(
                f"MLIR cannot read this StableHLO: {error}".rstrip(),
                code="INGOT0120",
                hint="it must be a module as MLIR text, MLIR bytecode or a portable artifact",
            ) from error


MAX_BRACKETS = 20_000
"""Nested brackets in MLIR text at most: its parser recurses."""

SHALLOW = 1000
"""Up to this depth any thread's stack suffices: MLIR's parser dies at 4,000 in 8 MiB."""

STACK = 512 << 20
"""Bytes of the stack for deeper ones: only used pages take memory."""

_PAIRS = (b"<>", b"()", b"[]", b"{}")
_NO_BRACKETS = bytes(set(range(256)).difference(*_PAIRS))
_ROUNDS = 8
_STRING = rb"\"(?:[^\"\\]|\\.)*+\""
_STRINGS = regex(_STRING)
_BRACKETS = regex(rb"[(){}\[\]<>]|->|" + _STRING + rb"|//[^\n]*+")


def _depth(data: str | bytes) -> int:
    """Return the depth of brackets in a text, or a bound; bytecode is read without recursion.

    Raises:
        ParseError: INGOT0109, deeper than `MAX_BRACKETS`.
    """
    text = data.encode(errors="surrogatepass") if isinstance(data, str) else data
    if is_bytecode(text):
        return 0
    bound = _bound(text)
    if bound <= SHALLOW:
        return bound
    depth = deepest = 0
    for found in _BRACKETS.finditer(text):
        depth += 1 if found.group() in b"({[<" else -1 if found.group() in b")}]>" else 0
        deepest = max(deepest, depth)
    if deepest > MAX_BRACKETS:
        raise ParseError(
            f"brackets are nested more than {MAX_BRACKETS} deep",
            code="INGOT0109",
            hint="MLIR's parser cannot read that; HLO text nests as deep as memory reaches",
        )
    return deepest


def _bound(text: bytes) -> int:
    """Return a bound of the depth by removing innermost pairs, without a loop in Python."""
    if b"//" not in text:
        text = _STRINGS.sub(b"", text)
        left = text.replace(b"->", b"").translate(None, _NO_BRACKETS)
        for _ in range(_ROUNDS):
            for pair in _PAIRS:
                left = left.replace(pair, b"")
        return len(left) + _ROUNDS * len(_PAIRS)
    return len(text)


def legalized(op: Any, pipeline: str) -> Any:
    """Return a module whose function `main` is `op` alone, after MLIR's passes `pipeline`.

    Raises:
        Exception: MLIR cannot legalize the op (the bindings raise several classes).
    """
    library = mlir()
    _register_passes()
    ir, func = library.ir, library.func
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        inputs = [operand.type for operand in op.operands]
        outputs = [result.type for result in op.results]
        with ir.InsertionPoint(module.body):
            function = func.FuncOp("main", ir.FunctionType.get(inputs, outputs))
        block = function.add_entry_block()
        with ir.InsertionPoint(block):
            copy = op.clone()
            for number, argument in enumerate(block.arguments):
                copy.operation.operands[number] = argument
            func.ReturnOp(list(copy.operation.results))
        library.passmanager.PassManager.parse(f"builtin.module({pipeline})").run(module.operation)
    return module


def inline_call(call: Any, function: Any) -> None:
    """Inline the body of a function at a call."""
    with call.context, mlir().ir.InsertionPoint(call):
        copy = function.clone()
    (block,) = copy.regions[0].blocks
    for argument, operand in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(operand)
    *body, end = [view.operation for view in block.operations]
    for op in body:
        op.move_before(call)
    for result, value in zip(call.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    copy.erase()
    call.erase()


def run_passes(mlir_module: Any, passes: Sequence[str]) -> None:
    """Run passes over a module, in order.

    Raises:
        ParseError: INGOT0120, a pass refuses the module, with MLIR's own message.
    """
    _register_passes()
    manager = mlir().passmanager.PassManager
    with mlir_module.context:
        for one in passes:
            try:
                manager.parse(f"builtin.module({one})").run(mlir_module.operation)
            except Exception as error:  # The bindings raise several classes.
                raise ParseError(
                    f"MLIR's pass {one} refuses this module: {error}".rstrip(),
                    code="INGOT0120",
                    hint="the shardings in it may contradict each other",
                ) from error


def _load_quantized_types(context: Any) -> None:
    """Load the dialect of `!quant.uniform`: no binding loads it, but a pass needs it."""
    library = mlir()
    _register_passes()
    with context, library.ir.Location.unknown():
        passes = library.passmanager.PassManager.parse("builtin.module(vhlo-legalize-to-stablehlo)")
        passes.run(library.ir.Module.create().operation)


def has_quantized_types(context: Any) -> bool:
    """Whether a module of `context` may have quantized types."""
    try:
        return context.dialects["quant"] is not None
    except IndexError:
        return False


@cache
def _register_passes() -> None:
    mlir().stablehlo.register_stablehlo_passes()


def _artifact(context: Any, data: bytes) -> Any:
    library = mlir()
    try:
        return library.stablehlo.deserialize_portable_artifact(context, data)
    except Exception:
        # The producer's name alone does not make it VHLO: it may be plain bytecode.
        return library.ir.Module.parse(data)

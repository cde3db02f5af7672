# SPDX-License-Identifier: Apache-2.0
"""From a captured function to a compiled program: what a launch calls at its first execution.

`FunctionCompiler` compares the inputs with the signature, fixes the ranks where TensorFlow did
not know them, and hands over to a `Compiler`; `compile_with_ingot` is the real one (lowering, then
`ingot.compile`). Sizes that TensorFlow does not know stay symbolic: one program serves all.

What depends on values that only the call has is specialised on them (`specialisation`), and what
cannot be compiled for open sizes is compiled for the sizes of the call. So is a call with other
shapes than those of the signature, without what TensorFlow inferred from these.

Invariant: called under the launch's lock, possibly on a thread of TensorFlow's executor: it runs
no TensorFlow op.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from ingot.client import stored
from ingot.client.compile import compile as compile_module
from ingot.client.compile import find_or_compile
from ingot.frontends.tensorflow.graphs.binding import Binding, LoweredFunction
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedInput,
    Shape,
    TensorType,
)
from ingot.frontends.tensorflow.graphs.graph_digest import GraphDigest
from ingot.frontends.tensorflow.graphs.variables import NOT_NUMBERS
from ingot.frontends.tensorflow.launches.launch import Compiled
from ingot.frontends.tensorflow.variants import stored_programs
from ingot.frontends.tensorflow.variants.list_rooms import may_lack_room
from ingot.frontends.tensorflow.variants.specialisation import (
    GUESSES,
    CallArguments,
    CallNeededError,
    Key,
    NoArguments,
    Reason,
    Sizes,
)
from ingot.hlo.module import Module
from ingot.support.collector import collector_paused, importing
from ingot.support.diagnostics import Diagnostic, ExecutionError, UnsupportedError, VerifyError
from ingot.support.xla_flags import current_xla_flags

_ARGUMENT_HINT = "call the tf.function itself, which traces anew for new shapes"
_MOST_RANKS = 6
"""How many ranks an input of unknown rank is tried with: 0 and on."""
_VARIABLE_HINT = "the variable is not initialized, or was given another shape after tracing"

_Made = TypeVar("_Made")
_Maker = Callable[[CapturedFunction, Binding, str, CallArguments], _Made]

Compiler = _Maker[Compiled]
"""Compiles a function with the ranks of all inputs known, for a call and all that fit its key."""


class FunctionCompiler:
    """Compiles one function for the calls that are made of it."""

    __slots__ = (
        *("_binding", "_captured", "_compiler", "_digest", "_inputs", "_is_dropped"),
        *("_lowered", "_was_compiled"),
    )

    def __init__(self, captured: CapturedFunction, binding: Binding, compiler: Compiler) -> None:
        """Remember what to compile."""
        self._inputs = captured.inputs
        self._captured: CapturedFunction | None = captured
        self._binding = binding
        self._compiler = compiler
        self._is_dropped = self._was_compiled = False
        self._lowered: LoweredFunction | None = None
        self._digest: GraphDigest | None = None

    def find_refusal(self) -> Diagnostic | None:
        """Lower without a call; return why that is refused, None if it is not or a call decides."""
        captured = self._captured
        if captured is None:
            return None
        shapes = [item.shape_of(self._inputs[item.input]) for item in self._binding.parameters]
        if None in shapes:
            return self._refusal_of_ranks(captured, shapes)
        if self._compiler is compile_with_ingot and self._is_stored(captured):
            return None
        try:
            return self._refusal_of(captured, NoArguments(shapes))
        except CallNeededError:
            # A node is refused for its attributes or types, whatever values others need.
            pass
        try:
            found = [self._refusal_of(captured, NoArguments(shapes, guess)) for guess in GUESSES]
        except CallNeededError:
            return None
        first, *others = found
        is_same = first is not None and all(
            item is not None and (item.op_name, item.message) == (first.op_name, first.message)
            for item in others
        )
        return first if is_same else None

    def _is_stored(self, captured: CapturedFunction) -> bool:
        """Whether a process before compiled the function for a call, so that it is not refused."""
        self._digest = GraphDigest.of(captured, self._binding)
        return stored_programs.has(self._digest.name)

    def _refusal_of_ranks(
        self, captured: CapturedFunction, shapes: Sequence[Shape]
    ) -> Diagnostic | None:
        """Return why a function with inputs of unknown rank is refused: one node, for each rank."""
        found: list[Diagnostic] = []
        for rank in range(_MOST_RANKS):
            tried: list[Shape] = [(None,) * rank if item is None else item for item in shapes]
            try:
                why = self._tried(captured, NoArguments(tried))
            except CallNeededError:
                return None
            except ExecutionError:
                continue
            if why is None:
                return None
            found.append(why)
        names = {item.op_name for item in found}
        return found[-1] if len(names) == 1 else None

    def _refusal_of(self, captured: CapturedFunction, arguments: NoArguments) -> Diagnostic | None:
        """Lower for made-up arguments; return why calls with others are refused too, if so."""
        try:
            return self._tried(captured, arguments)
        except ExecutionError:
            # It is about the ranks of a call; another call may have others.
            return None

    def _tried(self, captured: CapturedFunction, arguments: NoArguments) -> Diagnostic | None:
        """Do what `_refusal_of` does; raises ExecutionError for ranks that do not fit."""
        try:
            with collector_paused():
                _check_results(captured, self._binding)
                found = _lower(captured, self._binding, _module_name(captured), arguments)
        except (UnsupportedError, VerifyError) as error:
            return None if arguments.decides(error.diagnostic) else error.diagnostic
        if arguments.is_unused:
            self._lowered = found
        return None

    def forget_lowered(self) -> None:
        """Give back what `find_refusal` made: another function does what this one does."""
        self._lowered = self._digest = None

    def drop(self) -> None:
        """Give the graph back: nobody holds the function any more.

        TensorFlow may still run graphs that hold the launch op, so one compilation stays possible.
        """
        self._is_dropped = True
        if self._was_compiled:
            self._captured = None

    def check(self, sizes: Sizes) -> None:
        """Raise ExecutionError if variables or lists of these sizes do not fit the signature."""
        for number in self._unlike(sizes):
            item = self._inputs[self._binding.parameters[number].input]
            if item.type.dtype in NOT_NUMBERS:
                raise _misfit(item, sizes[number])

    def _unlike(self, sizes: Sizes) -> list[int]:
        """Return the parameters that are of other sizes than the function was traced for."""
        shapes = [item.shape_of(self._inputs[item.input]) for item in self._binding.parameters]
        return [
            number
            for number, (given, wanted) in enumerate(zip(sizes, shapes, strict=True))
            if wanted is not None and not _fits(given, wanted)
        ]

    def compile(self, arguments: CallArguments) -> tuple[Compiled, Key]:
        """Return the function compiled for a call, and which calls may use it."""
        captured = self._captured
        if captured is None:
            raise ExecutionError(
                "the function is called with other ranks, sizes or values than before, but it was "
                "deleted and cannot be compiled again",
                hint="keep the tf.function as long as graphs and iterators that call it",
            )
        unlike = self._unlike(arguments.sizes)
        if unlike:
            compiled = self._for_other_sizes(captured, arguments, unlike)
        else:
            compiled = self._made(captured, self._compiler, arguments)
        self._was_compiled = True
        if self._is_dropped:
            self._captured = None
        return compiled, arguments.key()

    def _for_other_sizes(
        self, captured: CapturedFunction, arguments: CallArguments, unlike: Sequence[int]
    ) -> Compiled:
        """Compile for sizes that the function was not traced for: its ops may take them.

        What TensorFlow inferred of the shapes does not hold then; each op says what it takes.
        """
        shapes: dict[int, Shape] = {}
        for number in unlike:
            index = self._binding.parameters[number].input
            item, shapes[index] = self._inputs[index], arguments.sizes[number]
            reason = Reason("the function was traced for another shape")
            for axis in range(len(arguments.sizes[number])):
                arguments.size(number, axis, item.name, reason)
        reshaped = captured.without_shapes().with_input_shapes(shapes)
        try:
            return self._made(reshaped, self._compiler, arguments)
        except (UnsupportedError, VerifyError, ExecutionError) as error:
            item = self._inputs[self._binding.parameters[unlike[0]].input]
            why = error.diagnostic.message
            raise _misfit(item, arguments.sizes[unlike[0]], why) from error

    def forget_if_done(self, compiled: Compiled, key: Key) -> None:
        """Give the graph back if one program takes all calls of the shapes that it was made for."""
        captured = self._captured
        is_special = key.is_special or bool(key.varying)
        may_be_more = is_special or may_lack_room(compiled.program.info.run_errors)
        if captured is not None and not (may_be_more or self._has_open_sizes(captured)):
            self._captured = None

    def lower(self, arguments: CallArguments) -> Module:
        """Return the function's HLO for a call; nothing is compiled."""
        assert self._captured is not None, "what was compiled has its HLO"
        return self._made(self._captured, _lower, arguments).module

    def _made(
        self, captured: CapturedFunction, make: _Maker[_Made], arguments: CallArguments
    ) -> _Made:
        """Make something of the function for a call: for its sizes where open ones do not do."""
        # Beside TensorFlow's heap each collection is dear, and this makes many objects.
        with collector_paused():
            _check_results(captured, self._binding)
            name = _module_name(captured)
            unknown = self._unknown_shapes(arguments.sizes)
            shaped = captured.with_input_shapes(unknown) if unknown else captured
            # A module is changed when it is compiled, so it serves once.
            arguments.lowered, self._lowered = self._lowered, None
            arguments.digest, self._digest = self._digest, None
            if arguments.varying:
                try:
                    return make(shaped, self._binding, name, arguments)
                except (UnsupportedError, VerifyError):
                    arguments.specialise()
            try:
                return make(shaped, self._binding, name, arguments)
            except UnsupportedError as error:
                if arguments.exact is not None or not self._has_open_sizes(shaped):
                    raise
                arguments.fix_sizes(Reason(error.diagnostic.message))
                return make(shaped, self._binding, name, arguments)

    def _has_open_sizes(self, captured: CapturedFunction) -> bool:
        shapes = [item.shape_of(captured.inputs[item.input]) for item in self._binding.parameters]
        return any(shape is None or None in shape for shape in shapes)

    def _unknown_shapes(self, sizes: Sizes) -> Mapping[int, Shape]:
        """Return the shapes of inputs whose rank TensorFlow does not know."""
        known: dict[int, Shape] = {}
        for parameter, given in zip(self._binding.parameters, sizes, strict=True):
            item = self._inputs[parameter.input]
            if parameter.shape_of(item) is None:
                in_front = 1 if item.type.dtype == "variant" else 0
                open_sizes = (None,) * (len(given) - in_front)
                # The elements of lists in a list take part in loops: their sizes must be numbers.
                known[parameter.input] = given[1:] if item.of_lists else open_sizes
        return known


def _fits(given: tuple[int, ...], wanted: tuple[int | None, ...]) -> bool:
    return len(given) == len(wanted) and all(
        size is None or size == have for have, size in zip(given, wanted, strict=True)
    )


def _shape_text(shape: tuple[int | None, ...]) -> str:
    return "[" + ", ".join("?" if size is None else str(size) for size in shape) + "]"


def _misfit(item: CapturedInput, given: tuple[int, ...], *notes: str) -> ExecutionError:
    assert item.parameter_shape is not None, "what has no shape takes all"
    return ExecutionError(
        f"input '{item.name}' has shape {list(given)}, but the function was traced "
        f"for {_shape_text(item.parameter_shape)}",
        op_name=item.name,
        hint=_VARIABLE_HINT if item.is_variable else _ARGUMENT_HINT,
        notes=notes,
    )


def _check_results(captured: CapturedFunction, binding: Binding) -> None:
    """Raise UnsupportedError for an output that no compiled program can give."""
    nodes = {node.name: node for node in captured.nodes}
    for result in binding.results:
        if result.output is None:
            continue
        dtype = captured.output_types[result.output].dtype
        is_list = _is_list(captured.output_handles[result.output])
        is_seen = result.output in captured.lists_of_lists and result.output < captured.shown
        if dtype not in NOT_NUMBERS or (is_list and not is_seen):
            continue
        what = "list of lists" if is_list else f"{dtype} tensor"
        made = nodes.get(captured.outputs[result.output].node)
        while made is not None and made.op == "Identity":
            made = nodes.get(made.inputs[0].node)
        raise UnsupportedError(
            f"output {result.output} of the function is a {what}, which compiled code cannot make",
            op_type="" if made is None else made.op,
            op_name=captured.outputs[result.output].node if made is None else made.name,
            location=None if made is None else made.location,
            hint="move this part out of the function with jit_compile=True",
        )


def _is_list(handle: TensorType | None) -> bool:
    """Whether a variant is a TensorList of numbers."""
    return handle is not None and handle.dtype not in NOT_NUMBERS


def compile_with_ingot(
    captured: CapturedFunction, binding: Binding, name: str, arguments: CallArguments
) -> Compiled:
    """Find the program on the disk, or lower and compile; the real `Compiler`."""
    digest = arguments.digest
    if digest is None or digest.captured is not captured:
        digest = GraphDigest.of(captured, binding)
    stored_name = digest.name
    sizes = arguments.sizes

    def module() -> Module:
        return _lower(captured, binding, name, CallArguments(sizes)).module

    found = stored_programs.find(stored_name, name, arguments, module)
    if found is not None:
        return found
    made = _lower(captured, binding, name, arguments).module
    shapes = made.parameter_shapes
    if not stored_name or arguments.computed or not arguments.fit(made):
        return compile_module(made, is_final=True)
    compiled = find_or_compile(made, "cpu", current_xla_flags())
    stored_programs.keep(stored_name, compiled, shapes)
    return compiled


def compiler_for(device: str) -> Compiler:
    """Return the compiler for a device; a program of a GPU takes and gives tensors of the host.

    Raises:
        ArgumentError: INGOT0513, it names no device.
        UnsupportedError: INGOT0324, there is no driver of GPUs.
    """
    if device == "cpu":
        return compile_with_ingot
    from ingot.client.executables.gpu_executable import device_named

    gpu = device_named(device)
    if gpu is None:
        return compile_with_ingot

    def compile_for_gpu(
        captured: CapturedFunction, binding: Binding, name: str, arguments: CallArguments
    ) -> Compiled:
        from ingot.client.executables.gpu_executable import GpuExecutable
        from ingot.client.executables.gpu_hosted import HostedExecutable
        from ingot.client.executables.gpu_staged import GpuStagedExecutable

        module = _lower(captured, binding, name, arguments).module
        found = compile_module(module, device=device, is_final=True)
        assert isinstance(found, GpuExecutable | GpuStagedExecutable), "the device is a GPU"
        return HostedExecutable(found)

    return compile_for_gpu


def _lower(
    captured: CapturedFunction, binding: Binding, name: str, arguments: CallArguments
) -> LoweredFunction:
    with importing():
        from ingot.frontends.tensorflow.lowering import lower

    known, arguments.lowered = arguments.lowered, None
    if known is not None and known.captured is captured and arguments.fit(known.module):
        return known
    return lower(captured, binding, name, arguments)


def _module_name(captured: CapturedFunction) -> str:
    return re.sub(r"[^A-Za-z0-9_.]", "_", captured.name)


def preload() -> None:
    """Import the compiler now if a first call cannot find its program on the disk.

    XLA's compiler is in the process too when TensorFlow is; the first call does not wait for it.
    """
    if not stored.is_used():
        with importing():
            importlib.import_module("ingot.frontends.tensorflow.lowering")
            importlib.import_module("ingot.client.compilation")

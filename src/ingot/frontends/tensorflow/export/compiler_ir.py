# SPDX-License-Identifier: Apache-2.0
"""Compiled code for inspection: `experimental_get_compiler_ir`, and all executables by name.

TensorFlow's method asks its own XLA for HLO; the patched one answers for functions that Ingot
compiles, with TensorFlow's names of the stages. Further stages are those of `Executable.as_text`.

Invariant: a stage whose name ends with `_serialized` is bytes, as TensorFlow's is; others are text.
Writers of formats (`ir_forms`) are imported when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, cast

from ingot.client.options import Stage
from ingot.frontends.tensorflow.api.errors import status_error, status_of
from ingot.frontends.tensorflow.api.modules import dtypes, function_type_utils, nest, tensorflow
from ingot.frontends.tensorflow.compiler import FunctionCompiler, compile_with_ingot
from ingot.frontends.tensorflow.functions.replacement import (
    Replacement,
    live_replacement,
    live_replacements,
)
from ingot.frontends.tensorflow.launches.launch import Compiled, Launch
from ingot.frontends.tensorflow.launches.launch_writer import Program
from ingot.frontends.tensorflow.variants.specialisation import CallArguments, Reader, Reason, Sizes
from ingot.hlo.module import Module
from ingot.hlo.opset.structural import IndexAttributes
from ingot.support.diagnostics import ExecutionError

Inputs = tuple[Any, ...]
"""Tensors or TensorSpecs for the inputs of a function, or nothing where they are not known."""

_HANDLES = (dtypes.resource, dtypes.variant)
STAGES: dict[str, Stage] = {"hlo": "hlo_before", "optimized_hlo": "hlo"}
"""TensorFlow's stage -> `Executable.as_text`'s."""


def executables() -> dict[str, tuple[Compiled, ...]]:
    """Return what was compiled so far, by the name TensorFlow gave the function.

    A function that TensorFlow runs in part has an entry for each of its programs, and so has each
    cluster of other graphs.
    A function has an executable per combination of ranks that it was called with, and per value
    of the arguments that it is specialised on: see `specialisations`.
    """
    return {
        name: tuple(compiled for compiled, _ in launch.variants)
        for name, launch in _named_launches()
        if launch.variants
    }


def specialisations() -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return what each of the `executables` is specialised on, a line per value or size.

    A line names the argument, its value, and the op and the user's line that need it at compile
    time. An executable without lines fits every call of its ranks.
    """
    return {
        name: tuple(key.explain() for _, key in launch.variants)
        for name, launch in _named_launches()
        if launch.variants
    }


def _named_launches() -> Iterator[tuple[str, Launch]]:
    """Yield the launches of every function that TensorFlow still holds, and of clusters."""
    for item in live_replacements():
        for program in item.programs:
            yield program.function.name, program.launch
    from ingot.frontends.tensorflow.clustering.optimizer import clusters

    for launch in clusters():
        yield launch.name, launch


def get_compiler_ir(original: Any) -> Any:
    """Return the `Function.experimental_get_compiler_ir` that knows of Ingot's functions."""

    def experimental_get_compiler_ir(function: Any, *args: Any, **kwargs: Any) -> Any:
        if not function._jit_compile:
            return original(function, *args, **kwargs)
        concrete = function.get_concrete_function(*args, **kwargs)
        replacement: Replacement | None = getattr(
            concrete._inference_function, "ingot_replacement", None
        )
        if replacement is None:
            return original(function, *args, **kwargs)
        return _generator(replacement, _given(concrete, args, kwargs))

    return experimental_get_compiler_ir


def ir_of_concrete_function(original: Any) -> Any:
    """Return the `Context.get_compiler_ir` that knows of Ingot's functions."""

    def get_compiler_ir(
        runtime: Any,
        device_name: Any,
        platform_name: Any,
        function_name: Any,
        flat_args: Any,
        captured_inputs: Any,
        stage: str = "hlo",
    ) -> bytes:
        name = function_name.decode() if isinstance(function_name, bytes) else function_name
        replacement = live_replacement(name)
        if replacement is None:
            return original(
                runtime,
                device_name,
                platform_name,
                function_name,
                flat_args,
                captured_inputs,
                stage,
            )
        made = _generator(replacement, (*flat_args, *captured_inputs))(stage)
        return made.encode() if isinstance(made, str) else made

    return get_compiler_ir


def _given(concrete: Any, args: Any, kwargs: Any) -> Inputs:
    """Return what stands for the inputs of a function: tensors, or nothing where specs are given.

    Raises:
        TypeError: a tensor is symbolic, and what it holds may decide what is compiled.
    """
    if any(isinstance(item, tensorflow.TensorSpec) for item in nest.flatten((args, kwargs))):
        return ()
    kind = concrete.function_type
    bound = function_type_utils.canonicalize_function_inputs(args, kwargs, kind)
    given = (*kind.unpack_inputs(bound), *concrete.captured_inputs)
    symbolic = next((item for item in given if not hasattr(item, "numpy")), None)
    if symbolic is not None:
        raise TypeError(
            f"experimental_get_compiler_ir takes eager tensors, and {symbolic} has no value: "
            "call it outside of a tf.function"
        )
    return given


def executables_of(concrete: Any) -> list[Compiled]:
    """Return the executables of a concrete function, compiling it if it never ran.

    Returns nothing for a function that Ingot does not compile.
    """
    replacement: Replacement | None = getattr(
        concrete._inference_function, "ingot_replacement", None
    )
    return [] if replacement is None else [_compiled(item, ()) for item in replacement.programs]


def _generator(replacement: Replacement, inputs: Inputs) -> Callable[..., str | bytes]:
    def compiler_ir(
        stage: str = "hlo", device_name: str | None = None, platform_name: str | None = None
    ) -> str | bytes:
        """Return the function's code at a stage: text, or bytes of a serialized stage."""
        from ingot.formats.hlo_text import parse
        from ingot.frontends.tensorflow.export.ir_forms import FORMS

        del device_name, platform_name  # there is one target, this machine's CPU
        programs = replacement.programs
        # A part of a function has other inputs than the function.
        given = () if replacement.is_cut else inputs
        if stage not in FORMS:
            return "\n\n".join(_text(item, stage, given) for item in programs)
        source, form = FORMS[stage]
        made = [form(parse(_text(item, source, given))) for item in programs]
        if len(made) == 1:
            return made[0]
        texts = [item for item in made if isinstance(item, str)]
        if len(texts) == len(made):
            return "\n\n".join(texts)
        raise ExecutionError(
            f"the function is {len(made)} programs, and '{stage}' holds one",
            hint=f"take a stage of text, '{source}'",
        )

    return compiler_ir


def _text(program: Program, stage: str, inputs: Inputs) -> str:
    """Return a program's code; HLO as XLA prints it for TensorFlow, with the operands' shapes."""
    from ingot.formats.hlo_text import parse, print_module

    if stage == "hlo" and (inputs or not program.launch.variants):
        module = _lowered(program, inputs)
    else:
        # A name that is no stage is refused there, with those that are.
        name = cast("Stage", STAGES.get(stage, stage))
        text = _compiled(program, inputs).as_text(name, operand_shapes=True)
        if stage not in STAGES or len(program.binding.results) != 1 or not _is_module(text):
            return text
        module = parse(text)
    return print_module(_without_tuple(module, stage), with_operand_shapes=True)


def _is_module(text: str) -> bool:
    """Whether it is one module: a program in stages is several."""
    return text.startswith("HloModule") and "\nHloModule" not in text


def _without_tuple(module: Module, stage: str) -> Module:
    """Return a module whose single result is in no tuple, as XLA compiles for TensorFlow."""
    entry, root = module.entry, module.entry.root
    if root.opcode != "tuple" or len(root.operands) != 1:
        return module
    (result,) = root.operands
    if stage == "hlo":
        result = entry.add("get-tuple-element", (root,), IndexAttributes(0))
    entry.set_root(result)
    if stage != "hlo":
        entry.remove(root)
        order = module.schedule.get(entry, [])
        module.schedule[entry] = [item for item in order if item is not root]
    module.aliases = tuple(replace(item, output=item.output[1:]) for item in module.aliases)
    return module


def _lowered(program: Program, inputs: Inputs) -> Module:
    """Return the HLO of a program for the sizes of some inputs, or for all; nothing is compiled."""
    compiler = FunctionCompiler(program.function, program.binding, compile_with_ingot)
    exact = Reason("size of the inputs that the code is asked for") if inputs else None
    sizes, read = _sizes(program, inputs), _reader(program, inputs)
    # Arguments without a known value may have any: the program computes sizes that depend on them.
    is_open = not any(hasattr(item, "numpy") for item in inputs)
    varying = frozenset(range(len(sizes) if is_open else 0))
    try:
        return compiler.lower(CallArguments(sizes, read, exact, varying=varying))
    except Exception as error:
        raise status_error(*status_of(error, program.function.name)) from error


def _compiled(program: Program, inputs: Inputs) -> Compiled:
    """Return the executable of a program for some inputs, or the latest; it is made if need be."""
    launch = program.launch
    if launch.variants and not inputs:
        return launch.variants[-1][0]
    sizes, read = _sizes(program, inputs), _reader(program, inputs)
    report = launch.compile_for(sizes, read)
    if report is not None:
        raise status_error(*report)
    return launch.find(sizes, read)[0]


def _sizes(program: Program, inputs: Inputs) -> Sizes:
    """Return the sizes of a program's parameters; any number stands for one that is not known."""
    found: list[tuple[int, ...]] = []
    for item in program.binding.parameters:
        shape = item.shape_of(program.function.inputs[item.input])
        given = inputs[item.input] if item.input < len(inputs) else None
        if given is not None and not item.is_lengths and given.shape.rank is not None:
            shape = tuple(given.shape) if given.dtype not in _HANDLES else shape
        if shape is None:
            raise ExecutionError(
                "the ranks of the function's inputs are not known",
                hint="call the function once, then ask for its code",
            )
        found.append(tuple(1 if size is None else size for size in shape))
    return tuple(found)


def _reader(program: Program, inputs: Inputs) -> Reader | None:
    """Return what reads the values of a program's parameters."""

    def read(parameter: int, count: int) -> bytes | None:
        item = program.binding.parameters[parameter]
        given = inputs[item.input] if item.input < len(inputs) else None
        if given is not None and given.dtype == dtypes.resource:
            handle = program.function.inputs[item.input].handle
            assert handle is not None, "a parameter is a variable's value"
            given = tensorflow.raw_ops.ReadVariableOp(
                resource=given, dtype=dtypes.as_dtype(handle.dtype)
            )
        if given is None or not hasattr(given, "numpy"):
            return None
        data = given.numpy().tobytes()
        return data if len(data) == count else None

    return read if inputs else None

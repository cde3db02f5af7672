# SPDX-License-Identifier: Apache-2.0
"""What was compiled, for people: `experimental_get_compiler_ir`, and all executables by name.

TensorFlow's method asks its own XLA for HLO; the patched one answers for functions that Ingot
compiles, with TensorFlow's names of the stages. Further stages are those of `Executable.as_text`.

Invariant: a stage whose name ends with `_serialized` is bytes, as TensorFlow's is; others are text.
Writers of formats (`ir_forms`) are imported when somebody asks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

from ingot.client.options import Stage
from ingot.frontends.tensorflow.compiler import FunctionCompiler, compile_with_ingot
from ingot.frontends.tensorflow.errors import status_error, status_of
from ingot.frontends.tensorflow.launch import Compiled, Launch
from ingot.frontends.tensorflow.launch_writer import Program
from ingot.frontends.tensorflow.replacement import Replacement, live_replacements
from ingot.frontends.tensorflow.specialisation import CallArguments, Sizes
from ingot.hlo.module import Module
from ingot.support.diagnostics import ExecutionError

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
        return _generator(replacement)

    return experimental_get_compiler_ir


def executables_of(concrete: Any) -> list[Compiled]:
    """Return the executables of a concrete function, compiling it if it never ran.

    Returns nothing for a function that Ingot does not compile.
    """
    replacement: Replacement | None = getattr(
        concrete._inference_function, "ingot_replacement", None
    )
    return [] if replacement is None else [_compiled(item) for item in replacement.programs]


def _generator(replacement: Replacement) -> Callable[..., str | bytes]:
    def compiler_ir(
        stage: str = "hlo", device_name: str | None = None, platform_name: str | None = None
    ) -> str | bytes:
        """Return the function's code at a stage: text, or bytes of a serialized stage."""
        from ingot.formats.hlo_text import parse
        from ingot.frontends.tensorflow.ir_forms import FORMS

        del device_name, platform_name  # there is one target, this machine's CPU
        programs = replacement.programs
        if stage not in FORMS:
            return "\n\n".join(_text(item, stage) for item in programs)
        source, form = FORMS[stage]
        made = [form(parse(_text(item, source))) for item in programs]
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


def _text(program: Program, stage: str) -> str:
    """Return a program's code; HLO as XLA prints it for TensorFlow, with the operands' shapes."""
    if stage == "hlo" and not program.launch.variants:
        from ingot.formats.hlo_text import print_module

        return print_module(_lowered(program), with_operand_shapes=True)
    # A name that is no stage is refused there, with those that are.
    name = cast("Stage", STAGES.get(stage, stage))
    return _compiled(program).as_text(name, operand_shapes=True)


def _lowered(program: Program) -> Module:
    """Return the HLO of a program that was never compiled."""
    compiler = FunctionCompiler(program.function, program.binding, compile_with_ingot)
    try:
        return compiler.lower(CallArguments(_any_sizes(program)))
    except Exception as error:
        raise status_error(*status_of(error, program.function.name)) from error


def _compiled(program: Program) -> Compiled:
    """Return an executable of a program, compiling it if it never ran."""
    launch = program.launch
    if not launch.variants:
        report = launch.compile_for(_any_sizes(program))
        if report is not None:
            raise status_error(*report)
    return launch.variants[-1][0]


def _any_sizes(program: Program) -> Sizes:
    """Return sizes that the function takes; any number stands for a size that stays symbolic."""
    inputs = program.function.inputs
    shapes = [item.shape_of(inputs[item.input]) for item in program.binding.parameters]
    known = [shape for shape in shapes if shape is not None]
    if len(known) != len(shapes):
        raise ExecutionError(
            "the ranks of the function's inputs are not known",
            hint="call the function once, then ask for its code",
        )
    return tuple(tuple(1 if size is None else size for size in shape) for shape in known)

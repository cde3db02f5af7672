# SPDX-License-Identifier: Apache-2.0
"""`ingot.explain`: from a function of any front end, or a module, to its report.

The front ends return the executables of a function (TensorFlow), or StableHLO that is compiled here
(JAX); `ingot.viz` makes the report. A framework is imported only if the program has imported it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import partial
from typing import Any, cast

from ingot.analysis.network.description import Network
from ingot.client.compile import compile
from ingot.client.executables.executable import Executable
from ingot.client.executables.staged import StagedExecutable
from ingot.client.options import ProgramLike
from ingot.client.partition import module_of_device
from ingot.hlo.module import Module
from ingot.support.diagnostics import ArgumentError, UnsupportedError
from ingot.support.observing import observed
from ingot.viz.gather import report_of
from ingot.viz.report import Report


def explain(
    program: Any, *args: Any, network: str | Network | None = None, **kwargs: Any
) -> Report:
    """Return a report on the compilation of a program, with reasons.

    Args:
        program: a module, HLO or StableHLO as text or bytes, or a path; an executable; a
            `tf.function` with `jit_compile=True`; a Keras model; a function of `jax.jit`, or the
            result of its `lower`; a module of PyTorch, or the result of `torch.compile`.
        args: for a module or an executable, its flattened arguments: it is run on them to time the
            kernels. For a function or a model, its arguments, which determine the shapes; it is
            compiled, not run, except by PyTorch, which compiles while it runs.
        network: a network of as many devices as the program is divided among, as text
            (`analysis.network.description`): the report then says what an execution on it would
            cost. The devices need not exist.
        kwargs: keyword arguments of a function.

    Raises:
        ArgumentError: INGOT0513, it is none of these, or the network does not fit.
        UnsupportedError: INGOT0363, it was not compiled by Ingot, or cannot be.
    """
    described = Network.parse(network) if isinstance(network, str) else network
    if isinstance(program, (Module, str, bytes, os.PathLike)):
        program = compile(module_of_device(cast("ProgramLike", program)))
    if isinstance(program, (Executable, StagedExecutable)):
        if kwargs:
            raise ArgumentError("a module takes no arguments by name", hint="give them in order")
        return report_of([program], args or None, network=described)
    with observed() as observations:
        executables = _of_framework(program, args, kwargs)
    return report_of(executables, observations=observations, network=described)


def _of_framework(
    program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Sequence[Executable | StagedExecutable]:
    """Return the executables of a framework's object."""
    if hasattr(program, "get_concrete_function"):
        return _of_tensorflow(program, args, kwargs)
    torch: Any = sys.modules.get("torch")
    if torch is not None and (
        isinstance(program, torch.nn.Module) or hasattr(program, "_torchdynamo_orig_callable")
    ):
        return _of_torch(torch, program, args, kwargs)
    keras: Any = sys.modules.get("keras")
    if keras is not None and isinstance(program, keras.Model):
        return _of_model(program, args, kwargs)
    lower: Any = getattr(program, "lower", None)
    if lower is not None and callable(program):
        program = lower(*args, **kwargs)
    if hasattr(program, "compiler_ir") and hasattr(program, "as_text"):
        return [compile(module_of_device(program.as_text(debug_info=True)))]
    raise ArgumentError(
        f"the program is of type {type(program).__name__}, which explain cannot compile",
        hint="give HLO, a path, a tf.function with jit_compile=True, a Keras model, jax.jit(f), "
        "or a module of PyTorch",
    )


def _of_torch(
    torch: Any, program: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Sequence[Executable | StagedExecutable]:
    """Return the programs that a call of a module, or of a compiled function, compiles."""
    from ingot.frontends.torch.backend import ingot
    from ingot.frontends.torch.graphs import recorded_graphs

    original = getattr(program, "_torchdynamo_orig_callable", program)
    with recorded_graphs() as found:
        # A separate backend, so that PyTorch does not reuse earlier compilations.
        torch.compile(original, backend=partial(ingot))(*args, **kwargs)
    if not found:
        raise UnsupportedError(
            "no part of the module was compiled",
            code="INGOT0363",
            hint="give it the arguments that it is called with",
        )
    return [executable for graph in found for executable in graph.executables]


def _of_tensorflow(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Sequence[Executable | StagedExecutable]:
    from ingot.frontends.tensorflow.export.compiler_ir import executables_of

    concrete = function.get_concrete_function(*args, **kwargs)
    found = executables_of(concrete)
    if not found:
        raise UnsupportedError(
            f"Ingot did not compile the tf.function {os.fsdecode(concrete.name)}",
            code="INGOT0363",
            hint="call ingot.tensorflow.enable() first, and give tf.function(jit_compile=True)",
        )
    return cast("Sequence[Executable | StagedExecutable]", found)


def _of_model(
    model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Sequence[Executable | StagedExecutable]:
    """Return the executables of `model(*args)`."""
    tensorflow: Any = sys.modules.get("tensorflow")
    if tensorflow is None or model.__class__.__module__.startswith("tf_keras"):
        raise UnsupportedError(
            f"the model {model.name} does not run on TensorFlow",
            code="INGOT0363",
            hint="use Keras with its TensorFlow backend, or explain jax.jit of the model's call",
        )

    def call(*inputs: Any, **named: Any) -> Any:
        return model(*inputs, **named)

    call.__name__ = model.name
    return _of_tensorflow(tensorflow.function(call, jit_compile=True), args, kwargs)

# SPDX-License-Identifier: Apache-2.0
"""The self-test of direct access to variables: a small program on real variables, once.

It runs where the first function with variables is registered, because only then TensorFlow's
context is sure to exist (making it earlier would freeze the user's device settings). That it went
well is kept on the disk beside the programs: a later process with the same files of TensorFlow and
of Ingot does not repeat it.

Invariant: whatever goes wrong here switches direct access off; it never reaches the user, and is
not kept.
"""

from __future__ import annotations

import logging
from functools import cache
from pathlib import Path
from typing import Any

from ingot.artifact.abi import OutputInfo, ParamInfo, ProgramInfo
from ingot.client import stored
from ingot.frontends.tensorflow.api import capi
from ingot.frontends.tensorflow.api.modules import (
    context,
    execute,
    ops,
    resource_variable_ops,
    tensorflow,
)
from ingot.frontends.tensorflow.graphs.graph_digest import SOURCES
from ingot.frontends.tensorflow.graphs.variable_access import layout_problem
from ingot.frontends.tensorflow.launches.launch import Compiled, Launch, VariableInput
from ingot.frontends.tensorflow.launches.launch_op import PROCESS_MARK, STATEFUL_LAUNCH_OP
from ingot.frontends.tensorflow.variants.specialisation import CallArguments, Key, Sizes
from ingot.llvm.builder import ModuleBuilder
from ingot.llvm.jit import compile_object
from ingot.llvm.linking import link_object
from ingot.llvm.target import TargetSpec
from ingot.llvm.types import F32, I32, I64, PTR
from ingot.runtime.programs.program import Program
from ingot.support.records import record
from ingot.support.sources import sources_stamp

_logger = logging.getLogger("ingot.tensorflow")
_SIZE = 16
_LIBRARIES = (capi.FRAMEWORK, capi.CORE)
"""The files of TensorFlow that have the code of variables."""


@cache
def is_available() -> bool:
    """Whether direct access works here; logs the reason if not."""
    if layout_problem() is not None:
        return False
    name = _entry_name()
    if stored.read(name) is not None:
        return True
    try:
        # In a graph of TensorFlow 1 the scope alone stays in the graph.
        with ops.init_scope(), context.eager_mode(), tensorflow.device("CPU:0"):
            problem = _find_problem()
    except Exception as error:  # any failure means: do not use it
        problem = repr(error)
    if problem is not None:
        _logger.info("variables are read and written by TensorFlow's own ops: %s", problem)
    else:
        stored.write(name, b"good")
    return problem is None


def _entry_name() -> str:
    """Return the name under which success is kept; empty if it is not."""
    stamp = sources_stamp(SOURCES) if stored.is_used() else ""
    folder = Path(tensorflow.__file__).parent
    try:
        files = [(folder / name).stat() for name in _LIBRARIES]
    except OSError:
        return ""
    facts = [(item.st_size, item.st_mtime_ns) for item in files]
    parts = ("variables", tensorflow.__version__, stamp, repr(facts))
    return stored.entry_name(*parts) if stamp else ""


@record
class _Compiled:
    """The program of the self-test."""

    program: Program

    def as_text(self, stage: str, *, operand_shapes: bool = False) -> str:
        """Say what it is."""
        del operand_shapes
        return f"{stage}: the self-test of variables"


class _TestCompiler:
    """Gives the program `variable + read -> variable`."""

    def check(self, sizes: Sizes) -> None:
        """Accept all."""

    def compile(self, arguments: CallArguments) -> tuple[Compiled, Key]:
        """Return the program."""
        module = ModuleBuilder("ingot_variable_test")
        sizes_function = module.function(
            "variable_test_sizes", I32, [("dims", PTR), ("sizes", PTR)]
        )
        slots = sizes_function.params[1]
        for at, value in enumerate((0, 4 * _SIZE, _SIZE)):
            sizes_function.store(
                sizes_function.const(I64, value), sizes_function.gep(slots, at, I64)
            )
        sizes_function.ret(sizes_function.const(I32, 0))
        names = ("runtime", "inputs", "outputs", "temp", "sizes", "constants")
        f = module.function("variable_test_run", I32, [(name, PTR) for name in names])
        read = f.load(PTR, f.params[1])
        old = f.load(PTR, f.gep(f.params[1], 1, PTR))
        new = f.load(PTR, f.params[2])

        def add(index: Any) -> None:
            left, right = (f.load(F32, f.gep(base, index, F32)) for base in (read, old))
            f.store(f.add(left, right), f.gep(new, index, F32))

        f.for_range(_SIZE, add)
        f.ret(f.const(I32, 0))
        library = link_object([compile_object(module.text(), TargetSpec.host())])
        param = ParamInfo("f32", (_SIZE,))
        result = OutputInfo("f32", (_SIZE,), alias_param=1)
        info = ProgramInfo("variable_test", (param, param), (result,))
        return _Compiled(Program.from_library(info, library)), arguments.key()


def _find_problem() -> str | None:
    kind = int(tensorflow.float32.as_datatype_enum)
    rows = (VariableInput(0, -1, (_SIZE,), kind), VariableInput(1, 0, (_SIZE,), kind))
    launch = Launch("variable_test", 2, (), _TestCompiler(), rows)
    read, written = (
        # Not tf.Variable: the variable creators of a strategy or a trace must not see these.
        resource_variable_ops.ResourceVariable(tensorflow.ones([_SIZE]), trainable=False)
        for _ in range(2)
    )
    resource = int(tensorflow.resource.as_datatype_enum)
    numbers = ("process", PROCESS_MARK, "launch", launch.address)
    attributes: tuple[Any, ...] = ("Tin", [resource, resource], "Tout", [], *numbers)

    def step() -> float:
        inputs = [read.handle, written.handle]
        execute.execute(STATEFUL_LAUNCH_OP, 0, inputs, attributes, context.context())
        values = written.numpy()
        return float(values[0]) if (values == values[0]).all() else -1.0

    if step() != 2.0:
        return "a variable did not get its new value"
    held = written.read_value()
    if step() != 3.0 or float(held[0]) != 2.0:
        return "a value that was read before changed"
    del held
    if step() != 4.0 or float(read[0]) != 1.0:
        return "a second write went wrong"
    return None

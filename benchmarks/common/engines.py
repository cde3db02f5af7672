# SPDX-License-Identifier: Apache-2.0
"""The engines: Ingot and XLA, on the HLO that JAX makes and inside TensorFlow.

An engine has one program at a time and lives in a process of its own (`worker`), so that no
thread pool stands in another's way.
`compile_once` compiles from nothing what was loaded and returns the seconds: XLA from lowered HLO
to executable, Ingot from the parsed module to executable, TensorFlow the first call, less what a
second one takes.

What is installed is there before: XLA's libraries (Eigen, oneDNN, DUCC, sorts) as well as Ingot's
own, whose parts are made of the same IR as any kernel, compiled when a program first needs them on
a machine and kept on disk (`ingot.cpu.library`). Everything else is compiled anew each time.

Inputs lie as each engine lays its own arrays: XLA and TensorFlow take copies, Ingot gets NumPy
arrays at the alignment of its results.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from benchmarks.common.programs import Program

ALIGNMENT = 64
"""Bytes; Ingot's results begin at multiples of it."""


class Engine(Protocol):
    """What a worker needs of an engine."""

    def load(self, program: Program, hlo: str) -> str:
        """Get ready to run a program; return its HLO text if this engine makes it."""
        ...

    def compile_once(self) -> float:
        """Compile the loaded program from nothing; return the seconds."""
        ...

    def run(self) -> Any:
        """Call the program once and wait for its results."""
        ...

    def results(self) -> list[np.ndarray]:
        """Return the program's results."""
        ...


_WARM_UP = """\
HloModule warm_up

ENTRY main {
  x = f32[8] parameter(0)
  ROOT y = f32[8] add(x, x)
}
"""


class IngotEngine:
    """Ingot, called with NumPy arrays; it gives NumPy arrays.

    `library_seconds` is what the library's parts took so far, which a machine pays once: here they
    are made in each process, and programs' first compilations wait for them.
    """

    def __init__(self) -> None:
        """Compile something, so that no program pays for the imports and for starting LLVM."""
        import ingot
        from ingot.client import clear_caches, load_library

        self._clear_caches = clear_caches
        self._parse = ingot.parse_hlo
        self._compile: Callable[[Any], Any] = ingot.compile
        self._compile(self._parse(_WARM_UP)).call(np.zeros(8, np.float32))
        self.library_seconds = _seconds(load_library)

    def load(self, program: Program, hlo: str) -> str:
        """Parse the HLO that JAX lowered the program to; load the parts of the library it needs."""
        self._module = self._parse(hlo)
        self._inputs = [_aligned(value) for value in program.inputs()]
        first = _seconds(lambda: self._compile(self._module))
        self.library_seconds += max(0.0, first - self.compile_once())
        return ""

    def compile_once(self) -> float:
        """Compile with empty caches."""
        self._clear_caches()
        start = time.perf_counter()
        self._compile(self._module)
        return time.perf_counter() - start

    def run(self) -> Any:
        """Call the executable."""
        return self._call(*self._inputs)

    def results(self) -> list[np.ndarray]:
        """Compile and run."""
        self._call = self._compile(self._module).call
        return _as_list(self.run())


class JaxEngine:
    """jaxlib's XLA:CPU through `jax.jit`."""

    def __init__(self) -> None:
        """Compile something, so that no program pays for starting XLA."""
        import jax

        from benchmarks.ops import every_op_functions, jax_ops, jax_programs

        self._jax = jax
        self._functions = {
            "Every op": every_op_functions.FUNCTIONS,
            "": jax_programs.FUNCTIONS | jax_ops.FUNCTIONS,
        }
        jax.block_until_ready(jax.jit(lambda x: x + x)(np.zeros(8, np.float32)))

    def load(self, program: Program, hlo: str) -> str:
        """Lower the program and return its HLO text."""
        jax = self._jax
        tables = self._functions
        self._function = tables.get(program.section, tables[""])[program.function]
        self._inputs = [jax.device_put(value) for value in program.inputs()]
        self._jit = jax.jit(self._function)
        return self._jit.lower(*self._inputs).compiler_ir("hlo").as_hlo_text()

    def compile_once(self) -> float:
        """Compile what was lowered."""
        self._jax.clear_caches()
        lowered = self._jax.jit(self._function).lower(*self._inputs)
        start = time.perf_counter()
        lowered.compile()
        return time.perf_counter() - start

    def run(self) -> Any:
        """Call the function and wait."""
        return self._jax.block_until_ready(self._jit(*self._inputs))

    def results(self) -> list[np.ndarray]:
        """Run."""
        return _as_list(self.run())


class TensorflowEngine:
    """TensorFlow's XLA through `tf.function(jit_compile=True)`."""

    def __init__(self) -> None:
        """Compile something, so that no program pays for starting XLA."""
        import tensorflow as tf

        from benchmarks.ops.tensorflow_programs import FUNCTIONS

        self._tf = tf
        self._functions = FUNCTIONS
        tf.function(lambda x: x + x, jit_compile=True)(tf.zeros(8))

    def load(self, program: Program, hlo: str) -> str:
        """Make the inputs."""
        self._function = self._functions[program.function]
        self._inputs = [self._tf.constant(value) for value in program.inputs()]
        self._jit = self._fresh()
        return ""

    def _fresh(self) -> Any:
        function = self._function
        # A new Python function each time, so that no trace is reused.
        traced = self._tf.function(lambda *inputs: function(*inputs), jit_compile=True)
        traced.get_concrete_function(*self._inputs)
        return traced

    def compile_once(self) -> float:
        """Trace, then time the first call; less the second, which only runs."""
        jit = self._fresh()
        first, second = (_seconds(lambda: jit(*self._inputs)) for _ in range(2))
        return first - second

    def run(self) -> Any:
        """Call the function; TensorFlow's CPU calls are synchronous."""
        return self._jit(*self._inputs)

    def results(self) -> list[np.ndarray]:
        """Run."""
        return _as_list(self.run())


class IngotInTensorflowEngine(TensorflowEngine):
    """Ingot through `tf.function(jit_compile=True)`: the same functions after `enable()`."""

    def __init__(self) -> None:
        """Put Ingot in the place of TensorFlow's XLA."""
        import ingot.tensorflow
        from ingot.client import clear_caches, load_library

        ingot.tensorflow.enable()
        load_library()
        self._clear_caches = clear_caches
        super().__init__()

    def load(self, program: Program, hlo: str) -> str:
        """Make the inputs; load the parts of the library that the program needs."""
        super().load(program, hlo)
        self.run()
        return ""

    def compile_once(self) -> float:
        """Trace, then time the first call, with empty caches."""
        self._clear_caches()
        return super().compile_once()


def _aligned(array: np.ndarray) -> np.ndarray:
    """Return a copy that begins at a multiple of 64 bytes; NumPy's own begin anywhere."""
    room = np.empty(array.nbytes + ALIGNMENT, np.uint8)
    start = -room.ctypes.data % ALIGNMENT
    found = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


def _seconds(action: Callable[[], Any]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def _as_list(value: Any) -> list[np.ndarray]:
    values: Sequence[Any] = value if isinstance(value, (tuple, list)) else (value,)
    return [np.asarray(item) for item in values]


ENGINES: dict[str, type[Engine]] = {
    "Ingot": IngotEngine,
    "XLA": JaxEngine,
    "TF Ingot": IngotInTensorflowEngine,
    "TF XLA": TensorflowEngine,
}

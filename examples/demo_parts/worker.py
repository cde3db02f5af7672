# SPDX-License-Identifier: Apache-2.0
"""Workers of the demo: one process per engine, with the examples as its programs."""

from __future__ import annotations

from statistics import median
from typing import Any

from benchmarks.common.process import Stopwatch, WorkerProcess

ENGINES = ("Ingot", "TensorFlow", "XLA")
"""Compiled by Ingot; not compiled; compiled by TensorFlow's own XLA."""

_SHORTEST_BATCH = 1e-3
"""Seconds: shorter steps are timed several at a time."""


class Worker(WorkerProcess):
    """The main process's handle of a worker process."""

    def __init__(self, engine: str) -> None:
        """Start the process."""
        self.engine = engine
        super().__init__(engine, Actions, (engine,), quiet=True)


class Actions:
    """What a worker can be told to do."""

    def __init__(self, engine: str) -> None:
        """Switch Ingot on if it is the engine."""
        self._engine = engine
        self._program: Any = None
        self._watch: Stopwatch | None = None

    def start(self) -> str:
        """Import everything; return TensorFlow's version."""
        if self._engine == "Ingot":
            import ingot.tensorflow
            from ingot.client import load_library

            ingot.tensorflow.enable()
            load_library()
        import tensorflow as tf

        from demo_parts import programs

        self._programs = programs.PROGRAMS
        # Whatever starts on the first compilation has started when the programs come.
        compiled = self._engine != "TensorFlow"
        tf.function(lambda x: x + x, jit_compile=compiled)(tf.zeros([8]))
        return tf.__version__

    def load(self, name: str) -> dict[str, float]:
        """Make a program and call it once; return the seconds of tracing and of the first call."""
        self._program = self._programs[name](self._engine != "TensorFlow")
        seconds = self._program.first_call()
        self._watch = Stopwatch(self._program.step, _SHORTEST_BATCH)
        return seconds

    def sample(self, budget: float) -> float:
        """Step for `budget` seconds; return the median seconds per step."""
        assert self._watch is not None, "programs are loaded before they are timed"
        return median(self._watch.sample(budget))

    def train(self) -> Any:
        """Run the whole program as the example does; return its `Outcome`."""
        return self._program.train()

    def facts(self) -> Any:
        """Return the `Facts` about what was compiled; Ingot's worker only."""
        from demo_parts import facts

        return facts.of(self._program.concrete)

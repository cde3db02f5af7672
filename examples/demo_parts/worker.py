"""Workers: one process per engine, told what to do through a pipe, so that engines can take turns.

A worker's standard output and error go to a file: TensorFlow is talkative while it starts. What it
said is shown only if the worker dies.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from statistics import median
from typing import Any

ENGINES = ("Ingot", "TensorFlow", "XLA")
"""Compiled by Ingot; not compiled; compiled by TensorFlow's own XLA."""

_SHORTEST_BATCH = 1e-3
"""Seconds: shorter steps are timed several at a time."""


class Worker:
    """The main process's handle of a worker process."""

    def __init__(self, engine: str) -> None:
        """Start the process."""
        self.engine = engine
        descriptor, path = tempfile.mkstemp(prefix=f"ingot-demo-{engine}-", suffix=".log")
        os.close(descriptor)
        self._log = Path(path)
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        arguments = (theirs, engine, path)
        self._process = context.Process(target=_serve, args=arguments, daemon=True)
        self._process.start()
        theirs.close()

    def tell(self, action: str, *arguments: Any) -> None:
        """Have the worker do something; `answer` gives what came out."""
        self._pipe.send((action, arguments))

    def answer(self) -> Any:
        """Return the result of what the worker was told.

        Raises:
            RuntimeError: the worker failed; the message is its traceback or its last words.
        """
        try:
            fine, answer = self._pipe.recv()
        except EOFError:
            words = self._log.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise RuntimeError(f"the worker '{self.engine}' died:\n{words}") from None
        if not fine:
            raise RuntimeError(f"{self.engine}:\n{answer}")
        return answer

    def ask(self, action: str, *arguments: Any) -> Any:
        """Have the worker do something and return the result."""
        self.tell(action, *arguments)
        return self.answer()

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(timeout=5)
        if self._process.is_alive():
            self._process.kill()
        self._log.unlink()


def _serve(pipe: Any, engine: str, log: str) -> None:
    """Answer the main process until it closes the pipe."""
    sys.stdout.flush()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    # Compile times shall be those of compiling, not of finding something in a cache.
    os.environ |= {"INGOT_CACHE": "0", "TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    actions = Actions(engine)
    while True:
        try:
            action, arguments = pipe.recv()
        except EOFError:
            os._exit(0)
        try:
            pipe.send((True, getattr(actions, action)(*arguments)))
        except Exception:
            pipe.send((False, traceback.format_exc()))


class Actions:
    """What a worker can be told to do."""

    def __init__(self, engine: str) -> None:
        """Switch Ingot on if it is the engine."""
        self._engine = engine
        self._program: Any = None
        self._batch = 1

    def start(self) -> str:
        """Import everything; return TensorFlow's version."""
        if self._engine == "Ingot":
            import ingot.tensorflow

            ingot.tensorflow.enable()
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
        while self._time_batch() < _SHORTEST_BATCH:
            self._batch *= 2
        return seconds

    def sample(self, budget: float) -> float:
        """Step for `budget` seconds; return the median seconds per step."""
        self._time_batch()
        end = time.perf_counter() + budget
        times = [self._time_batch()]
        while time.perf_counter() < end:
            times.append(self._time_batch())
        return median(times) / self._batch

    def train(self) -> Any:
        """Run the whole program as the example does; return its `Outcome`."""
        self._batch = 1
        return self._program.train()

    def facts(self) -> Any:
        """Return the `Facts` about what was compiled; Ingot's worker only."""
        from demo_parts import facts

        return facts.of(self._program.concrete)

    def _time_batch(self) -> float:
        step = self._program.step
        start = time.perf_counter()
        for _ in range(self._batch):
            step()
        return time.perf_counter() - start

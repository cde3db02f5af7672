# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.with_torch.whole`: whole models on PyTorch's kernels, inductor and Ingot.

For each row, step and number of threads every engine has a fresh process of its own, so that its
first call is cold and its peak memory is that of the row. The processes take turns. Results of the
first two calls are compared before anything is timed.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.process import take_cpus
from benchmarks.common.programs import Samples
from benchmarks.common.report import PAGES, as_text, machine
from benchmarks.common.whole import (
    KINDS,
    Measured,
    Runner,
    Side,
    Task,
    attempt,
    crew,
    failure_text,
    status_bytes,
    step_table,
    take_turns,
)
from benchmarks.common.whole_rows import keep
from benchmarks.with_torch.report import ENGINES, INDUCTOR, OURS, cost_table, page, sections

RESULTS = PAGES / "TORCH_RESULTS.md"
ROWS = Path(__file__).with_name("rows.json")
PACKAGES = ("ingot-compiler", "torch", "transformers", "diffusers", "timm", "torchvision")


def start(engine: str, threads: int) -> TorchRunner:
    """Take `threads` CPUs, then start PyTorch with `engine`."""
    take_cpus(threads)
    import torch

    torch.set_num_threads(threads)
    return TorchRunner(engine)


class TorchRunner(Runner):
    """PyTorch with one engine."""

    def __init__(self, engine: str) -> None:
        """Compile something, so that no row pays for starting the engine."""
        import torch

        super().__init__()
        self._torch = torch
        self._compiled: Callable[[Any], Any] = lambda function: function
        if engine in (INDUCTOR, OURS):
            self._compiled = lambda function: torch.compile(function, backend=engine.lower())
        # An LSTM is compiled, too.
        torch._dynamo.config.allow_rnn = True
        self._compiled(lambda x: (x * 2).sin())(torch.ones(8))
        torch._dynamo.reset()
        self._graphs_before = {graph.name for graph in self._graphs()}

    def load(self, name: str, kind: str, batch: int) -> None:
        """Build a row's step."""
        from benchmarks.with_torch.programs import WHOLE

        row = next(row for row in WHOLE if row.name == name)
        self._torch.manual_seed(0)
        self._model = row.make()
        inputs = row.inputs(batch, Samples())
        labels = inputs.pop("labels")
        given = {**inputs, "labels": labels} if row.labels_go_in else inputs
        if kind == "infer":
            self._infer(inputs)
        else:
            self._train(row, given, labels)
        self._before = status_bytes("VmRSS")

    def _infer(self, inputs: dict[str, Any]) -> None:
        torch = self._torch
        call = self._compiled(self._model.eval())

        def step() -> Any:
            with torch.no_grad():
                return call(**inputs)

        self._step = step

    def _train(self, row: Any, given: dict[str, Any], labels: Any) -> None:
        model = self._model.train()
        optimizer = row.optimizer(model.parameters())
        loss_of = self._compiled(lambda given, labels: row.loss(model(**given), labels))
        update = self._compiled(optimizer.step) if row.compiles_optimizer else optimizer.step

        def step() -> Any:
            optimizer.zero_grad()
            loss = loss_of(given, labels)
            loss.backward()
            update()
            return loss

        self._step = step

    def run(self) -> Any:
        """Run the loaded step once."""
        return self._step()

    def leaves(self, result: Any) -> list[np.ndarray]:
        """Return the tensors of a result, and the norms of the gradients, copied."""
        tensors = [
            leaf.detach().numpy()
            for leaf in self._torch.utils._pytree.tree_leaves(result)
            if isinstance(leaf, self._torch.Tensor)
        ]
        return [np.array(leaf) for leaf in (*tensors, *self._norms())]

    def _norms(self) -> list[list[float]]:
        """Return the norm of each parameter's gradient; nothing after inference."""
        found = [p.grad.norm().item() for p in self._model.parameters() if p.grad is not None]
        return [found] if found else []

    def _graphs(self) -> list[Any]:
        import ingot.torch

        return ingot.torch.compiled_graphs()

    def compiled(self) -> tuple[int, list[str]]:
        """Return how many programs Ingot compiled, and the ops that it left to PyTorch."""
        graphs = [graph for graph in self._graphs() if graph.name not in self._graphs_before]
        # Those that always run there, as random ones do, have no reason.
        ops = {op for graph in graphs for op, why in graph.host_ops if why}
        return sum(len(graph.executables) for graph in graphs), sorted(ops)


def tasks(names: list[str], kinds: list[str]) -> list[Task]:
    """Return what is measured: the steps of rows whose names have one of `names`."""
    from benchmarks.with_torch.programs import WHOLE

    return [
        Task(row.name, kind, row.batch, row.tolerance)
        for row in WHOLE
        if not names or any(name.lower() in row.name.lower() for name in names)
        for kind in row.kinds()
        if kind in kinds
    ]


def measure(task: Task, threads: int, rounds: int, budget: float) -> tuple[dict[str, Side], str]:
    """Compile, check and time one task; return what it took, and where inductor's results differ.

    Raises:
        ArithmeticError: Ingot's results differ.
        RuntimeError: an engine failed.
    """
    with tempfile.TemporaryDirectory(prefix="ingot-bench-inductor-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"] = "1"
        with crew(start, threads, ENGINES) as workers:
            sides, note = take_turns(task, workers, rounds, budget)
            sides[OURS].programs, sides[OURS].host = workers[OURS].ask("compiled")
    return sides, note


def write(row: Measured) -> None:
    """Write the file of rows and the page, with `row` in the place of the one that was there."""
    rows = keep(ROWS, row, tasks([], list(KINDS)))
    RESULTS.write_text(page(rows, machine(PACKAGES)[:2]), encoding="utf-8")


def main() -> int:
    """Run; return 1 if a row failed."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.with_torch.whole", description=__doc__
    )
    parser.add_argument("names", nargs="*", help="only rows whose names have one of these")
    parser.add_argument("--kinds", default=",".join(KINDS), help="infer, train or both (default)")
    parser.add_argument("--threads", default="1,2", help="numbers of threads (default: 1,2)")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each engine")
    parser.add_argument("--budget", type=float, default=0.3, help="seconds of calls per turn")
    parser.add_argument(
        "--write",
        action="store_true",
        help=f"write the rows to {RESULTS.name}, each when it is measured",
    )
    options = parser.parse_args()
    missing = [name for name in PACKAGES[1:] if importlib.util.find_spec(name) is None]
    if missing:
        print(f"not installed: {', '.join(missing)}; `make bench-torch` installs them")
        return 1
    rows: list[Measured] = []
    for threads in map(int, options.threads.split(",")):
        for task in tasks(options.names, options.kinds.split(",")):
            row = attempt(task, threads, lambda *it: measure(*it, options.rounds, options.budget))
            rows.append(row)
            print(summary(row), flush=True)
            if options.write:
                write(row)
    print(*(f"\n{title}\n{as_text(cells)}" for title, cells in sections(rows)), sep="\n")
    return 1 if any(row.failure for row in rows) else 0


def summary(row: Measured) -> str:
    """Return what is printed when a row was measured."""
    if row.failure:
        return f"FAILED: {failure_text(row)}"
    cells = step_table([row], ENGINES)[1] + cost_table([row])[1][len(row.task.cells) :]
    return "  ".join(cells)


if __name__ == "__main__":
    sys.exit(main())

# SPDX-License-Identifier: Apache-2.0
"""`python -m benchmarks.kernels.gpu`: kernels on an NVIDIA GPU beside PyTorch's and a memory copy.

Ingot and PyTorch (where it is installed with CUDA) take turns in one process, on arrays of the GPU.
A time is the least mean of a few runs of calls that are enqueued together. Of kernels that memory
limits, the last column is the bandwidth beside that of a copy on the device; of products, it is
their operations per second.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

import ingot
from benchmarks.common.report import as_text, duration, factor, geometric_mean
from ingot.runtime.cuda.devices import device

TITLES = ["kernel", "Ingot", "PyTorch", "PyTorch / Ingot", "reached"]
RUNS = 5

SUM = """add { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
"""


@dataclass(frozen=True)
class Row:
    """One kernel.

    Attributes:
        name: of the row.
        body: of its entry computation, in HLO; `n` stands for the size.
        shapes: element type and dimensions of each argument.
        torch: the same, of PyTorch's tensors.
        flops: of one call; 0 where memory is the limit.
    """

    name: str
    body: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    torch: Callable[..., Any]
    flops: float = 0

    def arrays(self) -> list[np.ndarray]:
        """Return arguments."""
        choose = np.random.default_rng(0)
        kinds = {"f32": np.float32, "bf16": ml_dtypes.bfloat16}
        return [choose.standard_normal(dims).astype(kinds[kind]) for kind, dims in self.shapes]


def rows(n: int) -> list[Row]:
    """Return the kernels, on arrays of n times n elements."""
    square = ("f32", (n, n))
    wide = f"f32[{n},{n}]"
    product = f"""a = bf16[{n},{n}] parameter(0)
      b = bf16[{n},{n}] parameter(1)
      ROOT r = bf16[{n},{n}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"""
    softmax = f"""x = {wide} parameter(0)
      low = f32[] constant(-inf)
      m = f32[{n}] reduce(x, low), dimensions={{1}}, to_apply=most
      mb = {wide} broadcast(m), dimensions={{0}}
      s = {wide} subtract(x, mb)
      e = {wide} exponential(s)
      z = f32[] constant(0)
      t = f32[{n}] reduce(e, z), dimensions={{1}}, to_apply=add
      tb = {wide} broadcast(t), dimensions={{0}}
      ROOT r = {wide} divide(e, tb)"""
    multiply_add = f"""x = {wide} parameter(0)
      y = {wide} parameter(1)
      p = {wide} multiply(x, y)
      ROOT r = {wide} add(p, x)"""
    total = f"""x = {wide} parameter(0)
      y = {wide} parameter(1)
      p = {wide} multiply(x, y)
      z = f32[] constant(0)
      ROOT r = f32[] reduce(p, z), dimensions={{0,1}}, to_apply=add"""
    columns = f"""x = {wide} parameter(0)
      z = f32[] constant(0)
      ROOT r = f32[{n}] reduce(x, z), dimensions={{0}}, to_apply=add"""
    transpose = f"""x = {wide} parameter(0)
      ROOT r = {wide} transpose(x), dimensions={{1,0}}"""
    bf16 = ("bf16", (n, n))
    return [
        Row("x * y + x", multiply_add, (square, square), lambda x, y: x * y + x),
        Row("sum(x * y)", total, (square, square), lambda x, y: (x * y).sum()),
        Row("sum of columns", columns, (square,), lambda x: x.sum(0)),
        Row("softmax", softmax, (square,), lambda x: x.softmax(-1)),
        Row("transpose", transpose, (square,), lambda x: x.t().contiguous()),
        Row("product bf16", product, (bf16, bf16), lambda a, b: a @ b, 2.0 * n**3),
        Row(
            "product f32",
            product.replace("bf16", "f32"),
            (square, square),
            lambda a, b: a @ b,
            2.0 * n**3,
        ),
    ]


def seconds(call: Callable[[], Any], wait: Callable[[], None], calls: int) -> float:
    """Return the time per call of calls that are enqueued together."""
    wait()
    start = time.perf_counter()
    for _ in range(calls):
        call()
    wait()
    return (time.perf_counter() - start) / calls


def copy_bandwidth(n: int, calls: int) -> float:
    """Return the bytes per second that a copy on the device reads and writes."""
    gpu = device()
    source, target = (gpu.allocate(4 * n * n) for _ in range(2))
    found = min(
        seconds(
            lambda: gpu.copy(target.address, source.address, source.size), gpu.synchronize, calls
        )
        for _ in range(RUNS)
    )
    return 2 * source.size / found


def torch_with_cuda() -> Any:
    """Return PyTorch if it has a GPU, else None."""
    try:
        import torch
    except ImportError:
        return None
    return torch if torch.cuda.is_available() else None


def measured(row: Row, calls: int, torch: Any, bandwidth: float) -> tuple[list[str], float]:
    """Return the cells of a row, and PyTorch's time over Ingot's (0 without PyTorch)."""
    gpu, given = device(), row.arrays()
    executable = ingot.compile(f"HloModule m\n{SUM}ENTRY e {{ {row.body} }}", device="gpu")
    arrays = [ingot.to_gpu(array) for array in given]
    result = executable(*arrays).block_until_ready()
    moved = sum(array.nbytes for array in arrays) + result.nbytes
    calls_of = {"ours": (lambda: executable(*arrays), gpu.synchronize)}
    if torch is not None:
        tensors = [torch.from_dlpack(array) for array in arrays]
        calls_of["theirs"] = (lambda: row.torch(*tensors), torch.cuda.synchronize)
    times = dict.fromkeys(calls_of, float("inf"))
    for _ in range(RUNS):
        for name, (call, wait) in calls_of.items():
            times[name] = min(times[name], seconds(call, wait, calls))
    ours, theirs = times["ours"], times.get("theirs")
    reached = f"{moved / ours / bandwidth:.0%} of a copy"
    if row.flops:
        reached = f"{row.flops / ours / 1e12:.1f} Tflop/s"
    ratio = 0.0 if theirs is None else theirs / ours
    there = ("", "") if theirs is None else (duration(theirs), factor(ratio))
    return [row.name, duration(ours), *there, reached], ratio


def main(arguments: list[str] | None = None) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--size", type=int, default=8192, help="rows and columns of arrays")
    parser.add_argument("--calls", type=int, default=20, help="calls that are timed together")
    options = parser.parse_args(arguments)
    torch, bandwidth = torch_with_cuda(), copy_bandwidth(options.size, options.calls)
    print(f"{device()}; a copy moves {bandwidth / 1e9:.0f} GB/s; arrays of {options.size} squared")
    found = [measured(row, options.calls, torch, bandwidth) for row in rows(options.size)]
    print(as_text([TITLES, *(cells for cells, _ in found)]))
    if torch is not None:
        print(f"geometric mean {geometric_mean([ratio for _, ratio in found]):.2f}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""A process of `benchmarks.distributed.devices`: times collectives, and prints the seconds as JSON.

Arguments: JAX's platform, or `mpi` for MPI alone; how many processes there are; the coordinator's
address; `calls`, `loop` to time collectives of a loop of one program, or `programs N` to time whole
programs on N devices; the number of this process, or the variable that holds it.
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from benchmarks.distributed.devices import COLLECTIVES, DISPATCH, KILOBYTES

_BUDGET_BYTES = 64 << 20
_MOST, _FEWEST = 300, 7
_ROUNDS = 50
"""Collectives of a loop."""
_FLOAT_AND_SUM = {"standard": (0x210, 0x21), "mpich": (0x4C00040A, 0x58000003)}
"""Handles, by ABI."""
Call = Callable[[], object]


class Timed(NamedTuple):
    """What is timed.

    Attributes:
        call: runs it once.
        prepare: writes the operand, as the program before would, and waits for all processes.
    """

    call: Call
    prepare: Call


def times(timed: Timed, size: int, share: float = 0.5) -> float:
    """Return the seconds of a call that moves `size` bytes; all processes make as many.

    `share` of the calls take less: the median, unless another is asked for.
    """
    call, prepare = timed
    count = max(_FEWEST, min(_MOST, _BUDGET_BYTES // size))
    for _ in range(3):
        prepare()
        call()
    found: list[float] = []
    for _ in range(count):
        prepare()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return sorted(found)[int(len(found) * share)]


def on_mesh(name: str, mesh: Any) -> Any:
    """Return the jitted collective over the axis `x` of a mesh.

    `nothing` sends from each device to itself: the program runs as others with collectives do.
    """
    import jax
    from jax import lax
    from jax.sharding import PartitionSpec

    divided, whole = PartitionSpec("x"), PartitionSpec()
    itself = [(device, device) for device in range(mesh.shape["x"])]
    functions: dict[str, tuple[Any, Any]] = {
        "all-reduce": (lambda v: lax.psum(v, "x"), whole),
        "all-gather": (lambda v: lax.all_gather(v, "x", tiled=True), whole),
        "reduce-scatter": (lambda v: lax.psum_scatter(v, "x", tiled=True), divided),
        "all-to-all": (lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True), divided),
        "nothing": (lambda v: lax.ppermute(v, "x", itself), divided),
    }
    function, result = functions[name]
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=divided, out_specs=result, check_vma=False)
    )


def in_loop(name: str, mesh: Any) -> Any:
    """Return a jitted loop of collectives, each on the result of the one before."""
    import jax
    from jax import lax
    from jax.sharding import PartitionSpec

    bodies: dict[str, Callable[[Any], Any]] = {
        "all-reduce": lambda v: lax.psum(v, "x") * 0.5,
        "all-gather": lambda v: lax.all_gather(v, "x", tiled=True)[: v.size] + 1,
        "reduce-scatter": lambda v: v.at[: v.size // 2].set(
            lax.psum_scatter(v, "x", tiled=True) * 0.5
        ),
        "all-to-all": lambda v: lax.all_to_all(v, "x", 0, 0, tiled=True) + 1,
    }
    body, divided = bodies[name], PartitionSpec("x")

    def loop(v: Any) -> Any:
        return lax.fori_loop(0, _ROUNDS, lambda _, v: body(v), v)

    return jax.jit(
        jax.shard_map(loop, mesh=mesh, in_specs=divided, out_specs=divided, check_vma=False)
    )


def jax_calls(
    processes: int, address: str, index: int, devices: int = 2, *, is_loop: bool = False
) -> Callable[[str, int], Timed]:
    """Return what makes the calls of JAX's platform; joins the other processes.

    Args:
        processes: how many there are, of one device each; one has `devices`.
        address: that of the coordinator.
        index: the number of this process.
        devices: devices of a single process.
        is_loop: whether a call is a loop of collectives.
    """
    import jax
    from jax.sharding import AxisType, NamedSharding, PartitionSpec

    if processes == 1:
        jax.config.update("jax_num_cpu_devices", devices)
    else:
        jax.distributed.initialize(address, processes, index)
    count = len(jax.devices())
    mesh = jax.make_mesh((count,), ("x",), axis_types=(AxisType.Auto,))
    write = jax.jit(lambda v: v + 1, donate_argnums=0)
    meet = on_mesh("all-reduce", mesh)

    def operand(size: int) -> Any:
        data = np.ones(count * size // 4, np.float32)
        return jax.make_array_from_callback(
            data.shape, NamedSharding(mesh, PartitionSpec("x")), lambda part: data[part]
        )

    def make(name: str, size: int) -> Timed:
        run = (in_loop if is_loop else on_mesh)(name, mesh)
        x, small = operand(size), operand(4)

        def prepare() -> None:
            nonlocal x
            x = write(x)
            jax.block_until_ready((x, meet(small)))

        return Timed(lambda: jax.block_until_ready(run(x)), prepare)

    return make


def mpi_calls(*, is_loop: bool = False) -> Callable[[str, int], Timed]:
    """Return what makes the calls of MPI alone, or a loop of them with the same bodies in NumPy."""
    from ingot.runtime.foreign.collectives.mpi_library import mpi_library

    library = mpi_library()
    functions, count = library.functions, library.size
    number, total = map(ctypes.c_void_p, _FLOAT_AND_SUM[library.abi])

    def make(name: str, size: int) -> Timed:
        words = size // 4
        source, target = np.ones(words, np.float32), np.ones(words * count, np.float32)
        small = np.ones(2, np.float32)
        sent, got = ctypes.c_void_p(source.ctypes.data), ctypes.c_void_p(target.ctypes.data)
        world, part = library.world, words // count
        call = {
            "all-reduce": (functions.MPI_Allreduce, sent, got, words, number, total, world),
            "all-gather": (functions.MPI_Allgather, sent, words, number, got, words, number, world),
            "reduce-scatter": (
                *(functions.MPI_Reduce_scatter_block, sent, got, part, number, total, world),
            ),
            "all-to-all": (functions.MPI_Alltoall, sent, part, number, got, part, number, world),
        }[name]

        bodies: dict[str, Call] = {
            "all-reduce": lambda: np.multiply(target[:words], 0.5, out=source),
            "all-gather": lambda: np.add(target[:words], 1, out=source),
            "reduce-scatter": lambda: np.multiply(target[:part], 0.5, out=source[:part]),
            "all-to-all": lambda: np.add(target[:words], 1, out=source),
        }
        body = bodies[name]

        def run() -> object:
            for _ in range(_ROUNDS if is_loop else 1):
                call[0](*call[1:])
                if is_loop:
                    body()
            # What the arrays hold must live as long as the call.
            return source, target

        ends = ctypes.c_void_p(small.ctypes.data), ctypes.c_void_p(small.ctypes.data + 4)

        def prepare() -> object:
            np.add(source, 1, out=source)
            functions.MPI_Allreduce(*ends, 1, number, total, world)
            return small

        return Timed(run, prepare)

    return make


def main() -> None:
    """Time everything."""
    platform, processes, address, kind, number = sys.argv[1:]
    if kind.startswith("programs"):
        from benchmarks.distributed.sharded_programs import seconds_of_programs

        print(json.dumps(seconds_of_programs(int(kind.split()[1]))), flush=True)
        return
    index = int(os.environ.get(number, "0") if not number.isdigit() else number)
    alone, is_loop = platform == "mpi", kind == "loop"
    if alone:
        make = mpi_calls(is_loop=is_loop)
    else:
        make = jax_calls(int(processes), address, index, is_loop=is_loop)
    rounds = _ROUNDS if is_loop else 1
    found = {
        f"{name} {kilobytes} KB": times(
            make(name, kilobytes << 10), rounds * kilobytes << 10
        ) / rounds
        for name in COLLECTIVES
        for kilobytes in (KILOBYTES[:-1] if is_loop else KILOBYTES)
    }  # fmt: skip
    if not alone and not is_loop:
        found[DISPATCH] = times(make("nothing", 1 << 10), 1 << 10)
    if index == 0:
        print(json.dumps(found), flush=True)
    if alone:
        from ingot.runtime.foreign.collectives.mpi_library import finalize

        finalize()
    elif int(processes) > 1:
        from jax.experimental import multihost_utils

        multihost_utils.sync_global_devices("end")


if __name__ == "__main__":
    main()

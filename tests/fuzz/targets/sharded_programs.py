# SPDX-License-Identifier: Apache-2.0
"""Random JAX programs cut over four devices: as on one.

Arguments get random shardings over a grid of devices that divides them, and so do some values on
the way; what JAX then hands to Ingot is cut by Ingot's partitioner. The results are those of JAX's
CPU backend on one device.
"""

from __future__ import annotations

import random
from typing import Any

from tests.fuzz.close_results import difference_of_leaves
from tests.fuzz.jax_lines import MAKERS
from tests.fuzz.python_programs import Variable, Writer, indented
from tests.fuzz.target import Target
from tests.fuzz.targets.jax_programs import leaves_of

_HEAD = """\
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
"""
_GRIDS = ((4, 1), (2, 2), (1, 4))


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    writer = Writer(choose)
    shapes = [(*choose.sample((4, 8, 12, 3, 16, 1), choose.randint(1, 3)),) for _ in range(2)]
    writer.pool = [Variable(f"x{n}", shape) for n, shape in enumerate(shapes)]
    writer.grow(choose.randint(2, 8), MAKERS)
    results = [item for item in writer.pool if not item.name.startswith("x")][-3:]
    names = ", ".join(item.name for item in results) or "x0"
    grid = choose.choice(_GRIDS)
    cuts = [_spec(choose, shape, grid) for shape in shapes]
    kept = [
        f"{item.name} = constrain({item.name}, P({_spec(choose, item.shape, grid)}))"
        for item in results
        if choose.random() < 0.5
    ]
    drawn = ", ".join(f"draw.normal(size={shape}).astype(np.float32)" for shape in shapes)
    given = ", ".join(f"x{n}" for n in range(len(shapes)))
    body = indented([*writer.lines, *kept, f"return ({names},)"])
    return (
        f"{_HEAD}draw = np.random.default_rng({choose.getrandbits(20)})\nGRID = {grid}\n"
        f"INPUTS = [{drawn}]\nCUTS = [{', '.join(f'P({cut})' for cut in cuts)}]\n"
        f"def program(constrain, {given}):\n{body}\n"
    ).encode()


def _spec(choose: random.Random, shape: tuple[int, ...], grid: tuple[int, int]) -> str:
    """Return a sharding that divides an array evenly: each axis of the grid once at most."""
    free, words = ["i", "j"], list[str]()
    sizes = dict(zip("ij", grid, strict=True))
    for size in shape:
        fitting = [name for name in free if size % sizes[name] == 0 and size]
        name = choose.choice(fitting) if fitting and choose.random() < 0.6 else ""
        words.append(repr(name) if name else "None")
        free = [other for other in free if other != name]
    return ", ".join(words)


def check(data: bytes) -> str:
    """Compare four devices of Ingot's with one of JAX's own."""
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding

    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    program, inputs = names["program"], names["INPUTS"]

    def alone(*arrays: Any) -> Any:
        return program(lambda value, _: value, *arrays)

    with jax.default_device(jax.devices("cpu")[0]):
        want = leaves_of(jax.jit(alone)(*inputs))
        near = leaves_of(jax.jit(alone)(*[x * np.float32(1 + 2e-6) for x in inputs]))
    mesh = Mesh(np.array(jax.devices("ingot")[:4]).reshape(names["GRID"]), ("i", "j"))

    def cut(*arrays: Any) -> Any:
        def constrain(value: Any, spec: Any) -> Any:
            return jax.lax.with_sharding_constraint(value, NamedSharding(mesh, spec))

        return program(constrain, *arrays)

    placed = [
        jax.device_put(x, NamedSharding(mesh, spec))
        for x, spec in zip(inputs, names["CUTS"], strict=True)
    ]
    return difference_of_leaves(leaves_of(jax.jit(cut)(*placed)), want, near)


TARGET = Target(
    "sharded_programs",
    ".py",
    generate,
    check,
    seconds=120.0,
    memory=48 << 30,
    environment=(("JAX_PLATFORMS", "cpu,ingot"), ("JAX_NUM_CPU_DEVICES", "4")),
)

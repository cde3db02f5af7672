# SPDX-License-Identifier: Apache-2.0
"""Random JAX programs on Ingot and on JAX's own CPU backend, in one process.

A case is a Python file: a function of some arrays, and transformations of it (`jit`, `grad`,
`vmap`).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tests.fuzz.close_results import difference_of_leaves
from tests.fuzz.jax_lines import MAKERS
from tests.fuzz.python_programs import FLOAT, Variable, Writer, indented
from tests.fuzz.target import Target

_HEAD = """\
import jax, jax.numpy as jnp, numpy as np
from jax import lax
"""


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    writer = Writer(choose)
    shapes = [writer.shape() for _ in range(choose.randint(1, 3))]
    writer.pool = [Variable(f"x{n}", shape) for n, shape in enumerate(shapes)]
    writer.grow(choose.randint(3, 14), MAKERS)
    results = [item for item in writer.pool if not item.name.startswith("x")][-4:]
    names = ", ".join(item.name for item in results) or "x0"
    given = ", ".join(f"x{n}" for n in range(len(shapes)))
    lines = [*writer.lines, f"return ({names},)"]
    seed = choose.randint(0, 1 << 20)
    drawn = ", ".join(f"draw.normal(size={shape}).astype(np.float32)" for shape in shapes)
    floats = [item.name for item in results if item.kind == FLOAT] or ["x0"]
    total = " + ".join(f"jnp.sum(jnp.tanh({name}))" for name in floats)
    loss = [*writer.lines, f"return {total}"]
    text = (
        f"{_HEAD}draw = np.random.default_rng({seed})\nINPUTS = [{drawn}]\n"
        f"def program({given}):\n{indented(lines)}\n"
    )
    wanted = choose.choice(("program", "program", "gradient", "mapped"))
    if wanted == "gradient":
        numbers = tuple(range(len(shapes)))
        text += f"def loss({given}):\n{indented(loss)}\nRUN = jax.grad(loss, {numbers})\n"
    elif wanted == "mapped":
        text += "INPUTS = [np.stack([x, -x, x * 0.5]) for x in INPUTS]\nRUN = jax.vmap(program)\n"
    else:
        text += "RUN = program\n"
    return text.encode()


def check(data: bytes) -> str:
    """Compare Ingot with JAX's CPU backend."""
    import jax

    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    run, inputs = names["RUN"], names["INPUTS"]
    with jax.default_device(jax.devices("cpu")[0]):
        try:
            want = leaves_of(jax.jit(run)(*inputs))
        except ValueError as error:
            if "Reverse-mode differentiation does not work" in str(error):
                return ""  # of a loop with a condition: JAX says so before anything is compiled
            raise
        near = leaves_of(jax.jit(run)(*[x * np.float32(1 + 2e-6) for x in inputs]))
    with jax.default_device(jax.devices("ingot")[0]):
        got = leaves_of(jax.jit(run)(*inputs))
    return difference_of_leaves(got, want, near)


def leaves_of(value: Any) -> list[np.ndarray[Any, Any]]:
    """Return the arrays of a result."""
    import jax

    return [np.asarray(leaf) for leaf in jax.tree.leaves(value)]


TARGET = Target(
    "jax_programs",
    ".py",
    generate,
    check,
    share=3.0,
    seconds=120.0,
    memory=48 << 30,
    environment=(("JAX_PLATFORMS", "cpu,ingot"),),
)

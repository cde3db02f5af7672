# SPDX-License-Identifier: Apache-2.0
"""Random JAX programs that call the host: `pure_callback`, `io_callback`, in loops and mapped.

A case is a Python file as that of `jax_programs`; what its ordered callbacks saw, and in which
order, must be what it is on JAX's own CPU backend, as the results must. JAX orders I/O callbacks
among themselves, and debugging callbacks among themselves.
"""

from __future__ import annotations

import random
from itertools import chain
from typing import Any

from tests.fuzz.close_results import difference_of_leaves
from tests.fuzz.jax_lines import MAKERS
from tests.fuzz.python_programs import FLOAT, INT, Variable, Writer, indented
from tests.fuzz.target import Target
from tests.fuzz.targets.jax_programs import leaves_of

_HEAD = """\
import jax, jax.numpy as jnp, numpy as np
from jax import lax
from jax.experimental import io_callback
SEEN, DEBUGGED = [], []
def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)
def host(f, x, **how):
    call = lambda v: np.asarray(f(np.asarray(v)), x.dtype).reshape(np.shape(v))
    return jax.pure_callback(call, like(x), x, **how)
def note(v):
    SEEN.append(np.array(v))
def debugged(v):
    DEBUGGED.append(np.array(v))
def count(v):
    SEEN.append(np.array(v))
    return np.float32(np.mean(v) + len(SEEN))
"""
_FUNCTIONS = (
    "np.sin", "np.tanh", "lambda v: v * 0.5 - 1", "np.negative", "lambda v: np.sort(v, axis=None)"
    ".reshape(v.shape)", "lambda v: np.full_like(v, v.mean())", "lambda v: v[...].copy()",
    "lambda v: np.asfortranarray(v)",
)  # fmt: skip
_ELEMENTWISE = ("np.sin", "np.tanh", "lambda v: v * 0.5 - 1", "np.negative")
_METHODS = ("sequential", "expand_dims", "broadcast_all", "legacy_vectorized")


def _pure(w: Writer) -> Variable | None:
    x = w.number()
    return w.let(f"host({w.choose.choice(_FUNCTIONS)}, {x.name})", x.shape)


def _two_results(w: Writer) -> Variable | None:
    """A callback of two arrays with results of other types and shapes."""
    x = w.number()
    y = w.number(x.shape)
    types = f"(jax.ShapeDtypeStruct((), jnp.float32), jax.ShapeDtypeStruct({x.shape}, jnp.int32))"
    function = (
        "lambda a, b: (np.float32(np.mean(np.tanh(a))), "
        "(np.asarray(a) > np.asarray(b)).astype(np.int32))"
    )
    part = w.choose.randrange(2)
    text = f"jax.pure_callback({function}, {types}, {x.name}, {y.name})[{part}]"
    return w.let(text, x.shape, INT) if part else w.let(text, ())


def _mapped(w: Writer) -> Variable | None:
    x = w.any(lambda v: v.kind == FLOAT and len(v.shape) > 0 and 0 not in v.shape)
    if x is None:
        return None
    how = f"vmap_method={w.choose.choice(_METHODS[:3])!r}"
    function = w.choose.choice(_ELEMENTWISE)
    return w.let(f"jax.vmap(lambda r: host({function}, r, {how}))({x.name})", x.shape)


def _in_flow(w: Writer) -> Variable | None:
    """A callback in a loop or a branch."""
    x, turns = w.number(), w.choose.randint(0, 4)
    n, f = x.name, w.choose.choice(_FUNCTIONS)
    call = f"host({f}, c)"
    options = (
        f"lax.fori_loop(0, {turns}, lambda i, c: {call} * 0.5 + i, {n})",
        f"lax.scan(lambda c, i: ({call} + i, None), {n}, jnp.arange({turns}.0))[0]",
        f"lax.cond(jnp.sum({n}) > 0, lambda c: {call}, lambda c: -c, {n})",
        f"lax.while_loop(lambda s: s[0] < {turns}, lambda s: (s[0] + 1, "
        f"host({f}, s[1])), (0, {n}))[1]",
        f"jax.jit(lambda c: {call} + {call})({n})",
    )
    return w.let(w.choose.choice(options), x.shape)


def _ordered(w: Writer) -> Variable | None:
    """A callback with effects: what it sees is kept, in order."""
    x, turns = w.number(), w.choose.randint(0, 3)
    match w.choose.randrange(4):
        case 0:
            w.write(f"io_callback(note, None, {x.name}, ordered=True)")
            return None
        case 1:
            scalar = "jax.ShapeDtypeStruct((), jnp.float32)"
            return w.let(f"io_callback(count, {scalar}, {x.name}, ordered=True)", ())
        case 2:
            w.write(f"jax.debug.callback(debugged, {x.name}, ordered=True)")
            return None
        case _:
            body = "(io_callback(note, None, c, ordered=True), c * 0.5 + i)[1]"
            return w.let(f"lax.fori_loop(0, {turns}, lambda i, c: {body}, {x.name})", x.shape)


_CALLS = [_pure, _two_results, _mapped, _in_flow, _ordered, _ordered]


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    writer = Writer(choose)
    shapes = [writer.shape() for _ in range(choose.randint(1, 2))]
    writer.pool = [Variable(f"x{n}", shape) for n, shape in enumerate(shapes)]
    for _ in range(choose.randint(1, 4)):
        writer.grow(choose.randint(0, 2), MAKERS)
        writer.grow(1, _CALLS)
    results = [item for item in writer.pool if not item.name.startswith("x")][-4:]
    names = ", ".join(item.name for item in results) or "x0"
    given = ", ".join(f"x{n}" for n in range(len(shapes)))
    drawn = ", ".join(f"draw.normal(size={shape}).astype(np.float32)" for shape in shapes)
    lines = [*writer.lines, f"return ({names},)"]
    return (
        f"{_HEAD}draw = np.random.default_rng({choose.getrandbits(20)})\nINPUTS = [{drawn}]\n"
        f"def program({given}):\n{indented(lines)}\n"
    ).encode()


def check(data: bytes) -> str:
    """Compare Ingot with JAX's CPU backend."""
    import numpy as np

    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    inputs = names["INPUTS"]
    want = _run("cpu", names, inputs)
    near = _run("cpu", names, [x * np.float32(1 + 2e-6) for x in inputs])
    got = _run("ingot", names, inputs)
    if len(got) != len(want):
        return f"{len(got)} arrays are seen or come out, not {len(want)}"
    return difference_of_leaves(got, want, near)


def _run(platform: str, names: dict[str, Any], inputs: list[Any]) -> list[Any]:
    """Return the results, then what ordered callbacks saw."""
    import jax

    seen = [names.get(kind, []) for kind in ("SEEN", "DEBUGGED")]
    for kind in seen:
        kind.clear()
    with jax.default_device(jax.devices(platform)[0]):
        found = leaves_of(jax.jit(names["program"])(*inputs))
        jax.effects_barrier()
    return [*found, *chain.from_iterable(seen)]


TARGET = Target(
    "host_callbacks",
    ".py",
    generate,
    check,
    seconds=120.0,
    memory=48 << 30,
    environment=(("JAX_PLATFORMS", "cpu,ingot"),),
)

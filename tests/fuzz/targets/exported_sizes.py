# SPDX-License-Identifier: Apache-2.0
"""Random JAX programs exported with symbolic sizes (`jax.export`), compiled once for all of them.

A line takes arrays of certain shapes (`bn` is one of b rows and n columns) and gives one; so any
lines fit. What JAX exports is read as StableHLO, compiled, and run at several sizes, beside the
function itself on JAX's own CPU backend. Left out is what Ingot refuses by name: windows over a
symbolic size (running sums), and slices of as many elements as a remainder of one says (`roll`).
Numbers are rounded before they are ordered: `tanh` brings many so close together that their last
bits, which differ between the two compilers, would decide.
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
from tests.fuzz.close_results import difference_of_leaves
from tests.fuzz.python_programs import indented
from tests.fuzz.target import Target
from tests.fuzz.targets.jax_programs import leaves_of

_SHAPES = {"bn": ("b", "n"), "b4": ("b", "4"), "b": ("b",), "n": ("n",), "qn": ("4", "n")}
_LINES = (
    ("bn", "{bn} + {b}[:, None]"), ("bn", "{bn} * {n} / 4"), ("bn", "{b4} @ {qn} / 4"),
    ("bn", "jnp.sort({bn}, {axis})"), ("bn", "jnp.tanh({bn}).sum({axis}, keepdims=True) + {bn}"),
    ("bn", "{bn}[::-1]"), ("bn", "jax.nn.softmax({bn})"),
    ("bn", "{bn}.reshape(-1).reshape({bn}.shape) + 1"), ("bn", "jnp.where({bn} > 0, {bn}, 0.5)"),
    ("bn", "lax.fori_loop(0, {count}, lambda i, c: jnp.tanh(c + i), {bn})"),
    ("bn", "jnp.take_along_axis({bn}, jnp.argsort({bn}, {axis}), {axis})"),
    ("bn", "{bn}.at[0].set(1.5)"), ("bn", "{bn}.at[:, 0].add({b})"), ("bn", "{bn}.T.T * 2"),
    ("bn", "jnp.pad({bn}, ((1, {count}), (0, 0)))[1:{bn}.shape[0] + 1]"),
    ("bn", "jnp.concatenate([{bn}, -{bn}], 0)[:{bn}.shape[0]]"),
    ("bn", "jax.vmap(lambda r: r / (1 + jnp.sum(jnp.abs(r))))({bn})"),
    ("bn", "jnp.broadcast_to({n}, {bn}.shape)"), ("bn", "jnp.outer({b}, {n})"),
    ("bn", "lax.scan(lambda c, r: (c * 0.5 + r, c), {n}, {bn})[1]"),
    ("bn", "jnp.stack([{bn}, {bn} * 0.5], 1)[:, {bit}]"),
    ("bn", "jnp.maximum({bn}, {bn}[:, ::-1])"),
    ("bn", "lax.cond({b}[0] > 0, lambda c: c * 2, lambda c: -c, {bn})"),
    ("bn", "{bn}.astype(jnp.bfloat16).astype(jnp.float32)"), ("bn", "jnp.flip({bn})"),
    ("bn", "{bn} * jnp.arange({bn}.shape[0])[:, None] / {bn}.shape[0]"),
    ("bn", "jnp.tril({bn})"), ("bn", "{bn}[jnp.arange({bn}.shape[0]) // 2]"),
    ("bn", "jnp.exp(-jnp.abs({bn})) + {bn}.shape[0] % 3"),
    ("b4", "{bn} @ {qn}.T / 9"), ("b4", "jnp.sin({b4})"), ("b4", "jnp.repeat({b}[:, None], 4, 1)"),
    ("b4", "jnp.tile({b}, 4).reshape(4, -1).T"), ("b4", "jax.nn.relu({b4}) + {b}[:, None]"),
    ("b4", "lax.dynamic_update_slice({b4}, {b4}[:1], ({count}, 0))"),
    ("b4", "jnp.einsum('bn,qn->bq', {bn}, {qn}) / 9"), ("b4", "{b4}[:, jnp.array([3, 0, 0, 2])]"),
    ("b", "jnp.mean({bn}, 1)"), ("b", "jnp.max({bn}, 1)"), ("b", "{bn}[:, 0]"),
    ("b", "jnp.argmax(jnp.round({bn} * 32), 1) * 0.5"), ("b", "jnp.linalg.norm({b4}, axis=1)"),
    ("b", "jnp.sum({bn} > 0, 1) * 0.5"), ("b", "{bn}[:, -1] * 2"),
    ("b", "{b}.at[-1].multiply(3.0)"), ("b", "lax.top_k({b4}, 2)[0][:, 1]"),
    ("n", "jnp.mean({bn}, 0)"), ("n", "{bn}[-1]"), ("n", "jnp.min({bn}, 0)"),
    ("n", "{b} @ {bn} / 9"), ("n", "jax.nn.logsumexp({bn}, 0)"), ("n", "jnp.sort({n})[::-1]"),
    ("n", "lax.scan(lambda c, r: (jnp.tanh(c + r), None), {n}, {bn})[0]"),
    ("qn", "{b4}.T @ {bn} / 9"), ("qn", "jnp.cos({qn})"), ("qn", "jnp.repeat({n}[None], 4, 0)"),
    ("qn", "jnp.concatenate([{qn}[:2], {qn}[1:3]], 0)"), ("qn", "{qn} - jnp.mean({n})"),
)  # fmt: skip
_ENDS = (
    "{bn}", "{b}", "{b4}", "{n}", "{qn}", "jnp.sum({bn})", "{bn}.reshape(-1)", "{bn}.T",
    "jnp.concatenate([{bn}, {bn} * 2], {axis})", "{bn}[:{bn}.shape[0] // 2]", "{bn}[:-1]",
    "jnp.arange({bn}.shape[0])", "jnp.pad({bn}, ((1, 2), (0, 3)))", "{bn}[:, ::2]",
    "jnp.zeros(({b}.shape[0] * {n}.shape[0],))", "{b} > 0", "{bn}[:, :, None]",
    "jnp.argsort(jnp.round({n} * 32))",
    "jnp.array({bn}.shape[0] * 2 + 1)", "jnp.repeat({b}, 3)", "{b}[:, None] == {n}[None]",
)  # fmt: skip
_SIZES = (1, 1, 2, 3, 4, 5, 8, 16, 17, 33, 100)


def generate(choose: random.Random) -> bytes:
    """Return a program with the sizes to run it at."""
    pool = {kind: [f"{kind}0"] for kind in _SHAPES}
    lines: list[str] = []
    for number in range(choose.randint(1, 8)):
        kind, text = choose.choice(_LINES)
        name = f"v{number}"
        lines.append(f"{name} = {_filled(choose, text, pool)}")
        pool[kind].append(name)
    ends = [_filled(choose, text, pool) for text in choose.sample(_ENDS, choose.randint(1, 3))]
    last = lines[-1].split(" =", maxsplit=1)[0]
    given = ", ".join(f"{kind}0" for kind in _SHAPES)
    lines += [f"return {last}, {', '.join(ends)}"]
    text = f"def program({given}):\n{indented(lines)}\n"
    if choose.random() < 0.25:
        text += (
            "RUN = jax.grad(lambda *given: sum(jnp.sum(jnp.tanh(part)) for part in "
            "program(*given) if part.dtype == jnp.float32), (0, 1, 2, 3, 4))\n"
        )
    else:
        text += "RUN = program\n"
    sizes = [(choose.choice(_SIZES), choose.choice(_SIZES)) for _ in range(3)]
    head = "import jax, jax.numpy as jnp, numpy as np\nfrom jax import lax\n"
    return f"{head}SIZES = {sizes}\nSEED = {choose.getrandbits(20)}\n{text}".encode()


def _filled(choose: random.Random, text: str, pool: dict[str, list[str]]) -> str:
    """Return a line with variables of its shapes, of which the last are likelier."""
    names = {kind: choose.choice(found[-3:]) for kind, found in pool.items()}
    return text.format(
        **names, axis=choose.randrange(2), count=choose.randint(0, 3), bit=choose.randrange(2)
    )


def check(data: bytes) -> str:
    """Compile what JAX exports, and run it at each size."""
    import jax
    from jax import export

    import ingot
    from ingot.hlo.verifier import verify

    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    run = jax.jit(names["RUN"], keep_unused=True)
    draw = np.random.default_rng(names["SEED"])
    specification = tuple(", ".join(dims) for dims in _SHAPES.values())
    given = export.symbolic_args_specs(tuple(_arguments(draw, 3, 5)), specification)
    exported = export.export(run, platforms=("cpu",))(*given)
    module = ingot.parse_stablehlo(exported.mlir_module_serialized)
    verify(module)
    executable = ingot.compile(module)
    for b, n in names["SIZES"]:
        arguments = _arguments(draw, b, n)
        want = leaves_of(run(*arguments))
        near = leaves_of(run(*[x * np.float32(1 + 2e-6) for x in arguments]))
        made = executable(*arguments)
        got = [np.asarray(x) for x in (made if isinstance(made, tuple | list) else [made])]
        found = difference_of_leaves(got, want, near)
        if found:
            return f"at sizes {b} and {n}: {found}"
    return ""


def _arguments(draw: np.random.Generator, b: int, n: int) -> list[Any]:
    sizes = {"b": b, "n": n, "4": 4}
    return [
        draw.normal(size=[sizes[dim] for dim in dims]).astype(np.float32)
        for dims in _SHAPES.values()
    ]


TARGET = Target(
    "exported_sizes",
    ".py",
    generate,
    check,
    seconds=120.0,
    memory=48 << 30,
    environment=(("JAX_PLATFORMS", "cpu"),),
)

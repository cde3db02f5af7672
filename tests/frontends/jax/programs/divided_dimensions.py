# SPDX-License-Identifier: Apache-2.0
"""Ops along a divided dimension, on four devices: lookups, windows, stencils, caches, folds."""

import jax

jax.config.update("jax_num_cpu_devices", 4)

import jax.numpy as jnp  # noqa: E402
import numpy as np  # noqa: E402
from jax import lax  # noqa: E402
from jax.sharding import AxisType, NamedSharding  # noqa: E402
from jax.sharding import PartitionSpec as P  # noqa: E402

MESH = jax.make_mesh((2, 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)
RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((24, 6), np.float32)
TOKENS = RNG.integers(0, 24, (4, 6))
IMAGE = RNG.standard_normal((2, 16, 8, 3), np.float32)
FILTER = RNG.standard_normal((3, 3, 3, 4), np.float32)
FIELD = RNG.standard_normal((16, 12), np.float32)


def on(*axes):
    return NamedSharding(MESH, P(*axes))


def put(value, *axes):
    return jax.device_put(value, on(*axes))


TABLES = (("x",), (("x", "y"),), ("y", "x"), (None, "y"))


def case_lookups():
    tokens = ((), ("y",), ("x",), (None, "y"))
    found = []
    for table in TABLES:
        for indices in tokens:
            found.append(jax.jit(lambda e, t: e[t])(put(TABLE, *table), put(TOKENS, *indices)))
    return found


def case_indices_outside():
    outside = np.array([-30, -1, 0, 23, 24, 1000])
    take = {mode: jax.jit(lambda e, t, m=mode: jnp.take(e, t, 0, mode=m)) for mode in
            ("clip", "fill", "wrap")}  # fmt: skip
    return [take[mode](put(TABLE, "x"), outside) for mode in take], [
        jax.jit(lambda e, m=mode: e.at[outside].add(1.5, mode=m))(put(TABLE, ("x", "y")))
        for mode in ("clip", "drop")
    ]


def language_model(e, w, t):
    h = jnp.tanh(e[t] @ w)
    scores = h[:, :-1] @ e.T
    chosen = jnp.take_along_axis(scores, t[:, 1:, None], -1)[..., 0]
    return (jax.nn.logsumexp(scores, -1) - chosen).mean()


def case_language_model():
    w = RNG.standard_normal((6, 6), np.float32)
    step = jax.jit(jax.value_and_grad(language_model, (0, 1)))
    return [
        step(put(TABLE, *table), put(w), put(TOKENS, *tokens))
        for table in TABLES
        for tokens in ((), ("x",), ("y",))
    ]


def case_scatters():
    updates = RNG.standard_normal((5, 6), np.float32)
    rows = np.array([3, 7, 3, 23, 0])

    def all_of(e, r, u):
        return e.at[r].add(u), e.at[r].max(u), e.at[r].set(u[0]), jnp.zeros_like(e).at[r].add(u)

    return [
        jax.jit(all_of, out_shardings=on(*table))(put(TABLE, *table), rows, updates)
        for table in TABLES
    ], jax.jit(lambda v, s: jax.ops.segment_sum(v, s, 8), out_shardings=on("x"))(
        put(RNG.standard_normal((20, 3), np.float32), "y"), put(RNG.integers(0, 8, 20), "y")
    )


def convolved(x, k, stride=1, padding="SAME"):
    names = ("NHWC", "HWIO", "NHWC")
    return lax.conv_general_dilated(x, k, (stride, 1), padding, dimension_numbers=names)


def case_convolutions():
    found = []
    for axes in ((None, "x"), (None, ("x", "y")), ("y", "x"), (None, "x", "y"), (None, "x", None)):
        x = put(IMAGE, *axes)
        for stride, padding in ((1, "SAME"), (2, "SAME"), (1, ((2, 0), (1, 1))), (1, "VALID")):
            found.append(jax.jit(convolved, static_argnums=(2, 3))(x, FILTER, stride, padding))
    return found


def case_training_of_convolutions():
    def loss(k, x):
        return (jax.nn.relu(convolved(x, k)) ** 2).mean()

    # With rows divided over x alone, XLA's gradient of the filter is wrong (jaxlib 0.10.2).
    step = jax.jit(jax.value_and_grad(loss, (0, 1)))
    whole = step(FILTER, IMAGE)
    if "ingot" in jax.devices()[0].client.platform_version:
        rows = step(FILTER, put(IMAGE, None, "x"))
        jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-5, 1e-5), rows, whole)
    return whole, [step(FILTER, put(IMAGE, *axes)) for axes in (("y", "x"), (None, "x", "y"))]


def case_transposed_convolutions():
    def f(x, k):
        return [
            lax.conv_transpose(x, k, strides, padding, dimension_numbers=("NHWC", "HWIO", "NHWC"))
            for strides in ((2, 1), (3, 2))
            for padding in ("SAME", "VALID", ((1, 2), (0, 0)), ((2, 1), (0, 0)))
        ]

    def loss(k, x):
        return (jax.nn.relu(convolved(x, k, 2)) ** 2).mean()

    divisions = ((None, "x"), (None, ("x", "y")), ("y", "x"), (None, "x", "y"))
    return of_every_division(lambda x: jax.jit(f)(x, FILTER), IMAGE, divisions), of_every_division(
        lambda x: jax.jit(jax.value_and_grad(loss, (0, 1)))(FILTER, x), IMAGE, divisions
    )


def case_causal_convolution_of_a_sequence():
    x, k = RNG.standard_normal((2, 16, 4), np.float32), RNG.standard_normal((4, 4, 5), np.float32)

    def f(x):
        whole = lax.conv_general_dilated(
            x, k, (1,), ((3, 3),), dimension_numbers=("NWC", "WIO", "NWC")
        )
        return whole[:, :16]

    return [jax.jit(f)(put(x, *axes)) for axes in ((), (None, "x"), (None, ("x", "y")))]


def case_pools():
    def pools(x):
        window = (1, 3, 1, 1)
        return (
            lax.reduce_window(x, -jnp.inf, lax.max, window, (1, 2, 1, 1), "SAME"),
            lax.reduce_window(x, 0.0, lax.add, window, (1, 1, 1, 1), "SAME"),
            jax.grad(lambda v: (lax.reduce_window(v, 0.0, lax.add, window, (1,) * 4, "SAME") ** 2)
                     .sum())(x),
        )  # fmt: skip

    return [jax.jit(pools)(put(IMAGE, *axes)) for axes in ((None, "x"), (None, ("x", "y")))]


def case_stencils_of_rolls():
    def step(u):
        return u + 0.1 * (
            jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 2, 1) + jnp.roll(u, -1, 1) - 4 * u
        )

    return [
        jax.jit(lambda u: lax.fori_loop(0, 3, lambda _, v: step(v), u))(put(FIELD, *axes))
        for axes in (("x",), ("x", "y"), (("x", "y"),), (None, "y"), ())
    ], jax.jit(jax.grad(lambda u: (step(u) ** 3).sum()))(put(FIELD, "x", "y"))


DIVISIONS = (("x",), ("x", "y"), (("x", "y"),), (None, "y"), ())


def of_every_division(run, array, divisions=DIVISIONS):
    """Return `run` of the whole array; Ingot's results must be the same for every division.

    XLA's are not (jaxlib 0.10.2) for `cummax` along divided rows, sums into a box that is at other
    rows than what is added, and updates at an index beyond the end.
    """
    whole = run(array)
    if "ingot" in jax.devices()[0].client.platform_version:
        for axes in divisions:
            parts = run(put(array, *axes))
            jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, 1e-4, 1e-4), parts, whole)
    return whole


def case_stencils_of_slices():
    def interior(u):
        new = u[1:-1, 1:-1] + 0.1 * (u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2])
        return u.at[1:-1, 1:-1].set(new)

    def padded(u, mode):
        p = jnp.pad(u, 1, mode=mode)
        return u + 0.1 * (p[2:, 1:-1] + p[:-2, 1:-1] + p[1:-1, 2:] + p[1:-1, :-2] - 4 * u)

    def added(u):
        return u.at[2:15].add(0.5 * u[1:14]).at[0].set(0).at[:, -1].mul(2)

    steps = [interior, added]
    steps += [
        lambda u, mode=mode: padded(u, mode) for mode in ("constant", "edge", "wrap", "reflect")
    ]

    def results(step):
        looped = jax.jit(lambda u: lax.fori_loop(0, 3, lambda _, v: step(v), u))
        gradient = jax.jit(jax.grad(lambda u: (step(u) ** 3).sum()))
        return of_every_division(looped, FIELD), of_every_division(gradient, FIELD)

    return [results(step) for step in steps]


def case_neighbours():
    def f(u):
        return (
            jnp.diff(u, axis=0), jnp.gradient(u, axis=0), u[::-1], u[::2], u[3:], u[:1], u[5:11:3],
            jnp.concatenate([jnp.zeros_like(u[:1]), u[:-1]]), jnp.concatenate([u, 2 * u, u[:5]]),
            jnp.split(u, 4), (jnp.diff(u, axis=0) ** 2).mean(), jnp.diff(u, axis=0).max(0),
            jnp.einsum("ij,ik->jk", u[1:], u[:-1]), jnp.tile(u, (3, 1)), jnp.repeat(u, 2, 0),
            jnp.pad(u, ((3, 2), (0, 1)), constant_values=-1), u[1:][::-1][2:9].T,
        )  # fmt: skip

    return [jax.jit(f)(put(FIELD, *axes)) for axes in DIVISIONS]


def next_tokens(logits, tokens):
    scores = jax.nn.log_softmax(logits[:, :-1])
    return -jnp.take_along_axis(scores, tokens[:, 1:, None], -1).mean()


def case_losses_of_the_next_token():
    logits = RNG.standard_normal((4, 16, 24), np.float32)
    tokens = RNG.integers(0, 24, (4, 16))
    step = jax.jit(jax.value_and_grad(next_tokens))
    return [
        step(put(logits, *axes), put(tokens, *axes[:2]))
        for axes in (("x",), (None, "x"), ("x", "y"), (None, ("y", "x")), (None, None, "y"))
    ]


def case_caches():
    cache = RNG.standard_normal((2, 16, 4), np.float32)
    new, query = RNG.standard_normal((2, 2, 1, 4), np.float32)

    def step(cache, new, query, i):
        cache = lax.dynamic_update_slice(cache, new, (0, i, 0))
        cache = cache.at[:, i + 1].set(new[:, 0] * 2)
        scores = jnp.where(jnp.arange(16) <= i, jnp.einsum("btd,bqd->bt", cache, query), -jnp.inf)
        last = lax.dynamic_slice(cache, (0, i - 2, 0), (2, 3, 4))
        return cache, jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), cache), last, cache[:, i]

    run, divisions = jax.jit(step), ((None, "x"), (None, ("x", "y")), ("y", "x"), ("x",))
    return [
        of_every_division(lambda c, i=i: run(c, new, query, i), cache, divisions)
        for i in (0, 3, 4, 11, 14, 15, 40, -1)
    ]


def case_rows_in_a_loop():
    def f(u, v):
        _, found = lax.scan(lambda c, row: (c + row, c * row.sum()), v, u)
        return found, lax.map(lambda i: u[i] + v, jnp.arange(8))

    return [jax.jit(f)(put(FIELD, *axes), FIELD[0]) for axes in DIVISIONS]


def case_folds_of_divided_rows():
    def f(u):
        return (
            jnp.argmax(u, 0), jnp.argmin(u, 0), jnp.argmax(u), jnp.argmax(u, 1), jnp.cumsum(u, 0),
            lax.cumsum(u, 0, reverse=True), lax.cummax(u, 0), lax.cumprod(u, 1),
            jnp.nanargmax(u, 0), jax.nn.logsumexp(u, 0), jnp.median(u, 0), lax.top_k(u.T, 3),
        )  # fmt: skip

    ties = np.round(FIELD)
    ties[3, 2] = ties[9, 2] = np.nan
    return [of_every_division(jax.jit(f), value) for value in (FIELD, ties)]


def case_index_pairs():
    rows, columns = np.array([0, 3, 15, -1, 40]), np.array([1, 11, 0, 2, -20])
    chosen = RNG.integers(0, 12, 16)

    def f(u, i, j):
        return u[i, j], u.at[i, j].add(2.5), u.at[i, j].max(0.5), u[jnp.arange(16), chosen]

    return [jax.jit(f)(put(FIELD, *axes), rows, columns) for axes in DIVISIONS]

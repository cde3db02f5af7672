# SPDX-License-Identifier: Apache-2.0
"""Lines of random JAX functions: each maker writes one use of NumPy's or JAX's functions."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.python_programs import (
    BOOL,
    FLOAT,
    INT,
    Shape,
    Variable,
    Writer,
    indented,
    is_row,
    too_large,
    with_size,
    without,
)

Maker = Callable[[Writer], Variable | None]

_UNARY = (
    "jnp.sin({})", "jnp.cos({})", "jnp.tanh({})", "jax.nn.sigmoid({})", "jnp.exp(-jnp.abs({}))",
    "jnp.log1p(jnp.abs({}))", "jnp.sqrt(jnp.abs({}) + 1)", "lax.rsqrt(jnp.abs({}) + 0.5)",
    "jax.nn.gelu({})", "jax.nn.softplus({})", "lax.erf({})", "jnp.arctan({})", "jnp.square({}) / 9",
    "jnp.abs({})", "-{}", "jnp.expm1(-jnp.abs({}))", "jnp.cbrt(jnp.abs({}) + 0.1)", "{} / 3",
    "jnp.clip({}, -1.5, 2)", "jax.nn.relu({})", "jnp.sign({}) * 0.5", "{}.astype(jnp.bfloat16) * 1",
    "jnp.arcsinh({})", "lax.lgamma(jnp.abs({}) + 1)", "jnp.nan_to_num({})", "lax.stop_gradient({})",
)  # fmt: skip
# A comparison with a margin: a value and a function of it may differ by their rounding alone.
_BINARY = (
    "{} + {}", "{} - {}", "{} * {} / 4", "jnp.maximum({}, {})", "jnp.minimum({}, {})",
    "jnp.arctan2({}, jnp.abs({}) + 0.5)", "{} / (jnp.abs({}) + 1)", "jnp.hypot({}, {})",
    "jnp.logaddexp({}, {})", "(jnp.abs({}) + 0.5) ** jnp.tanh({})", "jnp.copysign({}, {})",
    "jnp.where({} > {} + 0.0371, 0.5, -1.)",
)  # fmt: skip


def unary(w: Writer) -> Variable | None:
    """An elementwise function; bf16 comes back as f32."""
    x = w.number()
    text = w.choose.choice(_UNARY).format(x.name)
    return w.let(f"({text}).astype(jnp.float32)", x.shape)


def binary(w: Writer) -> Variable | None:
    """An elementwise function of two arrays, one of them perhaps broadcast."""
    x = w.number()
    shape = x.shape
    if w.choose.random() < 0.3 and shape:
        shape = with_size(shape, w.axis(shape), 1)
    y = w.number(shape)
    return w.let(w.choose.choice(_BINARY).format(x.name, y.name), x.shape)


def choice(w: Writer) -> Variable | None:
    """A selection by a condition."""
    x = w.number()
    y = w.number(x.shape)
    return w.let(f"jnp.where({x.name} > {y.name} + 0.0371, {y.name} * 0.5, {x.name})", x.shape)


def movement(w: Writer) -> Variable | None:
    """What moves, repeats or leaves out elements."""
    x = w.any(is_row)
    if x is None:
        return None
    axis, n = w.axis(x.shape), x.name
    size = x.shape[axis]
    cut, step = w.choose.randint(0, size - 1), w.choose.randint(1, 3)
    index = ", ".join([":"] * axis)
    at = f"{index}, " if index else ""
    order = w.choose.sample(range(len(x.shape)), len(x.shape))
    pairs = tuple((w.choose.randint(0, 2), w.choose.randint(0, 2)) for _ in x.shape)
    padded = tuple(a + s + b for (a, b), s in zip(pairs, x.shape, strict=True))
    kept = size - cut
    options: list[tuple[str, Shape]] = [
        (f"{n}[{at}::-1]", x.shape),
        (f"{n}[{at}{cut}::{step}]", with_size(x.shape, axis, -(-kept // step))),
        (f"jnp.transpose({n}, {order})", tuple(x.shape[i] for i in order)),
        (f"jnp.roll({n}, {cut}, {axis})", x.shape),
        (f"jnp.pad({n}, {pairs})", padded),
        (f"jnp.pad({n}, {pairs}, mode='edge')", padded),
        (f"jnp.repeat({n}, 2, {axis})", with_size(x.shape, axis, 2 * size)),
        (f"jnp.concatenate([{n}, {n}[{at}::-1]], {axis})", with_size(x.shape, axis, 2 * size)),
        (f"jnp.stack([{n}, -{n}], {axis})", (*x.shape[:axis], 2, *x.shape[axis:])),
        (f"{n}.reshape(-1)", (_count(x.shape),)),
        (f"{n}[{at}{cut}]", without(x.shape, axis)),
        (f"jnp.expand_dims({n}, {axis})", (*x.shape[:axis], 1, *x.shape[axis:])),
        (f"jnp.flip({n})", x.shape),
        (f"jnp.tril(jnp.outer({n}.reshape(-1)[:5], {n}.reshape(-1)[:5]))",
         (min(5, _count(x.shape)),) * 2),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return None if too_large(shape) else w.let(text, shape)


def _count(shape: Shape) -> int:
    count = 1
    for size in shape:
        count *= size
    return count


def fold(w: Writer) -> Variable | None:
    """A reduction or running fold along one dimension."""
    x = w.any(is_row)
    if x is None:
        return None
    axis = w.axis(x.shape)
    name = w.choose.choice(
        ("jnp.mean", "jnp.max", "jnp.min", "jnp.std", "jax.nn.logsumexp", "jnp.median", "jnp.ptp",
         "jnp.linalg.norm", "jnp.sum", "jnp.prod", "jnp.cumsum", "lax.cummax", "jax.nn.softmax",
         "jax.nn.log_softmax", "jnp.sort", "jnp.cumprod", "lax.associative_scan")
    )  # fmt: skip
    moderate = f"jnp.tanh({x.name})"
    if name == "lax.associative_scan":
        text = f"lax.associative_scan(lambda a, b: a * 0.5 + b, {moderate}, axis={axis})"
        return w.let(text, x.shape)
    if name == "jnp.std":
        moderate = f"(jnp.tanh({x.name}) + jnp.arange(1.0, {x.shape[axis]} + 1)[-1])"
    text = f"{name}({moderate}, axis={axis})"
    same = name in ("jnp.cumsum", "lax.cummax", "jax.nn.softmax", "jax.nn.log_softmax", "jnp.sort",
                    "jnp.cumprod")  # fmt: skip
    return w.let(text, x.shape if same else without(x.shape, axis))


def whole(w: Writer) -> Variable | None:
    """Integers: which element is first, ranks, counts."""
    x = w.any(is_row)
    if x is None:
        return None
    axis = w.axis(x.shape)
    text, shape = w.choose.choice(
        (
            # Rounded: numbers that a function brought together may differ by its rounding alone.
            (f"jnp.argmax(jnp.round({x.name} * 64), {axis})", without(x.shape, axis)),
            (f"jnp.argmin(jnp.round({x.name} * 64), {axis})", without(x.shape, axis)),
            (f"jnp.argsort(jnp.round({x.name} * 64), {axis})", x.shape),
            (f"jnp.sum({x.name} > 0, {axis})", without(x.shape, axis)),
            (f"jnp.floor({x.name} * 4).astype(jnp.int32) % 5", x.shape),
            (f"lax.broadcasted_iota(jnp.int32, {x.shape}, {axis}) ^ 3", x.shape),
        )
    )
    return w.let(text, shape, INT)


def arithmetic(w: Writer) -> Variable | None:
    """Integers from integers, and floats from them."""
    x = w.any(lambda v: v.kind == INT)
    if x is None:
        return None
    text = w.choose.choice(
        ("{0} + 1", "{0} // 3", "{0} % 7", "{0} << 2", "~{0}", "lax.population_count({0})",
         "jnp.clip({0}, 0, 5)", "({0} * 7919) >> 3", "lax.clz({0})", "jnp.bitwise_xor({0}, 21)")
    ).format(x.name)  # fmt: skip
    if w.choose.random() < 0.4:
        return w.let(f"(({text}) % 64).astype(jnp.float32) / 16", x.shape)
    return w.let(text, x.shape, INT)


def product(w: Writer) -> Variable | None:
    """A product of matrices or an einsum."""
    x = w.any(lambda v: v.kind == FLOAT and len(v.shape) >= 2)
    if x is None:
        return None
    columns = w.choose.choice((1, 3, 8, 17))
    k = x.shape[-1]
    y = w.let(f"jnp.cos(jnp.arange({k * columns}.0)).reshape({k}, {columns})", (k, columns))
    shape = (*x.shape[:-1], columns)
    text = w.choose.choice(
        (f"{x.name} @ {y.name} / {k}", f"jnp.einsum('...ij,jk->...ik', {x.name}, {y.name}) / {k}",
         f"jnp.tensordot({x.name}, {y.name}, 1) / {k} + 1",
         f"jax.nn.relu({x.name} @ {y.name} / {k} + {y.name}[0])")
    )  # fmt: skip
    return None if too_large(shape) else w.let(text, shape)


def indexing(w: Writer) -> Variable | None:
    """Elements by index, and updates at indices: repeated ones and some out of bounds."""
    x = w.any(is_row)
    if x is None:
        return None
    axis, size, n = w.axis(x.shape), x.shape[0], x.name
    count = w.choose.choice((1, 3, 8))
    indices = [w.choose.randint(-size, size + 1) for _ in range(count)]
    safe = [w.choose.randrange(x.shape[axis]) for _ in range(count)]
    rows = w.choose.randint(1, size)
    first, other = (w.choose.randint(0, size - rows) for _ in range(2))
    box, taken = f"{first}:{first + rows}", f"{other}:{other + rows}"
    options = [
        (f"{n}.at[{box}].set({n}[{taken}] * 0.5)", x.shape),
        (f"{n}.at[{box}].add({n}[{taken}])", x.shape),
        (f"({n}[{box}] - {n}[{taken}])", (rows, *x.shape[1:])),
        (f"jnp.argmax({n}, {axis}).astype(jnp.float32)", without(x.shape, axis)),
        (f"jnp.take({n}, jnp.array({safe}), axis={axis})", with_size(x.shape, axis, count)),
        (f"{n}[jnp.array({indices})]", (count, *x.shape[1:])),
        (f"{n}.at[jnp.array({indices})].add(0.5)", x.shape),
        (f"{n}.at[jnp.array({indices})].max(0.25)", x.shape),
        (f"{n}.at[{w.choose.randrange(size)}].set(1.5)", x.shape),
        (f"{n}.at[jnp.array({indices})].multiply(-0.5)", x.shape),
        (f"jax.ops.segment_sum({n}, jnp.arange({size}) % 3, 3)", (3, *x.shape[1:])),
        (f"jnp.take_along_axis({n}, jnp.argsort({n}, {axis}), {axis})", x.shape),
        (f"lax.dynamic_slice_in_dim({n}, {w.choose.randint(-1, size)}, {size // 2 + 1}, 0)",
         (size // 2 + 1, *x.shape[1:])),
        (f"lax.dynamic_update_slice_in_dim({n}, -{n}[:1], {w.choose.randint(0, size)}, 0)",
         x.shape),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return None if too_large(shape) else w.let(text, shape)


def top(w: Writer) -> Variable | None:
    """The greatest elements of rows."""
    x = w.any(is_row)
    if x is None:
        return None
    k = w.choose.randint(1, x.shape[-1])
    return w.let(f"lax.top_k({x.name}, {k})[0]", (*x.shape[:-1], k))


def window(w: Writer) -> Variable | None:
    """A convolution or pooling of rows."""
    x = w.any(lambda v: v.kind == FLOAT and len(v.shape) == 3)
    if x is None or x.shape[1] < 3:
        return None
    b, n, f = x.shape
    o = w.choose.choice((1, 4, 9))
    kernel = f"jnp.sin(jnp.arange({3 * f * o}.0)).reshape(3, {f}, {o})"
    text, shape = w.choose.choice(
        (
            (f"lax.conv_general_dilated({x.name}, {kernel}, (1,), 'SAME', "
             f"dimension_numbers=('NHC', 'HIO', 'NHC')) / {3 * f}", (b, n, o)),
            (f"lax.conv_general_dilated({x.name}, {kernel}, (2,), 'VALID', rhs_dilation=(1,), "
             f"dimension_numbers=('NHC', 'HIO', 'NHC')) / {3 * f}", (b, (n - 3) // 2 + 1, o)),
            (f"lax.reduce_window({x.name}, -jnp.inf, lax.max, (1, 3, 1), (1, 2, 1), 'VALID')",
             (b, (n - 3) // 2 + 1, f)),
            (f"lax.reduce_window({x.name}, 0., lax.add, (1, 3, 1), (1, 1, 1), 'SAME')", x.shape),
        )
    )  # fmt: skip
    return w.let(text, shape)


def loop(w: Writer) -> Variable | None:
    """A loop, scan, branch or mapped function around lines of its own."""
    if w.depth > 1:
        return None
    x = w.number()
    name = f"f{w.depth}_{len(w.lines)}"
    inner = Writer(w.choose, depth=w.depth + 1, prefix=f"{name}_")
    mapped = bool(x.shape) and w.choose.random() < 0.3
    shape = x.shape[1:] if mapped else x.shape
    inner.pool.append(Variable("c", shape))
    inner.grow(w.choose.randint(1, 4), INNER)
    fitting = [v for v in inner.pool if v.kind == FLOAT and v.shape == shape]
    result = fitting[-1].name
    w.write(f"def {name}(c):\n{indented([*inner.lines, f'return jnp.tanh({result})'])}")
    w.write(f"{name}_two = lambda i, c: {name}(c) * 0.5 + i * 0.1")
    n, f, trips = x.name, name, w.choose.randint(0, 5)
    if mapped:
        texts = [f"jax.vmap({f})({n})", f"lax.map({f}, {n})", f"jax.vmap(jax.jit({f}))({n})"]
        return w.let(w.choose.choice(texts), x.shape)
    stacked = (trips, *x.shape)
    options = [
        (f"lax.fori_loop(0, {trips}, {f}_two, {n})", x.shape),
        (f"lax.while_loop(lambda s: s[0] < {trips}, lambda s: (s[0] + 1, {f}(s[1])), (0, {n}))[1]",
         x.shape),
        (f"lax.scan(lambda c, i: ({f}_two(i, c), c * 2), {n}, jnp.arange({trips}.0))[1]", stacked),
        (f"lax.scan(lambda c, i: ({f}_two(i, c), None), {n}, jnp.arange({trips}.0))[0]", x.shape),
        (f"lax.cond(jnp.sum({n}) > 0.0371, {f}, lambda c: -c, {n})", x.shape),
        (f"lax.switch({trips}, [{f}, lambda c: c + 1, jnp.negative], {n})", x.shape),
        (f"jax.checkpoint({f})({n})", x.shape),
        (f"jax.grad(lambda c: jnp.sum({f}(c)))({n})", x.shape),
        (f"jax.jvp({f}, ({n},), (jnp.ones_like({n}),))[1]", x.shape),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return None if too_large(shape) else w.let(text, shape)


def matrix(w: Writer) -> Variable | None:
    """Linear algebra on a well-conditioned matrix."""
    size, seed = w.choose.choice((1, 2, 3, 5, 8)), w.choose.randint(1, 9)
    a = w.let(
        f"jnp.cos({seed} * jnp.arange({size * size}.0)).reshape({size}, {size}) "
        f"+ 4 * jnp.eye({size})", (size, size),
    )  # fmt: skip
    n = a.name
    text, shape = w.choose.choice(
        (
            (f"jnp.linalg.solve({n}, jnp.ones({size}))", (size,)),
            (f"jnp.linalg.cholesky({n} @ {n}.T)", (size, size)),
            (f"jnp.linalg.inv({n})", (size, size)),
            (f"jnp.linalg.eigvalsh({n} + {n}.T)", (size,)),
            (f"jnp.linalg.svd({n}, compute_uv=False)", (size,)),
            (f"jnp.abs(jnp.linalg.qr({n})[1])", (size, size)),
            (f"jnp.linalg.slogdet({n})[1]", ()),
            (f"jax.scipy.linalg.solve_triangular({n}, jnp.ones({size}))", (size,)),
        )
    )
    return w.let(text, shape)


def transform(w: Writer) -> Variable | None:
    """A Fourier transform, as real numbers."""
    x = w.any(is_row)
    if x is None:
        return None
    size = x.shape[-1]
    text, shape = w.choose.choice(
        (
            (f"jnp.abs(jnp.fft.fft({x.name})) / {size}", x.shape),
            (f"jnp.fft.rfft({x.name}).real / {size}", with_size(x.shape, len(x.shape) - 1,
                                                               size // 2 + 1)),
            (f"jnp.fft.ifft({x.name}).imag", x.shape),
        )
    )  # fmt: skip
    return w.let(text, shape)


def randoms(w: Writer) -> Variable | None:
    """Random numbers of a key."""
    shape = w.shape()
    seed = w.choose.randint(0, 1 << 30)
    name = w.choose.choice(("uniform", "normal", "bernoulli", "gumbel"))
    text = f"jax.random.{name}(jax.random.key({seed}), shape={shape}) * 1.0"
    return None if too_large(shape) else w.let(text, shape)


def truth(w: Writer) -> Variable | None:
    """A condition and what it gives as a number."""
    x = w.number()
    made = w.let(f"{x.name} > {w.choose.choice((-0.5, 0.0, 0.3))}", x.shape, BOOL)
    return w.let(f"{made.name}.astype(jnp.float32)", x.shape)


INNER: list[Maker] = [unary, unary, binary, binary, choice, movement, fold, product, indexing]
MAKERS: list[Maker] = [
    unary, unary, unary, binary, binary, binary, choice, movement, movement, movement, fold, fold,
    whole, arithmetic, product, product, indexing, indexing, top, window, loop, loop, matrix,
    transform, randoms, truth,
]  # fmt: skip

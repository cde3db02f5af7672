# SPDX-License-Identifier: Apache-2.0
"""Lines of random TensorFlow functions: each maker writes one use of TensorFlow's functions."""

from __future__ import annotations

from collections.abc import Callable

from tests.fuzz.python_programs import (
    FLOAT,
    INT,
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
    "tf.sin({})", "tf.tanh({})", "tf.sigmoid({})", "tf.exp(-tf.abs({}))", "tf.nn.relu({})",
    "tf.math.log1p(tf.abs({}))", "tf.sqrt(tf.abs({}) + 1)", "tf.math.erf({})", "tf.square({}) / 9",
    "tf.nn.softplus({})", "tf.nn.gelu({})", "-{}", "tf.clip_by_value({}, -1.5, 2.)", "tf.abs({})",
    "tf.math.rsqrt(tf.abs({}) + 0.5)", "tf.nn.elu({})",
    "tf.cast(tf.cast({}, tf.bfloat16), tf.float32)",
    "tf.sign({}) * 0.5", "tf.floor({} * 2) / 2", "tf.math.lgamma(tf.abs({}) + 1)",
    "tf.identity({})",    "tf.stop_gradient({})", "tf.ones_like({}) * 0.3", "tf.nn.leaky_relu({})",
)  # fmt: skip
# A comparison with a margin: a value and a function of it may differ by their rounding alone.
_BINARY = (
    "{} + {}", "{} - {}", "{} * {} / 4", "tf.maximum({}, {})", "tf.minimum({}, {})",
    "{} / (tf.abs({}) + 1)", "tf.math.squared_difference({}, {}) / 8",
    "tf.where({} > {} + 0.0371, 0.5, -1.)",
    "tf.math.atan2({}, tf.abs({}) + 0.5)", "tf.pow(tf.abs({}) + 0.5, tf.tanh({}))",
)  # fmt: skip


def unary(w: Writer) -> Variable | None:
    """An elementwise function."""
    x = w.number()
    return w.let(w.choose.choice(_UNARY).format(x.name), x.shape)


def binary(w: Writer) -> Variable | None:
    """An elementwise function of two arrays, one of them perhaps broadcast."""
    x = w.number()
    shape = x.shape
    if w.choose.random() < 0.3 and shape:
        shape = with_size(shape, w.axis(shape), 1)
    return w.let(w.choose.choice(_BINARY).format(x.name, w.number(shape).name), x.shape)


def movement(w: Writer) -> Variable | None:
    """What moves, repeats or leaves out elements."""
    x = w.any(is_row)
    if x is None:
        return None
    axis, n = w.axis(x.shape), x.name
    size, rank = x.shape[axis], len(x.shape)
    cut, step = w.choose.randint(0, size - 1), w.choose.randint(1, 3)
    at = "".join(":, " for _ in range(axis))
    order = w.choose.sample(range(rank), rank)
    pairs = [[w.choose.randint(0, 2), w.choose.randint(0, 2)] for _ in x.shape]
    padded = tuple(a + s + b for (a, b), s in zip(pairs, x.shape, strict=True))
    count = 1
    for part in x.shape:
        count *= part
    options = [
        (f"tf.reverse({n}, [{axis}])", x.shape),
        (f"{n}[{at}{cut}::{step}]", with_size(x.shape, axis, -(-(size - cut) // step))),
        (f"{n}[{at}::-1]", x.shape),
        (f"tf.transpose({n}, {order})", tuple(x.shape[i] for i in order)),
        (f"tf.roll({n}, {cut}, {axis})", x.shape),
        (f"tf.pad({n}, {pairs})", padded),
        (f"tf.repeat({n}, 2, {axis})", with_size(x.shape, axis, 2 * size)),
        (f"tf.concat([{n}, {n} * 2], {axis})", with_size(x.shape, axis, 2 * size)),
        (f"tf.stack([{n}, -{n}], {axis})", (*x.shape[:axis], 2, *x.shape[axis:])),
        (f"tf.reshape({n}, [-1])", (count,)),
        (f"tf.gather({n}, {cut}, axis={axis})", without(x.shape, axis)),
        (f"tf.expand_dims({n}, {axis})", (*x.shape[:axis], 1, *x.shape[axis:])),
        (f"tf.tile({n}, {[2 if i == axis else 1 for i in range(rank)]})",
         with_size(x.shape, axis, 2 * size)),
        (f"tf.split({n}, [{cut}, {size - cut}], {axis})[1]", with_size(x.shape, axis, size - cut)),
        (f"tf.unstack({n}, axis={axis})[{cut}]", without(x.shape, axis)),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return None if too_large(shape) else w.let(text, shape)


def fold(w: Writer) -> Variable | None:
    """A reduction or running fold along one dimension."""
    x = w.any(is_row)
    if x is None:
        return None
    axis, n = w.axis(x.shape), f"tf.tanh({x.name})"
    options = [
        *((f"tf.reduce_{name}({n}, {axis})", without(x.shape, axis))
          for name in ("sum", "mean", "max", "min", "logsumexp", "prod")),
        (f"tf.cumsum({n}, {axis})", x.shape), (f"tf.nn.softmax({n}, {axis})", x.shape),
        (f"tf.cumsum({n}, {axis}, exclusive=True, reverse=True)", x.shape),
        (f"tf.nn.log_softmax({n}, {axis})", x.shape), (f"tf.sort({n}, {axis})", x.shape),
        (f"tf.math.top_k({n}, 1)[0]", with_size(x.shape, len(x.shape) - 1, 1)),
        (f"tf.nn.l2_normalize({n} + 2, {axis})", x.shape),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return w.let(text, shape)


def whole(w: Writer) -> Variable | None:
    """Integers, and floats from them."""
    x = w.any(is_row)
    if x is None:
        return None
    axis = w.axis(x.shape)
    text, shape = w.choose.choice(
        (
            # Rounded: numbers that a function brought together may differ by its rounding alone.
            (
                f"tf.argmax(tf.round({x.name} * 64), {axis}, output_type=tf.int32)",
                without(x.shape, axis),
            ),
            # A zero's sign orders it (as in XLA), which TensorFlow's kernel does not see.
            (f"tf.argsort(tf.abs(tf.round({x.name} * 64)), {axis}, stable=True)", x.shape),
            (f"tf.cast(tf.floor({x.name} * 4), tf.int32) % 5", x.shape),
            (f"tf.reduce_sum(tf.cast({x.name} > 0, tf.int32), {axis})", without(x.shape, axis)),
        )
    )
    made = w.let(text, shape, INT)
    return w.let(f"tf.cast({made.name}, tf.float32) / 4", shape)


def product(w: Writer) -> Variable | None:
    """A product of matrices."""
    x = w.any(lambda v: v.kind == FLOAT and len(v.shape) >= 2)
    if x is None:
        return None
    columns, k = w.choose.choice((1, 3, 8, 17)), x.shape[-1]
    y = w.let(f"tf.reshape(tf.cos(tf.range({k * columns}.0)), [{k}, {columns}])", (k, columns))
    shape = (*x.shape[:-1], columns)
    text = w.choose.choice(
        (f"tf.tensordot({x.name}, {y.name}, 1) / {k}",
         f"tf.einsum('...ij,jk->...ik', {x.name}, {y.name}) / {k}",
         f"tf.nn.relu(tf.tensordot({x.name}, {y.name}, 1) / {k} + {y.name}[0])")
    )  # fmt: skip
    return None if too_large(shape) else w.let(text, shape)


def indexing(w: Writer) -> Variable | None:
    """Elements by index, updates at indices, sums of segments."""
    x = w.any(is_row)
    if x is None:
        return None
    size, n = x.shape[0], x.name
    indices = [w.choose.randrange(size) for _ in range(w.choose.choice((1, 3, 8)))]
    rows = (len(indices), *x.shape[1:])
    column = [[index] for index in indices]
    options = [
        (f"tf.gather({n}, {indices})", rows),
        (f"tf.gather_nd({n}, {column})", rows),
        (f"tf.tensor_scatter_nd_add({n}, {column}, tf.ones({list(rows)}))", x.shape),
        (f"tf.math.unsorted_segment_sum({n}, tf.range({size}) % 3, 3)", (3, *x.shape[1:])),
        (f"tf.one_hot(tf.range({size}) % 4, 5)", (size, 5)),
        (f"tf.scatter_nd({column}, tf.ones({list(rows)}), {list(x.shape)})", x.shape),
    ]
    text, shape = w.choose.choice(options)
    return None if too_large(shape) else w.let(text, shape)


def window(w: Writer) -> Variable | None:
    """A convolution or pooling of images."""
    x = w.any(lambda v: v.kind == FLOAT and len(v.shape) == 3)
    if x is None or min(x.shape) < 3:
        return None
    a, b, c = x.shape
    o = w.choose.choice((1, 4, 9))
    kernel = f"tf.reshape(tf.sin(tf.range({9 * c * o}.0)), [3, 3, {c}, {o}])"
    n = f"{x.name}[None]"
    options = [
        (f"tf.nn.conv2d({n}, {kernel}, 1, 'SAME')[0] / {9 * c}", (a, b, o)),
        (f"tf.nn.conv2d({n}, {kernel}, 2, 'VALID')[0] / {9 * c}",
         ((a - 3) // 2 + 1, (b - 3) // 2 + 1, o)),
        (f"tf.nn.max_pool2d({n}, 3, 2, 'VALID')[0]", ((a - 3) // 2 + 1, (b - 3) // 2 + 1, c)),
        (f"tf.nn.avg_pool2d({n}, 2, 1, 'SAME')[0]", x.shape),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return w.let(text, shape)


def loop(w: Writer) -> Variable | None:
    """A loop or branch around lines of its own."""
    if w.depth > 1:
        return None
    x = w.number()
    name = f"f{w.depth}_{len(w.lines)}"
    inner = Writer(w.choose, depth=w.depth + 1, prefix=f"{name}_", full=w.full)
    inner.pool.append(Variable("c", x.shape))
    inner.grow(w.choose.randint(1, 4), INNER)
    result = [v for v in inner.pool if v.kind == FLOAT and v.shape == x.shape][-1].name
    w.write(f"def {name}(c):\n{indented([*inner.lines, f'return tf.tanh({result})'])}")
    n, f, trips = x.name, name, w.choose.randint(0, 4)
    options = [
        (f"tf.while_loop(lambda i, c: i < {trips}, lambda i, c: (i + 1, {f}(c)), (0, {n}), "
         f"maximum_iterations={trips})[1]", x.shape),
        (f"tf.cond(tf.reduce_sum({n}) > 0.0371, lambda: {f}({n}), lambda: -{n})", x.shape),
        (f"tf.switch_case(tf.constant({min(trips, 2)}), "
         f"[lambda: {f}({n}), lambda: {n} + 1, lambda: -{n}])", x.shape),
        (f"tf.recompute_grad({f})({n}) * 1.0", x.shape),
        (f"tf.function({f})({n})", x.shape),
    ]  # fmt: skip
    text, shape = w.choose.choice(options)
    return w.let(text, shape)


INNER: list[Maker] = [unary, unary, binary, binary, movement, fold, product, indexing]
MAKERS: list[Maker] = [
    unary, unary, unary, binary, binary, binary, movement, movement, movement, fold, fold, whole,
    product, product, indexing, indexing, window, window, loop, loop,
]  # fmt: skip

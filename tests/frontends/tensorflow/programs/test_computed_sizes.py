# SPDX-License-Identifier: Apache-2.0
"""Sizes that the data decides: compiled functions give what TensorFlow gives, exactly as large."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

tf = pytest.importorskip("tensorflow")

import ingot.tensorflow  # noqa: E402


@pytest.fixture(autouse=True)
def _enabled():
    ingot.tensorflow.enable()
    yield
    ingot.tensorflow.disable()


def whole(x: Any) -> Any:
    """An integer that follows from too much data to be specialised on."""
    return tf.cast(tf.reduce_sum(x[:4]), tf.int32)


def grow(x: Any) -> Any:
    def body(i: Any, a: Any) -> Any:
        return i + 1, tf.concat([a, tf.fill([i], 2.0)], 0)

    invariants = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(lambda i, a: i < 4, body, [tf.constant(0), x[:1]], invariants)


def collatz(n: Any) -> Any:
    def body(n: Any, found: Any) -> Any:
        following = tf.where(n % 2 == 0, n // 2, 3 * n + 1)
        return following, tf.concat([found, [n]], 0)

    start = [tf.cast(n[0], tf.int32), tf.zeros([0], tf.int32)]
    invariants = [tf.TensorShape([]), tf.TensorShape([None])]
    return tf.while_loop(lambda n, found: n != 1, body, start, invariants)[1]


def slices(x: Any) -> Any:
    def body(i: Any, total: Any) -> Any:
        return i + 1, total + tf.reduce_sum(x[: i * 2]) * tf.reduce_sum(x[-i:]) + tf.reduce_sum(
            x[i::2]
        )

    return tf.while_loop(lambda i, total: i < 9, body, [tf.constant(0), tf.constant(0.0)])


def gradient(x: Any) -> Any:
    return tf.gradients(tf.reduce_sum(tf.boolean_mask(x, x > 0) ** 3), x)[0]


def masks(x: Any) -> Any:
    return tf.boolean_mask(x, x > 1), tf.boolean_mask(x * 2, x > 1)


def window(x: Any) -> Any:
    """Windows that the ends of the data cut."""

    def body(i: Any, total: Any) -> Any:
        part, other = (y[i : tf.minimum(i + 7, 3000)] for y in (x, 2 * x))
        return i + 5, total + tf.reduce_sum(part * other) + tf.reduce_sum(tf.stack([part, other]))

    return tf.while_loop(lambda i, total: i < 3000, body, [tf.constant(0), tf.constant(0.0)])


def cut_by(limit: Any, step: int) -> Callable[[Any], Any]:
    """Windows of 7 that begin in each step before the limit."""

    def run(x: Any) -> Any:
        def body(i: Any, total: Any) -> Any:
            part = x[i : i + 7] * (1 + x[i : i + 7])
            return i + step, total + tf.reduce_sum(part) / tf.cast(tf.size(part), tf.float32)

        end = tf.size(x) if limit is None else limit
        return tf.while_loop(lambda i, total: i < end, body, [tf.constant(0), tf.constant(0.0)])

    return run


def batches(x: Any) -> Any:
    total = tf.constant(0.0)
    for n in tf.range(1 + tf.size(x) // 13):
        for k in tf.range(2):
            total += tf.reduce_mean(x[n * 13 : n * 13 + 13]) * tf.cast(k + 1, tf.float32)
    return total


def two_masks_gradient(x: Any) -> Any:
    first, second = masks(x)
    return tf.gradients(tf.reduce_sum(first**2 * second / (1 + second)), x)[0]


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "where": tf.where,
    "where of a matrix": lambda x: tf.where(tf.reshape(x, [-1, 1500]) > 1),
    "mask": lambda x: tf.boolean_mask(x, x > 1),
    "sum of a mask": lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 1) ** 2),
    "mask of rows": lambda x: tf.boolean_mask(
        tf.reshape(x, [1500, -1]), tf.reshape(x, [1500, -1])[:, 0] > 1
    ),
    "sorted mask": lambda x: tf.sort(tf.boolean_mask(x, x > 1)),
    "product with a mask": lambda x: tf.matmul(
        tf.boolean_mask(tf.reshape(x, [-1, 3]), tf.reshape(x, [-1, 3])[:, 0] > 1)[:50],
        tf.reshape(x, [-1, 3])[:40],
        transpose_b=True,
    ),
    "gradient of a mask": gradient,
    "fill": lambda x: tf.fill([whole(x), 2], x[1]),
    "range": lambda x: tf.range(whole(x)),
    "reshape": lambda x: tf.reshape(x, [-1, whole(x)]),
    "slice": lambda x: x[: whole(x)],
    "slice from behind": lambda x: x[-whole(x) :],
    "slice of what is behind": lambda x: tf.slice(tf.reshape(x, [-1, 3]), [whole(x), 1], [-1, -1]),
    "slice that may be of what is behind": lambda x: tf.slice(
        tf.reshape(x, [2, -1, 3]),
        tf.stack([0, whole(x), 1]),
        tf.stack([1, tf.where(whole(x) > 0, -1, 5), tf.where(whole(x) < 0, -1, 1)]),
    ),
    "slice with a stride": lambda x: x[1 : 3 * whole(x) : 2],
    "tile": lambda x: tf.tile(x, [whole(x)]),
    "pad": lambda x: tf.pad(tf.reshape(x, [-1, 3]), [[whole(x), 0], [0, whole(x)]]),
    "repeat": lambda x: tf.repeat(x[:100], tf.cast(x[100:200], tf.int32)),
    "range of floats": lambda x: tf.range(0.5, tf.cast(tf.size(x[x > 1]), tf.float32), 1.5),
    "range by a step": lambda x: tf.range(2, 99, tf.size(x[x > 1]) + 1),
    "range down by a step": lambda x: tf.range(99, 2, -1 - tf.size(x[x > 1])),
    "partition": lambda x: tf.dynamic_partition(x, tf.cast(x, tf.int32) % 3, 3),
    "partition of masks": lambda x: tf.dynamic_partition(
        masks(x)[0], tf.cast(masks(x)[1], tf.int32) % 2, 2
    ),
    "segments": lambda x: tf.math.segment_sum(x, tf.cast(tf.cumsum(x), tf.int32) // 7),
    "means of segments": lambda x: tf.math.segment_mean(
        tf.reshape(x, [-1, 3]), 2 * tf.cast(tf.cumsum(x[::3]), tf.int32) // 7
    ),
    "unique": tf.unique,
    "unique along an axis": lambda x: tf.raw_ops.UniqueV2(x=x, axis=[0]),
    "unique of no axis": lambda x: tf.raw_ops.UniqueWithCountsV2(x=x, axis=tf.zeros([0], tf.int32)),
    "unique with counts": tf.unique_with_counts,
    "branches": lambda x: tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.boolean_mask(x, x > 1), lambda: x[:7]
    ),
    "other branch": lambda x: tf.cond(
        tf.reduce_sum(x) < 0, lambda: tf.boolean_mask(x, x > 1), lambda: tf.concat([x, x], 0)
    ),
    "growing": grow,
    "collatz": collatz,
    "slices in a loop": slices,
    "sum of masks": lambda x: tf.add(*masks(x)),
    "choice of masks": lambda x: tf.where(masks(x)[0] > 2, *masks(x)),
    "sum of three masks": lambda x: tf.add_n([*masks(x), x[x > 1]]),
    "stack of masks": lambda x: tf.stack(masks(x)),
    "concat of masks": lambda x: tf.concat([m[:, None] for m in masks(x)], 1),
    "product of masks": lambda x: tf.tensordot(*masks(x), 1),
    "einsum of masks": lambda x: tf.einsum("i,i->i", *masks(x)),
    "batches of masks": lambda x: tf.matmul(*(m[:, None, None] for m in masks(x))),
    "gather within masks": lambda x: tf.gather(
        tf.stack([*masks(x)], 1), tf.cast(x[x > 1], tf.int32)[:, None] % 2, batch_dims=1
    ),
    "mask of a known size": lambda x: tf.boolean_mask(x, tf.range(3000) < whole(x)) + x[: whole(x)],
    "mask and number": lambda x: tf.boolean_mask(x[:9], x[:9] >= 0) + tf.range(9.0),
    "gradient of two masks": two_masks_gradient,
    "cut windows": window,
    "windows to the end": cut_by(None, 1),
    "windows over the end": cut_by(3009, 4),
    "windows inside": cut_by(2993, 7),
    "the last batch": batches,
    "squeezed": lambda x: tf.squeeze(tf.boolean_mask(x, tf.range(3000) < whole(x) // 99 + 1), 0),
    "squeezed where it can be": lambda x: tf.squeeze(masks(x)[0][None, :, None]),
    "ensured": lambda x: tf.ensure_shape(tf.boolean_mask(x[:9], x[:9] >= 0), [9]) * 2,
    "unstacked": lambda x: tf.unstack(tf.boolean_mask(x[:3], x[:3] >= 0), 3),
    "split": lambda x: tf.split(x, [whole(x), 3000 - whole(x)]),
    "split evenly": lambda x: tf.split(tf.concat(masks(x), 0), 2),
    "segments of masks": lambda x: tf.math.unsorted_segment_sum(
        masks(x)[0], tf.cast(x[x > 1], tf.int32) % 4, 4
    ),
    "scattered masks": lambda x: tf.scatter_nd(
        tf.where(x > 1), tf.boolean_mask(x, x > 1) + 1, [3000]
    ),
    "cross entropy of masks": lambda x: tf.nn.sparse_softmax_cross_entropy_with_logits(
        tf.cast(tf.boolean_mask(x, x > 1), tf.int32) % 2, tf.stack(masks(x), 1)
    ),
    "broadcast to a mask": lambda x: tf.broadcast_to(
        tf.boolean_mask(x, x > 1), tf.shape(tf.stack(masks(x)))
    ),
    "branch with masks": lambda x: tf.cond(
        tf.reduce_sum(x) > 0, lambda: tf.reduce_sum(tf.multiply(*masks(x))), lambda: 0.0
    ),
    "size of a mask": lambda x: tf.size(tf.boolean_mask(x, x > 1)),
    "softmax of a mask": lambda x: tf.nn.softmax(tf.boolean_mask(x, x > 1)),
}


def data(seed: int) -> np.ndarray:
    found = np.random.RandomState(seed).randint(0, 4, 3000).astype(np.float32)
    found[:4] = (7, 3, 1, 1)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
def test_sizes_are_those_of_tensorflow(name: str) -> None:
    program = PROGRAMS[name]
    compiled = tf.function(program, jit_compile=True)
    plain = tf.function(program)
    for seed in range(3):
        x = tf.constant(data(seed))
        have, want = tf.nest.flatten(compiled(x)), tf.nest.flatten(plain(x))
        for one, other in zip(have, want, strict=True):
            assert one.shape == other.shape
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5)
    assert compiled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unique_values_are_equal_ones(dtype: str) -> None:
    special = [0.0, np.nan, -0.0, 1.0, -np.nan, np.inf, 1.0, np.nan, -np.inf, 0.0, -np.inf]
    x = tf.cast(tf.constant(special), dtype)
    have = tf.function(tf.unique_with_counts, jit_compile=True)(x)
    for one, other in zip(have, tf.unique_with_counts(x), strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())
        if one.dtype == x.dtype:
            np.testing.assert_array_equal(np.signbit(one.numpy()), np.signbit(other.numpy()))


PARTS = {
    "rows": ((7, 2), 0),
    "middle": ((2, 11, 3), -2),
    "one": ((1, 3), 0),
    "none": ((0, 3), 0),
    "of nothing": ((3, 0), 0),
}


@pytest.mark.parametrize(
    ("dtype", "is_open"), [("float32", False), ("bool", False), ("float64", True)]
)
def test_unique_parts_are_those_of_tensorflow(dtype: str, is_open: bool) -> None:
    special = np.array([0.0, -0.0, 1.0, np.nan, np.inf, 0.0])
    drawn = np.random.RandomState(3)
    for dims, axis in PARTS.values():
        numbers = drawn.randint(0, 3 if dtype != "bool" else 2, dims)
        is_unusual = dtype.startswith("float") and drawn.randint(2)
        x: Any = tf.cast(special[drawn.randint(0, 6, dims)] if is_unusual else numbers, dtype)

        def program(x: Any, axis: int = axis) -> Any:
            return tuple(tf.raw_ops.UniqueWithCountsV2(x=x, axis=[axis], out_idx=tf.int64))

        spec = tf.TensorSpec([None] * len(dims) if is_open else dims, dtype)
        compiled = tf.function(program, input_signature=[spec], jit_compile=True)
        for one, other in zip(compiled(x), program(x), strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_array_equal(one.numpy(), other.numpy())
            if dtype.startswith("float") and one.dtype == dtype:
                is_number = ~np.isnan(other)
                np.testing.assert_array_equal(
                    np.signbit(one)[is_number], np.signbit(other)[is_number]
                )


def test_windows_of_any_size_are_cut() -> None:
    signature = [tf.TensorSpec([None], tf.float32)]
    program = cut_by(None, 1)
    compiled = tf.function(program, jit_compile=True, input_signature=signature)
    for count in (3, 12, 7):
        x = tf.range(float(count))
        np.testing.assert_allclose(compiled(x)[1], program(x)[1], rtol=1e-6)


PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "add": lambda x, y: x + y,
    "concat": lambda x, y: tf.concat([x[:, None], y[:, None]], 1),
    "stack": lambda x, y: tf.stack([x, y]),
    "product": lambda x, y: tf.tensordot(x, y, 1),
    "select": lambda x, y: tf.where(x > 0, x, y),
    "split": lambda x, y: tf.split(x, [tf.size(y)]),
    "unstack": lambda x, y: [*tf.unstack(x, 3), y],
    "partition": lambda x, y: tf.dynamic_partition(y, tf.cast(x, tf.int32) % 2, 2),
    "squeeze an axis": lambda x, y: tf.squeeze(y, 0),
}


@pytest.mark.parametrize("name", PAIRS)
def test_sizes_that_differ_are_an_error(name: str) -> None:
    compiled = tf.function(
        lambda x: PAIRS[name](tf.boolean_mask(x, x > 1), tf.boolean_mask(x, x < 0)),
        jit_compile=True,
    )
    x = np.zeros(2000, np.float32)
    x[:2], x[5:10] = 3, -1
    with pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes"):
        compiled(tf.constant(x))


def test_a_computed_size_of_1_is_not_squeezed() -> None:
    compiled = tf.function(lambda x: tf.squeeze(tf.boolean_mask(x, x > 1)), jit_compile=True)
    x = np.zeros(2000, np.float32)
    assert compiled(tf.constant(x)).shape == (0,)
    x[7] = 3
    with pytest.raises(tf.errors.InvalidArgumentError, match="Squeeze would drop a dimension"):
        compiled(tf.constant(x))


def test_a_computed_size_of_1_is_not_broadcast() -> None:
    compiled = tf.function(
        lambda x: tf.boolean_mask(x, x > 1) + tf.boolean_mask(x, x < 0), jit_compile=True
    )
    x = np.zeros(2000, np.float32)
    x[7], x[5] = 3, -1
    np.testing.assert_array_equal(compiled(tf.constant(x)), [2])
    x[11] = -1
    with pytest.raises(tf.errors.InvalidArgumentError, match="not broadcast where it is 1"):
        compiled(tf.constant(x))


def test_a_negative_size_is_an_error() -> None:
    compiled = tf.function(
        lambda x: tf.zeros([tf.cast(tf.reduce_sum(x), tf.int32)]), jit_compile=True
    )
    x = np.zeros(3000, np.float32)
    assert compiled(tf.constant(x)).shape == (0,)
    x[5] = -2
    with pytest.raises(tf.errors.InvalidArgumentError, match="never negative"):
        compiled(tf.constant(x))


def test_a_variable_takes_what_a_mask_gives() -> None:
    total = tf.Variable(0.0)

    @tf.function(jit_compile=True)
    def add(x):
        total.assign_add(tf.reduce_sum(tf.boolean_mask(x, x > 1)))
        return tf.boolean_mask(x, x > 2)

    x = data(5)
    for rounds in (1, 2):
        np.testing.assert_array_equal(add(tf.constant(x)), x[x > 2])
        np.testing.assert_allclose(total.numpy(), rounds * x[x > 1].sum())


def test_stages_hand_over_arrays_of_which_only_the_first_elements_count():
    """The number of rows is computed before `first` is used: it passes from stage to stage."""
    from tensorflow.compiler.tf2xla.ops import gen_xla_ops

    def picked(x: Any, count: Any) -> Any:
        rows = tf.boolean_mask(x, x[:, 0] > 0)
        first = gen_xla_ops.xla_set_dynamic_dimension_size(rows, 1, count)
        return first * 2, tf.reduce_sum(first, 1)

    x = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    made = tf.function(picked, jit_compile=True, autograph=False)
    rows = x[x[:, 0] > 0]
    for count in (2, 3):
        doubled, sums = made(x, tf.constant(count))
        np.testing.assert_allclose(doubled, rows[:, :count] * 2, rtol=1e-6)
        np.testing.assert_allclose(sums, rows[:, :count].sum(1), rtol=1e-5)


SLICES = [
    *(slice(-1, None), slice(1, None), slice(None, -1), slice(1, -1), slice(-3, -1), slice(2, 5)),
    *(slice(4, 2), slice(None, None, 2), slice(1, None, 3), slice(-5, None, 2), slice(0, -3, 2)),
]


@pytest.mark.parametrize("kept", [0, 1, 2, 5])
def test_ends_of_an_array_of_any_computed_size(kept: int) -> None:
    """A slice is cut at the ends of what there is, of nothing too; so is its gradient."""

    def program(x: Any) -> Any:
        y = tf.boolean_mask(x, tf.cumsum(tf.ones_like(x)) <= x[0])
        parts = [y[part] for part in SLICES]
        squares = tf.add_n([tf.reduce_sum(part**2) for part in parts])
        return [*parts, y[1:] - y[:-1], tf.gradients(squares, x)[0]]

    given = np.arange(3000, dtype=np.float32) % 7 + 1
    given[0] = kept
    have = tf.function(program, jit_compile=True)(tf.constant(given))
    want = tf.function(program)(tf.constant(given))
    for one, other in zip(have, want, strict=True):
        np.testing.assert_array_equal(one, other)


RESIZED = [
    (op, options)
    for op in (
        tf.raw_ops.ResizeArea,
        tf.raw_ops.ResizeBicubic,
        tf.raw_ops.ResizeBilinear,
        tf.raw_ops.ResizeNearestNeighbor,
    )
    for options in ({}, {"align_corners": True}, {"half_pixel_centers": True})
    if op is not tf.raw_ops.ResizeArea or "half_pixel_centers" not in options
]


@pytest.mark.parametrize("size", [(4, 4), (20, 31), (1, 1), (7, 5)])
def test_images_of_computed_sizes_are_resized(size: tuple[int, int]) -> None:
    """As after a random crop: the program computes which pixels it takes."""

    def program(x: Any) -> Any:
        part = x[:, whole(x[:, 0, 0, 0]) :, : whole(x[:, 0, 0, 0]) * 3 + 5]
        made = [op(images=part, size=size, **options) for op, options in RESIZED]
        made += [tf.image.resize(part, size, "lanczos3", antialias=True)]
        return made + [tf.gradients(y, part, y)[0] for y in made if y.op.type != "ResizeArea"]

    x = np.random.default_rng(0).standard_normal((2, 13, 197, 3)).astype(np.float32)
    for first in (0, 2, 5):
        x[:, 0, 0, 0] = first / 2
        have = tf.function(program, jit_compile=True)(tf.constant(x))
        want = tf.function(program)(tf.constant(x))
        for one, other in zip(have, want, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rank", [1, 2])
def test_the_gradient_of_a_slice_has_a_computed_size(rank: int) -> None:
    """It fits the slice where the computed size does, and is compiled: no op is left out."""

    def program(x: Any) -> Any:
        taken = tf.boolean_mask(x, x > 0.0)
        if rank == 1:
            slices = {"shape": [5], "begin": [1], "end": [4], "strides": [1]}
            return tf.raw_ops.StridedSliceGrad(dy=taken, **slices)
        slices = {"shape": [2, 5], "begin": [0, 1], "end": [1, 4], "strides": [1, 1]}
        return tf.raw_ops.StridedSliceGrad(dy=taken, shrink_axis_mask=1, **slices)

    compiled = tf.function(program, jit_compile=True)
    x = tf.constant([1.0, -2.0, 3.0, 4.0])
    np.testing.assert_array_equal(compiled(x), tf.function(program)(x))
    concrete = compiled.get_concrete_function(x)._inference_function
    assert not concrete.ingot_replacement.is_cut
    for function in (compiled, tf.function(program)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"dy was \[2\] instead of \[3\]"):
            function(tf.constant([1.0, -2.0, -3.0, 4.0]))

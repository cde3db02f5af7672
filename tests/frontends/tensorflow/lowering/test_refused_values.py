# SPDX-License-Identifier: Apache-2.0
"""Values that TensorFlow's kernels refuse are errors of the same class in compiled functions."""

import re

import numpy as np
import pytest
import tensorflow as tf
from tests.frontends.tensorflow.programs.beside import assert_same, run

import ingot.tensorflow

raw = tf.raw_ops
ONES = np.ones([3, 2], np.float32)
SIZE = np.int32(-5)


@pytest.fixture(autouse=True)
def enabled():
    ingot.tensorflow.enable()
    yield
    ingot.tensorflow.disable()


NEGATIVE_SIZES = {
    "fill": lambda n: tf.fill([2, n], 1.0),
    "a multiple": lambda n: tf.zeros(tf.stack([n * 2, 3])),
    "bincount": lambda n: raw.DenseBincount(
        input=[[1, 1, 3]], size=n, weights=tf.zeros([0]), binary_output=True
    ),
    "segments": lambda n: tf.math.unsorted_segment_sum(ONES, [0, 0, 1], n),
    "one_hot": lambda n: tf.one_hot([1, 2], n),
    "reshape": lambda n: tf.reshape(ONES, [n, 2]),
    "random": lambda n: tf.random.stateless_uniform([n], [1, 2]),
    "top_k": lambda n: tf.math.top_k(ONES, n).values,
    "scatter": lambda n: tf.scatter_nd([[1]], [1.0], [n]),
    "broadcast": lambda n: tf.broadcast_to(ONES, [n, 3, 2]),
    "pad": lambda n: tf.pad(ONES, [[n, 0], [0, 0]]),
    "slice": lambda n: tf.slice(ONES, [0, 0], [n, 2]),
    "slice begin": lambda n: tf.slice(ONES, [n, 0], [1, 2]),
    "resize": lambda n: tf.image.resize(tf.ones([1, 3, 3, 1]), [n, n]),
    "list": lambda n: raw.TensorListLength(
        input_handle=raw.TensorListReserve(
            element_shape=[2], num_elements=n, element_dtype=tf.float32
        )
    ),
}


@pytest.mark.parametrize("name", NEGATIVE_SIZES)
def test_a_negative_size(name):
    compiled = tf.function(NEGATIVE_SIZES[name], jit_compile=True, autograph=False)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        compiled(tf.constant(SIZE))
    assert "This is a bug" not in str(caught.value)


BAD_VALUES = {
    "a row's number": (
        lambda x: raw.DenseBincount(input=x, size=4, weights=tf.zeros([0])),
        [[1, 3], [0, -1]],
        "non-negative",
    ),
    "weights": (
        lambda x: raw.DenseBincount(input=x, size=4, weights=3.0, binary_output=True),
        [[1, 3], [0, 1]],
        "must be the same shape",
    ),
    "unordered": (
        lambda x: tf.sparse.to_dense(tf.SparseTensor(x, [1, 2], [9])),
        [[3], [1]],
        "out of order",
    ),
    "repeated": (
        lambda x: tf.sparse.to_dense(tf.SparseTensor(x, [1, 2], [9])),
        [[3], [3]],
        "repeated",
    ),
    "sparse and dense": (
        lambda x: tf.sparse.add(tf.SparseTensor(x, [1.0, 2.0], [3, 2]), ONES),
        [[0, 1], [5, 1]],
        "invalid index",
    ),
    "no permutation": (tf.math.invert_permutation, [0, 5, 1], "not between 0 and 3"),
    "twice in a permutation": (tf.math.invert_permutation, [2, 0, 2], "duplicated in the input"),
    "long sequence": (
        lambda x: tf.reverse_sequence(ONES, x, seq_axis=0, batch_axis=1),
        [2, 4],
        r"> input.dims\(0\)",
    ),
    "negative sequence": (
        lambda x: tf.reverse_sequence(ONES, x, seq_axis=0, batch_axis=1),
        [2, -1],
        "< 0",
    ),
    "no stride": (
        lambda x: tf.strided_slice(ONES, [0], [3], tf.cast(x, tf.int32)),
        [0],
        r"strides\[0\] must be",
    ),
    "range": (lambda x: tf.range(x[0], x[1]), [5, 0], "Requires start <= limit"),
    "step": (lambda x: tf.range(1, 5, x[0]), [0], "Requires delta != 0"),
    "segments": (
        lambda x: [op(np.ones((1, 10, 1)), x) for op in (tf.math.segment_sum, tf.math.segment_max)],
        [1676240524292489355],
        "Encountered overflow when multiplying",
    ),
    "mean of segments": (
        lambda x: tf.math.segment_mean(np.ones((1, 10, 1)), x),
        [1676240524292489355],
        "Encountered overflow when multiplying",
    ),
    "power": (lambda x: tf.pow([3, 2], tf.cast(x, tf.int32)), [-1], "negative integer powers"),
    "rows of a band": (lambda x: tf.linalg.band_part(ONES, x[0], -1), [4], r"number of rows \(3\)"),
    "columns of a band": (
        lambda x: tf.linalg.band_part(ONES, -x[0], x[0]),
        [3],
        r"number of columns \(2\)",
    ),
    "random numbers": (
        lambda x: tf.random.uniform([2], 5, x[0], tf.int64),
        [5],
        "Need minval < maxval",
    ),
    "random numbers of a seed": (
        lambda x: tf.random.stateless_uniform([2], [1, 2], x[0], 3, tf.int64),
        [7],
        "Need minval < maxval",
    ),
    "computed range": (
        lambda x: tf.range(tf.reduce_sum(x), 3),
        np.ones(4096),
        "Requires start <= limit",
    ),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_bad_value(name):
    function, value, words = BAD_VALUES[name]
    given = tf.constant(value, tf.int64 if "range" not in name else tf.int32)
    for jit in (None, True):
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            tf.function(function, jit_compile=jit, autograph=False)(given)


@pytest.mark.parametrize(
    ("function", "value"),
    [
        (lambda x: tf.pow([3, 2], x), [0, 3]),
        (lambda x: tf.linalg.band_part(tf.ones([2, 3]), x[0], x[1]), [2, 3]),
        (lambda x: tf.linalg.band_part(tf.ones([2, 3]), x[0], x[1]), [-9, 0]),
        (lambda x: tf.random.uniform([0], 5, x[0], tf.int32), [3]),
        (lambda x: tf.random.stateless_uniform(x, [1, 2], 5, 3, tf.int32), [0, 4]),
    ],
)
def test_a_value_at_the_limit(function, value):
    given = tf.constant(value)
    one, other = (tf.function(function, jit_compile=jit)(given) for jit in (None, True))
    np.testing.assert_array_equal(one, other)


def test_a_sequence_longer_than_the_scores():
    for jit in (None, True):
        decoded = tf.function(
            lambda n: tf.nn.ctc_greedy_decoder(tf.ones([2, 1, 3]), n)[1], jit_compile=jit
        )
        decoded(tf.constant([2]))
        with pytest.raises(tf.errors.FailedPreconditionError, match="sequence_length"):
            decoded(tf.constant([3]))


BOXES = np.array([[0, 0, 1, 1]], np.float32)
CROPS = {
    "crops": lambda owner: tf.image.crop_and_resize(tf.ones([2, 5, 5, 3]), BOXES, owner, [2, 3]),
    "gradient of the image": lambda owner: raw.CropAndResizeGradImage(
        grads=tf.ones([1, 2, 3, 1]),
        boxes=BOXES,
        box_ind=owner,
        image_size=[2, 5, 5, 1],
        T=tf.float32,
    ),
    "gradient of the boxes": lambda owner: raw.CropAndResizeGradBoxes(
        grads=tf.ones([1, 2, 3, 1]), image=tf.ones([2, 5, 5, 1]), boxes=BOXES, box_ind=owner
    ),
}


@pytest.mark.parametrize("name", CROPS)
def test_a_box_of_no_image_is_out_of_range(name):
    for jit in (None, True):
        with pytest.raises(tf.errors.OutOfRangeError, match=r"outside \[0, batch_size\)"):
            tf.function(CROPS[name], jit_compile=jit, autograph=False)(tf.constant([2]))


INDEXED = {
    "index": lambda i: tf.range(6)[i],
    "indices": lambda i: tf.ones([3, 6, 2])[0, i, :1],
    "variable": lambda i: tf.tensor_scatter_nd_update(tf.zeros([6]), [[1]], [2.0])[i],
    "update": lambda i: raw.TensorStridedSliceUpdate(
        input=tf.zeros([6, 2]),
        begin=[i],
        end=[i + 1],
        strides=[1],
        value=[1.0, 2.0],
        shrink_axis_mask=1,
    ),
    "loop": lambda i: tf.while_loop(
        lambda n, _: n < 2, lambda n, s: (n + 1, s + tf.range(6)[i + n]), [0, 0]
    ),
}


@pytest.mark.parametrize("name", INDEXED)
def test_an_index_from_data_is_in_its_dimension(name):
    def each(jit):
        function = tf.function(INDEXED[name], jit_compile=jit, autograph=False)
        for index in (6, -7):
            with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
                function(tf.constant(index))
        return [function(tf.constant(index)) for index in (0, 4, -1, -6)]

    assert_same(run(each, True), run(each, None))


WINDOWS = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "VALID"}
IMAGE = [1, 4, 4, 1]
STEPS = {"strides": [1, 1, 1, 1], "padding": "VALID"}
FILTER = np.arange(4, dtype=np.float32).reshape(2, 2, 1, 1)
BAD_WINDOWS = {
    "gradient of a mean": lambda x: raw.AvgPoolGrad(
        orig_input_shape=[1, 1, 3, 1],
        grad=tf.reshape(x[:9], [3, 1, 3, 1]),
        ksize=[1, 1, 1, 1],
        strides=[1, 1, 1, 2],
        padding="VALID",
    ),
    "original output": lambda x: raw.MaxPoolGrad(
        orig_input=tf.reshape(x, IMAGE),
        orig_output=tf.ones([1, 2, 1, 2]),
        grad=tf.ones([1, 2, 2, 1]),
        **WINDOWS,
    ),
    "gradient of a maximum": lambda x: raw.MaxPoolGrad(
        orig_input=tf.reshape(x, IMAGE),
        orig_output=tf.ones([1, 2, 2, 1]),
        grad=tf.ones([1, 2, 1, 2]),
        **WINDOWS,
    ),
    "strides of a convolution": lambda x: raw.Conv2D(
        input=tf.reshape(x, [4, 2, 2, 1]), filter=FILTER, strides=[2, 1, 1, 1], padding="VALID"
    ),
    "dilations of a convolution": lambda x: raw.Conv2D(
        input=tf.reshape(x, IMAGE), filter=FILTER, dilations=[1, 1, 1, 2], **STEPS
    ),
    "strides of a dilation": lambda x: raw.Dilation2D(
        input=tf.reshape(x, IMAGE),
        filter=FILTER[..., 0],
        strides=[1, 1, 1, 2],
        rates=[1, 1, 1, 1],
        padding="VALID",
    ),
    "filter": lambda x: raw.Conv2D(
        input=tf.reshape(x, IMAGE), filter=FILTER[:0], strides=[1, 1, 1, 1], padding="SAME"
    ),
    "gradient of an image": lambda x: raw.Conv2DBackpropInput(
        input_sizes=IMAGE, filter=FILTER, out_backprop=tf.reshape(x[:6], [1, 2, 3, 1]), **STEPS
    ),
    "gradient of a filter": lambda x: raw.Conv2DBackpropFilter(
        input=tf.reshape(x, IMAGE),
        filter_sizes=FILTER.shape,
        out_backprop=tf.reshape(x[:6], [1, 2, 3, 1]),
        **STEPS,
    ),
    "gradient of a convolution by channel": lambda x: raw.DepthwiseConv2dNativeBackpropInput(
        input_sizes=IMAGE, filter=FILTER, out_backprop=tf.reshape(x[:6], [1, 2, 3, 1]), **STEPS
    ),
    "padding of a gradient": lambda x: raw.Conv2DBackpropInput(
        input_sizes=IMAGE,
        filter=FILTER,
        out_backprop=tf.reshape(x[:6], [1, 2, 3, 1]),
        strides=[1, 1, 1, 1],
        padding="EXPLICIT",
        explicit_paddings=[0, 0, -1, 0, 0, 0, 0, 0],
    ),
    "padding": lambda x: raw.MaxPool(
        input=tf.reshape(x, IMAGE),
        **WINDOWS | {"padding": "EXPLICIT", "explicit_paddings": [0, 0, 0, 1, 0, 2, 0, 0]},
    ),
}


@pytest.mark.parametrize("name", BAD_WINDOWS)
def test_windows_that_do_not_fit(name):
    given, texts = tf.range(16.0), []
    for jit in (None, True):
        with pytest.raises(tf.errors.OpError) as caught:
            tf.function(BAD_WINDOWS[name], jit_compile=jit, autograph=False)(given)
        texts.append(re.sub(r"_\d+\b|^\{\{function_node [^}]*\}\} ", "", str(caught.value)))
    assert texts[0].partition("\n")[0] in texts[1]


SAME_NUMBERS = {
    "segments without rows": lambda: [
        op(data=data - 3, segment_ids=[0, 0, 3])
        for op in (raw.SegmentMax, raw.SegmentMin, raw.SegmentProd, raw.SegmentMean)
        for data in (ONES, ONES.astype(np.int32))
    ],
    "batch dimensions of a convolution": lambda: raw.Conv(
        input=tf.reshape(tf.range(60.0), [2, 5, 1, 2, 1, 3]),
        filter=tf.reshape(tf.range(6.0), [1, 1, 1, 3, 2]),
        strides=[1] * 5,
        padding="VALID",
        batch_dims=2,
    ),
    "gradient of a maximum where NaN comes first, and later": lambda: [
        raw.MaxPoolGrad(
            orig_input=tf.reshape(
                [np.nan] * 6 + [1, np.nan, 2, 3, np.nan, np.nan, 0, 1, 2, 3], IMAGE
            ),
            orig_output=tf.ones(windows),
            grad=tf.reshape(tf.range(1.0, 1 + np.prod(windows)), windows),
            ksize=[1, 2, 2, 1],
            strides=[1, step, step, 1],
            padding="VALID",
        )
        for step, windows in ((1, [1, 3, 3, 1]), (2, [1, 2, 2, 1]))
    ],
    "gradient for an image whose batch and channels follow": lambda: [
        raw.Conv2DBackpropInput(
            input_sizes=[2, 2],
            filter=tf.reshape(tf.range(24.0), [2, 2, 2, 3]),
            out_backprop=tf.reshape(tf.range(6.0), [2, 1, 1, 3]),
            **STEPS,
        )
    ],
    "gradient of no output": lambda: raw.Conv2DBackpropInput(
        input_sizes=[3, 1, 1, 2],
        filter=tf.ones([1, 3, 2, 3]),
        out_backprop=tf.ones([3, 1, 0, 3]),
        strides=[1, 1, 2, 1],
        padding="VALID",
    ),
}


@pytest.mark.parametrize("name", SAME_NUMBERS)
def test_same_numbers(name):
    def program(jit):
        return tf.function(SAME_NUMBERS[name], jit_compile=jit, autograph=False)()

    assert_same(run(program, True), run(program, None))


POOL = {"ksize": [1, 1, 1, 3], "strides": [1, 1, 1, 3], "padding": "SAME"}


def test_argmax_pools_look_at_each_channel_alone_as_tensorflows_kernel():
    def program(jit):
        @tf.function(jit_compile=jit)
        def f(x):
            greatest, where = raw.MaxPoolWithArgmax(input=x * 2.0, **POOL)
            return greatest + 1.0, where * 2, tf.reduce_sum(greatest)

        return f(tf.constant([[[[5.0, 4.0, 1.0], [2.0, 3.0, 0.0]]]]))

    assert_same(run(program, True), run(program, None))


FULL = 1 << 62
SEQUENCE = {
    "row_pooling_sequence": np.zeros([5], np.int64),
    "col_pooling_sequence": np.zeros([5], np.int64),
}
ROWS = np.ones([1, 7, 13, 1], np.float32)
IN_TENSORFLOWS_WORDS = {
    "numbers beyond s64": lambda: tf.random.normal([FULL, 8]),
    "gamma numbers beyond s64": lambda: raw.RandomGamma(shape=[FULL, 3], alpha=[1.0, 2.0]),
    "a pool of the batch": lambda: raw.FractionalMaxPool(
        value=tf.ones([4, 8, 8, 2]), pooling_ratio=[1.5, 1.0, 1.0, 1.0]
    ),
    "a pool of the channels": lambda: raw.FractionalAvgPool(
        value=tf.ones([4, 8, 8, 2]), pooling_ratio=[1.0, 1.5, 1.0, 1.5]
    ),
    "a sequence of other windows": lambda: raw.FractionalMaxPoolGrad(
        orig_input=ROWS, orig_output=ROWS, out_backprop=ROWS, **SEQUENCE
    ),
    "a sequence of other averages": lambda: raw.FractionalAvgPoolGrad(
        orig_input_tensor_shape=[1, 7, 13, 1], out_backprop=ROWS, **SEQUENCE
    ),
    "formats of dimensions": lambda: raw.DataFormatDimMap(
        x=[0, 1], src_format="1234", dst_format="5321"
    ),
    "formats of sizes": lambda: raw.DataFormatVecPermute(
        x=[0, 1, 2, 3], src_format="1234", dst_format="5321"
    ),
}


@pytest.mark.parametrize("name", IN_TENSORFLOWS_WORDS)
def test_errors_are_tensorflows(name):
    with pytest.raises(tf.errors.OpError) as wanted:
        IN_TENSORFLOWS_WORDS[name]()
    compiled = tf.function(IN_TENSORFLOWS_WORDS[name], jit_compile=True, autograph=False)
    with pytest.raises(type(wanted.value)) as caught:
        compiled()
    said = wanted.value.message.rpartition("}} ")[2].partition(" [Op:")[0]
    assert said in str(caught.value)


ROLLS = {
    "input must be 1-D": (3, 1, 0),
    "shift must be a scalar or a 1-D vector. Found: [1,1]": ([1, 2, 3], [[1]], 0),
    "axis must be a scalar or a 1-D vector. Found: [1,1]": ([1, 2, 3], 1, [[0]]),
    "shift and axis must have the same size": ([1, 2, 3], [1, 2], [0]),
}


@pytest.mark.parametrize("text", ROLLS)
def test_a_graph_that_rolls_what_has_no_such_rank(text):
    """In a graph no eager call adds TensorFlow's words: they are the compiler's own."""
    signature = [tf.TensorSpec(None, tf.int32)] * 3

    @tf.function(jit_compile=True, input_signature=signature, autograph=False)
    def roll(x, shift, axis):
        return raw.Roll(input=x, shift=shift, axis=axis)

    @tf.function(input_signature=signature, autograph=False)
    def outer(x, shift, axis):
        return roll(x, shift, axis)

    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(text)):
        outer(*map(tf.constant, ROLLS[text]))


NTH = {
    "at least rank 1 but is rank 0": (5.0, 0),
    "non-negative but is -1": ([5.0], -1),
    "must have last dimension > n = 2": ([[0.1, 0.2], [0.3, 0.4]], 2),
}


@pytest.mark.parametrize("text", NTH)
def test_a_graph_that_asks_for_an_element_that_no_row_has(text):
    signature = [tf.TensorSpec(None, tf.float32), tf.TensorSpec([], tf.int32)]

    @tf.function(jit_compile=True, input_signature=signature, autograph=False)
    def found(x, n):
        return raw.NthElement(input=x, n=n)

    @tf.function(input_signature=signature, autograph=False)
    def outer(x, n):
        return found(x, n)

    with pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(text)):
        outer(*map(tf.constant, NTH[text]))


PARAMETERS_THAT_ARE_NO_LAST_SIZES = {
    "binomial": lambda s: tf.random.stateless_binomial([3], s, [5.0], [0.4]),
    "binomial of more rank": lambda s: tf.random.stateless_binomial([4], s, [[5.0, 3.0]], 0.4),
    "gamma": lambda s: tf.random.stateless_gamma([6], s, [2.0, 3.0]),
    "poisson": lambda s: tf.random.stateless_poisson([2, 3], s, [[2.0], [3.0]]),
    "truncated normal": lambda s: tf.random.stateless_parameterized_truncated_normal(
        [3], s, [0.0], [1.0], [-1.0], [1.0]
    ),
}


@pytest.mark.parametrize("name", PARAMETERS_THAT_ARE_NO_LAST_SIZES)
def test_parameters_must_be_the_last_sizes_of_the_numbers(name):
    function = PARAMETERS_THAT_ARE_NO_LAST_SIZES[name]
    for jit in (None, True):
        drawn = tf.function(function, jit_compile=jit, autograph=False)
        with pytest.raises(tf.errors.InvalidArgumentError, match="must end with broadcasted shape"):
            drawn(tf.constant([1, 2]))

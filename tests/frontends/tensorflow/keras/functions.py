# SPDX-License-Identifier: Apache-2.0
"""Rows for the functions of `keras.ops`, `activations` and `random`.

Arrays are arguments of the compiled function; everything else is written into it. Gradients by all
floating-point arguments are compared too, but for functions that TensorFlow cannot differentiate.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from tests.frontends.tensorflow.keras.row import calling, enter
from tests.frontends.tensorflow.keras.which import keras

_DRAWN = np.random.default_rng(5)


def floats(*dims: int) -> np.ndarray:
    """Return numbers between 0.1 and 0.9."""
    return _DRAWN.uniform(0.1, 0.9, dims).astype(np.float32)


def integers(below: int, *dims: int) -> np.ndarray:
    """Return integers from 0."""
    return _DRAWN.integers(0, below, dims).astype(np.int32)


X, Y, SIGNED = floats(3, 4), floats(3, 4), floats(3, 4) * 4 - 2
SQUARE = floats(4, 4)
POSITIVE = (SQUARE @ SQUARE.T + 4 * np.eye(4)).astype(np.float32)
IMAGE, VECTOR = floats(2, 8, 8, 3), floats(6)
LEFT, RIGHT = integers(5, 3, 4), integers(5, 3, 4)
TRUTH = floats(3, 4) > 0.5
HOLES = np.where(TRUTH, X, np.nan).astype(np.float32)
SEGMENTS = np.array([0, 0, 1, 2, 2, 2], np.int32)
ROW_INDICES = np.array([[1], [3]], np.int32)
AFFINE = np.array([[1, 0.1, 0, 0.1, 1, 0, 0, 0.0]] * 2, np.float32)
CORNERS = np.array([[[0, 0], [0, 8], [8, 0], [8, 8]]] * 2, np.float32)
MOVED = np.array([[[0, 1], [0, 7], [8, 1], [7, 8]]] * 2, np.float32)

SAME_ARGUMENTS: list[tuple[str, tuple[Any, ...], str]] = [
    ("ops", (X,),
     "abs absolute amax amin angle arccos arcsin arctanh argmax argmin argsort array "
     "average conj conjugate copy cumprod cumsum diag diagonal diff empty_like i0 imag "
     "is_tensor log log10 log1p log2 logsumexp max mean median min ndim norm normalize "
     "ones_like prod ptp ravel real reciprocal rms_normalization rsqrt size sort sparsemax "
     "sqrt square std stop_gradient sum trace trapezoid tril triu unique unstack var view "
     "zeros_like count_nonzero layer_normalization matrix_rank erfinv shape expm1"),
    ("ops", (SIGNED,),
     "arcsinh arctan cbrt ceil celu cos cosh deg2rad elu erf erfc exp exp2 fabs fliplr "
     "flipud floor gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh isfinite isinf "
     "isnan isneginf isposinf isreal leaky_relu log_sigmoid log_softmax negative rad2deg "
     "relu relu6 round selu sigmoid sign signbit silu sin sinc sinh soft_shrink softmax "
     "softplus softsign sparse_plus sparse_sigmoid squareplus tan tanh tanh_shrink trunc "
     "nonzero"),
    ("ops", (HOLES,),
     "nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin "
     "nanprod nanstd nansum nanvar"),
    ("ops", (X, Y),
     "add allclose append arctan2 divide divide_no_nan floor_divide fmax fmin fmod "
     "geomspace hypot inner logaddexp logaddexp2 maximum minimum mod multiply nextafter "
     "outer polar power subtract true_divide vdot binary_crossentropy cdist heaviside"),
    ("ops", (LEFT, RIGHT),
     "bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor equal gcd "
     "greater greater_equal isclose lcm left_shift less less_equal not_equal right_shift"),
    ("ops", ([X, Y],),
     "dstack hstack vstack"),
    ("ops", (TRUTH,),
     "all any logical_not"),
    ("ops", (TRUTH, TRUTH.T.reshape(3, 4)),
     "logical_and logical_or logical_xor"),
    ("ops", (LEFT,),
     "bitwise_invert bitwise_not"),
    ("ops", (POSITIVE,),
     "cholesky cholesky_inverse det inv logdet lu_factor pinv slogdet"),
    ("ops", (6,),
     "blackman hamming hanning"),
    ("ops", (4,),
     "eye identity tri"),
    ("ops", ((2, 3),),
     "ones zeros"),
    ("image", (IMAGE,),
     "gaussian_blur hsv_to_rgb rgb_to_grayscale rgb_to_hsv sobel_edges"),
    ("activations", (SIGNED,),
     "celu elu exponential gelu glu hard_shrink hard_sigmoid hard_silu hard_tanh "
     "leaky_relu linear log_sigmoid log_softmax mish relu relu6 selu sigmoid silu "
     "soft_shrink softmax softplus softsign sparse_plus sparse_sigmoid sparsemax "
     "squareplus tanh tanh_shrink"),
]  # fmt: skip
"""Functions that take the same arguments."""

ARGUMENTS: dict[str, tuple[Any, ...]] = {
    "activations.threshold": (SIGNED, 0.5, 0.1),
    "image.affine_transform": (IMAGE, AFFINE),
    "image.crop_images": (IMAGE, 1, 1, 2, 2),
    "image.elastic_transform": (IMAGE, 4.0, 2.0, "bilinear", "reflect", 0.0, 3),
    "image.extract_patches": (IMAGE, 2),
    "image.extract_patches_3d": (floats(1, 4, 4, 4, 1), 2),
    "image.map_coordinates": (floats(5, 6), floats(2, 7) * 4, 1),
    "image.pad_images": (IMAGE, 1, 1, 1, 1),
    "image.perspective_transform": (IMAGE, CORNERS, MOVED),
    "image.resize": (IMAGE, (5, 6)),
    "image.scale_and_translate": (
        IMAGE, (2, 5, 5, 3), floats(2), np.zeros(2, np.float32), (1, 2), "linear"),
    "image.ssim": (floats(2, 16, 16, 3), floats(2, 16, 16, 3), 1.0),
    "ops.adaptive_average_pool": (IMAGE, 4),
    "ops.adaptive_max_pool": (IMAGE, 4),
    "ops.arange": (2, 9, 2),
    "ops.arccosh": (X + 1,),
    "ops.argpartition": (X, 2),
    "ops.array_split": (X, 2),
    "ops.associative_scan": (lambda a, b: a + b, X),
    "ops.average_pool": (IMAGE, 2),
    "ops.batch_normalization": (IMAGE, floats(3), floats(3), -1),
    "ops.bincount": (integers(5, 9),),
    "ops.broadcast_to": (X, (2, 3, 4)),
    "ops.cast": (X, "int32"),
    "ops.categorical_crossentropy": (X, Y),
    "ops.clip": (X, 0.3, 0.6),
    "ops.concatenate": ([X, Y], 0),
    "ops.conv": (IMAGE, floats(3, 3, 3, 4)),
    "ops.conv_transpose": (IMAGE, floats(3, 3, 4, 3), 2),
    "ops.convert_to_tensor": (X,),
    "ops.correlate": (VECTOR, floats(3)),
    "ops.cross": (floats(5, 3), floats(5, 3)),
    "ops.ctc_decode": (floats(2, 7, 5), np.array([7, 5], np.int32)),
    "ops.ctc_loss": (integers(4, 2, 3) + 1, floats(2, 7, 5),
                     np.array([3, 2], np.int32), np.array([7, 6], np.int32)),
    "ops.depth_to_space": (floats(2, 4, 4, 8), 2),
    "ops.depthwise_conv": (IMAGE, floats(3, 3, 3, 2)),
    "ops.diagflat": (VECTOR,),
    "ops.digitize": (VECTOR, [0.2, 0.5, 0.7]),
    "ops.dot": (X, SQUARE),
    "ops.dot_product_attention": (floats(2, 5, 2, 4), floats(2, 5, 2, 4), floats(2, 5, 2, 4)),
    "ops.dsplit": (floats(2, 3, 4), 2),
    "ops.einsum": ("ij,kj->ik", X, Y),
    "ops.empty": ((2, 0),),
    "ops.expand_dims": (X, 1),
    "ops.extract_sequences": (VECTOR, 3, 1),
    "ops.fft": ((VECTOR, VECTOR),),
    "ops.fft2": ((X, Y),),
    "ops.flip": (X, 0),
    "ops.fold": (floats(2, 12, 16), (8, 8), 2, 1, 0, 2),
    "ops.fori_loop": (0, 5, lambda k, a: a * 1.1 + tf.cast(k, tf.float32), X),
    "ops.full": ((2, 3), 1.5),
    "ops.full_like": (X, 2.0),
    "ops.get_item": (X, 0),
    "ops.histogram": (VECTOR, 4),
    "ops.hsplit": (X, 2),
    "ops.ifft2": ((X, Y),),
    "ops.in_top_k": (integers(4, 3), X, 2),
    "ops.irfft": ((floats(4), floats(4)),),
    "ops.istft": ((floats(7, 5), floats(7, 5)), 8, 4, 8),
    "ops.kaiser": (6, 12.0),
    "ops.ldexp": (X, integers(3, 3, 4)),
    "ops.linspace": (0.0, 1.0, 5),
    "ops.logspace": (0.0, 1.0, 5),
    "ops.lstsq": (SQUARE, floats(4, 2)),
    "ops.map": (lambda a: a * 2, X),
    "ops.matmul": (X, SQUARE),
    "ops.max_pool": (IMAGE, 2),
    "ops.meshgrid": (VECTOR, floats(4)),
    "ops.moments": (IMAGE, [0, 1]),
    "ops.moveaxis": (IMAGE, 0, 2),
    "ops.multi_hot": (integers(5, 2, 3), 5),
    "ops.nanpercentile": (HOLES, 30.0),
    "ops.nanquantile": (HOLES, 0.3),
    "ops.one_hot": (integers(5, 3), 5),
    "ops.pad": (X, [[1, 2], [0, 1]]),
    "ops.percentile": (X, 30.0),
    "ops.psnr": (X, Y, 1.0),
    "ops.qr": (SQUARE,),
    "ops.quantile": (X, 0.3),
    "ops.rearrange": (X, "a b -> b a"),
    "ops.repeat": (X, 3, 1),
    "ops.reshape": (X, (2, 6)),
    "ops.rfft": (VECTOR,),
    "ops.roll": (X, 2, 1),
    "ops.rot90": (SQUARE,),
    "ops.saturate_cast": (X * 400, "uint8"),
    "ops.scan": (lambda c, a: (c + a, c * a), floats(4), X),
    "ops.scatter": (ROW_INDICES, floats(2), (6,)),
    "ops.scatter_update": (VECTOR, ROW_INDICES, floats(2)),
    "ops.searchsorted": (np.sort(VECTOR), floats(4)),
    "ops.segment_max": (VECTOR, SEGMENTS, 4),
    "ops.segment_min": (VECTOR, SEGMENTS, 4),
    "ops.segment_prod": (VECTOR, SEGMENTS, 4),
    "ops.segment_sum": (VECTOR, SEGMENTS, 4),
    "ops.select": ([TRUTH, X > 0.3], [X, Y], 0.0),
    "ops.separable_conv": (IMAGE, floats(3, 3, 3, 2), floats(1, 1, 6, 5)),
    "ops.slice": (X, (1, 0), (2, 3)),
    "ops.slice_update": (X, (1, 0), floats(2, 2)),
    "ops.solve": (POSITIVE, floats(4, 2)),
    "ops.solve_triangular": (POSITIVE, floats(4, 2)),
    "ops.space_to_depth": (IMAGE, 2),
    "ops.sparse_categorical_crossentropy": (integers(4, 3), X),
    "ops.split": (X, 2, 1),
    "ops.squeeze": (floats(3, 1, 4),),
    "ops.stack": ([X, Y], 1),
    "ops.stft": (floats(32), 8, 4, 8),
    "ops.swapaxes": (IMAGE, 0, 2),
    "ops.switch": (np.int32(1) + np.zeros((), np.int32), [lambda a: a, lambda a: a * 2], X),
    "ops.take": (X, integers(3, 2), 0),
    "ops.take_along_axis": (X, integers(3, 2, 4), 0),
    "ops.tensordot": (X, SQUARE, 1),
    "ops.threshold": (SIGNED, 0.5, 0.1),
    "ops.tile": (X, (2, 1)),
    "ops.top_k": (X, 2),
    "ops.transpose": (IMAGE, (0, 3, 1, 2)),
    "ops.unfold": (floats(2, 3, 8, 8), 3),
    "ops.unravel_index": (integers(12, 5), (3, 4)),
    "ops.vander": (VECTOR,),
    "ops.vectorized_map": (lambda a: a * 2, X),
    "ops.view_as_complex": (floats(3, 2),),
    "ops.vsplit": (X, [1, 2]),
    "ops.where": (TRUTH, X, Y),
    "ops.while_loop": (lambda a: tf.reduce_sum(a) < 100.0, lambda a: (a * 2,), (X,)),
    "random.beta": ((3, 4), 2.0, 3.0, None, 5),
    "random.binomial": ((3, 4), 9.0, 0.4, None, 5),
    "random.categorical": (X, 6, "int32", 5),
    "random.dropout": (X, 0.4, None, 5),
    "random.gamma": ((3, 4), 2.0, None, 5),
    "random.normal": ((3, 4), 1.0, 2.0, None, 5),
    "random.randint": ((3, 4), 2, 90, "int32", 5),
    "random.shuffle": (X, 0, 5),
    "random.truncated_normal": ((3, 4), 1.0, 2.0, None, 5),
    "random.uniform": ((3, 4), 1.0, 2.0, None, 5),
}  # fmt: skip
"""Functions with arguments of their own."""

WITHOUT_GRADIENT = ("ops.lu_factor", "ops.unique", "ops.view")
"""Functions that plain TensorFlow cannot differentiate."""

HOSTED = ("random.binomial",)
"""Functions of ops that only TensorFlow's own kernel computes."""


def _own_gradient(x: Any) -> Any:
    return keras.ops.custom_gradient(lambda a: (a * a, lambda dy, **_: dy * 7.0 * a))(x)


def _absolute(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose results are free of signs and phases, which vectors may have."""
    return lambda x: [keras.ops.abs(result) for result in function(x)]


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "ops.cond": (lambda x, y: keras.ops.cond(x[0, 0] > 0, lambda: x * 2, lambda: y), (X, Y)),
    "ops.custom_gradient": (_own_gradient, (X,)),
    "ops.eig": (_absolute(keras.ops.eig), (SQUARE,)),
    "ops.eigh": (_absolute(keras.ops.eigh), (POSITIVE,)),
    "ops.jvp": (lambda x, y: keras.ops.jvp(lambda a: a * a, (x,), (y,)), (X, Y)),
    "ops.svd": (_absolute(keras.ops.svd), (SQUARE,)),
    "ops.view_as_real": (lambda x, y: keras.ops.view_as_real(tf.complex(x, y)), (X, Y)),
}  # fmt: skip
"""Functions that are called in some other way than with their arguments."""


def _seeds(jit: Any) -> Any:
    generator = keras.random.SeedGenerator(3)
    draw = tf.function(lambda: keras.random.normal((3, 4), seed=generator), jit_compile=jit)
    return draw(), draw(), generator.state


def _function(name: str) -> Callable[..., Any]:
    module, own = name.split(".")
    path = {"image": keras.ops.image}.get(module) or getattr(keras, module)
    return getattr(path, own)


def enter_all() -> None:
    """Enter the rows of this file."""
    calls = {name: (_function(name), arguments) for name, arguments in ARGUMENTS.items()}
    for module, arguments, names in SAME_ARGUMENTS:
        for name in names.split():
            calls[f"{module}.{name}"] = (_function(f"{module}.{name}"), arguments)
    for name, (function, arguments) in {**calls, **PROGRAMS}.items():
        program = calling(function, arguments, name not in WITHOUT_GRADIENT)
        enter(name, program, name not in HOSTED)
    enter("random.SeedGenerator", _seeds)

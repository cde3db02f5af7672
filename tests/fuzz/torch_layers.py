# SPDX-License-Identifier: Apache-2.0
"""Lines of random PyTorch models: each maker writes one use of a layer.

The batch is the first dimension of every variable, and no line names its size: the same text runs
with batches of other sizes. A line may use layers, which `Writer.layer` adds to the model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from tests.fuzz.python_programs import (
    FLOAT,
    Shape,
    Variable,
    Writer,
    with_size,
)

LARGEST = 1 << 13


@dataclass(slots=True)
class ModelWriter(Writer):
    """Grows the body of a model.

    Attributes:
        layers: the text of each layer.
    """

    layers: list[str] = field(default_factory=list[str])

    def layer(self, text: str) -> str:
        """Add a layer to the model and return how it is called."""
        self.layers.append(text)
        return f"L[{len(self.layers) - 1}]"

    def row(self, *ranks: int) -> Variable | None:
        """Return floats of one of these ranks, with no empty dimension."""
        return self.any(
            lambda v: v.kind == FLOAT and 0 not in v.shape and (not ranks or len(v.shape) in ranks)
        )

    def flag(self) -> bool:
        """Return true or false."""
        return self.choose.random() < 0.5

    def one_of(self, *given: object) -> object:
        """Return one of the arguments."""
        return self.choose.choice(given)

    def inner(self, shape: Shape) -> int:
        """Return a dimension that is not the batch."""
        return self.choose.randrange(1, len(shape))


Maker = Callable[[ModelWriter], Variable | None]


def _fits(shape: Sequence[int]) -> bool:
    return min(shape) > 0 and math.prod(shape) <= LARGEST


def _kept(w: ModelWriter, text: str, shape: Shape) -> Variable | None:
    return w.let(text, shape) if _fits(shape) else None


def _divisor(w: ModelWriter, *numbers: int) -> int:
    shared = math.gcd(*numbers)
    return w.choose.choice([n for n in range(1, shared + 1) if shared % n == 0])


def _grouped_input(w: ModelWriter) -> tuple[Variable, int] | None:
    """Draw the input of a convolution of one to three dimensions, and its groups of channels."""
    x = w.row(3, 4, 5)
    if x is None:
        return None
    return x, w.choose.choice((1, 1, x.shape[1], _divisor(w, x.shape[1])))


def convolution(w: ModelWriter) -> Variable | None:
    """A convolution of one to three dimensions."""
    found = _grouped_input(w)
    if found is None:
        return None
    x, groups = found
    channels, space = x.shape[1], x.shape[2:]
    rank, pick = len(space), w.choose
    features = groups * pick.choice((1, 1, 2, 3, 5)) if groups > 1 else pick.choice((1, 2, 4, 7, 8))
    kernel = tuple(pick.choice((1, 1, 2, 3, 3, 4, 5)) for _ in space)
    stride = tuple(pick.choice((1, 1, 1, 2, 3)) for _ in space)
    dilation = tuple(pick.choice((1, 1, 1, 2, 3)) for _ in space)
    pads: tuple[int, ...] | str = tuple(pick.choice((0, 0, 1, 1, 2, 3)) for _ in space)
    mode = pick.choice(("zeros", "zeros", "zeros", "reflect", "replicate", "circular"))
    if mode != "zeros":
        pads = tuple(min(pad, size - 1) for pad, size in zip(pads, space, strict=True))
    if pick.random() < 0.15:
        pads, stride = "same", (1,) * rank
        if mode in ("reflect", "circular"):
            mode = "replicate"
    sizes: list[int] = []
    for axis, size in enumerate(space):
        reach = dilation[axis] * (kernel[axis] - 1)
        around = reach if isinstance(pads, str) else 2 * pads[axis]
        sizes.append((size + around - reach - 1) // stride[axis] + 1)
    shape = (x.shape[0], features, *sizes)
    if not _fits(shape):
        return None
    layer = w.layer(
        f"nn.Conv{rank}d({channels}, {features}, {kernel}, {stride}, {pads!r}, {dilation}, "
        f"{groups}, {w.flag()}, {mode!r})"
    )
    return w.let(f"{layer}({x.name})", shape)


def transposed_convolution(w: ModelWriter) -> Variable | None:
    """A transposed convolution, of any output padding that PyTorch takes."""
    found = _grouped_input(w)
    if found is None:
        return None
    x, groups = found
    channels, space = x.shape[1], x.shape[2:]
    rank, pick = len(space), w.choose
    features = groups * pick.choice((1, 2, 3))
    kernel = [pick.choice((1, 2, 3, 4)) for _ in space]
    stride = [pick.choice((1, 2, 2, 3)) for _ in space]
    dilation = [pick.choice((1, 1, 2)) for _ in space]
    pads = [pick.choice((0, 0, 1, 2)) for _ in space]
    extra = [
        pick.randint(0, max(s, d) - 1) if pick.random() < 0.4 else 0
        for s, d in zip(stride, dilation, strict=True)
    ]
    sizes = [
        (size - 1) * s - 2 * p + d * (k - 1) + e + 1
        for size, s, p, d, k, e in zip(space, stride, pads, dilation, kernel, extra, strict=True)
    ]
    shape = (x.shape[0], features, *sizes)
    if not _fits(shape):
        return None
    layer = w.layer(
        f"nn.ConvTranspose{rank}d({channels}, {features}, {kernel}, {stride}, {pads}, {extra}, "
        f"{groups}, {w.flag()}, {dilation})"
    )
    return w.let(f"{layer}({x.name})", shape)


def _pooled(size: int, window: list[int], ceil: bool) -> int:
    kernel, stride, pad, dilation = window
    span = size + 2 * pad - dilation * (kernel - 1) - 1
    made = (-(-span // stride) if ceil else span // stride) + 1
    return made - 1 if ceil and (made - 1) * stride >= size + pad else made


def pool(w: ModelWriter) -> Variable | None:
    """A pool of windows: largest, average, norms; perhaps undone."""
    x = w.row(3, 4, 5)
    if x is None:
        return None
    space, pick = x.shape[2:], w.choose
    rank, ceil = len(space), w.flag()
    kind = pick.choice(("Max", "Max", "Avg", "LP", "unpool"))
    kernel = [pick.choice((1, 2, 2, 3, 4)) for _ in space]
    stride = [pick.choice((1, 2, k)) for k in kernel]
    dilation = [pick.choice((1, 1, 2)) if kind == "Max" else 1 for _ in space]
    pads = [pick.randint(0, k // 2) if kind in ("Max", "Avg") else 0 for k in kernel]
    if kind == "unpool":
        stride, ceil = kernel, False
    sizes = [
        _pooled(size, window, ceil)
        for size, *window in zip(space, kernel, stride, pads, dilation, strict=True)
    ]
    shape = (*x.shape[:2], *sizes)
    # Of windows of padding alone PyTorch's kernels write out of bounds.
    is_short = any(s <= d * (k - 1) for s, d, k in zip(space, dilation, kernel, strict=True))
    if not _fits(shape) or is_short:
        return None
    if kind == "Max":
        text = f"nn.MaxPool{rank}d({kernel}, {stride}, {pads}, {dilation}, ceil_mode={ceil})"
    elif kind == "Avg":
        text = f"nn.AvgPool{rank}d({kernel}, {stride}, {pads}, {ceil}, {w.flag()})"
    elif kind == "LP":
        # Of a sum of powers that is nearly zero the root has no bounded gradient.
        layer = w.layer(f"nn.LPPool{rank}d(2, {kernel}, {stride}, {ceil})")
        return w.let(f"{layer}({x.name}.abs() + 0.5)", shape)
    else:
        found = f"F.max_pool{rank}d({x.name}, {kernel}, return_indices=True)"
        text = f"F.max_unpool{rank}d(*{found}, {kernel}, output_size={x.name}.shape)"
        return w.let(text, x.shape)
    return w.let(f"{w.layer(text)}({x.name})", shape)


def adaptive_pool(w: ModelWriter) -> Variable | None:
    """A pool to given sizes."""
    x = w.row(3, 4, 5)
    if x is None:
        return None
    rank = len(x.shape) - 2
    sizes = [w.choose.choice((1, 1, 2, 3, 5)) for _ in range(rank)]
    kind = w.choose.choice(("Avg", "Max"))
    layer = w.layer(f"nn.Adaptive{kind}Pool{rank}d({sizes})")
    return _kept(w, f"{layer}({x.name})", (*x.shape[:2], *sizes))


def normalization(w: ModelWriter) -> Variable | None:
    """A layer that normalizes."""
    x = w.row(2, 3, 4, 5)
    if x is None:
        return None
    channels, rank, last = x.shape[1], len(x.shape) - 2, w.choose.randint(1, len(x.shape) - 1)
    tail = list(x.shape[last:])
    batch = f"nn.BatchNorm{max(rank, 1)}d({channels}, affine={w.flag()}, "
    options = [
        f"nn.GroupNorm({_divisor(w, channels)}, {channels}, affine={w.flag()})",
        f"nn.LayerNorm({tail}, elementwise_affine={w.flag()})", f"nn.LayerNorm({tail}, bias=False)",
        f"nn.RMSNorm({tail}, elementwise_affine={w.flag()})",
        f"{batch}track_running_stats={w.flag()})",
    ] if math.prod(x.shape[1:]) > channels or rank == 0 else ["nn.Identity()"]  # fmt: skip
    if rank and math.prod(x.shape[2:]) > 1:
        options.append(
            f"nn.InstanceNorm{rank}d({channels}, affine={w.flag()}, track_running_stats={w.flag()})"
        )
    if rank:
        options.append(f"nn.LocalResponseNorm({w.choose.randint(1, 5)}, 0.1)")
    return w.let(f"{w.layer(w.choose.choice(options))}({x.name})", x.shape)


_ACTIVATIONS = (
    "nn.ReLU()", "nn.ReLU6()", "nn.ELU(0.7)", "nn.SELU()", "nn.CELU(1.3)", "nn.GELU()",
    "nn.GELU('tanh')", "nn.SiLU()", "nn.Mish()", "nn.Softplus(2.0, 5.0)", "nn.Softshrink(0.3)",
    "nn.Hardshrink(0.3)", "nn.Tanhshrink()", "nn.Hardtanh(-0.7, 1.1)", "nn.Hardswish()",
    "nn.Hardsigmoid()", "nn.LogSigmoid()", "nn.Sigmoid()", "nn.Tanh()", "nn.LeakyReLU(0.2)",
    "nn.Threshold(0.2, -0.4)", "nn.PReLU()", "nn.Softsign()", "nn.RReLU()", "nn.Dropout(0.3)",
    "nn.AlphaDropout(0.2)", "nn.ReLU(inplace=True)", "nn.Identity()",
)  # fmt: skip


def activation(w: ModelWriter) -> Variable | None:
    """An activation, or random noise."""
    x = w.row(2, 3, 4, 5)
    if x is None:
        return None
    axis, rank, size = w.inner(x.shape), len(x.shape), x.shape[1]
    options = [w.choose.choice(_ACTIVATIONS) for _ in range(6)]
    options += [f"nn.Softmax({axis})", f"nn.LogSoftmax({axis})", f"nn.PReLU({size})"]
    if rank in (3, 4, 5):
        options.append(f"nn.Dropout{rank - 2}d(0.3)")
    if x.shape[axis] % 2 == 0 and w.choose.random() < 0.2:
        half = with_size(x.shape, axis, x.shape[axis] // 2)
        return w.let(f"{w.layer(f'nn.GLU({axis})')}({x.name})", half)
    text = w.choose.choice(options)
    # Noise is drawn in the order of memory, which PyTorch does not know of all layers' results.
    is_random = "Dropout" in text or "RReLU" in text
    given = f"{x.name}{'.contiguous()' * is_random}{' * 1' * ('inplace' in text)}"
    return w.let(f"{w.layer(text)}({given})", x.shape)


def linear(w: ModelWriter) -> Variable | None:
    """A product with weights, or of variables."""
    x = w.row()
    if x is None or len(x.shape) < 2:
        return None
    size, features = x.shape[-1], w.choose.choice((1, 2, 5, 8, 16, 33))
    shape = (*x.shape[:-1], features)
    if not _fits(shape):
        return None
    n = x.name
    options = [
        (f"{w.layer(f'nn.Linear({size}, {features}, bias={w.flag()})')}({n})", shape),
        (f"{w.layer(f'nn.Bilinear({size}, {size}, {features})')}({n}, {n}.tanh())", shape),
    ]
    if len(x.shape) > 2:
        square = (*x.shape[:-1], x.shape[-2])
        options.append((f"({n} @ {n}.transpose(-1, -2)) / {4 * size}", square))
        options.append((f"torch.einsum('b...i,b...j->b...ij', {n}, {n})", (*x.shape, size)))
    text, shape = w.choose.choice(options)
    return _kept(w, text, shape)


def attention(w: ModelWriter) -> Variable | None:
    """Attention: the function, the layer and the layers of a transformer."""
    x = w.row(3)
    if x is None:
        return None
    (_, length, width), n = x.shape, x.name
    heads = _divisor(w, width)
    options: list[str] = []
    if length > 1:
        mask = f"torch.ones({length}, {length}, dtype=torch.bool).tril()"
        split = f"{n}.unflatten(-1, ({heads}, -1)).transpose(1, 2)"
        for given in ("", ", is_causal=True", f", attn_mask={mask}", ", scale=0.3"):
            call = f"F.scaled_dot_product_attention({split}, {split}.tanh(), {split}{given})"
            options.append(f"{call}.transpose(1, 2).flatten(2)")
        options.append(
            f"F.scaled_dot_product_attention({split}, {split}[:, :1], {split}[:, :1], "
            "enable_gqa=True).transpose(1, 2).flatten(2)"
        )
        layer = w.layer(f"nn.MultiheadAttention({width}, {heads}, batch_first=True)")
        options.append(f"{layer}({n}, {n}, {n}, need_weights={w.flag()}, attn_mask=~{mask})[0]")
        options.append(f"{layer}({n}, {n}.sin(), {n})[0]")
        norm = w.flag()
        for name in ("Encoder", "Decoder"):
            layer = w.layer(
                f"nn.Transformer{name}Layer({width}, {heads}, 8, 0.1, "
                f"batch_first=True, norm_first={norm})"
            )
            options.append(f"{layer}({n}{', ' + n if name == 'Decoder' else ''})")
    return w.let(w.choose.choice(options), x.shape) if options else None


def recurrent(w: ModelWriter) -> Variable | None:
    """A recurrent layer or cell."""
    x = w.row(2, 3)
    if x is None:
        return None
    n, size, hidden = x.name, x.shape[-1], w.choose.choice((2, 5, 8))
    kind = w.choose.choice(("LSTM", "GRU", "RNN"))
    if len(x.shape) == 2:
        found = f"{w.layer(f'nn.{kind}Cell({size}, {hidden})')}({n})"
        return w.let(found + "[0]" * (kind == "LSTM"), (x.shape[0], hidden))
    both, layers = w.flag(), w.choose.randint(1, 2)
    projected = kind == "LSTM" and hidden > 2 and w.choose.random() < 0.2
    more = ", proj_size=2" if projected else ""
    width = (2 if projected else hidden) * (1 + both)
    layer = w.layer(
        f"nn.{kind}({size}, {hidden}, {layers}, batch_first=True, bidirectional={both}{more})"
    )
    if w.choose.random() < 0.3:
        state = f"{layer}({n})[1]" + "[0]" * (kind == "LSTM")
        rows, last = (1 + both) * layers, 2 if projected else hidden
        return w.let(f"{state}.transpose(0, 1)", (x.shape[0], rows, last))
    return w.let(f"{layer}({n})[0]", (*x.shape[:2], width))


LAYERS: list[Maker] = [
    convolution, convolution, transposed_convolution, pool, adaptive_pool, normalization,
    normalization, activation, activation, linear, attention, recurrent,
]  # fmt: skip

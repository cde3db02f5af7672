# SPDX-License-Identifier: Apache-2.0
"""Lines of random PyTorch models: what stands between layers. See `torch_layers`."""

from __future__ import annotations

import math

from tests.fuzz.python_programs import INT, Variable, with_size, without
from tests.fuzz.torch_layers import LARGEST, LAYERS, Maker, ModelWriter


def _chosen(w: ModelWriter, options: list[tuple[str, tuple[int, ...]]]) -> Variable | None:
    fitting = [(text, shape) for text, shape in options if math.prod(shape) <= LARGEST]
    return w.let(*w.choose.choice(fitting)) if fitting else None


def movement(w: ModelWriter) -> Variable | None:
    """What moves, repeats or leaves out elements along dimensions that are not the batch."""
    x = w.row()
    if x is None or len(x.shape) < 2:
        return None
    n, shape, pick = x.name, x.shape, w.choose
    axis, rank = w.inner(shape), len(shape)
    size, at = shape[axis], ":, " * axis
    cut, step = pick.randint(0, size - 1), pick.randint(1, 3)
    order = [0, *pick.sample(range(1, rank), rank - 1)]
    twice = with_size(shape, axis, 2 * size)
    flat = (shape[0], math.prod(shape[1:]))
    divisor = pick.choice([d for d in range(1, size + 1) if size % d == 0])
    split = (*shape[:axis], divisor, size // divisor, *shape[axis + 1 :])
    inner = f"{n}.unflatten({axis}, ({divisor}, {size // divisor}))"
    return _chosen(w, [
        (f"{n}[{at}{cut}::{step}]", with_size(shape, axis, -(-(size - cut) // step))),
        (f"{n}.narrow({axis}, {cut}, {size - cut})", with_size(shape, axis, size - cut)),
        (f"{n}.permute({order})", tuple(shape[i] for i in order)),
        (f"{n}.permute({order}).contiguous()", tuple(shape[i] for i in order)),
        (f"{n}.flip({axis})", shape), (f"{n}.roll({cut}, {axis})", shape),
        (f"{n}.flatten(1)", flat), (f"{n}.reshape({n}.shape[0], -1)", flat),
        (f"{n}.flatten(1).view(-1, {', '.join(map(str, shape[1:]))})", shape),
        (inner, split),
        (f"{inner}.transpose({axis}, {axis + 1}).flatten({axis}, {axis + 1})", shape),
        (f"torch.cat([{n}, {n}.sin()], {axis})", twice),
        (f"torch.stack([{n}, -{n}], {axis})", (*shape[:axis], 2, *shape[axis:])),
        (f"{n}.chunk(2, {axis})[0]", with_size(shape, axis, -(-size // 2))),
        (f"{n}.unbind({axis})[{cut}]", without(shape, axis)) if rank > 2 else (n, shape),
        (f"{n}.unsqueeze({axis})", (*shape[:axis], 1, *shape[axis:])),
        (f"{n}.repeat_interleave(2, {axis})", twice),
        (f"{n}.index_select({axis}, torch.tensor([{cut}, 0, {cut}]))", with_size(shape, axis, 3)),
        (f"{n}[{at}torch.tensor([{cut}, -1])]", with_size(shape, axis, 2)),
        # A copy: of a result with elements that overlap, PyTorch's own compilers lose gradients.
            (f"{n}.unfold({axis}, {divisor}, {step}).contiguous()",
         (*with_size(shape, axis, (size - divisor) // step + 1), divisor)),
        (f"{n}.expand(2, *{n}.shape).sum(0)", shape),
        (f"torch.gather({n}, {axis}, {n}.argsort({axis}))", shape),
    ])  # fmt: skip


def space(w: ModelWriter) -> Variable | None:
    """What moves elements of images."""
    x = w.row(3, 4, 5)
    if x is None:
        return None
    n, (batch, channels, *sizes), pick = x.name, x.shape, w.choose
    rank = len(sizes)
    pads = [pick.choice((0, 1, 2)) for _ in range(2 * rank)]
    around = [size + pads[2 * i] + pads[2 * i + 1] for i, size in enumerate(reversed(sizes))]
    padded = (batch, channels, *reversed(around))
    mode = (
        "constant"
        if min(sizes) <= 2
        else pick.choice(("constant", "reflect", "replicate", "circular"))
    )
    wanted = [pick.choice((1, 2, 5, 7, 2 * size)) for size in sizes]
    modes = {1: ["linear"], 2: ["bilinear", "bicubic"], 3: ["trilinear"]}[rank]
    rough = w.one_of("nearest", "nearest-exact", "area")
    smooth = f"mode={pick.choice(modes)!r}, align_corners={w.flag()}"
    resized = (batch, channels, *wanted)
    options = [
        (f"F.pad({n}, {pads}, {mode!r})", padded),
        (f"F.pad({n}, {[1] * (2 * rank)}, value=-0.5)", (batch, channels, *[s + 2 for s in sizes])),
        (f"F.interpolate({n}, {wanted}, {smooth})", resized),
        (f"F.interpolate({n}, {wanted}, mode={rough!r})", resized),
        (f"F.interpolate({n}, scale_factor=2)", (batch, channels, *[2 * s for s in sizes])),
        (f"{n}.mean({list(range(2, 2 + rank))}, keepdim=True) * {n}", x.shape),
        (f"{n}.flatten(2).transpose(1, 2)", (batch, math.prod(sizes), channels)),
        (f"{n}.movedim(1, -1)", (batch, *sizes, channels)),
    ]  # fmt: skip
    if rank == 2:
        rows, columns = sizes
        window = (min(2, rows), min(3, columns))
        count = (rows - window[0] + 1) * (columns - window[1] + 1)
        unfolded = f"F.unfold({n}, {window})"
        options += [
            (unfolded, (batch, channels * math.prod(window), count)),
            (f"F.fold({unfolded}, ({rows}, {columns}), {window})", x.shape),
            (f"F.grid_sample({n}, F.affine_grid({n}.flatten(1)[:, :1].tanh().unsqueeze(-1) * 0.3 "
             f"+ torch.eye(2, 3), {n}.shape, align_corners=False), align_corners=False)", x.shape),
        ]  # fmt: skip
        if channels % 4 == 0:
            shuffled = (batch, channels // 4, 2 * rows, 2 * columns)
            options.append((f"F.pixel_shuffle({n}, 2)", shuffled))
        if rows % 2 == columns % 2 == 0:
            shuffled = (batch, 4 * channels, rows // 2, columns // 2)
            options.append((f"F.pixel_unshuffle({n}, 2)", shuffled))
    return _chosen(w, options)


def fold(w: ModelWriter) -> Variable | None:
    """A reduction, a running fold or a sort along a dimension, or over the batch."""
    x = w.row()
    if x is None or len(x.shape) < 2:
        return None
    n, shape, axis = x.name, x.shape, w.inner(x.shape)
    less, size = without(shape, axis), shape[axis]
    kept = with_size(shape, axis, 1)
    return _chosen(w, [
        *((f"{n}.{name}({axis}, keepdim=True)", kept)
          for name in ("sum", "mean", "amax", "amin", "logsumexp", "norm")),
        *((f"{n}.{name}({axis})", less) for name in ("sum", "mean", "logsumexp") if len(shape) > 2),
        (f"{n}.max({axis}, keepdim=True)[0]", kept), (f"{n}.median({axis}, keepdim=True)[0]", kept),
        (f"{n}.var({axis}, keepdim=True, correction=0)", kept),
        (f"({n}.tanh() + 1.5).prod({axis}, keepdim=True)", kept) if size < 9 else (n, shape),
        (f"{n}.cumsum({axis}) / {size}", shape), (f"{n}.logcumsumexp({axis})", shape),
        (f"{n}.cummax({axis})[0]", shape), (f"{n}.sort(dim={axis}, stable=True)[0]", shape),
        (f"{n}.topk({-(-size // 2)}, {axis})[0]", with_size(shape, axis, -(-size // 2))),
        (f"{n} - {n}.mean(0)", shape), (f"{n}.softmax(0)", shape), (f"{n}.cumsum(0) / 4", shape),
        (f"{n} - {n}.amax(0, keepdim=True)", shape), (f"{n}.flip(0)", shape),
        (f"F.normalize({n}, dim={axis})", shape),
    ])  # fmt: skip


_UNARY = (
    "{}.sin()", "{}.square() / 9", "{}.abs().sqrt().clamp(min=0.1)", "{}.abs().log1p()", "-{}",
    "{}.clamp(-1.5, 2)", "{}.exp().clamp(max=5)", "{}.erf()", "{}.atan()", "{}.detach()",
    "{}.to(torch.bfloat16).float()", "{}.double().cos().float()",
    "{}.masked_fill({} > 0.0371, 0.3)", "torch.where({} > 0.0371, {}, {} * 0.1)", "{}.tril()",
    "{}.triu(1)", "{}.xlogy({}.abs() + 1)",
    "{}.abs().add(0.5).pow(1.7)", "{}.expm1().clamp(max=3)", "({} * 3).remainder(2.0) * 0 + {}",
)  # fmt: skip
_BINARY = (
    "{} + {}", "{} - {}", "{} * {} / 4", "torch.maximum({}, {})", "{} / ({}.abs() + 1)",
    "torch.atan2({}, {}.abs() + 0.5)", "{}.lerp({}, 0.3)", "torch.addcmul({}, {}, {}, value=0.3)",
    "torch.logaddexp({}, {})", "{}.hypot({} + 3)",
)  # fmt: skip


def elementwise(w: ModelWriter) -> Variable | None:
    """An elementwise function of one or two variables."""
    x = w.row()
    if x is None:
        return None
    if w.flag():
        text = w.choose.choice(_UNARY)
        if len(x.shape) < 2 and "tri" in text:
            return None
        return w.let(text.replace("{}", x.name), x.shape)
    y = w.any(lambda v: v.shape == x.shape and v.kind == x.kind)
    first, _, rest = w.choose.choice(_BINARY).partition("{}")
    return w.let(first + x.name + rest.replace("{}", y.name if y else x.name), x.shape)


def written(w: ModelWriter) -> Variable | None:
    """A copy that is written in part."""
    x = w.row()
    if x is None or len(x.shape) < 2:
        return None
    axis = w.inner(x.shape)
    at, cut = ":, " * axis, w.choose.randint(0, x.shape[axis] - 1)
    made = w.let(f"{x.name}.clone()", x.shape)
    n = made.name
    w.write(w.choose.choice((
        f"{n}[{at}{cut}:] *= 2", f"{n}[{at}::2] = {x.name}[{at}::2].sin()",
        f"{n}.add_({x.name}, alpha=0.5)", f"{n}.transpose({axis}, -1).mul_(0.5)",
        f"{n}[{n} > 0.0371] = 0.25", f"{n}.select({axis}, {cut}).zero_()",
        f"{n}.flatten(1)[:, 1:].relu_()", f"{n}[0] = 0.5", f"{n}[::2].sub_(1)",
        f"{n}.index_add_({axis}, torch.tensor([{cut}, 0]), {x.name}.narrow({axis}, 0, 1)"
        f".repeat_interleave(2, {axis}))",
    )))  # fmt: skip
    return made


def by_each(w: ModelWriter) -> Variable | None:
    """A layer of each step of each sequence, or over the batch as a sequence."""
    x = w.row(3, 4, 5)
    if x is None:
        return None
    n, size = x.name, x.shape[-1]
    layer = w.layer(f"nn.Linear({size}, {size})")
    rows = f"{layer}({n}.flatten(0, -2))"
    back = f"{n}.shape" if w.flag() else f"{n}.shape[0], {', '.join(map(str, x.shape[1:]))}"
    return w.let(f"{rows}.reshape({back})", x.shape)


def words(w: ModelWriter) -> Variable | None:
    """A lookup of integers, which arguments alone are."""
    x = w.any(lambda v: v.kind == INT and v.name.startswith("x"))
    if x is None:
        return None
    n, width = x.name, w.choose.choice((1, 3, 8))
    padding = w.one_of(None, 0, 3)
    layer = w.layer(f"nn.Embedding(11, {width}, padding_idx={padding})")
    bags = w.layer(f"nn.EmbeddingBag(11, {width}, mode={w.one_of('sum', 'mean', 'max')!r})")
    return _chosen(w, [
        (f"{layer}({n})", (*x.shape, width)), (f"{bags}({n})", (x.shape[0], width)),
        (f"F.one_hot({n}, 11).float()", (*x.shape, 11)), (f"{n} / 11", x.shape),
    ])  # fmt: skip


MAKERS: list[Maker] = [
    *LAYERS, movement, movement, movement, space, space, fold, fold, elementwise, elementwise,
    written, by_each, words,
]  # fmt: skip

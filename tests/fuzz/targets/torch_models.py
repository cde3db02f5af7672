# SPDX-License-Identifier: Apache-2.0
"""Random stacks of PyTorch layers, compiled by Ingot, beside eager: results, gradients, buffers.

A case is a Python file: layers, a function of some arrays, and how it is compiled: for numbers, for
any batch, or for any sizes. Programs of more than one batch run with three.
"""

from __future__ import annotations

import copy
import random
import re
from typing import Any

import numpy as np
from tests.fuzz.close_results import difference_of_leaves
from tests.fuzz.python_programs import INT, Variable
from tests.fuzz.target import Target
from tests.fuzz.torch_glue import MAKERS
from tests.fuzz.torch_layers import ModelWriter

_HEAD = "import torch\nfrom torch import nn\nfrom torch.nn import functional as F\n"
_SIZES = (1, 2, 3, 4, 6, 7, 8, 9, 12, 16, 17)
_BATCHES = ((3,), (2, 5, 3), (4, 2, 7))


def generate(choose: random.Random) -> bytes:
    """Return a program."""
    mode = choose.choice(("static", "static", "batch", "open"))
    batches = (choose.choice((1, 2, 3, 5)),) if mode == "static" else choose.choice(_BATCHES[1:])
    w = ModelWriter(choose)
    drawn: list[str] = []
    for number in range(choose.randint(1, 2)):
        rank = choose.choice((1, 2, 2, 3, 3, 3, 4))
        sizes = [choose.choice(_SIZES[: 11 if rank < 4 else 7]) for _ in range(rank)]
        w.pool.append(Variable(f"x{number}", (batches[0], *sizes)))
        drawn.append(_drawn(choose, sizes))
    if choose.random() < 0.2:
        size = choose.choice((1, 4, 9))
        w.pool.append(Variable(f"x{len(drawn)}", (batches[0], size), INT))
        drawn.append(f"torch.randint(0, 11, (batch, {size}))")
    given = [item.name for item in w.pool]
    w.grow(choose.randint(2, 9), MAKERS)
    # All that nothing else reads: PyTorch would drop a dead line with what it draws or writes.
    read = {name for line in w.lines for name in re.findall(r"\w+", line.partition("=")[2])}
    made = [v.name for v in w.pool if v.name not in {*given, *read}]
    body = "\n".join("    " + line for line in [*w.lines, f"return ({', '.join(made or given)},)"])
    layers = "".join(f"    {text},\n" for text in w.layers)
    return (
        f"{_HEAD}torch.manual_seed({choose.randint(0, 1 << 20)})\nL = nn.ModuleList([\n{layers}])\n"
        f"def inputs(batch):\n    return [{', '.join(drawn)}]\n"
        f"def program({', '.join(given)}):\n{body}\n"
        f"MODE, BATCHES, TRAINING = {mode!r}, {batches}, {choose.random() < 0.8}\n"
        f"COTANGENT = {choose.choice(('waves', 'ones'))!r}\n"
    ).encode()


def _drawn(choose: random.Random, sizes: list[int]) -> str:
    """Return the text of an argument, sometimes one that does not lie densely in order."""
    text = f"torch.randn(batch, {', '.join(map(str, sizes))})"
    way = choose.random()
    if way < 0.1 and len(sizes) == 3:
        return f"{text}.to(memory_format=torch.channels_last)"
    if way < 0.2 and len(sizes) > 1:
        turned = ", ".join(map(str, [*sizes[:-2], sizes[-1], sizes[-2]]))
        return f"torch.randn(batch, {turned}).transpose(-1, -2)"
    if way < 0.25:
        return f"torch.randn(2 * batch, {', '.join(map(str, sizes))})[::2]"
    return text


def check(data: bytes) -> str:
    """Compare the compiled program with eager: values, gradients, buffers, generator."""
    import torch

    names: dict[str, Any] = {}
    exec(compile(data, "<case>", "exec"), names)
    torch._dynamo.reset()
    model, training = names["L"], names["TRAINING"]
    model.train(training)
    first, shaken = (copy.deepcopy(model) for _ in range(2))
    dynamic = {"static": False, "batch": None, "open": True}[names["MODE"]]
    compiled = torch.compile(names["program"], backend="ingot", fullgraph=True, dynamic=dynamic)
    for batch in names["BATCHES"]:
        torch.manual_seed(batch)
        given = names["inputs"](batch)
        try:
            want = _run(names, names["program"], first, given)
        except (RuntimeError, TypeError, ValueError):
            return ""  # PyTorch itself does not take it
        moved = [x * (1 + 2e-6) if x.is_floating_point() else x for x in given]
        near = _run(names, names["program"], shaken, moved)
        with torch._dynamo.config.patch(allow_rnn=True):
            got = _run(names, compiled, model, given)
        found = difference_of_leaves(got, want, near)
        if found:
            return f"batch {batch}: {found}"
    return ""


def _run(names: dict[str, Any], program: Any, model: Any, given: list[Any]) -> list[np.ndarray]:
    """Return results, gradients of arguments and parameters, and buffers of one call."""
    import torch

    names["L"] = model
    is_gradient = names["TRAINING"]
    leaves = [_leaf(x, is_gradient, names["MODE"]) for x in given]
    torch.manual_seed(5)
    with torch.set_grad_enabled(is_gradient):
        made = list(program(*leaves))
    found = [x.detach() for x in made]
    wanted = [x for x in (*leaves, *model.parameters()) if x.requires_grad]
    results = [x for x in made if x.requires_grad]
    if results:
        waves = [torch.arange(x.numel()).sin().reshape(x.shape) for x in results]
        ones = names["COTANGENT"] == "ones"
        total = sum((x if ones else x * w).sum() for x, w in zip(results, waves, strict=True))
        gradients = torch.autograd.grad(total, wanted, allow_unused=True)
        found += [torch.zeros(0) if g is None else g for g in gradients]
    found += [x.detach() for x in model.buffers()]
    found.append(torch.rand(1))  # the generator has drawn as often
    return [x.to_dense().numpy().copy() for x in found]


def _leaf(x: Any, is_gradient: bool, mode: str) -> Any:
    import torch

    made = x.detach()
    if made.is_floating_point():
        made.requires_grad_(is_gradient)
    if mode == "batch":
        torch._dynamo.maybe_mark_dynamic(made, 0)
    return made


TARGET = Target("torch_models", ".py", generate, check, share=2.0, seconds=180.0, memory=48 << 30)

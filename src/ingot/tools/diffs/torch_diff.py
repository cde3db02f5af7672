# SPDX-License-Identifier: Apache-2.0
"""PyTorch's modules and functions for `ingot.diff`: compiled by Ingot, and run eagerly.

Parameters and buffers are restored before each run and afterwards, and so is the state of the
random generator; the values that a run leaves in buffers count as results too. The programs that
Ingot compiled are examined on random inputs.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ingot.hlo.literal import Array
from ingot.support.diagnostics import UnsupportedError
from ingot.tools.diffs.function_diff import Function, on_random_inputs


def run_both(program: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> Function:
    """Run a module, a function, or a result of `torch.compile`, compiled by Ingot and eagerly.

    Raises:
        UnsupportedError: INGOT0363, Ingot compiled nothing in it.
    """
    from ingot.frontends.torch.backend import ingot
    from ingot.frontends.torch.graphs import compiled_graphs

    torch: Any = sys.modules["torch"]
    original: Any = getattr(program, "_torchdynamo_orig_callable", program)
    is_module = isinstance(original, torch.nn.Module)
    state: list[Any] = [*original.parameters(), *original.buffers()] if is_module else []
    before = [tensor.detach().clone() for tensor in state]

    def run(call: Callable[..., Any]) -> list[Array]:
        with torch.random.fork_rng():
            found: Any = call(*args, **kwargs)
        leaves: list[Any] = torch.utils._pytree.tree_leaves(found)
        results = [_array(torch, one) for one in (*leaves, *state) if isinstance(one, torch.Tensor)]
        with torch.no_grad():
            for tensor, value in zip(state, before, strict=True):
                tensor.copy_(value)
        return results

    want = run(original)
    known = set(compiled_graphs())
    # A separate backend, so that PyTorch does not reuse earlier compilations.
    got = run(torch.compile(original, backend=partial(ingot)))
    graphs = [graph for graph in compiled_graphs() if graph not in known]
    if not graphs:
        raise UnsupportedError(
            "no part of the module was compiled",
            code="INGOT0363",
            hint="give it the arguments that it is called with",
        )
    return Function(
        title=type(original).__name__ if is_module else str(original.__name__),
        reference="PyTorch run eagerly",
        got=got,
        want=want,
        ops=None,
        cases=[on_random_inputs(one.source) for graph in graphs for one in graph.executables],
    )


def _array(torch: Any, tensor: Any) -> Array:
    """Return a tensor as an array that shares no memory; bf16, which NumPy lacks, as f32."""
    kept = tensor.detach().cpu()
    found: Array = (kept.float() if kept.dtype == torch.bfloat16 else kept).numpy()
    return found.copy()

# SPDX-License-Identifier: Apache-2.0
"""A pytest plugin that gives PyTorch's own tests another backend than the one that they name.

`tools/conformance_torch.py` loads it into the processes that run PyTorch's tests, with the name of
the backend in `CONFORMANCE_BACKEND`. Whatever asks for `inductor`, `eager` or `aot_eager` by name,
the function `compile_fx` of inductor, and the test helpers that count or keep graphs and run them
as they are, then compile with that backend.

Invariant: the tests themselves are as PyTorch wrote them; a test that means inductor's text or
eager's own nodes fails with `aot_eager` in its place as well, and so says nothing of Ingot.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch._dynamo.testing as helpers
import torch._inductor.compile_fx as inductor
from torch._dynamo.backends import registry

BACKEND = os.environ.get("CONFORMANCE_BACKEND", "ingot")
REPLACED = ("inductor", "eager", "aot_eager", "aot_eager_decomp_partition")
"""The names that mean `BACKEND` in a test."""

_compile: Callable[..., Any] = registry.lookup_backend(BACKEND)


def _compile_fx(graph: Any, inputs: Sequence[Any], *_: Any, **__: Any) -> Callable[..., Any]:
    return _compile(graph, inputs)


def _counted(self: Any, graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    self.frame_count += 1
    self.op_count += sum("call" in node.op for node in graph.graph.nodes)
    return _compile(graph, inputs)


def _recorded(self: Any, graph: Any, inputs: Sequence[Any]) -> Callable[..., Any]:
    self.graphs.append(graph)
    return _compile(graph, inputs)


for _name in REPLACED:
    registry.lookup_backend(_name)  # torch registers it when it is first asked for
    registry._COMPILER_FNS[_name] = _compile_fx
inductor.compile_fx = _compile_fx
helpers.CompileCounter.__call__ = _counted
helpers.EagerAndRecordGraphs.__call__ = _recorded
torch._dynamo.config.suppress_errors = False

# SPDX-License-Identifier: Apache-2.0
"""The decompositions that PyTorch applies before Ingot: its core decompositions, with exceptions.

Ops on lists of tensors become ops on each tensor (`foreach`). An op with a rule of Ingot's stays
whole, since the rule knows more than its parts show. Composite ops are in no table while a program
is traced, because PyTorch's dispatcher takes them apart; `export` keeps those that no table has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any, cast

import torch
from torch import _decomp
from torch._C import DispatchKey
from torch._decomp import decompositions as torch_decompositions
from torch._export import utils as _export_utils

from ingot.frontends.torch.decompositions import (
    compositions,
    foreach,
    quantization,
    refused_values,
    segments,
    windows,
)
from ingot.frontends.torch.lowering import rules

_RESAMPLING = (
    "_upsample_bicubic2d_aa", "_upsample_bilinear2d_aa", "_upsample_nearest_exact1d",
    "_upsample_nearest_exact2d", "_upsample_nearest_exact3d", "upsample_bicubic2d",
    "upsample_bilinear2d", "upsample_linear1d", "upsample_nearest1d", "upsample_nearest2d",
    "upsample_nearest3d", "upsample_trilinear3d",
)  # fmt: skip
"""Ops whose decompositions PyTorch registers below its tables, at the level of autograd."""

_COMPOSITE = DispatchKey.CompositeImplicitAutograd
_KEYS = (DispatchKey.Autograd, _COMPOSITE)


def decompositions() -> dict[Any, Callable[..., Any]]:
    """Return decompositions of the ops that have no rule: PyTorch's, and ours of some families."""
    return {**_of_pytorch(), **_of_families()}


def decompositions_for_export() -> dict[Any, Callable[..., Any]]:
    """Return `decompositions` with those of composite ops, which an exported program may have.

    To list the composite ops of PyTorch takes 0.2 s.
    """
    # PyTorch's table is not a dict: `|` would lose the entries that it has not loaded.
    core = cast("Any", _decomp).core_aten_decompositions()
    return {**_without_rules(dict(core.items())), **decompositions()}


@cache
def _of_pytorch() -> dict[Any, Callable[..., Any]]:
    core = cast("Any", _decomp)._core_aten_decompositions_post_autograd()
    return _without_rules({**foreach.decompositions(), **core})


def _of_families() -> dict[Any, Callable[..., Any]]:
    families = (quantization, segments, windows, compositions, refused_values)
    found: dict[Any, Callable[..., Any]] = {}
    for family in families:
        found.update(family.decompositions())
    return found


def _without_rules(table: Mapping[Any, Callable[..., Any]]) -> dict[Any, Callable[..., Any]]:
    return {op: function for op, function in table.items() if str(op) not in rules.RULES}


@contextmanager
def resampling_kept_whole() -> Generator[None]:
    """Keep resampling ops and their gradients whole while AOTAutograd traces.

    PyTorch registers their Python decompositions as kernels of the dispatcher, not in a table: they
    become gathers at computed indices, and their gradients scatters. The kernels are removed
    meanwhile; TorchDynamo holds its lock during compilation. The overloads that take either sizes
    or factors become those that take sizes, which PyTorch's C++ does for numbers only.
    """
    before: list[tuple[Any, dict[Any, Any]]] = []

    def replace(op: Any, kernels: Mapping[Any, Any]) -> None:
        before.append((op, dict(op.py_kernels)))
        for key in _KEYS:
            op.py_kernels.pop(key, None)
        op.py_kernels.update(kernels)
        op._dispatch_cache.clear()

    for name in _RESAMPLING:
        packet = getattr(torch.ops.aten, name)
        for op in (getattr(packet, overload) for overload in packet.overloads()):
            is_composite = op._overloadname == "vec"
            replace(op, {_COMPOSITE: _by_sizes(packet.default)} if is_composite else {})
        gradient = getattr(torch.ops.aten, f"{name}_backward").default
        replace(gradient, {DispatchKey.Meta: _like_input})
    grids = torch.ops.aten.affine_grid_generator.default
    replace(grids, {DispatchKey.Autograd: compositions.affine_grid})
    margins = torch.ops.aten.multilabel_margin_loss_forward.default
    replace(margins, {DispatchKey.Autograd: compositions.multilabel_margin_loss})
    try:
        yield
    finally:
        for op, kernels in before:
            op.py_kernels.clear()
            op.py_kernels.update(kernels)
            op._dispatch_cache.clear()


@contextmanager
def composites_collected_anew() -> Generator[None]:
    """Let `export` collect the ops with composite kernels in the block and, afterwards, again.

    It collects them once in a process, and resampling ops have none while they are kept whole.
    """
    collected = cast("Any", _export_utils)._collect_all_valid_cia_ops_for_aten_namespace
    collected.cache_clear()
    try:
        yield
    finally:
        collected.cache_clear()


def _like_input(gradient: Any, output_size: Any, input_size: Any, *given: Any) -> Any:
    """Return what the gradient of a resampling op has as sizes, which may be symbols."""
    del output_size, given
    return gradient.new_empty(input_size)


def resampling_by_sizes() -> dict[Any, Callable[..., Any]]:
    """Return decompositions of the overloads that take sizes or factors, which `export` keeps."""
    packets = [getattr(torch.ops.aten, name) for name in _RESAMPLING]
    return {packet.vec: _by_sizes(packet.default) for packet in packets}


def _by_sizes(op: Any) -> Callable[..., Any]:
    """Return the overload `vec` of a resampling op, in terms of the one that takes sizes."""
    module = cast("Any", torch_decompositions)

    def called(x: Any, output_size: Any, *given: Any) -> Any:
        *corners, factors = given
        sizes = module.upsample_compute_output_size(x.size(), output_size, factors)
        return op(x, sizes, *corners, *(factors or [None] * len(sizes)))

    return called

# SPDX-License-Identifier: Apache-2.0
"""All rules: the op tables of the families, merged, and what is said of an op that has none.

A family is a module of this package with a `RULES` table from op type to rule.
"""

from __future__ import annotations

import importlib
from functools import cache

from ingot.frontends.tensorflow.captured import CapturedNode
from ingot.frontends.tensorflow.lowering.op import Rule, located
from ingot.support.diagnostics import InternalError, UnsupportedError

FAMILIES = (
    "activation", "banded", "binary", "blocks", "collectives", "combined_suppression",
    "control_flow", "convolution", "counts", "crops", "ctc", "ctc_loss", "cumulative", "data_sizes",
    "diagonals", "drawing", "filled_rows", "fractional_pooling", "gather", "images", "layouts",
    "least_squares", "linalg", "list_pieces", "local_norm", "matmul", "normalization", "optimizers",
    "patches", "pooling", "projective", "quantization", "ragged", "recurrent", "random",
    "random_binomial", "random_counts", "random_gamma", "random_picks", "random_truncated",
    "reduction", "resizing", "resource_arrays", "scale_translate", "scatter", "shaping", "slicing",
    "sorting", "sparse", "sparse_optimizers", "sparse_structure", "special", "spectral",
    "stitching", "suppression", "tensor_lists", "tridiagonal", "unary", "uniform_quantization",
    "variables", "xla", "xla_calls", "xla_grids", "xla_modules", "xla_products",
)  # fmt: skip

_HOST_HINT = "move it out of the function with jit_compile=True"
_REASONS = (
    (("String", "AsString", "Regex", "DecodeRaw", "Substr", "Unicode", "StaticRegex"),
     "strings are handled on the host", _HOST_HINT),
    (("Print", "Timestamp", "WriteFile", "ReadFile"), "it talks to the host", _HOST_HINT),
    (("PyFunc", "EagerPyFunc", "PyFuncStateless"), "it runs Python code",
     "write it with TensorFlow ops, or " + _HOST_HINT),
    (("LookupTable", "HashTable", "MutableHash", "Iterator", "OptionalGet"),
     "tables and iterators live on the host", _HOST_HINT),
    (("Collective",), "collectives are not compiled", _HOST_HINT),
)  # fmt: skip


@cache
def table() -> dict[str, Rule]:
    """Return every rule by op type."""
    merged: dict[str, Rule] = {}
    for family in FAMILIES:
        module = importlib.import_module(f"ingot.frontends.tensorflow.lowering.{family}")
        rules: dict[str, Rule] = module.RULES
        for name, rule in rules.items():
            if name in merged:
                raise InternalError(f"two rules for {name}")
            merged[name] = rule
    return merged


def find(node: CapturedNode) -> Rule:
    """Return the rule of a node's op; UnsupportedError when there is none."""
    found = table().get(node.op)
    if found is not None:
        return found
    why, hint = reason(node.op)
    raise located(
        node,
        UnsupportedError(f"op {node.op} cannot be compiled: {why}", code="INGOT0310", hint=hint),
    )


def reason(op: str) -> tuple[str, str]:
    """Return (why op type `op` is not compiled, what to do)."""
    for prefixes, why, hint in _REASONS:
        if op.startswith(prefixes):
            return why, hint
    return "there is no lowering for it", _HOST_HINT + ", or write it with other ops"

# SPDX-License-Identifier: Apache-2.0
"""The state of random ops that keep it inside the node: a hidden variable of the function.

`tf.random.normal` and its like (`RandomStandardNormal`, ...) go on from call to call. A function
that has such nodes gets one more input, a variable `s64[nodes]` of how far each of them is, which
lives under a name of its own in TensorFlow's resources; the body that replaces the function makes
the handle, so the signature stays what it was. In a session the body also makes the variable, the
first time that it runs there. Where TensorFlow drops the kernels of eager code, to start their
random numbers again (`tf.random.set_seed`), the variable becomes zeros.

Invariant: the hidden input is the last one and exists only while the function itself is compiled:
functions that call it take it without, and count its nodes as their own.
Source: TensorFlow's `kernels/random_op.cc`, `util/guarded_philox_random.cc`.
"""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

from ingot.frontends.tensorflow.api.modules import context, ops, tensorflow
from ingot.frontends.tensorflow.graphs.captured import (
    CapturedFunction,
    CapturedInput,
    CapturedNode,
    TensorType,
)

RANDOM_STATE = "ingot_random_state"
"""Name of the hidden input."""

STATEFUL_OPS = frozenset(
    {
        "FractionalAvgPool",
        "FractionalMaxPool",
        "Multinomial",
        "ParameterizedTruncatedNormal",
        "RandomGamma",
        "RandomPoisson",
        "RandomPoissonV2",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "TruncatedNormal",
    }
)

_numbers = itertools.count(1)


def with_random_state(function: CapturedFunction) -> CapturedFunction:
    """Return the function with the hidden input, if any of its nodes keeps a random state."""
    nodes = len(_stateful_nodes(function))
    if not nodes:
        return function
    handle = TensorType("int64", (nodes,))
    hidden = CapturedInput(RANDOM_STATE, TensorType("resource", ()), handle)
    return replace(function, inputs=(*function.inputs, hidden))


def without_random_state(function: CapturedFunction) -> CapturedFunction:
    """Return the function as its callers see it."""
    if not has_random_state(function.inputs):
        return function
    return replace(function, inputs=function.inputs[:-1])


def has_random_state(inputs: tuple[CapturedInput, ...]) -> bool:
    """Whether the last input is the hidden one."""
    return bool(inputs) and inputs[-1].name == RANDOM_STATE


def make_random_state(nodes: int) -> tuple[str, bool]:
    """Name a variable of zeros, `s64[nodes]`, and make it where code runs eagerly.

    Returns:
        Its name among TensorFlow's resources, and whether it was made: each session has resources
        of its own, so there the function's body must make it.
    """
    name = f"{RANDOM_STATE}_{next(_numbers)}"
    with ops.init_scope(), tensorflow.device("CPU:0"):
        if not context.executing_eagerly():
            return name, False
        _assign_zeros(name, nodes)
    return name, True


def restart(definition: Any) -> None:
    """Let the random ops in a body (a FunctionDef) start again, where code runs eagerly."""
    for node in definition.node_def:
        name = node.attr["shared_name"].s.decode()
        if node.op == "VarHandleOp" and name.startswith(RANDOM_STATE):
            with ops.init_scope(), tensorflow.device("CPU:0"):
                if context.executing_eagerly():
                    _assign_zeros(name, node.attr["shape"].shape.dim[0].size)


def _assign_zeros(name: str, nodes: int) -> None:
    raw: Any = tensorflow.raw_ops
    handle = raw.VarHandleOp(dtype=tensorflow.int64, shape=[nodes], shared_name=name)
    raw.AssignVariableOp(resource=handle, value=tensorflow.zeros([nodes], tensorflow.int64))


def has_seeds(function: CapturedFunction) -> bool:
    """Whether all nodes that keep a state have seeds: those without must never repeat numbers."""
    seeds = ("seed", "seed2")
    nodes = _stateful_nodes(function)
    return all(any(node.attributes.get(name) for name in seeds) for node in nodes)


def _stateful_nodes(function: CapturedFunction) -> list[CapturedNode]:
    """Return the nodes that keep a state; a deterministic pool draws the same each time."""
    names = {function.name: function, **function.library}
    return [
        node
        for item in names.values()
        for node in item.nodes
        if node.op in STATEFUL_OPS and not node.attributes.get("deterministic", False)
    ]

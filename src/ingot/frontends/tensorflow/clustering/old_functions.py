# SPDX-License-Identifier: Apache-2.0
"""TensorFlow 1's functions: `Defun(compiled=True)` asks to compile the calls of a function.

TensorFlow marks the function; a call is a node whose op is the function's name. Here the calls are
marked, as `jit_scope` marks ops, and the function is not inlined before clustering sees them.
Grappler gives a plug-in functions without their bodies, so those that graphs hold are known here.

Invariant: nothing that the built-in XLA would compile is in a function's attributes.
Source: TensorFlow's `python/framework/function.py`, `compiler/jit/xla_cluster_util.cc`.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ingot.frontends.tensorflow.api.modules import context, framework_function, gradients_util, ops
from ingot.frontends.tensorflow.api.patching import Replace
from ingot.frontends.tensorflow.clustering.marks import XLA_COMPILE
from ingot.frontends.tensorflow.graphs.old_calls import make_call

_MARKS = ("compiled", "separate_compiled_gradients")

_known: weakref.WeakValueDictionary[str, Any] = weakref.WeakValueDictionary()


def watch(replace: Replace, expect_marks: Callable[[], None]) -> None:
    """Let functions that are made and called from now on mark their calls.

    Args:
        replace: replaces an attribute of a module.
        expect_marks: is called before a call is marked.
    """

    def make(original: Any) -> Any:
        def init(self: Any, *args: Any, **kwargs: Any) -> None:
            marks = {name: kwargs.pop(name) for name in _MARKS if name in kwargs}
            if marks.get("compiled"):
                # Grappler would inline the call before clustering sees the graph.
                kwargs["noinline"] = True
            self._ingot_marks = marks
            original(self, *args, **kwargs)

        return init

    def call(original: Any) -> Any:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            given = getattr(self, "_ingot_marks", {}) | kwargs
            if given.get("compiled"):
                expect_marks()
            return original(self, *args, **given)

        return run

    replace(framework_function, "_DefinedFunction.__init__", make)
    replace(framework_function, "_DefinedFunction.__call__", call)
    replace(framework_function, "_DefinedFunction.add_to_graph", _known_from_now_on)
    replace(gradients_util, "_MaybeCompile", _by_the_call)


def _known_from_now_on(original: Any) -> Any:
    """Return what adds a function to a graph, and lets it be found by name."""

    def add_to_graph(self: Any, graph: Any) -> None:
        _known[self.name] = self
        original(self, graph)
        if ops.executing_eagerly_outside_functions():
            # TensorFlow's runtime is told of a function where somebody reads its definition.
            for function in (self, *self._sub_functions.values()):
                _ = function.definition

    return add_to_graph


def _by_the_call(original: Any) -> Any:
    """Return what builds a call's gradient, marked as the call is."""

    def maybe_compile(scope: Any, op: Any, func: Any, grad_fn: Any) -> Any:
        is_marked = XLA_COMPILE in op.node_def.attr
        return original(scope, op, None if is_marked else func, grad_fn)

    return maybe_compile


def has_body(function: Any) -> bool:
    """Whether a function is more than its signature, which is all that Grappler gives of it."""
    return bool(function.node_def or function.ret) or not function.signature.output_arg


def complete(graph_def: Any) -> None:
    """Give marked calls an op of TensorFlow's, and functions their bodies, in place."""
    for function in graph_def.library.function:
        if not has_body(function):
            _give_body(function)
    library = {item.signature.name: item.signature for item in graph_def.library.function}
    for node in graph_def.node:
        if node.op in library and node.attr[XLA_COMPILE].b:
            make_call(node, library[node.op])


def _give_body(function: Any) -> None:
    """Complete what is only a signature, if the function is known."""
    name, runtime = function.signature.name, context.context()
    if name in _known:
        function.CopyFrom(_known[name].definition)
    elif runtime.has_function(name):
        function.CopyFrom(runtime.get_function_def(name))

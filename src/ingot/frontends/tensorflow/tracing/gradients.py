# SPDX-License-Identifier: Apache-2.0
"""How TensorFlow builds the gradients of functions that Ingot compiles.

TensorFlow traces a compiled function in an *XLA context*, where its gradients of branches, loops
and slices use forms that a compiler can take (no optionals, no shapes in lists). It leaves that
context before it builds the function's own forward and backward functions; `in_context` keeps it
there, also for the functions that a compiled one calls. Those forms need a gradient themselves for
a second derivative, where TensorFlow has none; `register_gradients` adds it.

Invariant: what is built for functions that nobody compiles is what TensorFlow builds.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import numpy as np

from ingot.frontends.tensorflow.api.modules import (
    attributes,
    cond_v2,
    control_flow_ops,
    control_flow_util,
    func_graph,
    gen_xla_ops,
    handle_data_util,
    ops,
    tensorflow,
    while_v2,
)
from ingot.frontends.tensorflow.api.modules import polymorphic_function as functions
from ingot.frontends.tensorflow.launches.body import INGOT_COMPILE, as_bool

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.tracing.known_tensors import KnownTensors

_UPDATE_SLICE = "XlaDynamicUpdateSlice"
_BACKWARD = "__backward_"
"""How TensorFlow starts the names of backward functions."""

_KNOWN = "_ingot_known_tensors"
"""Attribute of a graph: what is known of the tensors that it takes from outside."""

_ASKED = "_ingot_asked_of_lists"
"""Attribute of a graph: what gradients asked of its lists, by question and list."""

_CUSTOM_GRADIENT = "CustomGradient-"
"""How TensorFlow starts the names under which it registers the function of one custom gradient."""

_GRADIENTS = "_ingot_custom_gradients"
"""Attribute of a graph: the functions of its custom gradients."""


def in_context(original: Any) -> Any:
    """Return the builder of a function's gradients, in an XLA context where it is compiled."""

    def build(functions_of: Any, *args: Any, **kwargs: Any) -> Any:
        attrs = functions_of._attrs
        compiled = as_bool(attrs.get(attributes.XLA_COMPILE)) or as_bool(attrs.get(INGOT_COMPILE))
        around = control_flow_util.GraphOrParentsInXlaContext(ops.get_default_graph())
        with _xla_context(functions_of._func_graph, compiled or around):
            return original(functions_of, *args, **kwargs)

    return build


@contextlib.contextmanager
def _xla_context(graph: Any, wanted: bool) -> Generator[None]:
    """Put the graph that is built now, and the function's own `graph`, in an XLA context."""
    outer = graph._get_control_flow_context()
    with functions.OptionalXlaContext(wanted):
        if wanted:
            graph._set_control_flow_context(control_flow_ops.XLAControlFlowContext())
        try:
            yield
        finally:
            graph._set_control_flow_context(outer)


def with_known_values(original: Any) -> Any:
    """Return the `_capture_helper` of a graph that takes known integers as constants.

    A handle that a branch has from outside is taken from there, not from the branch.
    """

    def _capture_helper(graph: Any, tensor: Any, name: Any) -> Any:
        tensor = _from_outside(graph, tensor)
        value = _known_value(graph, tensor)
        if value is None:
            return original(graph, tensor, name)
        with graph.as_default(), ops.control_dependencies(None):
            return tensorflow.constant(value, tensor.dtype)

    return _capture_helper


def _from_outside(graph: Any, tensor: Any) -> Any:
    """Return the input of a branch that a handle in it is; any other tensor as it is.

    Such a handle comes out of a loop in the branch. In XLA contexts TensorFlow would let the branch
    give it to its gradient, and the other branch give one that stands for no variable.
    """
    if tensor.dtype != tensorflow.resource or not isinstance(graph, cond_v2._CondGradFuncGraph):
        return tensor
    forward = graph._forward_graph
    given = [*forward.inputs, *forward.outputs]
    if tensor.graph is not forward or any(tensor is item for item in given):
        return tensor
    nodes = {item.name: item.node_def for item in forward.get_operations()}
    names = [item.name for item in forward.inputs]
    index = cond_v2.util.resource_input_index(tensor.name, names, nodes, forward._functions)
    return forward.inputs[index]


def _known_value(graph: Any, tensor: Any) -> np.ndarray | None:
    # A branch that is never taken need not fit the sizes that there are.
    is_branch = isinstance(graph, cond_v2.util.CondBranchFuncGraph)
    if (type(graph) is func_graph.FuncGraph or is_branch) and not _is_gradient(graph):
        return None
    if not control_flow_util.GraphOrParentsInXlaContext(graph):
        return None
    return _known_tensors(graph).value(tensor)


def _known_tensors(graph: Any) -> KnownTensors:
    if not hasattr(graph, _KNOWN):
        from ingot.frontends.tensorflow.tracing.known_tensors import KnownTensors

        setattr(graph, _KNOWN, KnownTensors())
    return getattr(graph, _KNOWN)


def known_length(original: Any) -> Any:
    """Return the `tensor_list_length` that keeps no list for the sake of its length."""

    def tensor_list_length(input_handle: Any, name: Any = None) -> Any:
        found = _of_list("length", input_handle, original)
        return original(input_handle, name) if found is None else found

    return tensor_list_length


def known_element_shape(original: Any) -> Any:
    """Return the `tensor_list_element_shape` that does the same."""

    def tensor_list_element_shape(input_handle: Any, shape_type: Any, name: Any = None) -> Any:
        found = _of_list("element_shape", input_handle, lambda handle: original(handle, shape_type))
        return original(input_handle, shape_type, name) if found is None else found

    return tensor_list_element_shape


def _of_list(what: str, found: Any, ask: Callable[[Any], Any]) -> Any:
    """Return what a gradient asks of a list outside of it: what is known, or asked out there.

    A number is handed in to the gradient then, and not the list. TensorFlow builds a gradient again
    until it keeps nothing new of the graph, so each question is asked there once.
    """
    graph = ops.get_default_graph()
    if not _is_gradient(graph) or found.graph is graph:
        return None
    if not control_flow_util.GraphOrParentsInXlaContext(graph):
        return None
    from ingot.frontends.tensorflow.tracing.known_lists import list_property

    value = list_property(_known_tensors(graph), what, found)
    if value is not None:
        return tensorflow.constant(value, tensorflow.int32)
    if not hasattr(found.graph, _ASKED):
        setattr(found.graph, _ASKED, {})
    asked = getattr(found.graph, _ASKED)
    key = (what, found.name)
    if key not in asked:
        with found.graph.as_default(), ops.control_dependencies(None):
            asked[key] = ask(found)
    return asked[key]


def _is_gradient(graph: Any) -> bool:
    kinds = (while_v2._WhileBodyGradFuncGraph, cond_v2._CondGradFuncGraph)
    return isinstance(graph, kinds) or getattr(graph, "name", "").startswith(_BACKWARD)


def with_list_types(original: Any) -> Any:
    """Return the `_GradientsHelper` that says what the lists among the gradients given to it hold.

    TensorFlow forgets it where `tf.gradients` differentiates a function.
    """

    def gradients_helper(ys: Any, xs: Any, grad_ys: Any = None, *args: Any, **kwargs: Any) -> Any:
        several: Any = (list, tuple)
        if isinstance(ys, several) and isinstance(grad_ys, several):
            for number, y in enumerate(ys):
                _copy_list_type(y, grad_ys[number])
        return original(ys, xs, grad_ys, *args, **kwargs)

    return gradients_helper


def _copy_list_type(y: Any, gradient: Any) -> None:
    is_list = gradient is not None and getattr(y, "dtype", None) == tensorflow.variant
    if is_list and not handle_data_util.get_resource_handle_data(gradient).is_set:
        handle_data_util.copy_handle_data(y, gradient)


def kept_with_graph(original: Any) -> Any:
    """Return the `RegisterGradient.__call__` that keeps a custom gradient as long as its graph.

    The function of a custom gradient holds tensors of the graph that it was made in. TensorFlow
    never takes it out of its table, so the graph of a compiled function, the functions that it
    calls and their programs would stay for ever.
    """

    def __call__(registration: Any, f: Any) -> Any:  # noqa: N807
        graph, name = ops.get_default_graph(), registration._op_type
        if not name.startswith(_CUSTOM_GRADIENT) or not _is_compiled(graph):
            return original(registration, f)
        if not hasattr(graph, _GRADIENTS):
            setattr(graph, _GRADIENTS, [])
        getattr(graph, _GRADIENTS).append(f)
        weak = weakref.ref(f)
        weakref.finalize(f, ops.gradient_registry._registry.pop, name, None).atexit = False

        def gradient(op: Any, *gradients: Any) -> Any:
            found = weak()
            assert found is not None, "a graph keeps its custom gradients"
            return found(op, *gradients)

        original(registration, gradient)
        return f

    return __call__


def with_open_sizes(original: Any) -> Any:
    """Return the `_create_fakeparams` that makes no open size 0.

    A FakeParam stands in a branch for what another branch remembers for its gradient. With a size
    that is not its own, TensorFlow's shape inference is wrong from there on.
    """
    del original

    def _create_fakeparams(func_graph: Any, template_tensors: Any) -> list[Any]:
        with func_graph.as_default():
            return [
                tensorflow.raw_ops.FakeParam(dtype=item.dtype, shape=item.shape)
                for item in template_tensors
            ]

    return _create_fakeparams


def _is_compiled(graph: Any) -> bool:
    """Whether a graph is of a function that is compiled, or that a compiled one calls."""
    is_function = isinstance(graph, func_graph.FuncGraph)
    return is_function and bool(control_flow_util.GraphOrParentsInXlaContext(graph))


def register_gradients() -> None:
    """Give TensorFlow the gradients of the ops that only its XLA contexts use."""
    if _UPDATE_SLICE not in ops.gradient_registry.list():
        ops.RegisterGradient(_UPDATE_SLICE)(_update_slice_gradient)


def _update_slice_gradient(op: Any, gradient: Any) -> tuple[Any, Any, None]:
    """The operand does not see what was written over; the update sees only that."""
    _, update, start = op.inputs
    hidden: Any = gen_xla_ops.xla_dynamic_update_slice(
        gradient, tensorflow.zeros_like(update), start
    )
    size: Any = tensorflow.shape(update, out_type=start.dtype)
    return hidden, tensorflow.slice(gradient, start, size), None

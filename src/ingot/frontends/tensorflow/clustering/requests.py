# SPDX-License-Identifier: Apache-2.0
"""Who asks for clustering, and where TensorFlow is told so: the patches of this package.

* `TF_XLA_FLAGS` and `tf.config.optimizer.set_jit` ask for all graphs of functions and sessions;
* a session's ConfigProto (`global_jit_level`) asks for the session's graphs;
* `tf.xla.experimental.jit_scope` asks for the ops that it marks;
* TensorFlow 1's `Defun(compiled=True)` asks for the calls of a function;
* an `Xla*` op outside of a compiled function must be compiled, alone;
* `tf.xla.experimental.compile` asks for a computation as a whole (`experimental_compile`).

The built-in XLA's clustering is switched off meanwhile, so that it compiles nothing.

Invariant: `patches` are undone by `hook.disable`; the plug-in, which TensorFlow keeps, then leaves
every graph as it is.
"""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING, Any

from ingot.frontends.tensorflow.api import xla_flags
from ingot.frontends.tensorflow.api.modules import (
    config_pb2,
    context,
    graph_pb2,
    importer,
    ops,
    pywrap_tfe,
    session,
    while_v2,
    xla,
)
from ingot.frontends.tensorflow.api.patching import Replace
from ingot.frontends.tensorflow.clustering import keras_models, old_functions, xla_ops
from ingot.frontends.tensorflow.clustering.marks import XLA_COMPILE, has_marks
from ingot.frontends.tensorflow.compiler import Compiler
from ingot.support.lazy import function_at_home

if TYPE_CHECKING:
    from ingot.frontends.tensorflow.clustering.grappler_item import GrapplerItem
    from ingot.frontends.tensorflow.clustering.optimizer import ClusterOptimizer

_register = function_at_home("ingot.frontends.tensorflow.clustering.plugin", "register")
"""Lets TensorFlow show its graphs from now on."""

_ON = 1
_LEAST = "scoped_allocator"
"""The optimizer of Grappler that changes nothing outside of collectives."""
_logger = logging.getLogger("ingot.tensorflow")
_state = threading.local()


class _Clustering:
    """Clustering while Ingot is enabled."""

    def __init__(self, compiler: Compiler) -> None:
        self.flags = xla_flags.current()
        self._compiler = compiler

    def optimize(self, data: bytes, item: GrapplerItem) -> bytes | None:
        """Cluster a graph, if somebody asks for it."""
        is_global = self.is_global()
        if not is_global and b"Xla" not in data:
            return None
        return self._optimizer.optimize(data, item, is_global)

    @cached_property
    def _optimizer(self) -> ClusterOptimizer:
        """Made for the first graph: most processes cluster nothing."""
        from ingot.frontends.tensorflow.clustering.optimizer import ClusterOptimizer

        return ClusterOptimizer(self.flags, self._compiler)

    def is_global(self) -> bool:
        """Whether clustering is asked for all of the graphs that are optimized in this thread."""
        return self._level() > 0 and self.flags.cpu_global_jit

    def _level(self) -> int:
        if self.flags.auto_jit:
            return self.flags.auto_jit
        level: int | None = getattr(_state, "level", None)
        return _context_level() if level is None else level


_active: _Clustering | None = None


def start(compiler: Compiler, replace: Replace) -> None:
    """Read the flags and put the patches in.

    Raises:
        FlagError: INGOT0600, `TF_XLA_FLAGS` holds something that TensorFlow does not know.
    """
    global _active
    _active = _Clustering(compiler)
    pywrap_tfe.TF_SetXlaAutoJitMode("-1")
    replace(session, "BaseSession.__init__", _session_init)
    replace(session, "BaseSession._do_call", _session_call)
    replace(session, "BaseSession._Callable.__init__", _callable_init)
    replace(context, "Context.optimizer_jit", _optimizer_jit)
    replace(context, "Context.config", _context_config)
    replace(ops, "Graph._attr_scope", _attribute_scope)
    old_functions.watch(replace, _expect_marks)
    xla_ops.watch(replace, _expect_marks)
    replace(importer, "_import_graph_def_internal", _import)
    replace(while_v2.util, "maybe_set_lowering_attr", _lowering_attribute)
    replace(xla, "_compile_internal", _compile_internal)
    keras_models.watch(replace, _active.is_global)
    if _active.flags.auto_jit > 0 and not _active.flags.cpu_global_jit:
        _logger.warning(
            "Ingot clusters nothing: --tf_xla_auto_jit asks for it, and "
            "--tf_xla_cpu_global_jit=false leaves out the CPU"
        )
    elif _active.flags.auto_jit > 0 or _context_level() > 0:
        _register(_optimize)


def stop() -> None:
    """Leave graphs to TensorFlow again."""
    global _active
    if _active is None:
        return
    keras_models.unwatch()
    pywrap_tfe.TF_SetXlaAutoJitMode(str(_active.flags.auto_jit))
    _active = None


def _optimize(data: bytes, item: GrapplerItem) -> bytes | None:
    return None if _active is None else _active.optimize(data, item)


def _compile_internal(original: Any) -> Any:
    """Return what compiles a computation as a whole (`experimental_compile`)."""

    def run(*args: Any, **kwargs: Any) -> Any:
        from ingot.frontends.tensorflow.clustering.experimental_compile import compile_internal

        return compile_internal(original)(*args, **kwargs)

    return run


def _context_level() -> int:
    return _ON if context.context()._optimizer_jit else 0


def _optimizer_jit(original: Any) -> Any:
    """Return the property behind `tf.config.optimizer.set_jit`, which registers the plug-in."""

    def set_level(self: Any, enabled: Any) -> None:
        if enabled:
            _register(_optimize)
        original.fset(self, enabled)

    return property(original.fget, set_level)


def _session_init(original: Any) -> Any:
    """Return the `BaseSession.__init__` that lets Grappler look at small graphs too."""

    def init(self: Any, target: str = "", graph: Any = None, config: Any = None) -> None:
        if config is not None and not isinstance(config, config_pb2.ConfigProto):
            original(self, target, graph, config)  # which says what is wrong
            return
        made = config_pb2.ConfigProto()
        if config is not None:
            made.CopyFrom(config)
        level = made.graph_options.optimizer_options.global_jit_level
        self._ingot_level = level
        if level > 0:
            _register(_optimize)
        rewrites = made.graph_options.rewrite_options
        rewrites.min_graph_nodes = rewrites.min_graph_nodes or -1
        _show_plugin(rewrites)
        original(self, target, graph, made)

    return init


def _context_config(original: Any) -> Any:
    """Return the property that makes the ConfigProto of functions."""

    def made(self: Any) -> Any:
        found = original.fget(self)
        _show_plugin(found.graph_options.rewrite_options)
        return found

    return property(made)


def _show_plugin(rewrites: Any) -> None:
    """Let the plug-in see graphs, of which marks would else reach the built-in XLA."""
    if rewrites.disable_meta_optimizer:
        rewrites.disable_meta_optimizer = False
        rewrites.optimizers[:] = [_LEAST]
    rewrites.use_plugin_optimizers = rewrites.DEFAULT


def _session_call(original: Any) -> Any:
    def call(self: Any, fn: Any, *args: Any) -> Any:
        with _level_of(self):
            return original(self, fn, *args)

    return call


def _callable_init(original: Any) -> Any:
    def init(self: Any, owner: Any, options: Any) -> None:
        with _level_of(owner):
            original(self, owner, options)

    return init


@contextmanager
def _level_of(owner: Any) -> Any:
    """Let graphs that are optimized in this thread be those of a session."""
    before = getattr(_state, "level", None)
    _state.level = getattr(owner, "_ingot_level", 0)
    try:
        yield
    finally:
        _state.level = before


def _attribute_scope(original: Any) -> Any:
    """Return the `Graph._attr_scope` that registers the plug-in for marks of `jit_scope`."""

    def attribute_scope(self: Any, attributes: Any) -> Any:
        if XLA_COMPILE in attributes:
            _expect_marks()
        return original(self, attributes)

    return attribute_scope


def _lowering_attribute(original: Any) -> Any:
    """Return what lets TensorFlow take loops and branches apart; marked ones stay whole."""

    def maybe_set(op: Any, lower_using_switch_merge: Any = None) -> None:
        if lower_using_switch_merge is not None or not op.node_def.attr[XLA_COMPILE].b:
            original(op, lower_using_switch_merge)

    return maybe_set


def _import(original: Any) -> Any:
    """Return what imports a GraphDef, and registers the plug-in for marks in it."""

    def import_graph_def(graph_def: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(graph_def, graph_pb2.GraphDef):
            inner = (node for item in graph_def.library.function for node in item.node_def)
            if has_marks(chain(graph_def.node, inner)):
                _expect_marks()
        return original(graph_def, *args, **kwargs)

    return import_graph_def


def _expect_marks() -> None:
    _register(_optimize)
    runtime = context.context()
    # TensorFlow gives Grappler no graph of fewer than four nodes unless it is told to.
    if "min_graph_nodes" not in runtime._optimizer_experimental_options:
        runtime.set_optimizer_experimental_options({"min_graph_nodes": -1})

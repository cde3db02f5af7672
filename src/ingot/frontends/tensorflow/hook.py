# SPDX-License-Identifier: Apache-2.0
"""The patch points in TensorFlow: `enable` puts them in, `disable` takes them out.

One place catches every function that is to be compiled: `atomic_function.from_func_graph`, which
inference, `__forward_*` and `__backward_*` functions all pass when they are registered. The
function is registered as TensorFlow wants it, then its body is replaced. The Python FuncGraph
stays, so gradients, shapes and structure go on as before.

Invariant: `disable` restores every attribute that `enable` set and every original body, and so does
an `enable` that fails.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

from ingot.frontends.tensorflow.api import series, xla_flags
from ingot.frontends.tensorflow.api.errors import keep_own_text
from ingot.frontends.tensorflow.api.modules import (
    atomic_function,
    attributes,
    concrete_function,
    cond_v2,
    context,
    errors,
    func_graph,
    gen_list_ops,
    gradients_util,
    ops,
    polymorphic_function,
    profiler,
    saved_model_save,
    session,
    traceback_utils,
    while_v2,
)
from ingot.frontends.tensorflow.api.patching import Patches
from ingot.frontends.tensorflow.api.profiling import with_kernels
from ingot.frontends.tensorflow.clustering import requests as clustering
from ingot.frontends.tensorflow.compiler import (
    Compiler,
    compile_with_ingot,
    compiler_for,
    preload,
)
from ingot.frontends.tensorflow.export.compiler_ir import get_compiler_ir, ir_of_concrete_function
from ingot.frontends.tensorflow.functions.failure_texts import with_words_of_calls
from ingot.frontends.tensorflow.functions.fast_call import FastCalls
from ingot.frontends.tensorflow.functions.replacement import (
    Replacement,
    find_replacement,
    live_replacements,
    original_bodies,
    original_of,
    replace_function,
    with_original_bodies,
)
from ingot.frontends.tensorflow.functions.session_failures import explained_run
from ingot.frontends.tensorflow.launches.body import INGOT_COMPILE, as_bool
from ingot.frontends.tensorflow.launches.launch_op import register
from ingot.frontends.tensorflow.tracing.gradients import (
    in_context,
    kept_with_graph,
    known_element_shape,
    known_length,
    register_gradients,
    with_known_values,
    with_list_types,
    with_open_sizes,
)
from ingot.support.diagnostics import IngotError, UnsupportedError
from ingot.support.flags import GPU, STRICT, check_environment
from ingot.support.forking import ForkLock, defers_fork
from ingot.support.quick_exit import exit_quickly

_PACKAGE = str(Path(__file__).parents[2])
"""Frames of this directory are left out where TensorFlow leaves out its own."""
_CALL_OPS = ("PartitionedCall", "StatefulPartitionedCall")

_lock = ForkLock()
_patches = Patches()


class _Initializations(threading.local):
    """The first traces of jit functions that this thread is making, the innermost last.

    Attributes:
        variables: per trace, the variables that it has created and their initial values; None for
            a function that is not compiled.
    """

    def __init__(self) -> None:
        self.variables: list[list[tuple[Any, Any]] | None] = []


_initializations = _Initializations()


@defers_fork
def enable(
    compiler: Compiler | None = None, *, strict: bool | None = None, device: str | None = None
) -> None:
    """Let Ingot compile every function with `jit_compile=True` that is traced from now on.

    Functions that were traced before stay as they are. If Ingot is enabled already, nothing
    changes: call `disable` first, for another device. Parts of other graphs are compiled where
    `TF_XLA_FLAGS`, `tf.config.optimizer.set_jit` or `jit_scope` ask for that.

    Args:
        compiler: compiles a captured function; default: Ingot, for `device`.
        strict: whether an op that only the host can do is an error, as in XLA; else TensorFlow runs
            it, and the rest of the function is compiled. None: what `INGOT_STRICT` says.
        device: what compiled functions run on: "cpu", "gpu", or a GPU by its number: "gpu:1". Their
            arguments and results are copied for each call, variables that they write stay there.
            None: a GPU if `INGOT_GPU` says so, else the CPU.

    Raises:
        ArgumentError: INGOT0513, there is no such device, or Ingot is enabled for another one.
        FlagError: INGOT0600, `TF_XLA_FLAGS` holds a flag that TensorFlow does not have.
        UnsupportedError: INGOT0313, this TensorFlow lacks something that Ingot replaces or calls;
            INGOT0324, there is no driver of GPUs; INGOT0326, TensorFlow uses GPUs itself.
    """
    strict = STRICT.value() if strict is None else strict
    with _lock:
        if _patches:
            if device is not None:
                compiler_for(device)  # A name of no device is an error all the same.
            return
        check_environment()
        compiler = compiler or _compiler(device)
        xla_flags.current()
        series.tell_if_untested()
        preload()
        exit_quickly()
        register()
        register_gradients()
        # Gradients take over the attributes of their function only if this list has them. It
        # stays after `disable`, for functions that were traced before.
        attributes.MONOMORPHIC_FUNCTION_ALLOWLIST |= {INGOT_COMPILE}
        try:
            _replace_all(compiler, strict)
            clustering.start(compiler, _patches.replace)
        except Exception as error:
            _take_out()
            if isinstance(error, IngotError) or series.current() is not None:
                raise
            raise UnsupportedError(
                f"this TensorFlow is not as Ingot knows it: {type(error).__name__}: {error}",
                code="INGOT0313",
                hint=series.INSTALL,
            ) from error


def _compiler(device: str | None) -> Compiler:
    """Return the compiler for a device, whose programs find their tensors in the host's memory."""
    found = compiler_for(device or ("gpu" if GPU.value() else "cpu"))
    if found is not compile_with_ingot and context.context().get_visible_devices("GPU"):
        raise UnsupportedError(
            "TensorFlow uses GPUs itself, and Ingot runs programs on a GPU for the CPU's tensors",
            code="INGOT0326",
            hint="hide them from it: tf.config.set_visible_devices([], 'GPU')",
        )
    return found


def _replace_all(compiler: Compiler, strict: bool) -> None:
    replace, calls = _patches.replace, FastCalls()

    def registration(original: Any) -> Any:
        return _registration(original, compiler, strict)

    def quiet(paths: Any) -> Any:
        return (*paths, _PACKAGE)

    replace(atomic_function, "from_func_graph", registration)
    forward_backward = "_DelayedRewriteGradientFunctions._construct_forward_backward"
    replace(concrete_function, forward_backward, in_context)
    replace(concrete_function, "_TapeGradientFunctions._build_functions_for_outputs", in_context)
    rewriting = "_DelayedRewriteGradientFunctions._rewrite_forward_and_call_backward"
    replace(concrete_function, rewriting, _settled_forward)
    replace(gradients_util, "_GradientsHelper", with_list_types)
    replace(ops, "RegisterGradient.__call__", kept_with_graph)
    replace(func_graph, "FuncGraph._capture_helper", with_known_values)
    replace(cond_v2, "_CondGradFuncGraph._capture_helper", with_known_values)
    replace(while_v2, "_WhileBodyGradFuncGraph._capture_helper", with_known_values)
    replace(cond_v2, "_create_fakeparams", with_open_sizes)
    replace(gen_list_ops, "tensor_list_length", known_length)
    replace(gen_list_ops, "tensor_list_element_shape", known_element_shape)
    replace(concrete_function, "ConcreteFunction._call_flat", calls.concrete_call)
    replace(concrete_function, "ConcreteFunction.__call__", calls.concrete_function_call)
    for name in ("set_external_captures", "replace_capture_with_deferred_capture"):
        replace(concrete_function, f"ConcreteFunction.{name}", calls.changed_captures)
    replace(polymorphic_function, "Function.__call__", calls.function_call)
    replace(polymorphic_function, "Function._initialize", _with_created_variables)
    replace(atomic_function, "AtomicFunction.call_flat", _one_op_call)
    replace(atomic_function, "InterpolateRuntimeError.interpolate", keep_own_text)
    replace(atomic_function, "InterpolateRuntimeError.DENY_LIST_PHRASES", quiet)
    replace(traceback_utils, "_EXCLUDED_PATHS", quiet)
    replace(polymorphic_function, "Function.experimental_get_compiler_ir", get_compiler_ir)
    replace(context, "Context.get_compiler_ir", ir_of_concrete_function)
    replace(saved_model_save, "_build_meta_graph", _saved_originals)
    replace(ops, "Graph._add_function", _with_inner)
    replace(ops, "Graph._as_graph_def", _exported_originals)
    replace(context, "Context.add_function_def", _without_known)
    replace(context, "Context._set_global_seed", _restarting)
    replace(context, "Context.clear_kernel_cache", _restarting)
    replace(session, "BaseSession._do_run", _explained_run)
    replace(profiler, "_pywrap_profiler.ProfilerSession", with_kernels)


@defers_fork
def disable() -> None:
    """Take Ingot out: functions run as they did before `enable`."""
    with _lock:
        _take_out()


def _take_out() -> None:
    _patches.undo()
    clustering.stop()
    for replacement in live_replacements():
        replacement.restore()


def is_enabled() -> bool:
    """Whether Ingot compiles jit functions now."""
    return bool(_patches)


def _registration(original: Any, compiler: Compiler, strict: bool) -> Any:
    """Return the `from_func_graph` that replaces the bodies of jit functions."""

    def from_func_graph(
        name: Any,
        graph: Any,
        attrs: Any,
        function_type: Any = None,
        overwrite: bool = False,
    ) -> Any:
        given = dict(attrs or {})
        wanted = as_bool(given.pop(INGOT_COMPILE, None))
        wanted = as_bool(given.get(attributes.XLA_COMPILE)) or wanted
        if not wanted:
            _unmark_calls(graph)
            return original(name, graph, attrs, function_type, overwrite)
        given[attributes.XLA_COMPILE] = True
        atomic = original(name, graph, given, function_type, overwrite)
        if _creates_variables(graph):
            return atomic
        text = name.decode() if isinstance(name, bytes) else str(name)
        # The function keeps its replacement alive, and nothing else does.
        atomic.ingot_replacement = replace_function(atomic, graph, text, compiler, strict=strict)
        return atomic

    return from_func_graph


def _with_created_variables(original: Any) -> Any:
    """Return the `Function._initialize` that notes which variables the first trace creates."""

    def _initialize(
        function: Any, args: Any, kwds: Any, add_initializers_to: list[Any] | None = None
    ) -> None:
        noted = add_initializers_to if function._jit_compile else None
        _initializations.variables.append(noted)
        try:
            original(function, args, kwds, add_initializers_to)
        finally:
            _initializations.variables.pop()

    return _initialize


def _creates_variables(graph: Any) -> bool:
    """Whether a graph is a jit function's first trace, and creates variables.

    TensorFlow lifts their initial values out of it, traces the function again, and runs only that;
    where it cannot lift them, it raises.
    """
    traces = _initializations.variables
    created = (traces[-1] if traces else None) or ()
    return any(getattr(initial, "graph", None) is graph for _, initial in created)


def _one_op_call(original: Any) -> Any:
    """Return the `AtomicFunction.call_flat` that runs a launch eagerly without a function.

    In a graph, what the compiler refuses must be with TensorFlow before the graph runs.
    """

    def call_flat(atomic: Any, *args: Any) -> Any:
        replacement: Replacement | None = getattr(atomic, "ingot_replacement", None)
        if replacement is None:
            try:
                return original(atomic, *args)
            except errors.OpError as error:
                if not context.executing_eagerly():
                    raise
                definition = atomic.cached_definition
                error._message = with_words_of_calls(error.message, definition, args, original_of)
                raise
        if not context.executing_eagerly():
            replacement.settle(args)
            return original(atomic, *args)
        return replacement.run(atomic, args, lambda: original(atomic, *args)) or None

    return call_flat


def _explained_run(original: Any) -> Any:
    """Return the `BaseSession._do_run` whose errors have TensorFlow's words first."""
    return explained_run(original, original_of)


def _settled_forward(original: Any) -> Any:
    """Return what makes a call in a graph one of the forward function, after that is settled."""

    def rewrite(functions: Any, operation: Any, *doutputs: Any) -> Any:
        forward, _ = functions.forward_backward(len(doutputs))
        replacement: Replacement | None = getattr(forward, "ingot_replacement", None)
        if replacement is not None:
            replacement.settle(operation.inputs)
        return original(functions, operation, *doutputs)

    return rewrite


def _unmark_calls(graph: Any) -> None:
    """Let calls of replaced functions be plain calls; those in a loaded SavedModel are marked."""
    for operation in graph.get_operations():
        if operation.type not in _CALL_OPS or attributes.XLA_COMPILE not in operation.node_def.attr:
            continue
        replacement = find_replacement(operation.get_attr("f").name)
        if replacement is not None:
            replacement.settle(operation.inputs)
            operation._clear_attr(attributes.XLA_COMPILE)


def _with_inner(original: Any) -> Any:
    """Return the `Graph._add_function` that gives a graph the functions it needs for a replacement.

    A session runs what its graph holds: the replaced body and what that calls. The graph of a
    function is for shape inference: it looks into the original.
    """

    def _add_function(graph: Any, function: Any) -> None:
        original(graph, function)
        replacement: Replacement | None = getattr(function, "ingot_replacement", None)
        if replacement is None:
            return
        if graph.building_function:
            replacement.show_original(graph)
        else:
            replacement.add_inner(graph)

    return _add_function


def _exported_originals(original: Any) -> Any:
    def _as_graph_def(graph: Any, *args: Any, **kwargs: Any) -> Any:
        graph_def, version = original(graph, *args, **kwargs)
        return with_original_bodies(graph_def), version

    return _as_graph_def


def _without_known(original: Any) -> Any:
    """Return the `add_function_def` that leaves out the original of a body that is there."""

    def add_function_def(runtime: Any, definition: Any) -> None:
        name = definition.signature.name
        if find_replacement(name) is None or not runtime.has_function(name):
            original(runtime, definition)

    return add_function_def


def _restarting(original: Any) -> Any:
    """Return what drops the kernels of eager code, and the random states that they would have."""

    def restart(runtime: Any, *args: Any) -> None:
        original(runtime, *args)
        for replacement in live_replacements():
            replacement.restart_random_numbers()

    return restart


def _saved_originals(original: Any) -> Any:
    def build_meta_graph(*args: Any, **kwargs: Any) -> Any:
        with original_bodies():
            return original(*args, **kwargs)

    return build_meta_graph

# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's own modules, loaded once, typed `Any`: the border to an untyped library.

The bridge needs TensorFlow's internals (the public API has no hook where a function is
registered). Every internal module that Ingot touches is in this one table, so that a new
TensorFlow version shows at one place what moved. Imported only after the user's program imported
TensorFlow or asked for Ingot's front end.
"""

from __future__ import annotations

import importlib
from typing import Any

from ingot.support.diagnostics import UnsupportedError

_INTERNAL = "tensorflow.python."


def _load(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UnsupportedError(
            f"this TensorFlow has no module '{name}': {error}",
            code="INGOT0313",
            hint="install a series that Ingot is tested with: "
            "pip install 'ingot-compiler[tensorflow]'",
        ) from error


tensorflow: Any = importlib.import_module("tensorflow")
pywrap_tfe: Any = _load(_INTERNAL + "pywrap_tfe")
context: Any = _load(_INTERNAL + "eager.context")
execute: Any = _load(_INTERNAL + "eager.execute")
record: Any = _load(_INTERNAL + "eager.record")
atomic_function: Any = _load(_INTERNAL + "eager.polymorphic_function.atomic_function")
attributes: Any = _load(_INTERNAL + "eager.polymorphic_function.attributes")
concrete_function: Any = _load(_INTERNAL + "eager.polymorphic_function.concrete_function")
polymorphic_function: Any = _load(_INTERNAL + "eager.polymorphic_function.polymorphic_function")
eager_function_run: Any = _load(_INTERNAL + "eager.polymorphic_function.eager_function_run")
function_type_utils: Any = _load(_INTERNAL + "eager.polymorphic_function.function_type_utils")
compiler_ir: Any = _load(_INTERNAL + "eager.polymorphic_function.compiler_ir")
pywrap_tf_session: Any = _load(_INTERNAL + "client.pywrap_tf_session")
ops: Any = _load(_INTERNAL + "framework.ops")
op_def_registry: Any = _load(_INTERNAL + "framework.op_def_registry")
kernels: Any = _load(_INTERNAL + "framework.kernels")
dtypes: Any = _load(_INTERNAL + "framework.dtypes")
func_graph: Any = _load(_INTERNAL + "framework.func_graph")
framework_function: Any = _load(_INTERNAL + "framework.function")
function_def_to_graph: Any = _load(_INTERNAL + "framework.function_def_to_graph")
importer: Any = _load(_INTERNAL + "framework.importer")
tensor_util: Any = _load(_INTERNAL + "framework.tensor_util")
handle_data_util: Any = _load(_INTERNAL + "ops.handle_data_util")
control_flow_ops: Any = _load(_INTERNAL + "ops.control_flow_ops")
control_flow_util: Any = _load(_INTERNAL + "ops.control_flow_util")
resource_variable_ops: Any = _load(_INTERNAL + "ops.resource_variable_ops")
saved_model_save: Any = _load(_INTERNAL + "saved_model.save")
traceback_utils: Any = _load(_INTERNAL + "util.traceback_utils")
gradients_util: Any = _load(_INTERNAL + "ops.gradients_util")
cond_v2: Any = _load(_INTERNAL + "ops.cond_v2")
while_v2: Any = _load(_INTERNAL + "ops.while_v2")
gen_list_ops: Any = _load(_INTERNAL + "ops.gen_list_ops")
gen_xla_ops: Any = _load("tensorflow.compiler.tf2xla.ops.gen_xla_ops")
tf2xla_pb2: Any = _load("tensorflow.compiler.tf2xla.tf2xla_pb2")
tf2xla: Any = _load("tensorflow.compiler.tf2xla.python.xla")
attr_value_pb2: Any = _load("tensorflow.core.framework.attr_value_pb2")
function_pb2: Any = _load("tensorflow.core.framework.function_pb2")
graph_pb2: Any = _load("tensorflow.core.framework.graph_pb2")
node_def_pb2: Any = _load("tensorflow.core.framework.node_def_pb2")
op_performance_data_pb2: Any = _load("tensorflow.core.grappler.costs.op_performance_data_pb2")
session: Any = _load(_INTERNAL + "client.session")
text_format: Any = _load("google.protobuf.text_format")
message: Any = _load("google.protobuf.message")
config_pb2: Any = _load("tensorflow.core.protobuf.config_pb2")
config: Any = _load(_INTERNAL + "framework.config")
xla: Any = _load(_INTERNAL + "compiler.xla.xla")
auto_control_deps: Any = _load(_INTERNAL + "framework.auto_control_deps")
function_type: Any = _load("tensorflow.core.function.polymorphism.function_type")
trace_type: Any = _load("tensorflow.core.function.trace_type")
nest: Any = _load(_INTERNAL + "util.nest")
variable_scope: Any = _load(_INTERNAL + "ops.variable_scope")
profiler: Any = _load(_INTERNAL + "profiler.profiler_v2")
errors: Any = _load(_INTERNAL + "framework.errors_impl")

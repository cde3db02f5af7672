# SPDX-License-Identifier: Apache-2.0
"""`TF_XLA_FLAGS`: TensorFlow's flags of auto-clustering, with its names, types and defaults.

`_SETTINGS` are the flags that have an effect here, `_WITHOUT_EFFECT` those that TensorFlow knows
and that mean nothing for Ingot: setting one of them is reported once. Any other flag is an error,
as it is in TensorFlow (which ends the process).

One default differs from TensorFlow's: `tf_xla_cpu_global_jit` is true, since Ingot's device is the
CPU, and a request for clustering means clustering for the CPU.
Source: TensorFlow's `compiler/jit/flags.cc`.

Example:
    >>> parse("--tf_xla_auto_jit=2 --tf_xla_min_cluster_size=8").min_cluster_size
    8
"""

from __future__ import annotations

import logging
import os
from dataclasses import replace
from functools import lru_cache

from ingot.support.diagnostics import FlagError
from ingot.support.records import record
from ingot.support.text import did_you_mean
from ingot.support.xla_flags import Setting, boolean, names, read_value, split, whole_number

VARIABLE = "TF_XLA_FLAGS"
_MOST_32, _MOST_64 = (1 << 31) - 1, (1 << 63) - 1

_logger = logging.getLogger("ingot.tensorflow")


@record
class ClusteringFlags:
    """The values in force; the field names are TensorFlow's without the prefix `tf_xla_`."""

    auto_jit: int = 0
    min_cluster_size: int = 4
    max_cluster_size: int = _MOST_32
    ops_to_cluster: tuple[str, ...] = ()
    cluster_exclude_ops: tuple[str, ...] = ()
    clustering_debug: bool = False
    clustering_fuel: int = _MOST_64
    cpu_global_jit: bool = True
    deterministic_cluster_names: bool = False
    enable_lazy_compilation: bool = True
    async_compilation: bool | None = None
    always_defer_compilation: bool = False
    disable_deadness_safety_checks_for_debugging: bool = False
    call_module_disabled_checks: tuple[str, ...] = ()


def _auto_jit(text: str) -> int:
    if text.startswith("single-gpu(") and text.endswith(")"):
        whole_number(text.removeprefix("single-gpu(").removesuffix(")"))
        return 0  # there is no GPU
    return 1 if text == "fusible" else whole_number(text)


_SETTINGS: dict[str, Setting] = {
    "tf_xla_auto_jit": (
        _auto_jit,
        "0: as `tf.config.optimizer.set_jit` and the session's ConfigProto say; -1: off; 1, 2: "
        "on; `fusible`: on for the ops of `FUSIBLE`; `single-gpu(N)`: 0.",
    ),
    "tf_xla_min_cluster_size": (whole_number, "Ops that a cluster has at least."),
    "tf_xla_max_cluster_size": (whole_number, "Ops that a cluster has at most."),
    "tf_xla_ops_to_cluster": (
        names,
        "Only these ops are clustered: op types, and `PW`, `RED`, `PWRED`, `REDUCEWINDOW`, "
        "`REDUCEWINDOWPW`, `BN`, `SORT`, `MISC`, `FUSIBLE` (all of these).",
    ),
    "tf_xla_cluster_exclude_ops": (names, "Ops that are not clustered."),
    "tf_xla_clustering_debug": (
        boolean,
        "Graphs before and after clustering are written to the folder `TF_DUMP_GRAPH_PREFIX`.",
    ),
    "tf_xla_clustering_fuel": (whole_number, "Ops that may be clustered in this process."),
    "tf_xla_cpu_global_jit": (
        boolean,
        "false: only what `jit_scope` marks is clustered. True by default (TensorFlow: false).",
    ),
    "tf_xla_deterministic_cluster_names": (
        boolean,
        "Names of clusters follow from their graph, not from the order of graphs.",
    ),
    "tf_xla_enable_lazy_compilation": (
        boolean,
        "false: a cluster is compiled when it first runs, whatever it costs, and what cannot be "
        "compiled is an error.",
    ),
    "tf_xla_async_compilation": (
        boolean,
        "true: clusters are compiled in the background. false: when they first run. By default "
        "those with a marked op when they first run, others in the background.",
    ),
    "tf_xla_always_defer_compilation": (boolean, "true: clusters are formed and never compiled."),
    "tf_xla_disable_deadness_safety_checks_for_debugging": (
        boolean,
        "true: branches of conditionals may be clustered together, which is unsound.",
    ),
    "tf_xla_call_module_disabled_checks": (
        names,
        "`shape_assertions`: the demands of JAX's programs on sizes are not checked. `platform`: "
        "a program that was made for other platforms runs.",
    ),
}

_NO_OTHER_DEVICE = "There is no XLA device."
_NO_MLIR = "The built-in XLA's bridge is not used."
_NO_TPU = "It is for TPUs."
_WITHOUT_EFFECT: dict[str, str] = {
    "tf_xla_print_cluster_outputs": "Use tf.print.",
    "tf_xla_check_cluster_input_numerics": "Use tf.debugging.enable_check_numerics.",
    "tf_xla_check_cluster_output_numerics": "Use tf.debugging.enable_check_numerics.",
    "tf_xla_disable_constant_folding": "Use INGOT_PASS_FUEL, or --xla_disable_hlo_passes.",
    "tf_xla_disable_resource_variable_safety_checks_for_debugging": (
        "Variables are read and written outside of clusters."
    ),
    "tf_xla_persistent_cache_directory": "Compiled objects are kept in INGOT_CACHE_DIR.",
    "tf_xla_persistent_cache_device_types": "Compiled objects are kept in INGOT_CACHE_DIR.",
    "tf_xla_persistent_cache_read_only": "Compiled objects are kept in INGOT_CACHE_DIR.",
    "tf_xla_persistent_cache_prefix": "Compiled objects are kept in INGOT_CACHE_DIR.",
    "tf_xla_disable_strict_signature_checks": "Signatures are always checked.",
    "tf_xla_compile_on_demand": _NO_OTHER_DEVICE,
    "tf_xla_enable_xla_devices": _NO_OTHER_DEVICE,
    "tf_xla_use_device_api_for_xla_launch": _NO_OTHER_DEVICE,
    "tf_xla_use_device_api_for_compile_on_demand": _NO_OTHER_DEVICE,
    "tf_xla_use_device_api_for_auto_jit": _NO_OTHER_DEVICE,
    "tf_xla_use_device_api": _NO_OTHER_DEVICE,
    "tf_xla_enable_device_api_for_gpu": _NO_OTHER_DEVICE,
    "tf_dump_graphs_in_tfg": "Graphs are written as GraphDefs.",
    "tf_mlir_enable_mlir_bridge": _NO_MLIR,
    "tf_mlir_enable_merge_control_flow_pass": _NO_MLIR,
    "tf_mlir_enable_convert_control_to_data_outputs_pass": _NO_MLIR,
    "tf_mlir_enable_strict_clusters": _NO_MLIR,
    "tf_mlir_enable_debug_info_serialization": _NO_MLIR,
    "tf_serialize_mlir_to_compressed_bytecode": _NO_MLIR,
    "tf_mlir_enable_multiple_local_cpu_devices": _NO_TPU,
    "tf_mlir_composite_tpuexecute_side_effects": _NO_TPU,
    "tf_mlir_enable_tpu_variable_runtime_reformatting_pass": _NO_TPU,
    "tf_xla_disable_full_embedding_pipelining": _NO_TPU,
    "tf_xla_disable_full_embedding_pipelining_with_summaries": _NO_TPU,
    "tf_xla_embedding_parallel_iterations": _NO_TPU,
    "tf_xla_sparse_core_disable_table_stacking": _NO_TPU,
    "tf_xla_sparse_core_minibatch_max_division_level": _NO_TPU,
    "tf_xla_sparse_core_stacking_mem_limit_bytes": _NO_TPU,
    "tf_xla_sparse_core_stacking_table_shard_limit_bytes": _NO_TPU,
}


def parse(text: str) -> ClusteringFlags:
    """Return what the flags in `text` (the value of `TF_XLA_FLAGS`) set.

    Raises:
        FlagError: INGOT0600, TensorFlow has no such flag, or a value is wrong.
    """
    values = split(text, VARIABLE)
    known = [*_SETTINGS, *_WITHOUT_EFFECT]
    unknown = [name for name in values if name not in known]
    if unknown:
        several = "s" if len(unknown) > 1 else ""
        names = " ".join(f"--{name}" for name in unknown)
        raise FlagError(
            f"Unknown flag{several} in {VARIABLE}: {names}",
            hint=did_you_mean(unknown[0], known) or f"leave --{unknown[0]} out",
        )
    found = {
        name.removeprefix("tf_xla_"): read_value(
            name,
            value,
            _SETTINGS[name],
            f"Couldn't interpret value {value} for flag {name} in {VARIABLE}",
        )
        for name, value in values.items()
        if name in _SETTINGS
    }
    if values.get("tf_xla_auto_jit") == "fusible":
        found.setdefault("ops_to_cluster", ("FUSIBLE",))
    _tell_without_effect(tuple(name for name in values if name in _WITHOUT_EFFECT))
    return replace(ClusteringFlags(), **found)


@lru_cache(maxsize=64)
def _tell_without_effect(names: tuple[str, ...]) -> None:
    """Say once that flags are accepted and do nothing."""
    for name in names:
        _logger.warning("Ingot: --%s has no effect. %s", name, _WITHOUT_EFFECT[name])


def current() -> ClusteringFlags:
    """Return what the environment asks for."""
    return _parsed(os.environ.get(VARIABLE, ""))


_parsed = lru_cache(maxsize=64)(parse)


def markdown() -> str:
    """Return the table of the flags, for `docs/tensorflow_clustering.md`."""
    lines = ["| flag | meaning |", "|---|---|"]
    lines += [f"| `--{name}` | {doc} |" for name, (_, doc) in _SETTINGS.items()]
    lines += [f"| `--{name}` | No effect. {doc} |" for name, doc in _WITHOUT_EFFECT.items()]
    return "\n".join(lines) + "\n"

# SPDX-License-Identifier: Apache-2.0
"""No table of a process grows with the programs that it compiles: each is named, with its bound.

What bounds itself (`lru_cache` with a size, `RecentTable`) or is weak (`InternTable`,
`WeakValueDictionary`) needs no word here. `tests/client/test_memory.py` measures that it is true.
"""

from pathlib import Path

import pytest
from tests.project.tables import tables_of

SOURCES = Path(__file__).resolve().parents[2] / "src" / "ingot"

IMPORTED = "filled when its module is imported"
OF_OPS = "a row for each op, or each class of attributes, of the op table"
OF_TARGET = "a row for each CPU that code is made for"
ONCE = "filled once, when the door is opened"
RETURNED = "what is put in is taken out when the block ends"

REASONS = {
    "client/pjrt/module_handoff.py": {"_offered": RETURNED},
    "client/pjrt/preparations.py": {"_preparations": RETURNED},
    "frontends/jax/ffi.py": {"_waiting": RETURNED},
    "client/pjrt/handles.py": {"_objects": "a row for each object that a host has not destroyed"},
    "client/pjrt/layouts.py": {"_layouts": "a row for each layout that a host asks for"},
    "client/pjrt/python_slots/transfer.py": {"TransferSlots._orders": "a row for each layout"},
    "client/pjrt/trampolines.py": {"_immortal": ONCE},
    "client/profiling/profile.py": {
        "_recording": "the recording that goes on; stopping it removes it"
    },
    "client/executables/replicated.py": {
        "_idle": "as many threads as ran at once, for each number of devices"
    },
    "frontends/torch/fx/guarded_sizes.py": {"_KNOWN": "its keys are weak: shape environments"},
    "passes/spmd/own_partitions.py": {"_partitioners": "one, the host's"},
    "runtime/cuda/devices.py": {"_known": "a row for each GPU"},
    "runtime/arguments/dlpack.py": {"_exported": "a row for each tensor that a consumer holds"},
    "runtime/threading/fibers.py": {
        "_groups": "a row for each list of devices that run one program"
    },
    "runtime/load.py": {"_mapped": "a row for each library with weights; none is unloaded"},
    "client/executables/threads.py": {
        "_pool": "a row for each number of threads, which is at most 4096"
    },
    "client/shared.py": {"_latest": "the last 32 small programs"},
    "cpu/strategies/table.py": {"_asked_about": "a row for each kind of kernels"},
    "evaluator/registry.py": {"_RULES": IMPORTED},
    "formats/hlo_proto/fields.py": {"plan": OF_OPS},
    "formats/hlo_text/async_text.py": {"_start_of": OF_OPS},
    "formats/hlo_text/attribute_text.py": {"plan": OF_OPS},
    "formats/hlo_text/instruction_parser.py": {"_rows": OF_OPS},
    "formats/stablehlo/contexts.py": {
        "_idle": "at most as many as `_MOST_IDLE`",
        "_abandoned": "those that were idle when this process was forked",
    },
    "frontends/jax/callbacks.py": {"_functions": RETURNED},
    "frontends/jax/compilation.py": {
        "_Trust.alike": "kinds of fields: types, flags and memories, not sizes",
        "_Trust.different": "the same",
    },
    "frontends/tensorflow/clustering/debug_graphs.py": {
        "_numbers": "a row for each name of a debug graph"
    },
    "frontends/tensorflow/clustering/optimizer.py": {
        "_launches": "a row for each cluster: TensorFlow's graphs hold addresses of these rows"
    },
    "frontends/tensorflow/clustering/plugin.py": {"_kept": ONCE},
    "frontends/tensorflow/functions/dropped_launches.py": {
        "_held": "a row for each dropped function that a session or an iterator still runs",
        "_waiting": "32 dropped functions, and those dropped until the next one is traced",
    },
    "frontends/tensorflow/eager/eager_call.py": {"_libraries": ONCE},
    "frontends/tensorflow/partitioning/host_report.py": {
        "_told": "a row for each op type of TensorFlow"
    },
    "frontends/tensorflow/launches/launch.py": {
        "_launches": "a row for each function that TensorFlow traced: its graphs hold addresses of "
        "these rows, and a graph may be copied, kept and run when the function is gone"
    },
    "frontends/tensorflow/launches/launch_op.py": {"_libraries": ONCE},
    "frontends/tensorflow/functions/list_forms.py": {"_converter": "a row for each element type"},
    "frontends/tensorflow/lowering/walk/rules.py": {"family": "a row for each family of ops"},
    "frontends/torch/backend.py": {
        "_check_environment_once": ONCE,
        "_keep_freed_memory_once": ONCE,
    },
    "frontends/torch/graphs.py": {
        "_listeners": "a list for each block that records graphs and is entered"
    },
    "frontends/torch/partitioning/placement.py": {"_warned": "a row for each op of PyTorch"},
    "semantics/custom_calls.py": {
        "_targets": "a row for each name that somebody registered",
        "_preparations": RETURNED,
    },
    "hlo/interfaces.py": {"_ops": OF_OPS, "_sets": "a row for each set that a module asks for"},
    "hlo/opdef.py": {"_TABLE": IMPORTED, "_callees": OF_OPS, "_fields": OF_OPS},
    "kernel/expr.py": {"is_expensive_op": OF_OPS, "latency": OF_OPS},
    "kernel/analysis/ranges.py": {"_known": "true and false"},
    "llvm/jit.py": {"_layouts": OF_TARGET},
    "llvm/linking.py": {"_library_address": "a row for each of LIBRARY_SYMBOLS"},
    "llvm/machine_model.py": {"_model_of": OF_TARGET, "_vectors_of": OF_TARGET},
    "llvm/machines.py": {"_machines": "as many as compiled at once, for each CPU and level"},
    "llvm/math/called.py": {"subroutine": "functions, element types and widths of registers"},
    "llvm/math/trigonometric.py": {"large_reduction": "element types"},
    "llvm/target.py": {"_at_level": "the levels of x86-64 that have a name"},
    "native/functions.py": {"_replaced": RETURNED},
    "native/memory.py": {"function_at": "a row for each function whose address plain Python takes"},
    "native/pointers.py": {"class_over": "a row for each item type of our own annotations"},
    "runtime/python/builtins.py": {
        "_definitions": "a row for each native function that Python calls"
    },
    "runtime/foreign/collectives/combiners.py": {"_library": "reducers and element types"},
    "runtime/foreign/collectives/couriers.py": {"_couriers": "a row for each device of a client"},
    "runtime/foreign/feeds.py": {"_infeeds": "a queue for each device", "_outfeeds": "the same"},
    "runtime/foreign/lapack/expressions.py": {"_parsed": "the texts of LAPACK's table"},
    "runtime/foreign/lapack/library.py": {"function_address": "the routines of LAPACK's table"},
    "runtime/foreign/lapack/targets.py": {"_adapter": "the routines of LAPACK's table"},
    "runtime/python_api.py": {"_immortal": ONCE},
    "support/later.py": {
        "_waiting": "what helpers have to do; each takes it out",
        "_helpers": "at most as many threads as there are CPUs",
    },
    "support/deep_stack.py": {"_wanted": "an entry for each active block"},
    "support/flags.py": {"_encoded": "the names of the flags"},
    "support/forking.py": {"_foreign": ONCE, "_held": RETURNED},
    "support/observing.py": {"_listeners": RETURNED},
    "support/sources.py": {
        "_package": "a row for each package of Ingot",
        "sources_stamp": "the lists of packages that caches depend on",
    },
}
"""Every other table, and what bounds it."""


@pytest.mark.slow
def test_every_table_has_a_bound():
    found = {
        path.relative_to(SOURCES).as_posix(): names
        for path in sorted(SOURCES.rglob("*.py"))
        if (names := tables_of(path.read_text(encoding="utf-8")))
    }
    # A new one: bound it (`lru_cache(maxsize=)`, `RecentTable`), or say here why it is bounded.
    assert found == {path: set(reasons) for path, reasons in REASONS.items()}


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("seen = set()\n", {"seen"}),
        ("class A:\n    seen: ClassVar[dict[int, int]] = {}\n", {"A.seen"}),
        ("seen = defaultdict(list)\ndef f(x):\n    return seen[x]\n", {"seen"}),
        ("rows = [1]\ndef f(x):\n    rows.append(x)\n", {"rows"}),
        ("rows = {1: 1}\nclass A:\n    def f(self):\n        rows[2] = 2\n", {"rows"}),
        ("class A:\n    rows = {1: 1}\n    def f(self):\n        self.rows.pop(1)\n", {"A.rows"}),
        ("@cache\ndef f(x):\n    return x\n", {"f"}),
        ("class A:\n    @functools.cache\n    def f(self):\n        return 1\n", {"A.f"}),
        ("@lru_cache(maxsize=None)\ndef f(x):\n    return x\n", {"f"}),
        ("@lru_cache(None)\ndef f(x):\n    return x\n", {"f"}),
        ("f = cache(g)\n", {"f"}),
        ("@cache\ndef f():\n    return 1\n", set()),
        ("@lru_cache(maxsize=64)\ndef f(x):\n    return x\n", set()),
        ("@lru_cache\ndef f(x):\n    return x\n", set()),
        ("rows = {1: 1}\ndef f(x):\n    return rows[x]\n", set()),
        ("rows = {1: 1}\ndef f():\n    rows = {}\n    rows[1] = 2\n    return rows\n", set()),
        ("def f():\n    seen = {}\n    @cache\n    def g(x):\n        return x\n", set()),
        ("names = InternTable[str, Name]()\n", set()),
    ],
)
def test_tables_are_found(text, names):
    assert tables_of(text) == names

# SPDX-License-Identifier: Apache-2.0
"""What every test shares: a quiet and repeatable environment, and how GPU tests are skipped.

The environment is set here, before any test imports a framework, because TensorFlow and Ingot
read it at import.
"""

import os
import shutil
import signal
import sys
import tempfile
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
# PyTorch's threads spin where they wait for each other: on a busy machine a fifth of the time of
# its tests, and a comparison of two small tensors took 30 ms.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
for _variable in [name for name in os.environ if name.startswith("INGOT_")]:
    # A switch of the developer's shell must not decide a test; the cache stays where it is.
    if _variable != "INGOT_CACHE_DIR":
        del os.environ[_variable]
# A test of a pass or a kernel is to run it; objects, which follow from their text, may be known.
os.environ["INGOT_PROGRAM_CACHE"] = "0"

# What programs leave in the temporary folder (kept modules of injected faults, TensorFlow's
# generated files) goes with the session; `tmp_path` stays where pytest has it.
os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())
_LEFT_BEHIND = tempfile.TemporaryDirectory(prefix="ingot-tests-", ignore_cleanup_errors=True)
os.environ["TMPDIR"] = tempfile.tempdir = _LEFT_BEHIND.name

# A shell's background jobs ignore Ctrl-C, and so would every process that tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Deadlines measure the machine, not the code; the same examples every time, so that a failure in
# continuous integration is a failure here.
settings.register_profile(
    "ingot", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("ingot")


TEST_SHARE = {
    "accuracy/test_accuracy.py": 3,
    "client/test_calls.py": 2,
    "client/test_depth.py": 8,
    "cpu/contraction/test_byte_products.py": 3,
    "cpu/contraction/test_contraction.py": 2,
    "cpu/contraction/test_product.py": 3,
    "cpu/contraction/test_product_types.py": 3,
    "cpu/contraction/test_tiles.py": 2,
    "cpu/test_attention.py": 2,
    "cpu/test_constant_division.py": 3,
    "cpu/test_convolution.py": 2,
    "cpu/test_direct_convolution.py": 3,
    "cpu/test_element_types.py": 2,
    "cpu/test_empty_arrays.py": 4,
    "cpu/test_fft.py": 5,
    "cpu/test_gathers_ahead.py": 3,
    "cpu/test_interior_padding.py": 2,
    "cpu/test_narrow_types.py": 3,
    "cpu/test_ops.py": 3,
    "cpu/test_phases.py": 2,
    "cpu/test_plain_indexing.py": 3,
    "cpu/test_quicksort.py": 2,
    "cpu/test_random_modules.py": 3,
    "cpu/test_register_loops.py": 2,
    "cpu/test_short_rows.py": 4,
    "cpu/test_symbolic_batch.py": 2,
    "cpu/test_transposed_rows.py": 3,
    "differential/test_dynamic.py": 3,
    "differential/test_random_modules.py": 8,
    "differential/test_xla_dumps.py": 2,
    "evaluator/test_random_modules.py": 3,
    "formats/test_stablehlo_programs.py": 4,
    "frontends/jax/test_processes.py": 4,  # three processes each
    "frontends/jax/test_programs.py": 5,
    "frontends/jax/test_sharded_training.py": 11,  # two processes of two devices
    "frontends/tensorflow/clustering/test_programs.py": 16,
    "frontends/tensorflow/tracing/gradients/test_gradients.py": 8,
    "frontends/tensorflow/keras/test_rows.py": 30,
    "frontends/tensorflow/keras/test_saving.py": 2,
    "frontends/tensorflow/lowering/test_elementwise.py": 3,
    "frontends/tensorflow/lowering/test_families.py": 2,
    "frontends/tensorflow/lowering/test_image_ops.py": 2,
    "frontends/tensorflow/lowering/test_images.py": 2,
    "frontends/tensorflow/lowering/test_linalg.py": 3,
    "frontends/tensorflow/lowering/test_random.py": 2,
    "frontends/tensorflow/lowering/test_sampled_images.py": 2,
    "frontends/tensorflow/lowering/test_tensors.py": 2,
    "frontends/tensorflow/programs/test_augmentation.py": 4,
    "frontends/tensorflow/programs/test_computed_sizes.py": 6,
    "frontends/tensorflow/programs/test_dropped_functions.py": 3,
    "frontends/tensorflow/programs/test_layers.py": 14,
    "frontends/tensorflow/programs/test_nested_loops.py": 4,
    "frontends/tensorflow/programs/test_open_sizes.py": 2,
    "frontends/tensorflow/programs/test_optimizers.py": 18,
    "frontends/tensorflow/programs/test_ragged_sparse.py": 6,
    "frontends/tensorflow/programs/test_refused_ops.py": 3,
    "frontends/tensorflow/programs/test_sessions.py": 2,
    "frontends/tensorflow/programs/test_small_images.py": 2,
    "frontends/tensorflow/programs/test_sparse_structure.py": 6,
    "frontends/tensorflow/programs/test_specialisation.py": 12,
    "frontends/tensorflow/programs/test_tensor_lists.py": 2,
    "frontends/tensorflow/programs/test_tutorials_sequences.py": 2,
    "frontends/tensorflow/programs/test_varying_arguments.py": 6,
    "frontends/torch/test_aliasing.py": 4,
    "frontends/torch/test_compositions.py": 4,
    "frontends/torch/test_control_flow.py": 8,
    "frontends/torch/test_data_sizes.py": 8,
    "frontends/torch/test_dynamic.py": 8,
    "frontends/torch/test_elementwise.py": 4,
    "frontends/torch/test_exported.py": 3,
    "frontends/torch/test_forms.py": 3,
    "frontends/torch/test_grouped_products.py": 3,
    "frontends/torch/test_guarded_sizes.py": 4,
    "frontends/torch/test_indexing.py": 4,
    "frontends/torch/test_jagged.py": 2,
    "frontends/torch/test_linear_algebra.py": 2,
    "frontends/torch/test_models.py": 4,
    "frontends/torch/test_networks.py": 6,
    "frontends/torch/test_opinfo.py": 260,
    "frontends/torch/test_overlap_add.py": 2,
    "frontends/torch/test_quantization.py": 4,
    "frontends/torch/test_random.py": 4,
    "frontends/torch/test_recompilations.py": 8,
    "frontends/torch/test_recurrent.py": 4,
    "frontends/torch/test_reduction.py": 2,
    "frontends/torch/test_saved_layouts.py": 2,
    "frontends/torch/test_segments.py": 3,
    "frontends/torch/test_special_functions.py": 4,
    "frontends/torch/test_symbolic_space.py": 4,
    "frontends/torch/test_user_programs.py": 8,
    "fuzz/test_fuzz.py": 10,
    "gpu/test_dynamic_sizes.py": 5,
    "gpu/test_fourier.py": 5,
    "gpu/test_jax.py": 2,
    "gpu/test_ptxas.py": 3,
    "gpu/test_races.py": 2,
    "gpu/test_random.py": 3,
    "gpu/test_random_shapes.py": 4,
    "gpu/test_tensor_cores.py": 2,
    "gpu/test_tensorflow.py": 2,
    "guard_pages/test_guard_pages.py": 4,
    "llvm/test_math.py": 3,
    "ops/test_ops.py": 6,
    "passes/expand/test_complex_expander.py": 4,
    "passes/expand/test_complex_jax.py": 3,
    "passes/test_algsimp_rules.py": 3,
    "passes/test_depthwise_strips.py": 2,
    "passes/test_many_phases.py": 2,
    "project/test_coverage.py": 5,
    "project/test_docs.py": 6,
    "project/test_examples.py": 4,
    "runtime/foreign/collectives/test_against_jax.py": 3,
    "runtime/foreign/test_jax_linalg.py": 4,
    "runtime/foreign/test_lapack.py": 4,
    "runtime/foreign/test_lapack_lanes.py": 2,
    "support/test_interning.py": 8,
}
"""Generated tables, and files of many like cases: `make test` runs one in so many, `make test-all`
each."""

VERIFIED = (
    "cpu/test_box_copies.py",
    "cpu/test_gathers_ahead.py",
    "cpu/test_library.py",
    "cpu/test_pieces.py",
    "cpu/test_row_nests.py",
    "cpu/test_sort_network.py",
    "cpu/test_split_folds.py",
    "cpu/test_staged_updates.py",
    "cpu/test_strategies.py",
    "cpu/test_tiles.py",
    "cpu/test_topk.py",
    "cpu/test_transposed_rows.py",
)
"""Files whose programs are compiled in debug mode: modules and kernels are verified at every step.
Each takes less than a second more for it."""

LONG_FIRST = (
    "project/test_demo.py",
    "frontends/jax/test_sharded_training.py",
    "frontends/tensorflow/clustering/test_programs.py",
    "gpu/test_jax.py",
    "frontends/test_interrupts.py",
    "frontends/test_forks.py",
    "frontends/jax/test_programs.py",
    "frontends/jax/test_processes.py",
    "benchmarks/test_tf_whole.py",
    "benchmarks/test_torch_whole.py",
    "benchmarks/test_benchmarks.py",
    "benchmarks/test_libraries.py",
    "project/test_docs.py",
    "project/test_examples.py",
    "fuzz/test_fuzz.py",
    "soak/test_soak.py",
    "client/test_memory.py",
    "client/test_forking.py",
    "frontends/torch/test_losses.py",
    "frontends/torch/test_models.py",
)
"""Files whose tests take ten seconds and more: workers begin with them, so that none still has a
long test to run when the others have nothing left to take from it."""

WHOLLY_SLOW = (
    "client/pjrt/test_library.py",
    "differential/test_xla_dumps.py",
    "formats/test_stablehlo_programs.py",
    "frontends",
    "project/test_docs.py",
    "project/test_doctests.py",
    "runtime/foreign/test_jax_linalg.py",
)
"""Files and folders with no fast test: the fast suite does not even import them."""

_HERE = Path(__file__).resolve().parent
_COMPILED_BY_XLA = pytest.StashKey[int]()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what the fast suite would only collect and throw away."""
    is_fast = config.getoption("markexpr") == "not slow"
    return True if is_fast and collection_path in {_HERE / name for name in WHOLLY_SLOW} else None


def pytest_configure(config: pytest.Config) -> None:
    """Declare `fast_share(n)`, the mark of files with many cases of one kind."""
    line = "fast_share(n): one test of the file in n belongs to the fast suite, the others are slow"
    config.addinivalue_line("markers", line)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take `--all`: every case of the generated tables; `--bless`: write expected texts anew."""
    parser.addoption("--all", action="store_true", help="every case of the generated tables")
    parser.addoption("--bless", action="store_true", help="write the expected text of passes anew")


def _is_left_out(item: pytest.Item) -> bool:
    """Whether a test is left to `make test-all`: a long one, or a case by its name's checksum."""
    if item.get_closest_marker("long") is not None:
        return True
    return "[" in item.name and crc32(item.name.encode()) % _share_of(item.path) != 0


@cache
def _turn_of(path: Path) -> int:
    name = path.relative_to(_HERE).as_posix()
    return LONG_FIRST.index(name) if name in LONG_FIRST else len(LONG_FIRST)


@cache
def _share_of(path: Path) -> int:
    return TEST_SHARE.get(path.relative_to(_HERE).as_posix(), 1)


def _is_left_to_slow(item: pytest.Item) -> bool:
    """Whether the fast suite leaves out a test of a file that it runs one test in so many of.

    The name decides, so that a new test changes nothing for the others.
    """
    marker = item.get_closest_marker("fast_share")
    if marker is None:
        return False
    digest = sha256(item.name.encode()).digest()
    return int.from_bytes(digest[:4], "big") % marker.args[0] != 0


def _leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    # What somebody names is run.
    if config.getoption("--all") or any(
        "::" in name or name.endswith(".py") for name in config.args
    ):
        return
    left_out = [item for item in items if _is_left_out(item)]
    config.hook.pytest_deselected(items=left_out)
    gone = set(left_out)
    items[:] = [item for item in items if item not in gone]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave shares of large tables to slower suites; skip `gpu` without an NVIDIA driver."""
    _leave_out(config, items)
    if hasattr(config, "workerinput"):  # one of several workers
        items.sort(key=lambda item: _turn_of(item.path))
    for item in items:
        if item.get_closest_marker("slow") is None and _is_left_to_slow(item):
            item.add_marker(pytest.mark.slow)
    if shutil.which("nvidia-smi") is not None:
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU")
    for item in items:
        if item.get_closest_marker("gpu") is not None:
            item.add_marker(skip)


@pytest.fixture(autouse=True)
def _verified(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile in debug mode in the files of `VERIFIED`, without its log."""
    if request.path.relative_to(_HERE).as_posix() not in VERIFIED:
        return
    from ingot.client import compilation

    def checked(*switches: Any) -> Any:
        context = default(*switches)
        context.debug, context.verify_each = 1, True
        return context

    default = compilation.default_context
    monkeypatch.setattr(compilation, "default_context", checked)


@pytest.fixture
def generator() -> np.random.Generator:
    """Random numbers for one test: the same whichever tests ran before it."""
    return np.random.default_rng(0)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if TensorFlow's built-in XLA compiled a program that no test asked it for."""
    if "tensorflow" in sys.modules:
        from tests.xla_compilations import unasked

        session.config.stash[_COMPILED_BY_XLA] = found = unasked()
        if found:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what the built-in XLA compiled."""
    found = config.stash.get(_COMPILED_BY_XLA, None)
    if found is not None:
        terminalreporter.write_line(f"programs compiled by TensorFlow's built-in XLA: {found}")

# Every target sets up what it needs on a machine with only python3 (3.11 or newer), pip and make.
# All of it goes into .venv; nothing global is touched. PYTHON=python3.12 chooses another Python.

PYTHON ?= python3
# One more than the cores of a small machine: many tests wait for processes that they start.
WORKERS ?= 3
JAX_CASES ?= 1
JAX_DEVICES ?= 1
MINUTES ?= 10
HOURS ?= 1
FAULTS ?= 100
SEED ?= 0
TENSORFLOW ?= 2.20
JAX ?= 0.10
# What `make wheel-test` passes on: --python python3.13 --extras cli,jax
WHEEL_FLAGS ?=

VENV := .venv
BIN := $(VENV)/bin
# One stamp per set of extras. A stamp is written only after the whole installation went well, so an
# interrupted one is taken up again by the next call.
DEV := $(VENV)/.installed-dev
BENCH := $(VENV)/.installed-bench
TORCH_BENCH := $(VENV)/.installed-torch-bench
# Another series of TensorFlow has an environment of its own.
SERIES := .venv-tensorflow-$(TENSORFLOW)
JAX_SERIES := .venv-jax-$(JAX)
LIBRARIES := .venv-tensorflow-libraries
JAX_LIBRARIES := .venv-jax-libraries

# Tests start hundreds of processes; each would compile Ingot's sources again, and each worker pytest's
# assertions: a third of the time that it takes to find the tests.
unexport PYTHONDONTWRITEBYTECODE

# Set-up problems would hide behind TensorFlow's start-up messages.
export TF_CPP_MIN_LOG_LEVEL ?= 2

.PHONY: help demo test test-all test-tensorflow test-jax test-tensorflow-libraries wheel-test doctor check types fast-tests bench bench-jax bench-jax-libraries bench-tf bench-torch bench-libraries bench-devices bench-cold network-model bench-gpu bench-ops bench-aot roofline aot-sweep scaling accuracy conformance conformance-jax conformance-tensorflow conformance-torch conformance-torch-tests conformance-gpu test-gpu fuzz soak faults docs format clean

help:
	@echo "make demo    train real models compiled by Ingot; show what was fused and how fast it is"
	@echo "make test    the test suite, with a share of its largest tables"
	@echo "make test-all   every case, and the long tests"
	@echo "make test-tensorflow TENSORFLOW=2.20   its tests on another series of TensorFlow"
	@echo "make test-jax JAX=0.10   its tests on a series of JAX"
	@echo "make test-tensorflow-libraries   Keras 2 and TensorFlow Probability, each class"
	@echo "make check   format, lint, types, layers, file sizes, fast tests (under 60 s)"
	@echo "make wheel-test  build the wheel and the sdist, install and use them in an empty environment"
	@echo "make doctor  check this installation"
	@echo "make bench   Ingot beside XLA, on this machine: programs, single ops, whole JAX programs"
	@echo "make bench-jax   its whole JAX programs alone"
	@echo "make bench-jax-libraries   programs of Flax, Optax, Diffrax, NumPyro and other JAX libraries"
	@echo "make bench-tf   whole TensorFlow models on Ingot, TensorFlow's kernels and its XLA"
	@echo "make bench-torch   whole PyTorch models on Ingot, PyTorch's kernels and inductor (g++)"
	@echo "make bench-libraries   single kernels beside PyTorch's, NumPy's and SciPy's, and a draw of the day"
	@echo "make bench-devices   collectives in one process and between two, beside XLA's, Gloo's and MPI's"
	@echo "make bench-cold  short scripts from the start of a process to its end, beside XLA and others"
	@echo "make bench-gpu   kernels on the GPU of this machine, beside PyTorch's and a copy of memory"
	@echo "make bench-aot   programs compiled ahead of time beside the same compiled now; sizes of files"
	@echo "make aot-sweep   random programs on AArch64 (qemu) and WebAssembly (node), against the evaluator"
	@echo "make bench-ops   each op with each element type, Ingot beside XLA"
	@echo "make roofline    how near the kernels of make bench come to this machine's limit"
	@echo "make network-model   what explain predicts of collectives, and measured"
	@echo "make scaling     compile time and memory by size of the module and by devices"
	@echo "make accuracy    every math function over all f32 (and samples of f64), in ulp; resumes"
	@echo "make conformance 11,000 cases on the evaluator, Ingot's CPU and real XLA"
	@echo "make fuzz MINUTES=n   random and damaged inputs, in child processes; findings in .fuzz/"
	@echo "make soak HOURS=n     train, serve and recompile while faults happen; memory stays flat"
	@echo "make faults FAULTS=n  kill, stop and delay processes of programs that run in several"
	@echo "make docs    write the generated pages, then the documentation site into build/site"
	@echo "make conformance-gpu  the 10,000 of one device on the emulated GPU, and through ptxas"
	@echo "make test-gpu    the same and the kernels' tests, on the GPU of this machine"
	@echo "make conformance-jax JAX_TESTS=path   JAX's own tests (its repository's tests folder)"
	@echo "make conformance-tensorflow TENSORFLOW_TESTS=path   TensorFlow's tests of its XLA bridge"
	@echo "make conformance-torch TORCH_OPS=pattern   PyTorch's samples of its own ops, beside eager"
	@echo "make conformance-torch-tests TORCH_TESTS=path   PyTorch's tests of its compiler"
	@echo "make format  format the code and mend what ruff can mend"

$(DEV): pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(VENV) dev
	@touch $@

$(BENCH): pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(VENV) bench
	@touch $@

$(TORCH_BENCH): pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(VENV) torch-bench
	@touch $@

$(SERIES)/.installed-test: pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(SERIES) test "tensorflow==$(TENSORFLOW).*"
	@touch $@

$(JAX_SERIES)/.installed-test: pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(JAX_SERIES) test "jax==$(JAX).*" "jaxlib==$(JAX).*"
	@touch $@

$(LIBRARIES)/.installed: pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(LIBRARIES) tensorflow-libraries
	@touch $@

$(JAX_LIBRARIES)/.installed: pyproject.toml tools/make_venv.py
	$(PYTHON) tools/make_venv.py $(JAX_LIBRARIES) jax-libraries
	@touch $@

demo: $(BENCH)
	$(BIN)/python examples/demo.py

test: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_FLAGS)

test-all: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal --all $(PYTEST_FLAGS)

test-tensorflow: $(SERIES)/.installed-test
	$(SERIES)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_FLAGS) tests/frontends/tensorflow

test-jax: $(JAX_SERIES)/.installed-test
	$(JAX_SERIES)/bin/python -m pytest -n $(WORKERS) --dist worksteal $(PYTEST_FLAGS) tests/frontends/jax

wheel-test: $(DEV)
	$(BIN)/python tools/wheel_test.py $(WHEEL_FLAGS)

doctor: $(DEV)
	$(BIN)/ingot doctor

# Both run, and either may fail.
test-tensorflow-libraries: $(LIBRARIES)/.installed
	TF_USE_LEGACY_KERAS=1 $(LIBRARIES)/bin/python -m tests.frontends.tensorflow.keras.sweep; \
	keras=$$?; $(LIBRARIES)/bin/python -m tests.frontends.tensorflow.probability.sweep && exit $$keras

check: $(DEV)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo
	$(BIN)/python tools/file_size.py
	$(BIN)/python tools/licence_headers.py
	$(MAKE) --jobs 2 --output-sync=target types fast-tests

# Side by side: pyright is one thread, and most of the time of `make check`.
types: $(DEV)
	$(BIN)/pyright

fast-tests: $(DEV)
	$(BIN)/python -m pytest -n $(WORKERS) -q -m "not slow" $(PYTEST_FLAGS)

bench: $(BENCH)
	$(BIN)/python -m benchmarks
	$(BIN)/python -m benchmarks.with_jax.whole --write

bench-jax: $(BENCH)
	$(BIN)/python -m benchmarks.with_jax.whole --write

# BENCH_FLAGS="Flax --threads 1" measures some programs, and writes nothing.
bench-jax-libraries: $(JAX_LIBRARIES)/.installed
	$(JAX_LIBRARIES)/bin/python -m benchmarks.with_jax.whole --libraries --write $(BENCH_FLAGS)

bench-tf: $(BENCH)
	$(BIN)/python -m benchmarks.with_tensorflow.whole --write

# Each row is written when it is measured; `BENCH_FLAGS="ResNet --threads 1"` measures some again.
bench-torch: $(TORCH_BENCH)
	$(BIN)/python -m benchmarks.with_torch.whole --write $(BENCH_FLAGS)

# BENCH_FLAGS="sort --threads 1" measures some kernels, and writes nothing.
bench-libraries: $(TORCH_BENCH)
	$(BIN)/python -m benchmarks.kernels.libraries --write $(BENCH_FLAGS)

bench-devices: $(BENCH)
	$(BIN)/python -m benchmarks.distributed.devices --write $(BENCH_FLAGS)

bench-cold: $(BENCH) $(TORCH_BENCH)
	$(BIN)/python -m benchmarks.processes.cold --write $(BENCH_FLAGS)

network-model: $(BENCH)
	$(BIN)/python -m benchmarks.distributed.network_model --write $(BENCH_FLAGS)

bench-gpu: $(DEV)
	$(BIN)/python -m benchmarks.kernels.gpu $(BENCH_FLAGS)

bench-ops: $(BENCH)
	$(BIN)/python -m benchmarks.ops.every_op --write

bench-aot: $(BENCH)
	$(BIN)/python -m benchmarks.processes.aot --write

aot-sweep: $(DEV)
	$(BIN)/python -m tests.aot.sweep aarch64 --count 300
	$(BIN)/python -m tests.aot.sweep wasm --count 300

# ROOFLINE_FLAGS="softmax --threads 2" measures some programs, or on more threads.
roofline: $(BENCH)
	$(BIN)/python -m benchmarks.kernels.roofline $(ROOFLINE_FLAGS)

scaling: $(DEV)
	$(BIN)/python -m benchmarks.processes.compile_scaling --write

accuracy: $(DEV)
	nice -n 15 $(BIN)/python -m tests.accuracy --workers $(WORKERS)

conformance: $(DEV)
	$(BIN)/python -m tests.differential --workers $(WORKERS) --write

fuzz: $(DEV)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --workers $(WORKERS)

soak: $(DEV)
	$(BIN)/python -m tests.soak --hours $(HOURS)

faults: $(DEV)
	$(BIN)/python -m tests.soak.processes --faults $(FAULTS) --seed $(SEED)

docs: $(DEV)
	$(BIN)/python tools/make_docs.py
	$(BIN)/python tools/op_coverage.py
	$(BIN)/python tools/doc_examples.py
	$(BIN)/python tools/fusion_picture.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

conformance-gpu: $(DEV)
	$(BIN)/python -m tests.gpu.sweep
	$(BIN)/python -m tests.gpu.sweep sm_80
	$(BIN)/python -m tests.gpu.sweep sm_90

test-gpu: $(DEV)
	$(BIN)/python -m pytest -m gpu tests/gpu
	$(BIN)/python -m tests.gpu.sweep --device

conformance-jax: $(DEV)
	$(BIN)/python -m pip install -q "pytest<9" hypothesis==6.142.1 mpmath==1.3.0 --target .venv/jax-tests
	PYTHONPATH=$(CURDIR)/.venv/jax-tests $(BIN)/python tools/conformance_jax.py $(JAX_TESTS) \
		$(JAX_FILES) --cases $(JAX_CASES) --devices $(JAX_DEVICES) --write

conformance-tensorflow: $(BENCH)
	$(BIN)/python tools/conformance_tensorflow.py $(TENSORFLOW_TESTS) $(TENSORFLOW_FILES) --write

conformance-torch: $(DEV)
	$(BIN)/python -m tests.frontends.torch.opinfo.sweep $(TORCH_OPS)

conformance-torch-tests: $(DEV)
	$(BIN)/python tools/conformance_torch.py $(TORCH_TESTS) $(TORCH_FILES) --write

format: $(DEV)
	$(BIN)/python tools/licence_headers.py --write
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) .venv-tensorflow-* .venv-jax-* .pytest_cache .ruff_cache .hypothesis .import_linter_cache build dist

# SPDX-License-Identifier: Apache-2.0
"""Runs TensorFlow's own tests of its XLA bridge on Ingot: `make conformance-tensorflow`.

`TENSORFLOW_TESTS=path` is the root of TensorFlow's sources at the tag of the installed version, or
a folder that holds `tensorflow/compiler/tests` and
`tensorflow/python/eager/polymorphic_function` of it; nothing of it is kept here. Each file runs in
a process of its own, forked from one that has imported TensorFlow; `conformance_xla_device` lets
Ingot compile what a test places on the device XLA_CPU. The same file then runs on the built-in XLA,
as TensorFlow's build rules run it. Outcomes are kept in `--results`; what has one does not run
again, unless `--again` asks for it.

Example:
    python tools/conformance_tensorflow.py ~/tensorflow cast_ops_test --again failed

`--write` makes `docs/conformance_tensorflow.md` of all that is in `--results`; a file that has no
results there keeps what the page says of it.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import random
import re
import runpy
import signal
import sys
import time
import traceback
import unittest
from collections import Counter
from importlib.metadata import version
from pathlib import Path
from typing import Any

from conformance_jax import ROOT, Report, cause, commit, read_report
from conformance_plugin import read_lines

PAGE = ROOT / "docs" / "conformance_tensorflow.md"
RESULTS = ROOT / ".venv" / "tensorflow-results"
ENGINES = ("ingot", "xla")
TYPES = (
    "DT_HALF,DT_FLOAT,DT_DOUBLE,DT_UINT8,DT_QUINT8,DT_INT8,DT_QINT8,DT_INT32,DT_QINT32,DT_INT64,"
    "DT_BOOL,DT_COMPLEX64,DT_COMPLEX128"
)
"""The element types that TensorFlow's build rules give to the tests on CPU."""
ON_CPU = (
    *("jit_test", "tensor_float_32_test", "stack_ops_test", "tensor_array_ops_test", "case_test"),
    *("cast_ops_test", "xla_custom_call_ops_test", "runtime_shape_check_test", "async_comp_test"),
    *("image_ops_jit_compile_test", "xla_call_module_test", "dense_layer_test", "const_arg_test"),
    *("compiler_ir_test", "polymorphic_function_xla_jit_test", "polymorphic_function_xla_test"),
)
"""The files that TensorFlow's build rules run without the XLA device."""
_FOLDER = "tensorflow/compiler/tests"
_FUNCTIONS = "tensorflow/python/eager/polymorphic_function"
OTHERS: dict[str, str] = dict.fromkeys(
    ("compiler_ir_test", "polymorphic_function_xla_jit_test", "polymorphic_function_xla_test"),
    _FUNCTIONS,
)
"""Tests of `jit_compile=True` and of its compiler IR in another folder -> the folder."""
_INTRODUCTION = """# Conformance: TensorFlow's own tests of its XLA bridge

Measured on {dates} by `make conformance-tensorflow TENSORFLOW_TESTS=path`
(`tools/conformance_tensorflow.py`). `at` is the commit of a file's last run, which did not always
repeat the tests that had passed before. These are the tests in
`tensorflow/compiler/tests` of TensorFlow {version}, and those of `jit_compile=True` in
`tensorflow/python/eager/polymorphic_function`, with Ingot in place of the device XLA_CPU
(`tools/conformance_xla_device.py`): each eager op, each `tf.function` and whatever a session runs
there is a function with `jit_compile=True`. At least {handed} of these went to Ingot; meanwhile
TensorFlow's built-in XLA compiled {compiled} programs (over all runs of a test, of which
the table counts the last). Tests that failed on Ingot in some run, and a few whole files, ran on
the built-in XLA too.
The installed TensorFlow lacks the module that `stochastic_cast_op_test` tests.
"""
_OTHER_ERROR = (
    "the error is that of TensorFlow's own kernel, an InvalidArgumentError that begins with "
    "'Incompatible shapes'; the test asks for the InternalError of XLA on GPU"
)
_ON_HOST = "TensorFlow runs the strings on the host; with `INGOT_STRICT=1` it is this error"
_OWN_COLLECTIVES = "collectives are TensorFlow's own, outside of compiled programs"
_REASONS = {
    **dict.fromkeys(
        ("testPythonStackTrace", "testNestedCallUnsupported", "testUnsupportedOps"), _ON_HOST
    ),
    "testMethodCompilationUnsupportedFunc": _ON_HOST,
    "testCollectiveReduce": _OWN_COLLECTIVES,
    "testErrorMessagePassingTensorArray": "a TensorArray may be a result of a compiled function, "
    "as of an uncompiled one",
    "testGetConstantOutOfResourceVariableAfterWrite": "Ingot compiles it: a size may follow from a "
    "variable that was written before",
    "testComplexOps": "gradients of complex numbers are those of TensorFlow's own kernels, which "
    "conjugate; the built-in XLA does not",
    "testInputRank0": "Ingot refuses the call for this reason; TensorFlow then runs the op itself, "
    "and its kernel says it in other words",
    "testCondConstPropagation_errorMsg_xlaCompile": "Ingot compiles it: a size may be computed "
    "when the program runs",
    "testRequestNotToCompile": "the test asks for the name of the device XLA_CPU",
    "testEmptyIndicesAndParamstAndEmptyParamsOk": "it is an error as in TensorFlow's own kernel; "
    "the built-in XLA gives zeros",
    "testErrors": "a function is made of each eager op here, so that TensorFlow finds the wrong "
    "shape when it makes the function, with another class of error",
    "testTruncatedNormal": "the numbers are those of TensorFlow's own kernel, whose mean of "
    "100,000 is 0.0027 with this seed; the test allows 0.002",
    "testLazyCompilation": "one program of Ingot's takes all sizes, so that no call is left to "
    "TensorFlow until its sizes come again",
    "testIsMegamorphic": "one program of Ingot's takes all sizes, and no number of them ends that",
    "testPartialPivotingRaises": "Ingot solves with pivots, which the built-in XLA cannot",
    "testAvgPoolGradSamePaddingZeroStrideZeroSize": "Ingot refuses the window in these words; "
    "TensorFlow then runs the op itself, and its kernel on CPU first refuses the format NCHW",
    "testEmptyTensorListNoMax": "a list needs no greatest number of elements here",
    "testInvalidSplitLength": "the error is that of TensorFlow's own kernel: the lengths do not "
    "sum up to the tensor's",
    "testListFromTensor": "the length of a list is that of TensorFlow's own kernel, 0 after two "
    "elements were taken; the built-in XLA gives the size of its buffer",
    "testPushInEmptyListWithUnknownElementShape": "TensorFlow's own kernels push it and stack no "
    "elements of different shapes, which is an InvalidArgumentError; the test asks for XLA's "
    "InternalError",
    "testSetDoesNotUpdatePushIndex": "it is an error as in TensorFlow's own kernel: the list has "
    "no element 1",
    "testZerosLikeForTensorList": "the list has one element, as in TensorFlow's own kernel; the "
    "built-in XLA stacks its whole buffer",
    "testUniqueDifferentSizes": _OTHER_ERROR,
    "testWhereOpDifferentSizes": _OTHER_ERROR,
    **dict.fromkeys(
        ("testConv1DNodeName", "testConv2DNodeName", "testConv3DNodeName"),
        "the test compares names that TensorFlow gives nodes, and runs nothing",
    ),
    "testDenseLayerAutoJit": "the test sets TF_XLA_FLAGS when TensorFlow has read it already",
    "testGiantConst": "the test needs a TPU",
    "testDumpToSponge": "the test needs a folder that TensorFlow's build tool sets",
}
"""How the name of a test begins that fails on Ingot alone, rightly or by this tool -> why."""
_COLUMNS = 10
"""Columns of the page's table."""
_LIMIT = 120
"""Seconds that a process may take beyond those in which tests begin."""
_TEXT = 8000
"""Characters of a failure that are kept: its end."""


class _Outcomes(unittest.TestResult):
    """Writes each test's outcome to a file of results."""

    def __init__(self, path: Path, seconds: float) -> None:
        super().__init__()
        self._end = time.monotonic() + seconds
        self._file = path.open("a", encoding="utf-8")
        self._failed = False

    def write(self, **row: Any) -> None:
        """Write a line."""
        self._file.write(json.dumps({**row, "time": time.time()}) + "\n")
        self._file.flush()

    def startTest(self, test: Any) -> None:  # noqa: N802
        """A test begins."""
        super().startTest(test)
        self._failed = False
        self.write(test=name_of(test), outcome="begun")

    def stopTest(self, test: Any) -> None:  # noqa: N802
        """A test ended; no other begins once the time is over."""
        super().stopTest(test)
        self.shouldStop = time.monotonic() > self._end

    def addSuccess(self, test: Any) -> None:  # noqa: N802
        """A test passed, if none of its parts failed."""
        if not self._failed:
            self.write(test=name_of(test), outcome="passed")

    def addSkip(self, test: Any, reason: str) -> None:  # noqa: N802
        """A test was skipped."""
        self.write(test=name_of(test), outcome="skipped", text=reason)

    def addError(self, test: Any, err: Any) -> None:  # noqa: N802
        """A test raised an error."""
        self._failed = True
        lines = traceback.format_exception(*err)
        last = "".join(f"E {line}" for line in traceback.format_exception_only(err[0], err[1]))
        text = "".join(lines)[-_TEXT:] + "\n" + last[:_TEXT]
        self.write(test=name_of(test), outcome="failed", text=text)

    addFailure = addError  # noqa: N815

    def addSubTest(self, test: Any, subtest: Any, err: Any) -> None:  # noqa: N802
        """A part of a test ended."""
        del subtest
        if err is not None:
            self.addError(test, err)

    def addExpectedFailure(self, test: Any, err: Any) -> None:  # noqa: N802
        """A test failed as it should."""
        del err
        self.addSuccess(test)


def name_of(test: Any) -> str:
    """Return the test's class and method, with its parameters, in which dots may be."""
    kind = type(test)
    return f"{kind.__name__}.{test.id().removeprefix(f'{unittest.util.strclass(kind)}.')}"


def flat(suite: Any) -> list[Any]:
    """Return the tests of a suite."""
    found, pending = [], [suite]
    while pending:
        item = pending.pop()
        if isinstance(item, unittest.TestSuite):
            pending += reversed(list(item))
        else:
            found.append(item)
    return found


def _import_what_children_need(folder: Path) -> None:
    """Import TensorFlow, Ingot and the tests' base class; the wheel has no `compiler.tests`."""
    compiler = importlib.import_module("tensorflow.compiler")
    compiler.__path__.append(str(folder.parent))
    # What the sources call `local_xla.xla` is `tensorflow.compiler.xla` in the wheel.
    sys.modules["local_xla"] = compiler
    sys.modules["local_xla.xla"] = importlib.import_module("tensorflow.compiler.xla")
    importlib.import_module("tensorflow.compiler.xla.xla_data_pb2")
    for name in ("tensorflow.compiler.tests.xla_test", "ingot.frontends.tensorflow.hook"):
        importlib.import_module(name)
    compile_with = importlib.import_module("ingot.frontends.tensorflow.compiler")
    compile_with.preload()


def run_tests(path: Path, engine: str, results: Path, again: set[str], seconds: float) -> None:
    """Run a file as `__main__`, with the tests that have no outcome or are in `again`."""
    from tensorflow.python.platform import flags, googletest

    device = "CPU" if path.stem in ON_CPU else "XLA_CPU"
    flags.FLAGS([path.name, f"--test_device={device}", f"--types={TYPES}"])

    def main(*_: Any, **__: Any) -> None:
        if engine == "ingot":
            import conformance_xla_device

            importlib.import_module("ingot.tensorflow").enable()
            if device == "XLA_CPU":
                conformance_xla_device.put_in()
        tests = flat(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]))
        # Helpers of the base class, whose names begin as those of tests do.
        tests = [test for test in tests if not test.id().endswith((".test_session", ".test_scope"))]
        outcomes = _Outcomes(results, seconds)
        outcomes.write(collected=len(tests), commit=commit())
        chosen = _chosen(tests, results, again)
        random.Random(1).shuffle(chosen)
        unittest.TestSuite(chosen).run(outcomes)
        sys.path.insert(0, str(ROOT))
        compiled = importlib.import_module("tests.xla_compilations").count()
        handed = {}
        if engine == "ingot":
            made = conformance_xla_device.counts
            handed = {"runs": made.runs, "ops": made.ops, "functions": made.functions}
        outcomes.write(compilations=compiled, **handed)

    googletest.main = main
    sys.argv = [str(path)]
    runpy.run_path(str(path), run_name="__main__")


def _chosen(tests: list[Any], results: Path, again: set[str]) -> list[Any]:
    """Return the tests of `again`, or those without an outcome that did not twice end a process."""
    if again:
        return [test for test in tests if name_of(test) in again]
    rows = read_lines(results)
    ended = {row["test"] for row in rows if row.get("outcome", "begun") != "begun"}
    begun = Counter(row["test"] for row in rows if row.get("outcome") == "begun")
    names = ((name_of(test), test) for test in tests)
    return [test for name, test in names if name not in ended and begun[name] < 2]


def run_file(path: Path, engine: str, results: Path, again: set[str], seconds: float) -> None:
    """Run a file in forked processes: each takes up what the one before left."""
    for _ in range(1 if again else 10):
        child = os.fork()
        if not child:
            status = 1
            try:
                log = os.open(results.with_suffix(".log"), os.O_CREAT | os.O_WRONLY | os.O_APPEND)
                os.dup2(log, 1)
                os.dup2(log, 2)
                run_tests(path, engine, results, again, seconds)
                status = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        if _wait(child, seconds + _LIMIT) == 0:
            return


def _wait(child: int, seconds: float) -> int:
    """Return how a child ended; after its time it is ended."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return status
        time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    return os.waitpid(child, 0)[1]


def _rows(reports: list[tuple[Report, Report]]) -> dict[str, list[str]]:
    """Return the rows of the table by file; on the built-in XLA those of the same tests."""
    rows: dict[str, list[str]] = {}
    for ours, theirs in reports:
        counts = Counter(theirs.outcomes.values())
        builtin = [len(theirs.outcomes), counts["passed"], counts["failed"]]
        at = ours.commits[-1] if ours.commits else ""
        rows[ours.name] = [ours.name, *map(str, [*ours.row, *builtin]), at]
    return rows


def _table(rows: dict[str, list[str]]) -> str:
    """Return the table."""
    lines = [
        "| file | tests | run | passed | failed | skipped | built-in: run | passed | failed | at |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    kept = [rows[name] for name in sorted(rows)]
    total = [str(sum(map(int, column))) for column in zip(*(x[1:-1] for x in kept), strict=True)]
    lines += ["| " + " | ".join(row) + " |" for row in [*kept, ["all", *total, ""]]]
    return "\n".join(lines)


def _failures(reports: list[tuple[Report, Report]]) -> list[str]:
    """Return a line for what failed on Ingot: the cause and the built-in XLA's outcome."""
    lines: list[str] = []
    for ours, theirs in reports:
        for test in sorted(ours.failures):
            why = cause(ours.texts[test]).replace("|", "\\|").removeprefix("E ")
            method = test.partition(".")[2]
            reasons = [text for name, text in _REASONS.items() if method.startswith(name)]
            lines.append(
                f"- `{ours.name}::{test}` (built-in: {theirs.outcomes.get(test, 'did not run')}): "
                + "; ".join([f"`{why}`", *reasons])
            )
    return lines


def page(results: Path, before: str) -> str:
    """Return the page of documentation; `before`: what it was, for files without results."""
    reports, compiled, handed = [], 0, 0
    for path in sorted((results / "ingot").glob("*.jsonl")):
        reports.append((read_report(path), read_report(results / "xla" / path.name)))
        lines = [row for row in read_lines(path) if "compilations" in row]
        compiled += sum(row["compilations"] for row in lines)
        handed += sum(row["runs"] + row["ops"] + row["functions"] for row in lines)
    rows = {
        cells[0]: cells
        for cells in (line.strip("| ").split(" | ") for line in before.splitlines())
        if len(cells) == _COLUMNS and cells[0] not in ("file", "all")
    }
    failures = [line for line in before.splitlines() if line.startswith("- `")]
    renewed = tuple(f"- `{ours.name}::" for ours, _ in reports)
    failures = [line for line in failures if not line.startswith(renewed)] + _failures(reports)
    days = {time.strftime("%Y-%m-%d", time.gmtime(ours.last)) for ours, _ in reports}
    days = sorted(days | set(re.findall(r"\d{4}-\d\d-\d\d", before)))
    told = re.search(r"At least (\d+) of these", before)
    start = _INTRODUCTION.format(
        dates=" to ".join(sorted({days[0], days[-1]})),
        version=version("tensorflow"),
        compiled=compiled,
        handed=max(handed, int(told[1]) if told else 0),
    )
    failed = "\n".join(sorted(failures)) or "Nothing failed."
    table = _table(rows | _rows(reports))
    return f"{start}\n{table}\n\n## What failed on Ingot\n\n{failed}\n"


def main() -> int:
    """Run the files, each on each engine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tests", type=Path, help=f"holds {_FOLDER} and {_FUNCTIONS}")
    parser.add_argument("files", nargs="*", help="names of files, without .py")
    parser.add_argument("--engine", choices=ENGINES, action="append")
    parser.add_argument("--seconds", type=float, default=300, help="per process")
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--again", choices=("failed", "all"))
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    arguments = parser.parse_args()
    root = arguments.tests.resolve()
    folder = root / _FOLDER
    every = sorted([*OTHERS, *(path.stem for path in folder.glob("*_test.py"))])
    names = arguments.files or every
    _import_what_children_need(folder)

    for name in names:
        for engine in arguments.engine or ENGINES:
            results = arguments.results.resolve() / engine
            results.mkdir(parents=True, exist_ok=True)
            kept = results / f"{name}.jsonl"
            if arguments.again == "all":
                kept.unlink(missing_ok=True)
            again = set(read_report(kept).failures) if arguments.again == "failed" else set()
            begin = time.monotonic()
            path = root / OTHERS.get(name, _FOLDER) / f"{name}.py"
            run_file(path, engine, kept, again, arguments.seconds)
            found = Counter(read_report(kept).outcomes.values())
            print(f"{engine} {name}: {dict(found)} {time.monotonic() - begin:.0f} s", flush=True)
    if arguments.write:
        PAGE.write_text(page(arguments.results, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

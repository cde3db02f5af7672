# SPDX-License-Identifier: Apache-2.0
"""What users of `torch.compile` choose: options, modes, errors."""

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed

from ingot.frontends.torch.launches import call_code
from ingot.frontends.torch.options import Options
from ingot.support.diagnostics import ArgumentError, FlagError
from ingot.support.flags import DUMP_TO, NUM_THREADS, STRICT, override

X = torch.linspace(-1, 1, 6).reshape(2, 3)


def _compiled(**choices):
    torch._dynamo.reset()
    return torch.compile(lambda x: (x * 2).sin() @ x.t(), backend="ingot", **choices)


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", None])
def test_modes_give_the_same_code(mode):
    torch.testing.assert_close(_compiled(mode=mode, fullgraph=True)(X), (X * 2).sin() @ X.t())


@pytest.mark.parametrize(
    "options", [{"threads": 1}, {"threads": 2}, {"fp": "exact"}, {"strict": True}, {}]
)
def test_options_are_taken(options):
    torch.testing.assert_close(_compiled(options=options)(X), (X * 2).sin() @ X.t())


def test_a_large_program_runs_on_threads_of_its_own():
    x = torch.linspace(-1, 1, 1 << 18).reshape(512, 512)
    torch.testing.assert_close(_compiled(options={"threads": 2})(x), _compiled()(x))


@pytest.mark.parametrize(
    ("given", "of_pytorch", "of_flag", "expected"),
    [(None, 1, 0, 1), (None, 4, 0, None), (None, 1, 4, None), (2, 1, 0, 2), (None, 3, 0, 3)],
)
def test_programs_have_no_more_threads_than_pytorch(
    monkeypatch, given, of_pytorch, of_flag, expected
):
    monkeypatch.setattr(torch, "get_num_threads", lambda: of_pytorch)
    monkeypatch.setattr("ingot.frontends.torch.options.num_threads", lambda: 4)
    with override(NUM_THREADS, of_flag):
        assert Options(given).program_threads() == expected


def test_a_compiled_function_runs_on_one_thread_of_pytorch(monkeypatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr("ingot.frontends.torch.options.num_threads", lambda: 4)
    found = []
    original = call_code.pool_of
    monkeypatch.setattr(call_code, "pool_of", lambda count: found.append(count) or original(count))
    torch.testing.assert_close(_compiled()(X), (X * 2).sin() @ X.t())
    assert found == [1]


def test_dump_to(tmp_path):
    _compiled(options={"dump_to": str(tmp_path)})(X)
    assert any("torch_inference" in path.name for path in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"thread": 1}, "no option 'thread'.*did you mean 'threads'.*threads, fp, dump_to, strict"),
        ({"threads": 0}, "threads is from 1"),
        ({"fp": "quick"}, "fp='quick' is not a value"),
    ],
)
def test_wrong_options_are_errors(options, text):
    with pytest.raises(BackendCompilerFailed, match=f"(?s){text}"):
        _compiled(options=options)(X)


def test_wrong_modes_and_types_are_errors():
    with pytest.raises(FlagError, match="no mode 'fast'"):
        Options.of("fast", None)
    with pytest.raises(ArgumentError, match="options is of type list"):
        Options.of(None, ["threads"])


def test_flags_have_the_values_of_options_only_meanwhile():
    options = Options.of("default", {"strict": True, "dump_to": "-"})
    before = STRICT.value(), DUMP_TO.value()
    with options.in_force():
        assert (STRICT.value(), DUMP_TO.value()) == (True, "-")
    assert (STRICT.value(), DUMP_TO.value()) == before


def test_strict_names_the_op_and_the_line():
    torch._dynamo.reset()
    compiled = torch.compile(
        lambda x: torch.linalg.ldl_factor(x), backend="ingot", options={"strict": True}
    )
    with pytest.raises(BackendCompilerFailed, match=r"(?s)INGOT0373.*ldl_factor.*test_options"):
        compiled(torch.eye(3))


def test_failures_are_what_pytorch_raises():
    divide = torch.compile(lambda x, y: x // y, backend="ingot")
    with pytest.raises(RuntimeError, match=r"(?s)ZeroDivisionError.*test_options"):
        divide(torch.tensor([3]), torch.tensor([0]))

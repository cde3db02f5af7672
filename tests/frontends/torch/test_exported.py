# SPDX-License-Identifier: Apache-2.0
"""`ingot.load` of what `torch.export` gives and saves: the same results as eager, or a refusal."""

import copy
import warnings

import numpy as np
import pytest
import torch
from torch.export import Dim, export
from torch.export.experimental import _export_forward_backward
from torch.utils._pytree import tree_leaves

import ingot
import ingot.torch


class Function(torch.nn.Module):
    """A module that calls a function."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args):
        return self._function(*args)


def exported(function, *args, dims=None):
    """Return a function exported with `dims`, the dynamic dimensions of each argument."""
    shapes = None if dims is None else (tuple(dims),)
    return export(Function(function), args, dynamic_shapes=shapes)


def assert_agrees(program, function, *args):
    """Compare a module of an exported function, compiled, with the function itself."""
    arrays = [np.ascontiguousarray(arg.numpy()) for arg in args]
    results = ingot.compile(ingot.load(program))(*arrays)
    results = results if isinstance(results, tuple) else (results,)
    wanted = tree_leaves(function(*args))
    for result, want in zip(results, wanted, strict=True):
        torch.testing.assert_close(torch.from_numpy(np.array(result)), want.detach())


X = torch.linspace(-1, 1, 24).reshape(6, 4)
WEIGHT = torch.arange(8.0).reshape(4, 2)
FUNCTIONS = {
    "several results": lambda x: {"sum": x.sum(0), "parts": [x + 1, x.argmax(1)]},
    "an argument as a result": lambda x: (x, x * 2),
    "a constant result": lambda x: (x.exp(), torch.ones(3)),
    "a captured tensor": lambda x: x @ WEIGHT,
    "a branch": lambda x: torch.cond(x.sum() > 5, torch.sin, torch.cos, (x,)),
    # Elsewhere PyTorch makes a `div` of it.
    "a composite that is kept": lambda x: torch.ops.aten.true_divide.Tensor(x, x * 3),
    "another order in memory": lambda x: x.t() @ x,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_an_exported_function_agrees_with_eager(name):
    function = FUNCTIONS[name]
    program = exported(function, X, dims=[{0: Dim("n")}])
    assert_agrees(program, function, X[1:4].flip(0))


def test_checks_of_element_types_are_no_part_of_a_module():
    """`torch.export` writes one for each conversion."""
    program = exported(lambda x: x.to(torch.float16).to(torch.float64) * 2, X)
    assert "_assert_tensor_metadata" in str(program.graph)
    assert_agrees(program, lambda x: x.to(torch.float16).to(torch.float64) * 2, X)


def test_one_module_serves_every_batch_size():
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(1)
    ).eval()
    program = export(model, (torch.randn(2, 1, 8, 8),), dynamic_shapes=({0: Dim("batch")},))
    module = ingot.load(program)
    (parameter,) = module.entry.parameters
    assert str(parameter.shape).startswith("f32[?")
    compiled = ingot.compile(module)
    for batch in (1, 3, 33):
        image = torch.randn(batch, 1, 8, 8)
        np.testing.assert_allclose(compiled(image.numpy()), model(image).detach(), atol=1e-5)


def test_sizes_of_two_arguments_are_related():
    program = exported(
        lambda x, y: x + y[1:], X, torch.ones(7, 4), dims=[{0: Dim("n")}, {0: Dim("n") + 1}]
    )
    compiled = ingot.compile(ingot.load(program))
    x, y = np.ones((3, 4), np.float32), np.full((4, 4), 2, np.float32)
    np.testing.assert_array_equal(compiled(x, y), np.full((3, 4), 3))
    with pytest.raises(ingot.ExecutionError, match=r"dimension 0 of 'args_1' must be s\d+\+1"):
        compiled(x, x)


def test_a_size_outside_of_its_range_is_refused_as_in_eager():
    def branched(x):
        return x * 2 if x.shape[0] > 8 else x * 3

    program = exported(branched, torch.ones(20, 4), dims=[{0: Dim("n", min=9, max=30)}])
    compiled = ingot.compile(ingot.load(program))
    for rows in (9, 30):
        np.testing.assert_array_equal(compiled(np.ones((rows, 4), np.float32)), 2)
    for rows, words in ((8, "at least 9"), (31, "at most 30")):
        with pytest.raises(AssertionError):
            program.module()(torch.ones(rows, 4))
        with pytest.raises(ingot.ExecutionError, match=words):
            compiled(np.ones((rows, 4), np.float32))


def test_a_dynamic_number_is_a_parameter():
    program = exported(lambda n, x: x * n, 3, X, dims=[Dim.DYNAMIC, None])
    module = ingot.load(program)
    assert [str(parameter.shape) for parameter in module.entry.parameters] == [
        "f32[6,4]{1,0}",
        "s64[]",
    ]
    result = ingot.compile(module)(X.numpy(), np.int64(7))
    np.testing.assert_allclose(result, X.numpy() * 7, rtol=1e-6)


def test_a_file_is_loaded_by_its_name(tmp_path):
    path = tmp_path / "model.pt2"
    torch.export.save(exported(torch.sin, X), path)
    for source in (path, str(path)):
        np.testing.assert_allclose(
            ingot.compile(ingot.load(source))(X.numpy()), X.sin(), rtol=1e-5, atol=1e-7
        )


def test_a_file_that_is_no_program_is_refused(tmp_path):
    (tmp_path / "other.pt2").write_bytes(b"no archive")
    for name in ("other.pt2", "missing.pt2"):
        with pytest.raises(ingot.ResourceError, match=f"{name} cannot be read"):
            ingot.load(tmp_path / name)


REFUSED = {
    "random": (torch.nn.Dropout(), X, "INGOT0372", "native_dropout.*draws random numbers"),
    "check": (Function(torch.linalg.cholesky), X.t() @ X, "INGOT0372", "_linalg_check_errors"),
    "size of the data": (Function(torch.nonzero), X, "INGOT0372", "nonzero.*no rule"),
    "number": (Function(lambda x: x * x.sum().item()), X, "INGOT0372", "value of a tensor"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_a_module_is_refused_without_other_warnings(name):
    model, x, code, words = REFUSED[name]
    program = export(model, (x,))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ingot.IngotWarning)
        with pytest.raises(ingot.UnsupportedError, match=words) as error:
            ingot.load(program)
    assert error.value.diagnostic.code == code


class Cached(torch.nn.Module):
    """Appends to a cache, counts, and writes an argument; one buffer is not in the state dict."""

    def __init__(self):
        super().__init__()
        self.register_buffer("cache", torch.zeros(6, 4))
        self.register_buffer("scale", torch.full((4,), 2.0))
        self.register_buffer("position", torch.zeros(1, dtype=torch.int64), persistent=False)

    def forward(self, row, out):
        self.cache.index_copy_(0, self.position, row[None] * self.scale)
        self.position += 1
        out.mul_(2)
        return self.cache.sum(0), out + 1


STATEFUL = {
    "batch norm": (torch.nn.BatchNorm1d(4), [X]),
    "cache": (Cached(), [X[0], torch.ones(4)]),
}


@pytest.mark.parametrize("name", STATEFUL)
def test_what_a_program_changes_is_given_and_taken(name):
    model, arguments = STATEFUL[name]
    program = export(copy.deepcopy(model), tuple(arguments))
    module, state = ingot.load(program), ingot.torch.initial_state(program)
    compiled = ingot.compile(module)
    for _ in range(3):
        arguments = [argument.clone() for argument in arguments]
        results = list(compiled(*(argument.numpy() for argument in arguments), *state.values()))
        wanted = tree_leaves(model(*arguments))
        values = results[len(wanted) :]
        for result, want in zip(results, wanted, strict=False):
            torch.testing.assert_close(torch.from_numpy(np.array(result)), want.detach())
        state = dict(zip(state, values, strict=False))
        for key, value in state.items():
            buffer = model.get_buffer(key)
            torch.testing.assert_close(torch.from_numpy(np.array(value)), buffer)
    assert len(values) - len(state) == (name == "cache"), "the argument that is written is the last"
    if name == "cache":
        torch.testing.assert_close(torch.from_numpy(np.array(values[-1])), arguments[1])


def test_changed_buffers_may_take_their_memory():
    module = ingot.load(export(torch.nn.BatchNorm1d(4), (X,)))
    aliases = {(alias.output, alias.parameter) for alias in module.aliases}
    assert aliases == {((1,), 1), ((2,), 2), ((3,), 3)}


def test_gradients_as_results_are_refused():
    model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Flatten(0), torch.nn.Linear(12, 1))
    summed = torch.nn.Sequential(model, torch.nn.Flatten(0), Function(torch.sum))
    program = _export_forward_backward(export(summed, (X,)))
    with pytest.raises(ingot.UnsupportedError, match=r"gives the gradient of '0\.0\.weight'"):
        ingot.load(program)


def test_sizes_that_no_argument_has_are_refused():
    half = exported(lambda x: x.reshape(2, -1).sum(0), torch.ones(12), dims=[{0: 2 * Dim("n")}])
    with pytest.raises(ingot.UnsupportedError, match="a dimension of no argument"):
        ingot.load(half)
    size = exported(lambda x: (x, x.shape[0]), X, dims=[{0: Dim("n")}])
    with pytest.raises(ingot.UnsupportedError, match=r"the size s\d+ as a result"):
        ingot.load(size)


class Recurrent(torch.nn.Module):
    """The results of a GRU, without its last state."""

    def __init__(self):
        super().__init__()
        self._layer = torch.nn.GRU(3, 4)

    def forward(self, x):
        return self._layer(x)[0]


def _resized(mode):
    return lambda x: torch.nn.functional.interpolate(x, scale_factor=2.0, mode=mode)


IMAGE = torch.linspace(-2, 2, 2 * 6 * 5).sin().reshape(1, 2, 6, 5)
ROWS = torch.linspace(-2, 2, 6 * 2 * 3).sin().reshape(6, 2, 3)
PROGRAMS = {
    "nearest": (_resized("nearest"), IMAGE, "broadcast"),
    "bilinear": (_resized("bilinear"), IMAGE, "gather"),
    "GRU": (Recurrent(), ROWS, "while"),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_layers_are_compiled_as_in_a_graph_of_torch_compile(name):
    model, x, opcode = PROGRAMS[name]
    program = exported(model, x)
    opcodes = {instruction.opcode for instruction in ingot.load(program).entry.instructions}
    assert opcode in opcodes
    assert_agrees(program, model, x)


def test_a_layer_kept_whole_is_loaded_after_export_knew_it_as_composite():
    model, x, _ = PROGRAMS["nearest"]
    program = exported(model, x)
    program.run_decompositions()
    assert_agrees(program, model, x)

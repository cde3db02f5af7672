# SPDX-License-Identifier: Apache-2.0
"""Programs that JAX hands over as they are: what stands in front of them, and what comes back."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.layout import Format, Layout

from ingot.client.pjrt import compilation as pjrt
from ingot.formats.stablehlo import parse
from ingot.formats.stablehlo.parse import convert_module
from ingot.frontends.jax import compilation, headers

X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.fixture
def trust(monkeypatch):
    """What was compared with jaxlib, forgotten at the end."""
    monkeypatch.setattr(compilation._Trust, "alike", set())
    monkeypatch.setattr(compilation._Trust, "different", set())
    return compilation._Trust


@pytest.fixture
def seen(monkeypatch, trust):
    """The executables that were handed over."""
    made = []
    original = compilation._executable

    def executable(*args):
        made.append(original(*args))
        return made[-1]

    jax.jit(lambda x: x + 1)(X)  # the first program of a kind goes JAX's own way
    monkeypatch.setattr(compilation, "_executable", executable)
    jax.clear_caches()
    return made


def test_the_first_program_of_each_kind_is_compared(seen, trust):
    assert len(trust.alike) == 3
    jax.jit(lambda x: x - 1)(X)
    assert len(seen) == 1
    for function in (lambda x: x.sum(), lambda x: x > 2, lambda x: x[:0], lambda x: ()):
        known = len(trust.alike)
        jax.jit(function)(X)
        assert len(trust.alike) == known + 1
    jax.jit(lambda x: (x.max(), x < 1, x[:0]))(X)
    jax.jit(lambda x: x + 1, donate_argnums=(0,))(jax.device_put(X))
    assert len(seen) == 2
    assert not trust.different


def test_a_kind_that_jaxlib_writes_otherwise_takes_its_way(seen, trust, monkeypatch):
    original = headers._output_bytes

    def wrong(row):
        return original(row._replace(memory_kind="elsewhere"))

    monkeypatch.setattr(headers, "_output_bytes", wrong)
    for number in (3, 4):
        np.testing.assert_array_equal(jax.jit(lambda x, n=number: x > n)(X), number < X)
    assert len(trust.different) == 1
    monkeypatch.setattr(headers, "_output_bytes", original)
    jax.jit(lambda x: x + 5)(X)
    assert len(seen) == 1


def test_a_rewritten_program_of_such_a_kind_takes_its_way_too(seen, trust, monkeypatch):
    original = headers._output_bytes
    monkeypatch.setattr(
        headers, "_output_bytes", lambda row: original(row._replace(memory_kind="elsewhere"))
    )
    z = X.astype(np.complex64)
    np.testing.assert_allclose(jax.jit(jnp.exp)(z), np.exp(z), rtol=1e-5)
    assert trust.different
    assert not seen


def _complex_parts(x):
    z = jax.lax.complex(x, x)
    return z, z.astype(jnp.complex128), x.astype(jnp.bfloat16), jnp.sum(x), x > 2


ELEMENTS = [
    *(jnp.int8, jnp.int16, jnp.int32, jnp.uint8, jnp.uint16, jnp.uint32),
    *(jnp.float16, jnp.bfloat16, jnp.int4, jnp.uint4, jnp.bool_),
    *(jnp.float8_e5m2, jnp.float8_e4m3fn, jnp.float8_e4m3b11fnuz),
    *(jnp.float8_e5m2fnuz, jnp.float8_e4m3fnuz),
]
PROGRAMS = [
    (lambda x: x + 1, {}),
    (lambda x: (x + 1, {"a": x.T, "b": jnp.zeros((3, 300, 2))}), {"donate_argnums": (0,)}),
    (_complex_parts, {}),
    (lambda x: (), {}),
    (lambda x: [x.astype(element) for element in ELEMENTS], {}),
]


@pytest.mark.parametrize("index", range(len(PROGRAMS)))
def test_what_stands_in_front_is_what_jaxlib_writes(index, seen, trust):
    function, options = PROGRAMS[index]
    trust.alike.clear()
    lowered = jax.jit(function, **options).lower(X)
    header = headers.executable_header(convert_module(lowered.compiler_ir()))
    assert header is not None
    assert lowered.compile().runtime_executable().serialize().startswith(header.data)
    assert seen == []
    assert trust.alike == header.kinds


@pytest.mark.parametrize("index", range(len(PROGRAMS)))
def test_a_program_handed_over_gives_the_same(index, seen, trust):
    function, options = PROGRAMS[index]
    x, y = jax.device_put(X), jax.device_put(X)
    lowered = jax.jit(function, **options).lower(X)
    trust.alike |= headers.executable_header(convert_module(lowered.compiler_ir())).kinds
    compiled = lowered.compile()
    assert len(seen) == 1
    found = jax.tree.leaves(compiled(x))
    trust.alike.clear()
    wanted = jax.tree.leaves(jax.jit(lambda x: function(x))(y))
    assert len(seen) == 1
    for got, want in zip(found, wanted, strict=True):
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want)


def test_a_program_handed_over_is_not_read_again(seen, monkeypatch):
    monkeypatch.setattr(pjrt, "parse_stablehlo", None)
    np.testing.assert_array_equal(jax.jit(lambda x: x * 3)(X), 3 * X)
    assert len(seen) == 1


def test_a_program_that_cannot_be_converted_takes_jaxs_way(seen, monkeypatch):
    original = parse.convert_module

    def convert(program, *sizes):
        if not sizes:
            raise RecursionError
        return original(program, *sizes)

    monkeypatch.setattr(parse, "convert_module", convert)
    np.testing.assert_array_equal(jax.jit(lambda x: x * 4)(X), 4 * X)
    assert seen == []


def test_programs_that_say_layouts_take_jaxs_way(seen):
    automatic = Format(Layout.AUTO)
    compiled = (
        jax.jit(lambda x: x * 5, in_shardings=automatic, out_shardings=automatic)
        .lower(jax.ShapeDtypeStruct(X.shape, X.dtype))
        .compile()
    )
    np.testing.assert_array_equal(compiled(X), 5 * X)
    assert seen == []


def test_equal_programs_have_one_fingerprint(seen):
    def fingerprint(number):
        jax.clear_caches()
        lowered = jax.jit(lambda x: x + number).lower(X)
        return lowered.compile().runtime_executable().fingerprint

    first, again, other = [fingerprint(number) for number in (7, 7, 8)]
    assert first == again != other


def test_donated_arguments_are_gone(seen):
    x = jax.device_put(X)
    y = jax.jit(lambda x: x * 2, donate_argnums=(0,))(x)
    assert x.is_deleted()
    np.testing.assert_array_equal(y, 2 * X)


def test_what_ingot_refuses_is_reported_as_ever(seen):
    result = jax.ShapeDtypeStruct(X.shape, X.dtype)
    jax.jit(lambda x: x + 2)(X)
    seen.clear()
    with pytest.raises(jax.errors.JaxRuntimeError, match="no_such_target"):
        jax.jit(lambda x: jax.ffi.ffi_call("no_such_target", result)(x))(X)
    assert len(seen) == 1
    lowered = jax.jit(lambda x: x - 3).lower(X)
    with pytest.raises(jax.errors.JaxRuntimeError, match="No such compile option: 'strange'"):
        lowered.compile(compiler_options={"strange": "1"})


def test_programs_of_several_devices_go_the_ordinary_way(seen):
    devices = jax.devices()
    if len(devices) < 2:
        pytest.skip("there is one device")
    mesh = jax.sharding.Mesh(np.array(devices[:2]), ("x",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x"))
    np.testing.assert_array_equal(jax.jit(lambda x: x + 1)(jax.device_put(X, sharding)), X + 1)
    assert not any(b"jit__lambda" in item for item in seen)
    on_one = jax.jit(lambda x: x - 1)(jax.device_put(X, devices[1]))
    assert on_one.devices() == {devices[1]}
    np.testing.assert_array_equal(on_one, X - 1)


def test_programs_with_callbacks_are_handed_over_too(seen):
    wanted = jax.ShapeDtypeStruct(X.shape, X.dtype)

    def function(x, number):
        return jax.pure_callback(lambda x: np.asarray(x) + number, wanted, x)

    for number in (1, 2):
        found = jax.jit(function, static_argnums=1)(X, number)
        np.testing.assert_array_equal(found, X + number)
    assert len(seen) == 2


def test_a_program_for_thousands_of_devices_is_compiled_without_them():
    topologies = importlib.import_module("jax.experimental.topologies")
    devices = topologies.get_topology_desc("", "cpu", num_devices=4096).devices
    mesh = jax.sharding.Mesh(np.array(devices).reshape(512, 8), ("data", "model"))

    def struct(shape, *axes):
        sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(*axes))
        return jax.ShapeDtypeStruct(shape, np.float32, sharding=sharding)

    x, w = struct((8192, 64), "data", None), struct((64, 128), None, "model")
    compiled = jax.jit(lambda x, w: (x @ w).sum()).lower(x, w).compile()
    assert compiled.memory_analysis().argument_size_in_bytes == 4 * (16 * 64 + 64 * 16)
    assert compiled.cost_analysis()["flops"] < 2 * 16 * 64 * 16 + 10_000


@pytest.mark.parametrize(
    ("element", "names"),
    [
        ("f8", ("erf", "erfc", "lgamma", "asinh", "tan")),
        ("c8", ("exp", "log", "log1p", "sqrt", "logistic", "acos")),
    ],
)
def test_a_function_rounds_alike_in_the_first_program_of_a_kind(trust, element, names):
    draw = np.random.default_rng(0)
    x = (draw.standard_normal(99) * 2 + draw.standard_normal(99) * 1j).astype("c16")
    x = (x if element == "c8" else x.real).astype(element)
    with jax.enable_x64(True):
        for name in names:
            function = getattr(jax.lax, name)
            trust.alike.clear()
            first = np.asarray(jax.jit(lambda x, of=function: of(x))(x))
            assert trust.alike
            later = np.asarray(jax.jit(lambda x, of=function: of(x))(x))
            assert first.tobytes() == later.tobytes(), name

# SPDX-License-Identifier: Apache-2.0
"""StableHLO of JAX programs: read, verified, evaluated, run natively, equal to JAX's results."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from tests.formats.jax_programs import PROGRAMS

import ingot
from ingot.evaluator import evaluate
from ingot.formats.hlo_text import parse_hlo, print_module
from ingot.formats.stablehlo import parse_stablehlo
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify

pytestmark = pytest.mark.slow


def leaves(tree: Any) -> list[Any]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]


def results(value: Any) -> list[Any]:
    return [np.asarray(part) for part in value] if isinstance(value, tuple | list) else [
        np.asarray(value)
    ]  # fmt: skip


def assert_close(found: Sequence[Any], expected: Sequence[Any]) -> None:
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
            continue
        wide = np.complex128 if other.dtype.kind == "c" else np.float64
        tolerance = 3e-2 if other.dtype.itemsize < 4 else 2e-5
        np.testing.assert_allclose(
            one.astype(wide), other.astype(wide), rtol=tolerance, atol=tolerance
        )


def lowered(name: str) -> tuple[Any, list[Any], list[Any]]:
    """Return the MLIR module of a program, its arguments and what JAX computes."""
    function, arguments = PROGRAMS[name]
    jitted = jax.jit(function, keep_unused=True)
    program = jitted.lower(*arguments).compiler_ir("stablehlo")
    return program, leaves(arguments), leaves(jitted(*arguments))


@pytest.mark.parametrize("name", PROGRAMS)
def test_evaluated(name: str) -> None:
    program, arguments, expected = lowered(name)
    module = parse_stablehlo(str(program))
    verify(module)
    text = print_module(module)
    assert print_module(parse_hlo(text)) == text
    assert_close(results(evaluate(module, arguments)), expected)


@pytest.mark.parametrize("name", PROGRAMS)
def test_compiled(name: str) -> None:
    program, arguments, expected = lowered(name)
    executable = ingot.compile(parse_stablehlo(str(program)))
    assert_close(results(executable(*arguments)), expected)


def test_the_forms_say_the_same() -> None:
    """Text, bytecode and portable artifacts; the last has no CHLO, so other instructions."""
    for name in ("scan", "conv", "sort_pairs", "mlp_train", "constant_bfloat16", "cond_several"):
        program, arguments, expected = lowered(name)
        with_places = program.operation.get_asm(enable_debug_info=True)
        bytecode = io.BytesIO()
        program.operation.write_bytecode(bytecode)
        texts = [print_module(parse_stablehlo(data)) for data in (with_places, bytecode.getvalue())]
        assert texts[0] == texts[1]
        function, given = PROGRAMS[name]
        artifact = export.export(jax.jit(function))(*given)
        module = parse_stablehlo(artifact.mlir_module_serialized)
        assert_close(results(evaluate(module, arguments)), expected)


def test_metadata_names_the_users_line() -> None:
    def function(x: Any) -> Any:
        return jnp.sin(x)

    program = jax.jit(function).lower(np.float32(1)).compiler_ir("stablehlo")
    module = parse_stablehlo(program.operation.get_asm(enable_debug_info=True))
    metadata = module.entry.root.metadata
    assert metadata.op_name == "jit(function)/sin"
    assert metadata.source_file == __file__
    assert metadata.source_line == function.__code__.co_firstlineno + 1


def real_xla(program: Any) -> Module:
    """Return the HLO that XLA's own conversion makes, read by Ingot."""
    from jaxlib import _jax

    text = program.operation.get_asm(enable_debug_info=False)
    computation = _jax.mlir.mlir_module_to_xla_computation(
        text, use_tuple_args=False, return_tuple=False
    )
    return ingot.load(computation.as_serialized_hlo_module_proto())


@pytest.mark.parametrize("name", PROGRAMS)
def test_xlas_own_conversion_evaluates_to_the_same(name: str) -> None:
    """The proto of XLA's conversion is read too: same signature, bit-equal results."""
    program, arguments, _ = lowered(name)
    theirs, ours = real_xla(program), parse_stablehlo(str(program))
    assert theirs.parameter_shapes == ours.parameter_shapes
    assert theirs.result_shape.compatible(ours.result_shape)
    found, expected = (results(evaluate(module, arguments)) for module in (ours, theirs))
    assert_close(found, expected)


# ---- symbolic sizes


def _mixed(x: Any, y: Any, v: Any) -> Any:
    joined = jnp.concatenate([x @ y, x[:, :3] * 2.0], 1)
    return jax.nn.softmax(joined), x.reshape(-1), x[:-1], jnp.arange(x.shape[0]), x * v[:, None]


def _loops(x: Any, v: Any) -> Any:
    def body(i: Any, carry: Any) -> Any:
        return carry + jnp.ones((x.shape[0], 1)) + jnp.arange(x.shape[0])[:, None] * v[:, None]

    return (
        jax.lax.fori_loop(0, 3, body, x),
        jax.lax.cond(v[0] > 0, lambda: x * 2, lambda: jnp.zeros_like(x)),
        jax.lax.scan(lambda c, r: (c + r, c * jnp.ones(c.shape)), x[0], x),
        jnp.sort(x, 0),
        x.at[0].set(3.0),
        jax.vmap(lambda row: row @ row)(x),
    )


def _halves(x: Any) -> Any:
    half = x.shape[0] // 2
    return x[:half].sum(0), x[half:] * 2, x.shape[0] % 3 + x[0]


def _steps(x: Any) -> Any:
    """Take rows of a symbolic length in turn: slices at places that data says."""
    last, all_of_them = jax.lax.scan(lambda c, r: (c * 0.5 + r, c), x[0], x)
    return last, all_of_them, jax.lax.dynamic_slice_in_dim(x, x[0, 0].astype(jnp.int32), 1, 0)


@pytest.mark.parametrize(
    ("function", "specification"),
    [
        (_steps, ("b, n",)),
        (_halves, ("b, 4",)),
        (_mixed, ("b, 4", "4, n", "b")),
        (_loops, ("b, 4", "b")),
    ],
)
def test_exported_programs_of_symbolic_sizes_compile_once(
    function: Any, specification: tuple[str, ...]
) -> None:
    def arguments(b: int, n: int) -> list[Any]:
        sizes = {"b": b, "n": n}
        shapes = [
            [sizes.get(part.strip(), 4) for part in text.split(",")] for text in specification
        ]
        return [jnp.asarray(np.random.default_rng(b).random(s), jnp.float32) for s in shapes]

    given = export.symbolic_args_specs(tuple(arguments(3, 5)), specification)
    exported = export.export(jax.jit(function))(*given)
    module = parse_stablehlo(exported.mlir_module_serialized)
    verify(module)
    executable = ingot.compile(module)
    for b, n in ((3, 5), (7, 2), (1, 1)):
        values = arguments(b, n)
        found = results(executable(*leaves(values)))
        assert_close(found, leaves(function(*values)))

# SPDX-License-Identifier: Apache-2.0
"""The digest of a program that processes compare: what counts in it, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jaxlib", reason="it reads MLIR")
jax = pytest.importorskip("jax")

from ingot.client.pjrt.program_digest import digest_of  # noqa: E402
from ingot.formats.hlo_text.parser import parse  # noqa: E402
from ingot.formats.stablehlo import parse_stablehlo  # noqa: E402
from ingot.semantics.custom_calls import Target, register  # noqa: E402

TEXT = """HloModule m
ENTRY main {
  x = f32[3] parameter(0)
  ROOT r = f32[3] custom-call(x), custom_call_target="xla_python_cpu_callback",
    backend_config="CONFIG"
}"""


def digest(function: Callable[..., Any], size: int = 3) -> str:
    lowered = jax.jit(function).lower(np.ones(size, np.float32))
    return digest_of(parse_stablehlo(lowered.as_text(debug_info=True)))


def test_locations_and_names_do_not_count() -> None:
    def first(x: Any) -> Any:
        return x * 2 + 1

    def second(value: Any) -> Any:
        doubled = value * 2
        return doubled + 1

    assert digest(first) == digest(second)


@pytest.mark.parametrize(
    "other",
    [
        lambda x: x * 3 + 1,
        lambda x: x * 2 - 1,
        lambda x: 1 - x * 2,
        lambda x: jax.lax.fori_loop(0, 3, lambda _, v: v + 1, x),
    ],
)
def test_every_op_and_constant_counts(other: Callable[..., Any]) -> None:
    assert digest(lambda x: x * 2 + 1) != digest(other)


def test_the_number_of_rounds_counts() -> None:
    def loop(rounds: int) -> Callable[..., Any]:
        return lambda x: jax.lax.fori_loop(0, rounds, lambda _, v: v / 2, x)

    assert digest(loop(5)) != digest(loop(6))
    assert digest(loop(5)) == digest(loop(5))
    assert digest(loop(5)) != digest(loop(5), size=4)


def test_addresses_of_callbacks_do_not_count() -> None:
    modules = [parse(TEXT.replace("CONFIG", each)) for each in ("1234", "5678")]
    for module in modules:
        held = MappingProxyType(module.entry.root.extra)
        module.entry.root.extra = held  # pyright: ignore[reportAttributeAccessIssue]
    first, second = map(digest_of, modules)
    assert first == second
    register(Target("of_this_test"))
    named = TEXT.replace("xla_python_cpu_callback", "of_this_test")
    first, second = (digest_of(parse(named.replace("CONFIG", each))) for each in ("1234", "5678"))
    assert first != second

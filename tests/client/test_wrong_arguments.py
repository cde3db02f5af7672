# SPDX-License-Identifier: Apache-2.0
"""What Python's callers may give to public functions: all else is one of Ingot's own errors.

Only an exception of the caller's own code, such as an `__array__` that fails, passes through.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ingot
from ingot.client import Executable
from ingot.evaluator import evaluate
from ingot.formats.hlo_proto import parse_hlo_proto, print_hlo_proto
from ingot.formats.hlo_proto.literals import parse_literals
from ingot.formats.hlo_text import print_module
from ingot.formats.load import READERS
from ingot.hlo.module import Module
from ingot.support.diagnostics import ArgumentError, IngotError, InternalError

TEXT = "HloModule m ENTRY e { x = f32[2] parameter(0) ROOT y = (f32[2], f32[2]) tuple(x, x) }"
TUPLES = "HloModule m ENTRY e { x = (f32[2], (s32[])) parameter(0) ROOT y = f32[2] get-tuple-element(x), index=0 }"  # noqa: E501
ONES = np.ones(2, np.float32)
ODD: tuple[Any, ...] = (
    None, 3, 3.5, 1 << 70, float("nan"), "", "x", "a\0b", "\ud800", "HloModule \ud800 {\n",
    b"", b"x", bytearray(b"ab"), memoryview(b"ab"), [], [1, [2, 3]], {}, {1}, (), range(3),
    object(), int, lambda: 0, Path("/"), Path("/nonexistent"), np.float32(1), np.array(["a"]),
    np.array([object()]), np.zeros(2, ">f4"), np.zeros(4, np.float32)[::2],
)  # fmt: skip
_module = ingot.parse_hlo(TEXT)
_executable = ingot.compile(_module)
_tuples = ingot.parse_hlo(TUPLES)
_of_tuples = ingot.compile(_tuples)


def _any(value: Any) -> Any:
    return value


CALLS: dict[str, Callable[[Any], Any]] = {
    "parse_hlo": lambda v: ingot.parse_hlo(v),
    "parse_hlo: name": lambda v: ingot.parse_hlo("abc", v),
    "load": lambda v: ingot.load(v),
    "load: format": lambda v: ingot.load(TEXT, v),
    **{f"load: {name}": lambda v, name=name: ingot.load(v, name, isolated=False)
       for name in READERS},
    "dump": lambda v: ingot.dump(v),
    "dump: format": lambda v: ingot.dump(_module, v),
    "parse_stablehlo": lambda v: ingot.parse_stablehlo(v),
    "compile": lambda v: ingot.compile(v),
    "compile: context": lambda v: ingot.compile(_module, context=v),
    "compile: target": lambda v: ingot.compile(_module, target=v),
    "compile: xla_flags": lambda v: ingot.compile(_module, xla_flags=v),
    "call": lambda v: _executable(v),
    "call: too many": lambda v: _executable(ONES, v),
    "call: tuple": lambda v: _of_tuples(ONES, v),
    "call: inner tuple": lambda v: _of_tuples((ONES, (v,))),
    "as_text": lambda v: _executable.as_text(v),
    "execute_replicated": lambda v: _executable.execute_replicated(v),
    "execute_replicated: row": lambda v: _executable.execute_replicated([v]),
    "execute_replicated: value": lambda v: _executable.execute_replicated([[v]]),
    "profile": lambda v: _executable.profile(v),
    "profile: runs": lambda v: _executable.profile(ONES, runs=0 if isinstance(v, int) else v),
    "evaluate": lambda v: evaluate(_module, v),
    "evaluate: value": lambda v: evaluate(_module, [v]),
    "evaluate: tuple": lambda v: evaluate(_tuples, [v]),
    "evaluate: inner tuple": lambda v: evaluate(_tuples, [(v, v)]),
    "evaluate: module": lambda v: evaluate(v, []),
    "evaluate: limit": lambda v: evaluate(_module, [ONES], step_limit=v),
    "parse_hlo_proto": lambda v: parse_hlo_proto(v),
    "parse_literals": lambda v: parse_literals(v),
    "print_hlo_proto": lambda v: print_hlo_proto(v),
    "print_module": lambda v: print_module(v),
    "custom call: function": lambda v: ingot.register_custom_call_target("f", v, api="frame")
    if not isinstance(v, int) else None,
    "custom call: api": lambda v: ingot.register_custom_call_target("f", len, api=v),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_give_errors_of_ingot(name: str) -> None:
    """Most of the odd values are wrong for most functions; none may fail in another way."""
    errors: list[IngotError] = []
    for value in ODD:
        try:
            CALLS[name](value)
        except IngotError as error:
            errors.append(error)
    assert len(errors) >= 2
    assert not [error for error in errors if isinstance(error, InternalError)]


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: ingot.compile(_any(3)), "the program is of type int, not Module, str, bytes"),
        (lambda: ingot.parse_hlo(_any(b"")), "the text of a module is of type bytes, not str"),
        (lambda: ingot.load(_any(None)), "the source is of type NoneType, not str or PathLike"),
        (lambda: _executable.as_text(_any([])), "the stage is of type list, not str"),
        (lambda: _executable.profile(ONES, runs=0), "runs=0: a profile needs a run"),
        (lambda: ingot.compile(_module, device="tpu"), "(?s)no device 'tpu'.*\"gpu:1\""),
        (lambda: ingot.explain(TEXT).save("a.pdf"), "(?s)cannot be saved as 'a.pdf'.*.html"),
    ],
)
def test_the_error_says_what_was_given(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(ArgumentError, match=words) as caught:
        call()
    assert isinstance(caught.value, TypeError)


def test_what_may_be_given_is_taken() -> None:
    data = ingot.dump(_module, "hlo_proto")
    for given in (data, _any(bytearray(data)), _any(memoryview(data))):
        assert isinstance(ingot.load(given), Module)
    assert isinstance(ingot.compile(_module, context=None), Executable)


def test_halves_of_surrogate_pairs_stand_for_no_character() -> None:
    text = TEXT.replace("tuple(x, x)", 'tuple(x, x), frontend_attributes={a="\ud800"}')
    module = ingot.parse_hlo(text)
    assert b'a="?"' in ingot.dump(module)
    assert print_module(ingot.load(print_hlo_proto(module))) == print_module(module)
    # A byte that is no UTF-8 is kept.
    data = text.encode("utf-8", "replace").replace(b'"?"', b'"\xff"')
    assert b'a="\xff"' in ingot.dump(ingot.load(data))

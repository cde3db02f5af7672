# SPDX-License-Identifier: Apache-2.0
"""A program that nobody holds any more leaves nothing behind, in Python's memory and beside it."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys
import tracemalloc
from collections import deque
from itertools import pairwise
from types import CellType, FunctionType, MethodType, ModuleType

import numpy as np
import pytest
from tests.client.pjrt.host import Host

import ingot
from ingot.client import caches, clear_caches
from ingot.cpu.library.parts import _loaded
from ingot.cpu.strategies.generic_kernels import _emitted
from ingot.hlo.dim import _dims
from ingot.kernel.expr import _exprs
from ingot.llvm.types import _arrays, _structs, _vectors

LONG = int(os.environ.get("TEST_PROGRAMS", "0"))
"""How many programs the long test compiles; 0: it is left out."""

SUM = "sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }"


def _scaled(number: int) -> str:
    rows, columns = 3 + number % 97, 2 + number % 31
    return f"""
ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  c = f32[] constant({number}.5)
  b = f32[{rows},{columns}] broadcast(c), dimensions={{}}
  y = f32[{rows},{columns}] multiply(x, b)
  ROOT z = f32[{columns},{rows}] transpose(y), dimensions={{1,0}}
}}"""


def _symbolic(number: int) -> str:
    rows, columns = f"?n{number}", 2 + number % 50
    return f"""
{SUM}
ENTRY main {{
  x = f32[{rows},{columns}] parameter(0)
  zero = f32[] constant(0)
  c = f32[] constant({number}.25)
  b = f32[{rows},{columns}] broadcast(c), dimensions={{}}
  y = f32[{rows},{columns}] add(x, b)
  ROOT z = f32[{rows}] reduce(y, zero), dimensions={{1}}, to_apply=sum
}}"""


def _product(number: int) -> str:
    rows, depth, columns = 3 + number % 61, 2 + number % 37, 1 + number % 53
    return f"""
ENTRY main {{
  x = f32[{rows},{depth}] parameter(0)
  y = f32[{depth},{columns}] parameter(1)
  d = f32[{rows},{columns}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  c = f32[] constant({number}.75)
  b = f32[{rows},{columns}] broadcast(c), dimensions={{}}
  ROOT z = f32[{rows},{columns}] maximum(d, b)
}}"""


def _loop(number: int) -> str:
    size = 5 + number % 200
    state = f"(s32[], f32[{size}])"
    return f"""
body {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[{size}] get-tuple-element(p), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  c = f32[] constant({number}.125)
  b = f32[{size}] broadcast(c), dimensions={{}}
  w = f32[{size}] add(v, b)
  ROOT t = {state} tuple(j, w)
}}
cond {{
  p = {state} parameter(0)
  i = s32[] get-tuple-element(p), index=0
  end = s32[] constant({3 + number % 7})
  ROOT c = pred[] compare(i, end), direction=LT
}}
ENTRY main {{
  x = f32[{size}] parameter(0)
  zero = s32[] constant(0)
  t = {state} tuple(zero, x)
  w = {state} while(t), condition=cond, body=body
  ROOT z = f32[{size}] get-tuple-element(w), index=1
}}"""


def _chain(number: int) -> str:
    """Return a program whose structure follows from the number's digits."""
    size, lines, last = 10 + number, ["  v0 = f32[{size}] parameter(0)"], 0
    for opcode in ("negate", "abs", "exponential", "floor", "sine", "cosine", "tanh"):
        if number >> last & 1:
            lines.append(f"  v{last + 1} = f32[{{size}}] {opcode}(v{last})")
            last += 1
    lines.append(f"  ROOT r = f32[{{size}}] reverse(v{last}), dimensions={{{{0}}}}")
    return "\nENTRY main {\n" + "\n".join(lines).format(size=size) + "\n}"


MAKERS = (_scaled, _symbolic, _product, _loop, _chain)


def compile_and_run(number: int) -> None:
    """Compile a program that no other number gives, and run it once."""
    text = f"HloModule program_{number}\n{MAKERS[number % len(MAKERS)](number)}"
    executable = ingot.compile(ingot.parse_hlo(text))
    rows = executable.artifact.info.params
    executable(*(np.ones([7 if d is None else d for d in row.dims], np.float32) for row in rows))


@functools.cache
def _host() -> tuple[Host, int]:
    """Return a host and its client, which lives as long as the process."""
    host = Host()
    return host, host.client()


def load_and_destroy(number: int) -> None:
    """Compile through PJRT, serialize, load, and destroy what came of it."""
    host, client = _host()
    size = 3 + number
    text = f"""
func.func @main(%x: tensor<{size}xf32>) -> tensor<{size}xf32> {{
  %0 = stablehlo.sine %x : tensor<{size}xf32>
  return %0 : tensor<{size}xf32>
}}"""
    executable = host.compile(client, text)
    found = host.call("Executable_Serialize", executable=executable)
    loaded = host.call(
        "Executable_DeserializeAndLoad",
        client=client,
        serialized_executable=found.serialized_bytes,
        serialized_executable_size=found.serialized_bytes_size,
    ).loaded_executable
    for address in (executable, loaded):
        host.call("LoadedExecutable_Destroy", executable=address)


def forget() -> None:
    """Empty what is bounded: the rest is what grows for ever."""
    clear_caches()
    _loaded.clear()
    _emitted.clear()
    for item in gc.get_objects():
        if isinstance(item, functools._lru_cache_wrapper):
            of_ingot = (getattr(item, "__module__", "") or "").startswith("ingot.")
            if of_ingot and item.cache_parameters()["maxsize"] is not None:
                item.cache_clear()
    gc.collect()


def table_sizes() -> dict[str, int]:
    """Return how many rows the tables have that follow programs."""
    tables = (_dims, _exprs, _vectors, _arrays, _structs, _loaded, _emitted)
    names = ("sizes", "expressions", "vectors", "arrays", "structs", "parts", "emitted")
    return dict(zip(names, map(len, tables), strict=True))


_CONTAINERS = (dict, list, set, deque)
_PASSED = (*_CONTAINERS, tuple, CellType, FunctionType, MethodType, functools._lru_cache_wrapper)


def held_containers() -> dict[int, tuple[str, int]]:
    """Return what the modules of Ingot hold, directly and through objects: (text, length) by id."""
    work = [
        value
        for name, module in list(sys.modules.items())
        if name.startswith("ingot.")
        for value in vars(module).values()
    ]
    seen, found = set[int](), dict[int, tuple[str, int]]()
    while work:
        item = work.pop()
        known = isinstance(item, _PASSED) or type(item).__module__.startswith("ingot.")
        is_class = isinstance(item, type) and item.__module__.startswith("ingot.")
        if id(item) in seen or not (known or is_class):
            continue
        seen.add(id(item))
        if isinstance(item, _CONTAINERS) and "__builtins__" not in item:
            found[id(item)] = (f"{type(item).__name__} of {_sample(item)}", len(item))
        work += [each for each in gc.get_referents(item) if not isinstance(each, ModuleType)]
    return found


def _sample(container: object) -> str:
    return repr(next(iter(container), None))[:200]


def mapped_code() -> int:
    """Return how many mappings of memory can be executed."""
    with open("/proc/self/maps", encoding="utf-8") as file:
        return sum("r-xp 00000000 00:00 0" in line for line in file)


def test_tables_do_not_follow_the_programs() -> None:
    for number in range(10):
        compile_and_run(number)
    forget()
    before, code, held = table_sizes(), mapped_code(), held_containers()
    for number in range(1000, 1030):
        compile_and_run(number)
    forget()
    assert len(held) > 500
    grown = [
        f"{text}: {held[at][1]} before, {size} after"
        for at, (text, size) in held_containers().items()
        if at in held and size > held[at][1] + 15
    ]
    assert grown == []
    for name, size in table_sizes().items():
        # Sizes of programs: a part of the library more, now and then.
        assert size <= before[name] + 12, name
    assert mapped_code() <= code + 12


def test_what_grows_behind_other_objects_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[int] = []
    monkeypatch.setattr(caches, "kept", functools.lru_cache(lambda: {"rows": rows}), raising=False)
    caches.kept()
    before = held_containers()[id(rows)]
    rows += range(20)
    assert (before[1], held_containers()[id(rows)][1]) == (0, 20)


@pytest.mark.slow
@pytest.mark.parametrize(("work", "count"), [(compile_and_run, 60), (load_and_destroy, 30)])
def test_a_program_leaves_nothing_behind(work, count) -> None:
    for number in range(2000, 2000 + count):
        work(number)
    tracemalloc.start(1)
    try:
        found = []
        for first in (3000, 4000, 5000, 6000):
            for number in range(first, first + count):
                work(number)
            forget()
            found.append((sys.getallocatedblocks(), tracemalloc.get_traced_memory()[0]))
    finally:
        tracemalloc.stop()
    # A program that leaves something leaves it each time. A hash table of the whole process that
    # grows between two of the readings (2 MB: Python's interned strings) does so once. Tables of
    # constant size hold other strings and numbers each time: up to 170 blocks more or fewer.
    grown = [(after[0] - now[0], after[1] - now[1]) for now, after in pairwise(found)]
    assert min(blocks for blocks, _ in grown) < count
    assert min(size for _, size in grown) < 200 * count + (64 << 10)


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.skipif(not LONG, reason="TEST_PROGRAMS says how many programs")
def test_memory_stays_flat_for_long() -> None:
    """The last third of the programs adds next to nothing to resident memory."""
    trim = ctypes.CDLL(None).malloc_trim
    resident = []
    for third in range(3):
        for number in range(third * LONG // 3, (third + 1) * LONG // 3):
            compile_and_run(10_000 + number)
        forget()
        trim(0)
        with open("/proc/self/statm", encoding="ascii") as file:
            resident.append(int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE"))
    # What malloc keeps in pieces goes up and down by some MiB.
    assert resident[2] - resident[1] < 500 * LONG // 3 + (8 << 20), resident

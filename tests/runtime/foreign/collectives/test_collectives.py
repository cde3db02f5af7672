# SPDX-License-Identifier: Apache-2.0
"""Native collectives against the evaluator: devices, groups, element types, sizes, failures."""

from __future__ import annotations

import ctypes
import functools
import json
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.runtime.foreign.collectives.networks import run_as_processes
from tests.runtime.foreign.collectives.programs import APART, one_each, program, values
from tests.support.against_evaluator import assert_same

import ingot
from ingot.client.executables.replicated import device_record
from ingot.evaluator import evaluate_replicated
from ingot.hlo.shape import Shape
from ingot.runtime.foreign.collectives import new_rendezvous
from ingot.runtime.foreign.collectives.records import Box
from ingot.runtime.foreign.collectives.rendezvous import RENDEZVOUS
from ingot.runtime.records import CALL_FRAME
from ingot.semantics import custom_calls
from ingot.semantics.custom_calls import CallSite
from ingot.semantics.device_groups import Grid
from ingot.support.diagnostics import ExecutionError, VerifyError
from ingot.support.flags import COLLECTIVE_TIMEOUT, override

pytestmark = pytest.mark.fast_share(4)


def flat(value: Any) -> list[Any]:
    if isinstance(value, tuple):
        return [leaf for item in value for leaf in flat(item)]
    return [np.asarray(value)]


def check(text: str, inputs: list[Any]) -> None:
    """Compare every device's results with the evaluator's, bit for bit.

    Once all devices are of this process, once they are of two processes in turn.
    """
    module = ingot.parse_hlo(text)
    wanted = evaluate_replicated(module, inputs)
    executable = ingot.compile(module)
    for given in (
        executable.execute_replicated(inputs),
        run_as_processes(executable, inputs, [n % 2 for n in range(len(inputs))]),
    ):
        for got, want in zip(given, wanted, strict=True):
            assert_same(got, want)


def check_body(body: str, element: str, dims: tuple[int, ...], grid: tuple[int, int]) -> None:
    check(*one_each(body, element, dims, grid))


def check_file(name: str, inputs: list[Any]) -> None:
    """Check a program that a pass is tested with."""
    passes = Path(__file__).parents[3] / "passes"
    check((passes / name).read_text(encoding="utf-8").partition("// EXPECT")[0], inputs)


def test_sums_that_a_loop_adds_up_are_moved_behind_it() -> None:
    inputs = [
        [values("f32", (4,), device), values("f32", (2, 2), device + 9)] for device in range(2)
    ]
    check_file("while-loop-all-reduce-code-motion/accumulated.hlo", inputs)


@pytest.mark.parametrize("name", ["moved", "order"])
def test_transposes_and_sums_moved_before_all_reduces(name: str) -> None:
    inputs = [
        [values("f32", (2, 3), device), values("f32", (3, 2), device + 9)] for device in range(2)
    ]
    check_file(f"all-reduce-code-motion/{name}.hlo", inputs)


@pytest.mark.parametrize("name", ["independent", "crossed"])
def test_combined_all_reduces(name: str) -> None:
    second = (2, 2) if name == "independent" else (3,)
    inputs = [
        [values("f32", (3,), device), values("f32", second, device + 9)] for device in range(2)
    ]
    check_file(f"all-reduce-combiner/{name}.hlo", inputs)


EVERYONE = {1: "{}", 2: "{{1,0}}", 4: "{{0,2},{3,1}}", 8: "{{7,1,2,4},{0,3,5,6}}"}
GROUP = {1: 1, 2: 2, 4: 2, 8: 4}


@pytest.mark.parametrize("reducer", ["add", "multiply", "maximum", "minimum", "and", "or", "xor"])
def test_reductions_over_more_devices_than_are_folded_one_by_one(reducer: str) -> None:
    devices = 20
    body = """sum = s32[40] all-reduce(x), replica_groups={}, to_apply=add
    part = s32[2] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add
    ROOT r = (s32[40], s32[2]) tuple(sum, part)"""
    text, inputs = one_each(body, "s32", (40,), (devices, 1))
    check(text.replace("s32[] add(a, b)", f"s32[] {reducer}(a, b)"), inputs)


def test_products_over_more_devices_than_are_folded_one_by_one() -> None:
    body = "ROOT r = c64[5] all-reduce(x), replica_groups={}, to_apply=add"
    text, inputs = one_each(body, "c64", (5,), (20, 1))
    text = text.replace("c64[] add(a, b)", "c64[] multiply(a, b)")
    assert " reduce(" in ingot.compile(ingot.parse_hlo(text)).as_text("hlo")
    check(text, inputs)


def test_large_sums_over_many_devices_are_folded_by_parts() -> None:
    devices, size = 17, 17 * 4096
    body = f"ROOT r = f32[{size}] all-reduce(x), replica_groups={{}}, to_apply=add"
    text, _ = one_each(body, "f32", (size,), (devices, 1))
    # Whole numbers, whose sums are exact in any order; and what a sum of floats must keep.
    inputs = [[np.arange(size, dtype=np.float32) % 100 - device] for device in range(devices)]
    for row in inputs:
        row[0][:3] = -0.0, np.inf, np.nan
    check(text, inputs)


@pytest.mark.parametrize("along", [0, 1])
@pytest.mark.parametrize("devices", [2, 3, 5])
@pytest.mark.parametrize("element", ["f32", "f64", "s32", "u32", "s64", "u64", "bf16", "u8"])
def test_sums_of_parts_along_any_dimension(element: str, devices: int, along: int) -> None:
    # 7 and 37 elements of a part: less and more than the vectors that are added at once.
    for part in (7, 37):
        dims = (part * devices, 3) if along == 0 else (3, part * devices)
        result = (part, 3) if along == 0 else (3, part)
        body = f"ROOT r = {element}[{result[0]},{result[1]}] reduce-scatter(x), "
        body += f"replica_groups={{}}, dimensions={{{along}}}, to_apply=add"
        check_body(body, element, dims, (devices, 1))


def test_sums_of_parts_are_of_floats() -> None:
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-45, 3.4e38, 0.1]
    rows = [np.float32(special), np.float32(special[::-1]), np.float32([-0.0] * 8)]
    body = "ROOT r = f32[2] reduce-scatter(x), replica_groups={{3,1,0,2}}, dimensions={0}, "
    text, _ = one_each(body + "to_apply=add", "f32", (8,), (4, 1))
    check(text, [[row] for row in (*rows, np.float32(special))])


def test_sums_of_parts_in_order_are_rounded_as_a_chain_of_additions() -> None:
    devices, size = 4, 4 * 8192
    generator = np.random.default_rng(5)
    inputs = [[generator.standard_normal(size).astype(np.float32)] for _ in range(devices)]
    text, _ = one_each(f"ROOT r = f32[{size}] all-reduce(x), replica_groups={{{{2,0,3,1}}}}, "
                       "to_apply=add", "f32", (size,), (devices, 1))  # fmt: skip
    a, b, c, d = (row[0] for row in inputs)
    executable = ingot.compile(ingot.parse_hlo(text))
    assert executable.kernels == ()
    for found in executable.execute_replicated(inputs):
        np.testing.assert_array_equal(found, ((c + a) + d) + b)
    for processes in ([0, 1, 2, 3], [1, 0, 0, 1], [0, 1, 1, 1]):
        for can_read in (True, False):
            for found in run_as_processes(executable, inputs, processes, can_read=can_read):
                np.testing.assert_array_equal(found, ((c + a) + d) + b)


def test_a_device_that_never_comes_to_a_sum_of_parts_stops_the_others() -> None:
    body = "ROOT r = f32[4] reduce-scatter(x), replica_groups={}, dimensions={0}, to_apply=add"
    text, inputs = one_each(body, "f32", (12,), (3, 1))
    executable = ingot.compile(ingot.parse_hlo(text))
    for absent in range(3):
        given = [row if n != absent else [np.zeros(5, np.float32)] for n, row in enumerate(inputs)]
        with pytest.raises(ExecutionError, match=r"argument|parameter"):
            executable.execute_replicated(given)
    check(text, inputs)


def test_an_unknown_reducer_is_applied_from_the_first_to_the_last() -> None:
    body = "ROOT r = f32[5] all-reduce(x), replica_groups={}, to_apply=odd"
    text, inputs = one_each(body, "f32", (5,), (18, 1))
    text = text.replace(
        "ENTRY",
        """odd {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] subtract(a, b)
  ROOT d = f32[] add(c, c)
}
ENTRY""",
    )
    check(text, inputs)


@pytest.mark.parametrize("devices", [1, 2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_all_ops_over_groups_of_replicas(devices: int) -> None:
    groups, count = f"replica_groups={EVERYONE[devices]}", GROUP[devices]
    pairs = ",".join(f"{{{d},{(d + 1) % devices}}}" for d in range(devices - 1))
    body = f"""
    sum = f32[4,3] all-reduce(x), {groups}, to_apply=add
    wide = f32[4,{3 * count}] all-gather(x), {groups}, dimensions={{1}}
    part = f32[{4 // count},3] reduce-scatter(x), {groups}, dimensions={{0}}, to_apply=add
    mixed = f32[4,3] all-to-all(x), {groups}, dimensions={{0}}
    sent = f32[4,3] collective-broadcast(x), {groups}
    moved = f32[4,3] collective-permute(x), source_target_pairs={{{pairs}}}
    who = u32[] replica-id()
    ROOT r = (f32[4,3], f32[4,{3 * count}], f32[{4 // count},3], f32[4,3], f32[4,3], f32[4,3],
        u32[])
        tuple(sum, wide, part, mixed, sent, moved, who)"""
    check_body(body, "f32", (4, 3), (devices, 1))


@pytest.mark.parametrize(
    ("element", "dims"),
    [("bf16", (5,)), ("s8", (1,)), ("f64", (0,)), ("c64", (3,)), ("pred", (7, 1)), ("u64", ())],
)
def test_element_types_and_sizes(element: str, dims: tuple[int, ...]) -> None:
    shape = f"{element}[{','.join(map(str, dims))}]"
    body = f"""sum = {shape} all-reduce(x), replica_groups={{}}, to_apply=add
    sent = {shape} collective-broadcast(x), replica_groups={{{{1,0}}}}
    ROOT r = ({shape}, {shape}) tuple(sum, sent)"""
    check_body(body, element, dims, (2, 1))


MODES = {
    "replicas of each partition": "replica_groups={{0,1}}",
    "replicas with all their partitions": "channel_id=1, replica_groups={{1},{0}}",
    "all": "channel_id=1, replica_groups={}",
    "devices": "channel_id=1, replica_groups={{3,0},{1,2}}, use_global_device_ids=true",
    "devices in tiles": "channel_id=1, replica_groups=[2,2]<=[2,2]T(1,0), "
    "use_global_device_ids=true",
}


@pytest.mark.parametrize("mode", MODES)
def test_who_meets(mode: str) -> None:
    body = f"""sum = f32[3] all-reduce(x), {MODES[mode]}, to_apply=add
    across = f32[3] collective-permute(x), channel_id=2, source_target_pairs={{{{1,0}}}}
    mixed = f32[3] collective-broadcast(x), channel_id=3, replica_groups={{{{1,0}}}}
    p = u32[] partition-id()
    q = u32[] replica-id()
    ROOT r = (f32[3], f32[3], f32[3], u32[], u32[]) tuple(sum, across, mixed, p, q)"""
    check_body(body, "f32", (3,), (2, 2))


def test_groups_of_different_sizes() -> None:
    body = "ROOT r = f32[5] all-reduce(x), replica_groups={{2,0,1},{3}}, to_apply=add"
    check_body(body, "f32", (5,), (4, 1))


def test_a_large_all_reduce_exchanges_parts() -> None:
    body = "ROOT r = f32[64,256] all-reduce(x), replica_groups={}, to_apply=add"
    check_body(body, "f32", (64, 256), (2, 1))


def test_order_of_a_reduction_is_the_order_of_the_group() -> None:
    """A computation that neither commutes nor associates: folded from the first to the last."""
    body = "  x = s32[2] parameter(0)\n  ROOT r = s32[2] all-reduce(x), "
    body += "replica_groups={{2,0,1}}, to_apply=add"
    text = program(body, replicas=3, element="s32", combine="subtract")
    check(text, [[values("s32", (2,), n)] for n in range(3)])


def test_several_operands_and_tuples() -> None:
    body = """x = f32[2] parameter(0)
    y = f32[2] parameter(1)
    a = (f32[2], f32[2]) all-reduce(x, y), replica_groups={}, to_apply=add
    b = (f32[2], f32[2]) all-to-all(x, y), replica_groups={{1,0}}
    c = (f32[4], f32[4]) all-gather(x, y), replica_groups={}, dimensions={0}
    d = (f32[2], f32[2]) collective-permute(x, y), source_target_pairs={{0,1}}
    ROOT r = ((f32[2], f32[2]), (f32[2], f32[2]), (f32[4], f32[4]), (f32[2], f32[2]))
        tuple(a, b, c, d)"""
    inputs = [[values("f32", (2,), 2 * n), values("f32", (2,), 2 * n + 1)] for n in range(2)]
    check(program(body, replicas=2), inputs)


def test_ragged_rows_go_where_the_sender_says() -> None:
    body = """x = f32[4] parameter(0)
    out = f32[6] parameter(1)
    start = s32[2] parameter(2)
    size = s32[2] parameter(3)
    target = s32[2] parameter(4)
    got = s32[2] parameter(5)
    ROOT r = f32[6] ragged-all-to-all(x, out, start, size, target, got), replica_groups={{0,1}}"""
    tables = [([0, 1], [1, 3], [0, 0], [1, 2]), ([0, 2], [2, 1], [1, 3], [3, 1])]
    inputs = [
        [
            np.arange(4, dtype=np.float32) + 10 * device,
            np.full(6, -1, np.float32),
            *(np.array(row, np.int32) for row in rows),
        ]
        for device, rows in enumerate(tables)
    ]
    check(program(body, replicas=2), inputs)


def test_send_and_recv_are_a_permutation() -> None:
    pairs = 'frontend_attributes={_xla_send_recv_source_target_pairs="{{0,1},{1,2}}"}'
    body = f"""x = f32[3] parameter(0)
    t = token[] after-all()
    s = (f32[3], u32[], token[]) send(x, t), channel_id=7, {pairs}
    d = token[] send-done(s), channel_id=7
    v = (f32[3], u32[], token[]) recv(t), channel_id=7, {pairs}
    w = (f32[3], token[]) recv-done(v), channel_id=7
    ROOT r = f32[3] get-tuple-element(w), index=0"""
    check(program(body, replicas=3), [[values("f32", (3,), n)] for n in range(3)])


def test_what_a_step_receives_is_taken_in_the_next() -> None:
    pairs = '{_xla_send_recv_source_target_pairs="{{0,1},{1,2},{2,3},{3,0}}"}'
    started = "(f32[2], u32[], token[])"
    state = f"(s32[], f32[2], {started}, {started})"
    transfer = f"""t = token[] after-all()
      r = {started} recv(t), channel_id=1, frontend_attributes={pairs}
      h = {started} send(v, t), channel_id=1, frontend_attributes={pairs}"""
    text = f"""HloModule m, num_partitions=4
    test {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(3) ROOT c = pred[] compare(i, n), direction=LT }}
    body {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0
      total = f32[2] get-tuple-element(s), index=1
      old = {started} get-tuple-element(s), index=2
      sent = {started} get-tuple-element(s), index=3
      d = (f32[2], token[]) recv-done(old), channel_id=1
      e = token[] send-done(sent), channel_id=1
      v = f32[2] get-tuple-element(d), index=0
      sum = f32[2] add(total, v) one = s32[] constant(1) j = s32[] add(i, one)
      {transfer}
      ROOT o = {state} tuple(j, sum, r, h) }}
    ENTRY e {{ v = f32[2] parameter(0) z = s32[] constant(0)
      {transfer}
      s = {state} tuple(z, v, r, h) w = {state} while(s), condition=test, body=body
      old = {started} get-tuple-element(w), index=2
      sent = {started} get-tuple-element(w), index=3
      d = (f32[2], token[]) recv-done(old), channel_id=1
      e = token[] send-done(sent), channel_id=1
      last = f32[2] get-tuple-element(d), index=0 sum = f32[2] get-tuple-element(w), index=1
      ROOT o = (f32[2], f32[2]) tuple(sum, last) }}"""
    inputs = [[np.float32([n, 10 * n])] for n in range(4)]
    wanted = [([6, 60], [n, 10 * n]) for n in range(4)]
    found = evaluate_replicated(ingot.parse_hlo(text), inputs)
    assert [tuple(np.asarray(leaf).tolist() for leaf in flat(one)) for one in found] == wanted
    check(text, inputs)


def test_collectives_in_a_loop() -> None:
    text = """HloModule loop, replica_count=2
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    test { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
      n = s32[] constant(20) ROOT r = pred[] compare(i, n), direction=LT }
    body { s = (s32[], f32[3]) parameter(0) i = s32[] get-tuple-element(s), index=0
      v = f32[3] get-tuple-element(s), index=1 one = s32[] constant(1) j = s32[] add(i, one)
      sum = f32[3] all-reduce(v), replica_groups={}, to_apply=add
      swapped = f32[3] collective-permute(v), source_target_pairs={{0,1},{1,0}}
      half = f32[] constant(0.5) halves = f32[3] broadcast(half), dimensions={}
      m = f32[3] multiply(sum, halves) w = f32[3] subtract(m, swapped)
      ROOT t = (s32[], f32[3]) tuple(j, w) }
    ENTRY main { x = f32[3] parameter(0) z = s32[] constant(0)
      s = (s32[], f32[3]) tuple(z, x) l = (s32[], f32[3]) while(s), condition=test, body=body
      ROOT r = f32[3] get-tuple-element(l), index=1 }"""
    check(text, [[values("f32", (3,), n)] for n in range(2)])


def test_symbolic_sizes() -> None:
    text = """HloModule sizes, replica_count=2
    add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
    ENTRY main { x = f32[?n,3] parameter(0)
      g = f32[?(2*n),3] all-gather(x), replica_groups={}, dimensions={0}
      s = f32[?n,3] all-reduce(x), replica_groups={}, to_apply=add
      ROOT r = (f32[?(2*n),3], f32[?n,3]) tuple(g, s) }"""
    for size in (0, 1, 5):
        check(text, [[values("f32", (size, 3), n)] for n in range(2)])


def test_results_are_the_same_every_time() -> None:
    text, inputs = one_each(
        "ROOT r = f32[1000] all-reduce(x), replica_groups={}, to_apply=add", "f32", (1000,), (4, 1)
    )
    inputs = [[np.random.default_rng(n).standard_normal(1000).astype(np.float32)] for n in range(4)]
    executable = ingot.compile(ingot.parse_hlo(text))
    first = executable.execute_replicated(inputs)
    for _ in range(5):
        for again in executable.execute_replicated(inputs):
            np.testing.assert_array_equal(again, first[0])


@pytest.mark.slow
def test_devices_that_do_not_meet_fail() -> None:
    executable = ingot.compile(ingot.parse_hlo(APART))
    inputs = [[values("f32", (3,), n)] for n in range(2)]
    with override(COLLECTIVE_TIMEOUT, 1), pytest.raises(ExecutionError, match="in vain"):
        executable.execute_replicated(inputs)


def test_a_failing_device_stops_the_others() -> None:
    text, _ = one_each("ROOT r = f32[3] all-reduce(x), replica_groups={}, to_apply=add",
                       "f32", (3,), (2, 1))  # fmt: skip
    executable = ingot.compile(ingot.parse_hlo(text))
    with pytest.raises(ExecutionError, match=r"argument|parameter"):
        executable.execute_replicated([[np.zeros(3, np.float32)], [np.zeros(4, np.float32)]])


def test_a_program_for_several_devices_does_not_run_alone() -> None:
    text, inputs = one_each("ROOT r = f32[3] all-reduce(x), replica_groups={}, to_apply=add",
                            "f32", (3,), (2, 1))  # fmt: skip
    executable = ingot.compile(ingot.parse_hlo(text))
    with pytest.raises(ExecutionError, match="execute_replicated"):
        executable(*inputs[0])
    with pytest.raises(ExecutionError, match="INGOT0510"):
        executable.execute_replicated(inputs[:1])


def test_groups_that_do_not_fit() -> None:
    with pytest.raises(VerifyError, match="replica_count"):
        check_body("ROOT r = f32[3] all-reduce(x), replica_groups={{0,1,2}}, to_apply=add",
            "f32", (3,), (2, 1))  # fmt: skip
    groups = "replica_groups={{0,1},{2}}, dimensions={0}"
    text, _ = one_each(f"ROOT r = f32[6] all-gather(x), {groups}", "f32", (3,), (3, 1))
    with pytest.raises(VerifyError, match="of different sizes"):
        ingot.parse_hlo(text)
    text, _ = one_each(f"ROOT r = f32[4] all-to-all(x), {groups}", "f32", (4,), (3, 1))
    with pytest.raises(VerifyError, match="of different sizes"):
        ingot.parse_hlo(text)


def _random_groups(choose: random.Random, devices: int) -> tuple[str, int]:
    """Return all devices in groups of one size, shuffled, and the size."""
    order = list(range(devices))
    choose.shuffle(order)
    size = choose.choice([size for size in (1, 2, 4) if size <= devices])
    rows = [order[start : start + size] for start in range(0, devices, size)]
    return "{" + ",".join("{" + ",".join(map(str, row)) + "}" for row in rows) + "}", size


def _random_step(choose: random.Random, devices: int, size: int, number: int, x: str) -> str:
    """Return lines that make `v<number>` of size `size` from `x` with one collective or two."""
    groups, count = _random_groups(choose, devices)
    new, over = f"v{number} = f32[{size}]", f"replica_groups={groups}"
    targets = list(range(devices))
    choose.shuffle(targets)
    pairs = ",".join(f"{{{source},{target}}}" for source, target in enumerate(targets))
    return choose.choice(
        [
            f"{new} all-reduce({x}), {over}, to_apply=add",
            f"{new} all-to-all({x}), {over}, dimensions={{0}}",
            f"{new} collective-broadcast({x}), {over}",
            f"{new} collective-permute({x}), source_target_pairs={{{pairs}}}",
            f"p{number} = f32[{size // count}] reduce-scatter({x}), {over}, dimensions={{0}}, "
            f"to_apply=add {new} all-gather(p{number}), {over}, dimensions={{0}}",
        ]
    )


@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(n, marks=pytest.mark.slow) for n in range(2, 60))]
)
def test_random_programs(seed: int) -> None:
    choose = random.Random(seed)
    devices, size = choose.choice([2, 4, 8]), choose.choice([8, 64, 65536])
    steps, last = [], "x"
    for number in range(choose.randint(3, 9)):
        steps.append(_random_step(choose, devices, size, number, last))
        last = f"v{number}"
    body = "\n".join([*steps, f"ROOT r = f32[{size}] negate({last})"])
    check_body(body, "f32", (size,), (devices, 1))


def test_a_device_that_fails_waits_for_who_reads_its_data() -> None:
    """Its memory goes when it returns; here nobody but the test is in the middle of reading it."""
    config = json.dumps({"devices": 2, "groups": [[0, 1]], "along": 0})
    shape = Shape.array("f32", (4,))
    site = CallSite("all-gather", (shape,), (Shape.array("f32", (8,)),), config, "")
    target = custom_calls.find(site.target)
    assert target is not None
    assert target.link is not None
    linked = target.link(site)
    rendezvous = new_rendezvous(Grid(2))
    record = device_record(rendezvous, 0, 0)
    data, result = np.zeros(4, np.float32), np.zeros(8, np.float32)
    dims = [np.array([size], np.int64) for size in (4, 8)]
    tables = [(ctypes.c_void_p * 1)(array.ctypes.data) for array in (data, result, *dims)]
    frame = CALL_FRAME.structure(ctypes.addressof(record), *map(ctypes.addressof, tables))
    box = RENDEZVOUS.read(rendezvous.address, "boxes") + Box.c_layout.size  # From 0 to 1.
    Box.c_layout.write(box, "reading", 1)
    rendezvous.fail()
    statuses: list[int] = []
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(linked.address)
    thread = threading.Thread(target=lambda: statuses.append(call(ctypes.addressof(frame))))
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    Box.c_layout.write(box, "reading", 0)
    thread.join()
    assert statuses == [1]


@pytest.mark.parametrize("size", [8191, 100_003, 131_073])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_all_reduce_of_a_size_that_devices_do_not_divide(size: int, devices: int) -> None:
    body = f"ROOT r = f32[{size}] all-reduce(x), replica_groups={{}}, to_apply=add"
    check_body(body, "f32", (size,), (devices, 1))


def test_large_all_reduce_of_groups_of_different_sizes() -> None:
    body = "ROOT r = f32[200001] all-reduce(x), replica_groups={{2,0,1},{3}}, to_apply=add"
    check_body(body, "f32", (200001,), (4, 1))


def test_groups_of_different_sizes_with_a_reducer_of_several_ops() -> None:
    body = "ROOT r = f32[5] all-reduce(x), replica_groups={{2,0,1},{3}}, to_apply=add"
    text, inputs = one_each(body, "f32", (5,), (4, 1))
    odd = "d = f32[] multiply(a, a)\n  ROOT c = f32[] subtract(d, b)"
    check(text.replace("ROOT c = f32[] add(a, b)", odd), inputs)


@pytest.mark.parametrize("element", ["bf16", "f16", "f32", "f64", "s8", "u8", "s16", "u64", "c64"])
@pytest.mark.parametrize("opcode", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("size", [37, 80_011])
def test_reducers_that_the_runtime_has(element: str, opcode: str, size: int) -> None:
    if element == "c64" and opcode != "add":
        pytest.skip("complex numbers have no order, and their products are folded by a kernel")
    body = f"ROOT r = {element}[{size}] all-reduce(x), replica_groups={{}}, to_apply=add"
    text, inputs = one_each(body, element, (size,), (3, 1))
    check(text.replace(f"{element}[] add(a, b)", f"{element}[] {opcode}(a, b)"), inputs)


@pytest.mark.parametrize("element", ["pred", "s16", "u32"])
@pytest.mark.parametrize("opcode", ["and", "or", "xor"])
def test_bitwise_reducers(element: str, opcode: str) -> None:
    body = f"ROOT r = {element}[200011] all-reduce(x), replica_groups={{}}, to_apply=add"
    text, inputs = one_each(body, element, (200_011,), (3, 1))
    check(text.replace(f"{element}[] add(a, b)", f"{element}[] {opcode}(a, b)"), inputs)


@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("opcode", ["all-reduce", "reduce-scatter"])
def test_sums_of_16_bit_floats_are_rounded_once(element: str, opcode: str) -> None:
    """1 and seven times 2^-12, of which each alone is lost beside 1, and all together are not."""
    along, size = (", dimensions={0}", 2) if opcode == "reduce-scatter" else ("", 16)
    body = f"ROOT r = {element}[{size}] {opcode}(x), replica_groups={{}}{along}, to_apply=add"
    text, inputs = one_each(body, element, (16,), (8, 1))
    small = 2.0**-9 if element == "bf16" else 2.0**-12
    for device, row in enumerate(inputs):
        row[0][:] = small if device else 1.0
    check(text, inputs)
    found, *_ = ingot.compile(ingot.parse_hlo(text)).execute_replicated(inputs)
    assert float(np.float32(np.ravel(found)[0])) > 1


@pytest.mark.parametrize(
    ("element", "size", "devices", "is_over"),
    [
        ("f32", 65_536, 2, False),
        ("f32", 65_537, 2, True),
        ("f64", 40_009, 3, True),
        ("f32", 30_011, 5, True),
        ("bf16", 140_003, 2, True),
    ],
)
def test_a_large_all_reduce_writes_over_its_operand(
    element: str, size: int, devices: int, is_over: bool
) -> None:
    kind = f"{element}[{size}]"
    text, inputs = one_each(
        f"""made = {kind} negate(x)
        sum = {kind} all-reduce(made), replica_groups={{}}, to_apply=add
        ROOT r = {kind} multiply(sum, sum)""",
        element, (size,), (devices, 1),
    )  # fmt: skip
    numbers = np.random.default_rng(size)
    inputs = [[numbers.standard_normal(size).astype(array.dtype)] for (array,) in inputs]
    total = functools.reduce(np.add, [-array for (array,) in inputs])
    executable = ingot.compile(text)
    for found in (
        executable.execute_replicated(inputs),
        run_as_processes(executable, inputs, [n % 2 for n in range(devices)]),
    ):
        for each in found:
            np.testing.assert_array_equal(np.asarray(each), total * total)
    module, slice_of = executable.module, executable.assignment.slice_of
    (reduced,) = [one for one in module.entry.instructions if one.opcode == "all-reduce"]
    assert (slice_of(reduced) == slice_of(reduced.operands[0])) == is_over


@pytest.mark.parametrize("body", [
    "ROOT r = KIND all-reduce(x), replica_groups={}, to_apply=add",
    """made = KIND negate(x)
    sum = KIND all-reduce(made), replica_groups={}, to_apply=add
    ROOT r = (KIND, KIND) tuple(sum, made)""",
    """sum = KIND all-reduce(x), replica_groups={}, to_apply=add
    ROOT r = KIND all-reduce(sum), replica_groups={}, to_apply=add""",
])  # fmt: skip
def test_a_large_all_reduce_spares_arguments_and_what_is_read_later(body: str) -> None:
    size = 70_001
    text, inputs = one_each(body.replace("KIND", f"f32[{size}]"), "f32", (size,), (3, 1))
    before = [[np.copy(array) for array in row] for row in inputs]
    check(text, inputs)
    for row, kept in zip(inputs, before, strict=True):
        for array, copy in zip(row, kept, strict=True):
            np.testing.assert_array_equal(array, copy)

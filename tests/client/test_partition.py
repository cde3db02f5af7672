# SPDX-License-Identifier: Apache-2.0
"""Programs for thousands of devices, without the devices: division, compilation, and the cost."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.support.against_evaluator import assert_same

import ingot
from ingot.evaluator import evaluate_replicated
from ingot.support.diagnostics import ArgumentError, UnsupportedError

LAYERS = 3


def layers(devices: int, rows: int = 4096) -> str:
    """Return layers whose rows are divided by all devices / 4, and whose columns by 4."""
    tiles = f"[{devices // 4},4]<=[{devices}]"
    whole, columns = f"[1,4,{devices // 4}]<=[{devices // 4},4]T(1,0)", "last_tile_dim_replicate"
    lines = [f"h0 = f32[{rows},64] parameter(0), sharding={{devices={tiles}}}"]
    for number in range(LAYERS):
        w, line = f"w{number}", f'metadata={{source_file="net.py" source_line={number + 1}}}'
        lines += [
            f"{w} = f32[64,64] parameter({number + 1}), sharding={{devices={whole} {columns}}}",
            f"d{number} = f32[{rows},64] dot(h{number}, {w}), lhs_contracting_dims={{1}}, "
            f"rhs_contracting_dims={{0}}, {line}",
            f'a{number} = f32[{rows},64] custom-call(d{number}), custom_call_target="Sharding", '
            f"sharding={{devices={tiles}}}",
            f"h{number + 1} = f32[{rows},64] maximum(a{number}, h{number})",
        ]
    fold = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }"
    lines += [
        "zero = f32[] constant(0)",
        f"ROOT total = f32[] reduce(h{LAYERS}, zero), dimensions={{0,1}}, to_apply=add, "
        'metadata={source_file="net.py" source_line=9}',
    ]
    body = "\n  ".join(lines)
    return f"HloModule net, num_partitions={devices}\n{fold}\nENTRY e {{\n  {body}\n}}"


def test_the_program_of_a_device_does_not_grow_with_the_devices() -> None:
    found = {}
    for devices in (128, 4096):
        module = ingot.partition(layers(devices))
        executable = ingot.compile(module)
        sizes = (module.instruction_count, executable.module.instruction_count)
        found[devices] = (*sizes, len(executable.kernels), len(executable.artifact.calls))
        # Groups are a range in the text: nothing names every device.
        assert len(executable.as_text("hlo_before")) < 20_000
        assert len(executable.as_text("hlo")) < 40_000
        assert executable.out_avals[0].shape == ()
    assert found[128] == found[4096]


def test_each_device_computes_its_part() -> None:
    text = layers(8, rows=16)
    module = ingot.partition(text)
    rows = np.arange(16 * 64, dtype=np.float32).reshape(16, 64) % 7 - 3
    weights = [np.eye(64, dtype=np.float32) * (n + 1) for n in range(LAYERS)]
    inputs = []
    for device in range(8):
        row, column = divmod(device, 4)
        part = rows[row * 8 : row * 8 + 8, column * 16 : column * 16 + 16]
        inputs.append([part, *(w[:, column * 16 : column * 16 + 16] for w in weights)])
    wanted = evaluate_replicated(module, inputs)
    for got, want in zip(ingot.compile(module).execute_replicated(inputs), wanted, strict=True):
        assert_same(np.asarray(got), np.asarray(want))
        assert float(got) == float(ingot.evaluate(text, rows, *weights))


def test_the_number_of_devices_may_be_given() -> None:
    text = layers(8).replace(", num_partitions=8", "")
    module = ingot.partition(text, 8)
    assert module.extra["num_partitions"] == "8"
    assert module.parameter_shapes[0].dims == (2048, 16)
    assert ingot.partition(text, 1).parameter_shapes[0].dims == (4096, 64)


def test_a_given_module_stays_as_it_is() -> None:
    module = ingot.parse_hlo(layers(8))
    ingot.partition(module)
    assert module.parameter_shapes[0].dims == (4096, 64)


@pytest.mark.parametrize("number", [0, -1, 1 << 30, 2.0, "2"])
def test_invalid_device_counts_are_refused(number: object) -> None:
    with pytest.raises(ArgumentError, match="num_partitions"):
        ingot.partition(layers(8), number)  # type: ignore[arg-type]


def test_shardings_of_other_devices_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="8 of 16 devices"):
        ingot.partition(layers(8), 16)


NETWORK = "512 nodes of 8, inside 2us 300GB/s, between 10us 25GB/s, ring"


_BESIDE_KERNELS = """HloModule m, num_partitions=2
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
body {
  s = (s32[], f32[1024,1024], f32[1024,1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[1024,1024] get-tuple-element(s), index=1
  w = f32[1024,1024] get-tuple-element(s), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  sum = f32[1024,1024] all-reduce(x), replica_groups={{0,1}}, channel_id=1,
    use_global_device_ids=true, to_apply=add
  y = f32[1024,1024] dot(w, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[1024,1024] add(sum, y)
  ROOT r = (s32[], f32[1024,1024], f32[1024,1024]) tuple(next, z, y)
}
condition {
  s = (s32[], f32[1024,1024], f32[1024,1024]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  end = s32[] constant(10)
  ROOT r = pred[] compare(i, end), direction=LT
}
ENTRY e {
  zero = s32[] constant(0)
  x = f32[1024,1024] parameter(0)
  w = f32[1024,1024] parameter(1)
  s = (s32[], f32[1024,1024], f32[1024,1024]) tuple(zero, x, w)
  l = (s32[], f32[1024,1024], f32[1024,1024]) while(s), condition=condition, body=body
  ROOT r = f32[1024,1024] get-tuple-element(l), index=1
}""".replace("  ", "\n")


def test_collectives_beside_kernels_are_hidden() -> None:
    executable = ingot.compile(ingot.parse_hlo(_BESIDE_KERNELS))
    assert "all-reduce-start" in executable.as_text()
    report = ingot.explain(executable, network="2 nodes of 1, inside 1us 99GB/s, between 9us 9GB/s")
    step = report.programs[0].step
    assert step is not None
    # One of 4 MB, in each of the 10 rounds; the product takes longer than it.
    (row,) = step.collectives
    assert (row.times, row.size) == (10, 1 << 22)
    assert step.hidden_seconds == pytest.approx(step.collective_seconds)
    assert step.seconds == pytest.approx(step.kernel_seconds)
    assert " hidden behind kernels" in str(report)


def test_a_step_on_a_cluster_is_explained() -> None:
    report = ingot.explain(ingot.partition(layers(4096)), network=NETWORK)
    (program,) = report.programs
    step = program.step
    assert step is not None
    assert step.network == NETWORK
    assert step.unknown_loops == 0
    assert len(step.kernels) == len(program.kernels)
    assert step.kernel_seconds == pytest.approx(sum(step.kernels))
    assert step.seconds == pytest.approx(step.kernel_seconds + step.collective_seconds)
    assert step.hidden_seconds == pytest.approx(0, abs=1e-12)
    seconds = [row.seconds for row in step.collectives]
    assert seconds == sorted(seconds, reverse=True)
    by_line = {row.line: row for row in step.collectives}
    last = by_line["net.py:9"]
    # The sum over all: 2 * 4095 messages of 4 / 4096 bytes, 10 us each.
    assert (last.opcode, last.group, last.nodes, last.bound) == ("all-reduce", 4096, 512, "latency")
    assert last.seconds == pytest.approx(2 * 4095 * 10e-6, rel=1e-6)
    gathered = by_line["net.py:1"]
    assert (gathered.group, gathered.nodes) == (4, 1)
    assert step.collectives[0] is last
    text = str(report)
    assert f"a step on {NETWORK}: " in text
    assert "all-reduce of 4 B over 4096 devices on 512 nodes (latency-bound)" in text
    assert (
        json.loads(report.to_json())["programs"][0]["step"]["collectives"][0]["line"] == last.line
    )


def test_the_page_has_the_step() -> None:
    html = ingot.explain(ingot.partition(layers(4096)), network=NETWORK).to_html()
    assert "A step on a network" in html
    assert NETWORK in html
    assert "<td>all-reduce</td>" in html
    assert "A step on a network" not in ingot.explain(ingot.partition(layers(8))).to_html()


LOOP = """HloModule looped, num_partitions=2
body { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  x = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(i, one)
  y = f32[8] collective-permute(x), channel_id=1, source_target_pairs={{0,1},{1,0}}
  ROOT r = (s32[], f32[8]) tuple(next, y) }
cond { s = (s32[], f32[8]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  most = s32[] LIMIT
  ROOT c = pred[] compare(i, most), direction=LT }
ENTRY e { zero = s32[] constant(0)
  x = f32[8] parameter(0)
  start = (s32[], f32[8]) tuple(zero, x)
  end = (s32[], f32[8]) while(start), condition=cond, body=body
  ROOT r = f32[8] get-tuple-element(end), index=1 }"""


def test_loops_count_as_often_as_they_run() -> None:
    network = "2 devices, inside 3us 1GB/s"
    counted = ingot.explain(LOOP.replace("LIMIT", "constant(10)"), network=network)
    step = counted.programs[0].step
    assert step is not None
    (row,) = step.collectives
    assert (row.opcode, row.times, row.group) == ("collective-permute", 10, 2)
    assert row.seconds == pytest.approx(10 * (3e-6 + 32e-9))
    assert step.unknown_loops == 0
    text = LOOP.replace("ENTRY e { zero = s32[] constant(0)", "ENTRY e { zero = s32[] parameter(1)")
    unknown = ingot.explain(text.replace("LIMIT", "constant(10)"), network=network)
    step = unknown.programs[0].step
    assert step is not None
    assert (step.unknown_loops, step.collectives[0].times) == (1, 1)
    assert "1 loop of unknown length counts as one round" in str(unknown)


def test_kernels_of_a_loop_count_as_often_as_it_runs() -> None:
    """Each trip has its kernels: twice as many trips of a large array take twice as long."""
    large = LOOP.replace("f32[8]", "f32[4194304]").replace("y = ", "z = ")
    large = large.replace("ROOT r = (s32[], f32[4194304]) tuple(next, y)", "w = f32[4194304] "
                          "negate(z) ROOT r = (s32[], f32[4194304]) tuple(next, w)")  # fmt: skip

    def seconds(trips: int) -> float:
        text = large.replace("LIMIT", f"constant({trips})")
        step = ingot.explain(text, network="2 devices, inside 3us 1GB/s").programs[0].step
        assert step is not None
        return step.kernel_seconds

    assert seconds(40) == pytest.approx(2 * seconds(20), rel=0.1)


def test_a_network_of_other_devices_is_refused() -> None:
    with pytest.raises(ArgumentError, match=r"runs on 8 devices, and the network .* has 4"):
        ingot.explain(ingot.partition(layers(8)), network="4 devices, inside 3us 1GB/s")


def test_symbolic_sizes_have_no_cost() -> None:
    text = "HloModule m ENTRY e { x = f32[?n] parameter(0) ROOT y = f32[?n] negate(x) }"
    with pytest.raises(ArgumentError, match="known only when the program runs"):
        ingot.explain(text, network="1 device, inside 3us 1GB/s")


def test_stablehlo_has_global_shapes(tmp_path: Path) -> None:
    text = """module @m attributes {mhlo.num_partitions = 4 : i32} {
  sdy.mesh @mesh = <["x"=4]>
  func.func @main(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
      -> tensor<8xf32> {
    %y = stablehlo.negate %x : tensor<8xf32>
    return %y : tensor<8xf32>
  }
}"""
    path = tmp_path / "program.mlir"
    path.write_text(text)
    for given in (text, path):
        report = ingot.explain(given, network="4 devices, inside 3us 1GB/s")
        assert report.programs[0].arguments == ("float32[2]",)

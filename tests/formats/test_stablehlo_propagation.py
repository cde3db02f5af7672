# SPDX-License-Identifier: Apache-2.0
"""Shardy's passes over programs of several devices: what each value is annotated with."""

from __future__ import annotations

import pytest
from tests.formats.mlir_text import only

from ingot.formats.hlo_text import print_module
from ingot.formats.stablehlo import parse_stablehlo, propagation
from ingot.hlo.instruction import Instruction
from ingot.hlo.module import Module
from ingot.hlo.verifier import verify
from ingot.passes.spmd.partition import partition
from ingot.support.flags import IngotWarning

ROWS = "{devices=[2,1,2]<=[4] last_tile_dim_replicate}"


def program(body: str, devices: int = 4) -> Module:
    module = parse_stablehlo(
        f"""module @m attributes {{mhlo.num_partitions = {devices} : i32}} {{
          sdy.mesh @mesh = <["x"=2, "y"=2]>
          {body}
        }}"""
    )
    verify(module)
    return module


def sharding(instruction: Instruction) -> str:
    return instruction.extra.get("sharding", "")


X = '%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}'


def test_every_value_is_annotated():
    module = program(
        f"""func.func @main({X}) -> tensor<8x4xf32> {{
          %one = stablehlo.constant dense<1.0> : tensor<8x4xf32>
          %s = stablehlo.sine %x : tensor<8x4xf32>
          %r = stablehlo.add %s, %one : tensor<8x4xf32>
          return %r : tensor<8x4xf32>
        }}"""
    )
    assert [sharding(only(module, name)) for name in ("sine", "add", "constant")] == [
        ROWS,
        ROWS,
        "",  # a scalar
    ]
    assert sharding(only(module, "broadcast")) == ROWS


def test_one_device_and_open_sizes_are_left_as_they_are():
    text = """func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
      %s = sdy.sharding_constraint %x <@mesh, [{"x"}, {}]> : tensor<8x4xf32>
      %r = stablehlo.sine %s : tensor<8x4xf32>
      return %r : tensor<8x4xf32>
    }"""
    assert sharding(only(program(text), "sine")) == ROWS
    assert not sharding(only(program(text, 1), "sine"))
    assert not sharding(only(program(text.replace("tensor<8x", "tensor<?x")), "sine"))


def test_calls_are_put_in_place_if_the_program_stays_small(monkeypatch: pytest.MonkeyPatch):
    text = f"""func.func @main({X}) -> tensor<8x4xf32> {{
      %a = call @f(%x) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      %b = call @f(%a) : (tensor<8x4xf32>) -> tensor<8x4xf32>
      return %b : tensor<8x4xf32>
    }}
    func.func private @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {{
      %r = stablehlo.sine %x : tensor<8x4xf32>
      return %r : tensor<8x4xf32>
    }}"""
    module = program(text)
    assert [sharding(i) for i in module.entry.instructions if i.opcode == "sine"] == [ROWS] * 2
    monkeypatch.setattr(propagation, "MOST_OPS", 6)
    with pytest.warns(IngotWarning, match="more than 6 ops is divided only by the shardings"):
        module = program(text)
    assert len([i for i in module.entry.instructions if i.opcode == "call"]) == 2


def test_what_comes_of_an_unreduced_call_is_summed_once_by_who_asks():
    module = program(
        f"""func.func @main({X}) -> (tensor<4xf32>
            {{sdy.sharding = #sdy.sharding<@mesh, [{{}}], unreduced={{"x"}}>}}) {{
          %r = call @f(%x) : (tensor<8x4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }}
        func.func private @f(%x: tensor<8x4xf32>) -> tensor<4xf32> {{
          %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
            out_shardings=[<@mesh, [{{}}], unreduced={{"x"}}>] manual_axes={{"x", "y"}}
            (%l: tensor<4x4xf32>) {{
              %s = stablehlo.slice %l [0:1, 0:4] : (tensor<4x4xf32>) -> tensor<1x4xf32>
              %t = stablehlo.reshape %s : (tensor<1x4xf32>) -> tensor<4xf32>
              sdy.return %t : tensor<4xf32>
            }} : (tensor<8x4xf32>) -> tensor<4xf32>
          return %r : tensor<4xf32>
        }}"""
    )
    division = partition(module, 4)
    assert division.results[0].summands == (0, 0, 1, 1)
    assert "all-reduce" not in print_module(module)


def test_composites_of_known_ops_are_propagated_through():
    module = program(
        f"""func.func @main({X}) -> (tensor<8x4xf32>, tensor<8x2xf32>, tensor<8x2xi32>) {{
          %e = stablehlo.composite "chlo.erf_inv" %x {{decomposition = @f}}
            : (tensor<8x4xf32>) -> tensor<8x4xf32>
          %v, %i = stablehlo.composite "chlo.top_k" %e
            {{composite_attributes = {{k = 2 : i64, largest = true}}, decomposition = @g}}
            : (tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>)
          return %e, %v, %i : tensor<8x4xf32>, tensor<8x2xf32>, tensor<8x2xi32>
        }}
        func.func private @f(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {{
          return %x : tensor<8x4xf32>
        }}
        func.func private @g(%x: tensor<8x4xf32>) -> (tensor<8x2xf32>, tensor<8x2xi32>) {{
          %v = stablehlo.slice %x [0:8, 0:2] : (tensor<8x4xf32>) -> tensor<8x2xf32>
          %i = stablehlo.constant dense<0> : tensor<8x2xi32>
          return %v, %i : tensor<8x2xf32>, tensor<8x2xi32>
        }}"""
    )
    assert sharding(only(module, "topk")) == f"{{{ROWS}, {ROWS}}}"
    assert [one.tiles for one in partition(module, 4).results] == [(2, 1)] * 3


def test_loops_say_how_all_of_their_state_is_divided():
    module = program(
        f"""func.func @main({X}) -> tensor<8x4xf32> {{
          %zero = stablehlo.constant dense<0> : tensor<i32>
          %r:2 = stablehlo.while(%i = %zero, %a = %x) : tensor<i32>, tensor<8x4xf32>
          cond {{
            %n = stablehlo.constant dense<3> : tensor<i32>
            %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
            stablehlo.return %p : tensor<i1>
          }} do {{
            %one = stablehlo.constant dense<1> : tensor<i32>
            %j = stablehlo.add %i, %one : tensor<i32>
            %b = stablehlo.sine %a : tensor<8x4xf32>
            stablehlo.return %j, %b : tensor<i32>, tensor<8x4xf32>
          }}
          return %r#1 : tensor<8x4xf32>
        }}"""
    )
    assert sharding(only(module, "while")) == f"{{{{replicated}}, {ROWS}}}"
    assert partition(module, 4).results[0].tiles == (2, 1)


def test_axes_that_do_not_divide_a_size_are_left_out():
    module = program(
        """func.func @main(%x: tensor<6x4xf32>) -> tensor<6x4xf32> {
          %c = sdy.sharding_constraint %x <@mesh, [{"x", "y"}, {}]> : tensor<6x4xf32>
          %r = stablehlo.sine %c : tensor<6x4xf32>
          return %r : tensor<6x4xf32>
        }"""
    )
    assert sharding(only(module, "sine")) == ROWS


def test_a_value_inside_of_partly_manual_code_says_which_axes_are():
    module = program(
        f"""func.func @main({X}) -> tensor<8x4xf32> {{
          %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>]
            out_shardings=[<@mesh, [{{"x"}}, {{"y"}}]>] manual_axes={{"x"}} (%l: tensor<4x4xf32>) {{
              %i = stablehlo.iota dim = 1 : tensor<4x4xf32>
              %s = stablehlo.sine %l : tensor<4x4xf32>
              %t = stablehlo.multiply %s, %i : tensor<4x4xf32>
              %u = sdy.manual_computation(%t) in_shardings=[<@mesh, [{{}}, {{"y"}}]>]
                out_shardings=[<@mesh, [{{}}, {{"y"}}]>] manual_axes={{"y"}}
                (%m: tensor<4x2xf32>) {{
                  %n = stablehlo.negate %m : tensor<4x2xf32>
                  sdy.return %n : tensor<4x2xf32>
                }} : (tensor<4x4xf32>) -> tensor<4x4xf32>
              sdy.return %u : tensor<4x4xf32>
            }} : (tensor<8x4xf32>) -> tensor<8x4xf32>
          return %r : tensor<8x4xf32>
        }}"""
    )
    inside = "{devices=[1,2,2]<=[2,2]T(1,0) last_tile_dims={manual}}"
    assert [sharding(only(module, name)) for name in ("sine", "iota")] == [inside] * 2
    division = partition(module, 4)
    assert division.results[0].tiles == (2, 2)
    assert "all-" not in print_module(module)


def test_a_reshard_is_taken_apart_into_single_exchanges():
    module = program(
        f"""func.func @main({X}) -> (tensor<8x4xf32>
            {{sdy.sharding = #sdy.sharding<@mesh, [{{}}, {{"x"}}]>}}) {{
          return %x : tensor<8x4xf32>
        }}"""
    )
    partition(module, 4)
    text = print_module(module)
    assert text.count(" all-to-all(") == 1
    assert " all-gather(" not in text

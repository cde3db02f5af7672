# SPDX-License-Identifier: Apache-2.0
"""StableHLO as MLIR text: collectives, transfers, tokens, Shardy."""

from __future__ import annotations

import numpy as np
import pytest
from tests.formats.mlir_text import function, only

from ingot.evaluator import evaluate
from ingot.hlo.module import Module
from ingot.semantics.foreign_calls import call_site
from ingot.support.diagnostics import UnsupportedError


def test_collectives() -> None:
    module = function(
        """(%x: tensor<4x6xf32>)
           -> (tensor<4x6xf32>, tensor<8x6xf32>, tensor<8x3xf32>, tensor<4x6xf32>)""",
        """
        %a = "stablehlo.all_reduce"(%x) <{
          channel_handle = #stablehlo.channel_handle<handle = 3, type = 1>,
          replica_groups = dense<[[0, 1], [2, -1]]> : tensor<2x2xi64>, use_global_device_ids
        }> ({
          ^bb0(%l: tensor<f32>, %r: tensor<f32>):
            %s = stablehlo.add %l, %r : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) : (tensor<4x6xf32>) -> tensor<4x6xf32>
        %b = "stablehlo.all_gather"(%x) <{all_gather_dim = 0 : i64,
          replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
          : (tensor<4x6xf32>) -> tensor<8x6xf32>
        %c = "stablehlo.all_to_all"(%x) <{split_dimension = 1 : i64, concat_dimension = 0 : i64,
          split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
          : (tensor<4x6xf32>) -> tensor<8x3xf32>
        %d = "stablehlo.collective_permute"(%x) <{source_target_pairs = dense<[[0, 1], [1, 0]]>
          : tensor<2x2xi64>}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
        return %a, %b, %c, %d : tensor<4x6xf32>, tensor<8x6xf32>, tensor<8x3xf32>, tensor<4x6xf32>
        """,
    )
    reduced = only(module, "all-reduce").attributes
    assert (reduced.channel_id, reduced.replica_groups) == (3, ((0, 1), (2,)))
    assert reduced.use_global_device_ids
    assert only(module, "all-gather").attributes.channel_id is None
    permuted = only(module, "collective-permute").attributes
    assert permuted.source_target_pairs == ((0, 1), (1, 0))


def test_pieces_of_all_to_all_go_to_the_other_dimension() -> None:
    """One device keeps its own pieces: split columns are joined as rows."""
    module = function(
        "(%x: tensor<2x4xi32>) -> tensor<4x2xi32>",
        """
        %c = "stablehlo.all_to_all"(%x) <{split_dimension = 1 : i64, concat_dimension = 0 : i64,
          split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}>
          : (tensor<2x4xi32>) -> tensor<4x2xi32>
        return %c : tensor<4x2xi32>
        """,
    )
    swap = only(module, "all-to-all")
    module.entry.replace(swap, swap.operands[0])
    module.entry.remove(swap)
    x = np.arange(8, dtype=np.int32).reshape(2, 4)
    expected = np.concatenate(np.split(x, 2, 1), 0)
    np.testing.assert_array_equal(evaluate(module, [x]), expected)


def test_transfers_and_tokens() -> None:
    module = function(
        "(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, !stablehlo.token)",
        """
        %t = stablehlo.create_token : !stablehlo.token
        %u = "stablehlo.send"(%x, %t) <{
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          is_host_transfer = false}> : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
        %y, %v = "stablehlo.recv"(%u) <{
          channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,
          is_host_transfer = false}> : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
        %z, %w = "stablehlo.infeed"(%v) <{infeed_config = "c"}>
          : (!stablehlo.token) -> (tensor<4xf32>, !stablehlo.token)
        %o = "stablehlo.outfeed"(%x, %w) <{outfeed_config = ""}>
          : (tensor<4xf32>, !stablehlo.token) -> !stablehlo.token
        %a = stablehlo.after_all %o, %w : !stablehlo.token
        return %y, %z, %a : tensor<4xf32>, tensor<4xf32>, !stablehlo.token
        """,
    )
    assert str(only(module, "infeed").shape) == "((f32[4]{0}), token[])"
    assert only(module, "send-done").operands[0] is only(module, "send")


def test_a_manual_computation_is_xlas_custom_calls() -> None:
    module = function(
        """(%x: tensor<8x4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"y"}, {}]>})
           -> tensor<8x4xf32>""",
        """
        %r = sdy.manual_computation(%x) in_shardings=[<@mesh, [{"y"}, {"x"}]>]
          out_shardings=[<@mesh, [{"y"}, {"x"}]>] manual_axes={"x", "y"} (%l: tensor<4x2xf32>) {
            %n = stablehlo.negate %l : tensor<4x2xf32>
            sdy.return %n : tensor<4x2xf32>
          } : (tensor<8x4xf32>) -> tensor<8x4xf32>
        return %r : tensor<8x4xf32>
        """,
        'sdy.mesh @mesh = <["x"=2, "y"=2]>',
    )
    sharding = "{devices=[2,1,2]<=[2,2]T(1,0) last_tile_dim_replicate}"
    assert module.entry.parameters[0].extra["sharding"] == sharding
    root = module.entry.root
    assert root.attributes.custom_call_target == "SPMDShardToFullShape"
    assert root.extra["sharding"] == "{devices=[2,2]<=[2,2]T(1,0)}"


@pytest.mark.parametrize("devices", [1, 2])
def test_a_sharding_constraint(devices: int) -> None:
    module = function(
        "(%x: tensor<8xf32>) -> tensor<8xf32>",
        """%r = sdy.sharding_constraint %x <@mesh, [{"x"}]> : tensor<8xf32>
           return %r : tensor<8xf32>""",
        f'sdy.mesh @mesh = <["x"={devices}]>',
    )
    assert (module.entry.root.opcode == "parameter") == (devices == 1)


def test_a_result_does_not_change_the_sharding_of_what_it_returns() -> None:
    module = function(
        """(%x: tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}]>})
           -> (tensor<8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>})""",
        "return %x : tensor<8xf32>",
        'sdy.mesh @mesh = <["x"=2]>',
    )
    assert module.entry.parameters[0].extra["sharding"] == "{devices=[2]<=[2]}"
    assert module.entry.root.opcode == "copy"
    assert module.entry.root.extra["sharding"] == "{replicated}"


def test_a_config_may_be_any_bytes() -> None:
    module = function(
        "(%x: tensor<8xf32>) -> tensor<8xf32>",
        r"""%r = stablehlo.custom_call @f(%x) {backend_config = "a\FFb"}
             : (tensor<8xf32>) -> tensor<8xf32>
            return %r : tensor<8xf32>""",
    )
    assert call_site(module.entry.root).config.encode("utf-8", "surrogateescape") == b"a\xffb"


RAGGED = """
  %r = "stablehlo.custom_call"(%x, %o, %i, %i, %i, %i) <{{
    call_target_name = "ragged_all_to_all", api_version = {version} : i32, backend_config = {config}
  }}> : (tensor<5x3xf32>, tensor<7x3xf32>, tensor<2xi32>, tensor<2xi32>, tensor<2xi32>,
         tensor<2xi32>) -> tensor<7x3xf32>
  return %r : tensor<7x3xf32>
"""


def ragged(config: str, version: int = 4) -> Module:
    signature = "(%x: tensor<5x3xf32>, %o: tensor<7x3xf32>, %i: tensor<2xi32>) -> tensor<7x3xf32>"
    return function(signature, RAGGED.format(config=config, version=version))


def test_ragged_all_to_all_is_a_custom_call_of_jax() -> None:
    groups = "replica_groups = dense<[[0, 1], [3, 2]]> : tensor<2x2xi64>"
    op = only(ragged(f"{{channel_id = 1 : i64, {groups}}}"), "ragged-all-to-all")
    assert op.attributes.replica_groups == ((0, 1), (3, 2))
    assert op.attributes.channel_id == 1
    assert str(op.shape) == "f32[7,3]{1,0}"
    alone = only(ragged(f"{{{groups}}}"), "ragged-all-to-all")
    assert alone.attributes.channel_id is None


@pytest.mark.parametrize(
    ("config", "version"), [('"text"', 1), ("{}", 4), ("{channel_id = 1 : i64}", 4)]
)
def test_ragged_all_to_all_without_groups_is_refused(config: str, version: int) -> None:
    with pytest.raises(UnsupportedError, match="no groups"):
        ragged(config, version)


ORDERED = """
  %s = stablehlo.sine %x : tensor<4xf32>
  %c = stablehlo.cosine %x : tensor<4xf32>
  %f = "stablehlo.async_start"(%x) ({
    ^bb0(%v: tensor<4xf32>):
      %g = "stablehlo.all_gather"(%v) <{all_gather_dim = 0 : i64,
        replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<4xf32>) -> tensor<8xf32>
      stablehlo.return %g : tensor<8xf32>
  }) : (tensor<4xf32>) -> !stablehlo.future<tensor<8xf32>>
  %d = "stablehlo.async_done"(%f) : (!stablehlo.future<tensor<8xf32>>) -> tensor<8xf32>
  stablehlo.custom_call @control_dep(ORDER) {has_side_effect = true} : (TYPES) -> ()
  return %s, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<8xf32>
"""


@pytest.mark.parametrize(
    ("order", "opcodes"),
    [
        ("%c, %s", ["cosine", "sine"]),
        ("%s, %f", ["sine", "all-gather"]),
        ("%d, %s", ["opt-barrier", "sine"]),
        ("%f, %s", ["all-gather", "sine"]),
        ("%s, %d", ["sine", "opt-barrier"]),
        ("%f, %d", ["all-gather", "opt-barrier"]),
    ],
)
def test_an_order_names_the_start_or_the_end_of_a_collective(
    order: str, opcodes: list[str]
) -> None:
    small, large = "tensor<4xf32>", "tensor<8xf32>"
    kinds = {"%c": small, "%s": small, "%f": f"!stablehlo.future<{large}>", "%d": large}
    types = ", ".join(kinds[one] for one in order.split(", "))
    module = function(
        f"(%x: {small}) -> ({small}, {small}, {large})",
        ORDERED.replace("ORDER", order).replace("TYPES", types),
    )
    notes = [one for one in module.entry.instructions if one.opcode == "custom-call"]
    found = [operand.opcode for note in notes for operand in note.operands]
    assert found == opcodes
    is_named = not {"%f", "%d"}.isdisjoint(order.split(", "))
    assert ("opt-barrier" in module.entry.opcodes) == is_named

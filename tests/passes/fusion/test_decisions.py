# SPDX-License-Identifier: Apache-2.0
"""Reasons that fusion gives, each from a program that calls for it; results, cycles, updates."""

from __future__ import annotations

import pytest
from tests.passes.fusion.programs import fuse, kernels_of

from ingot.passes.fusion import legality

ROWS = """x = f32[64,128] parameter(0)
  zero = f32[] constant(0)
  """

POSITIONS = "\n".join(
    f"      i{n + 1} = s32[2000] {'add' if n % 2 else 'multiply'}(i{n}, j)" for n in range(13)
)

NOT_FUSED = {
    "positions of a gather, and would be computed again for every row": f"""
      x = f32[16,300] parameter(0)
      i0 = s32[2000] parameter(1)
      j = s32[2000] parameter(2)
{POSITIONS}
      ROOT g = f32[16,2000] gather(x, i13), offset_dims={{0}}, collapsed_slice_dims={{1}}, \
start_index_map={{1}}, index_vector_dim=1, slice_sizes={{16,1}}""",
    "it updates its operand in place": """x = f32[8] parameter(0)
      u = f32[2] parameter(1)
      i = s32[] parameter(2)
      d = f32[8] dynamic-update-slice(x, u, i)
      ROOT n = f32[8] negate(d)""",
    "it reads other elements of an array that is updated in place": """x = f32[8] parameter(0)
      i = s32[] parameter(1)
      s = f32[4] slice(x), slice={[1:5]}
      ROOT d = f32[8] dynamic-update-slice(x, s, i)""",
    "gathers would compute it for each element that they read, from several arrays": """
      x = f32[300] parameter(0)
      y = f32[300] parameter(1)
      i = s32[5000] parameter(2)
      q = f32[300] divide(x, y)
      ROOT g = f32[5000] gather(q, i), offset_dims={}, collapsed_slice_dims={0}, \
start_index_map={0}, index_vector_dim=1, slice_sizes={1}""",
    "gathers would choose among its parts for each piece that they read": """
      x = f32[32,32,32,3] parameter(0)
      i = s32[32,2] parameter(1)
      z = f32[] constant(0)
      p = f32[32,40,40,3] pad(x, z), padding=0_0x4_4x4_4x0_0
      ROOT g = f32[32,32,32,3] gather(p, i), offset_dims={1,2,3}, collapsed_slice_dims={}, \
start_index_map={1,2}, operand_batching_dims={0}, start_indices_batching_dims={0}, \
index_vector_dim=1, slice_sizes={1,32,32,3}""",
    "narrow parts beside each other would be gathered a few lanes at a time": """
      x = f32[300,2] parameter(0)
      i = s32[5000] parameter(1)
      w = f32[5000,2] parameter(2)
      g = f32[5000,2] gather(x, i), offset_dims={1}, collapsed_slice_dims={0}, \
start_index_map={0}, index_vector_dim=1, slice_sizes={1,2}
      m = f32[5000,2] multiply(g, w)
      ROOT c = f32[5000,4] concatenate(m, w), dimensions={1}""",
    "broadcast twice, most of its values would be computed in vain": """x = f32[8,3] parameter(0)
      z = f32[] constant(0)
      e = f32[8,3] multiply(x, x)
      p = f32[16,3] pad(e, z), padding=0_1_1x0_0
      n = f32[16,3] negate(p)
      ROOT q = f32[32,3] pad(n, z), padding=0_1_1x0_0""",
    "spread out twice, its lanes would be put together element by element": """
      x = f32[8] parameter(0)
      y = f32[7] parameter(1)
      z = f32[] constant(0)
      p = f32[15] pad(x, z), padding=0_0_1
      q = f32[15] pad(y, z), padding=1_1_1
      a = f32[15] add(p, q)
      ROOT r = f32[29] pad(a, z), padding=0_0_1""",
    "expensive, and tiny rows leave no time to compute it one by one": """x = f32[9,8] parameter(0)
      zero = f32[] constant(0)
      s = f32[9] reduce(x, zero), dimensions={1}, to_apply=add
      ROOT t = f32[9] tanh(s)""",
    "lanes run along its results, and in the rest of the kernel along another axis": """
      x = f32[32,32] parameter(0)
      zero = f32[] constant(0)
      s = f32[32] reduce(x, zero), dimensions={0}, to_apply=add
      b = f32[32,32] broadcast(s), dimensions={0}
      ROOT m = f32[32,32] multiply(b, x)""",
    "a gather under a pad or concatenate would read for every element": """t = f32[9] parameter(0)
      i = s32[4] parameter(1)
      g = f32[4] gather(t, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0},
        index_vector_dim=1, slice_sizes={1}
      ROOT c = f32[8] concatenate(g, g), dimensions={0}""",
    "a kOutput kernel holds no reduction": """x = f32[8,4] parameter(0)
      w = f32[4,8] parameter(1)
      zero = f32[] constant(0)
      s = f32[8] reduce(x, zero), dimensions={1}, to_apply=add
      d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      sb = f32[8,8] broadcast(s), dimensions={0}
      ROOT a = f32[8,8] add(d, sb)""",
    "a reduction would compute it again for each of its results": """h = f32[100] parameter(0)
      w = f32[100,64] parameter(1)
      zero = f32[] constant(0)
      t = f32[100] tanh(h)
      tb = f32[100,64] broadcast(t), dimensions={0}
      m = f32[100,64] multiply(tb, w)
      ROOT r = f32[64] reduce(m, zero), dimensions={0}, to_apply=add""",
    "it is read at other indices than it is computed at": ROWS + """
      s = f32[128] reduce(x, zero), dimensions={0}, to_apply=add
      r = f32[128] reverse(s), dimensions={0}
      ROOT a = f32[128] add(s, r)""",
    "it varies along other axes than the reductions already there": ROWS + """
      s = f32[128] reduce(x, zero), dimensions={0}, to_apply=add
      sb = f32[64,128] broadcast(s), dimensions={1}
      m = f32[64,128] multiply(x, sb)
      ROOT r = f32[64] reduce(m, zero), dimensions={1}, to_apply=add""",
    "it reduces outer axes: rows of its consumer could not be finished in turn": ROWS + """
      s = f32[128] reduce(x, zero), dimensions={0}, to_apply=add
      sb = f32[64,128] broadcast(s), dimensions={1}
      ROOT m = f32[64,128] multiply(x, sb)""",
    "only 4 rows: too few to share between threads": """x = f32[4,100000] parameter(0)
      zero = f32[] constant(0)
      s = f32[4] reduce(x, zero), dimensions={1}, to_apply=add
      sb = f32[4,100000] broadcast(s), dimensions={0}
      ROOT m = f32[4,100000] multiply(x, sb)""",
    "another reduction needs it, and there are too few rows to share between threads": """
      x = f32[40000] parameter(0)
      zero = f32[] constant(0)
      s = f32[] reduce(x, zero), dimensions={0}, to_apply=add
      c = f32[] tanh(s)
      sb = f32[40000] broadcast(c), dimensions={}
      d = f32[40000] subtract(x, sb)
      ROOT r = f32[] reduce(d, zero), dimensions={0}, to_apply=add""",
    "a kInput kernel holds no further contraction": """x = f32[8,4] parameter(0)
      w = f32[4,8] parameter(1)
      zero = f32[] constant(0)
      d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT s = f32[8] reduce(d, zero), dimensions={1}, to_apply=add""",
    "the epilogue does not read the product element by element": """x = f32[8,4] parameter(0)
      w = f32[4,8] parameter(1)
      d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      ROOT r = f32[8,8] reverse(d), dimensions={0}""",
    "expensive, and read at other indices than it is computed at": """x = f32[8] parameter(0)
      e = f32[8] exponential(x)
      r = f32[8] reverse(e), dimensions={0}
      ROOT a = f32[8] add(e, r)""",
    "expensive, and would be recomputed for every row": """x = f32[64] parameter(0)
      y = f32[32,64] parameter(1)
      e = f32[64] exponential(x)
      eb = f32[32,64] broadcast(e), dimensions={1}
      ROOT a = f32[32,64] add(y, eb)""",
    "writing it only moves elements": """x = f32[8] parameter(0)
      r = f32[8] reverse(x), dimensions={0}
      n = f32[8] negate(r)
      ROOT t = (f32[8], f32[8]) tuple(n, r)""",
    "a kernel with a variadic reduction has no further results": """x = f32[8,8] parameter(0)
      e = f32[8,8] exponential(x)
      i = s32[8,8] iota(), iota_dimension=1
      low = f32[] constant(-inf)
      none = s32[] constant(0)
      a = (f32[8], s32[8]) reduce(e, i, low, none), dimensions={1}, to_apply=argmax
      v = f32[8] get-tuple-element(a), index=0
      w = s32[8] get-tuple-element(a), index=1
      ROOT t = (f32[8,8], f32[8], s32[8]) tuple(e, v, w)""",
    "it is better computed where the product is made": """x = f32[8,4] parameter(0)
      w = f32[4,8] parameter(1)
      d = f32[8,8] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
      e = f32[8,8] exponential(d)
      n = f32[8,8] negate(e)
      s = f32[8,8] tanh(n)
      ROOT t = (f32[8,8], f32[8,8]) tuple(e, s)""",
    "its shape is not that of the kernel's results": """x = f32[8] parameter(0)
      e = f32[8] exponential(x)
      eb = f32[8,64] broadcast(e), dimensions={0}
      n = f32[8,64] negate(eb)
      ROOT t = (f32[8], f32[8,64]) tuple(e, n)""",
    "an in-place kernel has one result": """x = f32[8] parameter(0)
      u = f32[2] parameter(1)
      i = s32[] parameter(2)
      e = f32[2] exponential(u)
      d = f32[8] dynamic-update-slice(x, e, i)
      ROOT t = (f32[8], f32[2]) tuple(d, e)""",
    "the kernel would wait for itself": """x = f32[16] parameter(0)
      i = s32[] parameter(1)
      e = f32[16] exponential(x)
      d = f32[16] dynamic-update-slice(x, e, i)
      s = f32[16] sine(d)
      ROOT a = f32[16] add(e, s)""",
}  # fmt: skip


@pytest.mark.parametrize("reason", NOT_FUSED)
def test_the_reason_is_given(reason: str) -> None:
    given = fuse(NOT_FUSED[reason]).reasons(fused=False)
    assert any(item.startswith(reason) for item in given)


@pytest.mark.parametrize("reason", NOT_FUSED)
def test_unfused_programs_give_the_same_results(reason: str) -> None:
    assert kernels_of(NOT_FUSED[reason])


@pytest.mark.parametrize(("leaves", "kernels"), [(0, 2), (9, 1)])
def test_full_kernels_take_leaves_alone(
    leaves: int, kernels: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(legality, "MAX_MEMBERS", 2)
    monkeypatch.setattr(legality, "MAX_LEAVES", leaves)
    text = """x = f32[8] parameter(0)
      k = f32[] constant(3)
      row = f32[8] broadcast(k), dimensions={}
      a = f32[8] multiply(x, row)
      b = f32[8] cosine(a)
      ROOT c = f32[8] tanh(b)"""
    fused = fuse(text)
    reason = set() if leaves else {"the kernel already has 2 instructions"}
    assert fused.reasons(fused=False) == reason
    assert len(fused.kernels) == kernels


def test_full_kernels_take_no_more_than_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(legality, "MAX_MEMBERS", 2)
    text = """x = f32[8] parameter(0)
      y = f32[8] sine(x)
      a = f32[8] add(x, y)
      b = f32[8] cosine(a)
      ROOT c = f32[8] tanh(b)"""
    assert len(fuse(text).kernels) == 2


def test_cheap_values_are_recomputed_and_dear_ones_are_not() -> None:
    text = """x = f32[64,128] parameter(0)
      b = f32[64,128] OP(x)
      zero = f32[] constant(0)
      r = f32[64] reduce(b, zero), dimensions={1}, to_apply=add
      s = f32[128] reduce(b, zero), dimensions={0}, to_apply=add
      ROOT t = (f32[64], f32[128]) tuple(r, s)"""
    cheap, dear = (fuse(text.replace("OP", op)) for op in ("negate", "tanh"))
    (reason,) = cheap.reasons(fused=True)
    assert reason == "cheap: recomputed in 2 kernels instead of a trip through memory"
    assert len(cheap.kernels) == 2
    computed = [i.opcode for kernel in dear.kernels for i in kernel.attributes.calls.post_order()]
    assert computed.count("tanh") == 1


MOMENTS = """x = f32[64,128] parameter(0)
      w = f32[64,128] parameter(1)
      mean = f32[64] parameter(2)
      mb = f32[64,128] broadcast(mean), dimensions={0}
      less = f32[64,128] subtract(x, SECOND)
      zero = f32[] constant(0)
      one = f32[64] reduce(less, zero), dimensions={1}, to_apply=add
      two = f32[128] reduce(less, zero), dimensions={0}, to_apply=add
      back = f32[64,128] reverse(less), dimensions={0}
      three = f32[64] reduce(back, zero), dimensions={1}, to_apply=max
      across = f32[128,64] transpose(less), dimensions={1,0}
      four = f32[128] reduce(across, zero), dimensions={1}, to_apply=max
      all = f32[] reduce(less, zero), dimensions={0,1}, to_apply=max
      ROOT t = (f32[64], f32[128], f32[64], f32[128], f32[]) tuple(one, two, three, four, all)"""


@pytest.mark.parametrize(("second", "in_memory"), [("mb", False), ("w", True)])
def test_many_kernels_recompute_what_takes_no_more_to_read(second: str, in_memory: bool) -> None:
    """A value less a mean of its row is computed from one array, a difference from two."""
    made = fuse(MOMENTS.replace("SECOND", second))
    computed = [i.opcode for kernel in made.kernels for i in kernel.attributes.calls.post_order()]
    assert (computed.count("subtract") == 1) == in_memory
    assert kernels_of(MOMENTS.replace("SECOND", second))


@pytest.mark.parametrize(("ops", "kernels"), [(4, 1), (13, 2)])
def test_long_work_is_not_done_at_two_indices_for_each_point(ops: int, kernels: int) -> None:
    chain = "".join(f"v{n + 1} = f32[64,64] divide(x, v{n})\n" for n in range(ops))
    text = f"""x = f32[64,64] parameter(0)
      y = f32[64,2] parameter(1)
      v0 = f32[64,64] negate(x)
      {chain}
      wide = f32[64,64,2] broadcast(v{ops}), dimensions={{0,1}}
      more = f32[64,64,2] broadcast(y), dimensions={{0,2}}
      m = f32[64,64,2] multiply(wide, more)
      zero = f32[] constant(0)
      r = f32[64,2] reduce(m, zero), dimensions={{1}}, to_apply=add
      s = f32[64,2] reduce(m, zero), dimensions={{0}}, to_apply=add
      ROOT t = f32[64,2] subtract(r, s)"""
    made = fuse(text)
    assert len(made.kernels) == kernels
    # What goes through memory is the smaller array, without the broadcast.
    first = made.kernels[0].shape.dims
    assert first == ((64, 2) if kernels == 1 else (64, 64))


def test_parts_of_a_concatenation_are_computed_once_for_each_point() -> None:
    chain = "".join(f"v{n + 1} = f32[64] divide(x, v{n})\n" for n in range(13))
    text = f"""x = f32[64] parameter(0)
      v0 = f32[64] negate(x)
      {chain}
      a = f32[10] slice(v13), slice={{[54:64]}}
      b = f32[54] slice(v13), slice={{[0:54]}}
      rolled = f32[64] concatenate(a, b), dimensions={{0}}
      ROOT r = f32[64] WHAT"""
    assert len(fuse(text.replace("WHAT", "negate(rolled)")).kernels) == 1
    assert len(fuse(text.replace("WHAT", "add(rolled, v13)")).kernels) == 2


@pytest.mark.parametrize(("results", "kernels"), [(8, 1), (96, 2)])
def test_a_concatenated_vector_is_not_computed_for_each_result(results: int, kernels: int) -> None:
    text = f"""x = f32[32] parameter(0)
      y = f32[32] parameter(1)
      w = f32[{results},64] parameter(2)
      a = f32[32] multiply(x, y)
      b = f32[32] subtract(x, y)
      c = f32[32] multiply(a, b)
      d = f32[32] add(a, c)
      both = f32[64] concatenate(c, d), dimensions={{0}}
      wide = f32[{results},64] broadcast(both), dimensions={{1}}
      m = f32[{results},64] multiply(wide, w)
      zero = f32[] constant(0)
      ROOT r = f32[{results}] reduce(m, zero), dimensions={{1}}, to_apply=add"""
    made = fuse(text)
    assert len(made.kernels) == kernels
    # The whole vector goes through memory, and its parts do not.
    assert made.kernels[0].shape.dims == ((8,) if kernels == 1 else (64,))


def test_several_results_of_one_kernel() -> None:
    text = """x = f32[100] parameter(0)
      e = f32[100] exponential(x)
      n = f32[100] negate(e)
      ROOT t = (f32[100], f32[100]) tuple(e, n)"""
    fused = fuse(text)
    (kernel,) = fused.kernels
    assert len(kernel.shape.elements) == 2
    assert fused.reasons(fused=True) == {"computed there anyway: an extra result"}
    assert len(kernels_of(text)) == 1


def test_a_row_sum_is_an_extra_result_of_what_uses_it() -> None:
    text = """x = f32[64,128] parameter(0)
      zero = f32[] constant(0)
      s = f32[64] reduce(x, zero), dimensions={1}, to_apply=add
      sb = f32[64,128] broadcast(s), dimensions={0}
      d = f32[64,128] divide(x, sb)
      ROOT t = (f32[64,128], f32[64]) tuple(d, s)"""
    assert len(kernels_of(text)) == 1


def test_a_diamond_through_a_kernel_of_another_kind_makes_no_cycle() -> None:
    """e feeds d and a; a feeds on d: e and a in one kernel would wait for d, which waits for e."""
    fused = fuse(NOT_FUSED["the kernel would wait for itself"])
    home = {name: kernel for kernel in fused.kernels for name in _names(kernel)}
    assert home["e"] is not home["a"]
    assert len(fused.kernels) == 3


def _names(kernel) -> list[str]:
    inside = kernel.attributes.calls.post_order()
    return [i.name.split(".")[0] for i in inside if i.opcode != "parameter"]


def test_an_update_in_place_computes_its_update_on_the_way() -> None:
    text = """x = f32[8,4] parameter(0)
      u = f32[2,4] parameter(1)
      i = s32[] parameter(2)
      z = s32[] constant(0)
      e = f32[2,4] exponential(u)
      ROOT d = f32[8,4] dynamic-update-slice(x, e, i, z)"""
    fused = fuse(text)
    (kernel,) = fused.kernels
    assert kernel.attributes.kind == "kCustom"
    assert {"exponential", "dynamic-update-slice"} <= set(kernels_of(text)[0])


def _update_of_slice(start: int, index: int, stride: int = 1) -> str:
    """Return a program that adds to a part of an array which it reads by a slice."""
    return f"""x = f32[7,37] parameter(0)
      u = f32[7,18] parameter(1)
      zero = s32[] constant(0)
      i = s32[] constant({index})
      s = f32[7,18] slice(x), slice={{[0:7], [{start}:{start + 18 * stride}:{stride}]}}
      a = f32[7,18] add(s, u)
      ROOT d = f32[7,37] dynamic-update-slice(x, a, zero, i)"""


@pytest.mark.parametrize(("start", "index"), [(0, 0), (5, 5), (19, 19), (19, 30), (0, -3)], ids=str)
def test_an_update_may_read_the_elements_that_it_writes(start: int, index: int) -> None:
    # The last two: indices outside of the array are moved so that the update fits.
    assert len(kernels_of(_update_of_slice(start, index))) == 1


@pytest.mark.parametrize(
    ("start", "index", "stride"), [(1, 0, 1), (0, 1, 1), (19, 18, 1), (0, 0, 2)]
)
def test_an_update_reads_other_elements_before(start: int, index: int, stride: int) -> None:
    text = _update_of_slice(start, index, stride)
    assert "it reads other elements of an array that is updated in place" in fuse(text).reasons(
        fused=False
    )
    assert len(kernels_of(text)) == 2


def test_nothing_fusible_stays_outside() -> None:
    for body in NOT_FUSED.values():
        assert fuse(body).outside == set()


def test_reshapes_of_parameters_are_free() -> None:
    text = """x = f32[8,4] parameter(0)
      ROOT r = f32[32] reshape(x)"""
    assert fuse(text).kernels == []


def test_one_element_is_updated_when_all_is_read() -> None:
    """x[i] = x[i - 1] + y: a single element is written last, so x need not be copied."""
    text = """x = f32[8] parameter(0)
      i = s32[] parameter(1)
      one = s32[] constant(1)
      before = s32[] subtract(i, one)
      s = f32[1] dynamic-slice(x, before), dynamic_slice_sizes={1}
      e = f32[1] exponential(s)
      ROOT d = f32[8] dynamic-update-slice(x, e, i)"""
    assert len(fuse(text).kernels) == 1
    assert len(kernels_of(text)) == 1


def test_a_reshape_is_never_a_kernel_of_its_own() -> None:
    """It is a view of memory, also where many kernels would read its operand in other orders."""
    orders = ("0,1,2", "0,2,1", "1,0,2", "1,2,0", "2,0,1")
    text = "\n".join(
        [
            "x = f32[64,96] parameter(0) e = f32[64,96] exponential(x)",
            "r = f32[64,8,12] reshape(e) zero = f32[] constant(0)",
            *(
                f"t{n} = f32[{_permuted((64, 8, 12), order)}] transpose(r), dimensions={{{order}}} "
                f"s{n} = f32[{_permuted((64, 8, 12), order).split(',')[0]}] "
                f"reduce(t{n}, zero), dimensions={{1,2}}, to_apply=add"
                for n, order in enumerate(orders)
            ),
            "ROOT all = (f32[64], f32[64], f32[8], f32[8], f32[12]) tuple(s0, s1, s2, s3, s4)",
        ]
    )
    bodies = [kernel.attributes.calls for kernel in fuse(text).kernels]
    assert "reshape" not in [body.root.opcode for body in bodies]


def _permuted(sizes: tuple[int, ...], order: str) -> str:
    return ",".join(str(sizes[int(number)]) for number in order.split(","))


@pytest.mark.parametrize(("parts", "kernels"), [(13, 2), (14, 3)])
def test_a_stack_of_many_parts_is_not_put_together_in_several_kernels(
    parts: int, kernels: int
) -> None:
    """A sum of columns and what follows it read 14 stacked rows from memory; they choose of 13."""
    numbers = list(reversed(range(parts)))
    size = f"f32[{parts},512]"
    rows = "\n".join(
        f"r{i} = f32[1,512] slice(x), slice={{[{i}:{i + 1}], [0:512]}}" for i in numbers
    )
    text = f"""x = {size} parameter(0)
      zero = f32[] constant(0)
      {rows}
      s = {size} concatenate({", ".join(f"r{i}" for i in numbers)}), dimensions={{0}}
      t = f32[512] reduce(s, zero), dimensions={{0}}, to_apply=add
      b = {size} broadcast(t), dimensions={{1}}
      ROOT d = {size} divide(s, b)"""
    assert len(fuse(text).kernels) == kernels


def test_symbolic_sizes_are_compared_as_numbers() -> None:
    """Patches of a padded batch of any size: the padded images are computed before."""
    text = """x = f32[?n,34,30] parameter(0)
      i = s32[9216] parameter(1)
      z = f32[] constant(0)
      p = f32[?n,34,34] pad(x, z), padding=0_0x0_0x2_2
      r = f32[?n,1156] reshape(p)
      ROOT g = f32[?n,9216] gather(r, i), offset_dims={0}, collapsed_slice_dims={1}, \
start_index_map={1}, index_vector_dim=1, slice_sizes={?n,1}"""
    reason = "gathers would choose among its parts for each piece that they read"
    assert reason in fuse(text).reasons(fused=False)

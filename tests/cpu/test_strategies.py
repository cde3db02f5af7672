# SPDX-License-Identifier: Apache-2.0
"""The table of strategies: who takes what, and what the others say."""

from collections.abc import Mapping

import pytest
from tests.cpu.strategies import OWN

import ingot
from ingot.cpu.strategies.plans import LoopCode
from ingot.cpu.strategies.request import Request
from ingot.cpu.strategies.table import STRATEGIES, plan_kernel
from ingot.kernel.ir import Kernel, LoopKernel, general_kernel
from ingot.kernel.lowering import lower_fusion
from ingot.kernel.schedule import decide
from ingot.llvm.target import TargetSpec
from ingot.support.diagnostics import InternalError
from ingot.support.records import replace

WINDOW = "window={size=3x3 pad=1_1x1_1}"
IMAGES = "x = f32[2,12,12,64] parameter(0)"
ADD = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }"

PROGRAMS: Mapping[str, tuple[str, str]] = {
    "filter gradient": (
        "",
        f"{IMAGES}  g = f32[2,12,12,64] parameter(1)  ROOT r = f32[3,3,64,64] convolution(x, g),"
        " window={size=12x12 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf",
    ),
    "Winograd convolution": (
        "",
        "x = f32[8,56,56,64] parameter(0)  k = f32[3,3,64,64] parameter(1)"
        f"  ROOT r = f32[8,56,56,64] convolution(x, k), {WINDOW}, dim_labels=b01f_01io->b01f",
    ),
    "direct convolution": (
        "",
        f"{IMAGES}  k = f32[5,5,64,64] parameter(1)  ROOT r = f32[2,12,12,64] convolution(x, k),"
        " window={size=5x5 pad=2_2x2_2}, dim_labels=b01f_01io->b01f",
    ),
    "product": (
        "",
        "x = f32[64,64] parameter(0)  ROOT r = f32[64,64] dot(x, x),"
        " lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "contraction": (
        "",
        "x = f32[?n,64] parameter(0)  y = f32[64,64] parameter(1)  ROOT r = f32[?n,64] dot(x, y),"
        " lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "attention": (
        f"{ADD}\n\nmost {{ a = f32[] parameter(0)  b = f32[] parameter(1)"
        "  ROOT r = f32[] maximum(a, b) }",
        "q = f32[64,16] parameter(0)  k = f32[128,16] parameter(1)  v = f32[128,16] parameter(2)"
        "  s = f32[64,128] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}"
        "  low = f32[] constant(-inf)  z = f32[] constant(0)"
        "  g = f32[64] reduce(s, low), dimensions={1}, to_apply=most"
        "  gs = f32[64,128] broadcast(g), dimensions={0}  d = f32[64,128] subtract(s, gs)"
        "  p = f32[64,128] exponential(d)  t = f32[64] reduce(p, z), dimensions={1}, to_apply=add"
        "  ts = f32[64,128] broadcast(t), dimensions={0}  w = f32[64,128] divide(p, ts)"
        "  ROOT r = f32[64,16] dot(w, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
    ),
    "library reduction": (
        ADD,
        "x = f32[512,512] parameter(0)  z = f32[] constant(0)"
        "  ROOT r = f32[512] reduce(x, z), dimensions={1}, to_apply=add",
    ),
    "library iota": ("", "ROOT r = s32[8192] iota(), iota_dimension=0"),
    "box copies": (
        "",
        "x = f32[100,256] parameter(0)  y = f32[60,256] parameter(1)"
        "  ROOT r = f32[160,256] concatenate(x, y), dimensions={0}",
    ),
    "library gather or scatter": (
        "",
        "x = f32[4096] parameter(0)  i = s32[65536,1] parameter(1)"
        "  ROOT r = f32[65536] gather(x, i),"
        " offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1,"
        " slice_sizes={1}",
    ),
    "loops": ("", "x = f32[1000] parameter(0)  ROOT r = f32[1000] exponential(x)"),
    "sorting network": (
        "less { a = f32[] parameter(0) b = f32[] parameter(1)"
        " ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }",
        "x = f32[9,100] parameter(0)  ROOT r = f32[9,100] sort(x), dimensions={0}, to_apply=less",
    ),
    "sort by key": (
        "less { a = f32[] parameter(0) b = f32[] parameter(1)"
        " ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }",
        "x = f32[1000] parameter(0)  ROOT r = f32[1000] sort(x), dimensions={0}, to_apply=less",
    ),
    "merge sort": (
        "less { a = f32[] parameter(0) b = f32[] parameter(1)"
        " ROOT r = pred[] compare(a, b), direction=LT }",
        "x = f32[1000] parameter(0)  ROOT r = f32[1000] sort(x), dimensions={0}, to_apply=less",
    ),
    "Fourier transform": (
        "",
        "x = c64[64,64] parameter(0)  ROOT r = c64[64,64] fft(x), fft_type=FFT, fft_length={64}",
    ),
    "selection": (
        "",
        "x = f32[16,1000] parameter(0)  ROOT r = (f32[16,5], s32[16,5]) topk(x), k=5, largest=true",
    ),
}


def kernel_of(name: str) -> Kernel:
    helper, body = PROGRAMS[name]
    return lower_fusion(ingot.parse_hlo(f"HloModule m\n\n{helper}\n\nENTRY e {{ {body} }}").entry)


def test_programs_are_the_table():
    assert list(PROGRAMS) == [item.name for item in STRATEGIES]


@pytest.mark.parametrize("name", PROGRAMS)
def test_who_takes_it(name):
    """Each strategy takes its program; those before it that are asked refuse with a reason."""
    target = TargetSpec.at_level("avx512" if name == "box copies" else "avx2")
    kernel = kernel_of(name)
    planned = plan_kernel(kernel, target)
    before = []
    for item in STRATEGIES:
        if item.name == name:
            break
        if type(kernel) in item.kinds:
            before.append(item.name)
    plan = planned.plan
    # A network is loops as well, but not those of the kernel that was asked about.
    loops = plan.schedule if isinstance(plan, LoopCode) and plan.kernel is kernel else None
    assert planned.strategy == (name if loops is None else loops.strategy.name)
    asked = [strategy for strategy, _ in planned.refused]
    assert asked[: len(before)] == before
    assert (len(asked) > len(before)) == (loops is not None)
    assert all(reason[0].islower() or reason[0].isdigit() for _, reason in planned.refused)


def test_a_kernel_of_its_own_is_always_possible():
    """For each kind of kernel, of convolutions their general form, the last strategy takes all."""
    general = {name: general_kernel(kernel_of(name)) for name in PROGRAMS}
    for kind in {type(kernel) for kernel in general.values()}:
        *_, last = (item for item in STRATEGIES if kind in item.kinds)
        for kernel in [kernel for kernel in general.values() if type(kernel) is kind]:
            assert not isinstance(last.match(Request(kernel, TargetSpec.host())), str)
        assert last.name in {*OWN, "Fourier transform", "selection"}


def test_the_schedule_is_decided_once():
    request = Request(kernel_of("loops"), TargetSpec.host())
    assert request.loops is request.loops


def test_kernels_keep_their_reasons():
    helper, body = PROGRAMS["loops"]
    executable = ingot.compile(f"HloModule m\n\n{helper}\n\nENTRY e {{ {body} }}")
    (kernel,) = executable.kernels
    reasons = dict(kernel.refused)
    assert kernel.strategy == "lanes"
    assert reasons["library iota"] == "it does more than write the positions of an axis"
    assert reasons["square tiles"].startswith("not 1 to 4 loads go across the lanes")
    assert reasons["split reduction"] == "it is not one reduction, with what follows it"


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_strategies_make_is_valid(name: str) -> None:
    """In debug mode the kernels that no pass sees are verified: `tests.conftest.VERIFIED`."""
    helper, body = PROGRAMS[name]
    target = TargetSpec.at_level("avx512" if name == "box copies" else "avx2")
    executable = ingot.compile(f"HloModule m\n\n{helper}\n\nENTRY e {{ {body} }}", target=target)
    assert executable.inspection.context.debug == 1
    assert name in (executable.kernels[0].strategy, "loops")


SUM = (
    f"HloModule m {ADD} ENTRY e {{ x = f32[1048576] parameter(0)  y = f32[1048576] exponential(x)"
    "  z = f32[] constant(0)  ROOT r = f32[] reduce(y, z), dimensions={0}, to_apply=add }"
)
PADDED = (
    "HloModule m ENTRY e { x = f32[300,300] parameter(0)  z = f32[] constant(1)"
    "  p = f32[302,302] pad(x, z), padding=1_1x1_1  ROOT r = f32[302,302] exponential(p) }"
)


def _is_unnamed(kernel: LoopKernel) -> LoopKernel:
    """Return a kernel whose axes have the names of sizes, which is not valid."""
    first, *rest = kernel.passes
    axes = tuple(replace(axis, name=axis.name[1:]) for axis in first.axes)
    grid = tuple(replace(axis, name=axis.name[1:]) for axis in kernel.grid)
    return replace(kernel, grid=grid, passes=(replace(first, axes=axes), *rest))


@pytest.mark.parametrize(
    ("text", "made", "by"),
    [(SUM, "plain_fold", "split reduction"), (PADDED, "bands_of", "pieces")],
)
def test_kernels_that_schedules_hold_are_verified(
    text: str, made: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = getattr(decide, made)

    def wrong(*given):
        found = right(*given)
        if isinstance(found, LoopKernel):
            return _is_unnamed(found)
        band, *rest = found
        loop, *others = band.loops
        spoiled = replace(loop, kernel=_is_unnamed(loop.kernel))
        return (replace(band, loops=(spoiled, *others)), *rest)

    monkeypatch.setattr(decide, made, wrong)
    with pytest.raises(InternalError, match="axis_name") as raised:
        ingot.compile(text, target=TargetSpec.at_level("avx2"))
    assert raised.value.diagnostic.code == "INGOT0932"
    assert raised.value.diagnostic.pass_name == by

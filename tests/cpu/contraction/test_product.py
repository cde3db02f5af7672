# SPDX-License-Identifier: Apache-2.0
"""Plain products run in the library's drivers: every form and size, and only if they are plain."""

import numpy as np
import pytest
from tests.cpu.contraction.test_contraction import product

import ingot
from ingot.client import compile
from ingot.cpu.emit.product.call import product_call
from ingot.hlo.builder import Builder
from ingot.hlo.module import Module
from ingot.hlo.shape import Shape
from ingot.kernel.contraction.build import build_contraction_kernel
from ingot.kernel.contraction.micro_blocks import L2_ROWS_AHEAD
from ingot.kernel.product.product import plain_product
from ingot.llvm.machine_model import Vectors
from ingot.llvm.target import TargetSpec, host_levels

pytestmark = pytest.mark.fast_share(4)

LEVELS = [level for level in host_levels() if level != "plain"]
"""Without masked vectors there is no driver."""


def module(lhs, rhs, result, dtype="f32", batch=False, lhs_k=1, rhs_k=0):
    """Return the HLO of one dot; dimensions are counted behind the batch dimension."""

    def shape(dims):
        return f"{dtype}[{','.join(map(str, dims))}]"

    batches = "lhs_batch_dims={0}, rhs_batch_dims={0}, " if batch else ""
    return ingot.parse_hlo(f"""\
HloModule product

ENTRY main {{
  x = {shape(lhs)} parameter(0)
  y = {shape(rhs)} parameter(1)
  ROOT z = {shape(result)} dot(x, y), {batches}lhs_contracting_dims={{{lhs_k + batch}}}, \
rhs_contracting_dims={{{rhs_k + batch}}}
}}
""")


def library_names(executable):
    (kernel,) = executable.inspection.compiled.kernels.compiled.values()
    return [item.name for item in kernel.shared] if kernel.code is None else []


CASES = [
    # m, n, k, batch, lhs is [k, m], rhs is [n, k]
    (64, 64, 64, 0, False, False),
    (64, 64, 64, 0, False, True),
    (15, 33, 1, 0, False, False),
    (128, 128, 64, 3, False, False),
    (600, 700, 1100, 0, False, True),
    (600, 700, 1100, 0, True, False),
    (530, 590, 2050, 0, True, True),
    (100, 256, 1024, 2, True, True),
    # few rows, and a rhs that streams from memory
    (2, 801, 130, 0, False, False),
    (7, 1536, 257, 0, True, False),
    (16, 513, 300, 2, False, False),
    # many products to a sum: pieces of both operands
    (130, 129, 1031, 0, True, False),
    (70, 200, 1500, 0, False, False),
    # crowded rows: both operands are packed
    (515, 700, 1024, 0, False, False),
    (550, 601, 2048, 0, False, True),
    (64, 97, 3072, 0, False, False),
    (70, 101, 1024, 0, False, True),
    # columns that are packed next are fetched: of the next piece of k, of the next unit, none
    (70, 333, 1111, 0, False, False),
    (300, 611, 517, 0, False, False),
    (83, 130, 2100, 2, False, False),
    # few row blocks read long rows of the rhs in short pieces of k
    (45, 1008, 1043, 0, False, False),
    # so they are where the rhs could be read in place
    (101, 10, 1024, 0, False, False),
    (17, 13, 2048, 0, False, False),
    (97, 211, 1024, 0, False, False),
    (65, 67, 1024, 0, False, False),
    # each k of the lhs lies far away: its rows are packed by units, or ahead
    (461, 130, 131, 0, True, False),
    (450, 70, 33, 2, True, False),
    (520, 611, 150, 0, True, False),
    (1050, 140, 1100, 0, True, True),
    (520, 611, 150, 3, True, False),
    (1050, 140, 1100, 2, True, True),
    (461, 67, 300, 3, True, False),
    (450, 41, 257, 2, True, False),
    # few columns, for which lanes run along k
    (130, 2, 100, 0, False, False),
    (300, 3, 260, 2, False, False),
    (300, 3, 260, 2, False, True),
    # a last vector that half the lanes hold
    (40, 18, 73, 0, False, False),
    (33, 37, 40, 2, False, False),
    (20, 66, 9, 0, True, False),
]


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("m", "n", "k", "batch", "left", "right"), CASES)
def test_products_of_every_form(m, n, k, batch, left, right, level, generator):
    outer = (batch,) if batch else ()
    lhs = (*outer, k, m) if left else (*outer, m, k)
    rhs = (*outer, n, k) if right else (*outer, k, n)
    program = module(lhs, rhs, (*outer, m, n), "f32", bool(batch), 1 - left, int(right))
    executable = compile(program, target=TargetSpec.host(level))
    x = generator.standard_normal(lhs, np.float32)
    y = generator.standard_normal(rhs, np.float32)
    wide = [np.swapaxes(a, -1, -2) if turn else a for a, turn in ((x, left), (y, right))]
    expected = np.matmul(wide[0].astype(np.float64), wide[1])
    np.testing.assert_allclose(executable(x, y), expected, atol=2e-5 * k**0.5)


def test_a_plain_product_compiles_no_code_of_its_own():
    names = library_names(compile(module((64, 64), (64, 64), (64, 64))))
    assert names[0] == f"product_{_form_of_host()}"
    again = library_names(compile(module((64, 128), (128, 96), (64, 96))))
    assert again == names


@pytest.mark.parametrize(
    ("m", "n", "k", "words"),
    [
        (400, 700, 512, ["across", "packed", "ahead16", "first"]),
        (100, 128, 512, ["across", "direct"]),
        (1000, 700, 512, ["across", "packed", "ahead16", "first"]),
        (1000, 128, 512, ["across", "direct", "f32", "f32"]),
        (1000, 32, 512, ["across", "direct"]),
        (1000, 2000, 64, ["across", "packed", "ahead16", "first"]),
        (1000, 2000, 32, ["across", "direct", "f32", "f32"]),
    ],
)
def test_an_lhs_whose_steps_are_long_is_packed_where_that_pays(m, n, k, words):
    kernel = build_contraction_kernel(transposed_product(m, n, k))
    found = plain_product(kernel, Vectors(512, 32))
    assert not isinstance(found, str)
    assert found.variant.name.split("_")[1:] == words


@pytest.mark.parametrize(
    ("m", "n", "k", "words"),
    [
        (1000, 700, 512, ["across", "packed", "ahead16", "first"]),
        (512, 64, 512, ["across", "packed", "ahead16", "first"]),
        (512, 64, 128, ["across", "direct", "f32", "f32"]),
        (256, 64, 512, ["across", "direct"]),
    ],
)
def test_several_products_are_packed_ahead_where_that_pays(m, n, k, words):
    kernel = build_contraction_kernel(transposed_product(m, n, k, 8))
    found = plain_product(kernel, Vectors(512, 32))
    assert not isinstance(found, str)
    assert found.variant.name.split("_")[1:] == words


@pytest.mark.parametrize(
    ("m", "n", "k", "words"),
    [
        (64, 768, 3072, ["dense", "packed", "ahead16", "first"]),
        (60, 3000, 1024, ["dense", "packed", "first"]),
        (64, 768, 3000, ["dense", "packed", "first"]),
        (98, 256, 1024, ["dense", "packed", "ahead16", "first"]),
        (98, 256, 1000, ["dense", "packed", "first"]),
        (98, 64, 1000, ["dense", "direct"]),
        (60, 256, 1024, ["dense", "packed", "first"]),
        (500, 32, 4096, ["dense", "packed", "first"]),
        (20, 10, 1024, ["dense", "packed", "ahead", "first"]),
        (300, 40, 1024, ["dense", "direct"]),
    ],
)
def test_crowded_rows_are_packed_where_that_pays(m, n, k, words):
    program = module((m, k), (k, n), (m, n))
    found = plain_product(build_contraction_kernel(program.entry), Vectors(512, 32))
    assert not isinstance(found, str)
    assert found.variant.name.split("_")[1:] == words


@pytest.mark.parametrize(
    ("m", "n", "k", "words"),
    [
        (64, 768, 3072, ["dense", "packed", "first"]),
        (1000, 280, 1024, ["dense", "packed", "first"]),
        (1024, 280, 1024, ["dense", "packed", "ahead16", "first"]),
        # much work
        (128, 768, 3072, ["dense", "packed", "ahead16", "first"]),
        (20, 10, 1024, ["dense", "direct"]),
    ],
)
def test_larger_sets_of_the_l1_cache_suffer_crowded_rows(m, n, k, words):
    program = module((m, k), (k, n), (m, n))
    wide = Vectors(512, 32, l1_ways=12)
    found = plain_product(build_contraction_kernel(program.entry), wide)
    assert not isinstance(found, str)
    assert found.variant.name.split("_")[1:] == words


def transposed_product(m, n, k, batch=0):
    """Return the fused computation of a dot whose lhs is [k, m], or of a batch of them."""
    build = Builder("fused")
    outer, first = ((batch,), (0,)) if batch else ((), ())
    shapes = ((*outer, k, m), (*outer, k, n))
    x, y = (build.parameter(at, Shape.array("f32", dims)) for at, dims in enumerate(shapes))
    along = (len(outer),)
    dot = build.dot(
        x,
        y,
        lhs_batch_dims=first,
        rhs_batch_dims=first,
        lhs_contracting_dims=along,
        rhs_contracting_dims=along,
    )
    return build.build(dot)


def _form_of_host():
    lanes = TargetSpec.host().vector_bits // 32
    return f"f32x{lanes}x2_dense_direct"


EPILOGUES = [
    # one product is no sum
    *(case for case in CASES if case[2] > 1),
    # whole vectors; columns of several units; pieces of k whose sums wait
    (100, 256, 300, 0, False, False),
    (40, 1100, 1500, 0, False, False),
    (300, 1056, 3000, 0, False, True),
]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("m", "n", "k", "batch", "left", "right"), EPILOGUES)
def test_epilogues_of_every_form(m, n, k, batch, left, right, level, generator):
    """Only the epilogue is compiled: a bias and a residual."""
    outer = (batch,) if batch else ()
    lhs = (*outer, k, m) if left else (*outer, m, k)
    rhs = (*outer, n, k) if right else (*outer, k, n)
    result = (*outer, m, n)
    build = Builder("main")
    x, y, r, b = (
        build.parameter(number, Shape.array("f32", dims))
        for number, dims in enumerate((lhs, rhs, result, (n,)))
    )
    first = 1 if batch else 0
    dot = build.dot(
        x,
        y,
        lhs_batch_dims=tuple(range(first)),
        rhs_batch_dims=tuple(range(first)),
        lhs_contracting_dims=(first + 1 - left,),
        rhs_contracting_dims=(first + right,),
    )
    bias = build.broadcast(b, shape=dot.shape, dimensions=(len(result) - 1,))
    total = build.add(build.add(dot, bias), r)
    program = Module.of("epilogue", build.build(total))
    executable = compile(program, target=TargetSpec.host(level))
    (kernel,) = executable.inspection.compiled.kernels.compiled.values()
    assert kernel.code is not None
    assert kernel.code.text.count("\ndefine") == 1
    assert any(item.name.startswith("product_") for item in kernel.shared)
    values = [generator.standard_normal(dims, np.float32) for dims in (lhs, rhs, result, (n,))]
    wide = [
        np.swapaxes(a, -1, -2) if turn else a
        for a, turn in zip(values[:2], (left, right), strict=True)
    ]
    product = np.matmul(wide[0].astype(np.float64), wide[1])
    expected = product + values[3] + values[2]
    np.testing.assert_allclose(executable(*values), expected, atol=2e-5 * k**0.5)


@pytest.mark.parametrize(("m", "n"), [(33, 192), (7, 320), (20, 250), (5, 1000), (3, 17)])
def test_epilogues_that_call_functions(m, n, generator):
    """Several vectors at a time, also where the last are not whole."""
    text = f"""\
HloModule activation

ENTRY main {{
  x = f32[{m},40] parameter(0)
  y = f32[40,{n}] parameter(1)
  z = f32[{m},{n}] parameter(2)
  d = f32[{m},{n}] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  t = f32[{m},{n}] tanh(d)
  ROOT r = f32[{m},{n}] multiply(t, z)
}}
"""
    executable = compile(ingot.parse_hlo(text))
    assert len(executable.kernels) == 1
    x, y, z = (generator.standard_normal(dims, np.float32) for dims in ((m, 40), (40, n), (m, n)))
    expected = np.tanh(x.astype(np.float64) @ y) * z
    np.testing.assert_allclose(executable(x, y, z), expected, atol=1e-5)


def test_doubles(generator):
    executable = compile(module((40, 50), (50, 64), (40, 64), "f64"))
    assert library_names(executable)
    x, y = generator.standard_normal((40, 50)), generator.standard_normal((50, 64))
    np.testing.assert_allclose(executable(x, y), x @ y, atol=1e-13)


def test_one_buffer_as_both_operands(generator):
    text = """\
HloModule square

ENTRY main {
  x = f32[64,64] parameter(0)
  ROOT z = f32[64,64] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
}
"""
    executable = compile(ingot.parse_hlo(text))
    x = generator.standard_normal((64, 64), np.float32)
    np.testing.assert_allclose(executable(x), x @ x, atol=1e-4)


@pytest.mark.parametrize("k", [100, 1100])
def test_sums_are_the_same_to_the_bit_with_an_epilogue(k, generator):
    shapes = (256, k), (k, 96), (256, 96)
    driver = compile(module(*shapes))
    own = compile(
        ingot.parse_hlo(f"""\
HloModule own

ENTRY main {{
  x = f32[256,{k}] parameter(0)
  y = f32[{k},96] parameter(1)
  z = f32[256,96] dot(x, y), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  ROOT w = f32[256,96] negate(z)
}}
""")
    )
    assert library_names(driver)
    assert not library_names(own)
    x = generator.standard_normal((256, k), np.float32)
    y = generator.standard_normal((k, 96), np.float32)
    np.testing.assert_array_equal(driver(x, y), -own(x, y))


WIDE, NARROW = Vectors(512, 32), Vectors(256, 16)


def plan(m, n, k, vectors=WIDE):
    kernel = build_contraction_kernel(product((None, m, n, k)))
    found = plain_product(kernel, vectors)
    return None if isinstance(found, str) else found


@pytest.mark.parametrize(
    ("m", "n", "k", "vectors"),
    [(1, 4096, 4096, 8), (1, 512, 512, 8), (1, 512, 256, 24)],
)
def test_a_row_reads_few_columns_at_once_from_memory(m, n, k, vectors):
    found = plan(m, n, k)
    assert found is not None
    assert found.variant.vectors == vectors


@pytest.mark.parametrize(
    ("m", "n", "k", "rhs"),
    [
        (256, 2, 32, "packed dots"),
        (256, 7, 256, "packed dots"),
        (512, 4, 512, "packed dots"),
        (10, 4, 300, "direct"),
        (256, 2, 8, "direct"),
        (256, 8, 256, "direct"),
    ],
)
def test_lanes_run_along_k_where_columns_are_few(m, n, k, rhs):
    found = plan(m, n, k)
    assert found is not None
    assert found.variant.rhs == rhs


def test_a_last_vector_of_few_columns_has_half_the_lanes():
    found = plan(40, 18, 73)
    assert found is not None
    rest = {micro.name for micro in product_call(found).needed[1:]}
    assert any("_tail8" in name for name in rest)
    found = plan(40, 30, 73)
    assert found is not None
    assert not any("_tail" in micro.name for micro in product_call(found).needed[1:])


@pytest.mark.parametrize(
    ("m", "n", "k", "fetches"),
    [
        (1, 4096, 4096, True),
        (8, 4096, 4096, True),
        (1, 1024, 2049, True),
        (1, 1024, 2048, False),
        (1, 300, 4000, False),
        (14, 200, 20000, False),
        (512, 4096, 4096, False),
    ],
)
def test_few_rows_fetch_long_rows_from_memory(m, n, k, fetches):
    found = plan(m, n, k)
    assert found is not None
    names = {micro.name for micro in product_call(found).needed[1:]}
    assert found.variant.fetches == fetches
    assert all(f"_ahead{L2_ROWS_AHEAD}_" in name for name in names) == fetches
    narrow = plan(m, n, k, NARROW)
    assert narrow is not None
    assert not narrow.variant.fetches


@pytest.mark.parametrize(
    ("m", "n", "k", "waits"),
    [
        (8, 512, 512, True),
        (7, 1536, 257, True),
        (8, 512, 8, False),  # one piece of k
        (3, 256, 2000, False),  # one unit
        (512, 2048, 2048, False),  # packed ahead
    ],
)
def test_sums_wait_where_units_share_rows_of_the_result(m, n, k, waits):
    found = plan(m, n, k, WIDE)
    assert found is not None
    assert (found.value("copied_row") > 0) == waits
    assert found.value("out_row") == (found.value("n_block") if waits else n)


@pytest.mark.parametrize(
    ("m", "n", "k", "blocks"),
    [
        (32, 768, 3072, (384, 160)),
        (64, 1024, 1040, (512, 128)),
        (45, 1008, 1043, (512, 128)),
        (64, 768, 768, None),  # a rhs that the L2 cache nearly holds
        (64, 1001, 1100, None),  # its rows begin within cache lines
        (96, 3072, 768, None),  # more sums than the L2 cache keeps
    ],
)
def test_few_row_blocks_read_long_rows_of_the_rhs(m, n, k, blocks):
    found = plan(m, n, k, WIDE)
    assert found is not None
    chosen = (found.value("n_block"), found.value("k_block"))
    assert (chosen == blocks) if blocks else (chosen[0] < n // 2)


@pytest.mark.parametrize("n", [512, 1024, 4096, 11008])
@pytest.mark.parametrize("m", [1, 2, 3, 4, 5, 6])
def test_few_rows_are_one_register_block_that_reads_the_rhs_once(m, n):
    found = plan(m, n, 2048, NARROW)
    assert found is not None
    assert found.value("row_blocks") == 1


def test_whole_panels_are_read_without_masks():
    for m, n, k in ((512, 1039, 1024), (700, 1021, 700)):
        found = plan(m, n, k)
        assert found is not None
        assert found.variant.has_panels
        names = [micro.name for micro in product_call(found).needed[1:]]
        masks = {name.rsplit("_", 1)[1] for name in names if "_packs" not in name}
        assert any(mask.endswith("s") for mask in masks)
        assert not any("l" in mask for mask in masks)


@pytest.mark.parametrize("m", [1, 3, 9])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_whose_rhs_comes_from_memory(m, dtype, generator):
    n, k = 1500, 1501
    made = compile(module((m, k), (k, n), (m, n), f"f{8 * np.dtype(dtype).itemsize}"))
    x, y = (generator.standard_normal(shape).astype(dtype) for shape in ((m, k), (k, n)))
    y[0, 0], y[1, 1] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        wanted = x.astype(np.float64) @ y.astype(np.float64)
    bound = 1e-12 if dtype == "float64" else 1e-3
    np.testing.assert_allclose(made(x, y), wanted, bound, bound)


@pytest.mark.parametrize("m", [7, 13, 15, 27, 64, 100, 1000, 1024])
def test_row_blocks_cover_all_rows(m):
    found = plan(m, 512, 128)
    assert found is not None
    low, tall = found.heights
    blocks, of_tall = found.value("row_blocks"), found.value("tall_blocks")
    assert of_tall * tall + (blocks - of_tall) * low == m
    assert 6 <= low <= tall <= 14


@pytest.mark.parametrize(("m", "n", "k"), [(1, 512, 128), (4, 512, 128), (512, 10, 128), (9, 1, 7)])
def test_few_rows_and_narrow_columns_run_in_drivers(m, n, k):
    found = plan(m, n, k)
    assert found is not None
    assert found.variant.columns <= 512

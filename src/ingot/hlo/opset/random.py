# SPDX-License-Identifier: Apache-2.0
"""Random ops: bit generators with explicit state, and XLA's older stateful ones.

Source: StableHLO specification `rng_bit_generator`, `rng`; XLA's text attributes.
"""

from __future__ import annotations

from ingot.hlo.dtype import U64
from ingot.hlo.opdef import Codec, OpView, Trait, attribute, define, require
from ingot.hlo.shape import Shape
from ingot.support.records import record

FAMILY = "random"
ALGORITHMS = ("rng_default", "rng_three_fry", "rng_philox")
DISTRIBUTIONS = ("rng_uniform", "rng_normal")


@record
class AlgorithmAttributes:
    """Attributes of `rng-bit-generator`: rng_default, rng_three_fry or rng_philox."""

    algorithm: str = attribute(Codec.NAME)


@record
class DistributionAttributes:
    """Attributes of `rng`: rng_uniform (low, high) or rng_normal (mean, deviation)."""

    distribution: str = attribute(Codec.NAME)


@record
class DeltaAttributes:
    """Attributes of `rng-get-and-update-state`."""

    delta: int = attribute(Codec.INT)


def bits_shape(result: Shape) -> Shape:
    """Return the shape of the bits of `rng-bit-generator`: its second result, or its only one."""
    return result.elements[1] if result.is_tuple else result


def _infer_rng_bit_generator(view: OpView) -> Shape:
    given = view.given()
    (state,) = view.operands
    algorithm = view.attributes.algorithm
    require(algorithm in ALGORITHMS, "rng_bit_generator_i1", f"algorithm {algorithm} is not known")
    pair = given.is_tuple and len(given.elements) == 2 and given.elements[0].compatible(state)
    require(
        pair or given.is_array,
        "rng_bit_generator_c1",
        f"rng-bit-generator of state {state} gives a tuple of it and bits, not {given}",
    )
    bits = bits_shape(given)
    require(
        bits.dtype.is_float or bits.dtype.is_integer,
        "rng_bit_generator_o2",
        f"rng-bit-generator gives integers or floats, not {bits}",
    )
    vector = state.rank == 1 and state.dtype is U64
    require(vector, "rng_bit_generator_i2", f"a state is a vector of u64, not {state}")
    sizes = {"rng_three_fry": (16,), "rng_philox": (16, 24), "rng_default": (16, 24)}
    require(
        state.bytes in sizes[algorithm],
        "rng_bit_generator_c2",
        f"{algorithm} does not take a state {state}",
    )
    return given


def _infer_rng(view: OpView) -> Shape:
    given = view.given()
    first, second, *sizes = view.operands  # StableHLO's third operand repeats the shape
    kind = view.attributes.distribution
    require(kind in DISTRIBUTIONS, "rng_i4", f"distribution {kind} is not known")
    for operand in (first, second):
        require(operand.is_scalar, "rng_i1", f"the parameters of rng are scalars, not {operand}")
        require(
            operand.dtype is given.dtype,
            "rng_c1",
            f"rng of parameters {operand} cannot give {given}",
        )
    require(not given.dtype.is_complex, "rng_i2", f"rng does not give {given}")
    for operand in sizes:
        # XLA does not read it: its own tests give other sizes.
        fits = operand.rank == 1
        require(fits, "rng_c3", f"rng of sizes {operand} cannot give {given}")
    normal = kind == "rng_normal"
    require(not normal or given.dtype.is_float, "rng_c2", f"rng_normal does not give {given}")
    return given


def _infer_state(view: OpView) -> Shape:
    given = view.given()
    fits = given.dtype.name == "u64" and given.dims == (2,)
    require(fits, "rng_get_and_update_state_c1", f"the state is u64[2], not {given}")
    return given


define("rng-bit-generator", family=FAMILY, arity=1, infer=_infer_rng_bit_generator,
       attributes=AlgorithmAttributes, traits={Trait.NEEDS_SHAPE}, spec="rng_bit_generator",
       doc="next state and uniform bits of a counter-based generator")  # fmt: skip
define("rng", family=FAMILY, arity=(2, 3), infer=_infer_rng, attributes=DistributionAttributes,
       traits={Trait.NEEDS_SHAPE, Trait.SIDE_EFFECT},
       doc="random numbers of the module's own generator")  # fmt: skip
define("rng-get-and-update-state", family=FAMILY, arity=0, infer=_infer_state,
       attributes=DeltaAttributes, traits={Trait.NEEDS_SHAPE, Trait.SIDE_EFFECT},
       doc="the module's own generator's state, then moved on by delta")  # fmt: skip

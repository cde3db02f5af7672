# SPDX-License-Identifier: Apache-2.0
"""Number formats: exact conversions between element types, their bits, and where rules compute.

Everything narrower than 32 bits is computed in f32 and rounded once per op, as XLA:CPU does. For
add, subtract, multiply, divide and sqrt that is also the correctly rounded result, since f32 has
more than twice the digits.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ingot.evaluator.registry import Array
from ingot.hlo.dtype import DTYPES, DType, Kind, from_numpy, rounded_to
from ingot.hlo.opset.contraction import summed_type


def element_of(value: Array) -> DType:
    """Return the element type of an array."""
    return from_numpy(value.dtype)


def computed(value: Array) -> Array:
    """Return `value` in the type that arithmetic on it is done in."""
    element = element_of(value)
    if element.is_narrow_float:
        return value.astype(np.float32)
    if element.is_integer and element.bits < 8:
        return value.astype(np.int8 if element.is_signed else np.uint8)
    return value


def doubled(value: Array) -> Array:
    """Return `value` in the widest type of its kind: transcendental functions are rounded once."""
    element = element_of(value)
    if element.is_float:
        return value.astype(np.float64)
    return value.astype(np.complex128) if element.is_complex else value


def rounded(value: Any, element: DType) -> Array:
    """Return a computed value in `element`: floats rounded to nearest even, integers wrapped."""
    array = np.asarray(value)
    if array.dtype == element.numpy:
        return array
    if element.is_integer and element.bits < 8:
        return _wrap_narrow(array, element)
    if element.is_narrow_float:
        return _narrowed(_to_odd(array) if array.dtype == np.float64 else array, element)
    return array.astype(element.numpy)


def _narrowed(array: Array, element: DType) -> Array:
    single = array.astype(np.float32)
    result = rounded_to(element.numpy, single)
    if element.name == "f4e2m1fn":
        # It has no NaN: XLA gives -0 for either sign.
        result = np.where(np.isnan(single), element.numpy.type(-0.0), result)
    return result


def _to_odd(wide: Array) -> Array:
    """Return f64 as f32, an inexact one with its last bit set, so that it rounds right again."""
    single = np.asarray(wide.astype(np.float32))
    size, size_back = np.abs(wide), np.abs(single.astype(np.float64))
    toward_zero = np.where(size_back > size, np.nextafter(single, np.float32(0)), single)
    inexact = (size_back != size) & ~np.isnan(wide)
    bits = toward_zero.view(np.uint32) | inexact.astype(np.uint32)
    return bits.view(np.float32)


def _wrap_narrow(array: Array, element: DType) -> Array:
    low = array.astype(np.int64) & ((1 << element.bits) - 1)
    if element.is_signed:
        low = np.where(low >> (element.bits - 1), low - (1 << element.bits), low)
    return low.astype(element.numpy)


def summed_as(operands: Iterable[Array], element: DType) -> DType:
    """Return the type of sums of products; see `summed_type`."""
    left, right = operands
    return summed_type(element_of(left), element_of(right), element)


def converted(value: Array, target: DType) -> Array:
    """Return `convert`: to integers saturating (NaN to 0), between integers wrapping."""
    source = element_of(value)
    if source is target:
        return value
    if source.is_complex and not target.is_complex:
        return converted(np.real(value), target)
    if target.kind is Kind.PRED:
        return np.asarray(computed(value) != 0)
    if source.kind is Kind.PRED:
        return rounded(value.astype(np.int32), target)
    if source.is_float and target.is_integer:
        return _float_to_integer(value.astype(np.float64), target)
    return rounded(computed(value), target)


def _float_to_integer(value: Array, target: DType) -> Array:
    low, high = integer_range(target)
    wide = np.int64 if target.is_signed else np.uint64
    # high + 1 is a power of two, so it is exact in f64 where high itself may not be.
    inside = (value > float(low) - 1) & (value < float(high + 1))
    result = np.where(inside, value, 0).astype(wide)
    result = np.where(value >= float(high + 1), wide(high), result)
    result = np.where(value <= float(low), wide(low), result)
    return rounded(result, target)


def integer_range(element: DType) -> tuple[int, int]:
    """Return the least and greatest value of an integer type."""
    if element.is_signed:
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    return 0, (1 << element.bits) - 1


def bits_of(value: Array) -> Array:
    """Return the bits of each element, least significant first, in a new last dimension."""
    element = element_of(value)
    raw = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
    octets = raw.reshape(*value.shape, value.dtype.itemsize)
    return np.unpackbits(octets, axis=-1, bitorder="little")[..., : element.bits]


def from_bits(bits: Array, element: DType) -> Array:
    """Return the elements whose bits are in the last dimension; inverse of `bits_of`."""
    if element.is_integer and element.bits < 8:
        unsigned = (bits.astype(np.int64) << np.arange(element.bits)).sum(axis=-1)
        return _wrap_narrow(unsigned, element)
    octets = np.packbits(bits, axis=-1, bitorder="little")
    return np.ascontiguousarray(octets).view(element.numpy).reshape(bits.shape[:-1])


def unsigned_view(value: Array) -> Array:
    """Return the bits of each element as an unsigned number of the same width (8 at least)."""
    element = element_of(value)
    if element.bits < 8:
        return from_bits(bits_of(value), DTYPES[f"u{element.bits}"]).astype(np.uint8)
    contiguous = np.ascontiguousarray(value).reshape(value.shape)
    return contiguous.view(f"u{value.dtype.itemsize}")


def total_order_key(value: Array) -> Array:
    """Return integers that order floats totally: -NaN < -inf < … < -0 < +0 < … < inf < NaN."""
    element = element_of(value)
    if element.bits <= 8:
        return _byte_order_key(unsigned_view(value), element)
    bits = unsigned_view(value)
    width = bits.dtype.itemsize * 8
    signed = bits.view(f"i{bits.dtype.itemsize}")
    flip = (signed >> (width - 1)) & ((1 << (width - 1)) - 1)
    return np.asarray(signed ^ flip)


def _byte_order_key(bits: Array, element: DType) -> Array:
    numbers = bits.astype(np.int32)
    if element.name == "f8e8m0fnu":
        return numbers  # has no sign
    sign = 1 << (element.bits - 1)
    key = np.where(numbers < sign, numbers, sign - 1 - numbers)
    if element.name.endswith("fnuz"):
        # The pattern of -0 is NaN, with the sign bit set.
        key = np.where(numbers == sign, -sign - 1, key)
    return key


def narrowed(value: Array, element: DType) -> Array:
    """Return an array that was computed in a wider type in `element`."""
    return rounded(value, element) if element.is_float else value.astype(element.numpy)


def sums_of_products(subscripts: str, left: Array, right: Array) -> Array:
    """Return `np.einsum` of two arrays, with zeros for sums of no products.

    NumPy 2.4.6 now and then gives NaN for those: it reads memory that holds no element.
    """
    sums: Array = np.einsum(subscripts, left, right)
    return sums if left.size and right.size else np.zeros_like(sums)

# SPDX-License-Identifier: Apache-2.0
"""Values in registers: loads, indices, expressions, elementwise ops, conversions, element types."""

"""Values in registers: loads, indices, expressions, elementwise ops, conversions, element types."""

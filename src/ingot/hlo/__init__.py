"""HLO: the one IR. Shapes, instructions, computations, modules, the op table, the verifier."""

# SPDX-License-Identifier: Apache-2.0
"""HLO: the one IR. Shapes, instructions, computations, modules, the op table, the verifier.

What custom calls and attributes mean to later stages is the layer above, `semantics`.
"""
